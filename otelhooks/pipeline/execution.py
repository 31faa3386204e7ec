"""A tool call after its permit: decision, span, body, error and post hooks.

The audit record is on disk before the body runs; post hooks run before the result is passed on.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Generator
from time import time_ns
from typing import Any

from opentelemetry.context import Context

from otelhooks import types
from otelhooks.hooks import points, results
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import OperationContext
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.origins import Parts
from otelhooks.hooks.registry import EMPTY, HookSet
from otelhooks.hooks.verdict import ALLOW, Judge, Verdict, text_of
from otelhooks.pipeline.call_span import UNRECORDED, Traced, record
from otelhooks.pipeline.drivers import Body, Closed, Operation, Unrun
from otelhooks.pipeline.frames import Op, around, with_frame
from otelhooks.pipeline.recording import record_end, record_unrun
from otelhooks.pipeline.runtime import SUPPRESSED, Runtime
from otelhooks.pipeline.shadow import try_out
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.pipeline.tool_stages import Stopped
from otelhooks.records import semconv
from otelhooks.records.arguments import arguments_hash
from otelhooks.telemetry.quiet import fails_open, report
from otelhooks.telemetry.shapes import ToolShape
from otelhooks.telemetry.spans import error_type

__all__ = ["Execution", "decide", "stopped"]

_NO_HOOKS = EMPTY.at("pre_tool_call")


def decide(
    rt: Runtime, op: Op, call: Call, hooks: HookSet, judges: tuple[Judge, ...]
) -> Generator[Run, Any, Verdict | None]:
    """Decide about a tool call; return None if there is nothing to decide it."""
    candidate = rt.candidate
    if candidate is None:
        return (yield from _decide(rt, op, call, hooks, judges))
    if candidate.rules.needs_context:
        _ = op.context.labels  # looked up before the call may add one
    verdict = yield from _decide(rt, op, call, hooks, judges)
    yield from try_out(rt, candidate, op, call, verdict)
    return verdict


def _decide(
    rt: Runtime, op: Op, call: Call, hooks: HookSet, judges: tuple[Judge, ...]
) -> Generator[Run, Any, Verdict | None]:
    deciders = hooks.at("pre_tool_call")
    if not deciders.deciders and not deciders.gates and not judges and not op.recorders:
        if not rt.loaded.can_deny:
            hint = "give `policies=` to instrument(), or set OTELHOOKS_POLICIES"
            rt.warn_once("no policy", f"tools run with no policy; {hint}")
        if rt.audit is None:
            return None
    context = None
    call.is_counted = op.resumed is not None and not _waits(op.resumed)
    call.place = functools.partial(rt.place_of_call, op)
    if hooks.all or any(judge.needs_context for judge in judges):
        context = op.context
        context.know_trace(lambda: rt.trace_id_of(op))
    started = time.perf_counter()
    verdict = yield from points.pre_tool_call(
        deciders, context, call, rt.watch, judges, rt.loaded.monitor, earlier=op.resumed
    )
    rt.count_evaluations(verdict.evaluations or 1, time.perf_counter() - started, "pre_tool_call")
    if rt.stopped is not None and verdict.allowed and rt.stopped not in judges:
        verdict = yield from stopped(rt, rt.stopped, context, call, verdict)
    return verdict


def _waits(verdict: Verdict) -> bool:
    """Return whether a call was paused for people's answer: limits count it only after that."""
    approval = verdict.approval
    return approval is not None and approval.status == semconv.APPROVAL_STATUS_PENDING


def stopped(
    rt: Runtime, stops: Judge, context: OperationContext | None, call: Call, verdict: Verdict
) -> Generator[Run, Any, Verdict]:
    """Return what `otelhooks stop` makes of a call that waited, for people or a hook, meanwhile."""
    now = yield from points.pre_tool_call(_NO_HOOKS, context, call, rt.watch, (stops,))
    if now.allowed:
        return verdict
    now.approval = verdict.approval
    return now


class Execution(Traced):
    """A tool call after its decision: span, body, error and post hooks.

    Args:
        rt: The active runtime.
        seat: How to read and write the call.
        op: The call's frame.
        call: What was decided about.
        hooks: The hooks in force for it.
        verdict: What was decided; None if nothing decides.
        context: Context that the call was made in.
    """

    POINT_AFTER = semconv.POINT_POST_TOOL_CALL

    __slots__ = ("call", "error", "is_plain", "seat", "shape")

    def __init__(
        self,
        rt: Runtime,
        seat: ToolSeat,
        op: Op,
        call: Call,
        hooks: HookSet,
        verdict: Verdict | None,
        context: Context,
    ) -> None:
        self.rt = rt
        self.op = op
        self.hooks = hooks
        self.verdict = op.verdict = verdict
        self.error: BaseException | None = None
        self.context = context
        self.started_ns = self.ended_ns = 0
        self.status = "ok"
        self.exemplar = None
        self.seat: ToolSeat = seat
        self.call: Call = call
        self.is_plain: bool = verdict is not None and verdict.is_plain()
        self.shape: ToolShape = rt.shapes.tool(
            call, op.agent, op.branch, verdict if self.is_plain else None
        )

    def steps(self) -> Operation:
        """Run the rest of the operation."""
        verdict = self.verdict
        is_ahead = self.seat.is_ahead and (verdict is None or verdict.allowed)
        came: Parts | None = None
        if not is_ahead:
            self.open()
        try:
            refusal = None
            if verdict is not None and not self._count_plain():
                refusal = yield from record(self.rt, self.op, verdict)
            if self.hooks.has_events and not self.seat.is_behind:
                yield from self._tell_decision()
            if refusal is not None:
                self.status, came = "denied", frozenset()
                if verdict is not None and verdict.allowed:
                    record_unrun(self.rt, self.op, verdict)
                return self.seat.denied(self.call, refusal)
            if is_ahead:
                return self.seat.ahead(self.call)
            raw = yield from self._run()
            known = self.op.known
            if known is not None and known.origins:
                came = self._came(raw)
            if type(raw) is Unrun or self.status == "denied":
                return raw
            if self.op.recorders and self.status != "paused":
                yield from self._record_end(raw)
            if self.rt.content.on_span:
                self._show(raw)
            return raw
        finally:
            if is_ahead:
                self.call.op = self.call.place = None
            else:
                known = self.op.known
                if known is not None and known.origins:
                    known.come(came)
                self.close()

    @fails_open
    def withdrawn(self) -> None:
        """Show a call whose question is over without an answer, since nothing waits for it."""
        verdict = self.verdict
        if verdict is None or verdict.approval is None or verdict.approval.status != "withdrawn":
            return  # such as one that is paused
        self.status = "denied"
        self.open()
        self.close()

    def _count_plain(self) -> bool:
        """Count a verdict that is only counted; return whether this one is."""
        allows = self.shape.allows
        if allows is None or self.rt.tells_allows or self.op.recorders:
            return False
        if self.op.resumed is not None:
            return False
        if not self.context.get(SUPPRESSED):
            allows.add(1, self.exemplar)
        return True

    # -- span ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the span."""
        named_by = (semconv.OP_EXECUTE_TOOL, semconv.GEN_AI_TOOL_NAME, self.call.name)
        self.open_span(self.seat.framework, self.shape.name, named_by)

    def attributes(self) -> dict[str, Any]:
        """Return what the span starts with."""
        rt, op, call = self.rt, self.op, self.call
        of_session = op.session.attributes
        if of_session is None:
            of_session = op.session.wire_attributes(rt.user_attribute)
        attributes = {**self.shape.attributes, **of_session}
        if call.id:
            attributes[semconv.GEN_AI_TOOL_CALL_ID] = call.id
        verdict = self.verdict
        if verdict is not None and verdict.approval is not None:
            attributes[semconv.ARGUMENTS_HASH] = arguments_hash(call.args)
        further = self.seat.attributes(call)
        if further:
            attributes.update(further)
        if op.turn is not None and op.turn.task_id:
            attributes[semconv.TASK_ID] = op.turn.task_id
        if not self.is_plain or op.known is not None or op.flip is not None:
            self.complete(attributes)
        if rt.content.on_span:
            attributes[semconv.GEN_AI_TOOL_CALL_ARGUMENTS] = rt.content.span_value(call.args)
        return attributes

    def close(self) -> None:
        """End the span, and record the rest."""
        rt, op, call = self.rt, self.op, self.call
        if op.permits:
            op.permits.clear()
        try:
            if self.ended_ns:
                failure = self.status if self.status not in _SUCCESSES else None
                seconds = (self.ended_ns - self.started_ns) / 1e9
                timing = self.shape.time
                if failure is not None or timing is None:
                    timing = rt.shapes.tool_time(call, op.agent, failure)
                    if failure is None:
                        self.shape.time = timing
                timing.add(seconds, self.exemplar)
                if op.turn is not None:
                    op.turn.tool_calls += 1
                if rt.instruments.tool_histogram and op.annotation is None:
                    name = semconv.METRIC_GEN_AI_EXECUTE_TOOL_DURATION
                    attributes = rt.shapes.tool_duration(call, op.agent, failure)
                    rt.instruments.record(name, seconds, attributes, self.exemplar)
                self.seat.finished(call, seconds, failure, op.span)
            self.end_span(call.name)
        except Exception as error:
            report("Execution.close", error)
        # Call and op refer to each other, which would keep both alive until a garbage collection.
        call.op = call.place = None

    # -- body ---------------------------------------------------------------------------------

    def _run(self) -> Operation:
        seat, op, call = self.seat, self.op, self.call
        next_seat = seat.next_seat(call)
        if next_seat is not None:
            op.permits.leave(next_seat, call.args)
        if op.span is None:
            self.started_ns = time_ns()
        span = None if op.adopted else op.span  # an adopted span is current where its owner wants
        raw = yield Body(with_frame(op, span, self.context), call.args)
        if type(raw) is Unrun:
            op.permits.clear()
            kind = semconv.ERROR_POLICY_DENIED if raw.is_refused else semconv.ERROR_TOOL_ERROR
            (self.mark if raw.is_refused else self.mark_error)(kind, raw.reason)
            return raw
        self.ended_ns = time_ns()
        if op.permits:
            op.permits.clear()
        stages = op.stages
        if stages is not None and stages.verdict is not None:
            if type(raw) is not Raised or not escapes(raw.error):
                return (yield from self._stopped(stages.verdict, raw))
        if op.refused is not None and not (type(raw) is Raised and escapes(raw.error)):
            return self._refused(op.verdict, op.refused)
        if type(raw) is Raised:
            return (yield from self._raised(raw))
        partial = type(raw) is Closed
        if partial:
            raw = raw.value
        if seat.is_paused(call, raw):
            self.status = "paused"
            self.rt.pauses.keep(op)
            return raw
        found = seat.error(call, raw)
        if found is None:
            found = op.failure
        op.failure = found
        if isinstance(found, Exception):
            return (yield from self._failed(found, seat.error_type(found), raw))
        if found is not None:
            return (yield from self._failed(RuntimeError(found), semconv.ERROR_TOOL_ERROR, raw))
        if not self.hooks.all:
            return raw
        if stages is not None:
            try:
                yield from stages.end(seat.result(call, raw))
            except Stopped:
                return (yield from self._stopped(stages.verdict, raw))
        return (yield from self._post(raw, None, None, partial))

    def _stopped(self, verdict: Verdict | None, raw: Any) -> Operation:
        """End a call that a hook stopped between two steps of its tool; its verdict is recorded."""
        seat, call = self.seat, self.call
        self.verdict = self.op.verdict
        if verdict is None or not verdict.withheld:
            return self._refused(verdict, UNRECORDED if verdict is None else verdict.message)
        self.status = "withheld"
        self.event(semconv.EVENT_WITHHELD)
        yield from self._inspect(self._result(verdict.message), verdict, False, None)
        return seat.withheld(call, raw, verdict.message)

    def _refused(self, verdict: Verdict | None, message: str) -> Any:
        """End a call that a deeper seat refused, whatever its tool made of the refusal."""
        self.verdict = self.op.verdict
        self.ended_ns, self.status = 0, "denied"  # like any denied call, it has no duration
        if verdict is not None and verdict.allowed:
            record_unrun(self.rt, self.op, verdict)
        return self.seat.denied(self.call, message)

    def _raised(self, raw: Raised) -> Operation:
        error = raw.error
        if self.seat.is_control_flow(error):
            self.status = "paused"
            self.rt.pauses.keep(self.op)
            return raw
        if escapes(error):
            self.mark(error_type(error), "cancelled" if _is_cancel(error) else "stopped")
            return raw
        return (yield from self._failed(error, self.seat.error_type(error), raw))

    def _failed(self, error: BaseException, kind: str, raw: Any) -> Operation:
        """Ask the error hooks; show the post hooks a failure that no hook recovered from."""
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
                failure=kind,
                output=value,
            )
        if result.allow and value is not None and not seat.recovers:
            result = types.HookResult(allow=False, message=text_of(value, str))
        if result.allow and value is not None:
            self.status = kind
            self.recovered(kind)
            recovered = seat.recovered(call, value)
            return (yield from self._post(recovered, None, None))
        self.error = error
        self.mark(kind, kind)
        if result.message:
            raw = seat.failed(call, error, result.message)
        raw = yield from self._post(raw, error, result.message or self._told(error, raw))
        self.describe(kind, self.error)
        return raw

    def _told(self, error: BaseException, raw: Any) -> str:
        """Return the text of a failure that the model reads: a framework may have its own."""
        value = None if type(raw) is Raised else self.seat.result(self.call, raw)
        return value if isinstance(value, str) else text_of(error, str)

    def _post(
        self, raw: Any, error: BaseException | None, text: str | None, partial: bool = False
    ) -> Operation:
        """Run the post hooks; return what the seat returns."""
        hooks, op, call, seat, rt = self.hooks, self.op, self.call, self.seat, self.rt
        found = hooks.at("post_tool_call")
        if not found and not hooks.has_events:
            return raw
        record = self._result(None if error is not None else seat.result(call, raw))
        record.error, record.partial = text, partial
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
                shown = data.error or ""
                if verdict.withheld or shown != text:
                    raw, text = self._replaced(error, shown), shown
            elif data is not record:
                put = seat.withheld if verdict.withheld else seat.with_result
                raw = put(call, raw, data.result)
        yield from self._inspect(data, verdict, error is not None, text)
        return raw

    def _replaced(self, error: BaseException, text: str) -> Any:
        """Return a failure with the text of post hooks, and its own nowhere."""
        self.error = RuntimeError(text)
        raw = self.seat.failed(self.call, error, text)
        if type(raw) is Raised and raw.error is not error:
            raw.error.__cause__ = raw.error.__context__ = None  # tracebacks would show them
        return raw

    def _result(self, value: Any) -> types.ToolResult:
        call = self.call
        return types.ToolResult(
            name=call.name,
            id=call.id,
            server_name=call.server,
            result=value,
            duration=self._seconds,
            **self.rt.place(self.op),
        )

    @property
    def _seconds(self) -> float:
        return (self.ended_ns - self.started_ns) / 1e9

    def _inspect(
        self, data: Any, verdict: Verdict | None, is_error: bool, text: str | None
    ) -> Generator[Run, Any, None]:
        """Show the outcome to the hooks that only observe, and to listeners."""
        hooks, op, rt = self.hooks, self.op, self.rt
        yield from results.inspect_point(hooks.at("post_tool_call"), op.context, data, rt.watch)
        if hooks.has_events:
            yield from rt.tell(
                hooks,
                "post_tool_call",
                op.context,
                tool_name=self.call.name,
                tool_call_id=self.call.id,
                output=getattr(data, "result", data),
                is_error=is_error,
                error=text,
                failure=self.status,
                duration=self._seconds,
                decision=verdict.decision if verdict is not None else ALLOW,
                rule_id=verdict.rule_id or None if verdict is not None else None,
                reason=verdict.reason or None if verdict is not None else None,
            )

    def _came(self, raw: Any) -> Parts | None:
        """Return what is remembered of the outcome as the model reads it; None if it is unknown."""
        if self.status == "denied":
            return frozenset()  # it says what a rule says
        if self.status == "paused" or not self.rt.traces(around(self.context)[1]):
            return None
        from otelhooks.policy.values.origins import outcome  # which few programs need

        if type(raw) is Raised:
            return None if escapes(raw.error) else outcome(None, raw.error)
        return outcome(self.seat.result(self.call, raw), self.error)

    # -- telling ------------------------------------------------------------------------------

    def _record_end(self, raw: Any) -> Generator[Run, Any, None]:
        failure = self.status if self.status not in _SUCCESSES else None
        may_wait = type(raw) is not Raised or not escapes(raw.error)
        yield from record_end(self.rt, self.op, failure, self._seconds, may_wait=may_wait)

    @fails_open
    def _show(self, raw: Any) -> None:
        """Record the result that is passed on, if content is captured."""
        span, content = self.op.span, self.rt.content
        if content.on_span and span is not None and type(raw) is not Raised:
            value = content.span_value(self.seat.result(self.call, raw))
            span.set_attribute(semconv.GEN_AI_TOOL_CALL_RESULT, value)

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


_SUCCESSES = frozenset(("ok", "denied", "paused", "withheld"))


def _is_cancel(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError) or type(error).__name__ == "Cancelled"
