"""The examples on LlamaIndex, and the scenarios of the contract that need a host."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("llama_index.core.agent.workflow")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.tools.mcp import McpToolSpec

from otelhooks.frameworks.llama_index.scripted import ScriptedModel
from tests.examples.by_hand import STARTS_UNSEEN
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Converse, Host, Run, Turn
from tests.frameworks.scenarios import Scenarios
from tests.frameworks.test_llama_index import connected
from tests.frameworks.test_mcp_examples import server_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:is_running called from:DeprecationWarning"),
]


class LlamaIndex(Host):
    """A `FunctionAgent`; those that it starts are tools that run one."""

    framework = "llama_index"
    also = ("mcp",)
    differences = STARTS_UNSEEN
    lacks: ClassVar = {
        "own spans": "a package of its own makes them",
        "nameless history": "messages name no conversation",
        "invalid arguments": "it calls a tool with whatever the model wrote",
        "objects": "a function is called with what the model wrote, as plain data",
    }

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        async with contextlib.AsyncExitStack() as stack:
            agent = await made(actor, stack)

            async def run(prompt: str) -> Any:
                return str(await agent.run(user_msg=prompt))

            yield run

    @contextlib.asynccontextmanager
    async def converse(self, actor: Actor) -> AsyncIterator[Converse]:
        async with contextlib.AsyncExitStack() as stack:
            agent = await made(actor, stack)

            async def run(prompt: str | None, history: Any) -> Turn:
                if history and isinstance(history[0], str):
                    roles = itertools.cycle(("user", "assistant"))
                    history = [ChatMessage(text, role=next(roles)) for text in history]
                memory = ChatMemoryBuffer.from_defaults()
                given = {"chat_history": history, "memory": memory}
                answer = str(await agent.run(user_msg=prompt, **given))
                return Turn(answer, await memory.aget_all())

            yield run


async def made(actor: Actor, stack: contextlib.AsyncExitStack) -> Any:
    """Make an agent, connected to its server until the stack is closed."""

    def next_step(shown: str) -> Any:
        return actor.script.next(shown)

    tools: list[Any] = []
    if actor.server:
        session = await stack.enter_async_context(connected(server_of(actor)))
        session.command_or_url = f"{actor.server}-server"  # as a client that starts it has it
        tools += await McpToolSpec(client=session).to_tool_list_async()
    else:
        tools += map(FunctionTool.from_defaults, actor.tools)
    tools += [await starting(one, stack) for one in actor.delegates]
    if actor.ending is not None:
        tools.append(FunctionTool.from_defaults(actor.ending, return_direct=True))
    model = ScriptedModel(next_step=next_step)
    return FunctionAgent(name=actor.name, tools=tools, llm=model)


async def starting(actor: Actor, stack: contextlib.AsyncExitStack) -> Any:
    """Return a tool that starts an agent."""
    agent = await made(actor, stack)

    async def start(task: str) -> str:
        """Hand a task on."""
        return str(await agent.run(user_msg=task))

    return FunctionTool.from_defaults(async_fn=start, name=actor.name)


class TestExamples(Examples):
    host = LlamaIndex()


class TestScenarios(Scenarios):
    host = LlamaIndex()
