"""The verdict in a span's or event's attributes; pure functions, used by every view.

Source: semconv.md section 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from otelhooks.records import semconv

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RANK_PLAIN = 0
RANK_VERDICT = 1
RANK_OBSERVED = 2
RANK_REFUSED = 3

Mood = Literal["good", "bad", "changed", "waiting", "observed"]

_REFUSED = frozenset(
    {
        semconv.ENFORCEMENT_BLOCKED,
        semconv.ENFORCEMENT_REJECTED,
        semconv.ENFORCEMENT_EXPIRED,
    }
)
_SETTLED = frozenset(
    {
        semconv.ENFORCEMENT_APPROVED,
        semconv.ENFORCEMENT_REJECTED,
        semconv.ENFORCEMENT_EXPIRED,
        semconv.ENFORCEMENT_OBSERVED,
    }
)
_EXTRAS = (
    (semconv.ANSWERED, "answered"),
    (semconv.RECOVERED, "recovered"),
    (semconv.WITHHELD, "withheld"),
)


def rank(attributes: Mapping[str, Any]) -> int:
    """Return how important a record is when space runs out.

    Args:
        attributes: Attributes of a span or log record.

    Returns:
        `RANK_REFUSED` for a deny and for an ask that was not approved, `RANK_OBSERVED` for either
        in monitor mode, where the call continued; `RANK_VERDICT` for any other verdict except a
        plain allow; else `RANK_PLAIN`.
    """
    decision = attributes.get(semconv.POLICY_DECISION)
    enforcement = attributes.get(semconv.POLICY_ENFORCEMENT)
    if enforcement == semconv.ENFORCEMENT_OBSERVED:
        return RANK_OBSERVED
    if decision == semconv.DECISION_DENY or enforcement in _REFUSED:
        return RANK_REFUSED
    if decision is not None and decision != semconv.DECISION_ALLOW:
        return RANK_VERDICT
    # Written out: this runs once for every stored span.
    if semconv.RECOVERED in attributes or semconv.WITHHELD in attributes:
        return RANK_VERDICT
    return RANK_VERDICT if semconv.ANSWERED in attributes else RANK_PLAIN


def is_approved(attributes: Mapping[str, Any]) -> bool:
    """Return whether a call was asked about, and approved."""
    is_ask = attributes.get(semconv.POLICY_DECISION) == semconv.DECISION_ASK
    return is_ask and attributes.get(semconv.POLICY_ENFORCEMENT) == semconv.ENFORCEMENT_APPROVED


def is_withdrawn(attributes: Mapping[str, Any]) -> bool:
    """Return whether a question ended without an answer, as its call or its process ended."""
    return attributes.get(semconv.APPROVAL_STATUS) == semconv.APPROVAL_STATUS_WITHDRAWN


def is_withheld(attributes: Mapping[str, Any]) -> bool:
    """Return whether the result was kept back; the call itself ran."""
    return bool(attributes.get(semconv.WITHHELD))


def withdrawn(spans: Iterable[tuple[str, Mapping[str, Any]]]) -> int:
    """Count the questions of a trace that were withdrawn.

    The span of the wait has this, and the call's, unless the process ended before it was over.

    Args:
        spans: Name and attributes of each.
    """
    ended = [is_about_approval(name) for name, attributes in spans if is_withdrawn(attributes)]
    return max(ended.count(True), ended.count(False))


def pending(spans: Iterable[tuple[str, Mapping[str, Any]]]) -> int:
    """Count the questions of a trace that have no answer in it: they may be parked, or still open.

    Args:
        spans: Name and attributes of each.
    """
    asked: set[Any] = set()
    ended: set[Any] = {None}
    for name, attributes in spans:
        decision = attributes.get(semconv.DECISION_ID)
        if name.startswith(semconv.SPAN_APPROVAL_REQUEST):
            asked.add(decision)
        elif attributes.get(semconv.APPROVAL_STATUS) != semconv.APPROVAL_STATUS_PENDING:
            ended.add(decision)
    return len(asked - ended)


def is_about_approval(name: str) -> bool:
    """Return whether a span of this name is about asking; the verdict counts on the call's span."""
    return name.startswith((semconv.SPAN_APPROVAL_REQUEST, semconv.SPAN_APPROVAL_WAIT))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict in the words of the terminal.

    Attributes:
        words: Such as ``deny``, ``ask → approved``, ``deny → observed``, ``allow, recovered``.
        mood: How it is coloured and marked.
        rule_id: Rule that decided, empty for none.
        policy_id: Policy of the rule, empty for none.
        reason: Fixed text of the rule, empty for none.
        is_plain: Whether it is an allow and nothing else happened.
        is_withdrawn: Whether it is a question that ended without an answer.
        is_withheld: Whether it is about the result of a call that ran.
    """

    words: str
    mood: Mood
    rule_id: str
    policy_id: str
    reason: str
    is_plain: bool
    is_withdrawn: bool = False
    is_withheld: bool = False


def read_verdict(attributes: Mapping[str, Any]) -> Verdict | None:
    """Return the verdict of a span or event, None if it has none."""
    decision = _text(attributes, semconv.POLICY_DECISION)
    enforcement = _text(attributes, semconv.POLICY_ENFORCEMENT)
    extras = [word for name, word in _EXTRAS if attributes.get(name)]
    if not decision and not extras:
        return None
    words = decision
    outcome = enforcement if enforcement in _SETTLED else ""
    is_over = decision == semconv.DECISION_ASK and is_withdrawn(attributes)
    if is_over and outcome != semconv.ENFORCEMENT_OBSERVED:
        outcome = semconv.APPROVAL_STATUS_WITHDRAWN  # no approver has rejected it
    status = _text(attributes, semconv.APPROVAL_STATUS)
    is_unasked = status == semconv.APPROVAL_STATUS_ERROR and outcome == semconv.ENFORCEMENT_REJECTED
    if decision == semconv.DECISION_ASK and (is_unasked or not outcome):
        outcome = status
    if outcome:
        words = f"{decision} → {outcome}"
    return Verdict(
        words=", ".join([words, *extras] if words else extras),
        mood=_mood(decision, outcome, extras),
        rule_id=_text(attributes, semconv.POLICY_RULE_ID),
        policy_id=_text(attributes, semconv.POLICY_ID),
        reason=_reason(attributes),
        is_plain=decision == semconv.DECISION_ALLOW and not extras,
        is_withdrawn=is_over,
        is_withheld=is_withheld(attributes),
    )


def _mood(decision: str, outcome: str, extras: list[str]) -> Mood:
    if outcome == semconv.ENFORCEMENT_OBSERVED:
        return "observed"
    if decision == semconv.DECISION_DENY:
        return "bad"
    if decision == semconv.DECISION_ASK:
        if outcome == semconv.ENFORCEMENT_APPROVED:
            return "good"
        return "waiting" if outcome in ("", semconv.APPROVAL_STATUS_PENDING) else "bad"
    if decision == semconv.DECISION_MODIFY or extras:
        return "changed"
    return "good"


def _reason(attributes: Mapping[str, Any]) -> str:
    """Return a rule's reason, or what failed: the recorded reason of a crash begins with its id."""
    reason = _text(attributes, semconv.POLICY_REASON)
    rule, found, cause = reason.partition(": ")
    if not found or rule != _text(attributes, semconv.POLICY_RULE_ID):
        return reason
    return f"failed: {cause}"


def _text(attributes: Mapping[str, Any], name: str) -> str:
    value = attributes.get(name)
    return "" if value is None else str(value)
