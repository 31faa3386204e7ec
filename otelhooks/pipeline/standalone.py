"""Telemetry of a `HookRunner` used alone: the same spans, events and counts as a framework's run.

The span of an operation runs from its pre dispatch to its post or error dispatch, or ends at once
with a deny. What the spans need is the active runtime, or, where nothing is instrumented but the
application has set a tracer provider, a runtime over that one. Telemetry: fails open.
"""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from otelhooks import types
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import drive
from otelhooks.hooks.registry import EMPTY
from otelhooks.hooks.verdict import ALLOW, Verdict
from otelhooks.hooks.watch import Watch
from otelhooks.pipeline import runtime
from otelhooks.pipeline.call_span import settle
from otelhooks.pipeline.execution import Execution
from otelhooks.pipeline.frames import Op
from otelhooks.pipeline.model_call import PROVIDER_OTHER
from otelhooks.pipeline.runtime import Loaded, Runtime
from otelhooks.pipeline.runtime_watch import RuntimeWatch
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.telemetry import semconv
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import error_type, fail, now_ns, put_notes
from otelhooks.telemetry.verdicts import error_type_of
from otelhooks.version import __version__

_EVENTS = {
    "session_start": semconv.EVENT_SESSION_START,
    "session_end": semconv.EVENT_SESSION_END,
    "on_interaction": semconv.EVENT_INTERACTION,
    "on_compaction": semconv.EVENT_COMPACTION,
    "stop": semconv.EVENT_STOP,
    "subagent_start": semconv.EVENT_SUBAGENT_START,
    "subagent_stop": semconv.EVENT_SUBAGENT_STOP,
}


class _RunnerSeat(ToolSeat):
    framework = "otelhooks"


class _Running:
    """An operation between two dispatches: a tool's execution, or another point's span."""

    __slots__ = ("execution", "op")

    def __init__(self, op: Op, execution: Execution | None) -> None:
        self.op = op
        self.execution = execution


class RunnerObserver:
    """Makes spans, events and counts of what runners dispatch."""

    def __init__(self) -> None:
        self._running: WeakKeyDictionary[HookContext, _Running] = WeakKeyDictionary()
        self._quiet = Watch()

    def watch(self) -> Watch:
        """Return the watch of the runtime, a quiet one without any."""
        rt = _runtime_now()
        return rt.watch if rt is not None else self._quiet

    @fails_open
    def opened(self, context: HookContext, data: Any, verdict: Verdict) -> None:
        """Open the span of an operation; close it at once if it was denied."""
        rt = _runtime_now()
        if rt is None:
            return
        call = Call.of(data) if verdict.point == "pre_tool_call" else None
        agent = data.agent if isinstance(data, types.AgentCall) else ""
        agent = agent or context.get("agent_name", "")
        op = Op(rt.outside, None, None, call, agent, context.get("branch", "") or agent)
        op.verdict = verdict
        token = otel_context.attach(self._parent(context))
        try:
            execution = None
            if call is not None:
                call.op = op
                current = otel_context.get_current()
                execution = Execution(rt, _RunnerSeat(), op, call, EMPTY, verdict, current)
                execution.open()
            else:
                self._open(rt, op, verdict, data)
        finally:
            otel_context.detach(token)
        self._show(context, op.span)
        if verdict.point == "pre_turn":
            self._event(rt, op, semconv.EVENT_USER_MESSAGE, verdict.point)
        drive(settle(rt, op, verdict))
        running = _Running(op, execution)
        if verdict.allowed:
            self._running[context] = running
        else:
            if execution is not None:
                execution.status = "denied"
            self._end(running)

    def _parent(self, context: HookContext) -> otel_context.Context:
        """Return a context in which the span of the layer outside is current."""
        return self._within(context.parent)

    def _within(self, context: HookContext | None) -> otel_context.Context:
        while context is not None:
            running = self._running.get(context)
            if running is not None and running.op.span is not None:
                return trace.set_span_in_context(running.op.span)
            context = context.parent
        return otel_context.get_current()

    def _open(self, rt: Runtime, op: Op, verdict: Verdict, data: Any) -> None:
        kind = SpanKind.INTERNAL
        if verdict.point == "pre_model_call":
            operation, name, kind = semconv.OP_CHAT, getattr(data, "model", ""), SpanKind.CLIENT
            attributes = {semconv.GEN_AI_REQUEST_MODEL: name} if name else {}
            attributes[semconv.GEN_AI_PROVIDER_NAME] = (
                getattr(data, "provider", "") or PROVIDER_OTHER
            )
        else:
            operation, name = semconv.OP_INVOKE_AGENT, op.agent
            attributes = {semconv.GEN_AI_AGENT_NAME: name} if name else {}
        attributes[semconv.GEN_AI_OPERATION_NAME] = operation
        attributes.update(rt.verdicts.attributes(verdict))
        op.span = rt.spans.start(f"{operation} {name}".rstrip(), attributes, None, kind=kind)
        failure = error_type_of(verdict)
        if failure is not None and rt.denied_status == "error":
            fail(op.span, failure, verdict.reason)

    def _show(self, context: HookContext, span: trace.Span | None) -> None:
        """Let hooks of the operation write on its span from now on."""
        if span is None:
            return
        notes, context.span = context.span, span
        put_notes(span, notes)
        context.know_trace(trace.format_trace_id(span.get_span_context().trace_id))

    @fails_open
    def closed(self, context: HookContext, data: Any, verdict: Verdict | None) -> None:
        """End the span of an operation that came to its end."""
        running = self._running.pop(context, None)
        if running is None:
            return
        failure = getattr(data, "error", None)
        if failure is not None and running.op.span is not None:
            _fail(running.op.span, semconv.ERROR_TOOL_ERROR, str(failure))
            if running.execution is not None:
                running.execution.status = semconv.ERROR_TOOL_ERROR
        if verdict is not None and running.execution is not None:
            running.execution.ended_ns = now_ns()
            drive(running.execution.post_verdict(verdict))
        elif verdict is not None:
            self._post_verdict(running.op, verdict)
        self._end(running)

    def _post_verdict(self, op: Op, verdict: Verdict) -> None:
        rt = _runtime_now()
        if rt is None:
            return
        if op.span is not None and (op.verdict is None or verdict.is_stricter_than(op.verdict)):
            op.span.set_attributes(rt.verdicts.attributes(verdict))
        if verdict.decision != ALLOW:
            name = semconv.EVENT_WITHHELD if verdict.withheld else semconv.EVENT_REWRITTEN
            self._event(rt, op, name, verdict.point)
        drive(settle(rt, op, verdict))

    def _event(self, rt: Runtime, op: Op, name: str, point: str) -> None:
        context = trace.set_span_in_context(op.span) if op.span is not None else None
        rt.events.emit(name, 9, {**rt.about(op), semconv.HOOK_POINT: point}, context=context)

    @fails_open
    def failed(
        self, context: HookContext, error: BaseException, recovered: bool, data: Any
    ) -> None:
        """End the span of an operation that raised."""
        running = self._running.pop(context, None)
        if running is None:
            return
        kind, span = error_type(error), running.op.span
        if running.execution is not None:
            running.execution.status = kind
        if span is not None and recovered:
            span.set_attribute(semconv.RECOVERED, True)
            span.set_attribute(semconv.ERROR_TYPE, kind)
            rt, is_tool = _runtime_now(), running.execution is not None
            if rt is not None:
                point = "on_tool_error" if is_tool else "on_model_error"
                self._event(rt, running.op, semconv.EVENT_RECOVERED, point)
        elif span is not None:
            _fail(span, kind, error)
        self._end(running)

    def _end(self, running: _Running) -> None:
        if running.execution is not None:
            if running.op.verdict is not None and running.op.verdict.allowed:
                running.execution.ended_ns = running.execution.ended_ns or now_ns()
            running.execution.close()
        elif running.op.span is not None:
            running.op.span.end()

    @fails_open
    def happened(self, point: str, context: HookContext) -> None:
        """Emit the event of a point that has no operation of its own."""
        rt = _runtime_now()
        name = _EVENTS.get(point)
        if rt is not None and name is not None:
            rt.events.emit(name, 9, {semconv.HOOK_POINT: point}, context=self._within(context))


def _fail(span: trace.Span, kind: str, error: BaseException | str) -> None:
    rt = _runtime_now()
    fail(span, kind, kind if rt is None else rt.content.span_error(error, kind))


_own: tuple[Any, Runtime] | None = None


def _runtime_now() -> Runtime | None:
    """Return the active runtime, or one over the application's providers, if it has set any."""
    global _own
    rt = runtime.active()
    if rt is not None:
        return rt
    from otelhooks.telemetry.providers import global_provider

    provider = global_provider("traces")
    if provider is None:
        return None
    if _own is None or _own[0] is not provider:
        _own = provider, _over(provider)
    return _own[1]


def _over(tracer_provider: Any) -> Runtime:
    from otelhooks.config import load
    from otelhooks.telemetry.content import Content, Redactor
    from otelhooks.telemetry.events import EventLog
    from otelhooks.telemetry.metrics import Instruments
    from otelhooks.telemetry.providers import resolve
    from otelhooks.telemetry.spans import Spans
    from otelhooks.telemetry.verdicts import Verdicts

    config = load(tracer_provider=tracer_provider)
    providers = resolve(config)
    instruments = Instruments(providers.meter_provider, __version__)
    events = EventLog(providers.logger_provider, __version__)
    content = Content(config.capture_content, Redactor.of(config.redact))
    return Runtime(
        Loaded(EMPTY),
        spans=Spans(tracer_provider, __version__),
        instruments=instruments,
        events=events,
        verdicts=Verdicts(instruments, events, content, record_allows=config.record_allows),
        content=content,
        watch=RuntimeWatch,
    )


def _after_fork() -> None:
    global _own
    _own = None  # its queues and threads are the parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
