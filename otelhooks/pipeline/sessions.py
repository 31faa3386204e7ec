"""Conversations: what this process remembers of each, and what happens at its start and end."""

from __future__ import annotations

import collections
import itertools
import os
import threading
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry import trace

from otelhooks.hooks import background, results
from otelhooks.hooks.context import SessionContext
from otelhooks.hooks.drive import Run, drive
from otelhooks.pipeline.spending import Spent
from otelhooks.telemetry import semconv
from otelhooks.telemetry.spans import put_on

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span

    from otelhooks.pipeline.frames import Scope
    from otelhooks.pipeline.runtime import Runtime

__all__ = ["MAX_SESSIONS", "Session", "Sessions", "begin", "emit", "end", "finish"]

MAX_SESSIONS = 10_000
"""Most conversations that are remembered."""


_numbers = itertools.count(1)


class Session:
    """One conversation.

    Attributes:
        id: As the framework or user gave it; empty for a run without a conversation.
        key: Tells it from every other one: the id, or a number if it has none.
        context: State of its hooks.
        turns: How many turns have started.
        user: Pseudonym of the user.
        last_turn: Span context of the turn before, which the next one links to.
        span: One span over all its turns, with ``trace="single"``.
        started_in: Process in which session_start ran, the only one to run session_end; 0 before.
        scope: Hooks and rules that apply to it besides the loaded ones.
        entered: How many blocks run it now.
        spent: Cost of its model calls.
    """

    __slots__ = (
        "__weakref__",
        "attributes",
        "context",
        "entered",
        "id",
        "key",
        "last_turn",
        "lock",
        "scope",
        "span",
        "spent",
        "started_in",
        "tool_state",
        "turns",
        "user",
    )

    def __init__(self, id: str = "", user: str = "") -> None:
        self.id: str = id
        self.key: str | int = id or next(_numbers)
        self.user: str = user
        self.context: SessionContext = SessionContext()
        self.context.know(session_id=id)
        self.turns: int = 0
        self.last_turn: trace.SpanContext | None = None
        self.span: Span | None = None
        self.started_in: int = 0
        self.scope: Scope | None = None
        self.entered: int = 0
        self.spent: Spent = Spent()
        self.lock: threading.Lock = threading.Lock()
        self.tool_state: Any = None
        self.attributes: dict[str, str] | None = None

    def wire_attributes(self, user: str) -> dict[str, str]:
        """Return the attributes of a conversation, for spans and events below it.

        Args:
            user: Name of the attribute that holds its user, the same in each call.
        """
        if self.attributes is None:
            attributes: dict[str, str] = {}
            if self.id:
                attributes[semconv.GEN_AI_CONVERSATION_ID] = self.id
            if self.user:
                attributes[user] = self.user
            self.attributes = attributes
        return self.attributes

    def next_turn(self) -> tuple[int, list[Link]]:
        """Count a turn; return its number, from 1, and the link to the one before."""
        with self.lock:
            self.turns += 1
            links = [trace.Link(self.last_turn)] if self.last_turn is not None else []
            return self.turns, links


class Sessions:
    """The conversations that this process remembers, least recently used first.

    Args:
        on_evicted: Called with each one that is evicted.
        on_new: Called with each new one.
    """

    def __init__(
        self, on_evicted: Callable[[Session], None], on_new: Callable[[Session], None]
    ) -> None:
        self._by_id: collections.OrderedDict[str, Session] = collections.OrderedDict()
        self._lock = threading.Lock()
        self._on_evicted = on_evicted
        self._on_new = on_new

    def get(self, id: str) -> Session:
        """Return the conversation with that id, a new one if it is not known."""
        evicted = None
        with self._lock:
            session = self._by_id.get(id)
            if session is None:
                session = Session(id)
                self._on_new(session)
                self._by_id[id] = session
                if len(self._by_id) > MAX_SESSIONS:
                    _, evicted = self._by_id.popitem(last=False)
            else:
                self._by_id.move_to_end(id)
        if evicted is not None:
            self._on_evicted(evicted)
        return session

    def end(self, id: str) -> Session | None:
        """Forget a conversation; return it if it was known."""
        with self._lock:
            return self._by_id.pop(id, None)

    def after_fork(self) -> None:
        """Replace the lock, which another thread of the parent may have held."""
        self._lock = threading.Lock()

    def all(self) -> list[Session]:
        """Return all conversations."""
        with self._lock:
            return list(self._by_id.values())


def begin(rt: Runtime, session: Session, scope: Scope | None) -> Generator[Run, Any, bool]:
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


def finish(rt: Runtime, session: Session) -> Generator[Run, Any, None]:
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


def end(rt: Runtime, session: Session) -> None:
    """Like `finish`, from a plain function."""
    drive(finish(rt, session))


def emit(
    rt: Runtime,
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
