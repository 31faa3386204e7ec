"""What plays an example: agents with a script, and the host that makes real ones of them.

A host takes an `Actor` and makes the framework's own agent of it: with the framework's own tools
around `Actor.tools`, and with a model that says what ``Actor.script.next(shown)`` returns, as the
worlds of `tests/frameworks/contract.py` do. The scenarios of `tests/frameworks/scenarios.py` use
its further methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from opentelemetry.sdk.trace import TracerProvider

from tests.frameworks.contract import Ask, World

__all__ = ["LAYERS", "Actor", "Ask", "Converse", "Difference", "Host", "Run", "Turn", "World"]

Run = Callable[[str], Awaitable[Any]]


class Turn(NamedTuple):
    """A run that has ended.

    Attributes:
        answer: Of the agent.
        history: What the next run goes on from, in the framework's form.
    """

    answer: Any
    history: Any


Converse = Callable[[str | None, Any], Awaitable[Turn]]
"""Runs an agent on a message and a history: one of a `Turn`, a list of texts that user and agent
said in turn, or None. Without a message the last text is the message.
"""

LAYERS = ("session", "turn", "model", "tool")
"""Where a span, or a line of what hooks noted, belongs."""


@dataclass(frozen=True)
class Actor:
    """One agent.

    Args:
        name: Of the agent, as all traces show it, and of the tool that starts it if it is a
            delegate.
        script: What its model says.
        tools: Bodies of its tools, named as rules name them.
        delegates: Agents that it starts, each through a tool of that name with one text, `task`.
        server: Name of the MCP server that its tools come from; empty: they are its own.
        ending: A function that the model calls like a tool, and that makes the run's answer.
    """

    name: str
    script: World
    tools: tuple[Callable[..., Any], ...]
    delegates: tuple[Actor, ...] = ()
    server: str = ""
    ending: Callable[..., Any] | None = None


class Difference(NamedTuple):
    """What is otherwise in a host, and why it cannot be the same.

    Attributes:
        expected: Pattern of what examples show: lines of traces, and of notes as ``layer: text``.
        here: What takes its place, as of `re.sub`.
        why: The reason.
    """

    expected: str
    here: str
    why: str


class Host(ABC):
    """A framework that plays examples.

    Attributes:
        framework: Adapter under test; empty: a loop without a framework.
        also: Further adapters that are on.
        layers: Those of `LAYERS` that the framework has seats for. What an example shows of the
            others is not looked for.
        lacks: Layer, or word in an example's ``needs``, or name of a scenario, to the reason why it
            is not there; what needs it is skipped with that reason.
        differences: All else that is not as in the other hosts.
    """

    framework: ClassVar[str] = ""
    also: ClassVar[Sequence[str]] = ()
    layers: ClassVar[Sequence[str]] = LAYERS
    lacks: ClassVar[Mapping[str, str]] = MappingProxyType({})
    differences: ClassVar[Sequence[Difference]] = ()

    @property
    def adapters(self) -> list[str]:
        """All adapters that are on, as `otelhooks.instrument` takes them."""
        return [self.framework, *self.also] if self.framework else []

    def selector(self, tool: str) -> str:
        """Return how a rule names a tool."""
        return tool

    @abstractmethod
    def open(self, actor: Actor) -> AbstractAsyncContextManager[Run]:
        """Make the agent, and give what runs it on a user's message up to its answer.

        Traces and hooks show ``actor.name`` as the agent's: where agents have no names, give it
        where the adapter looks for one, such as to a component, or to the tool that starts it.
        """

    def converse(self, actor: Actor) -> AbstractAsyncContextManager[Converse]:
        """Make the agent, and give what runs it on a message and a history."""
        raise NotImplementedError

    def own_spans(self, provider: TracerProvider) -> AbstractContextManager[None]:
        """Have the framework make its own spans within a block, with a provider."""
        raise NotImplementedError
