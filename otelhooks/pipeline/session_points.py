"""What happens at the start and the end of a conversation."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry import context as otel_context
from opentelemetry import trace

from otelhooks.hooks import background, results
from otelhooks.hooks.drive import Run, drive
from otelhooks.records import semconv
from otelhooks.telemetry.spans import put_on

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from otelhooks.hooks.context import HookContext
    from otelhooks.hooks.registry import HookSet
    from otelhooks.hooks.verdict import Judge
    from otelhooks.hooks.watch import Watch
    from otelhooks.pipeline.sessions import Scope, Session
    from otelhooks.telemetry.events import EventLog

__all__ = ["begin", "emit", "end", "finish"]


class _Runtime(Protocol):
    """What is needed of the runtime, which imports this."""

    events: EventLog
    user_attribute: str
    watch: Watch

    def is_suppressed(self) -> bool: ...

    def in_force(self, scope: Scope | None, branch: str) -> tuple[HookSet, tuple[Judge, ...]]: ...

    def tell(
        self, hooks: HookSet, point: str, context: HookContext, **fields: Any
    ) -> Generator[Run, Any, None]: ...


def begin(rt: _Runtime, session: Session, scope: Scope | None) -> Generator[Run, Any, bool]:
    """Run session_start, unless it has run.

    Args:
        rt: The runtime that it runs under.
        session: The conversation.
        scope: Hooks and rules that apply besides the loaded ones; also at its end.

    Returns:
        Whether it ran.
    """
    with session.lock:
        first = not session.started_in
        session.started_in = session.started_in or os.getpid()
    if first:
        session.scope = scope
        hooks, _ = rt.in_force(scope, "")
        found = hooks.at("session_start")
        yield from results.inspect_point(found, session.context, None, rt.watch)
        if hooks.has_events:
            yield from rt.tell(hooks, "session_start", session.context)
    return first


def finish(rt: _Runtime, session: Session) -> Generator[Run, Any, None]:
    """Run session_end, if session_start has run in this process. Telemetry: fails open."""
    with session.lock:
        started_in, session.started_in = session.started_in, 0
    if started_in != os.getpid():
        return
    hooks, _ = rt.in_force(session.scope, "")
    context = None
    if session.last_turn is not None:
        span = trace.NonRecordingSpan(session.last_turn)
        context = trace.set_span_in_context(span, otel_context.Context())
    spent = session.spent.attributes()
    put_on(session.span, spent)
    emit(rt, session, semconv.EVENT_SESSION_END, "session_end", context, spent)
    found = hooks.at("session_end")
    yield from results.inspect_point(found, session.context, None, rt.watch)
    if hooks.has_events:
        yield from rt.tell(hooks, "session_end", session.context)
    if hooks.has_background:
        yield Run(background.flush, blocking=True)


def end(rt: _Runtime, session: Session) -> None:
    """Like `finish`, from a plain function."""
    drive(finish(rt, session))


def emit(
    rt: _Runtime,
    session: Session,
    name: str,
    point: str,
    context: Context | None,
    further: Mapping[str, Any] | None = None,
) -> None:
    """Emit the event of a conversation's start or end.

    Args:
        rt: The runtime.
        session: The conversation.
        name: Name of the event.
        point: Hook point.
        context: Trace that it belongs to; None for the current one.
        further: More attributes.
    """
    if rt.events.is_enabled and not rt.is_suppressed():
        of_session = session.wire_attributes(rt.user_attribute)
        attributes = {**of_session, semconv.HOOK_POINT: point, **(further or {})}
        rt.events.emit(name, 9, attributes, context=context)
