"""What a trail holds about a period, for people who ask what a system did in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from otelhooks.hooks.verdict import RECORD_REQUIRED, UNRECORDED_POLICY
from otelhooks.records import semconv

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otelhooks.audit.report import Report

__all__ = ["may_lack", "overruled", "summary", "was_stopped"]

_STOPPED = (
    semconv.ENFORCEMENT_BLOCKED,
    semconv.ENFORCEMENT_REJECTED,
    semconv.ENFORCEMENT_EXPIRED,
)
_INCOMPLETE = {"cut", "emptied", "gap", "missing", "not closed", "spooled", "torn"}
_NO_FAILURES = ("", semconv.ERROR_POLICY_DENIED, semconv.ERROR_APPROVAL_REJECTED)


def was_stopped(record: dict[str, Any]) -> bool:
    """Return whether a rule or a person, or the lack of an answer, stopped a call."""
    if record.get("withheld"):
        return False  # it ran
    effect = _text(record, "enforcement")
    return effect in _STOPPED or (not effect and _text(record, "decision") == semconv.DECISION_DENY)


def overruled(records: Iterable[dict[str, Any]]) -> Counter[str]:
    """Return how many verdicts of a decision were followed by a deny, as their record failed.

    Args:
        records: Of the whole trail, as the deny may be outside of the period; in any order.

    Returns:
        The numbers by ``decision_id``.
    """
    return Counter(_text(record, "decision_id") for record in records if _is_unrecorded(record))


def _is_unrecorded(record: dict[str, Any]) -> bool:
    rule = _text(record, "policy_id"), _text(record, "rule_id")
    return rule == (UNRECORDED_POLICY, RECORD_REQUIRED)


def may_lack(report: Report) -> str:
    """Return why records may be lost that the trail does not count; empty if nothing hints at it.

    Args:
        report: Of the whole trail.
    """
    kinds = {finding.kind for finding in report.findings} & _INCOMPLETE
    if not kinds:
        return ""
    return (
        "records may be lost that are not counted: a process was killed, its disk was full to its "
        f"end, or the trail was changed; the check found {', '.join(sorted(kinds))}"
    )


def summary(
    records: Iterable[dict[str, Any]], refused: Counter[str] | None = None
) -> dict[str, Any]:
    """Return totals, uses and people of some records.

    Args:
        records: In order of time; the trail's own among them.
        refused: What `overruled` returned: these calls count once, as refused.

    Returns:
        ``records``, and the time of the ``first`` and ``last``; ``processes`` that began and ended,
            and how many records they ``lost``; ``verdicts`` and ``failures`` by name; ``rules``
            that denied, asked or changed something; ``policies`` with each version that decided;
            ``people`` who answered; ``uses``, one for each conversation, with its first and last
            verdict.
    """
    left = Counter(refused or ())
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
        decided = _text(record, "decision_id")
        if left[decided] and not _is_unrecorded(record):
            left[decided] -= 1
            continue
        status = _text(record, "approval_status")
        is_withdrawn = status == semconv.APPROVAL_STATUS_WITHDRAWN
        if record.get("withheld"):
            effect = "withheld"
        elif is_withdrawn:
            effect = status  # no approver rejected it
        verdicts[f"{decision}, {effect}" if effect else decision] += 1
        policy = (_text(record, "policy_id"), _text(record, "policy_version"))
        if any(policy):
            policies[policy] = None
        if decision != "allow":
            rules[(_text(record, "rule_id"), *policy, decision, effect)] += 1
        failure = _text(record, "error_type")
        if failure not in _NO_FAILURES:
            failures[failure] += 1
        if status and not is_withdrawn:
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
