"""One allowed tool call, in floors: added CPU of all threads over the bare call.

The floor is one hand-written SDK span with 8 attributes, through a BatchSpanProcessor into OTLP
encoding. Rounds of floor and call alternate in one process, and the median of the ratios counts.
Run: ``python tests/bench/tool_call.py``.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otelhooks
from otelhooks import policy

CALLS = 4_000
ROUNDS = 9


class Encoding(SpanExporter):
    """Encodes as OTLP and throws away; knows how many spans and bytes there were."""

    def __init__(self) -> None:
        self.spans = self.bytes = 0

    def export(self, spans: list[ReadableSpan]) -> SpanExportResult:
        self.bytes += len(encode_spans(spans).SerializePartialToString())
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


def provider(sampler: object = None) -> tuple[TracerProvider, Encoding]:
    exporter = Encoding()
    made = TracerProvider(resource=Resource({"service.name": "bench"}), sampler=sampler)
    made.add_span_processor(
        BatchSpanProcessor(exporter, max_queue_size=65_536, schedule_delay_millis=200)
    )
    return made, exporter


def cpu(work: Callable[[], None], flush: Callable[[], object]) -> float:
    """Return CPU seconds of all threads, export included."""
    started = time.process_time()
    work()
    flush()
    return time.process_time() - started


def floor(tracer_provider: TracerProvider) -> Callable[[], None]:
    tracer = tracer_provider.get_tracer("floor")

    def work() -> None:
        for n in range(CALLS):
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "search",
                "gen_ai.tool.type": "function",
                "gen_ai.agent.name": "bench",
                "gen_ai.conversation.id": "c1",
                "gen_ai.tool.call.id": f"call_{n}",
                "otelhooks.policy.decision": "allow",
                "otelhooks.policy.rule.id": "r1",
            }
            with tracer.start_as_current_span("execute_tool search", attributes=attributes):
                pass

    return work


def search(query: str, limit: int = 5) -> str:
    return query


def measure(label: str, sampler: object = None, metrics: bool = True) -> None:
    floors, floor_exporter = provider()
    run_floor = floor(floors)
    ours, exporter = provider(sampler)
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader]) if metrics else None
    otelhooks.instrument(
        policies=[policy.allow("search"), policy.deny("run_command")],
        tracer_provider=ours,
        meter_provider=meters,
        frameworks=[],
        store=Path("/dev/null"),
    )
    governed = otelhooks.tool(search)

    def run_bare() -> None:
        for _ in range(CALLS):
            search("weather", 3)

    def run_ours() -> None:
        with otelhooks.session("c1"):
            for _ in range(CALLS):
                governed("weather", 3)

    def flush_ours() -> None:
        ours.force_flush()
        if metrics:
            reader.get_metrics_data()

    for work, flush in ((run_floor, floors.force_flush), (run_ours, flush_ours)):
        cpu(work, flush)
    ratios: list[float] = []
    for _ in range(ROUNDS):
        base = cpu(run_floor, floors.force_flush)
        bare = cpu(run_bare, lambda: None)
        ratios.append((cpu(run_ours, flush_ours) - bare) / base)
    otelhooks.uninstrument()
    size = exporter.bytes / exporter.spans if exporter.spans else 0
    print(
        f"{label:<34} {statistics.median(ratios):5.2f} floors"
        f"  ({min(ratios):.2f} to {max(ratios):.2f})  {size:4.0f} bytes a span,"
        f" floor {base / CALLS * 1e6:.1f} us"
    )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    measure("bare tool call, allowed, metrics")
    measure("bare tool call, allowed", metrics=False)
    measure("not sampled, metrics", ALWAYS_OFF)
    measure("not sampled", ALWAYS_OFF, metrics=False)
