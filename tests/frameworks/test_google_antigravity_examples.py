"""The examples on Google Antigravity, with the real harness."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar, get_type_hints

import pydantic
import pytest

pytest.importorskip("google.antigravity")

from google.antigravity import types
from google.antigravity.tools.tool_runner import ToolWithSchema

from tests.examples.by_hand import STARTS_UNSEEN
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Ask, Converse, Difference, Host, Run, Turn
from tests.frameworks.antigravity_world import ask, served, started
from tests.frameworks.scenarios import Scenarios
from tests.frameworks.test_mcp_examples import server_of

VERSION = tuple(int(part) for part in importlib.metadata.version("google-antigravity").split("."))
JAILED = "this harness keeps Python tools with the name of a built-in one in the workspace"

# The SDK's oldest version warns of a field that its own constructor sets.
pytestmark = [
    pytest.mark.filterwarnings("ignore:CapabilitiesConfig.compaction_threshold"),
    pytest.mark.timeout(120),  # each example starts a harness
]


NAMELESS = "agents of the SDK have no names"
NAMES = {
    r"invoke_agent \w+": "invoke_agent Antigravity",
    r"\bops/researcher/scraper\b": "Antigravity/Antigravity/Antigravity",
    r"\bops/researcher\b": "Antigravity/Antigravity",
    r"\bops\b": "Antigravity",
    r"researcher (?=starts|stops)": "Antigravity ",
}


def of_server(step: tuple[Ask, ...]) -> Any:
    """Return calls of a server's tools as the harness's model asks for them."""
    return tuple(
        ("call_mcp_tool", {"ServerName": "math", "ToolName": name, "Arguments": args})
        for name, args in step
    )


def plain(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return a body as a function: the SDK copies what methods belong to."""

    @functools.wraps(body)
    def tool(*args: Any, **kwargs: Any) -> Any:
        return body(*args, **kwargs)

    kinds = get_type_hints(body).values()
    if not any(hasattr(kind, "model_json_schema") for kind in kinds):
        return tool
    schema = pydantic.TypeAdapter(tool).json_schema()
    return ToolWithSchema(tool, schema)


class Antigravity(Host):
    """An agent whose loop runs in the harness, with tools in Python."""

    framework = "google_antigravity"
    layers = ("session", "turn", "tool")
    lacks: ClassVar = {
        "model": "models are called in the harness: no seat",
        "messages": "models are called in the harness: no seat",
        "empty message": "the SDK refuses it before anybody else can",
        "own spans": "they rest while otelhooks makes its own",
        "output function": "a schema makes the answer",
        "invalid arguments": "it calls a tool with whatever the model wrote",
        "history only": "a run begins with a message",
        "history of others": "the harness keeps histories: see the tests of turns",
        "failing model": "a model that fails is called again by the harness",
    }
    differences = (
        *STARTS_UNSEEN,
        *(Difference(pattern, here, NAMELESS) for pattern, here in NAMES.items()),
    )

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        def next_step(shown: list[str]) -> Any:
            step = actor.script.next("\n".join(shown).replace('\\"', '"'))
            return step if isinstance(step, str) or not actor.server else of_server(step)

        with contextlib.ExitStack() as stack:
            own = () if actor.server else map(plain, actor.tools)
            settings: dict[str, Any] = {"tools": [*own, *map(self.tool_of, actor.delegates)]}
            if actor.server:
                url = stack.enter_context(served(server_of(actor)))
                settings["mcp_servers"] = [types.McpStreamableHttpServer(name="math", url=url)]
            async with started(next_step, **settings) as agent:

                async def run(prompt: str) -> str:
                    return await ask(agent, prompt)

                yield run

    @contextlib.asynccontextmanager
    async def converse(self, actor: Actor) -> AsyncIterator[Converse]:
        async with self.open(actor) as run:

            async def further(prompt: str | None, history: Any) -> Turn:
                return Turn(await run(str(prompt)), "the harness keeps it")

            yield further

    def tool_of(self, actor: Actor) -> Any:
        """Return a tool that starts an agent; it has its own harness."""

        async def delegate(task: str) -> str:
            """Hand a task on."""
            async with self.open(actor) as run:
                return await run(task)

        delegate.__name__ = actor.name
        return delegate


@pytest.mark.skipif(VERSION < (0, 1, 20), reason=JAILED)
class TestExamples(Examples):
    host = Antigravity()


class TestScenarios(Scenarios):
    host = Antigravity()
