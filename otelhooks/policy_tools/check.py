"""Problems of a policy that loads: rules that never decide, and names that never match."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from otelhooks import types
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.labels import UNKNOWN
from otelhooks.hooks.verdict import ALLOW, ASK
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.rules import Policy, Rule, selection
from otelhooks.policy.selectors import WILDCARD, Selector
from otelhooks.policy.shells.rules import Found
from otelhooks.policy_tools.diff import describe_when
from otelhooks.policy_tools.recorded import RecordedCall

__all__ = ["Finding", "KnownTools", "covers", "lint_needs", "lint_rules"]

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """A certain or possible problem.

    Attributes:
        severity: ``error`` for what never works, ``warning`` for what may be intended.
        place: ``file:line:column``, or the policy's name if it is not a file.
        problem: What is wrong.
        hint: What to do.
    """

    severity: Severity
    place: str
    problem: str
    hint: str

    def __str__(self) -> str:
        return f"{self.place}: {self.severity}: {self.problem}\nhint: {self.hint}"


class KnownTools:
    """Tools that are known to exist, of MCP servers and others.

    Args:
        servers: Configurations; their ``enabled_tools`` and ``disabled_tools`` name tools.
        calls: Recorded calls that were not refused.
    """

    def __init__(
        self,
        servers: Iterable[types.BaseMcpServerConfig] = (),
        calls: Iterable[RecordedCall] = (),
    ) -> None:
        self.of_servers: dict[str, set[str]] = {}
        self.complete: set[str] = set()
        self.local: set[str] = set()
        for config in servers:
            named = (*(config.enabled_tools or ()), *(config.disabled_tools or ()))
            self.of_servers.setdefault(config.name, set()).update(named)
            if config.enabled_tools is not None:
                self.complete.add(config.name)
        for call in calls:
            if call.is_remote:
                self.of_servers.setdefault(call.server, set()).add(call.tool)
            else:
                self.local.update((call.tool, *call.canonical))

    def servers_of(self, fits: Any) -> list[str]:
        """Return the servers with a tool whose name matches; the empty name for unnamed servers."""
        return sorted(s for s, names in self.of_servers.items() if any(map(fits, names)))


def lint_rules(table: PolicySet, known: KnownTools) -> Iterator[Finding]:
    """Find rules that never decide, and rules that records cannot tell apart.

    Args:
        table: The rules.
        known: Tools that are known to exist.
    """
    first: dict[tuple[str, str], Rule] = {}
    yield from dict.fromkeys(each for rule in table.rules for each in _nowhere(rule))
    for rule in table.rules:
        yield from _shadowed(rule, table.rules)
        yield from _unmatched(rule, known)
        same = first.setdefault((rule.policy_id, rule.id), rule)
        if rule.policy.id and same is not rule:
            problem = f"{_text(rule)} has the id of {_text(same)} ({_place(same)}): `{rule.id}`"
            yield Finding(
                "error", _place(rule), problem, "records name rules by id: give it another"
            )


def lint_needs(
    table: PolicySet, gates: Collection[Gate], labels: Collection[str], *, has_channel: bool
) -> Iterator[Finding]:
    """Find rules and limits that need what these policies do not have.

    Args:
        table: The rules.
        gates: Limits, budgets and labels.
        labels: Those that the policies add.
        has_channel: Whether a channel is set that asks people.
    """
    asking = [
        (_place(rule), _text(rule))
        for rule in table.rules
        if rule.decision == ASK and rule.policy.ask_user is None and not rule.monitored
    ]
    asking += [
        (gate.place or gate.policy_id, f"limit `{gate.label}`")
        for gate in gates
        if gate.can_ask and (gate.mode or table.mode) == "enforce"
    ]
    if asking and not has_channel:
        place, text = asking[0]
        more = f" (and {len(asking) - 1} more)" if len(asking) > 1 else ""
        yield Finding(
            "warning",
            place,
            f"{text}{more} needs an approval channel: no program starts without one",
            "set OTELHOOKS_APPROVALS, or pass `approvals=` to instrument(), which this check "
            "cannot see",
        )
    added = {*labels, UNKNOWN}
    for rule in table.rules:
        for wanted in (rule.policy.when_labels, _origin_labels(rule)):
            if not wanted or added.intersection(wanted):
                continue
            said = ", ".join(f"`{name}`" for name in sorted(wanted))
            yield Finding(
                "warning",
                _place(rule),
                f"{_text(rule)} waits for {said}, which nothing here adds",
                "write an entry `label: TOOL` with `adds:`, or add it in a hook",
            )


def _origin_labels(rule: Rule) -> set[str]:
    return {label for _, labels in rule.origins or () for label in labels}


# -- rules behind others --------------------------------------------------------------------------


def _nowhere(rule: Rule) -> Iterator[Finding]:
    """Find directories of shells that do not exist: all rules of an entry have the same ones."""
    if isinstance(rule.policy.when, Found):
        for folder in rule.policy.when.workspaces:
            if not os.path.isdir(folder.path):
                yield Finding(
                    "warning",
                    _place(rule),
                    f"`shell_only`: the directory `{folder}` does not exist",
                    "commands may only use files in it: correct its name, or make it",
                )


def _shadowed(rule: Rule, rules: Sequence[Rule]) -> Iterator[Finding]:
    """Yield a finding for the rule that decides wherever this one would."""
    key = (rule.level, rule.order)
    for other in rules:
        if other is rule or (other.level, other.order) >= key or not _always_first(other, rule):
            continue
        where = _place(other)
        name = _text(other)
        if other.selector.text == rule.selector.text and _condition(other) == _condition(rule):
            if other.decision == rule.decision and other.policy.veto == rule.policy.veto:
                problem = f"{_text(rule)} says what {name} ({where}) says already"
                hint = "take one of them out"
            else:
                problem = f"{_text(rule)} contradicts {name} ({where}), which decides"
                hint = "keep the one that you mean"
        else:
            problem = f"{_text(rule)} is never reached: {name} ({where}) decides before it"
            hint = "remove it, or give the other rule a `when` or a narrower tool"
        yield Finding("error", _place(rule), problem, hint)
        return


def _always_first(other: Rule, rule: Rule) -> bool:
    """Return whether an earlier rule applies wherever a rule does."""
    if other.monitored and other.decision != ALLOW:
        return False  # it is noted, and the next one is tried
    if not covers(other.selector, rule.selector):
        return False
    wide, narrow = other.policy, rule.policy
    return (
        (wide.agent is None or wide.agent == narrow.agent)
        and all(map(_as_wide, selection(wide), selection(narrow)))
        and (wide.when is None or describe_when(other) == describe_when(rule))
    )


def _as_wide(wide: Any, narrow: Any) -> bool:
    return wide is None or wide == narrow


def _condition(rule: Rule) -> tuple[object, ...]:
    return describe_when(rule), rule.policy.agent, *selection(rule.policy)


def covers(wide: Selector, narrow: Selector) -> bool:
    """Return whether one selector certainly matches every call that another one matches.

    Args:
        wide: Such as ``github/*``.
        narrow: Such as ``github/create_*``.
    """
    if wide.text == narrow.text or wide.specificity == WILDCARD:
        return True
    if narrow.specificity == WILDCARD or wide.kind is not None or narrow.kind is not None:
        return False
    if (wide.server is None) != (narrow.server is None):
        return False
    servers = wide.server is None or _includes(wide.server, narrow.server or "")
    return servers and _includes(wide.tool, narrow.tool)


def _includes(wide: str, narrow: str) -> bool:
    """Return whether a glob certainly matches whatever another glob, or a plain name, does."""
    if wide == narrow:
        return True
    is_glob = any(sign in narrow for sign in "*?[")
    if "[" in narrow or (is_glob and ("[" in wide or "?" in wide)):
        return wide == "*"
    # A wildcard of the narrow glob becomes a sign that no name contains, so that only `*` in the
    # wide one matches it.
    text = narrow.replace("*", "\0\0").replace("?", "\0")
    return fnmatch.fnmatchcase(text, wide)


# -- names that match nothing ---------------------------------------------------------------------


def _unmatched(rule: Rule, known: KnownTools) -> Iterator[Finding]:
    selector = rule.selector
    if selector.specificity == WILDCARD or selector.kind is not None:
        return
    if selector.server is None:
        if any(map(selector.fits_tool, known.local)):
            return
        servers = known.servers_of(selector.fits_tool)
        if servers and rule.decision == ALLOW:
            server = servers[0] or "*"
            yield Finding(
                "warning",
                _place(rule),
                f"{_text(rule)} never matches: `{selector.tool}` is a tool of"
                f" {_words(servers)}, and a bare name allows local tools only",
                f"write `{server}/{selector.tool}` or `*/{selector.tool}`",
            )
        return
    if selector.server in known.complete:
        names = known.of_servers[selector.server]
        if not any(selector.fits(selector.server, name) for name in names):
            yield Finding(
                "error",
                _place(rule),
                f"{_text(rule)} never matches: server `{selector.server}` has no such tool"
                " among its `enabled_tools`",
                f"its tools: {', '.join(sorted(names)) or 'none'}",
            )


def _words(servers: Sequence[str]) -> str:
    return ", ".join(f"server `{name}`" if name else "a server without a name" for name in servers)


# -- places ---------------------------------------------------------------------------------------


def _place(rule: Rule) -> str:
    return rule.policy.place or rule.policy_id


def _text(rule: Rule) -> str:
    policy: Policy = rule.policy
    verb = "veto" if policy.veto else "hide" if policy.hide else rule.decision
    return f"`{verb}: {policy.tool}`"
