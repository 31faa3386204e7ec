"""Google ADK: contract on every path."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
from collections.abc import AsyncIterator
from typing import Any

import anyio.to_thread
import pytest

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from otelhooks.frameworks.google_adk.scripted import (
    APP,
    USER,
    converse,
    runner_of,
    scripted_model,
    text_of,
)
from tests.frameworks.contract import ANSWER, Contract, Path, World
from tests.frameworks.google_adk_world import converse_live, live_model, serving
from tests.frameworks.mcp_world import make_server

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{message}:DeprecationWarning")  # of the framework's own
    for message in (".*Agent is deprecated in favor of Workflow", "The `plugins` argument is")
]
VERSION = tuple(map(int, importlib.metadata.version("google-adk").split(".")[:2]))
SSE = RunConfig(streaming_mode=StreamingMode.SSE)


def tools_of(world: World) -> list[Any]:
    """Return the world's tools, plain functions and coroutines."""

    def danger(path: str) -> str:
        """Remove a path."""
        return world.danger(path)

    async def safe(x: int) -> str:
        """Read number x."""
        return world.safe(x)

    def broken(x: int) -> str:
        """Fail."""
        return world.broken(x)

    async def slow(x: int) -> str:
        """Wait."""
        return await world.slow(x)

    return [danger, safe, broken, slow]


def agent_of(world: World, **settings: Any) -> Any:
    """Return an agent that plays the world's script."""
    settings.setdefault("tools", tools_of(world))
    return LlmAgent(name="worker", model=scripted_model(world.next), **settings)


def outer_of(*steps: Any, **settings: Any) -> Any:
    """Return an agent that says given steps."""
    left = list(steps)
    return LlmAgent(name="outer", model=scripted_model(lambda shown: left.pop(0)), **settings)


def build(make: Any = agent_of, **options: Any) -> Any:
    def built(world: World) -> Any:
        runner = runner_of(make(world))

        async def run(prompt: str) -> Any:
            return text_of(await converse(runner, prompt, **options))

        return run

    return built


def build_sync(world: World) -> Any:
    runner = runner_of(agent_of(world))

    def run(prompt: str) -> Any:
        made = asyncio.run(runner.session_service.create_session(app_name=APP, user_id=USER))
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        return text_of(runner.run(user_id=USER, session_id=made.id, new_message=message))

    return run


def build_thread(world: World) -> Any:
    run = build_sync(world)

    async def in_thread(prompt: str) -> Any:
        return await anyio.to_thread.run_sync(run, prompt)

    return in_thread


def as_tool(world: World) -> Any:
    steps = (("worker", {"request": "please begin"}),), ANSWER
    return outer_of(*steps, tools=[AgentTool(agent_of(world))])


def by_transfer(world: World) -> Any:
    steps = ((("transfer_to_agent", {"agent_name": "worker"}),),)
    return outer_of(*steps, sub_agents=[agent_of(world)])


def in_sequence(world: World) -> Any:
    return SequentialAgent(name="steps", sub_agents=[agent_of(world)])


def in_parallel(world: World) -> Any:
    return ParallelAgent(name="branches", sub_agents=[agent_of(world)])


def long_running(world: World) -> Any:
    return agent_of(world, tools=[LongRunningFunctionTool(func=one) for one in tools_of(world)])


def build_direct(world: World) -> Any:
    """Build a path on which user code calls a tool itself."""
    tools = {one.name: one for one in map(FunctionTool, tools_of(world))}

    async def run(prompt: str) -> str:
        runner = runner_of(outer_of())
        session = await runner.session_service.create_session(app_name=APP, user_id=USER)
        invocation = runner._new_invocation_context(session)

        async def call(name: str, args: dict[str, Any]) -> Any:
            return await tools[name].run_async(args=args, tool_context=ToolContext(invocation))

        return await world.aplay(call, prompt)

    return run


def build_mcp(**settings: Any) -> Any:
    """Build a path with an MCP server in this process."""

    def built(world: World) -> Any:
        async def run(prompt: str) -> Any:
            async with serving(make_server(world), **settings) as toolset:
                prefix = settings.get("tool_name_prefix")
                agent = agent_of(world, tools=[toolset])
                if prefix:
                    agent.model = scripted_model(prefixed(world, prefix))
                return text_of(await converse(runner_of(agent), prompt))

        return run

    return built


def prefixed(world: World, prefix: str) -> Any:
    def next_step(shown: str) -> Any:
        step = world.next(shown)
        return step if isinstance(step, str) else [(f"{prefix}_{n}", args) for n, args in step]

    return next_step


def stream_chunks(world: World) -> Any:
    runner = runner_of(agent_of(world))

    async def chunks(prompt: str) -> AsyncIterator[str]:
        made = await runner.session_service.create_session(app_name=APP, user_id=USER)
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        events = runner.run_async(
            user_id=USER, session_id=made.id, new_message=message, run_config=SSE
        )
        async with contextlib.aclosing(events):
            async for event in events:
                for part in event.content.parts if event.content is not None else ():
                    if part.text and event.partial:
                        yield part.text
                    elif part.text and not event.partial:
                        yield f"\n{part.text}"

    return chunks


def build_live(**options: Any) -> Any:
    def built(world: World) -> Any:
        runner = runner_of(agent_of(world))
        runner.agent.model = live_model(world.next)

        async def run(prompt: str) -> Any:
            return text_of(await converse_live(runner, prompt, **options))

        return run

    return built


LOST = "before 2.10, what a run raises in the thread of `run` is lost"
SYNC: Any = (
    {}
    if VERSION >= (2, 10)
    else dict.fromkeys(("error_without_recovery", "exception_that_escapes"), LOST)
)
RAISED: Any = {"errors": "raised"}
LIVE: Any = {
    "rewritten_prompt_and_answer": "it has no message of its own, and many answers",
    "what_the_user_said": "it has no message of its own",
}
FILES: Any = {"lacks": {"exception_that_escapes": "it ends the server, not the run"}}


class TestGoogleADK(Contract):
    framework = "google_adk"
    also = ("mcp",)
    paths = (
        Path("run", build(), **RAISED),
        Path("run_sync", build_sync, lacks=SYNC, **RAISED),
        Path("stream", build(run_config=SSE), chunks=stream_chunks, **RAISED),
        Path(
            "thread", build_thread, lacks={**SYNC, "cancelled": "a thread is waited for"}, **RAISED
        ),
        Path("agent_tool", build(as_tool), around=("worker",), subagent="worker", **RAISED),
        Path("transfer", build(by_transfer), around=("transfer_to_agent",), **RAISED),
        Path("sequential", build(in_sequence), **RAISED),
        Path("parallel_agents", build(in_parallel), **RAISED),
        Path("long_running", build(long_running), **RAISED),
        Path("live", build_live(), has_model=False, lacks=LIVE, **RAISED),
        Path("mcp", build_mcp(), **FILES),
        Path("mcp_prefixed", build_mcp(tool_name_prefix="fs"), **FILES),
        Path("direct_call", build_direct, has_run=False, has_model=False, **RAISED),
    )
