"""The adapters: their names, which are wanted, and the order in which they patch.

An adapter is a module here with an ``ADAPTER`` (see `_patch`). Importing one imports nothing of
its framework. Order: what others are built on comes first, so that an inner seat is there before
an outer one relies on it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from otelhooks.errors import ConfigError

if TYPE_CHECKING:
    from otelhooks.instrumentation._patch import Adapter, Coverage

__all__ = ["ADAPTERS", "adapter", "coverage", "install", "set_strict", "uninstall", "wanted"]

ADAPTERS: dict[str, str] = {
    "mcp": "otelhooks.instrumentation.mcp",
    "langchain": "otelhooks.instrumentation.langchain",
    "openai_agents": "otelhooks.instrumentation.openai_agents",
}

Frameworks = Iterable[str] | Mapping[str, Any] | None


def adapter(name: str) -> Adapter:
    """Load one adapter; its framework is not imported.

    Raises:
        ConfigError: if no adapter has this name.
    """
    if name not in ADAPTERS:
        raise _unknown(name, ADAPTERS)
    return importlib.import_module(ADAPTERS[name]).ADAPTER


def wanted(frameworks: Frameworks) -> tuple[tuple[str, ...], frozenset[str]]:
    """Split ``frameworks=`` of `otelhooks.instrument` into what is patched and what is left alone.

    Args:
        frameworks: Names (all others are left alone); or name -> ``"on"``, ``"off"`` or a dict of
            settings (those not named are on); None = all are on. A single distribution of a
            framework, such as ``langgraph``, can be a name in the second form, to be turned off.

    Returns:
        Every known framework in order of patching, and the names that are off.

    Raises:
        ConfigError: if a name or a value is unknown.
    """
    names = tuple(ADAPTERS)
    if frameworks is None:
        return names, frozenset()
    if isinstance(frameworks, str):
        frameworks = (frameworks,)
    if not isinstance(frameworks, Mapping):
        chosen = tuple(frameworks)
        for name in chosen:
            if name not in ADAPTERS:
                raise _unknown(name, ADAPTERS)
        return names, frozenset(names) - frozenset(chosen)
    off: set[str] = set()
    for name, setting in cast("Mapping[str, Any]", frameworks).items():
        if name not in ADAPTERS and name not in _distributions():
            raise _unknown(name, [*ADAPTERS, *_distributions()])
        if setting == "off":
            off.add(name)
        elif setting != "on" and not isinstance(setting, Mapping):
            problem = f"unknown setting for framework `{name}`: `{setting}`"
            raise ConfigError(problem, hint='use "on", "off" or a dict such as {"spans": "own"}')
    return names, frozenset(off)


def install(frameworks: Frameworks = None, *, strict: bool) -> tuple[Coverage, ...]:
    """Patch every wanted framework, now or as it is imported.

    Args:
        frameworks: As in `otelhooks.instrument`.
        strict: Whether what cannot be guarded in full is refused.

    Returns:
        The coverage so far.

    Raises:
        ConfigError: if a name or setting is unknown, or two adapters want the same framework;
            nothing stays patched then.
    """
    from otelhooks.instrumentation import _patch

    names, off = wanted(frameworks)
    try:
        for name in names:
            _patch.install(adapter(name), strict=strict, off=off)
    except BaseException:
        _patch.uninstall()
        raise
    return _patch.coverage()


def uninstall() -> None:
    """Put every patched name of every framework back."""
    from otelhooks.instrumentation import _patch

    _patch.uninstall()


def set_strict(strict: bool) -> None:
    """Switch refusal of what cannot be guarded, for all frameworks at once."""
    from otelhooks.instrumentation import _patch

    _patch.set_strict(strict)


def coverage() -> tuple[Coverage, ...]:
    """Return the coverage of all frameworks; empty when nothing is installed."""
    from otelhooks.instrumentation import _patch

    return _patch.coverage()


def _distributions() -> tuple[str, ...]:
    """Every distribution that some adapter judges for itself."""
    names: dict[str, None] = {}
    for name in ADAPTERS:
        known = adapter(name)
        for package in known.packages:
            names.update(dict.fromkeys(package.distributions))
        names.update(dict.fromkeys(item.distribution for item in known.not_covered if item.seats))
    return tuple(name for name in names if name)


def _unknown(name: str, known: Iterable[str]) -> ConfigError:
    listed = ", ".join(f"`{one}`" for one in sorted(set(known)))
    return ConfigError(f"unknown framework `{name}`", hint=f"use one of {listed}")
