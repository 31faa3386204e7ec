"""The examples on Google ADK, and the scenarios of the contract that need a host."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar
from unittest import mock

import pytest

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.features._feature_registry import FeatureName
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from otelhooks.frameworks.google_adk.scripted import (
    APP,
    USER,
    converse,
    runner_of,
    scripted_model,
    text_of,
)
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Converse, Difference, Host, Run, Turn
from tests.frameworks.contract import Seen
from tests.frameworks.google_adk_world import serving
from tests.frameworks.scenarios import Scenarios
from tests.frameworks.test_google_adk import pytestmark as ignored
from tests.frameworks.test_mcp_examples import server_of

pytestmark = [*ignored, pytest.mark.timeout(120)]


class Telling(BasePlugin):
    """Reports a tool's exception, which would end the run, to the model."""

    def __init__(self) -> None:
        super().__init__(name="telling")

    async def on_tool_error_callback(self, *, error: Exception, **call: Any) -> Any:
        return {"error": str(error)}


class GoogleADK(Host):
    """An agent that a runner runs."""

    framework = "google_adk"
    also = ("mcp",)
    differences = (
        Difference(
            "chat (?=scripted)", "generate_content ", "its model calls are of this operation"
        ),
    )
    lacks: ClassVar = {"output function": "no function makes a run's answer"}

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        async with contextlib.AsyncExitStack() as stack:
            runner = runner_of(await agent_of(actor, stack), plugins=[Telling()])

            async def run(prompt: str) -> Any:
                return text_of(await converse(runner, prompt))

            yield run

    @contextlib.asynccontextmanager
    async def converse(self, actor: Actor) -> AsyncIterator[Converse]:
        agent = await agent_of(actor, contextlib.AsyncExitStack())
        runner = runner_of(agent, plugins=[Telling()])
        service = runner.session_service

        async def run(prompt: str | None, history: Any) -> Turn:
            if not isinstance(history, str):
                past = list(history or ())
                prompt = prompt if prompt is not None else past.pop()
                session = await service.create_session(app_name=APP, user_id=USER)
                for who, text in zip(itertools.cycle(("user", "model")), past, strict=False):
                    content = types.Content(role=who, parts=[types.Part(text=text)])
                    author = USER if who == "user" else actor.name
                    await service.append_event(session, Event(author=author, content=content))
                history = session.id
            return Turn(text_of(await converse(runner, prompt, history)), history)

        yield run

    @contextlib.contextmanager
    def own_spans(self, provider: Any) -> Iterator[None]:
        tracer = provider.get_tracer("gcp.vertex.agent")
        with contextlib.ExitStack() as stack:
            for name, module in list(sys.modules.items()):
                if name.startswith("google.adk") and hasattr(module, "tracer"):
                    stack.enter_context(mock.patch.object(module, "tracer", tracer))
            yield


async def agent_of(actor: Actor, stack: contextlib.AsyncExitStack) -> Any:
    """Make an agent; those that it starts are tools."""
    own: Any = actor.tools
    if actor.server:
        own = [await stack.enter_async_context(serving(server_of(actor), actor.server))]
    started = [Delegate(await agent_of(each, stack)) for each in actor.delegates]
    model = scripted_model(actor.script.next)
    return LlmAgent(name=actor.name, model=model, tools=[*own, *started])


class Delegate(AgentTool):
    """An agent as a tool whose argument is called `task`."""

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        return text_of(await converse(runner_of(self.agent), args["task"]))


class TestExamples(Examples):
    host = GoogleADK()


class TestScenarios(Scenarios):
    host = GoogleADK()

    def test_invalid_arguments(
        self, seen: Seen, args: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The framework checks types on demand."""
        if not hasattr(FeatureName, "FUNCTION_TOOL_ARG_VALIDATION") and set(args) == {"x", "y"}:
            pytest.skip("an older release checks only that no argument is missing")
        monkeypatch.setenv("ADK_ENABLE_FUNCTION_TOOL_ARG_VALIDATION", "1")
        super().test_invalid_arguments(seen, args)

    test_invalid_arguments.pytestmark = Scenarios.test_invalid_arguments.pytestmark  # type: ignore[attr-defined]
