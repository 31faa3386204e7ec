"""What a trail holds about a period, for people who ask what a system did in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from otelhooks.telemetry import semconv

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["summary", "was_stopped"]

_STOPPED = (
    semconv.ENFORCEMENT_BLOCKED,
    semconv.ENFORCEMENT_REJECTED,
    semconv.ENFORCEMENT_EXPIRED,
)
_NO_FAILURES = ("", semconv.ERROR_POLICY_DENIED, semconv.ERROR_APPROVAL_REJECTED)


def was_stopped(record: dict[str, Any]) -> bool:
    """Return whether a rule or a person, or the lack of an answer, stopped a call."""
    effect = _text(record, "enforcement")
    return effect in _STOPPED or (not effect and _text(record, "decision") == semconv.DECISION_DENY)


def summary(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return totals, uses and people of some records.

    Args:
        records: In order of time; the trail's own among them.

    Returns:
        ``records``, and the time of the ``first`` and ``last``; ``processes`` that began and ended,
            and how many records they ``lost``; ``verdicts`` and ``failures`` by name; ``rules``
            that denied, asked or changed something; ``policies`` with each version that decided;
            ``people`` who answered; ``uses``, one for each conversation, with its first and last
            verdict.
    """
    number, first, last = 0, None, None
    processes = {"began": 0, "ended": 0, "lost": 0}
    verdicts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    rules: Counter[tuple[str, ...]] = Counter()
    policies: dict[tuple[str, str], None] = {}
    people: Counter[tuple[str, ...]] = Counter()
    uses: dict[str, dict[str, Any]] = {}
    for record in records:
        if "audit" in record:
            processes["began"] += record["audit"] == "open" and record.get("segment") == 1
            processes["ended"] += record["audit"] == "closed" and record.get("next") is None
            processes["lost"] += int(record.get("count") or 0)
            continue
        number += 1
        time = str(record.get("time"))
        first, last = first or time, time
        decision, effect = _text(record, "decision"), _text(record, "enforcement")
        if not decision:  # a script's own record
            continue
        verdicts[f"{decision}, {effect}" if effect else decision] += 1
        policy = (_text(record, "policy_id"), _text(record, "policy_version"))
        if any(policy):
            policies[policy] = None
        if decision != "allow":
            rules[(_text(record, "rule_id"), *policy, decision, effect)] += 1
        failure = _text(record, "error_type")
        if failure not in _NO_FAILURES:
            failures[failure] += 1
        status = _text(record, "approval_status")
        if status:
            who = (_text(record, "approver_type"), _text(record, "approver_id"))
            people[(*who, status)] += 1
        use = uses.setdefault(
            _text(record, "session_id"),
            {"start": time, "end": time, "verdicts": 0, "not_allowed": 0, "agents": []},
        )
        use["end"] = time
        use["verdicts"] += 1
        use["not_allowed"] += was_stopped(record)
        agent = _text(record, "agent_name")
        if agent and agent not in use["agents"]:
            use["agents"].append(agent)
    return {
        "records": number,
        "first": first,
        "last": last,
        "processes": processes,
        "verdicts": dict(verdicts),
        "failures": dict(failures),
        "rules": _rows(rules, ("rule", "policy", "version", "decision", "enforcement")),
        "policies": [{"policy": policy, "version": version} for policy, version in policies],
        "people": _rows(people, ("type", "id", "answer")),
        "uses": [{"conversation": name, **use} for name, use in uses.items()],
    }


def _text(record: dict[str, Any], name: str) -> str:
    return str(record.get(name) or "")


def _rows(counted: Counter[tuple[str, ...]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {**dict(zip(names, key, strict=True)), "calls": number}
        for key, number in counted.most_common()
    ]
