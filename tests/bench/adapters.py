"""What each newer adapter adds to a tool call: ``python -m tests.bench.adapters [FRAMEWORK ...]``.

A run is that of the framework's proof, on its first path, with 10 calls of an allowed tool, each
asked for by a model call of its own. Beside ours stands, where there is one, the instrumentation
that most people trace the framework with; it decides nothing. Figures are as in `measure.py`.
claude_agent_sdk is left out: its loop is another process, whose start takes most of a run.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

import otelhooks
from otelhooks import policy
from otelhooks.frameworks.kit import trials
from tests.bench.__main__ import line
from tests.bench.measure import Contender, Row, Sink, alternate, floor

CALLS = 10  # of tools in a run
_OPENINFERENCE, _OPENTELEMETRY = "openinference.instrumentation", "opentelemetry.instrumentation"

PEERS: dict[str, tuple[str, str] | None] = {
    "pydantic_ai": None,
    "strands": None,
    "google_adk": (f"{_OPENINFERENCE}.google_adk", "GoogleADKInstrumentor"),
    "haystack": (f"{_OPENINFERENCE}.haystack", "HaystackInstrumentor"),
    "llama_index": (f"{_OPENINFERENCE}.llama_index", "LlamaIndexInstrumentor"),
    "crewai": (f"{_OPENINFERENCE}.crewai", "CrewAIInstrumentor"),
    "openai": (f"{_OPENTELEMETRY}.genai.openai", "OpenAIInstrumentor"),
    "anthropic": (f"{_OPENTELEMETRY}.genai.anthropic", "AnthropicInstrumentor"),
    "google_genai": (f"{_OPENTELEMETRY}.google_genai", "GoogleGenAiSdkInstrumentor"),
    "litellm": (f"{_OPENINFERENCE}.litellm", "LiteLLMInstrumentor"),
}
"""Framework to the module and class of its peer; None if it has none."""

PROJECTS = {"openinference": "OpenInference", "opentelemetry": "OpenTelemetry"}


def main() -> None:
    """Measure what was asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.adapters")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help=", ".join(PEERS))
    parser.add_argument("--rounds", type=int, default=4, help="of each comparison")
    asked = parser.parse_args()
    for framework in asked.frameworks or PEERS:
        for row in rows(framework, asked.rounds):
            print(line(row), flush=True)


def rows(framework: str, rounds: int) -> list[Row]:
    """Return the rows of one framework."""
    run = first_path(framework)

    def work(calls: int) -> None:
        steps = [[("safe", {"x": 1})]] * calls
        trial = trials.Trial([*steps, "done"])
        answer = anyio.run(run, trial) if inspect.iscoroutinefunction(run) else run(trial)
        assert (answer, trial.ran) == ("done", ["safe"] * calls), (framework, answer, trial.ran)

    sides = {"floor": floor(), "bare": Contender(work, CALLS), "ours": ours(framework, work)}
    if (place := PEERS[framework]) is not None:
        sides["peer"] = peer(*place, work)
    with contextlib.redirect_stdout(io.StringIO()):  # of frameworks that print what agents do
        times = alternate(sides, rounds)
    found = [times.row(f"{framework} run, a model and a tool call", None, "ours", "floor", "bare")]
    if "peer" in sides:
        found.append(
            times.row(
                f"  beside {PROJECTS[place[0].partition('.')[0]]}'s", None, "ours", "peer", "bare"
            )
        )
    return found


def first_path(framework: str) -> Callable[[trials.Trial], Any]:
    """Return the first path of a framework's proof."""
    found: list[Any] = []

    def keep(name: str, distribution: str, module: str, paths: Any, **settings: Any) -> None:
        found.extend(paths.values())

    prove, trials.prove = trials.prove, keep
    try:
        importlib.import_module(f"otelhooks.frameworks.{framework}.scripted").prove()
    finally:
        trials.prove = prove
    return found[0]


def ours(framework: str, work: Callable[[int], None]) -> Contender:
    """Return a side with the framework governed by two rules, traced and counted."""
    sink = Sink()

    def on() -> None:
        otelhooks.instrument(
            policies=[policy.deny("run_command"), policy.allow("safe")],
            tracer_provider=sink.tracers,
            meter_provider=sink.meters,
            frameworks=(framework,),
            store=Path("/dev/null"),
        )

    return Contender(work, CALLS, sink.flush, on, otelhooks.uninstrument, sink)


def peer(module: str, name: str, work: Callable[[int], None]) -> Contender:
    """Return a side with the framework traced by another instrumentation."""
    sink, instrumentor = Sink(), getattr(importlib.import_module(module), name)()

    def on() -> None:
        instrumentor.instrument(tracer_provider=sink.tracers, meter_provider=sink.meters)

    return Contender(work, CALLS, sink.flush, on, instrumentor.uninstrument, sink)


if __name__ == "__main__":
    main()
