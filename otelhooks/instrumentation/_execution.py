"""A tool call after its permit: decision, span, body, error and post hooks.

The audit record is on disk before the body runs; post hooks run before the result goes on.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry import trace

from otelhooks import types
from otelhooks.hooks import points, results
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import SpanNotes, Step
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.registry import HookSet
from otelhooks.hooks.verdict import ALLOW, MODIFY, Judge, Verdict, text_of
from otelhooks.instrumentation._drive import Body, Closed, Operation
from otelhooks.instrumentation._frames import (
    MAX_STEPS,
    Op,
    current_span,
    with_frame,
)
from otelhooks.instrumentation._runtime import Runtime
from otelhooks.telemetry import semconv
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import (
    error_type,
    exemplar,
    fail,
    native_span,
    now_ns,
    put_notes,
    put_on,
)
from otelhooks.telemetry.verdicts import arguments_hash, error_type_of

if TYPE_CHECKING:
    from otelhooks.audit.ticket import Ticket
    from otelhooks.instrumentation._tool import ToolSeat

__all__ = ["UNRECORDED", "Execution", "decide", "settle"]

UNRECORDED = "The call was refused because it could not be recorded."


def decide(
    rt: Runtime, op: Op, call: Call, hooks: HookSet, judges: tuple[Judge, ...]
) -> Generator[Run, Any, Verdict | None]:
    """Decide about a tool call; None where there is nobody to decide."""
    deciders = hooks.at("pre_tool_call")
    if not deciders.deciders and not judges:
        if not rt.loaded.can_deny:
            rt.warn_once("no policy", "tools run with no policy; give `policies=` to instrument()")
        return None
    context = None
    if hooks.all:
        context = op.context
        context.know_trace(lambda: rt.trace_id_of(op))
        if deciders:
            call.place = rt.place(op)
    started = time.perf_counter()
    verdict = yield from points.pre_tool_call(
        deciders, context, call, rt.watch, judges, rt.loaded.monitor
    )
    rt.count_evaluations(verdict.evaluations or 1, time.perf_counter() - started, "pre_tool_call")
    if verdict.is_plain() and (rt.tells_allows or op.resumed is not None):
        verdict = copy.copy(verdict)  # rules share theirs, and a decision that is told has an id
    return verdict


def settle(rt: Runtime, op: Op, verdict: Verdict) -> Generator[Run, Any, bool]:
    """Count a verdict, tell it, and write it down before the call goes on.

    Decision: fails closed, where the audit file is required.

    Returns:
        Whether the call may go on as far as the record is concerned.
    """
    before = op.resumed if verdict.point == semconv.POINT_PRE_TOOL_CALL else None
    if before is not None and before.allowed and verdict.allowed:
        if (before.decision, before.rule_id) == (verdict.decision, verdict.rule_id):
            verdict.decision_id = before.decision_id
            return True  # the same call goes on after a pause: told, counted and written before
    rt.tell_verdict(op, verdict)
    if rt.audit is None:
        return True
    ticket = _write(rt, op, verdict)
    written = ticket is not None and (yield Run(ticket.wait, blocking=True))
    return written is True or not rt.audit.required


@fails_open
def _write(rt: Runtime, op: Op, verdict: Verdict) -> Ticket | None:
    """Give a verdict to the audit file; None where no record could be made of it."""
    return rt.audit.write(rt.audit_record(op, verdict)) if rt.audit is not None else None


class Execution:
    """A tool call after its decision: span, body, error and post hooks."""

    __slots__ = (
        "call",
        "ended_ns",
        "hooks",
        "op",
        "rt",
        "seat",
        "started_ns",
        "status",
        "verdict",
    )

    def __init__(
        self,
        rt: Runtime,
        seat: ToolSeat,
        op: Op,
        call: Call,
        hooks: HookSet,
        verdict: Verdict | None,
    ) -> None:
        self.rt = rt
        self.seat = seat
        self.op = op
        self.call = call
        self.hooks = hooks
        self.verdict = verdict
        self.started_ns = 0
        self.ended_ns = 0
        self.status = "ok"

    def steps(self) -> Operation:
        """Run what is left of the operation."""
        rt, op, verdict = self.rt, self.op, self.verdict
        op.verdict = verdict
        self.open()
        try:
            allowed = True
            told = ""
            if verdict is not None:
                recorded = yield from settle(rt, op, verdict)
                allowed = verdict.allowed and recorded
                told = verdict.told if recorded else UNRECORDED
            if self.hooks.has_events:
                yield from self._tell_decision()
            if not allowed:
                self.status = "denied"
                return self.seat.denied(self.call, told)
            raw = yield from self._run()
            if rt.content.on_span:
                self._show(raw)
            return raw
        finally:
            self.close()

    # -- span ---------------------------------------------------------------------------------

    @fails_open
    def open(self) -> None:
        """Open the span, or adopt the framework's own; the verdict is on it from the start."""
        rt, op, call, verdict = self.rt, self.op, self.call, self.verdict
        self.started_ns = now_ns()
        mode = rt.spans_of(self.seat.framework)
        if mode == "off":
            return
        name, template = rt.spans.tool_template(call, op.agent, op.branch)
        attributes = {**template, **rt.session_attributes(op.session)}
        if op.turn is not None and op.turn.task_id:
            attributes[semconv.TASK_ID] = op.turn.task_id
        if call.id:
            attributes[semconv.GEN_AI_TOOL_CALL_ID] = call.id
        failure = None
        if verdict is not None:
            attributes.update(rt.verdicts.attributes(verdict))
            if verdict.approval is not None:
                attributes[semconv.ARGUMENTS_HASH] = arguments_hash(call.args)
            failure = error_type_of(verdict)
        further = self.seat.attributes(call)
        if further:
            attributes.update(further)
        if op.has_context:
            exports = op.context.exports()
            attributes.update((semconv.CONTEXT_PREFIX + k, v) for k, v in exports.items())
        if failure is not None and rt.denied_status == "error":
            attributes[semconv.ERROR_TYPE] = failure
        if rt.content.on_span:
            attributes[semconv.GEN_AI_TOOL_CALL_ARGUMENTS] = rt.content.span_value(call.args)
        outer = op.outer.span if op.outer is not None else None
        current = current_span(otel_context.get_current())
        native = None
        if mode == "auto" and current is not outer and current is not None:
            native = native_span(
                current, semconv.OP_EXECUTE_TOOL, semconv.GEN_AI_TOOL_NAME, call.name
            )
        if native is not None:
            op.adopted, span = True, native
            _adopt(native, attributes)
        else:
            parent = None
            if outer is not None and current is not outer and not _same_trace(current, outer):
                parent = trace.set_span_in_context(outer)
            span = rt.spans.start(
                name,
                attributes,
                parent,
                start_ns=self.started_ns,
                trace_id=op.trace_id,
            )
        op.span = span
        if failure is not None and rt.denied_status == "error" and verdict is not None:
            fail(span, failure, verdict.reason)
        if op.has_context:
            notes, op.context.span = op.context.span, span
            if isinstance(notes, SpanNotes):
                put_notes(span, notes)

    @fails_open
    def close(self) -> None:
        """End the span, and record what is left to record."""
        rt, op, call = self.rt, self.op, self.call
        op.permits.revoke()
        ended = self.ended_ns or now_ns()
        span = op.span
        if self.ended_ns:
            failure = self.status if self.status not in _SUCCESSES else None
            seconds = (ended - self.started_ns) / 1e9
            rt.instruments.record(
                semconv.METRIC_GEN_AI_EXECUTE_TOOL_DURATION,
                seconds,
                rt.tool_metric(call, op.agent, failure),
                exemplar(span),
            )
            self.seat.finished(rt, call, seconds, failure, span)
        turn = op.turn
        if turn is not None and len(turn.context.steps) < MAX_STEPS:
            decision = self.verdict.decision if self.verdict is not None else "allow"
            span_id = ""
            if span is not None:
                span_id = trace.format_span_id(span.get_span_context().span_id)
            turn.context.steps.append(Step(call.name, decision, self.status, span_id))
        if span is not None and not op.adopted:
            span.end(ended)
        call.op = None  # else the two keep each other alive until the garbage collector comes

    # -- body ---------------------------------------------------------------------------------

    def _run(self) -> Operation:
        seat, op, call = self.seat, self.op, self.call
        handoff = seat.handoff(call)
        if handoff is not None:
            op.permits.leave(handoff, call.args)
        self.started_ns = now_ns() if self.op.span is None else self.started_ns
        raw = yield Body(with_frame(op, op.span), call.args)
        self.ended_ns = now_ns()
        op.permits.revoke()
        if type(raw) is Raised:
            return (yield from self._raised(raw))
        partial = type(raw) is Closed
        if partial:
            raw = raw.value
        if seat.is_paused(call, raw):
            self.status = "paused"
            self.rt.pause(op)
            return raw
        found = seat.error(call, raw)
        if found is None:
            found = op.failure
        if isinstance(found, Exception):
            return (yield from self._failed(found, seat.error_type(found), raw))
        if found is not None:
            return (yield from self._failed(RuntimeError(found), semconv.ERROR_TOOL_ERROR, raw))
        post = self.hooks.at("post_tool_call")
        if not post and not self.hooks.has_events:
            return raw
        return (yield from self._post(raw, None, None, partial))

    def _raised(self, raw: Raised) -> Operation:
        error = raw.error
        if self.seat.is_control_flow(error):
            self.status = "paused"
            self.rt.pause(self.op)
            return raw
        if escapes(error):
            self._mark(error_type(error), "cancelled" if _is_cancel(error) else "stopped")
            return raw
        return (yield from self._failed(error, self.seat.error_type(error), raw))

    def _failed(self, error: BaseException, kind: str, raw: Any) -> Operation:
        """Ask the error hooks; then show the post hooks a failure that nobody recovered from."""
        hooks, op, call, seat = self.hooks, self.op, self.call, self.seat
        found = hooks.at("on_tool_error")
        result = types.HookResult(allow=False)
        value: Any = None
        if found:
            result, value = yield from results.on_error(found, op.context, error, self.rt.watch)
        if hooks.has_events:
            yield from self.rt.tell(
                hooks,
                "on_tool_error",
                op.context,
                tool_name=call.name,
                tool_call_id=call.id,
                is_error=True,
                error=text_of(error, str),
                output=value,
            )
        if result.allow and value is not None:
            self.status = kind
            put_on(op.span, {semconv.RECOVERED: True, semconv.ERROR_TYPE: kind})
            self._event(semconv.EVENT_RECOVERED)
            recovered = seat.recovered(call, value)
            return (yield from self._post(recovered, None, None))
        self._mark(kind, text_of(error, str))
        if result.message:
            raw = seat.failed(call, error, result.message)
        return (yield from self._post(raw, error, result.message or text_of(error, str)))

    def _post(
        self, raw: Any, error: BaseException | None, text: str | None, partial: bool = False
    ) -> Operation:
        """Run the post hooks; return what the seat returns."""
        hooks, op, call, seat, rt = self.hooks, self.op, self.call, self.seat, self.rt
        found = hooks.at("post_tool_call")
        if not found and not hooks.has_events:
            return raw
        record = types.ToolResult(
            name=call.name,
            id=call.id,
            server_name=call.server,
            result=None if error is not None else seat.result(call, raw),
            error=text,
            duration=(self.ended_ns - self.started_ns) / 1e9,
            partial=partial,
            **rt.place(op),
        )
        if isinstance(error, Exception):
            record.exception = error
        data, verdict = yield from results.post_point(
            "post_tool_call",
            found,
            op.context,
            record,
            rt.watch,
            results.place_result,
            rt.loaded.monitor,
        )
        if verdict is not None:
            yield from self.post_verdict(verdict)
            if error is not None:
                data, shown = _failure(data, verdict, text)
                raw, text = raw if shown == text else seat.failed(call, error, shown), shown
            elif data is not record:
                value = data.result if isinstance(data, types.ToolResult) else data
                raw = seat.with_result(call, raw, value)
        yield from results.inspect_point(found, op.context, data, rt.watch)
        if hooks.has_events:
            yield from rt.tell(
                hooks,
                "post_tool_call",
                op.context,
                tool_name=call.name,
                tool_call_id=call.id,
                output=getattr(data, "result", data),
                is_error=error is not None,
                error=text,
                duration=record.duration,
                decision=verdict.decision if verdict is not None else ALLOW,
                rule_id=verdict.rule_id or None if verdict is not None else None,
                reason=verdict.reason or None if verdict is not None else None,
            )
        return raw

    def post_verdict(self, verdict: Verdict) -> Generator[Run, Any, None]:
        """Tell what post hooks did; on the span, a stricter verdict replaces the first."""
        op = self.op
        if op.span is not None and (self.verdict is None or verdict.is_stricter_than(self.verdict)):
            put_on(op.span, self.rt.verdicts.attributes(verdict))
        if verdict.withheld:
            self.status = "withheld"
            self._event(semconv.EVENT_WITHHELD)
        elif verdict.decision == MODIFY:
            self._event(semconv.EVENT_REWRITTEN)
        yield from settle(self.rt, op, verdict)

    # -- telling ------------------------------------------------------------------------------

    @fails_open
    def _show(self, raw: Any) -> None:
        """Put the result that goes on where content is captured."""
        span, content = self.op.span, self.rt.content
        if content.on_span and span is not None and type(raw) is not Raised:
            value = content.span_value(self.seat.result(self.call, raw))
            span.set_attribute(semconv.GEN_AI_TOOL_CALL_RESULT, value)

    @fails_open
    def _mark(self, kind: str, description: str) -> None:
        self.status = kind
        if self.op.span is not None and not self.op.adopted:
            fail(self.op.span, kind, description)

    @fails_open
    def _event(self, name: str) -> None:
        op = self.op
        context = trace.set_span_in_context(op.span) if op.span is not None else None
        attributes = {**self.rt.about(op), semconv.HOOK_POINT: semconv.POINT_POST_TOOL_CALL}
        self.rt.events.emit(name, 9, attributes, context=context)

    def _tell_decision(self) -> Generator[Run, Any, None]:
        verdict, call = self.verdict, self.call
        yield from self.rt.tell(
            self.hooks,
            "pre_tool_call",
            self.op.context,
            tool_name=call.name,
            tool_call_id=call.id,
            input=call.args,
            decision=verdict.decision if verdict is not None else ALLOW,
            rule_id=verdict.rule_id or None if verdict is not None else None,
            reason=verdict.reason or None if verdict is not None else None,
        )


def _failure(data: Any, verdict: Verdict, text: str | None) -> tuple[Any, str]:
    """Return the result of a failed tool, and the failure's text, as post hooks left them."""
    if not isinstance(data, types.ToolResult):
        return data, text or ""
    if verdict.withheld:
        data = data.model_copy(update={"result": None, "error": verdict.told})
    return data, data.error or ""


def _same_trace(span: trace.Span | None, outer: trace.Span) -> bool:
    """Say whether the current span lies in the frame's trace, below it as far as we can know."""
    if span is None:
        return False
    return span.get_span_context().trace_id == outer.get_span_context().trace_id


_SUCCESSES = frozenset(("ok", "denied", "paused", "withheld"))


def _is_cancel(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError) or type(error).__name__ == "Cancelled"


def _adopt(span: trace.Span, attributes: Mapping[str, Any]) -> None:
    """Put our attributes on somebody else's span, and names where it has none."""
    has: Mapping[str, Any] = getattr(span, "attributes", None) or {}
    for name, value in attributes.items():
        ours = name.startswith(semconv.OWN_PREFIX) or name.startswith(semconv.MCP_PREFIX)
        if ours or (name in _WHERE_MISSING and name not in has):
            span.set_attribute(name, value)


_WHERE_MISSING = frozenset((semconv.GEN_AI_TOOL_NAME, semconv.GEN_AI_OPERATION_NAME))
