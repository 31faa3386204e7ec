"""Misspelt variables: those in the environment that look like ours but are not, or are empty.

An unknown variable has no effect. One that looks like a guarding setting is an error, since the
program would start without the guard that it was meant to have; any other is a warning.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from otelhooks.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["check", "nearest"]

_log = logging.getLogger("otelhooks.config")

_GUARDING = ("POLICIES", "HOOKS", "MCP_SERVERS", "AUDIT", "STRICT")
"""Settings without which a program runs with fewer rules, checks or records than intended."""

_OTHERS = frozenset(
    {
        "OTELHOOKS_RUN",
        "OTELHOOKS_RUN_PID",
        "OTELHOOKS_TRACE_STORE",
        "OTELHOOKS_EVENTS_TOKEN",
        "OTELHOOKS_COLLECTOR_METRICS",
        # Of the files in `collector/`.
        "OTELHOOKS_DASHBOARDS_URL",
        "OTELHOOKS_METRICS_EXPORTER",
        "OTELHOOKS_SECRETS",
        "OTELHOOKS_TRACES_EXPORTER",
        "OTELHOOKS_TRACES_URL",
    }
)
"""Variables that are ours but not settings."""

_RULES = re.compile(r"POLIC|RULE|GUARD|HOOK")
"""Words that make a variable name rules, with any others beside them."""

# Kubernetes sets variables for each service in every pod; one may be called `otelhooks-policies`.
# Source: kubernetes.io, "Service", "Environment variables".
_OF_A_SERVICE = re.compile(r"_(SERVICE_(HOST|PORT)|PORT)(_.*)?")

_said: set[str] = set()


def check(environment: Mapping[str, str], known: Iterable[str], warns: bool = True) -> None:
    """Check for variables that are meant for otelhooks but unknown to it.

    Args:
        environment: All variables.
        known: Names of the settings' variables.
        warns: Whether to log the others, each once.

    Raises:
        ConfigError: One of them names rules, or looks like a guarding setting.
    """
    settings = [name.removeprefix("OTELHOOKS_") for name in known]
    for name, value in environment.items():
        word = _rest(name)
        is_said = not warns or name in _said
        if name in known and word in _GUARDING and not value.strip() and not is_said:
            _said.add(name)
            _log.warning("variable `%s` is empty, which counts as not set", name)
        if word is None or not value.strip() or name in known or name in _OTHERS:
            continue
        if _OF_A_SERVICE.search(name):
            continue
        near = nearest(word, settings)
        problem = f"variable `{name}` is not known, so nothing reads it"
        if near in _GUARDING or _RULES.search(word):
            meant = f"did you mean `OTELHOOKS_{near or 'POLICIES'}`?"
            raise ConfigError(problem, hint=f"{meant} If not, rename it")
        if not is_said:
            _said.add(name)
            meant = f"\nhint: did you mean `OTELHOOKS_{near}`?" if near else ""
            _log.warning("%s%s", problem, meant)


def _rest(name: str) -> str | None:
    """Return what follows our prefix, even a misspelt one; None for any other variable."""
    match = re.match(r"OTEL_?HOOKS?_(.+)", name.upper())
    return match[1] if match else None


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that a misspelt one may mean, empty if none is close."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.7)), "")
