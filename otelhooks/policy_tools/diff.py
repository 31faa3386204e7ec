"""Two policies side by side: rules and hooks that were added, removed or changed."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from otelhooks.hooks.registry import registrations
from otelhooks.policy import fingerprints
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.files.front_matter import FrontMatter
from otelhooks.policy.files.rules import written
from otelhooks.policy.files.statements import STATEMENTS
from otelhooks.policy.rules import SELECTORS, Rule
from otelhooks.policy_tools.subject import Subject

__all__ = ["Entry", "Note", "describe_when", "diff", "selected_by"]

_FIELDS = ("tool", "name", "reason", "severity", "mode", "hide")


@dataclass(frozen=True)
class Entry:
    """A rule or a hook, as compared.

    Attributes:
        kind: ``rule`` or ``hook``.
        name: ``policy/rule``, or the hook's name.
        pairing: What identifies it if its name has changed with its content; empty if nothing does.
        fields: Its content.
        identity: What it is the same by, if not by its name.
    """

    kind: str
    name: str
    pairing: str
    fields: dict[str, str]
    identity: str = ""


@dataclass(frozen=True)
class Note:
    """One difference.

    Attributes:
        change: What happened to it.
        entry: The rule or hook, the newer one of the two.
        fields: For a changed one, each field with its old and new value.
    """

    change: Literal["added", "removed", "changed"]
    entry: Entry
    fields: dict[str, tuple[str, str]] = dataclasses.field(
        default_factory=dict[str, tuple[str, str]]
    )


def diff(old: Subject, new: Subject) -> list[Note]:
    """Compare two policies.

    Rules are the same if they have the same id; changed rules without an id are paired by policy,
    decision and tool, if each side has only one candidate.

    Args:
        old: Before.
        new: After.

    Returns:
        What differs, removed ones first; empty if nothing does.
    """
    before, after = _entries(old), _entries(new)
    gone = [entry for key, entry in before.items() if key not in after]
    come = [entry for key, entry in after.items() if key not in before]
    pairs = [(before[key], after[key]) for key in before if key in after]
    for entry in list(gone):
        twins = [other for other in come if other.pairing == entry.pairing]
        rivals = [other for other in gone if other.pairing == entry.pairing]
        if entry.pairing and len(twins) == len(rivals) == 1:
            gone.remove(entry)
            come.remove(twins[0])
            pairs.append((entry, twins[0]))
    changed = [Note("changed", b, _changed(a.fields, b.fields)) for a, b in pairs]
    return [
        *(Note("removed", entry) for entry in gone),
        *(Note("added", entry) for entry in come),
        *(note for note in changed if note.fields),
    ]


def _changed(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, str]]:
    keys = dict.fromkeys((*before, *after))
    found = {key: (before.get(key, ""), after.get(key, "")) for key in keys}
    return {key: pair for key, pair in found.items() if pair[0] != pair[1]}


def _entries(subject: Subject) -> dict[tuple[str, str, int], Entry]:
    """Return a policy's entries by kind, name, and number among those of the same name."""
    table = subject.table()
    found: dict[tuple[str, str, int], Entry] = {}
    for entry in (_settings(table), *_rules(table), *_hooks(subject)):
        same = entry.identity or entry.name
        keys = ((entry.kind, same, number) for number in itertools.count())
        found[next(key for key in keys if key not in found)] = entry
    return found


def _settings(table: PolicySet) -> Entry:
    fields = {"default": table.default, "mode": table.mode}
    return Entry("setting", "default and mode", "", fields)


def _rules(table: PolicySet) -> Iterator[Entry]:
    for rule in table.rules:
        yield Entry(
            "rule",
            f"{rule.policy_id}/{rule.id}",
            "" if rule.policy.id else f"{rule.policy_id} {rule.decision} {rule.policy.tool}",
            {**_said(rule), "when": describe_when(rule)},
            f"{rule.policy_id}/{rule.identity}",
        )


def _said(rule: Rule) -> dict[str, str]:
    said = {"decision": "veto" if rule.policy.veto else rule.decision}
    for name in _FIELDS:
        value: Any = getattr(rule.policy, name)
        if value:
            said[name] = str(value)
    return said | selected_by(rule)


def selected_by(rule: Rule) -> dict[str, str]:
    """Return what a rule selects calls by besides tool and `when`, each key with its YAML."""
    found: dict[str, str] = {}
    for key in STATEMENTS["deny"].options:
        value: Any = getattr(rule.policy, key.name, None)
        if key.name in ("agent", *SELECTORS) and value is not None:
            one = {key.name: key.kind.write(value)}
            text: str = yaml.safe_dump(
                one, default_flow_style=True, allow_unicode=True, width=math.inf
            )
            found[key.name] = text.strip()[1:-1].partition(": ")[2]
    return found


def describe_when(rule: Rule) -> str:
    """Return a rule's condition as text: its expression, or what is known of its function."""
    when: Any = rule.policy.when
    if when is None:
        return ""
    expression = getattr(when, "text", None)
    if isinstance(expression, str):
        return expression.strip()
    name = getattr(when, "__qualname__", type(when).__qualname__)
    return f"{name} ({fingerprints.digest(fingerprints.describe(when, code=True), length=8)})"


def _hooks(subject: Subject) -> Iterator[Entry]:
    for script in subject.scripts:
        yield Entry("hook", script.name, "", _file(script.said))
    for gate in subject.gates:
        entry = written(gate)
        if entry is None:
            fields = {"says": repr(gate)}
        else:
            fields = {"entry": json.dumps(entry, ensure_ascii=False)}
        yield Entry("limit or label", f"{gate.policy_id}/{gate.id}", "", fields)
    for hook in subject.objects:
        points = ", ".join(dict.fromkeys(found.point for found in registrations(hook)))
        fields = {"points": points, "priority": str(hook.priority)}
        yield Entry("hook", type(hook).__qualname__, "", fields)


def _file(said: FrontMatter) -> dict[str, str]:
    """Return the content of a hook file, by its keys."""
    fields = {"event": said.event, "priority": str(said.priority)}
    fields |= {key: str(getattr(said, key) or "") for key in ("id", "severity", "mode")}
    fields["description"] = said.description
    if said.when is not None:
        fields["when"] = said.when.value.strip()
    return {**fields, "script": said.script.value.rstrip()}
