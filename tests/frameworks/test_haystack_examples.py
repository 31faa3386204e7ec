"""The examples on Haystack, and the scenarios of the contract that need a host."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("haystack.components.agents")

import haystack.tracing
from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage
from haystack.tools import ComponentTool, create_tool_from_function
from haystack_integrations.tools.mcp import MCPToolset
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer

from otelhooks.frameworks.haystack.scripted import scripted_model
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Converse, Host, Run, Turn
from tests.frameworks.scenarios import Scenarios
from tests.frameworks.test_haystack import AgentTool, InProcess, Server
from tests.frameworks.test_mcp_examples import server_of


class Haystack(Host):
    """An agent that `Agent.run_async` runs; a pipeline gives it its name."""

    framework = "haystack"
    also = ("mcp",)
    lacks: ClassVar = {
        "nameless history": "messages name no conversation",
        "invalid arguments": "it calls a tool with whatever the model wrote",
        "objects": "a function is called with what the model wrote, as plain data",
    }

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        agent = named(actor)

        async def run(prompt: str) -> Any:
            return answer_of(await agent.run_async([ChatMessage.from_user(prompt)]))

        yield run

    @contextlib.asynccontextmanager
    async def converse(self, actor: Actor) -> AsyncIterator[Converse]:
        agent = named(actor)

        async def run(prompt: str | None, history: Any) -> Turn:
            if history and isinstance(history[0], str):
                said = itertools.cycle((ChatMessage.from_user, ChatMessage.from_assistant))
                history = [make(text) for make, text in zip(said, history, strict=False)]
            message = [] if prompt is None else [ChatMessage.from_user(prompt)]
            result = await agent.run_async([*(history or ()), *message])
            return Turn(answer_of(result), result["messages"])

        yield run

    @contextlib.contextmanager
    def own_spans(self, provider: Any) -> Iterator[None]:
        haystack.tracing.enable_tracing(OpenTelemetryTracer(provider.get_tracer("haystack")))
        try:
            yield
        finally:
            haystack.tracing.disable_tracing()


@dataclasses.dataclass
class ActorsServer(Server):
    """The server of an actor, as the examples configure it."""

    @property
    def command(self) -> str:
        return f"{self.world.server}-server"

    def create_client(self) -> Any:
        return InProcess(server_of(self.world))


def answer_of(result: Any) -> Any:
    last = result["last_message"]
    return last.text if last.tool_call_result is None else last.tool_call_result.result


def named(actor: Actor) -> Any:
    agent, pipeline = agent_of(actor), Pipeline()
    pipeline.add_component(actor.name, agent)
    return agent


def agent_of(actor: Actor) -> Any:
    """Make an agent; those that it starts are tools whose argument is a list of messages."""
    names = [one.name for one in actor.delegates]

    def next_step(shown: str) -> Any:
        step = actor.script.next(shown)
        if isinstance(step, str):
            return step
        return [
            (ask.tool, asking(ask.args["task"]) if ask.tool in names else ask.args) for ask in step
        ]

    own = () if actor.server else actor.tools
    tools: list[Any] = [create_tool_from_function(one) for one in own]
    tools += [MCPToolset(ActorsServer(actor))] if actor.server else []
    tools += map(tool_of, actor.delegates)
    endings = ["text"]
    if actor.ending is not None:
        tools.append(create_tool_from_function(actor.ending))
        endings.append(actor.ending.__name__)
    model = scripted_model(next_step)
    return Agent(chat_generator=model, tools=tools, exit_conditions=endings)


def asking(task: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"text": task}]}]}


def tool_of(actor: Actor) -> Any:
    """Return the tool that starts an agent."""
    given: Any = {"name": actor.name, "description": "Hand a task on."}
    if AgentTool is not None:
        return AgentTool(agent_of(actor), **given)
    given["outputs_to_string"] = {"source": "last_message", "handler": lambda one: one.text}
    given["parameters"] = {"type": "object", "properties": {"messages": {"type": "array"}}}
    return ComponentTool(agent_of(actor), **given)


class TestExamples(Examples):
    host = Haystack()


class TestScenarios(Scenarios):
    host = Haystack()
