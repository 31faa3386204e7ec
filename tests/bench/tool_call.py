"""One allowed call of a plain tool, sampled and not, in floors and beside OTel GenAI's own."""

from __future__ import annotations

from pathlib import Path

from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otelhooks
from otelhooks import policy
from tests.bench import by_hand
from tests.bench.measure import Contender, Row, Sink, alternate, floor

CALLS = 300  # in a turn


def search(query: str, limit: int = 5) -> str:
    """Be a tool that does next to nothing."""
    return query


governed = otelhooks.tool(search)


def bare(calls: int) -> None:
    """Call the tool as it is."""
    for _ in range(calls):
        search("weather", 3)


def ours(sink: Sink) -> Contender:
    """Call it under one allow and one deny rule."""

    def on() -> None:
        otelhooks.instrument(
            policies=[policy.allow("search"), policy.deny("run_command")],
            tracer_provider=sink.tracers,
            meter_provider=sink.meters,
            frameworks=(),
            store=Path("/dev/null"),
        )

    def work(calls: int) -> None:
        with otelhooks.session("c1"):
            for _ in range(calls):
                governed("weather", 3)

    return Contender(work, CALLS, sink.flush, on, otelhooks.uninstrument, sink)


def peer() -> Contender | None:
    """Call it in an `execute_tool` span of opentelemetry-util-genai, None where that is missing."""
    try:
        from opentelemetry.util.genai.handler import TelemetryHandler
    except ImportError:
        return None
    sink = Sink()
    handler = TelemetryHandler(tracer_provider=sink.tracers, meter_provider=sink.meters)

    def work(calls: int) -> None:
        for _ in range(calls):
            with handler.tool("search", tool_type="function"):
                search("weather", 3)

    return Contender(work, CALLS, sink.flush, sink=sink)


def contenders() -> dict[str, Contender]:
    """Return the sides that instructions are counted of."""
    found = {
        "bare": Contender(bare, CALLS),
        "ours": ours(Sink()),
        "on our provider": ours(Sink.as_built()),
        **by_hand.sides(Contender(bare, CALLS), ours),
    }
    other = peer()
    return found if other is None else {**found, "peer": other}


def measure(rounds: int) -> list[Row]:
    """Return the rows of this file."""
    sinks = {
        "sampled": Sink(),
        "on our provider": Sink.as_built(),
        "sampled, no metrics": Sink(metrics=False),
        "not sampled": Sink(ALWAYS_OFF),
        "not sampled, no metrics": Sink(ALWAYS_OFF, metrics=False),
    }
    plain = Contender(bare, CALLS)
    contenders = {"floor": floor(), "bare": plain, **by_hand.sides(plain, ours)}
    contenders.update((name, ours(sink)) for name, sink in sinks.items())
    other = peer()
    if other is not None:
        contenders["peer"] = other
    times = alternate(contenders, rounds)

    def row(what: str, budget: float | None, name: str, base: str = "floor") -> Row:
        return times.row(what, budget, name, base, "bare")

    rows = [row("tool call, allowed, with metrics", 1.4, "sampled")]
    if other is not None:
        rows.append(row("  beside opentelemetry-util-genai", 0.73, "sampled", "peer"))
        rows.append(row("    on our provider", 0.44, "on our provider", "peer"))
        rows.append(row("  opentelemetry-util-genai", None, "peer"))
    rows.append(row("  the same span by hand", None, "by hand"))
    if other is not None:
        rows.append(row("    beside opentelemetry-util-genai", None, "by hand", "peer"))
    size = sinks["sampled"].exporter.bytes_a_span
    rows += [
        row("tool call, allowed, no metrics", None, "sampled, no metrics"),
        row("tool call, not sampled, no metrics", 0.15, "not sampled, no metrics"),
        row("tool call, not sampled, with metrics", 0.30, "not sampled"),
        Row("bytes a span of a tool call, content off", size, 500, "bytes"),
    ]
    return rows
