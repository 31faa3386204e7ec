"""The spans that the client anthropic opens itself, beside those of otelhooks."""

from __future__ import annotations

import inspect
from typing import Any

import anthropic
import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

import otelhooks
from otelhooks.records import semconv
from otelhooks.store.totals import add_up
from tests.frameworks import model_double, test_clients_anthropic
from tests.frameworks.loops import DANGER, DENY, SAFE, Tools
from tests.frameworks.model_double import Double, served

if "open_telemetry" not in inspect.signature(anthropic.Anthropic).parameters:
    pytest.skip("this version opens no spans", allow_module_level=True)

PATHS = [pytest.param(path.loop, id=path.name) for path in test_clients_anthropic.PATHS]
RUNNERS = ["runner", "runner_stream", "runner_async"]
NATIVE = "anthropic.messages.create"
ASKED: Any = {"model": "small", "max_tokens": 9, "messages": [{"role": "user", "content": "begin"}]}


@pytest.fixture
def model():
    with served() as double:
        double.steps = [["Let me see.", DANGER, SAFE], "done"]
        yield double


@pytest.fixture(autouse=True)
def their_spans(tracer_provider):
    trace.set_tracer_provider(tracer_provider)


def names(spans: Any) -> list[str]:
    return sorted(span.name for span in spans)


def failed(spans: Any) -> list[str]:
    return [span.name for span in spans if span.status.status_code is StatusCode.ERROR]


def used(spans: Any) -> Any:
    """Return the tokens of spans, as the commands add them up."""
    parents = [f"{span.parent.span_id}" if span.parent else None for span in spans]
    return add_up(
        (f"{span.context.span_id}", parent, span.attributes)
        for span, parent in zip(spans, parents, strict=True)
    )


@pytest.mark.parametrize("loop", PATHS)
@pytest.mark.parametrize("rules", [(), DENY], ids=["no rules", "rules"])
class TestEachPath:
    def test_a_model_call_has_one_span(self, rules, loop, model, with_rules, exporter):
        with_rules(*rules)
        assert loop(model, Tools()) == "done"
        spans = exporter.get_finished_spans()
        asked = [s for s in spans if s.attributes.get("gen_ai.operation.name") == "chat"]
        assert names(asked) == ["chat small"] * len(model.requests)
        assert failed(asked) == []
        assert used(spans).input_tokens == 7 * len(model.requests)

    @pytest.mark.parametrize("spans", ["own", "annotate", "off"])
    def test_otherwise_the_client_sees_the_end(
        self, rules, loop, spans, model, with_rules, exporter
    ):
        with_rules(*rules, spans=spans)
        assert loop(model, Tools()) == "done"
        found = exporter.get_finished_spans()
        theirs = [span for span in found if span.name == NATIVE]
        assert len(theirs) == len(model.requests)
        assert failed(theirs) == []
        if spans == "own":
            assert used(found).input_tokens == 7 * len(model.requests)


@pytest.mark.parametrize("name", RUNNERS)
def test_a_runner_inside_an_agent_is_no_agent_of_its_own(name, model, with_rules, exporter):
    with_rules(*DENY)
    run = otelhooks.agent("tidy")(
        lambda said: getattr(test_clients_anthropic, name)(model, Tools())
    )
    assert run("begin") == "done"
    spans = exporter.get_finished_spans()
    (root,) = [span for span in spans if span.parent is None]
    assert root.name == "invoke_agent tidy"
    below = [span for span in spans if span is not root and "execute_tool" not in span.name]
    assert "chat small" in names(below)
    assert {span.parent.span_id for span in below} == {root.context.span_id}
    assert not any("tool_runner" in name for name in names(spans))


def test_a_runner_outside_any_agent_keeps_its_span(model, with_rules, exporter):
    with_rules(*DENY)
    assert test_clients_anthropic.runner(model, Tools()) == "done"
    (root,) = [span for span in exporter.get_finished_spans() if span.parent is None]
    assert root.name == "anthropic.messages.tool_runner"


def test_the_request_carries_the_span_that_is_recorded(model, with_rules, exporter):
    with_rules()
    sent: list[str] = []
    hooks: Any = {"request": [lambda request: sent.append(request.headers["traceparent"])]}
    http = anthropic.DefaultHttpxClient(event_hooks=hooks)
    with anthropic.Anthropic(base_url=model.url, api_key="k", http_client=http) as client:
        client.messages.create(**ASKED)
    [span] = exporter.get_finished_spans()
    assert f"{span.context.span_id:016x}" in sent[0]


def test_a_framework_s_model_call_has_one_span(model, with_rules, exporter):
    with_rules()

    @otelhooks.model_call(model="small", provider="anthropic")
    def ask(messages: Any) -> Any:
        with test_clients_anthropic.client_of(model) as client:
            return client.messages.create(**ASKED)

    ask([])
    assert names(exporter.get_finished_spans()) == ["chat small"]


def test_other_requests_keep_their_spans(model, with_rules, exporter):
    with_rules()

    @otelhooks.model_call(model="small", provider="anthropic")
    def ask(messages: Any) -> Any:
        with test_clients_anthropic.client_of(model) as client:
            return client.messages.with_raw_response.count_tokens(
                model="small", messages=ASKED["messages"]
            )

    ask([])
    assert "anthropic.messages.count_tokens" in names(exporter.get_finished_spans())


def test_a_stream_that_the_provider_cuts_off_still_fails(
    model: Double, with_rules, exporter, monkeypatch
):
    whole, events = model_double._FORMS["/messages"]
    cut = whole, lambda made: list(events(made))[:-1]
    monkeypatch.setitem(model_double._FORMS, "/messages", cut)
    with_rules(spans="own")
    with test_clients_anthropic.client_of(model) as client:
        list(client.messages.create(**ASKED, stream=True))
    [native] = [span for span in exporter.get_finished_spans() if span.name == NATIVE]
    assert native.attributes[semconv.ERROR_TYPE] == "api_error"
