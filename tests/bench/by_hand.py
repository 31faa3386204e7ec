"""The telemetry of ours made by hand, through the SDK: what it costs without any code of ours.

A recorded run is made again: the same spans below each other, with the same attributes, all given
at the start, and as many values in the same histograms. Nothing is decided, counted or attached.
These spans and values cannot be made for less, so this is the bound of a budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics.export import Histogram
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import set_span_in_context

from otelhooks.records import semconv
from tests.bench.measure import Contender, Sink


@dataclass
class Made:
    """What a run made.

    Attributes:
        spans: Name, kind, attributes, and the number of its parent, -1 for none.
        values: Histogram, unit, attributes, a value, and how often it came.
    """

    spans: list[tuple[str, Any, dict[str, Any], int]] = field(default_factory=list)
    values: list[tuple[str, str, dict[str, Any], float, int]] = field(default_factory=list)


def record(ours: Callable[[Sink], Contender], calls: int) -> Made:
    """Return what a run of ours with so many calls makes."""
    found: list[ReadableSpan] = []

    def keep(spans: Any) -> Any:
        found.extend(spans)
        return encode_spans(spans)

    sink = Sink(encode=keep)
    contender = ours(sink)
    contender.on()
    contender.work(calls)
    sink.flush()
    metrics = sink.collect()
    contender.off()
    made = Made()
    found.sort(key=lambda span: span.start_time or 0)
    numbers = {span.context.span_id: number for number, span in enumerate(found)}
    for span in found:
        below = numbers[span.parent.span_id] if span.parent is not None else -1
        made.spans.append((span.name, span.kind, dict(span.attributes or {}), below))
    for metric in metrics:
        if isinstance(metric.data, Histogram):
            made.values += (
                (metric.name, metric.unit, dict(point.attributes or {}), point.max, point.count)
                for point in metric.data.data_points
            )
    return made


def sides(bare: Contender, ours: Callable[[Sink], Contender]) -> dict[str, Contender]:
    """Return a run with its telemetry by hand: all of it on either provider, and spans alone.

    Args:
        bare: The run without instrumentation.
        ours: Returns ours, with a sink.
    """
    made: dict[int, Made] = {}

    def by_hand(sink: Sink) -> Contender:
        tracer = sink.tracers.get_tracer(semconv.SCOPE_NAME)
        meter = sink.meters.get_meter(semconv.SCOPE_NAME) if sink.meters is not None else None
        histograms: dict[str, Any] = {}

        def make(calls: int) -> None:
            bare.work(calls)
            if calls not in made:
                made[calls] = record(ours, calls)
            found, spans, root = made[calls], [], Context()
            parents = {below for *_, below in found.spans}
            contexts = {-1: root}
            for number, (name, kind, attributes, below) in enumerate(found.spans):
                span = tracer.start_span(name, contexts[below], kind, attributes)
                spans.append(span)
                if number in parents:
                    contexts[number] = set_span_in_context(span, root)
            for span in spans:
                span.end()
            if meter is None:
                return
            for name, unit, attributes, value, count in found.values:
                if name not in histograms:
                    histograms[name] = meter.create_histogram(name, unit)
                for _ in range(count):
                    histograms[name].record(value, attributes, root)

        return Contender(make, bare.calls, sink.flush)

    return {
        "by hand": by_hand(Sink()),
        "by hand, on our provider": by_hand(Sink.as_built()),
        "spans by hand": by_hand(Sink(metrics=False)),
        "spans by hand, on our provider": by_hand(Sink.as_built(metrics=False)),
    }
