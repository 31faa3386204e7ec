"""The examples on Pydantic AI, and the scenarios of the contract that need a host."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai.capabilities.abstract import AbstractCapability
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.output import ToolOutput

from otelhooks.frameworks.pydantic_ai.scripted import scripted_model
from tests.examples.by_hand import STARTS_UNSEEN
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Converse, Host, Run, Turn
from tests.frameworks.scenarios import Scenarios
from tests.frameworks.test_mcp_examples import server_of
from tests.frameworks.test_pydantic_ai import in_process

pytestmark = pytest.mark.timeout(120)  # importing the framework takes long on a busy machine


class Telling(AbstractCapability[None]):
    """Reports a tool's exception, which would end the run, to the model."""

    async def on_tool_execute_error(self, ctx: Any, *, error: Exception, **call: Any) -> str:
        return str(error)


class PydanticAI(Host):
    """An agent that `Agent.run` runs."""

    framework = "pydantic_ai"
    also = ("mcp",)
    differences = STARTS_UNSEEN

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        agent = agent_of(actor)

        async def run(prompt: str) -> Any:
            return (await agent.run(prompt)).output

        yield run

    @contextlib.asynccontextmanager
    async def converse(self, actor: Actor) -> AsyncIterator[Converse]:
        agent = agent_of(actor)

        async def run(prompt: str | None, history: Any) -> Turn:
            if history and isinstance(history[0], str):
                said = itertools.cycle((ModelRequest.user_text_prompt, answer_of))
                history = [make(text) for make, text in zip(said, history, strict=False)]
            result = await agent.run(prompt, message_history=history)
            return Turn(result.output, result.all_messages())

        yield run

    @contextlib.contextmanager
    def own_spans(self, provider: Any) -> Iterator[None]:
        Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
        try:
            yield
        finally:
            Agent.instrument_all(False)


def answer_of(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def agent_of(actor: Actor, **settings: Any) -> Any:
    """Make an agent; those that it starts are run by a tool's function."""
    tools = [*(() if actor.server else actor.tools), *map(tool_of, actor.delegates)]
    if actor.ending is not None:
        settings["output_type"] = [str, ToolOutput(actor.ending, name=actor.ending.__name__)]
    servers = [MCPToolset(in_process(server_of(actor)), id=actor.server)] if actor.server else []
    return Agent(
        scripted_model(plainly(actor.script.next)),
        name=actor.name,
        tools=tools,
        toolsets=servers,
        capabilities=[Telling()],
        **settings,
    )


def plainly(next_step: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a function of the texts alone that a model is shown."""

    def next_of(shown: str) -> Any:
        parts = [part for message in json.loads(shown) for part in message["parts"]]
        return next_step("\n".join(str(part.get("content", "")) for part in parts))

    return next_of


def tool_of(actor: Actor) -> Callable[..., Any]:
    agent = agent_of(actor)

    async def delegate(task: str) -> str:
        """Hand a task on."""
        return (await agent.run(task)).output

    delegate.__name__ = actor.name
    return delegate


class TestExamples(Examples):
    host = PydanticAI()


class TestScenarios(Scenarios):
    host = PydanticAI()
