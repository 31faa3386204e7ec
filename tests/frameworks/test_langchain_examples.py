"""The examples on langchain."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("langchain.agents")

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.tools import BaseTool, StructuredTool

from tests.examples.by_hand import STARTS_UNSEEN
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Host, Run
from tests.frameworks.agents_langchain import ScriptedModel, begin, said

pytestmark = pytest.mark.timeout(120)  # importing the framework takes long on a busy machine


class NamedModel(ScriptedModel):
    """A model with a name."""

    @property
    def model(self) -> str:
        """The name that spans have."""
        return "scripted"


class Langchain(Host):
    """An agent of langchain, on langgraph, whose model is told of exceptions of its tools."""

    framework = "langchain"
    lacks: ClassVar = {
        "server": "tools of a server need langchain-mcp-adapters, which holds mcp at 1.x",
        "stop": "a graph that has ended cannot be sent on from outside",
        "verify": "for the same reason a delegate is not asked again: its answer is withheld",
    }
    differences = STARTS_UNSEEN

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        agent = self.agent(actor)

        async def run(prompt: str) -> str:
            return said(await agent.ainvoke(begin(prompt)))

        yield run

    def agent(self, actor: Actor) -> Any:
        """Make an agent; those that it starts are run by a tool's function."""
        return create_agent(
            NamedModel(world=actor.script),
            [*self.tools(actor), *map(self.tool_of, actor.delegates)],
            name=actor.name,
            middleware=[ToolRetryMiddleware(max_retries=0, on_failure=lambda error: str(error))],
        )

    def tools(self, actor: Actor) -> list[BaseTool]:
        return [StructuredTool.from_function(body) for body in actor.tools]

    def tool_of(self, actor: Actor) -> BaseTool:
        agent = self.agent(actor)

        async def delegate(task: str) -> str:
            """Hand a task on."""
            return said(await agent.ainvoke(begin(task)))

        return StructuredTool.from_function(coroutine=delegate, name=actor.name)


class TestExamples(Examples):
    host = Langchain()
