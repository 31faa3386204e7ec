"""Other libraries that trace the agents of this process, and how to set otelhooks beside them.

Nothing here imports what it looks for. Telemetry: fails open.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from importlib import metadata
from types import ModuleType
from typing import Any, NamedTuple

from otelhooks.process.environment import openai_agents_traces
from otelhooks.telemetry.quiet import fails_open

__all__ = ["Tracer", "active", "installed", "sends_traces", "tell"]

_log = logging.getLogger("otelhooks")

_INSTRUMENTORS = (
    "openinference.instrumentation",
    "opentelemetry.instrumentation",  # Traceloop, and OpenTelemetry's older ones
    "opentelemetry.instrumentation.genai",
)
"""Packages with one module per framework that contains an instrumentor."""

_PATCHED_BY_DATADOG = {"langchain": "langchain_core", "openai_agents": "agents", "mcp": "mcp"}

_TRACING = "agents.tracing.setup"
"""The module of openai-agents that holds its trace provider."""

_DISTRIBUTIONS = (
    *("logfire", "langfuse", "traceloop-sdk", "ddtrace"),
    *("openinference-instrumentation-langchain", "openinference-instrumentation-openai-agents"),
    "openinference-instrumentation-mcp",
    "opentelemetry-instrumentation-genai-langchain",
    "opentelemetry-instrumentation-genai-openai-agents",
    *("opentelemetry-instrumentation-langchain", "opentelemetry-instrumentation-mcp"),
    "opentelemetry-instrumentation-openai-agents",
    "opentelemetry-instrumentation-openai-agents-v2",
)


class Tracer(NamedTuple):
    """A package that can trace agents beside otelhooks."""

    distribution: str
    version: str


def installed() -> Iterator[Tracer]:
    """Find the installed packages that can trace, whether a program switches them on or not."""
    for name in _DISTRIBUTIONS:
        try:
            yield Tracer(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            continue


def active(framework: str) -> list[str]:
    """Return the modules that open OpenTelemetry spans for a framework's calls now."""
    modules = [f"{package}.{framework}" for package in _INSTRUMENTORS]
    found = [name for name in modules if _is_on(sys.modules.get(name))]
    if framework == "openai_agents" and type(_trace_provider()).__module__.startswith("logfire"):
        found.append("logfire")
    if framework == "langchain" and "langfuse.langchain" in sys.modules:
        found.append("langfuse.langchain")
    return found


def _is_on(module: ModuleType | None) -> bool:
    """Return whether an instrumentor of a module is active."""
    if module is None:
        return False
    kinds = [value for value in list(vars(module).values()) if isinstance(value, type)]
    instances: list[Any] = [getattr(kind, "_instance", None) for kind in kinds]
    return any(getattr(one, "is_instrumented_by_opentelemetry", False) is True for one in instances)


def _trace_provider() -> Any:
    """Return openai-agents' trace provider; None before its first trace."""
    return getattr(sys.modules.get(_TRACING), "GLOBAL_TRACE_PROVIDER", None)


@fails_open
def tell(framework: str, mode: str, *, is_chosen: bool) -> None:
    """Log one line on who else traces a framework, and one on where its own traces go.

    Args:
        framework: Adapter.
        mode: How its spans are made.
        is_chosen: Whether the application has set that, so that no warning is needed.
    """
    found = active(framework)
    names = ", ".join(f"`{name}`" for name in found)
    if found and mode == "auto" and not is_chosen:
        _log.warning(
            "%s is also traced by %s: most of its calls have two spans\n"
            'hint: set spans="annotate", and each verdict is written to its span; "auto" says '
            "that you want both",
            framework,
            names,
        )
    elif found:
        _log.info("%s is also traced by %s; spans=%s", framework, names, mode)
    elif mode == "annotate":
        _log.info(
            "spans=annotate: no known tracer covers %s; where no span is current, verdicts "
            "are in events, metrics and audit",
            framework,
        )
    patched = sys.modules.get(_PATCHED_BY_DATADOG.get(framework, ""))
    if getattr(patched, "_datadog_patch", False):
        _log.info("%s is also traced by `ddtrace`, whose spans carry no verdicts", framework)
    if framework == "openai_agents" and sends_traces():
        _log.info(
            "openai-agents sends traces of its own, with prompts and results, to OpenAI\n"
            "hint: OPENAI_AGENTS_DISABLE_TRACING=1 or agents.set_tracing_disabled(True) stops it"
        )


def sends_traces() -> bool:
    """Return whether openai-agents sends traces of its own to OpenAI.

    Source: agents.tracing of openai-agents 0.10 to 0.24: a default processor exports as soon as
    there is a key, unless tracing is disabled or other processors were set.
    """
    if _TRACING not in sys.modules:
        return False
    provider = _trace_provider()
    provider = getattr(provider, "wrapped", provider)  # Logfire's, which continues to export
    has_key, is_off = openai_agents_traces()
    if provider is None:  # the default one is created, with its processor, at the first trace
        return has_key and not is_off
    said = getattr(provider, "_manual_disabled", None)
    if getattr(provider, "_disabled", False) or (is_off and said is None):
        return False
    group = getattr(provider, "_multi_processor", None)
    exporters = [getattr(each, "_exporter", None) for each in getattr(group, "_processors", ())]
    return any(
        type(each).__name__ == "BackendSpanExporter"
        and (has_key or bool(getattr(each, "_api_key", None)))
        for each in exporters
    )
