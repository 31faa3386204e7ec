"""The examples on langchain, and the scenarios of the contract that need a host."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, ClassVar

import pytest

pytest.importorskip("langchain.agents")

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.tools import BaseTool, StructuredTool

from tests.examples.by_hand import STARTS_UNSEEN
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Converse, Host, Run, Turn
from tests.frameworks.agents_langchain import ScriptedModel, begin, said
from tests.frameworks.scenarios import Scenarios

pytestmark = pytest.mark.timeout(120)  # importing the framework takes long on a busy machine


class NamedModel(ScriptedModel):
    """A model with a name."""

    @property
    def model(self) -> str:
        """The name that spans have."""
        return "scripted"


class Langchain(Host):
    """An agent of langchain, on langgraph, whose model gets exceptions of its tools."""

    framework = "langchain"
    lacks: ClassVar = {
        "server": "tools of a server need langchain-mcp-adapters, which holds mcp at 1.x",
        "stop": "a graph that has ended cannot be sent on from outside",
        "own spans": "it has none of OpenTelemetry",
        "nameless history": "messages name no conversation",
        "verify": "for the same reason a delegate is not asked again: its answer is withheld",
    }
    differences = STARTS_UNSEEN

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        agent = self.agent(actor)

        async def run(prompt: str) -> str:
            return said(await agent.ainvoke(begin(prompt)))

        yield run

    @contextlib.asynccontextmanager
    async def converse(self, actor: Actor) -> AsyncIterator[Converse]:
        agent = self.agent(actor)

        async def run(prompt: str | None, history: Any) -> Turn:
            if history and isinstance(history[0], str):
                roles = itertools.cycle(("user", "assistant"))
                history = list(zip(roles, history, strict=False))
            message = [] if prompt is None else [("user", prompt)]
            state = await agent.ainvoke({"messages": [*(history or ()), *message]})
            return Turn(said(state), state["messages"])

        yield run

    def agent(self, actor: Actor) -> Any:
        """Make an agent; those that it starts are run by a tool's function."""
        return create_agent(
            NamedModel(world=actor.script),
            [*self.tools(actor.tools), *self.ending(actor), *map(self.tool_of, actor.delegates)],
            name=actor.name,
            middleware=[ToolRetryMiddleware(max_retries=0, on_failure=lambda error: str(error))],
        )

    def tools(self, bodies: Iterable[Callable[..., Any]]) -> list[BaseTool]:
        return [StructuredTool.from_function(body) for body in bodies]

    def ending(self, actor: Actor) -> list[BaseTool]:
        made = self.tools([actor.ending] if actor.ending is not None else ())
        for tool in made:
            tool.return_direct = True
        return made

    def tool_of(self, actor: Actor) -> BaseTool:
        agent = self.agent(actor)

        async def delegate(task: str) -> str:
            """Hand a task on."""
            return said(await agent.ainvoke(begin(task)))

        return StructuredTool.from_function(coroutine=delegate, name=actor.name)


class TestExamples(Examples):
    host = Langchain()


class TestScenarios(Scenarios):
    host = Langchain()
