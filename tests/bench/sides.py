"""Sides of a comparison: a framework traced by us, and by what most people trace it with."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import otelhooks
from otelhooks import policy
from tests.bench.measure import Contender, Sink

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

RULES = (policy.deny("run_command"), policy.allow("safe"))


def project_of(framework: str) -> str:
    """Return the name of the project that a framework's peer is from."""
    module, _ = PEERS[framework] or ("", "")
    return "OpenInference" if module.startswith(_OPENINFERENCE) else "OpenTelemetry"


def ours(framework: str, work: Callable[[int], None], calls: int, **settings: Any) -> Contender:
    """Return a side with the framework governed, traced and counted.

    Args:
        framework: Its adapter is on, no other.
        work: Makes so many calls.
        calls: Calls in a turn.
        settings: Of `otelhooks.instrument`; ``policies`` are else a rule that denies and one that
            allows.
    """
    sink = Sink()
    settings = {"policies": RULES, **settings}

    def on() -> None:
        otelhooks.instrument(
            tracer_provider=sink.tracers,
            meter_provider=sink.meters,
            frameworks=(framework,),
            store=Path("/dev/null"),
            **settings,
        )

    return Contender(work, calls, sink.flush, on, otelhooks.uninstrument, sink)


def peer(framework: str, work: Callable[[int], None], calls: int) -> Contender:
    """Return a side with the framework traced by its peer; arguments as `ours`."""
    module, name = PEERS[framework] or ("", "")
    sink, instrumentor = Sink(), getattr(importlib.import_module(module), name)()

    def on() -> None:
        instrumentor.instrument(tracer_provider=sink.tracers, meter_provider=sink.meters)

    return Contender(work, calls, sink.flush, on, instrumentor.uninstrument, sink)
