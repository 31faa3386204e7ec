"""``spans="annotate"``: none opened, each verdict on exactly one span of those that others open.

The others are plain SDK spans here, opened round the call, inside it, or not at all; the real ones
are in `tests/beside`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import StatusCode

import otelhooks
from otelhooks import errors, hooks, policy, types
from otelhooks.records import semconv

NO_DELETES = policy.deny("delete", id="no_deletes")
RULES = (NO_DELETES, policy.allow("search"))


@pytest.fixture
def theirs(tracer_provider):
    return tracer_provider.get_tracer("theirs")


@pytest.fixture
def tools(theirs):
    """Tools whose bodies are traced by others: a span in each."""
    ran: list[str] = []

    @otelhooks.tool
    def search(query: str) -> str:
        ran.append("search")
        with theirs.start_as_current_span("lookup"):
            return query

    @otelhooks.tool
    def delete(title: str) -> str:
        ran.append("delete")
        return title

    @otelhooks.tool
    def traced(query: str) -> str:
        with theirs.start_as_current_span("execute_tool traced"):
            return query

    made = {"search": search, "delete": delete, "traced": traced}
    return dataclasses.make_dataclass("Tools", [*made, "ran"])(*made.values(), ran)


@pytest.fixture
def on(providers):
    def start(*rules: Any, **settings: Any) -> Any:
        settings.setdefault("spans", "annotate")
        return otelhooks.instrument(
            policies=list(rules or RULES),
            frameworks=settings.pop("frameworks", []),
            **settings,
            **providers,
        )

    return start


def refused(call: Any, *args: Any) -> None:
    with pytest.raises(errors.Denied):
        call(*args)


def decisions(exporter) -> dict[str, list[str]]:
    """Return the verdicts that each finished span carries: in its attributes, in its events."""
    found: dict[str, list[str]] = {}
    for span in exporter.get_finished_spans():
        assert span.instrumentation_scope.name != semconv.SCOPE_NAME
        told = [span.attributes.get(semconv.POLICY_DECISION)]
        shared = [event.attributes[semconv.POLICY_DECISION] for event in span.events]
        found[span.name] = shared or [one for one in told if one]
    return found


def named(exporter, name: str) -> Any:
    (span,) = [span for span in exporter.get_finished_spans() if span.name == name]
    return span


class TestWhereAVerdictGoes:
    @pytest.mark.parametrize(
        ("name", "attributes"),
        [
            ("execute_tool delete", {semconv.GEN_AI_OPERATION_NAME: "execute_tool"}),
            ("delete", {}),
            ("delete.tool", {}),
            ("Function: {name}", {"name": "delete"}),
            ("FunctionTool.call", {"tool.name": "delete"}),
            ("delete.task", {"traceloop.entity.name": "delete"}),
            ("running a tool", {semconv.GEN_AI_TOOL_NAME: "delete"}),
            ("tools/call delete", {}),
        ],
    )
    def test_the_current_span_that_names_the_call_carries_it_and_failed(
        self, on, tools, theirs, exporter, name, attributes
    ):
        on()
        with theirs.start_as_current_span(name, attributes=attributes):
            refused(tools.delete, "x")
        span = named(exporter, name)
        assert span.attributes[semconv.POLICY_RULE_ID] == NO_DELETES.id
        assert span.attributes[semconv.ERROR_TYPE] == "policy_denied"
        assert span.status.status_code is StatusCode.ERROR
        assert decisions(exporter) == {name: ["deny"]}
        assert tools.ran == []

    def test_a_span_that_starts_inside_the_call_and_names_it_carries_it(
        self, on, tools, theirs, exporter
    ):
        on(policy.allow("traced", name="fine"))
        with theirs.start_as_current_span("agent"):
            tools.traced("x")
        assert decisions(exporter) == {"execute_tool traced": ["allow"], "agent": []}

    def test_else_the_span_around_carries_it_which_does_not_fail(self, on, tools, theirs, exporter):
        on()
        with theirs.start_as_current_span("POST /chat"):
            tools.search("x")
            refused(tools.delete, "x")
        assert decisions(exporter) == {"lookup": [], "POST /chat": ["allow", "deny"]}
        around = named(exporter, "POST /chat")
        assert around.status.status_code is StatusCode.UNSET
        assert semconv.ERROR_TYPE not in around.attributes

    def test_the_strictest_verdict_of_a_span_stands_whichever_came_last(
        self, on, tools, theirs, exporter
    ):
        on()
        with theirs.start_as_current_span("POST /chat"):
            refused(tools.delete, "x")
            tools.search("x")
        around = named(exporter, "POST /chat")
        assert around.attributes[semconv.POLICY_DECISION] == "deny"
        assert around.attributes[semconv.POLICY_RULE_ID] == NO_DELETES.id
        events = [event.attributes[semconv.GEN_AI_TOOL_NAME] for event in around.events]
        assert events == ["delete", "search"]

    @pytest.mark.parametrize(
        ("name", "attributes"),
        [
            ("GET /chat", {"http.query": "delete"}),
            ("Agent run: {name!r}", {"name": "delete"}),
            ("response", {"llm.output_messages.0.message.tool_calls.0.name": "delete"}),
            ("DROP delete", {}),
            ("delete.rows", {}),
            ("workflow", {"tool.name": "search"}),
        ],
    )
    def test_a_span_that_only_mentions_the_tools_name_does_not_fail(
        self, on, tools, theirs, exporter, name, attributes
    ):
        """The class: whatever else has the value of the tool's name, text of a user among it."""
        on()
        with theirs.start_as_current_span(name, attributes=attributes):
            refused(tools.delete, "x")
        span = named(exporter, name)
        assert span.status.status_code is StatusCode.UNSET
        assert [event.name for event in span.events] == [semconv.EVENT_POLICY_DECISION]

    @pytest.mark.parametrize("last", ["bad", "good"])
    def test_a_span_that_names_several_calls_carries_the_strictest_verdict(
        self, on, tools, theirs, exporter, last
    ):
        """The class: a later allow does not make a deny disappear, nor the other way round."""
        on(policy.deny("search", when=lambda args: args["query"] == "bad", id="no_bad"))
        with theirs.start_as_current_span("search"):
            for query in ["good", "bad"] if last == "bad" else ["bad", "good"]:
                with contextlib.suppress(errors.Denied):
                    tools.search(query)
        span = named(exporter, "search")
        assert span.attributes[semconv.POLICY_DECISION] == "deny"
        assert span.attributes[semconv.POLICY_RULE_ID] == "no_bad"
        assert span.attributes[semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED
        assert span.status.status_code is StatusCode.ERROR
        found = [event.attributes[semconv.POLICY_DECISION] for event in span.events]
        assert found == (["allow", "deny"] if last == "bad" else ["deny", "allow"])

    def test_a_result_kept_back_does_not_replace_the_verdict_of_another_call(
        self, on, tools, theirs, exporter
    ):
        @hooks.post_tool_call_transform
        def keep_back(result: types.ToolResult) -> types.HookResult:
            return types.HookResult(allow=False, message="kept back")

        bad = policy.deny("search", when=lambda args: args["query"] == "bad", id="no_bad")
        on(bad, hooks=[keep_back])
        with theirs.start_as_current_span("search"):
            refused(tools.search, "bad")
            with contextlib.suppress(errors.Denied):
                tools.search("good")
        assert named(exporter, "search").attributes[semconv.POLICY_RULE_ID] == "no_bad"

    def test_an_agent_named_like_the_tool_is_not_its_span(self, on, tools, theirs, exporter):
        on()
        attributes = {semconv.GEN_AI_OPERATION_NAME: "invoke_agent", "x": "delete"}
        with theirs.start_as_current_span("invoke_agent delete", attributes=attributes):
            refused(tools.delete, "x")
        assert named(exporter, "invoke_agent delete").status.status_code is StatusCode.UNSET

    def test_a_nested_call_does_not_take_the_span_of_the_outer_one(
        self, on, tools, theirs, exporter
    ):
        @otelhooks.tool
        def outer(query: str) -> str:
            tools.traced(query)
            with theirs.start_as_current_span("execute_tool outer"):
                return query

        rules = [policy.allow("outer", id="out"), policy.allow("traced", id="in")]
        on(*rules)
        outer("x")
        found = {
            s.name: s.attributes[semconv.POLICY_RULE_ID] for s in exporter.get_finished_spans()
        }
        names = ["execute_tool outer", "execute_tool traced"]
        assert found == dict(zip(names, [rule.id for rule in rules], strict=True))

    def test_the_attempt_to_mark_a_denied_call_as_a_success_is_refused(
        self, on, tools, theirs, exporter
    ):
        """Traceloop and OpenInference mark each span so, as they end it."""
        for mode in ("annotate", "auto"):
            on(spans=mode)
            attributes = {semconv.GEN_AI_OPERATION_NAME: "execute_tool"}
            with theirs.start_as_current_span("delete.tool", attributes=attributes) as span:
                refused(tools.delete, "x")
                span.set_status(trace.Status(StatusCode.OK))
                span.set_status(StatusCode.OK)
            otelhooks.uninstrument()
        for span in exporter.get_finished_spans():
            assert span.status.status_code is StatusCode.ERROR

    def test_an_unset_status_of_denied_calls_holds_here_too(self, on, tools, theirs, exporter):
        on(denied_span_status="unset")
        with theirs.start_as_current_span("delete"):
            refused(tools.delete, "x")
        assert named(exporter, "delete").status.status_code is StatusCode.UNSET


class TestWithoutASpan:
    @pytest.mark.parametrize("sampled", [None, False])
    def test_counts_events_and_records_carry_the_verdict(
        self, on, tools, exporter, metrics_reader, log_exporter, tmp_path, sampled
    ):
        on(audit=tmp_path / "audit")
        dropped = trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False))
        with contextlib.ExitStack() as stack:
            if sampled is False:
                stack.enter_context(trace.use_span(dropped))
            refused(tools.delete, "x")
        assert exporter.get_finished_spans() == ()
        [event] = [record.log_record for record in log_exporter.get_finished_logs()]
        assert event.attributes[semconv.POLICY_RULE_ID] == NO_DELETES.id
        data = metrics_reader.get_metrics_data()
        values = {
            metric.name: [point.value for point in metric.data.data_points]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == semconv.METRIC_POLICY_DENIES
        }
        assert values == {semconv.METRIC_POLICY_DENIES: [1]}
        otelhooks.uninstrument()
        lines = [
            t for file in (tmp_path / "audit").iterdir() for t in file.read_text().splitlines()
        ]
        records = [json.loads(line) for line in lines]
        assert [one["rule_id"] for one in records if one.get("rule_id")] == [NO_DELETES.id]

    def test_a_span_of_others_that_raises_stops_no_call_and_no_deny(self, on, tools, theirs):
        class Broken(trace.NonRecordingSpan):
            def is_recording(self) -> bool:
                raise RuntimeError("broken")

        on()
        with trace.use_span(Broken(trace.SpanContext(1, 2, is_remote=False))):
            assert tools.search("x") == "x"
            refused(tools.delete, "x")


class TestWhatIsLeftToOthers:
    def test_metrics_of_calls_are_theirs_and_verdicts_are_ours(
        self, on, tools, theirs, metrics_reader
    ):
        on()
        with otelhooks.session("s", trace="single"), theirs.start_as_current_span("agent"):
            tools.search("x")
            refused(tools.delete, "x")
        data = metrics_reader.get_metrics_data()
        names = {m.name for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
        assert not [name for name in names if name.startswith("gen_ai.")]
        assert semconv.METRIC_POLICY_DECISIONS in names

    def test_questions_have_no_spans_of_their_own(self, on, tools, theirs, exporter):
        on(policy.ask_user("search", handler=lambda call: True))
        with theirs.start_as_current_span("search"):
            tools.search("x")
        assert set(decisions(exporter)) == {"search", "lookup"}
        attributes = named(exporter, "search").attributes
        assert attributes[semconv.APPROVAL_STATUS] == "approved"
        assert attributes[semconv.POLICY_DECISION] == "ask"

    def test_a_result_kept_back_is_told_on_the_span_that_is_still_open(
        self, on, tools, theirs, exporter
    ):
        @hooks.post_tool_call_transform
        def keep_back(result: types.ToolResult) -> types.HookResult:
            return types.HookResult(allow=False, message="kept back")

        on(policy.allow("traced"), hooks=[keep_back])
        with theirs.start_as_current_span("agent"):
            tools.traced("x")
        [allowed] = [s for s in exporter.get_finished_spans() if s.name == "execute_tool traced"]
        assert allowed.attributes[semconv.POLICY_DECISION] == "allow"
        assert named(exporter, "agent").attributes[semconv.WITHHELD] is True


class TestSettings:
    def test_the_variable_says_the_same(self, on, tools, exporter, monkeypatch, providers):
        monkeypatch.setenv("OTELHOOKS_SPANS", "annotate")
        otelhooks.instrument(policies=list(RULES), frameworks=[], **providers)
        refused(tools.delete, "x")
        assert exporter.get_finished_spans() == ()

    def test_a_provider_is_watched_once_however_often_it_is_used(self, on):
        for _ in range(3):
            handle = on()
            otelhooks.uninstrument()
        processors = handle._providers.tracer_provider._active_span_processor._span_processors
        assert [type(one).__name__ for one in processors].count("_Watch") == 1

    def test_other_modes_watch_no_provider(self, on, tracer_provider):
        on(spans="auto")
        processors = tracer_provider._active_span_processor._span_processors
        assert "_Watch" not in [type(one).__name__ for one in processors]
        assert isinstance(tracer_provider, TracerProvider)
