"""Cost of the two hot-path calls of `otelhooks.telemetry.metrics`, beside the SDK's own.

Run: ``python tests/bench/metrics.py``. Times are the best of several rounds, in microseconds a
call; the last column is the ratio to an empty Python call in the same round.
"""

from __future__ import annotations

import timeit
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import SpanContext, TraceFlags

from otelhooks.telemetry import semconv
from otelhooks.telemetry.metrics import Instruments

if TYPE_CHECKING:
    from collections.abc import Callable

ATTRIBUTES = {
    semconv.POLICY_DECISION: semconv.DECISION_ALLOW,
    semconv.POLICY_ID: semconv.POLICY_SOURCE_CODE,
    semconv.POLICY_RULE_ID: "r1",
    semconv.GEN_AI_TOOL_NAME: "run_command",
}
SPAN = SpanContext(trace_id=1, span_id=2, is_remote=False, trace_flags=TraceFlags(1))


def best(call: Callable[[], object], number: int = 1_000, rounds: int = 60) -> float:
    """Measure a call: microseconds, best round."""
    return min(timeit.repeat(call, number=number, repeat=rounds)) / number * 1e6


def main() -> None:
    """Measure and print the table."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    instruments = Instruments(provider, "0")
    cell = instruments.decisions.cell(ATTRIBUTES)
    meter = provider.get_meter("bench")
    counter, histogram = meter.create_counter("c"), meter.create_histogram("h")
    name = semconv.METRIC_GEN_AI_EXECUTE_TOOL_DURATION
    queue = instruments._queue

    def record() -> None:
        instruments.record(name, 0.1, ATTRIBUTES, SPAN)

    def record_round() -> float:
        queue.clear()
        return timeit.timeit(record, number=1_000) / 1_000 * 1e6

    def drained() -> None:
        instruments.record(name, 0.1, ATTRIBUTES, SPAN)
        instruments.flush()

    rows = {
        "empty call": best(lambda: None),
        "cell.add(1)": best(lambda: cell.add(1)),
        "cell.add(1, span)": best(lambda: cell.add(1, SPAN)),
        "record, caller's part": min(record_round() for _ in range(60)),
        "record and drain": best(drained),
        "SDK counter.add": best(lambda: counter.add(1, ATTRIBUTES)),
        "SDK histogram.record": best(lambda: histogram.record(0.1, ATTRIBUTES)),
    }
    for label, cost in rows.items():
        print(f"{label:24} {cost:8.3f} us {cost / rows['empty call']:8.1f}x")


if __name__ == "__main__":
    main()
