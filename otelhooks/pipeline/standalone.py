"""Telemetry of a `HookRunner` used alone: the same spans, events and counts as a framework's run.

The span of an operation runs from its pre dispatch to its post or error dispatch, or ends at once
with a deny. Spans go through the active runtime or, if nothing is instrumented but the application
has set a tracer provider, through a runtime over that provider. Telemetry: fails open, except that
what a required audit trail cannot record is refused.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from otelhooks import types
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Run, drive
from otelhooks.hooks.registry import EMPTY
from otelhooks.hooks.verdict import Verdict
from otelhooks.hooks.watch import Watch
from otelhooks.pipeline import runtime
from otelhooks.pipeline.call_span import Traced, record
from otelhooks.pipeline.execution import Execution
from otelhooks.pipeline.frames import Op
from otelhooks.pipeline.model_call import PROVIDER_OTHER
from otelhooks.pipeline.runtime import Loaded, Runtime
from otelhooks.pipeline.runtime_watch import RuntimeWatch
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.process import forks
from otelhooks.records import semconv
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import error_type, now_ns, put_notes
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


class _Agent(Traced):
    """A turn or an agent, between its pre and its post dispatch."""

    __slots__ = ()
    POINT_AFTER = "post_agent"

    def __init__(
        self, rt: Runtime, op: Op, verdict: Verdict, context: otel_context.Context
    ) -> None:
        self.rt, self.op, self.hooks = rt, op, EMPTY
        self.verdict, self.context = verdict, context
        self.started_ns = self.ended_ns = 0
        self.status = "ok"
        self.exemplar = None

    def open(self, data: Any) -> None:
        """Open the span."""
        self._start({}, semconv.OP_INVOKE_AGENT, semconv.GEN_AI_AGENT_NAME, self.op.agent)

    def _start(
        self,
        attributes: dict[str, Any],
        operation: str,
        key: str,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        attributes[semconv.GEN_AI_OPERATION_NAME] = operation
        if name:
            attributes[key] = name
        self.complete(attributes)
        self.started_ns = now_ns()
        full = f"{operation} {name}".rstrip()
        self.start_span("own", full, attributes, (operation, key, name), kind)

    def close(self) -> None:
        """End the span."""
        self.end_span(self.op.agent)


class _Model(_Agent):
    """A model call."""

    __slots__ = ()
    POINT_AFTER = "post_model_call"

    def open(self, data: Any) -> None:
        """Open the span."""
        provider = {semconv.GEN_AI_PROVIDER_NAME: getattr(data, "provider", "") or PROVIDER_OTHER}
        name, key = getattr(data, "model", ""), semconv.GEN_AI_REQUEST_MODEL
        self._start(provider, semconv.OP_CHAT, key, name, SpanKind.CLIENT)


class RunnerObserver:
    """Makes spans, events and counts of what runners dispatch."""

    def __init__(self) -> None:
        self._running: WeakKeyDictionary[HookContext, Execution | _Agent] = WeakKeyDictionary()
        self._quiet = Watch()

    def watch(self) -> Watch:
        """Return the watch of the runtime, or one that reports nothing if there is none."""
        rt = _runtime_now()
        return rt.watch if rt is not None else self._quiet

    def opened(
        self, context: HookContext, data: Any, verdict: Verdict
    ) -> Generator[Run, Any, str | None]:
        """Open the span of an operation and record the decision; a refused operation ends at once.

        Decision: fails closed if the audit trail is required.

        Returns:
            The message of a refusal, None if the operation may continue.
        """
        rt = _runtime_now()
        if rt is None:
            return None if verdict.allowed else verdict.message
        call = Call.of(data) if verdict.point == "pre_tool_call" else None
        agent = data.agent if isinstance(data, types.AgentCall) else ""
        agent = agent or context.get("agent_name", "")
        op = Op(rt.outside, None, None, call, agent, context.get("branch", "") or agent)
        op.verdict = verdict
        running = self._open(rt, op, context, data)
        refusal = yield from record(rt, op, verdict)
        if running is not None:
            self._opened(context, running, refusal)
        return refusal

    @fails_open
    def _open(
        self, rt: Runtime, op: Op, context: HookContext, data: Any
    ) -> Execution | _Agent | None:
        within, verdict = self._within(context.parent), op.verdict
        assert verdict is not None
        running: Execution | _Agent
        if op.call is not None:
            op.call.op = op
            running = Execution(rt, _RunnerSeat(), op, op.call, EMPTY, verdict, within)
            running.open()
        else:
            kind = _Model if verdict.point == "pre_model_call" else _Agent
            running = kind(rt, op, verdict, within)
            running.open(data)
        self._show(context, op.span)
        if verdict.point == "pre_turn":
            where = None if op.span is None else trace.set_span_in_context(op.span)
            attributes = {**rt.about(op), semconv.HOOK_POINT: verdict.point}
            rt.events.emit(semconv.EVENT_USER_MESSAGE, 9, attributes, context=where)
        return running

    @fails_open
    def _opened(
        self, context: HookContext, running: Execution | _Agent, refusal: str | None
    ) -> None:
        if refusal is None:
            self._running[context] = running
        else:
            running.status = "denied"
            running.close()

    def _within(self, context: HookContext | None) -> otel_context.Context:
        """Return a context in which the span of the nearest layer is current."""
        while context is not None:
            running = self._running.get(context)
            if running is not None and running.op.span is not None:
                return trace.set_span_in_context(running.op.span)
            context = context.parent
        return otel_context.get_current()

    def _show(self, context: HookContext, span: trace.Span | None) -> None:
        """Let hooks of the operation write on its span from now on."""
        if span is None:
            return
        notes, context.span = context.span, span
        put_notes(span, notes)
        context.know_trace(trace.format_trace_id(span.get_span_context().trace_id))

    @fails_open
    def closed(self, context: HookContext, data: Any, verdict: Verdict | None) -> None:
        """End the span of an operation that finished."""
        running = self._running.pop(context, None)
        if running is None:
            return
        running.ended_ns = now_ns()
        failure = getattr(data, "error", None)
        if failure is not None:
            running.mark_error(semconv.ERROR_TOOL_ERROR, str(failure))
        if verdict is not None:
            drive(running.post_verdict(verdict))
        running.close()

    @fails_open
    def failed(
        self, context: HookContext, error: BaseException, recovered: bool, data: Any
    ) -> None:
        """End the span of an operation that raised."""
        running = self._running.pop(context, None)
        if running is None:
            return
        running.ended_ns, kind = now_ns(), error_type(error)
        if recovered:
            running.status = kind
            running.recovered(kind)
        else:
            running.mark_error(kind, error)
        running.close()

    @fails_open
    def happened(self, point: str, context: HookContext) -> None:
        """Emit the event of a point that has no operation of its own."""
        rt = _runtime_now()
        name = _EVENTS.get(point)
        if rt is not None and name is not None:
            rt.events.emit(name, 9, {semconv.HOOK_POINT: point}, context=self._within(context))


_own: tuple[Any, Runtime] | None = None


def _runtime_now() -> Runtime | None:
    """Return the active runtime, or one over the application's providers if it has set any."""
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
    _own = None  # its queues and threads belong to the parent


forks.in_child(_after_fork, forks.Step.RUNTIME)
