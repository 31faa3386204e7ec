"""How costs are measured: against a floor, in short turns, with the CPU of all threads.

A floor is one hand-written SDK span with 8 attributes, through a `BatchSpanProcessor` into OTLP
encoding. What is compared runs in the same process, in turns of some milliseconds, each time in
another order. A figure is a ratio of differences of what turns take that are little disturbed: a
low quantile of all turns, since what else the machine does can only add to one. Beside it stands
how far it can be trusted.

Times in microseconds mean little on a busy or slow machine. Units with a star are for a machine on
which an empty Python call takes 25 ns, which is what budgets are for; beside them is what was
measured here.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Sampler

from otelhooks.records import semconv
from otelhooks.telemetry.otlp_encoder import encode_for_http
from otelhooks.telemetry.samplers import FollowParent

TURNS = 10  # in a round
FLOOR_SPANS = 200  # in a turn
WARM_CALLS = 2  # before each turn
DRAWS = 400
UNDISTURBED = 0.1  # of all turns are faster than the one that counts
NEIGHBOURS = 5  # turns that are drawn together
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
    """Encodes as OTLP and throws away; knows how many spans and bytes there were.

    Args:
        encode: The SDK's encoder, or ours.
    """

    def __init__(self, encode: Callable[[Sequence[ReadableSpan]], Any]) -> None:
        self._encode = encode
        self.spans = self.bytes = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Encode."""
        self.bytes += len(self._encode(spans).SerializePartialToString())
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
        encode: As on a provider of the application; see `as_built` for those of otelhooks.
    """

    def __init__(
        self,
        sampler: Sampler | None = None,
        *,
        metrics: bool = True,
        encode: Callable[[Sequence[ReadableSpan]], Any] = encode_spans,
    ) -> None:
        self.exporter = Encoding(encode)
        resource = Resource({"service.name": "bench"})
        self.tracers = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
        self.tracers.add_span_processor(
            BatchSpanProcessor(
                self.exporter, max_queue_size=65_536, schedule_delay_millis=3_600_000
            )
        )
        self._reader = InMemoryMetricReader() if metrics else None
        self.meters = MeterProvider([self._reader]) if self._reader is not None else None

    @classmethod
    def as_built(cls, *, metrics: bool = True) -> Sink:
        """Return one with the encoder and sampler of the providers that otelhooks builds."""
        return cls(FollowParent(), metrics=metrics, encode=encode_for_http)

    def flush(self) -> None:
        """Export what is waiting, and collect."""
        self.tracers.force_flush()
        self.collect()

    def collect(self) -> list[Metric]:
        """Return all metrics."""
        found = self._reader.get_metrics_data() if self._reader is not None else None
        resources = found.resource_metrics if found is not None else ()
        return [
            metric
            for resource in resources
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]


def _nothing() -> None:
    """Do nothing."""


@dataclass
class Contender:
    """One side of a comparison.

    Attributes:
        work: Makes so many calls; what is measured, with what `flush` then has to do.
        calls: Calls in a turn.
        flush: Sends on what calls left behind.
        on: Makes it ready, before each turn, not measured.
        off: Undoes that.
        sink: Where its spans go, if anything is to be known of them.
    """

    work: Callable[[int], Any]
    calls: int
    flush: Callable[[], Any] = _nothing
    on: Callable[[], Any] = _nothing
    off: Callable[[], Any] = _nothing
    sink: Sink | None = None

    def turn(self) -> float:
        """Return the CPU seconds of all threads that a call takes.

        What a flush takes that has nothing to do is taken off: it comes once a minute, not once
        in a few calls.
        """
        self.on()
        self.work(WARM_CALLS)
        self.flush()
        gc.collect()
        started = time.process_time()
        self.work(self.calls)
        self.flush()
        done = time.process_time()
        self.flush()
        idle = time.process_time() - done
        self.off()
        return (done - started - idle) / self.calls


def floor() -> Contender:
    """Return the floor: a span a call."""
    sink = Sink(metrics=False)
    tracer = sink.tracers.get_tracer("floor")

    def work(calls: int) -> None:
        for n in range(calls):
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

    return Contender(work, FLOOR_SPANS, sink.flush)


@dataclass
class Times:
    """CPU seconds of a call, one value a turn, by contender."""

    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def ratio(self, name: str, base: str, bare: str | None, turns: Sequence[int]) -> float:
        """Return what a call costs in floors, or in calls of a peer, over the turns named.

        Args:
            name: What is looked at.
            base: ``floor``, or a peer.
            bare: What both would cost without instrumentation; taken off both but the floor.
            turns: Numbers of turns, also several times.
        """
        level = {
            side: _undisturbed([found[t] for t in turns]) for side, found in self.seconds.items()
        }
        off = level[bare] if bare is not None else 0.0
        return (level[name] - off) / (level[base] - (0.0 if base == "floor" else off))

    def row(
        self,
        what: str,
        budget: float | None,
        name: str,
        base: str,
        bare: str | None = None,
        note: str = "",
    ) -> Row:
        """Return the ratio as a row of the table; arguments as `ratio`.

        The note has its 95% interval, found by drawing turns anew, some neighbours at a time
        because they have much in common.
        """
        turns = range(len(self.seconds[name]))
        blocks = [turns[first : first + NEIGHBOURS] for first in turns[::NEIGHBOURS]]
        draw = random.Random(0).choices
        drawn = [
            self.ratio(
                name, base, bare, [turn for block in draw(blocks, k=len(blocks)) for turn in block]
            )
            for _ in range(DRAWS)
        ]
        low, *_, high = statistics.quantiles(drawn, n=40)
        interval = f"95% in {low:.2f} to {high:.2f}, {len(turns)} turns"
        unit = "floors" if base == "floor" else "of peer"
        note = f"{interval}; {note}" if note else interval
        return Row(what, self.ratio(name, base, bare, turns), budget, unit, note)


def _undisturbed(seconds: Sequence[float]) -> float:
    """Return what a turn takes that is little disturbed."""
    return sorted(seconds)[int(len(seconds) * UNDISTURBED)]


def alternate(contenders: Mapping[str, Contender], rounds: int) -> Times:
    """Measure all in turn, `TURNS` times a round and each time in another order.

    A first turn of each does not count. What is there then is kept out of the way of the garbage
    collector, which so has for each side only what its own calls made.
    """
    times = Times({name: [] for name in contenders})
    order, shuffle = list(contenders), random.Random(0).shuffle
    for contender in contenders.values():
        contender.turn()
    gc.collect()
    gc.freeze()
    try:
        for _ in range(rounds * TURNS):
            shuffle(order)
            for name in order:
                times.seconds[name].append(contenders[name].turn())
    finally:
        gc.unfreeze()
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
