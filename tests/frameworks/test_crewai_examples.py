"""The examples on CrewAI, and the scenarios of the contract that need a host."""

from __future__ import annotations

import contextlib
import functools
import inspect
import typing
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

import pytest

pytest.importorskip("crewai")

from crewai.tools import tool
from crewai.tools.mcp_native_tool import MCPNativeTool

from otelhooks.frameworks.crewai.scripted import agent_of, scripted_model
from tests.examples.by_hand import STARTS_UNSEEN
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Converse, Host, Run, Turn
from tests.frameworks.scenarios import Scenarios
from tests.frameworks.test_crewai import InProcess, schema_of
from tests.frameworks.test_mcp_examples import server_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:(function_calling_llm is )?deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning"),
    pytest.mark.timeout(120),  # importing the framework takes long on a busy machine
]


class CrewAI(Host):
    """An agent that `Agent.kickoff_async` runs; those that it starts are tools that run one."""

    framework = "crewai"
    also = ("mcp",)
    differences = STARTS_UNSEEN
    lacks: ClassVar = {
        "own spans": "they go to the vendor, from a provider of its own",
        "nameless history": "messages name no conversation",
        "objects": "tools get plain data",
    }

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        agent = made(actor)

        async def run(prompt: str) -> Any:
            return (await agent.kickoff_async(prompt)).raw

        yield run

    @contextlib.asynccontextmanager
    async def converse(self, actor: Actor) -> AsyncIterator[Converse]:
        agent = made(actor)

        async def run(prompt: str | None, history: Any) -> Turn:
            if history and isinstance(history[0], str):
                roles = ("user", "assistant")
                history = [
                    {"role": roles[at % 2], "content": text} for at, text in enumerate(history)
                ]
            said = [] if prompt is None else [{"role": "user", "content": prompt}]
            messages = [*(history or ()), *said]
            answer = (await agent.kickoff_async(messages)).raw
            return Turn(answer, [*messages, {"role": "assistant", "content": answer}])

        yield run


class Place:
    """Where a server of the examples is, as they configure it."""

    url, args, env = None, (), None

    def __init__(self, name: str) -> None:
        self.command = f"{name}-server"


class ActorsClient(InProcess):
    """A client of an actor's server."""

    def __init__(self, actor: Actor) -> None:
        super().__init__(actor)
        self.transport = Place(actor.server)

    def server(self) -> Any:
        return server_of(self.world)


def made(actor: Actor) -> Any:
    """Make an agent."""
    tools = [tool(resolved(body)) for body in actor.tools] if not actor.server else []
    prefix = f"{actor.server}_" if actor.server else ""

    def next_step(shown: str) -> Any:
        step = actor.script.next(shown)
        if isinstance(step, str):
            return step
        own = {body.__name__ for body in actor.tools}
        return [(f"{prefix if ask.tool in own else ''}{ask.tool}", ask.args) for ask in step]

    for body in actor.tools if actor.server else ():
        client = functools.partial(ActorsClient, actor)
        one = MCPNativeTool(client, body.__name__, {}, actor.server)
        one.args_schema = schema_of(body)
        tools.append(one)
    tools += map(starting, actor.delegates)
    if actor.ending is not None:
        tools.append(tool(actor.ending.__name__, result_as_answer=True)(actor.ending))
    return agent_of(scripted_model(next_step), tools, role=actor.name)


def resolved(body: Any) -> Any:
    """Return a function whose annotations are types: the framework looks no names up."""
    if inspect.isfunction(body):
        body.__annotations__ = typing.get_type_hints(body)
    return body


def starting(actor: Actor) -> Any:
    """Return a tool that starts an agent."""
    agent = made(actor)

    def start(task: str) -> str:
        """Hand a task on."""
        return agent.kickoff(task).raw

    make: Callable[..., Any] = tool(actor.name)
    return make(start)


class TestExamples(Examples):
    host = CrewAI()


class TestScenarios(Scenarios):
    host = CrewAI()
