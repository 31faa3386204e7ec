"""What is known of each connection to a harness: its conversation, turn, calls and sub-agents.

Hooks and Python tools of this SDK run in tasks that the reader of the WebSocket starts, in the
context that was current when the agent connected. So nothing is found by context variables here:
a connection's state holds the contexts, and whoever runs one of its tasks attaches the right one.
"""
# pyright: basic

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from opentelemetry.context import Context, attach, detach

from otelhooks.pipeline.drivers import Split
from otelhooks.pipeline.frames import current_scope, with_scope

__all__ = [
    "AGENT",
    "FRAMEWORK",
    "Connected",
    "Pending",
    "SubRun",
    "Wire",
    "current_wire",
    "handshake",
    "inside",
    "known",
    "register",
    "state_of",
    "wire",
]

FRAMEWORK = "google_antigravity"
AGENT = "Antigravity"
"""Name of an agent, which has none in this SDK: the one that the SDK's own spans give it."""

_HALT_S = 30.0
"""Longest wait for a harness that was told to stop, in seconds."""


class Pending:
    """A call that was allowed, and whose end has not been seen.

    Attributes:
        split: Its operation.
        call: The call.
        trajectory: Of the agent that makes it.
        is_python: Whether the harness will ask this process to run it.
    """

    __slots__ = ("call", "is_python", "split", "trajectory")

    def __init__(self, split: Split, call: Any, trajectory: str, is_python: bool) -> None:
        self.split = split
        self.call = call
        self.trajectory = trajectory
        self.is_python = is_python


class SubRun:
    """A sub-agent at work, or about to be.

    Attributes:
        split: Its run.
        context: That its calls are made in.
        parent: Trajectory of the agent that started it.
        task: What it was told to do; how its trajectory is known from others.
        trajectory: Its own, empty until the harness has shown it.
        text: What it said last.
        refusal: Why nothing of it may run; empty where it may.
    """

    __slots__ = ("context", "parent", "refusal", "split", "task", "text", "trajectory")

    def __init__(self, split: Split, context: Context, parent: str, task: str) -> None:
        self.split = split
        self.context = context
        self.parent = parent
        self.task = task
        self.trajectory = ""
        self.text = ""
        self.refusal = ""


class Connected:
    """One connection to a harness.

    Attributes:
        connection: Weakly held, as states are found by it.
        outside: Context outside any turn, with the scopes in force when it connected.
        conversation: Id of the conversation, empty if the harness gave none.
        agent: Name of the agent.
        model: Name of its text model.
        has_history: Whether the conversation goes on from before this connection.
        python_tools: Names of the tools that this process runs.
        has_mcp: Whether the harness is a client of any MCP server.
        static_agents: Built-in tools of each sub-agent that was configured, by its name.
        turn: The open turn.
        refused: What a turn that did not start is answered with, until somebody reads it.
        halted: Why the running turn was stopped by us; empty where it was not.
        closed: Why no further turn may start; empty where one may.
        calls: Calls that were allowed and have not ended, by their ids.
        judged: Ids of calls that were judged in this turn.
        allowed: How many calls that run in the harness were allowed and show no step yet, by
            trajectory.
        denied: How many calls were denied and show no step yet, by trajectory.
        starting: Sub-agents whose trajectory is not known yet.
        agents: Sub-agents by trajectory.
        used: Tokens that the harness has told of so far, those of turns before included.
        is_read: Whether somebody reads the steps.
        is_answering: Whether the last step was an answer to the user.
    """

    def __init__(self, connection: Any, conversation: str, facts: Mapping[str, Any]) -> None:
        self._connection = weakref.ref(connection)
        self.outside = without_frame()
        self.conversation = conversation
        self.agent: str = facts.get("agent") or AGENT
        self.model: str = facts.get("model", "")
        self.has_history = False
        self.python_tools: frozenset[str] = facts.get("python_tools", frozenset())
        self.has_mcp: bool = facts.get("has_mcp", True)
        self.static_agents: Mapping[str, frozenset[str]] = facts.get("static_agents", {})
        self.turn: Any = None
        self.refused: str | None = None
        self.halted = ""
        self.closed = ""
        self.calls: dict[str, Pending] = {}
        self.judged: set[str] = set()
        self.allowed: dict[str, int] = {}
        self.denied: dict[str, int] = {}
        self.starting: list[SubRun] = []
        self.agents: dict[str, SubRun] = {}
        self.used: dict[str, int] = {}
        self.is_read = False
        self.is_answering = False

    @property
    def connection(self) -> Any:
        """The SDK's connection; None once it is gone."""
        return self._connection()

    @property
    def is_cancelled(self) -> bool:
        """Whether the running turn was cancelled, by the application or by us."""
        return bool(getattr(self.connection, "_client_cancelled", False))

    def begin(self, turn: Any) -> None:
        """Open a turn."""
        self.turn = turn
        self.halted = ""
        self.judged.clear()
        self.allowed.clear()
        self.denied.clear()

    async def halt(self, reason: str, *, close: bool = False, wait: bool = False) -> None:
        """Stop the turn in the harness; whoever reads its steps is told why.

        Args:
            reason: For the reader.
            close: Whether the conversation may never go on: its history holds what was taken back.
            wait: Whether to wait until the harness has stopped, before it is answered.
        """
        self.halted = reason
        if close:
            self.closed = reason
        connection = self.connection
        if connection is None:
            return
        await connection.cancel()
        if wait:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(connection._processor.is_idle.wait(), _HALT_S)

    def note_allowed(self, pending: Pending) -> None:
        """Remember a call that may run."""
        self.judged.add(pending.call.id)
        self.calls[pending.call.id] = pending
        if not pending.is_python:
            self.allowed[pending.trajectory] = self.allowed.get(pending.trajectory, 0) + 1

    def note_denied(self, id: str | None, trajectory: str) -> None:
        """Remember a call that may not run."""
        if id is not None:
            self.judged.add(id)
        self.denied[trajectory] = self.denied.get(trajectory, 0) + 1

    def agent_of(self, trajectory: str) -> SubRun | None:
        """Return the sub-agent of a trajectory, taken from those that start if it is new."""
        if trajectory in self.agents or trajectory in ("", self.conversation):
            return self.agents.get(trajectory)
        return self.bind(trajectory, "", "")

    def bind(self, trajectory: str, parent: str, shown: str) -> SubRun | None:
        """Give a new trajectory to the sub-agent that it is, as far as that can be told.

        Args:
            trajectory: Of a sub-agent.
            parent: Of the agent that started it, if that is known.
            shown: What it was told, if that is known.
        """
        found = [run for run in self.starting if not parent or run.parent == parent]
        told = [run for run in found if run.task and run.task in shown]
        if not found or (not told and len(found) > 1 and not shown and parent):
            return None  # its first step tells
        run = (told or found)[0]
        self.starting.remove(run)
        run.trajectory = trajectory
        self.agents[trajectory] = run
        return run

    def context_of(self, trajectory: str) -> Context:
        """Return the context that an agent's calls are made in."""
        run = self.agent_of(trajectory)
        if run is not None:
            return run.context
        return self.turn.split.context if self.turn is not None else self.outside


_states: weakref.WeakKeyDictionary[Any, Connected] = weakref.WeakKeyDictionary()
known: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""What a strategy told of its agent, by the hook runner that it hands to the connection."""

handshake: contextvars.ContextVar[str] = contextvars.ContextVar("otelhooks-handshake", default="")
"""Id of the conversation that the harness has just told, until the connection is made."""


def state_of(thing: Any) -> Connected | None:
    """Return the state that a connection, runner or processor belongs to."""
    return _states.get(thing)


def register(state: Connected, *things: Any) -> None:
    """Have a state found by these objects."""
    for thing in things:
        if thing is not None:
            _states[thing] = state


class Wire:
    """A request of the harness to run a Python tool.

    Attributes:
        state: Of the connection that it came by.
        id: Id of the call, empty once it is taken.
        trajectory: Of the agent that makes it.
    """

    __slots__ = ("id", "state", "trajectory")

    def __init__(self, state: Connected, id: str, trajectory: str) -> None:
        self.state = state
        self.id = id
        self.trajectory = trajectory

    def take(self) -> str:
        """Return the id, once: what a tool's body calls is another call."""
        id, self.id = self.id, ""
        return id


wire: contextvars.ContextVar[Wire | None] = contextvars.ContextVar("otelhooks-wire", default=None)


def current_wire() -> Wire | None:
    """Return the request that this code runs for, unless its call is running already."""
    found = wire.get()
    return found if found is not None and found.id else None


def without_frame() -> Context:
    """Return a context in which no turn or call is current, only the scopes that now are."""
    scope = current_scope()
    with inside(Context()):
        return with_scope(scope)


@contextlib.contextmanager
def inside(context: Context | None) -> Iterator[None]:
    """Run a block in a context of ours; None leaves the one that is current."""
    if context is None:
        yield
        return
    token = attach(context)
    try:
        yield
    finally:
        detach(token)
