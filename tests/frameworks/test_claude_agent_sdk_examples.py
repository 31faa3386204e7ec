"""The examples on the Claude Agent SDK, with the real CLI."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar, get_type_hints

import pydantic
import pytest

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk as sdk

from tests.examples.by_hand import STARTS_UNSEEN
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Converse, Difference, Host, Run, Turn
from tests.frameworks.claude_world import answer, content, of_server, served
from tests.frameworks.scenarios import Scenarios

pytestmark = pytest.mark.timeout(120)  # each example starts the CLI

NAMELESS = "agents of the SDK have no names"
NAMES = {
    r"invoke_agent \w+": "invoke_agent Claude",
    r"\bops/researcher/scraper\b": "Claude/Claude/Claude",
    r"\bops/researcher\b": "Claude/Claude",
    r"\bops\b": "Claude",
    r"researcher (?=starts|stops)": "Claude ",
}


def tool_of(body: Callable[..., Any]) -> Any:
    """Return a body as a tool of a server in this process."""
    schema = pydantic.TypeAdapter(body).json_schema()
    kinds = {name: kind for name, kind in get_type_hints(body).items() if name != "return"}

    async def handler(args: dict[str, Any]) -> dict[str, Any]:
        given = {
            name: pydantic.TypeAdapter(kinds[name]).validate_python(args[name]) for name in args
        }
        result = body(**given)
        return content(await result if inspect.isawaitable(result) else result)

    return sdk.tool(body.__name__, inspect.getdoc(body) or "", schema)(handler)


class Claude(Host):
    """An agent whose loop runs in the CLI, with tools in this process."""

    framework = "claude_agent_sdk"
    layers = ("session", "turn", "tool")
    lacks: ClassVar = {
        "model": "models are called in the CLI: no seat",
        "messages": "models are called in the CLI: no seat",
        "own spans": "the SDK makes none",
        "own tools": "what presets allow by a bare name is never a server's tool",
        "output function": "a schema makes the answer",
        "history only": "a run begins with a message",
        "history of others": "the CLI keeps histories: see the tests of turns",
        "failing model": "a model that fails is called again by the CLI",
    }
    differences = (
        *STARTS_UNSEEN,
        Difference(
            r"\[RateError\]$",
            "[tool_error]",
            "the CLI is told that a tool failed, not of what class",
        ),
        *(Difference(pattern, here, NAMELESS) for pattern, here in NAMES.items()),
    )

    def selector(self, tool: str) -> str:
        return f"tools/{tool}"

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        name = actor.server or "tools"

        def next_step(shown: list[str]) -> Any:
            step = actor.script.next("\n".join(shown).replace('\\"', '"'))
            return of_server(step, name)

        tools = [*map(tool_of, actor.tools), *map(self.started_by, actor.delegates)]
        servers = {name: sdk.create_sdk_mcp_server(name, tools=tools)}
        with served(next_step, mcp_servers=servers) as options:
            async with sdk.ClaudeSDKClient(options) as client:

                async def run(prompt: str) -> str:
                    await client.query(prompt)
                    return await answer(client.receive_response())

                yield run

    @contextlib.asynccontextmanager
    async def converse(self, actor: Actor) -> AsyncIterator[Converse]:
        async with self.open(actor) as run:

            async def further(prompt: str | None, history: Any) -> Turn:
                return Turn(await run(str(prompt)), "the CLI keeps it")

            yield further

    def started_by(self, actor: Actor) -> Any:
        """Return a tool that starts an agent; it has its own CLI."""

        async def delegate(task: str) -> str:
            """Hand a task on."""
            async with self.open(actor) as run:
                return await run(task)

        delegate.__name__ = actor.name
        return tool_of(delegate)


class TestExamples(Examples):
    host = Claude()


class TestScenarios(Scenarios):
    host = Claude()
