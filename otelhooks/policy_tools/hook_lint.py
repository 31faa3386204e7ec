"""Problems of hook files that load: events that nothing fires, keys that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otelhooks.errors import ConfigError
from otelhooks.policy.files.events import EVENTS
from otelhooks.policy.files.front_matter import KEYS
from otelhooks.policy_tools.check import Finding
from otelhooks.policy_tools.subject import Subject

__all__ = ["lint_hooks", "missing"]

_OF_RULES = ("id", "name", "reason", "severity", "agent")
_OF_HOOKS = tuple(key.name for key in KEYS if not key.required)
AUDIT = "audit"
_AUDITED = ("tool.pre", "tool.post")


def lint_hooks(subject: Subject) -> Iterator[Finding]:
    """Find hook files that never run.

    Args:
        subject: The policy.
    """
    for script in subject.scripts:
        said = script.said
        if said.event not in EVENTS and not said.event.startswith("custom."):
            yield Finding(
                "warning",
                f"{said.source.path}:1:1",
                f"nothing here fires `{said.event}`",
                f"one of {', '.join(EVENTS)} is fired; `custom.*` is what programs emit",
            )


def missing(subject: Subject, keys: Sequence[str]) -> Iterator[Finding]:
    """Find rules and hooks that lack wanted keys.

    Args:
        subject: The policy.
        keys: Keys of hook files and rules; `AUDIT` for hooks that audit calls and results.

    Raises:
        ConfigError: Neither has such a key.
    """
    known = (*dict.fromkeys((*_OF_HOOKS, *_OF_RULES)), AUDIT)
    for key in keys:
        if key not in known:
            raise ConfigError(f"`{key}` cannot be required", hint=f"use one of {', '.join(known)}")
    for script in subject.scripts:
        place = f"{script.said.source.path}:1:1"
        for key in keys:
            if key in _OF_HOOKS and key not in script.said.given:
                yield _wanted(place, f"`{script.name}` has no `{key}`", key)
    for rule in subject.table().rules:
        for key in keys:
            if key in _OF_RULES and not getattr(rule.policy, key):
                place = rule.policy.place or rule.policy_id
                yield _wanted(place, f"the rule `{rule.label}` has no `{key}`", key)
    if AUDIT in keys:
        yield from _unaudited(subject)


def _wanted(place: str, problem: str, key: str) -> Finding:
    return Finding("error", place, problem, f"write `{key}:` there")


def _unaudited(subject: Subject) -> Iterator[Finding]:
    for event in _AUDITED:
        own = [script for script in subject.scripts if script.said.event == event]
        audits = [script for script in own if script.said.when is None and AUDIT in script.calls]
        first = min((script.said.priority for script in audits), default=None)
        if first is None:
            places = [source.path for source in subject.sources] or ["policy"]
            yield Finding(
                "error",
                places[0],
                f"nothing audits every `{event}`",
                "add a hook without a `when` that calls `audit(...)`; see the pack `governed`",
            )
            continue
        for script in own:
            if script.said.priority < first:
                yield Finding(
                    "error",
                    f"{script.said.source.path}:1:1",
                    f"`{script.name}` runs before the hook that audits every `{event}`",
                    f"give it a priority of {first} or more",
                )
