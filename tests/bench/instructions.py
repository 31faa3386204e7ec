"""Instructions of a tool call, counted by callgrind: ours beside OTel GenAI's, in one process.

    python -m tests.bench instructions

A count is that of all threads, warm, of some runs and of all that their spans and metrics then take
to be exported, less the same runs without instrumentation. It is the same on a busy machine, so
that ratios of a few per cent can be told. Where valgrind is missing there are no rows. The bound of
each ratio is what the same spans and histogram values cost by hand; see `by_hand.py`.

The work is done by a process of its own under callgrind, for each group: ``python -m
tests.bench.instructions GROUP``. It marks where a part begins and ends by `os.getloadavg`, at which
callgrind writes down what it has counted and starts from 0.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from otelhooks.pipeline import runtime
from otelhooks.policy import stops
from tests.bench import agent_runs, tool_call
from tests.bench.measure import Contender, Row

RUNS = 4
CALLS = 5  # of tools in a run of an agent
TOOL_CALLS = 20

GROUPS: dict[str, tuple[Callable[[], Mapping[str, Contender]], int, float, float]] = {
    "openai_agents": (agent_runs.openai_agents, CALLS, 1.4, 0.96),
    "langchain": (agent_runs.langchain, CALLS, 0.45, 0.29),
    "tool_call": (tool_call.contenders, TOOL_CALLS, 0.73, 0.44),
}
"""Contenders, calls in a run, and the budgets of ours beside the peer, on either provider."""


def measure(_rounds: int) -> list[Row]:
    """Return the rows of this file."""
    if shutil.which("valgrind") is None:
        return []
    return [row for group in GROUPS for row in _rows(group)]


def _rows(group: str) -> list[Row]:
    _, calls, beside_peer, own_beside = GROUPS[group]
    counts = count(group)
    if not counts:
        return []
    added = added_by_a_call(counts, calls)
    rows = [
        Row(f"{group}, a tool call", added["ours"] / 1e3, None, "kIr"),
        *(Row(f"  {side}", added[side] / 1e3, None, "kIr") for side in added if side in _SHOWN),
    ]
    if "peer" not in added:
        return rows
    peer = added["peer"]
    rows.append(Row("  OTel GenAI's", peer / 1e3, None, "kIr"))
    for what, side, budget, suffix in (
        ("  beside OTel GenAI's", "ours", beside_peer, ""),
        ("    on our provider", "on our provider", own_beside, ", on our provider"),
    ):
        bound = added[f"by hand{suffix}"] / peer
        spans = added[f"spans by hand{suffix}"] / peer
        note = f"bound {bound:.2f}, of spans alone {spans:.2f}"
        rows.append(Row(what, added[side] / peer, budget, "of peer", note))
    if "bare, own tracing" in added:
        own = added["bare, own tracing"]
        rows += [
            Row("  the framework's own tracing, in the peer's", own / 1e3, None, "kIr"),
            Row(
                "  beside OTel GenAI's, own tracing on for both",
                (added["ours, own tracing"] - own) / (peer - own),
                None,
                "of peer",
            ),
        ]
    return rows


_SHOWN = (
    "on our provider",
    "by hand",
    "by hand, on our provider",
    "spans by hand",
    "spans by hand, on our provider",
)


def added_by_a_call(counts: Mapping[str, int], calls: int) -> dict[str, float]:
    """Return what each side adds to a call.

    Args:
        counts: As `count` returns them.
        calls: In a run.
    """
    return {side: (counts[side] - counts["bare"]) / (RUNS * calls) for side in counts}


def count(group: str, folder: Path | None = None) -> dict[str, int]:
    """Return the instructions of each side's runs.

    Args:
        group: One of `GROUPS`.
        folder: Where callgrind's files are kept, one a side; none are without.
    """
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(folder or scratch)
        command = (
            *("valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-before=getloadavg"),
            *(f"--callgrind-out-file={out}/{group}", "--dump-line=no"),
            *(sys.executable, "-m", "tests.bench.instructions", group),
        )
        env = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        sides = done.stdout.split("\n")[:-1]
        # Of three parts a side: what came before, the runs, and a flush with nothing to do.
        totals = [_total(out / f"{group}.{n + 1}") for n in range(3 * len(sides))]
    return {side: totals[3 * n + 1] - totals[3 * n + 2] for n, side in enumerate(sides)}


def _total(dump: Path) -> int:
    found = re.search(r"^(?:summary|totals): (\d+)", dump.read_text(), re.MULTILINE)
    assert found is not None, f"{dump} has no sum"
    return int(found[1])


def work(group: str) -> None:
    """Make each side's runs, and print the names of those that there are."""
    contenders, calls, _, _ = GROUPS[group]
    runtime.SLOW_S = math.inf  # each decision is slow here
    stops.INTERVAL_S = 3_600.0  # and few calls pass in half a second
    found = contenders()
    started = False
    for contender in found.values():
        contender.on()
        for _ in range(2):  # the second time everything is warm
            contender.work(calls)
        contender.flush()
        if not started:
            control = ("callgrind_control", "-i", "on", str(os.getpid()))
            subprocess.run(control, check=True, stdout=subprocess.DEVNULL)
            started = True
        contender.work(calls)
        contender.flush()
        gc.collect()
        gc.freeze()  # else it depends on what came before when and how long the collector runs
        os.getloadavg()
        for _ in range(RUNS):
            contender.work(calls)
        contender.flush()
        os.getloadavg()
        contender.flush()
        os.getloadavg()
        contender.off()
    print("\n".join(found))


if __name__ == "__main__":
    logging.disable(logging.ERROR)
    work(sys.argv[1])
