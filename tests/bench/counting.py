"""The hot-path calls of `otelhooks.telemetry.metrics`, beside what the SDK takes for the same."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from otelhooks.records import semconv
from otelhooks.telemetry.metrics import QUEUE_CAPACITY, Instruments
from tests.bench.measure import Contender, Row, Sink, alternate

ATTRIBUTES = {
    semconv.POLICY_DECISION: semconv.DECISION_ALLOW,
    semconv.POLICY_ID: semconv.POLICY_SOURCE_CODE,
    semconv.POLICY_RULE_ID: "r1",
    semconv.GEN_AI_TOOL_NAME: "run_command",
}
SPAN = SpanContext(trace_id=1, span_id=2, is_remote=False, trace_flags=TraceFlags(1))
RECORDS = QUEUE_CAPACITY // 4  # waiting for one collection


def measure(rounds: int) -> list[Row]:
    """Return the rows of this file."""
    sink = Sink()
    assert sink.meters is not None
    instruments = Instruments(sink.meters, "0")
    cell = instruments.decisions.cell(ATTRIBUTES)
    name = semconv.METRIC_GEN_AI_EXECUTE_TOOL_DURATION
    durations = instruments.histogram(name).cell(ATTRIBUTES)
    meter = sink.meters.get_meter("bench")
    counter, histogram = meter.create_counter("c"), meter.create_histogram("h")
    current = set_span_in_context(NonRecordingSpan(SPAN))
    calls = {
        "count": lambda: cell.add(1, SPAN),
        "SDK count": lambda: counter.add(1, ATTRIBUTES, context=current),
        "duration": lambda: durations.record(0.1, SPAN),
        "SDK duration": lambda: histogram.record(0.1, ATTRIBUTES, context=current),
    }

    def contender(call: Callable[[], None]) -> Contender:
        def work(calls: int) -> None:
            for _ in range(calls):
                call()

        return Contender(work, RECORDS, instruments.flush)

    times = alternate({name: contender(call) for name, call in calls.items()}, rounds)
    return [
        times.row("a count, beside the SDK's counter", None, "count", "SDK count"),
        times.row("a duration, drained, beside the SDK's", None, "duration", "SDK duration"),
    ]
