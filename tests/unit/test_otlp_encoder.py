"""Spans are encoded as the SDK does it, byte for byte, or by the SDK itself."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as encode_by_sdk
from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as sdk_grpc
from opentelemetry.exporter.otlp.proto.http import trace_exporter as sdk_http
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceState

from otelhooks.telemetry import otlp_encoder, otlp_grpc, otlp_http

PLAIN = (
    st.text(max_size=80)
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.lists(st.text(max_size=9)).map(tuple)
    | st.lists(st.booleans(), max_size=3).map(tuple)
    | st.lists(st.integers(-2, 2**40), max_size=3).map(tuple)
    | st.lists(st.floats(), max_size=3).map(tuple)
)
SURROGATES = st.text(st.characters(categories=["Cs", "Ll"]), max_size=3)
ODD = PLAIN | st.binary(max_size=3) | st.none() | st.integers(2**63, 2**70) | SURROGATES
VALUES = PLAIN | st.lists(ODD, max_size=3) | st.dictionaries(st.text(max_size=2), ODD, max_size=2)
ATTRIBUTES = st.dictionaries(st.sampled_from(["a", "b", "gen_ai.tool.name", "é", ""]), PLAIN | ODD)
CONTEXTS = st.builds(
    SpanContext,
    trace_id=st.integers(0, 2**128 - 1),
    span_id=st.integers(0, 2**64 - 1),
    is_remote=st.booleans(),
    trace_state=st.sampled_from([None, TraceState([("a", "b")])]),
)
TIMES = st.integers(0, 2**64 - 1)
NAMES = st.sampled_from(["", "chat m", "execute_tool search", "é" * 200])
RESOURCES = [
    Resource.get_empty(),
    Resource({"service.name": "a", "n": 1}),
    Resource({"service.name": "a", "n": 1}),  # an equal one
    Resource({"service.name": "b"}, "https://a/schema"),
]
SCOPES = [
    None,
    InstrumentationScope("otelhooks", "1"),
    InstrumentationScope("otelhooks", "1"),
    InstrumentationScope("otelhooks", "1", "https://a/schema", {"mode": "enforce", "n": 1}),
    InstrumentationScope(""),
]


@st.composite
def bounded(draw: st.DrawFn, items: Any) -> BoundedList:
    """Return what a span holds its events and links in, some dropped."""
    return BoundedList.from_seq(draw(st.sampled_from([None, 0, 1])), draw(items))


EVENTS = bounded(st.lists(st.builds(Event, NAMES, st.none(), TIMES), max_size=2))
LINKS = bounded(st.lists(st.builds(Link, CONTEXTS), max_size=2))
SPANS = st.builds(
    ReadableSpan,
    name=NAMES,
    context=CONTEXTS,
    parent=st.none() | CONTEXTS,
    resource=st.sampled_from(RESOURCES),
    attributes=st.builds(
        BoundedAttributes,
        st.sampled_from([None, 1]),
        ATTRIBUTES | st.none(),
        max_value_len=st.none(),
    ),
    events=st.builds(BoundedList, st.none()) | EVENTS,
    links=st.builds(BoundedList, st.none()) | LINKS,
    kind=st.sampled_from(SpanKind),
    status=st.builds(Status)
    | st.builds(Status, st.just(StatusCode.ERROR), st.sampled_from([None, "", "why"]))
    | st.just(Status(StatusCode.OK)),
    start_time=st.none() | TIMES,
    end_time=st.none() | TIMES,
    instrumentation_scope=st.sampled_from(SCOPES),
)


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Both the SDK and its encoder log each attribute that cannot be encoded."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@given(st.lists(SPANS, max_size=4))
def test_a_batch_is_encoded_as_the_sdk_does_it(spans: list[ReadableSpan]) -> None:
    theirs = encode_by_sdk(spans).SerializePartialToString()
    assert otlp_encoder.encode_spans(spans).SerializePartialToString() == theirs
    assert otlp_encoder.encode_for_http(spans).SerializePartialToString() == theirs


@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), min_size=1, max_size=3))
def test_attributes_of_the_application_are_encoded_as_the_sdk_does_it(given: list[Any]) -> None:
    spans = recorded(lambda tracer: [tracer.start_span("s", attributes=a).end() for a in given])
    theirs = encode_by_sdk(spans).SerializePartialToString()
    assert otlp_encoder.encode_spans(spans).SerializePartialToString() == theirs
    assert otlp_encoder.encode_for_http(spans).SerializePartialToString() == theirs


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, True), (0, False), (1, 1.0), (0.0, -0.0), ((1,), (True,)), ((0.0,), (-0.0,)), ((), "")],
)
def test_values_that_are_equal_are_not_taken_for_each_other(first: Any, second: Any) -> None:
    for value in (first, second, first):
        spans = [span_with({"a": value})]
        ours = otlp_encoder.encode_spans(spans)
        assert ours.SerializePartialToString() == encode_by_sdk(spans).SerializePartialToString()


def recorded(work: Callable[[Any], object], **options: Any) -> list[ReadableSpan]:
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    work(provider.get_tracer("tests"))
    return list(memory.get_finished_spans())


def span_with(attributes: dict[str, Any]) -> ReadableSpan:
    (span,) = recorded(lambda tracer: tracer.start_span("s", attributes=attributes).end())
    return span


@pytest.fixture
def sdk_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many spans the SDK's encoder got, call by call."""
    assert otlp_encoder._agrees_with_sdk()
    calls: list[int] = []

    def counted(spans: Any) -> Any:
        calls.append(len(spans))
        return encode_by_sdk(spans)

    monkeypatch.setattr(otlp_encoder, "encode_by_sdk", counted)
    return calls


def run(tracer: Any) -> None:
    """Make a turn with a model call and a denied tool call below it."""
    with tracer.start_as_current_span("invoke_agent a"):
        attributes = {"gen_ai.usage.input_tokens": 5, "gen_ai.response.finish_reasons": ["stop"]}
        tracer.start_span("chat m", kind=SpanKind.CLIENT, attributes=attributes).end()
        denied = tracer.start_span("execute_tool t")
        denied.set_status(StatusCode.ERROR, "no")
        denied.end()


def test_spans_of_a_run_need_no_encoder_of_the_sdk(sdk_calls: list[int]) -> None:
    spans = recorded(run)
    encoded = otlp_encoder.encode_spans(spans)
    assert not sdk_calls
    assert encoded == encode_by_sdk(spans)


def test_only_the_span_with_an_event_goes_through_the_sdk(sdk_calls: list[int]) -> None:
    spans = recorded(lambda tracer: (run(tracer), eventful(tracer), run(tracer)))
    encoded = otlp_encoder.encode_spans(spans)
    assert sdk_calls == [1]
    assert encoded == encode_by_sdk(spans)


def eventful(tracer: Any) -> None:
    span = tracer.start_span("s")
    span.add_event("e", {"a": 1})
    span.end()


def test_what_the_span_limits_dropped_is_counted(sdk_calls: list[int]) -> None:
    limits = SpanLimits(max_attributes=1)
    spans = recorded(
        lambda t: t.start_span("s", attributes={"a": 1, "b": 2}).end(), span_limits=limits
    )
    assert otlp_encoder.encode_spans(spans) == encode_by_sdk(spans)
    assert sdk_calls == [1]


def test_a_span_that_shows_other_attributes_than_it_has_is_encoded_as_it_shows_itself() -> None:
    class Redacted(ReadableSpan):
        @property
        def attributes(self) -> Any:
            return {"a": "[REDACTED]"}

    context = SpanContext(1, 2, is_remote=False)
    span = Redacted("s", context, attributes=BoundedAttributes(attributes={"a": "secret"}))
    assert b"secret" not in otlp_encoder.encode_spans([span]).SerializeToString()


def test_long_texts_and_a_multitude_of_values_or_keys_are_not_kept() -> None:
    attributes = [{"long": "x" * 200}, *({"id": f"{n}", f"k{n}": "v"} for n in range(1_000))]
    otlp_encoder.encode_spans([span_with(each) for each in attributes])
    kept = otlp_encoder._kept
    assert len(kept) <= 256
    assert max(map(len, kept.values())) <= 128
    assert "x" * 200 not in kept["long"]


def test_a_multitude_of_numbers_is_not_kept() -> None:
    otlp_encoder.encode_spans([span_with({"number": number}) for number in range(1_000)])
    assert len(otlp_encoder._kept["number"]._integers) <= 128


def test_text_that_cannot_be_encoded_costs_no_other_span_of_the_batch() -> None:
    def run(tracer: Any) -> None:
        tracer.start_span("one").end()
        odd = tracer.start_span("bad \ud800", attributes={"a": "\ud800"})
        odd.add_event("e\ud800", {"b": "\ud800"})
        odd.set_status(StatusCode.ERROR, "not \ud800")
        odd.end()

    for encoder in (otlp_encoder.encode_spans, otlp_encoder.encode_for_http):
        (resource_spans,) = encoder(recorded(run)).resource_spans
        one, odd = resource_spans.scope_spans[0].spans
        assert (one.name, odd.name) == ("one", r"bad \ud800")
        assert (odd.status.message, odd.attributes[0].value.string_value) == (
            r"not \ud800",
            r"\ud800",
        )
        assert odd.events[0].name == r"e\ud800"


def test_a_request_for_http_can_be_copied() -> None:
    request = otlp_encoder.encode_for_http(recorded(run))
    for copied in (copy.copy(request), copy.deepcopy(request)):
        assert copied.SerializePartialToString() == request.SerializePartialToString()


def test_a_request_for_http_has_whatever_else_a_release_of_the_sdk_may_ask_for() -> None:
    spans = recorded(run)
    assert otlp_encoder.encode_for_http(spans).ByteSize() == encode_by_sdk(spans).ByteSize()


# --- Failing open ---------------------------------------------------------------------------------


@pytest.fixture
def asked_again() -> Iterator[None]:
    otlp_encoder._agrees_with_sdk.cache_clear()
    yield
    otlp_encoder._agrees_with_sdk.cache_clear()


def changed(spans: Any) -> Any:
    """Encode as a later SDK might: with further flags."""
    request = encode_by_sdk(spans)
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.flags |= 1
    return request


def unreadable(spans: Any) -> Any:
    request = encode_by_sdk(spans)
    del request.resource_spans[:]
    return request


@pytest.mark.parametrize("encoder", [changed, unreadable])
def test_an_sdk_that_encodes_otherwise_is_left_to_do_so(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    asked_again: None,
    encoder: Callable[[Any], Any],
) -> None:
    logging.disable(logging.NOTSET)
    monkeypatch.setattr(otlp_encoder, "encode_by_sdk", encoder)
    spans = recorded(run)
    for _ in range(2):
        assert otlp_encoder.encode_spans(spans) == encoder(spans)
    (record,) = caplog.records
    assert "encoded by the SDK" in record.getMessage()


def test_an_encoder_that_fails_is_replaced_by_that_of_the_sdk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*args: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(otlp_encoder, "_resource_spans", failing)
    spans = recorded(run)
    assert otlp_encoder.encode_spans(spans) == encode_by_sdk(spans)


# --- Exporters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_exporter_can_be_named_in_a_variable(protocol: str) -> None:
    (entry,) = entry_points(
        group="opentelemetry_traces_exporter", name=f"otelhooks_otlp_{protocol}"
    )
    exporter = entry.load()
    base = {"http": sdk_http, "grpc": sdk_grpc}[protocol].OTLPSpanExporter
    assert issubclass(exporter, base)


class Keeping(requests.adapters.HTTPAdapter):
    """Keeps what is sent."""

    def __init__(self, sent: list[bytes]) -> None:
        super().__init__()
        self._sent = sent

    def send(self, request: Any, *args: Any, **kwargs: Any) -> requests.Response:
        self._sent.append(request.body)
        response = requests.Response()
        response.status_code = 200
        return response


def test_the_http_exporter_sends_what_that_of_the_sdk_sends(sdk_calls: list[int]) -> None:
    sent: list[bytes] = []
    spans = recorded(run)
    for module in (sdk_http, otlp_http):
        session = requests.Session()
        session.mount("http://", Keeping(sent))
        exporter = module.OTLPSpanExporter("http://127.0.0.1:9/v1/traces", session=session)
        assert exporter.export(spans) is SpanExportResult.SUCCESS
        exporter.shutdown()
    assert sent[0] == sent[1]
    assert not sdk_calls
    assert sdk_http.OTLPSpanExporter.export.__globals__["encode_spans"] is encode_by_sdk


def test_the_grpc_exporter_sends_what_that_of_the_sdk_sends(sdk_calls: list[int]) -> None:
    sent: list[bytes] = []

    class Client:
        def Export(self, request: Any, **options: Any) -> None:
            sent.append(request.SerializeToString())

    spans = recorded(run)
    for module in (sdk_grpc, otlp_grpc):
        exporter = module.OTLPSpanExporter(endpoint="http://127.0.0.1:9", insecure=True)
        exporter._client = Client()
        assert exporter.export(spans) is SpanExportResult.SUCCESS
        exporter.shutdown()
    assert sent[0] == sent[1]
    assert not sdk_calls
