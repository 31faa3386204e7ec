"""Recorded calls under another policy: which of them would end differently.

No person is asked, no tool runs, no limit is written. What cannot be judged, because a call's span
does not have it, is counted, and so is what something else than a rule or hook decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from otelhooks.hooks.verdict import ALLOW, MODIFY
from otelhooks.policy.mcp import pins
from otelhooks.policy.rules import BUILT_IN
from otelhooks.policy_tools.dry_run import DryRun, Judgement
from otelhooks.policy_tools.recorded import RecordedCall

__all__ = ["Change", "Replay", "find_gap", "replay"]

Gap = Literal[
    "arguments not captured",
    "arguments masked or shortened",
    "user and prompt not recorded",
    "results not recorded",
]

_ELSEWHERE = frozenset({pins.POLICY_ID, BUILT_IN})
"""Sources of verdicts that depend on the place and time of a call."""


@dataclass(frozen=True, slots=True)
class Change:
    """A call that would end differently.

    Attributes:
        recorded: The call as it was.
        before: Its verdict then, such as ``allow`` or ``deny, observed``.
        after: The new verdict.
        judgement: The policy's decision about it now.
    """

    recorded: RecordedCall
    before: str
    after: str
    judgement: Judgement

    @property
    def words(self) -> str:
        """The change: ``allow -> deny``."""
        return f"{self.before} -> {self.after}"

    @property
    def rule(self) -> str:
        """The rule behind the new verdict, else the one that is gone: ``policy/rule``."""
        verdict = self.judgement.verdict
        if verdict.rule_id:
            return f"{verdict.policy_id}/{verdict.rule_id}"
        seen = verdict.observed
        if seen:
            return f"{seen[0].policy_id}/{seen[0].rule_id}"
        recorded = self.recorded
        return f"{recorded.policy_id}/{recorded.rule_id}, gone" if recorded.rule_id else "(no rule)"


@dataclass(slots=True)
class Replay:
    """The result of a replay.

    Attributes:
        calls: How many calls were read.
        changes: Calls that would end differently, in the order in which they were read.
        gaps: How many could not be judged, by cause.
        gap_tools: The same by tool.
        left_out: How many are left out, by what decided about them: a limit of the policy, a stop,
            pins, the guard of policy files, a required audit record that failed.
        unnamed: How many are of an MCP server whose name their span does not have; they are judged
            like such calls in the pipeline.
    """

    calls: int = 0
    changes: list[Change] = field(default_factory=list[Change])
    gaps: Counter[Gap] = field(default_factory=Counter[Gap])
    gap_tools: Counter[str] = field(default_factory=Counter[str])
    left_out: Counter[str] = field(default_factory=Counter[str])
    unnamed: int = 0

    @property
    def judged(self) -> int:
        """How many calls could be judged."""
        return self.calls - self.gaps.total() - self.left_out.total()

    def by_rule(self) -> Counter[tuple[str, str]]:
        """Count changes by rule and change: ``allow -> deny``."""
        return Counter((change.rule, change.words) for change in self.changes)

    def by_tool(self) -> Counter[tuple[str, str]]:
        """Count changes by tool and change."""
        return Counter((change.recorded.name, change.words) for change in self.changes)


def replay(calls: Iterable[RecordedCall], policy: DryRun) -> Replay:
    """Judge recorded calls again.

    Args:
        calls: From any source. A call that two spans describe counts once.
        policy: The candidate.
    """
    result = Replay()
    for recorded in _once(calls):
        result.calls += 1
        is_elsewhere = recorded.policy_id in _ELSEWHERE or recorded.refused
        if is_elsewhere or recorded.rule_id in policy.limits:
            result.left_out[f"{recorded.policy_id}/{recorded.rule_id}"] += 1
            continue
        result.unnamed += recorded.is_remote and not recorded.server
        judged = policy.judge(recorded.call(), recorded.labels)
        gap = find_gap(recorded, judged)
        if gap is not None:
            result.gaps[gap] += 1
            result.gap_tools[recorded.name] += 1
            continue
        before, after = _before(recorded), _after(judged)
        if before == MODIFY and after == ALLOW:
            continue  # the span has the arguments that ran: there is nothing left to rewrite
        if before != after:
            result.changes.append(Change(recorded, before, after, judged))
    return result


def _once(calls: Iterable[RecordedCall]) -> Iterator[RecordedCall]:
    """Skip spans of other instrumentations about a call that has one of our spans."""
    told: set[tuple[str, str, str]] = set()
    open_calls: list[tuple[tuple[str, str, str], RecordedCall]] = []
    for recorded in calls:
        key = (recorded.trace_id, recorded.call_id, recorded.tool)
        if recorded.has_verdict or not recorded.call_id:
            told.add(key)
            yield recorded
        else:
            open_calls.append((key, recorded))
    yield from (recorded for key, recorded in open_calls if key not in told)


def find_gap(recorded: RecordedCall, judged: Judgement) -> Gap | None:
    """Return what the call's span lacks for the judgement; None for nothing."""
    if judged.needs_args and not recorded.is_whole:
        return (
            "arguments not captured" if recorded.args is None else "arguments masked or shortened"
        )
    if judged.asked_results:
        return "results not recorded"
    return "user and prompt not recorded" if judged.asked_user else None


def _before(recorded: RecordedCall) -> str:
    return f"{recorded.decision}, observed" if recorded.is_observed else recorded.decision


def _after(judged: Judgement) -> str:
    decision = judged.decision
    if decision == ALLOW and judged.observed != ALLOW:
        return f"{judged.observed}, observed"
    return decision
