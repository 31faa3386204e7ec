"""Metrics, spans and events of what happens inside points: hooks, questions, listeners."""

from __future__ import annotations

import functools
import time
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from otelhooks import types
from otelhooks.hooks.calls import Call, copy_json
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Run
from otelhooks.hooks.registry import Registration
from otelhooks.hooks.verdict import Approval, RuleLike, Verdict
from otelhooks.hooks.watch import Watch, ask_handlers, log
from otelhooks.pipeline.frames import Op
from otelhooks.pipeline.parking import parked, parking
from otelhooks.pipeline.recording import record_unawaited
from otelhooks.plain_text import LOGGED, encodable, one_line
from otelhooks.records import semconv
from otelhooks.records.arguments import arguments_hash
from otelhooks.records.failures import is_own, outline
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import exemplar, span_id_of

if TYPE_CHECKING:
    from otelhooks.approvals.queue import Parked
    from otelhooks.pipeline.runtime import Runtime

_SAID = 1_000
"""Columns of a log line that a failure's text may fill."""

__all__ = ["RuntimeWatch", "hook_attributes"]


class RuntimeWatch(Watch):
    """Makes metrics, spans and events of what happens inside points."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def hook_ran(self, registration: Registration, seconds: float) -> None:
        """Record how long a hook took."""
        self._runtime.instruments.record(
            semconv.METRIC_HOOK_DURATION, seconds, hook_attributes(registration), None
        )

    def hook_failed(self, registration: Registration, error: BaseException) -> None:
        """Log and count a hook that failed."""
        super().hook_failed(registration, error)
        self._quote(f"hook `{registration.source}`", error)
        self._runtime.instruments.hook_errors.cell(hook_attributes(registration)).add(1)

    def _quote(self, who: str, error: BaseException) -> None:
        """Log the failure's own text, if content is captured."""
        said = self._runtime.content.error_text(error)
        if said:
            log.error("%s says: %s", who, one_line(said, _SAID))

    def hook_dropped(self, registration: Registration) -> None:
        """Count a background hook that was dropped."""
        super().hook_dropped(registration)
        self._runtime.instruments.hook_queue_dropped.cell(hook_attributes(registration)).add(1)

    def event(self, kind: str, context: HookContext, **fields: Any) -> types.HookEvent:
        """Create the record for listeners; content only if it is captured, and masked."""
        shown = self._shown(fields) or {}
        event = super().event(kind, context, **fields)
        span = context.span
        if isinstance(span, trace.Span):
            shown["span_id"] = span_id_of(span)
        return event.model_copy(update=shown)

    @fails_open
    def _shown(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        content = self._runtime.content
        if not content.is_on:
            return {}
        return {
            name: content.event_value(fields[name])
            for name in ("input", "output", "error")
            if fields.get(name) is not None
        }

    def approve(
        self, rules: Sequence[RuleLike], call: Call, context: Any, decision_id: str = ""
    ) -> Generator[Run, Any, Approval]:
        """Ask people, and show that they are being asked: a request span, an event, a wait span."""
        runtime, op = self._runtime, call.op
        earlier = op.resumed.approval if isinstance(op, Op) and op.resumed is not None else None
        if earlier is not None and all(earlier.covers(rule, call.args) for rule in rules):
            return earlier  # answered before the pause, for exactly this call
        deciding = rules[0]
        verdict = Verdict(
            semconv.POINT_PRE_TOOL_CALL,
            semconv.DECISION_ASK,
            policy_id=deciding.policy_id,
            policy_version=deciding.policy_version,
            rule_id=deciding.id,
            severity=deciding.severity,
            reason=deciding.reason or f"Asked by policy '{deciding.label}'.",
        )
        verdict.decision_id = decision_id
        decision_id = runtime.verdicts.decision_id(verdict)
        passage: Any = call  # from an adapter, which may know how its framework asks
        asks, puts_off = (getattr(call, how, None) for how in ("asks_framework", "puts_off"))
        waits = any(rule.handler or getattr(rule, "waits", False) for rule in rules)
        is_ours = isinstance(op, Op) and not waits
        queue = parking(runtime.channel)
        if queue is not None and puts_off is not None and is_ours:
            channel = parked(queue, rules, op, decision_id)
            pause = None if channel is None else puts_off(verdict.reason)
            if channel is not None and pause is not None:
                return (yield from self._parked(rules, call, channel, verdict, pause))
        if queue is None and asks is not None and is_ours:
            before = op.resumed is not None and op.resumed.approval
            answer = passage.is_approved
            if answer is not None and before and before.status == semconv.APPROVAL_STATUS_PENDING:
                status = "approved" if answer else "rejected"
                approval = Approval(status, approver_id=passage.framework)
                approval.rules, approval.args = tuple(rules), copy_json(call.args)
                approval.decision_id = before.decision_id
                return approval
            if (pause := asks(verdict.reason)) is not None:
                self._pause(op, call, verdict, is_new=True)
                raise pause
        wait = _ask_spans(runtime, op, call, verdict)
        if isinstance(op, Op):
            op.wait = wait
        withdraw = functools.partial(_withdraw, runtime, op, verdict, wait, time.perf_counter())
        runtime.withdraws.add(withdraw)
        runtime.has_run = True  # even if Ctrl-C ends the waiting
        runtime.wait_for(1)
        try:
            approval = yield from ask_handlers(
                rules, call, channel=runtime.channel, timeout=runtime.approval_timeout_s
            )
        except BaseException:
            if runtime.ends_question(withdraw):
                withdraw()
            raise
        finally:
            runtime.wait_for(-1)
        if not runtime.ends_question(withdraw):
            # The process ends: the answer is too late.
            approval = Approval("withdrawn", wait_s=approval.wait_s)
        approval.decision_id = decision_id
        _end_wait(wait, approval)
        self._told(approval, deciding, exemplar(wait))
        return approval

    def _parked(
        self,
        rules: Sequence[RuleLike],
        call: Call,
        channel: Parked,
        verdict: Verdict,
        pause: BaseException,
    ) -> Generator[Run, Any, Approval]:
        """Take the answer that people have given meanwhile; pause the run if there is none."""
        runtime, op = self._runtime, call.op
        approval = yield from ask_handlers(
            rules, call, channel=channel, timeout=runtime.approval_timeout_s
        )
        verdict.decision_id = approval.decision_id = channel.decision_id
        if channel.is_open:
            self._pause(op, call, verdict, channel.is_new)
            raise pause
        if channel.asked_at:
            approval.wait_s = time.time() - channel.asked_at
        self._told(approval, rules[0], None)
        return approval

    def _pause(self, op: Op, call: Call, verdict: Verdict, is_new: bool) -> None:
        """Remember that a call waits for an answer; report it if it was asked now."""
        verdict.approval = Approval(semconv.APPROVAL_STATUS_PENDING)
        verdict.approval.decision_id = verdict.decision_id
        if is_new:
            _end_wait(_ask_spans(self._runtime, op, call, verdict), verdict.approval)
        op.verdict = verdict
        self._runtime.pauses.keep(op)

    def _told(self, approval: Approval, rule: RuleLike, where: Any) -> None:
        """Report what approvers said, and how long it took."""
        if approval.status == "error" and approval.error is not None:
            self._approver_failed(approval.rejected_by or rule, approval.error)
        self._runtime.instruments.record(
            semconv.METRIC_APPROVAL_WAIT_DURATION,
            approval.wait_s,
            {semconv.APPROVAL_STATUS: approval.status},
            where,
        )

    @fails_open
    def answered(self, verdict: Verdict, call: Call) -> None:
        """Record an answer that another question follows; the last answer is the verdict."""
        runtime, op = self._runtime, call.op
        if not isinstance(op, Op):
            return
        if op.resumed is not None and op.resumed.approval is verdict.approval:
            return  # written down before the pause
        if op.call is not None:
            op.call.args = call.args
        runtime.record_unawaited(op, verdict)
        record_unawaited(runtime, op, verdict)

    @fails_open
    def _approver_failed(self, rule: RuleLike, error: BaseException) -> None:
        who = f"the approver of rule `{one_line(rule.label, LOGGED)}`"
        own = self._runtime.content.redactor.mask_text(str(error)) if is_own(error) else ""
        problem, mark, hint = own.partition("\nhint: ")
        why = one_line(problem, LOGGED) + mark + one_line(hint, LOGGED) or outline(error)
        log.error("%s could not be asked, and the call is denied: %s", who, why)
        self._quote(who, error)


def hook_attributes(registration: Registration) -> dict[str, str]:
    """Return the attributes of a hook's metrics."""
    return {
        semconv.HOOK_POINT: registration.point,
        semconv.HOOK_NAME: registration.source,
    }


@fails_open
def _ask_spans(runtime: Runtime, op: Any, call: Call, verdict: Verdict) -> trace.Span | None:
    """Open the span of the wait, after a span that reports the question at once."""
    about = runtime.about(op) if isinstance(op, Op) else {semconv.GEN_AI_TOOL_NAME: call.name}
    turn = op.turn if isinstance(op, Op) else None
    if not runtime.opens_spans(turn.framework if turn is not None else ""):
        runtime.verdicts.asked(verdict, about, None)
        return None
    outer = op.outer if isinstance(op, Op) else None
    parent = None
    if outer is not None and outer.span is not None:
        parent = trace.set_span_in_context(outer.span)
    trace_id = runtime.pin_trace(op) if isinstance(op, Op) else 0
    attributes = {
        **about,
        **runtime.verdicts.attributes(verdict),
        semconv.APPROVAL_STATUS: semconv.APPROVAL_STATUS_PENDING,
        semconv.ARGUMENTS_HASH: arguments_hash(call.args),
    }
    attributes.pop(semconv.POLICY_ENFORCEMENT, None)
    request = runtime.spans.start(
        f"{semconv.SPAN_APPROVAL_REQUEST} {call.name}", attributes, parent, trace_id=trace_id
    )
    request.end()
    runtime.verdicts.asked(verdict, about, trace.set_span_in_context(request))
    attributes.pop(semconv.POLICY_DECISION)
    name = f"{semconv.SPAN_APPROVAL_WAIT} {call.name}"
    return runtime.spans.start(name, attributes, parent, trace_id=trace_id)


@fails_open
def _withdraw(
    runtime: Runtime,
    op: Any,
    verdict: Verdict,
    wait: trace.Span | None,
    asked_at: float,
    *,
    is_over: bool = True,
) -> None:
    """Record that a question is over without an answer, as its call or its process ends.

    Args:
        runtime: The runtime that asked.
        op: Operation of the call, or what a runner passes.
        verdict: The ask.
        wait: Span of the wait.
        asked_at: When it began, by `time.perf_counter`.
        is_over: False ends only the span, as pending, because its provider shuts down.
    """
    if not is_over:
        _end_wait(wait, Approval(semconv.APPROVAL_STATUS_PENDING))
        return
    approval = Approval("withdrawn", wait_s=time.perf_counter() - asked_at)
    _end_wait(wait, approval)
    verdict.approval, verdict.allowed = approval, False
    if isinstance(op, Op):
        op.verdict = verdict
        runtime.record_unawaited(op, verdict)
        record_unawaited(runtime, op, verdict)


def _end_wait(wait: trace.Span | None, approval: Approval) -> None:
    if wait is None or not wait.is_recording():
        return
    wait.set_attribute(semconv.APPROVAL_STATUS, approval.status)
    if approval.is_answered:
        wait.set_attribute(semconv.APPROVAL_APPROVER_TYPE, approval.approver_type)
        if approval.approver_id:
            wait.set_attribute(semconv.APPROVAL_APPROVER_ID, encodable(approval.approver_id))
    wait.end()
