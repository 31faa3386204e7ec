"""The examples on openai-agents, and the scenarios of the contract that need a host."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("agents")

import agents

from otelhooks.frameworks.openai_agents.scripted import ScriptedModel
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Converse, Host, Run, Turn
from tests.frameworks.scenarios import Scenarios
from tests.frameworks.test_openai_agents import MemoryServer

pytestmark = pytest.mark.timeout(120)  # importing the framework takes long on a busy machine


class OpenAIAgents(Host):
    """An agent that `Runner.run` runs."""

    framework = "openai_agents"
    also = ("mcp",)
    lacks: ClassVar = {
        "own spans": "its tracing is not OpenTelemetry's",
        "nameless history": "items of a history name no conversation",
        "told of unknown tools": "it raises",
    }

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        agents.set_tracing_disabled(True)
        async with contextlib.AsyncExitStack() as stack:
            servers: list[Any] = []
            if actor.server:
                server = MemoryServer(actor.tools, actor.server)
                servers.append(await stack.enter_async_context(server))
            agent = agent_of(actor, mcp_servers=servers)

            async def run(prompt: str) -> Any:
                return (await agents.Runner.run(agent, prompt)).final_output

            yield run

    @contextlib.asynccontextmanager
    async def converse(self, actor: Actor) -> AsyncIterator[Converse]:
        agents.set_tracing_disabled(True)
        agent = agent_of(actor)

        async def run(prompt: str | None, history: Any) -> Turn:
            if history and isinstance(history[0], str):
                roles = itertools.cycle(("user", "assistant"))
                history = [{"role": r, "content": t} for r, t in zip(roles, history, strict=False)]
            message = [] if prompt is None else [{"role": "user", "content": prompt}]
            result = await agents.Runner.run(agent, [*(history or ()), *message])
            return Turn(result.final_output, result.to_input_list())

        yield run


class PlainModel(ScriptedModel):
    """A model that is shown the texts alone."""

    def answer(self, shown: Any) -> Any:
        items = [{"content": shown}] if isinstance(shown, str) else shown
        texts = [item.get("output") or item.get("content") or "" for item in items]
        return super().answer("\n".join(map(str, texts)))


def agent_of(actor: Actor, **settings: Any) -> Any:
    """Make an agent; those that it starts are agents as tools, whose argument is `input`."""
    names = [one.name for one in actor.delegates]

    def next_step(shown: str) -> Any:
        step = actor.script.next(shown)
        if isinstance(step, str):
            return step
        return [
            (ask.tool, {"input": ask.args["task"]} if ask.tool in names else ask.args)
            for ask in step
        ]

    own = () if actor.server else actor.tools
    tools: list[Any] = [agents.function_tool(body, strict_mode=False) for body in own]
    tools += [agent_of(one).as_tool(one.name, "Hand a task on.") for one in actor.delegates]
    if actor.ending is not None:
        tools.append(agents.function_tool(actor.ending))
        settings["tool_use_behavior"] = {"stop_at_tool_names": [actor.ending.__name__]}
    return agents.Agent(name=actor.name, model=PlainModel(next_step), tools=tools, **settings)


class TestExamples(Examples):
    host = OpenAIAgents()


class TestScenarios(Scenarios):
    host = OpenAIAgents()
