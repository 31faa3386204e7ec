"""A least-privilege draft from observed calls: what ran is allowed, what was asked is asked.

A name is drafted only if it cannot mean anything else, and only if a call with it has worked:
models invent names, and a server may call its tool ``*``. Arguments are not generalised.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import same_json
from otelhooks.hooks.verdict import ALLOW, ASK, DENY
from otelhooks.policy.files.document import parse
from otelhooks.policy.selectors import EXACT, Selector
from otelhooks.policy_tools.recorded import RecordedCall

__all__ = ["Draft", "is_plain", "learn", "quoted"]

MAX_CASES = 200
"""Most calls that a draft keeps as cases."""


@dataclass(slots=True)
class _Tool:
    """What was seen of one tool.

    Attributes:
        rule_name: The tool as a rule names it.
        seen: How often: ``worked``, ``failed``, ``denied``, ``would be denied``, ``approved``,
            ``refused``, ``stopped``, ``not recorded``.
        agents: Agents that called it.
        asked: Whether a person was asked.
    """

    rule_name: str
    seen: Counter[str] = field(default_factory=Counter[str])
    agents: set[str] = field(default_factory=set[str])
    asked: bool = False

    def add(self, call: RecordedCall) -> None:
        """Count a call."""
        if call.refused:
            self.seen[call.refused] += 1
            return
        if call.decision == DENY:
            self.seen["would be denied" if call.is_observed else "denied"] += 1
            return
        if call.decision == ASK:
            self.asked = True
            if not call.is_observed:
                self.seen["approved" if call.has_run else "refused"] += 1
        if call.has_run:
            self.seen["failed" if call.has_failed else "worked"] += 1
            if call.agent:
                self.agents.add(call.agent)

    @property
    def doubt(self) -> str:
        """Why it is left out; empty if it is drafted."""
        if self.seen["denied"] or self.seen["would be denied"]:
            return "was denied"
        if not is_plain(self.rule_name):
            return "is not a name that a rule can have for one tool"
        if self.seen["worked"]:
            return ""
        return "never worked: the name may be invented" if self.seen["failed"] else "never ran"

    @property
    def verb(self) -> str:
        return "ask" if self.asked else ALLOW

    def counts(self) -> str:
        said = [f"{count} {word}" for word, count in sorted(self.seen.items())]
        by = f"; by {', '.join(sorted(map(quoted, self.agents)))}" if self.agents else ""
        return ", ".join(said) + by


_Observed = tuple[_Tool, RecordedCall, "dict[str, Any] | None"]
"""A tool, one of its calls, and the call's arguments if they are known in full."""


@dataclass(slots=True)
class Draft:
    """A policy drafted from calls.

    Attributes:
        calls: How many calls were read.
        traces: How many traces they are in.
        tools: What was seen, by the name a rule would have.
        cases: Calls that the draft must let run, or ask about, one for each set of arguments.
        first_at: Start of the first call, in nanoseconds since the Unix epoch.
        last_at: Start of the last call, in nanoseconds since the Unix epoch.
    """

    calls: int = 0
    traces: set[str] = field(default_factory=set[str])
    tools: dict[str, _Tool] = field(default_factory=dict[str, _Tool])
    cases: dict[str, _Observed] = field(default_factory=dict[str, _Observed])
    first_at: int = 0
    last_at: int = 0

    @property
    def drafted(self) -> list[_Tool]:
        """Tools with a rule in the draft, most used first."""
        found = [tool for tool in self.tools.values() if not tool.doubt]
        return sorted(found, key=lambda tool: (-tool.seen["worked"], tool.rule_name))

    def policy(self) -> str:
        """Return the draft as a policy file."""
        lines = [
            f"# Drafted from {self.calls} calls in {len(self.traces)} traces, {self._span()}.",
            "# What was not observed is denied. Read every line before you put it in force.",
            "version: 1",
            "default: deny",
        ]
        drafted = self.drafted
        lines.append("policies:" if drafted else "policies: []")
        rules = [f"  - {{{tool.verb}: {quoted(tool.rule_name)}}}" for tool in drafted]
        width = max(map(len, rules), default=0)
        lines += [
            f"{rule.ljust(width)}  # {tool.counts()}"
            for rule, tool in zip(rules, drafted, strict=True)
        ]
        left_out = sorted((t for t in self.tools.values() if t.doubt), key=lambda t: t.rule_name)
        if left_out:
            lines += ["", "# Left out:"]
        lines += [f"#   {quoted(t.rule_name)} {t.doubt} ({t.counts()})" for t in left_out]
        return "\n".join(lines) + "\n"

    def suite(self) -> str:
        """Return the calls that it was drafted from as a file of cases."""
        entries: list[str] = []
        for tool, call, args in self.cases.values():
            if tool.doubt:
                continue
            about: dict[str, Any] = {"tool": call.tool}
            if call.server:
                about["server"] = call.server
            if args:
                about["args"] = args
            rule = f"{tool.verb} {tool.rule_name}"
            entry = {"call": about, "verdict": tool.verb, "rule": rule}
            if not _survives(entry):
                entry["call"] = {key: about[key] for key in about if key != "args"}
            entries.append(f"  - {quoted(entry)}")
        head = "cases:" if entries else "cases: []"
        return "\n".join(("suite: what the draft was learned from", head, *entries)) + "\n"

    def _span(self) -> str:
        days = [
            time.strftime("%Y-%m-%d", time.gmtime(at / 1e9)) for at in (self.first_at, self.last_at)
        ]
        return days[0] if days[0] == days[1] else f"{days[0]} to {days[1]}"


def learn(calls: Iterable[RecordedCall]) -> Draft:
    """Draft a policy.

    Args:
        calls: From any source.

    Raises:
        ConfigError: There are no calls.
    """
    draft = Draft()
    for call in calls:
        draft.calls += 1
        draft.traces.add(call.trace_id)
        draft.first_at = min(draft.first_at or call.at, call.at)
        draft.last_at = max(draft.last_at, call.at)
        name = _rule_name(call)
        tool = draft.tools.setdefault(name, _Tool(name))
        tool.add(call)
        if call.has_run and not call.has_failed and len(draft.cases) < MAX_CASES:
            args = call.args if call.is_whole else None
            draft.cases.setdefault(f"{name} {quoted(args)}", (tool, call, args))
    if not draft.calls:
        raise ConfigError(
            "no tool calls to learn from", hint="run the program under otelhooks first"
        )
    return draft


def _rule_name(call: RecordedCall) -> str:
    """Return the name that a rule needs; with brackets, which rules do not accept, if none can."""
    if call.is_remote and call.server:
        return f"{call.server if '/' not in call.server else f'[{call.server}]'}/{call.tool}"
    if call.is_remote:
        return f"[unnamed server]/{call.tool}"
    return call.tool if "/" not in call.tool else f"[local]{call.tool}"


def is_plain(name: str) -> bool:
    """Return whether a rule with this name is about one tool, and no other."""
    try:
        return Selector(name).specificity == EXACT
    except ConfigError:
        return False


_UNSAFE = re.compile("[\x7f-\xa0\u2028-\u202e\u2066-\u2069\ufeff]")


def quoted(value: Any) -> str:
    """Write a value so that nothing in it can end a rule or a comment."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _survives(value: Any) -> bool:
    """Return whether a policy file with this value would be read as this very value."""
    try:
        return same_json(parse(quoted(value), "").plain(), value)
    except ConfigError:
        return False
