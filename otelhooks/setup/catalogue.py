"""The one table of adapters: their names, which are wanted, and the order in which they patch.

An adapter is a package of `otelhooks.frameworks` with an ``ADAPTER`` (see `patches`). It imports
nothing of its framework. Order: packages that others build on come first, so that an inner seat is
in place before an outer one relies on it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from otelhooks.errors import ConfigError
from otelhooks.setup.known import KNOWN, named

if TYPE_CHECKING:
    from otelhooks.patching.adapters import Adapter

__all__ = ["ADAPTERS", "Frameworks", "adapter", "distributions", "wanted"]

ADAPTERS: dict[str, tuple[str, ...]] = {
    "mcp": ("mcp",),
    "fastmcp": ("fastmcp",),
    "langchain": (
        "langchain_core",
        "langgraph",
        "langchain",
        "deepagents",
        "langgraph_swarm",
        "langgraph_supervisor",
        "langchain_quickjs",
        "langchain_classic",
        "langchain_anthropic",
    ),
    "openai_agents": ("agents",),
    "hedera_agent_kit": ("hedera_agent_kit",),
    "google_antigravity": ("google.antigravity",),
    "pydantic_ai": ("pydantic_ai",),
    "strands": ("strands",),
    "claude_agent_sdk": ("claude_agent_sdk",),
    "google_adk": ("google.adk",),
    "haystack": ("haystack",),
    "llama_index": ("llama_index.core", "workflows"),
    "crewai": ("crewai",),
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "google_genai": ("google.genai",),
    "litellm": ("litellm",),
}
"""Framework -> the packages whose import loads its adapter; top-level, or of a namespace."""

Frameworks = Iterable[str] | Mapping[str, Any] | None


def adapter(name: str) -> Adapter:
    """Load one adapter; its framework is not imported.

    Raises:
        ConfigError: No adapter has this name.
    """
    if name not in ADAPTERS:
        raise _unknown(name, ADAPTERS)
    return importlib.import_module(f"otelhooks.frameworks.{name}").ADAPTER


def wanted(frameworks: Frameworks) -> tuple[tuple[str, ...], frozenset[str]]:
    """Split ``frameworks=`` of `otelhooks.instrument` into what is patched and what is left alone.

    Args:
        frameworks: Names (all others are left alone); or name -> ``"on"``, ``"off"`` or a dict of
            settings (frameworks not named are on); None = all are on. In the second form, a single
            distribution of a framework, such as ``langgraph``, can be turned off by its name.

    Returns:
        Every known framework in order of patching, and the names that are off.

    Raises:
        ConfigError: A name or a value is unknown.
    """
    names = tuple(ADAPTERS)
    if frameworks is None:
        return names, frozenset()
    if isinstance(frameworks, str):
        frameworks = (frameworks,)
    if not isinstance(frameworks, Mapping):
        chosen = tuple(frameworks)
        for name in chosen:
            if named(name) is not None:
                raise _not_guarded(name)
            if name not in ADAPTERS:
                raise _unknown(name, ADAPTERS)
        return names, frozenset(names) - frozenset(chosen)
    off: set[str] = set()
    for name, setting in cast("Mapping[str, Any]", frameworks).items():
        if name not in ADAPTERS and named(name) is None and name not in distributions():
            raise _unknown(name, [*ADAPTERS, *distributions()])
        if named(name) is not None and setting != "off":
            raise _not_guarded(name)
        if setting == "off":
            off.add(name)
        elif isinstance(setting, Mapping):
            _check_options(name, cast("Mapping[str, Any]", setting))
        elif setting != "on":
            problem = f"unknown setting for framework `{name}`: `{setting}`"
            raise ConfigError(problem, hint='use "on", "off" or a dict such as {"spans": "own"}')
    return names, frozenset(off)


def _check_options(name: str, setting: Mapping[str, Any]) -> None:
    """Refuse options that the framework does not have.

    Raises:
        ConfigError: An option or its value is unknown.
    """
    others = {option: word for option, word in setting.items() if option != "spans"}
    known: Mapping[str, tuple[str, ...]] = {}
    if others and name in ADAPTERS:
        known = adapter(name).options
    for option, word in others.items():
        if option not in known:
            listed = ", ".join(f"`{one}`" for one in ("spans", *known))
            problem = f"unknown option of framework `{name}`: `{option}`"
            raise ConfigError(problem, hint=f"use one of {listed}")
        if word not in known[option]:
            listed = " or ".join(f'"{one}"' for one in known[option])
            problem = f"option `{option}` of framework `{name}` cannot be `{word}`"
            raise ConfigError(problem, hint=f"use {listed}")


def distributions() -> tuple[str, ...]:
    """Return every distribution that an adapter patches as a package of its own."""
    names: dict[str, None] = {}
    for name in ADAPTERS:
        known = adapter(name)
        for package in known.packages:
            names.update(dict.fromkeys(package.distributions))
        names.update(dict.fromkeys(item.distribution for item in known.not_covered if item.seats))
    return tuple(name for name in names if name)


def _unknown(name: str, known: Iterable[str]) -> ConfigError:
    from difflib import get_close_matches

    names = sorted(set(known))
    near = get_close_matches(name, [*names, *(each.name for each in KNOWN)], n=1, cutoff=0.7)
    listed = ", ".join(f"`{one}`" for one in names)
    hint = f"did you mean `{near[0]}`?" if near else f"use one of {listed}"
    return ConfigError(f"unknown framework `{name}`", hint=hint)


def _not_guarded(name: str) -> ConfigError:
    return ConfigError(
        f"no adapter guards `{name}`",
        hint='decorate its tools with @otelhooks.tool; "off" says that you know',
    )
