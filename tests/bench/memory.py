"""Whether memory stays flat: allocated blocks over many tool calls, in turns of a conversation."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import otelhooks
from otelhooks import policy
from tests.bench.measure import Row, Sink
from tests.bench.tool_call import governed

TURNS = 2_500
CALLS = 20
WARM = TURNS // 5


def measure(rounds: int) -> list[Row]:
    """Return the row of this file."""
    sink = Sink()
    otelhooks.instrument(
        policies=[policy.allow("search"), policy.deny("run_command")],
        tracer_provider=sink.tracers,
        meter_provider=sink.meters,
        frameworks=(),
        store=Path("/dev/null"),
    )
    try:
        with otelhooks.session("c1"):
            blocks = [_blocks_after(turns, sink) for turns in (WARM, TURNS - WARM)]
    finally:
        otelhooks.uninstrument()
    calls = (TURNS - WARM) * CALLS
    slope = (blocks[1] - blocks[0]) / calls
    note = f"{blocks[0]:,} blocks after {WARM * CALLS:,} calls, {blocks[1]:,} after {calls:,} more"
    return [Row("memory, blocks a tool call", slope, 0.01, "blocks", note)]


def _blocks_after(turns: int, sink: Sink) -> int:
    """Run turns and return how many blocks Python holds afterwards."""
    for number in range(turns):
        with otelhooks.turn(f"question {number}"):
            for _ in range(CALLS):
                governed("weather", 3)
        if number % 100 == 99:
            sink.flush()
    sink.flush()
    gc.collect()
    return sys.getallocatedblocks()
