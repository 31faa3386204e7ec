"""Gates on counts: what one governed call may make, whatever the machine's speed.

Instructions and times are in `make bench`, instructions of a tool call in
`tests/processes/test_instructions.py` too. Here is what they follow from: spans, attributes, bytes,
records in the SDK, and what a plain allowed call must not make at all.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import Counter as SdkCounter
from opentelemetry.sdk.metrics import Histogram as SdkHistogram
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otelhooks
from otelhooks import policy, types
from otelhooks.errors import Denied
from otelhooks.hooks.calls import Call
from otelhooks.pipeline.frames import Op
from otelhooks.records import semconv

CALLS = 20
MODEL_ATTRIBUTES = 9
TOOL_ATTRIBUTES = 7
BYTES_A_SPAN = 400
FRAMES_OF_A_TOOL_CALL = 45
"""Python calls in our own code that an allowed call of a plain tool makes, sampled or not."""
FRAMES_OF_A_MODEL_CALL = 45
OURS = str(Path(otelhooks.__file__).parent)


@otelhooks.tool
def search(query: str, limit: int = 5) -> str:
    return query


@otelhooks.model_call(model="scripted", provider="openai")
def think(messages: list[Any]) -> types.ModelResponse:
    return REPLY


REPLY = types.ModelResponse(
    text="ask", usage=types.Usage(input_tokens=120, output_tokens=20), finish_reason="stop"
)


@otelhooks.agent("assistant")
def run(message: str) -> str:
    for _ in range(CALLS):
        think([message])
        search(message, 3)
    return "done"


@pytest.fixture
def governed(tracer_provider: Any, meter_provider: Any) -> Iterator[None]:
    otelhooks.instrument(
        policies=[policy.allow("search", id="r1"), policy.deny("run_command")],
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
        frameworks=(),
    )
    yield
    otelhooks.uninstrument()


def by_operation(exporter: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for span in exporter.get_finished_spans():
        found.setdefault(span.attributes[semconv.GEN_AI_OPERATION_NAME], []).append(span)
    return found


def test_a_run_has_one_span_for_itself_and_one_for_each_call(governed, exporter):
    with otelhooks.session("c1"):
        run("hello")
    counts = {operation: len(spans) for operation, spans in by_operation(exporter).items()}
    assert counts == {
        semconv.OP_INVOKE_AGENT: 1,
        semconv.OP_CHAT: CALLS,
        semconv.OP_EXECUTE_TOOL: CALLS,
    }


def test_a_plain_allow_carries_these_attributes_and_no_more(governed, exporter):
    with otelhooks.session("c1"):
        search("weather")
    (span,) = exporter.get_finished_spans()
    assert dict(span.attributes) == {
        semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL,
        semconv.GEN_AI_TOOL_NAME: "search",
        semconv.GEN_AI_TOOL_TYPE: semconv.TOOL_TYPE_FUNCTION,
        semconv.GEN_AI_CONVERSATION_ID: "c1",
        semconv.POLICY_DECISION: semconv.DECISION_ALLOW,
        semconv.POLICY_RULE_ID: "r1",
    }


def test_spans_of_a_run_stay_within_their_number_of_attributes(governed, exporter):
    with otelhooks.session("c1"):
        run("hello")
    spans = by_operation(exporter)
    assert max(len(s.attributes) for s in spans[semconv.OP_EXECUTE_TOOL]) <= TOOL_ATTRIBUTES
    assert max(len(s.attributes) for s in spans[semconv.OP_CHAT]) <= MODEL_ATTRIBUTES
    assert not any(span.events for found in spans.values() for span in found)


def test_a_span_has_at_most_so_many_bytes_on_the_wire(governed, exporter):
    with otelhooks.session("c1"):
        run("hello")
    spans = exporter.get_finished_spans()
    size = len(encode_spans(spans).SerializeToString())
    assert size / len(spans) <= BYTES_A_SPAN


def test_bytes_grow_with_the_calls_and_not_with_what_was_called_before(governed, exporter):
    with otelhooks.session("c1"):
        run("hello")
    tools = by_operation(exporter)[semconv.OP_EXECUTE_TOOL]
    sizes = {len(encode_spans([span]).SerializeToString()) for span in tools}
    assert max(sizes) - min(sizes) <= 2  # the width of a number


def test_a_tool_call_makes_no_record_in_the_metrics_sdk_and_a_model_call_one(
    governed, metrics_reader, monkeypatch
):
    made: Counter[str] = Counter()
    record = SdkHistogram.record

    def counted(self: Any, *args: Any, **kwargs: Any) -> None:
        made[self.name] += 1
        record(self, *args, **kwargs)

    def refused(self: Any, *args: Any, **kwargs: Any) -> None:
        pytest.fail("counts are kept in cells, read when somebody collects")

    monkeypatch.setattr(SdkHistogram, "record", counted)
    monkeypatch.setattr(SdkCounter, "add", refused)
    for _ in range(CALLS):
        think(["hello"])
        search("weather")
    assert not made, "nothing of the SDK runs in the call itself"
    metrics_reader.get_metrics_data()
    made.pop(semconv.METRIC_POLICY_EVALUATION_DURATION, None)  # slow evaluations, on a busy machine
    assert made == {semconv.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION: CALLS}


def test_a_plain_allowed_call_makes_no_pydantic_model(governed, monkeypatch):
    search("warm")

    def refused(*args: Any, **kwargs: Any) -> None:
        pytest.fail("records are made when somebody looks")

    monkeypatch.setattr(pydantic.BaseModel, "__init__", refused)
    monkeypatch.setattr(pydantic.BaseModel, "model_construct", refused)
    monkeypatch.setattr(pydantic.BaseModel, "model_copy", refused)
    assert search("weather") == "weather"


def test_a_run_makes_no_record_where_no_hook_looks(governed, monkeypatch):
    run("warm")

    def refused(*args: Any, **kwargs: Any) -> None:
        pytest.fail("records are made when somebody looks")

    monkeypatch.setattr(types.RunInfo, "__init__", refused)
    assert run("hello") == "done"


def test_a_call_that_is_settled_by_its_name_is_refused_if_its_arguments_cannot_be_copied(governed):
    search("warm")  # from now on the rules know the tool by its name
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Denied):
        search(endless)  # type: ignore[arg-type]


def frames(work: Callable[[], object]) -> Counter[str]:
    """Return how often each function of ours is entered, or a generator of ours gone on with.

    Of several times the least: an evaluation that a busy machine makes slow is recorded, which is
    a call more.
    """
    return min((_frames_once(work) for _ in range(CALLS)), key=lambda found: found.total())


def _frames_once(work: Callable[[], object]) -> Counter[str]:
    found: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            found[frame.f_code.co_name] += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def test_a_tool_call_keeps_to_its_number_of_python_calls(governed):
    with otelhooks.session("c1"):
        search("warm")
        found = frames(lambda: search("weather"))
    assert found.total() <= FRAMES_OF_A_TOOL_CALL, found.most_common()


def test_a_model_call_keeps_to_its_number_of_python_calls(governed):
    with otelhooks.session("c1"):
        think(["warm"])
        found = frames(lambda: think(["hello"]))
    assert found.total() <= FRAMES_OF_A_MODEL_CALL, found.most_common()


def test_a_call_that_is_not_sampled_keeps_to_its_number_of_python_calls():
    unsampled = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    otelhooks.instrument(
        policies=[policy.allow("search")], tracer_provider=unsampled, frameworks=()
    )
    try:
        search("warm")
        found = frames(lambda: search("weather"))
    finally:
        otelhooks.uninstrument()
    assert found.total() <= FRAMES_OF_A_TOOL_CALL, found.most_common()


def _waiting() -> int:
    return sum(type(each) in {Call, Op} for each in gc.get_objects())


def test_a_call_and_its_operation_do_not_wait_for_the_garbage_collector(governed):
    gc.collect()
    gc.disable()
    before = _waiting()  # other tests may hold some
    try:
        for _ in range(CALLS):
            search("weather")
        assert _waiting() <= before
    finally:
        gc.enable()


def test_a_call_that_is_not_sampled_is_counted_and_timed_all_the_same(
    meter_provider, metrics_reader
):
    otelhooks.instrument(
        policies=[policy.allow("search")],
        tracer_provider=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False),
        meter_provider=meter_provider,
        frameworks=(),
    )
    try:
        search("weather")
        (resource,) = metrics_reader.get_metrics_data().resource_metrics
    finally:
        otelhooks.uninstrument()
    found = {metric.name: metric.data for metric in resource.scope_metrics[0].metrics}
    (decisions,) = found[semconv.METRIC_POLICY_DECISIONS].data_points
    (calls,) = found[semconv.METRIC_TOOL_CALLS].data_points
    (spent,) = found[semconv.METRIC_TOOL_TIME].data_points
    assert (decisions.value, calls.value) == (1, 1)
    assert spent.value > 0
    assert not (*decisions.exemplars, *calls.exemplars)


def test_each_allow_in_the_audit_file_has_a_decision_id_of_its_own(tmp_path):
    otelhooks.instrument(
        policies=[policy.allow("search")], audit=tmp_path / "audit.jsonl", frameworks=()
    )
    try:
        search("one")
        search("two")
    finally:
        otelhooks.uninstrument()
    (segment,) = tmp_path.glob("audit*.jsonl")
    lines = [json.loads(line) for line in segment.read_text().splitlines()]
    ids = [line["decision_id"] for line in lines if "decision_id" in line]
    assert len(ids) == len(set(ids)) == 2
