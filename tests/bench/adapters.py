"""What each newer adapter adds to a tool call: ``python -m tests.bench.adapters [FRAMEWORK ...]``.

A run is that of the framework's proof, on its first path, with 10 calls of an allowed tool, each
asked for by a model call of its own. Beside ours stands, where there is one, the instrumentation
that most people trace the framework with; it decides nothing. Figures are as in `measure.py`.
claude_agent_sdk is left out: its loop is another process, whose start takes most of a run. Of raw
clients there are also the rows of `clients.py`, for one request.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import logging
from collections.abc import Callable
from typing import Any

import anyio

from otelhooks.frameworks.kit import trials
from tests.bench import clients
from tests.bench.__main__ import line
from tests.bench.measure import Contender, Row, alternate, floor
from tests.bench.sides import PEERS, ours, peer, project_of

CALLS = 10  # of tools in a run


def main() -> None:
    """Measure what was asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.adapters")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help=", ".join(PEERS))
    parser.add_argument("--rounds", type=int, default=4, help="of each comparison")
    asked = parser.parse_args()
    logging.disable(logging.ERROR)
    for framework in asked.frameworks or PEERS:
        of_client = clients.rows(framework, asked.rounds) if framework in clients.CLIENTS else ()
        for row in (*rows(framework, asked.rounds), *of_client):
            print(line(row), flush=True)


def rows(framework: str, rounds: int) -> list[Row]:
    """Return the rows of one framework."""
    run = first_path(framework)

    def work(calls: int) -> None:
        steps = [[("safe", {"x": 1})]] * calls
        trial = trials.Trial([*steps, "done"])
        answer = anyio.run(run, trial) if inspect.iscoroutinefunction(run) else run(trial)
        assert (answer, trial.ran) == ("done", ["safe"] * calls), (framework, answer, trial.ran)

    sides = {"floor": floor(), "bare": Contender(work, CALLS), "ours": ours(framework, work, CALLS)}
    if PEERS[framework] is not None:
        sides["peer"] = peer(framework, work, CALLS)
    with contextlib.redirect_stdout(io.StringIO()):  # of frameworks that print what agents do
        times = alternate(sides, rounds)
    found = [times.row(f"{framework} run, a model and a tool call", None, "ours", "floor", "bare")]
    if "peer" in sides:
        found.append(times.row(f"  beside {project_of(framework)}'s", None, "ours", "peer", "bare"))
    return found


def first_path(framework: str) -> Callable[[trials.Trial], Any]:
    """Return the first path of a framework's proof."""
    prove = importlib.import_module(f"otelhooks.frameworks.{framework}.scripted").prove
    return next(iter(prove.paths.values()))


if __name__ == "__main__":
    main()
