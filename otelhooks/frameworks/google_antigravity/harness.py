"""What is known of each start of a harness: its agent, its conversation, and how to stop it."""
# pyright: basic

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

from otelhooks.frameworks.kit.remote import loops
from otelhooks.frameworks.kit.telemetry import semconv

__all__ = ["AGENT", "Facts", "Harness", "SubRun", "connect", "disconnect", "known", "tokens_of"]

AGENT = "Antigravity"
"""Name of an agent, as in the SDK's own spans; agents have no name in this SDK."""

_HALT_S = 30.0
"""Longest wait for a harness that is being stopped, in seconds."""


class Facts(NamedTuple):
    """What a strategy knows of its agent.

    Args:
        agent: Its name.
        model: Name of its text model.
        python_tools: Names of the tools that this process runs.
        servers: Where each MCP server is that the harness is a client of, by its name.
        static_agents: Built-in tools of each configured sub-agent, by its name.
    """

    agent: str
    model: str
    python_tools: frozenset[str]
    servers: Mapping[str, Any]
    static_agents: Mapping[str, frozenset[str]]


class SubRun(loops.RemoteRun):
    """A sub-agent's run. One call may start several; each works in a trajectory of its own."""


class Harness(loops.Loop):
    """One connection to a harness.

    Attributes:
        facts: Facts about its agent.
        connection: The SDK's connection; None once it is gone.
        refused: Answer of a turn that did not start, until it is read.
        halted: Why we stopped the running turn; empty if we did not.
        unshown: How many calls that run in the harness were allowed and have no step yet, by
            trajectory.
        undone: How many calls were denied and have no step yet, by trajectory.
        is_read: Whether the steps are being read.
    """

    framework, unnamed = "google_antigravity", AGENT
    package = "google-antigravity", "google.antigravity"
    provider, operation = "gcp.gemini", semconv.OP_GENERATE_CONTENT
    agent_run = SubRun
    unseen = "the harness did not report an end"

    def __init__(self, connection: Any, conversation: str, facts: Facts) -> None:
        super().__init__(conversation, facts.agent, facts.model)
        self._connection = weakref.ref(connection)  # because the connection leads to this object
        self.facts = facts
        self.has_history = bool(connection._initial_history)
        self.used = tokens_of(connection.cumulative_usage)
        self.refused: str | None = None
        self.halted = ""
        self.unshown: dict[str, int] = {}
        self.undone: dict[str, int] = {}
        self.is_read = False

    @property
    def connection(self) -> Any:
        return self._connection()

    @property
    def is_cancelled(self) -> bool:
        """Whether the running turn was cancelled, by the application or by us."""
        return bool(getattr(self.connection, "_client_cancelled", False))

    async def begin(self, turn: loops.RemoteRun) -> bool:
        self.halted = ""
        self.unshown.clear()
        self.undone.clear()
        return await super().begin(turn)

    async def stop(self, reason: str) -> None:
        """Stop the turn in the harness; the reader of its steps gets the reason."""
        self.halted = reason
        if self.connection is not None:
            await self.connection.cancel()

    async def close_for(self, reason: str) -> None:
        """Stop the turn for good: the conversation's history contains what was withheld.

        Waits until the harness has stopped, before it is answered.
        """
        self.closed = reason
        await self.stop(reason)
        if self.connection is not None:
            with contextlib.suppress(asyncio.TimeoutError):  # it is closed to the turn all the same
                await asyncio.wait_for(self.connection._processor.is_idle.wait(), _HALT_S)

    def allowed(self, call: Any) -> None:
        super().allowed(call)
        if call.is_remote:
            self.unshown[call.key] = self.unshown.get(call.key, 0) + 1

    def denied(self, id: str | None, key: str) -> None:
        super().denied(id, key)
        self.undone[key] = self.undone.get(key, 0) + 1


known: weakref.WeakKeyDictionary[Any, Facts] = weakref.WeakKeyDictionary()
"""What a strategy knows of its agent, by the hook runner that it passes to the connection."""

_handshake: contextvars.ContextVar[str] = contextvars.ContextVar("otelhooks-handshake", default="")
"""Id of the conversation that the harness has just reported, until the connection exists."""


def note_conversation(wrapped: Any, _: Any, init_resp: Any) -> Any:
    """Listen to ``parse_initialize_response``, which alone knows the conversation's id."""
    _handshake.set(init_resp.cascade_id)
    return wrapped(init_resp)


def connect(wrapped: Any, connection: Any, *args: Any, **kwargs: Any) -> None:
    """Listen to ``LocalConnection.__init__``: a state of its own for each start of a harness."""
    wrapped(*args, **kwargs)
    conversation = _handshake.get()
    _handshake.set("")
    runner = connection._hook_runner
    facts = known.get(runner) if runner is not None else None
    if facts is not None:  # otherwise it was configured before us, and does not ask
        harness = Harness(connection, conversation, facts)
        harness.found_by(connection, runner, connection._tool_runner, connection._processor)


async def disconnect(wrapped: Any, connection: Any) -> None:
    """Listen to ``LocalConnection.disconnect``: for all we can see, the conversation ends."""
    try:
        await wrapped()
    finally:
        harness = Harness.of(connection)
        if harness is not None:
            await harness.close()


def tokens_of(usage: Any) -> dict[str, int]:
    """Return the tokens in the SDK's or the harness's record of a usage."""

    def count(name: str) -> int:
        return getattr(usage, f"{name}_token_count", None) or 0

    thoughts = count("thoughts")
    return {
        "input_tokens": count("prompt"),
        "output_tokens": count("candidates") + thoughts,
        "cache_read_input_tokens": count("cached_content"),
        "reasoning_output_tokens": thoughts,
    }
