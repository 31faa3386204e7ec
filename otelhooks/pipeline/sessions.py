"""Conversations that this process remembers, and what blocks of code add to them."""

from __future__ import annotations

import collections
import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from otelhooks.hooks.context import SessionContext
from otelhooks.records import semconv

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span

    from otelhooks.hooks.registry import HookSet
    from otelhooks.hooks.verdict import Judge
    from otelhooks.records.users import User

__all__ = ["MAX_SESSIONS", "Scope", "Session", "Sessions", "Spent"]

MAX_SESSIONS = 10_000
"""Most conversations that are remembered."""


_numbers = itertools.count(1)


class Spent:
    """The cost of the model calls so far.

    Attributes:
        usd: US dollars of the calls whose cost is known.
        known: Number of these calls.
        unknown: Number of the others.
    """

    __slots__ = ("_lock", "known", "unknown", "usd")

    def __init__(self) -> None:
        self.usd: float = 0.0
        self.known: int = 0
        self.unknown: int = 0
        self._lock = threading.Lock()

    def add(self, cost: float | None) -> None:
        """Add a call; None if its cost is not known."""
        with self._lock:
            if cost is None:
                self.unknown += 1
            else:
                self.known += 1
                self.usd += cost

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of a span or event; none before the first call."""
        attributes: dict[str, Any] = {}
        if self.known:
            attributes[semconv.COST_USD] = self.usd
        if self.unknown:
            attributes[semconv.COST_UNKNOWN] = self.unknown
        return attributes


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


class Scope:
    """Hooks and rules that a block adds; scopes nest, and an inner one never lifts an outer one.

    Attributes:
        outer: Scope around the block.
        hooks: Hooks of this block.
        judges: Sets of rules of this block; each must allow.
        session: Conversation that the block runs, if it opened one.
        agent: Agent that hooks and rules apply to, with its sub-agents; empty for all.
        origin: The scope that this one replaces since an outer block was left first; otherwise
            itself.
        widens: Whether it, or an outer one, has any hook or rule.
        user: User of the block, by id or whole; None if no block around names one.
    """

    __slots__ = ("agent", "hooks", "judges", "origin", "outer", "session", "user", "widens")

    def __init__(
        self,
        outer: Scope | None,
        hooks: HookSet,
        judges: tuple[Judge, ...],
        session: Session | None = None,
        agent: str = "",
        user: str | User | None = None,
    ) -> None:
        self.outer: Scope | None = outer
        self.hooks: HookSet = hooks
        self.judges: tuple[Judge, ...] = judges
        self.session: Session | None = session or (outer.session if outer is not None else None)
        self.agent: str = agent
        self.user: str | User | None = user or (outer.user if outer is not None else None)
        self.origin: Scope = self
        self.widens: bool = bool(hooks or judges) or (outer is not None and outer.widens)

    def contains(self, scope: Scope) -> bool:
        """Return whether a scope is this one or contains it."""
        if self.origin is scope.origin:
            return True
        return self.outer is not None and self.outer.contains(scope)

    def without(self, scope: Scope) -> Scope | None:
        """Return the scopes that stay in force once a block is over; None if none do."""
        outer = self.outer
        if self.origin is scope.origin:
            return outer
        if outer is None or not outer.contains(scope):
            return self
        own = self.session if self.session is not outer.session else None
        user = self.user if self.user is not outer.user else None
        kept = Scope(outer.without(scope), self.hooks, self.judges, own, self.agent, user)
        kept.origin = self.origin
        return kept

    def add_to(
        self, hooks: HookSet, judges: tuple[Judge, ...], branch: str
    ) -> tuple[HookSet, tuple[Judge, ...]]:
        """Return what is in force on a branch of agents, the outermost first."""
        if self.outer is not None:
            hooks, judges = self.outer.add_to(hooks, judges, branch)
        if self.agent and self.agent not in branch.split("/"):
            return hooks, judges
        return hooks + self.hooks, judges + self.judges


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
