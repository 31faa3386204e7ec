"""The examples on Strands, and the scenarios of the contract that need a host."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("strands")

from strands import Agent, tool
from strands.telemetry import tracer
from strands.tools.mcp import MCPClient

from otelhooks.frameworks.strands.scripted import scripted_model
from tests.examples.by_hand import STARTS_UNSEEN
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Converse, Host, Run, Turn
from tests.frameworks.scenarios import Scenarios
from tests.frameworks.test_mcp_examples import server_of
from tests.frameworks.test_strands import in_process

pytestmark = pytest.mark.timeout(120)  # importing the framework takes long on a busy machine


class Strands(Host):
    """An agent that `Agent.invoke_async` runs."""

    framework = "strands"
    also = ("mcp",)
    differences = STARTS_UNSEEN
    lacks: ClassVar = {
        "output function": "structured output is made of a model's arguments alone",
        "objects": "tools get plain data",
    }

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        with connected(actor) as agent:

            async def run(prompt: str) -> Any:
                return str(await agent.invoke_async(prompt)).strip()

            yield run

    @contextlib.asynccontextmanager
    async def converse(self, actor: Actor) -> AsyncIterator[Converse]:
        with connected(actor) as agent:

            async def run(prompt: str | None, history: Any) -> Turn:
                if history and isinstance(history[0], str):
                    said = itertools.cycle(("user", "assistant"))
                    agent.messages = [
                        {"role": role, "content": [{"text": text}]}
                        for role, text in zip(said, history, strict=False)
                    ]
                result = await agent.invoke_async(prompt)
                return Turn(str(result).strip(), agent.messages)

            yield run

    @contextlib.contextmanager
    def own_spans(self, provider: Any) -> Iterator[None]:
        made = tracer.get_tracer()
        before, made.tracer = made.tracer, provider.get_tracer("strands.telemetry.tracer")
        try:
            yield
        finally:
            made.tracer = before


@contextlib.contextmanager
def connected(actor: Actor) -> Iterator[Any]:
    """Give an agent, connected to its server; those that it starts are run by a tool's function."""
    with contextlib.ExitStack() as stack:
        tools = [tool_of(delegate, stack) for delegate in actor.delegates]
        if actor.server:
            client = MCPClient(lambda: in_process(server_of(actor)), prefix=actor.server)
            tools += stack.enter_context(client).list_tools_sync()
        else:
            tools += map(tool, actor.tools)
        model = scripted_model(plainly(actor))
        yield Agent(model, tools=tools, name=actor.name, callback_handler=None, retry_strategy=None)


def plainly(actor: Actor) -> Callable[[str], Any]:
    """Return a function of the texts alone that a model is shown; it knows tools by prefix."""
    prefix = f"{actor.server}_" if actor.server else ""

    def next_of(shown: str) -> Any:
        blocks = [block for message in json.loads(shown) for block in message["content"]]
        blocks += [
            one for block in blocks for one in block.get("toolResult", {}).get("content", ())
        ]
        shown = "\n".join(block["text"] for block in blocks if "text" in block)
        step = actor.script.next(shown)
        return step if isinstance(step, str) else [(prefix + name, args) for name, args in step]

    return next_of


def tool_of(actor: Actor, stack: contextlib.ExitStack) -> Any:
    agent = stack.enter_context(connected(actor))

    async def delegate(task: str) -> str:
        """Hand a task on."""
        return str(await agent.invoke_async(task)).strip()

    return tool(name=actor.name)(delegate)


class TestExamples(Examples):
    host = Strands()


class TestScenarios(Scenarios):
    host = Strands()
