"""Verdicts on the wire: attributes of a span, counts, an event, an audit record.

Telemetry: fails open. A plain allow carries its decision and its rule's id; everything else carries
the full set (Source: semconv.md section 9).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from otelhooks.hooks.verdict import ALLOW, ASK, DENY, MODIFY, Observed, Verdict
from otelhooks.plain_text import encodable
from otelhooks.records import semconv
from otelhooks.records.failures import error_type, says_all
from otelhooks.telemetry.content import Content

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext

    from otelhooks.telemetry.counters import Cell
    from otelhooks.telemetry.events import EventLog
    from otelhooks.telemetry.metrics import Instruments

__all__ = ["Verdicts", "error_type_of"]

_MAX_REASON = 256
_MAX_CELLS = 4_096
_WARN, _INFO = 13, 9
_LEVELS = {
    semconv.SEVERITY_LOW: _INFO,
    semconv.SEVERITY_MEDIUM: _WARN,
    semconv.SEVERITY_HIGH: 17,
    semconv.SEVERITY_CRITICAL: 21,
}
"""Severities of denies on log records. Source: semantic-conventions-genai PR 132."""

_BEFORE_A_TOOL_RUNS = (semconv.POINT_PRE_TOOL_CALL, semconv.POINT_POST_PARAMS_NORMALIZATION)


def error_type_of(verdict: Verdict) -> str | None:
    """Return ``error.type`` of an operation that a verdict stopped, None if it continues."""
    if verdict.allowed:
        return None
    approval = verdict.approval
    if approval is not None and approval.status == "expired":
        return semconv.ERROR_APPROVAL_EXPIRED
    if approval is not None and approval.status in {"rejected", "withdrawn"}:
        return semconv.ERROR_APPROVAL_REJECTED
    return semconv.ERROR_POLICY_DENIED if verdict.error is None else semconv.ERROR_POLICY_ERROR


def enforcement_of(verdict: Verdict) -> str:
    """Return what happened to the operation."""
    approval = verdict.approval
    if verdict.decision == ASK and approval is not None:
        if approval.approved:
            return semconv.ENFORCEMENT_APPROVED
        expired = approval.status == "expired"
        return semconv.ENFORCEMENT_EXPIRED if expired else semconv.ENFORCEMENT_REJECTED
    if not verdict.allowed or verdict.withheld:
        return semconv.ENFORCEMENT_BLOCKED
    if verdict.decision == MODIFY or verdict.answered:
        return semconv.ENFORCEMENT_MODIFIED
    return semconv.ENFORCEMENT_ALLOWED


def _outcome_of(verdict: Verdict) -> str | None:
    """Return the outcome that the conventions give a decision before a tool runs, None for none.

    They want explicit decisions only, and have no word for a call that a hook answered.
    """
    if verdict.point not in _BEFORE_A_TOOL_RUNS or verdict.answered:
        return None
    if not verdict.allowed:
        return semconv.OUTCOME_DENY
    return semconv.OUTCOME_ALLOW if verdict.rule_id else None


def _as_verdict(point: str, seen: Observed) -> Verdict:
    """Return an observed deny or ask as a verdict, to be reported like one."""
    return Verdict(
        point,
        seen.decision,
        policy_id=seen.policy_id,
        policy_version=seen.policy_version,
        rule_id=seen.rule_id,
        reason=seen.reason,
        severity=seen.severity,
    )


class Verdicts:
    """Reports verdicts to spans, metrics, events and records.

    Args:
        instruments: Target of counts.
        events: Target of events.
        content: Whether an exception's text is recorded, and how reasons are masked, which may
            quote secrets; None: it is not, and built-in patterns are masked.
        mode: ``enforce`` or ``monitor``.
        record_allows: Whether a plain allow is an event too.
        decision_event: Whether a decision about a tool call is also the conventions' event.
    """

    def __init__(
        self,
        instruments: Instruments,
        events: EventLog,
        content: Content | None = None,
        *,
        mode: str = semconv.MODE_ENFORCE,
        record_allows: bool = False,
        decision_event: bool = False,
    ) -> None:
        self._instruments = instruments
        self._events = events
        self._content = content if content is not None else Content()
        self.mode = mode
        self.record_allows = record_allows
        self._decision_event = decision_event
        self.on_first: Callable[[Verdict, str], None] | None = None
        """Called with the first verdict about a tool call, and the tool's name."""
        self.on_observed: Callable[[Verdict, str], None] | None = None
        """Called so with the first that monitor mode observed something of."""
        self._plain: dict[str, dict[str, Any]] = {}
        self._cells: dict[tuple[Any, ...], Cell] = {}

    # -- span ---------------------------------------------------------------------------------

    def attributes(self, verdict: Verdict) -> dict[str, Any]:
        """Return a verdict's span attributes; must not change."""
        if verdict.is_plain():
            plain = self._plain.get(verdict.rule_id)
            if plain is None:
                plain = {semconv.POLICY_DECISION: ALLOW}
                if verdict.rule_id:
                    plain[semconv.POLICY_RULE_ID] = verdict.rule_id
                if len(self._plain) < _MAX_CELLS:
                    self._plain[verdict.rule_id] = plain
            return plain
        shown, observed = self._deciding(verdict)
        return self._full(shown, observed, self.decision_id(verdict))

    def _deciding(self, verdict: Verdict) -> tuple[Verdict, bool]:
        """Return the strictest decision, and whether monitor mode only observed it."""
        shown, observed = verdict, False
        for seen in verdict.observed:
            candidate = _as_verdict(verdict.point, seen)
            if candidate.is_stricter_than(shown):
                shown, observed = candidate, True
        if observed:
            shown.evaluations = verdict.evaluations
        return shown, observed

    def _full(self, verdict: Verdict, observed: bool, decision_id: str) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            semconv.POLICY_DECISION: verdict.decision,
            semconv.POLICY_ENFORCEMENT: (
                semconv.ENFORCEMENT_OBSERVED if observed else enforcement_of(verdict)
            ),
            semconv.POLICY_MODE: semconv.MODE_MONITOR if observed else self.mode,
            semconv.HOOK_POINT: verdict.point,
        }
        reason = self._masked(verdict)
        asked = verdict.approval
        if verdict.error is not None and (asked is None or asked.status == "error"):
            error = verdict.error
            said = str(error) if says_all(error) else type(error).__name__
            reason = f"{verdict.rule_id}: {said}"
        elif not reason and verdict.decision == MODIFY:
            reason = f"Changed by {verdict.rule_id or verdict.policy_id}."
        optional = (
            (semconv.POLICY_ID, verdict.policy_id),
            (semconv.POLICY_VERSION, verdict.policy_version),
            (semconv.POLICY_RULE_ID, verdict.rule_id),
            (semconv.POLICY_REASON, reason[:_MAX_REASON]),
            (semconv.POLICY_SEVERITY, verdict.severity),
            (semconv.POLICY_EVALUATIONS, verdict.evaluations),
        )
        attributes.update((name, value) for name, value in optional if value)
        if verdict.decision in {DENY, ASK}:
            attributes[semconv.DECISION_ID] = decision_id
        if verdict.answered:
            attributes[semconv.ANSWERED] = True
        if verdict.withheld:
            attributes[semconv.WITHHELD] = True
        approval = verdict.approval
        if approval is not None:
            attributes[semconv.APPROVAL_STATUS] = approval.status
            attributes[semconv.APPROVAL_WAIT_DURATION] = approval.wait_s
            if approval.is_answered:
                attributes[semconv.APPROVAL_APPROVER_TYPE] = approval.approver_type
            if approval.approver_id:
                attributes[semconv.APPROVAL_APPROVER_ID] = approval.approver_id
        return encodable(attributes)

    def failure(self, verdict: Verdict) -> tuple[str, str]:
        """Return ``error.type`` and description of the span of an operation that it stops."""
        return error_type_of(verdict) or "", self._masked(verdict)

    def _masked(self, verdict: Verdict) -> str:
        """Return the reason of a verdict without secrets; a hook's message may quote some."""
        ours = (
            f'blocked by hook "{verdict.rule_id}": '  # in which the id is not the key of a secret
        )
        said = verdict.reason.removeprefix(ours)
        start = ours if said != verdict.reason else ""
        return start + self._content.redactor.mask_text(said)

    @staticmethod
    def decision_id(verdict: Verdict) -> str:
        """Return the id that joins a verdict's span, event and record; created on first use."""
        if not verdict.decision_id:
            verdict.decision_id = os.urandom(8).hex()
        return verdict.decision_id

    # -- metrics ------------------------------------------------------------------------------

    def count(self, verdict: Verdict, tool: str, agent: str, exemplar: SpanContext | None) -> None:
        """Count a verdict, and each that monitor mode only observed."""
        if verdict.is_plain():
            self.allows(verdict, tool, agent).add(1, exemplar)
            return
        if verdict.observed and verdict.decision == ALLOW and verdict.point == "pre_tool_call":
            tell, self.on_observed = self.on_observed, None
            if tell is not None:
                self.on_first = None
                tell(verdict, tool)
        failure = error_type_of(verdict) if verdict.error is not None else None
        self._count(verdict, enforcement_of(verdict), self.mode, tool, agent, failure, exemplar)
        for seen in verdict.observed:
            observed = _as_verdict(verdict.point, seen)
            self._count(
                observed,
                semconv.ENFORCEMENT_OBSERVED,
                semconv.MODE_MONITOR,
                tool,
                agent,
                None,
                exemplar,
            )

    def allows(self, verdict: Verdict, tool: str, agent: str) -> Cell:
        """Return the counter of a plain allow."""
        return self._cell(verdict, semconv.ENFORCEMENT_ALLOWED, self.mode, tool, agent, None)

    def _cell(
        self,
        verdict: Verdict,
        enforcement: str,
        mode: str,
        tool: str,
        agent: str,
        failure: str | None,
    ) -> Cell:
        key = (
            verdict.decision,
            enforcement,
            mode,
            verdict.policy_id,
            verdict.rule_id,
            verdict.severity,
            verdict.point,
            tool,
            agent,
            failure,
        )
        cell = self._cells.get(key)
        if cell is None:
            attributes = {
                semconv.POLICY_DECISION: verdict.decision,
                semconv.POLICY_ENFORCEMENT: enforcement,
                semconv.POLICY_MODE: mode,
                semconv.HOOK_POINT: verdict.point,
            }
            optional = (
                (semconv.POLICY_ID, verdict.policy_id),
                (semconv.POLICY_RULE_ID, verdict.rule_id),
                (semconv.POLICY_SEVERITY, verdict.severity),
                (semconv.GEN_AI_TOOL_NAME, tool),
                (semconv.GEN_AI_AGENT_NAME, agent),
                (semconv.ERROR_TYPE, failure),
            )
            attributes.update((name, value) for name, value in optional if value)
            cell = self._instruments.decisions.cell(attributes)
            if verdict.point == "pre_tool_call":
                tell, self.on_first = self.on_first, None
                if tell is not None:
                    tell(verdict, tool)
            if len(self._cells) < _MAX_CELLS:
                self._cells[key] = cell
        return cell

    def _count(
        self,
        verdict: Verdict,
        enforcement: str,
        mode: str,
        tool: str,
        agent: str,
        failure: str | None,
        exemplar: SpanContext | None,
    ) -> None:
        self._cell(verdict, enforcement, mode, tool, agent, failure).add(1, exemplar)
        if verdict.decision == ALLOW:
            return
        refused = enforcement in {semconv.ENFORCEMENT_REJECTED, semconv.ENFORCEMENT_EXPIRED}
        if verdict.decision == DENY or refused:
            self._instruments.denies.cell(
                deny_attributes(verdict.policy_id, verdict.rule_id, verdict.severity, mode)
            ).add(1, exemplar)

    # -- event and record ---------------------------------------------------------------------

    def event(self, verdict: Verdict, about: Mapping[str, Any], context: Context | None) -> None:
        """Emit a verdict's events: none for a plain allow, unless allows are recorded."""
        if verdict.is_plain() and not self.record_allows:
            return
        decision_id = self.decision_id(verdict)
        if verdict.decision != ALLOW or self.record_allows or verdict.answered:
            self._emit(verdict, False, decision_id, about, context)
            if self._decision_event and (outcome := _outcome_of(verdict)) is not None:
                self._emit_outcome(outcome, about, context)
        for seen in verdict.observed:
            self._emit(_as_verdict(verdict.point, seen), True, decision_id, about, context)

    def asked(self, verdict: Verdict, about: Mapping[str, Any], context: Context | None) -> None:
        """Emit the event of a question, before it is answered."""
        attributes = self._full(verdict, False, self.decision_id(verdict))
        attributes.pop(semconv.POLICY_ENFORCEMENT)
        attributes[semconv.APPROVAL_STATUS] = semconv.APPROVAL_STATUS_PENDING
        self._events.emit(
            semconv.EVENT_POLICY_DECISION, _INFO, {**about, **attributes}, context=context
        )
        if self._decision_event:
            self._emit_outcome(semconv.OUTCOME_REQUIRE_APPROVAL, about, context)

    def _emit_outcome(
        self, outcome: str, about: Mapping[str, Any], context: Context | None
    ) -> None:
        # Without a severity, as proposed. Source: semantic-conventions-genai PR 535.
        names = (semconv.GEN_AI_TOOL_NAME, semconv.GEN_AI_TOOL_CALL_ID)
        attributes = {name: about[name] for name in names if name in about}
        attributes[semconv.GEN_AI_TOOL_CALL_DECISION_OUTCOME] = outcome
        name = semconv.EVENT_GEN_AI_TOOL_CALL_DECISION
        self._events.emit(name, None, attributes, context=context)

    def _emit(
        self,
        verdict: Verdict,
        observed: bool,
        decision_id: str,
        about: Mapping[str, Any],
        context: Context | None,
    ) -> None:
        attributes = {**about, **self._full(verdict, observed, decision_id)}
        if verdict.error is not None:
            attributes[semconv.EXCEPTION_TYPE] = type(verdict.error).__qualname__
            if self._content.on_event:
                attributes[semconv.EXCEPTION_MESSAGE] = self._content.event_error(verdict.error)
        failure = error_type_of(verdict)
        if failure is not None:
            attributes[semconv.ERROR_TYPE] = failure
        if verdict.decision == DENY and verdict.rule_id:
            attributes[semconv.SECURITY_RULE_NAME] = verdict.rule_id
            attributes[semconv.SECURITY_RULE_RULESET_NAME] = verdict.policy_id
        level = _LEVELS.get(verdict.severity or "", _WARN) if verdict.decision == DENY else _INFO
        self._events.emit(semconv.EVENT_POLICY_DECISION, level, attributes, context=context)

    def record(self, verdict: Verdict, about: Mapping[str, Any]) -> dict[str, Any]:
        """Return a verdict's audit record: every verdict has one, including plain allows."""
        shown, observed = self._deciding(verdict)
        decision_id = self.decision_id(verdict)
        told = {**about, **self._full(shown, observed, decision_id)}
        record = {_plain_name(name): value for name, value in told.items()}
        record["decision_id"] = decision_id
        failure = error_type_of(verdict)
        if failure is not None:
            record["error_type"] = failure
        if verdict.error is not None:
            said = self._content.error_text(verdict.error, repr)
            record["error"] = said or error_type(verdict.error)
        return record


def _plain_name(name: str) -> str:
    """Return an attribute's name in a record: `HookEvent`'s name if it has the field."""
    return _RECORD_NAMES.get(name) or name.rpartition(".")[2]


_RECORD_NAMES = {
    semconv.DECISION_ID: "decision_id",
    semconv.GEN_AI_TOOL_NAME: "tool_name",
    semconv.GEN_AI_TOOL_CALL_ID: "tool_call_id",
    semconv.GEN_AI_AGENT_NAME: "agent_name",
    semconv.GEN_AI_CONVERSATION_ID: "session_id",
    semconv.POLICY_ID: "policy_id",
    semconv.POLICY_VERSION: "policy_version",
    semconv.POLICY_RULE_ID: "rule_id",
    semconv.APPROVAL_STATUS: "approval_status",
    semconv.APPROVAL_WAIT_DURATION: "approval_wait_s",
    semconv.APPROVAL_APPROVER_TYPE: "approver_type",
    semconv.APPROVAL_APPROVER_ID: "approver_id",
}


def deny_attributes(
    policy_id: str, rule_id: str, severity: str | None, mode: str
) -> dict[str, str]:
    """Return the attributes of one cell of ``otelhooks.policy.denies``."""
    attributes = {
        semconv.POLICY_ID: policy_id,
        semconv.POLICY_RULE_ID: rule_id,
        semconv.POLICY_MODE: mode,
    }
    if severity:
        attributes[semconv.POLICY_SEVERITY] = severity
    return attributes
