"""Instructions of a tool call, counted by callgrind: ours beside OTel GenAI's, in one process.

    python -m tests.bench instructions

A count is that of all threads, warm, of some runs and of all that their spans and metrics then take
to be exported, less the same runs without instrumentation. It is the same on a busy machine, so
that ratios of a few per cent can be told. Where valgrind is missing there are no rows.

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

SIDES = ("bare", "ours", "on our provider", "by hand", "peer")


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
        Row("  on our provider", added["on our provider"] / 1e3, None, "kIr"),
        Row("  the SDK's spans alone, by hand", added["by hand"] / 1e3, None, "kIr"),
    ]
    if "peer" in added:
        peer = added["peer"]
        rows += [
            Row("  OTel GenAI's", peer / 1e3, None, "kIr"),
            Row("  beside OTel GenAI's", added["ours"] / peer, beside_peer, "of peer"),
            Row("    on our provider", added["on our provider"] / peer, own_beside, "of peer"),
            Row("    by hand", added["by hand"] / peer, None, "of peer"),
        ]
    return rows


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
    found = contenders()
    sides = [side for side in SIDES if side in found]
    started = False
    for side in sides:
        contender = found[side]
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
    print("\n".join(sides))


if __name__ == "__main__":
    logging.disable(logging.ERROR)
    work(sys.argv[1])
