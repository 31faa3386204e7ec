"""The host of a model client: a loop written by hand, which knows nothing of otelhooks.

A client's examples give the client behind a scripted model, and its form of messages.
"""

from __future__ import annotations

import contextlib
import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from tests.examples.stage import Actor, Difference, Host, Run
from tests.frameworks.contract import Step

__all__ = ["OWN_ERROR", "ChatHost", "ClientHost", "Said", "Wanted", "defined", "script_of"]

NO_TURNS = "a client answers requests: the loop around it has the turns"


class Wanted(NamedTuple):
    """A call in an answer."""

    id: str
    name: str
    args: dict[str, Any]


class Said(NamedTuple):
    """An answer of the model.

    Attributes:
        message: In the form in which the loop sends it back.
        text: The text.
        calls: What the model asks for.
    """

    message: Any
    text: str
    calls: Sequence[Wanted]


OWN_ERROR = Difference(
    r"\[ConnectionError\]$",
    "[APIConnectionError]",
    "the client raises an exception of its own if a provider cannot be reached",
)


class ClientHost(Host):
    """A loop around a client, with functions as tools."""

    layers = ("session", "model", "tool")
    lacks: ClassVar = {
        "turn": NO_TURNS,
        "stop": NO_TURNS,
        "delegate": "a client knows no agents",
        "server": "a function that a loop calls belongs to no server",
        "failing tool": "the loop runs the tool, and sends its failure as a text like any other",
    }

    differences: ClassVar = (
        Difference(
            r"^execute_tool read_pages\n  (execute_tool read_page)$",
            r"\1\nexecute_tool read_pages",
            "the loop runs the tool: its span begins when the result is sent",
        ),
    )

    @abstractmethod
    def connected(self, actor: Actor) -> contextlib.AbstractAsyncContextManager[Any]:
        """Give the client behind the actor's model."""

    @abstractmethod
    async def ask(self, client: Any, messages: list[Any], tools: Sequence[str]) -> Said:
        """Ask for an answer to messages."""

    @abstractmethod
    def user(self, text: str) -> Any:
        """Return a message of the user."""

    @abstractmethod
    def results(self, given: Sequence[tuple[Wanted, str]]) -> Sequence[Any]:
        """Return the messages that give results back."""

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        tools = {body.__name__: body for body in actor.tools}
        async with self.connected(actor) as client:

            async def run(prompt: str) -> str:
                messages = [self.user(prompt)]
                while (said := await self.ask(client, messages, list(tools))).calls:
                    given = [(call, str(tools[call.name](**call.args))) for call in said.calls]
                    messages += [said.message, *self.results(given)]
                return said.text

            yield run


def script_of(actor: Actor) -> Callable[[str], Step]:
    """Return the actor's script, for a model that is shown a request's JSON."""
    return lambda shown: actor.script.next(shown.replace('\\"', '"'))


class ChatHost(ClientHost):
    """A loop around chat completions."""

    @abstractmethod
    async def create(self, client: Any, **given: Any) -> Any:
        """Return a chat completion."""

    async def ask(self, client: Any, messages: list[Any], tools: Sequence[str]) -> Said:
        functions = [{"type": "function", "function": defined(name)} for name in tools]
        answer = await self.create(client, messages=messages, tools=functions)
        message = answer.choices[0].message
        calls = [
            Wanted(call.id, call.function.name, json.loads(call.function.arguments))
            for call in message.tool_calls or ()
        ]
        return Said(message.to_dict(), message.content or "", calls)

    def user(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def results(self, given: Sequence[tuple[Wanted, str]]) -> Sequence[Any]:
        return [{"role": "tool", "tool_call_id": one.id, "content": text} for one, text in given]


def defined(name: str, schema: str = "parameters") -> dict[str, Any]:
    """Return the definition of a tool."""
    return {"name": name, "description": name, schema: {"type": "object", "properties": {}}}
