"""Each budget beside its figure, all measured in this run: ``python -m tests.bench [GROUP ...]``.

Groups are the names below; all by default. A floor is one hand-written SDK span with 8 attributes,
exported; `of peer` is a ratio to the instrumentation of OpenTelemetry's own project on the same
work, less what both would cost without instrumentation; see `measure.py` for the rest. A figure
over its budget is said and is no failure: what must hold is checked by counts, in the unit tests.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
from collections.abc import Callable

from tests.bench import (
    agent_runs,
    console,
    counting,
    decisions,
    instructions,
    memory,
    start,
    store,
    tool_call,
)
from tests.bench.measure import Row, empty_call

GROUPS: dict[str, Callable[[int], list[Row]]] = {
    "instructions": instructions.measure,
    "tool_call": tool_call.measure,
    "openai_agents": agent_runs.measure_openai_agents,
    "langchain": agent_runs.measure_langchain,
    "decisions": decisions.measure,
    "counting": counting.measure,
    "start": start.measure,
    "store": store.measure,
    "memory": memory.measure,
    "console": console.measure,
}


def line(row: Row) -> str:
    """Return a row as it is printed."""
    figure = f"{row.figure:,.2f}" if abs(row.figure) < 100 else f"{row.figure:,.0f}"
    budget = verdict = ""
    if row.budget is not None:
        budget = f"{'>=' if row.at_least else '<='} {row.budget:,g}"
        verdict = "ok" if row.is_met else "OVER"
    return f"{row.what:<48} {figure:>9} {row.unit:<9} {budget:<10} {verdict:<5} {row.note}".rstrip()


def main() -> None:
    """Measure what was asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--rounds", type=int, default=15, help="of each comparison")
    asked = parser.parse_args()
    unknown = sorted(set(asked.groups) - set(GROUPS))
    if unknown:
        parser.error(f"unknown group `{unknown[0]}`: use one of {', '.join(GROUPS)}")
    logging.disable(logging.ERROR)
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores{load}")
    print(f"an empty call takes {empty_call() * 1e9:.0f} ns here; * is for a machine with 25 ns\n")
    print(f"{'what':<48} {'figure':>9} {'unit':<9} {'budget':<10}")
    rows: list[Row] = []
    for name in asked.groups or GROUPS:
        for row in GROUPS[name](asked.rounds):
            rows.append(row)
            print(line(row), flush=True)
    over = [row for row in rows if not row.is_met]
    kept = sum(row.budget is not None for row in rows) - len(over)
    print(f"\n{kept} budgets kept, {len(over)} not")


if __name__ == "__main__":
    main()
