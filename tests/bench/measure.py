"""How costs are measured: against a floor, in alternating rounds, with the CPU of all threads.

A floor is one hand-written SDK span with 8 attributes, through a `BatchSpanProcessor` into OTLP
encoding. What is compared runs in the same process, round about; the median of the rounds' ratios
is the figure, so that a machine that is busy meanwhile moves both sides.

Times in microseconds mean little on a busy or slow machine. Units with a star are for a machine on
which an empty Python call takes 25 ns, which is what budgets are for; beside them is what was
measured here.
"""

from __future__ import annotations

import gc
import statistics
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Sampler

from otelhooks.telemetry import semconv

FLOOR_SPANS = 1_000
EMPTY_CALL_S = 25e-9


@dataclass
class Row:
    """One line of the table.

    Attributes:
        what: What was measured.
        figure: In `unit`.
        budget: Bound of the figure; None for a figure that is there for comparison only.
        unit: Unit of figure and budget.
        note: How it came about: spread, peer, bytes.
        at_least: Whether the budget is a lower bound.
    """

    what: str
    figure: float
    budget: float | None
    unit: str
    note: str = ""
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the figure, as precise as it is printed, keeps to the budget."""
        if self.budget is None:
            return True
        shown = round(self.figure, 2)
        return shown >= self.budget if self.at_least else shown <= self.budget


class Encoding(SpanExporter):
    """Encodes as OTLP and throws away; knows how many spans and bytes there were."""

    def __init__(self) -> None:
        self.spans = self.bytes = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Encode."""
        self.bytes += len(encode_spans(spans).SerializePartialToString())
        self.spans += len(spans)
        return SpanExportResult.SUCCESS

    @property
    def bytes_a_span(self) -> float:
        """Mean size of a span, its share of the envelope included."""
        return self.bytes / self.spans if self.spans else 0.0


class Sink:
    """Providers whose export can be waited for.

    Args:
        sampler: Of the spans; the SDK's default samples all.
        metrics: Whether there is a meter provider.
    """

    def __init__(self, sampler: Sampler | None = None, *, metrics: bool = True) -> None:
        self.exporter = Encoding()
        resource = Resource({"service.name": "bench"})
        self.tracers = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
        self.tracers.add_span_processor(
            BatchSpanProcessor(self.exporter, max_queue_size=65_536, schedule_delay_millis=200)
        )
        self._reader = InMemoryMetricReader() if metrics else None
        self.meters = MeterProvider([self._reader]) if self._reader is not None else None

    def flush(self) -> None:
        """Export what is waiting, and collect."""
        self.tracers.force_flush()
        if self._reader is not None:
            self._reader.get_metrics_data()


def _nothing() -> None:
    """Do nothing."""


@dataclass
class Contender:
    """One side of a comparison.

    Attributes:
        work: What is measured, with what `flush` leaves to do.
        flush: Waits for exports.
        on: Makes it ready, before each round, not measured.
        off: Undoes that.
    """

    work: Callable[[], Any]
    flush: Callable[[], Any] = _nothing
    on: Callable[[], Any] = _nothing
    off: Callable[[], Any] = _nothing


def floor() -> Contender:
    """Return the floor: `FLOOR_SPANS` spans."""
    sink = Sink(metrics=False)
    tracer = sink.tracers.get_tracer("floor")

    def work() -> None:
        for n in range(FLOOR_SPANS):
            attributes = {
                semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL,
                semconv.GEN_AI_TOOL_NAME: "search",
                semconv.GEN_AI_TOOL_TYPE: semconv.TOOL_TYPE_FUNCTION,
                semconv.GEN_AI_AGENT_NAME: "bench",
                semconv.GEN_AI_CONVERSATION_ID: "c1",
                semconv.GEN_AI_TOOL_CALL_ID: f"call_{n}",
                semconv.POLICY_DECISION: semconv.DECISION_ALLOW,
                semconv.POLICY_RULE_ID: "r1",
            }
            with tracer.start_as_current_span("execute_tool search", attributes=attributes):
                pass

    return Contender(work, sink.flush)


@dataclass
class Times:
    """CPU seconds of all threads, one value a round, by contender."""

    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def ratios(self, name: str, base: str, calls: int, bare: str | None = None) -> list[float]:
        """Return what a call costs in floors, or in calls of a peer, round by round.

        Args:
            name: What is looked at; `calls` of it in a round.
            base: ``floor``, of which a round has `FLOOR_SPANS`, or a peer with as many calls.
            calls: Calls in a round.
            bare: What both would cost without instrumentation; taken off both but the floor.
        """
        size = FLOOR_SPANS if base == "floor" else calls
        found: list[float] = []
        for number, ours in enumerate(self.seconds[name]):
            off = self.seconds[bare][number] if bare is not None else 0.0
            under = self.seconds[base][number] - (0.0 if base == "floor" else off)
            found.append((ours - off) / calls / (under / size))
        return found

    def row(
        self,
        what: str,
        budget: float | None,
        name: str,
        base: str,
        calls: int,
        bare: str | None = None,
        note: str = "",
    ) -> Row:
        """Return the median as a row of the table; arguments as `ratios`.

        The note has the quartiles, and the ratio of the best rounds of each side: where others use
        the machine it is the steadier figure, above all for what is little beside the bare work.
        """
        ratios = self.ratios(name, base, calls, bare)
        low, _, high = statistics.quantiles(ratios, n=4)
        unit = "floors" if base == "floor" else "of peer"
        least = Times({side: [min(found)] for side, found in self.seconds.items()})
        (undisturbed,) = least.ratios(name, base, calls, bare)
        spread = f"quartiles {low:.2f} to {high:.2f}, best rounds {undisturbed:.2f}"
        note = f"{spread}; {note}" if note else spread
        return Row(what, statistics.median(ratios), budget, unit, note)


def alternate(contenders: Mapping[str, Contender], rounds: int) -> Times:
    """Measure all in turn, after one round that does not count."""
    times = Times({name: [] for name in contenders})
    for number in range(rounds + 1):
        for name, contender in contenders.items():
            contender.on()
            gc.collect()
            started = time.process_time()
            contender.work()
            contender.flush()
            took = time.process_time() - started
            contender.off()
            if number:
                times.seconds[name].append(took)
    return times


def best(call: Callable[[], object], number: int = 1_000, rounds: int = 40) -> float:
    """Return the seconds that a call takes, best round."""
    return min(timeit.repeat(call, number=number, repeat=rounds)) / number


def empty_call() -> float:
    """Return the seconds that an empty Python call takes here and now."""
    return best(_nothing)


def scaled(seconds: float, empty: float) -> float:
    """Return the seconds that a machine would take whose empty call lasts 25 ns.

    Args:
        seconds: As measured.
        empty: `empty_call` of about the same time.
    """
    return seconds * EMPTY_CALL_S / empty
