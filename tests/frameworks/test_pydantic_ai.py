"""Pydantic AI: contract on every path."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import itertools
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, RunContext
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.output import ToolOutput
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.toolsets import FunctionToolset

from otelhooks.frameworks.pydantic_ai.scripted import scripted_model
from tests.frameworks.contract import ANSWER, Contract, Path, World
from tests.frameworks.mcp_world import make_server

try:
    from tests.frameworks.pydantic_ai_realtime import build_realtime
except ImportError as missing:
    REALTIME, build_realtime = f"needs another release: {missing}", None
else:
    REALTIME = ""

VERSION = tuple(map(int, importlib.metadata.version("pydantic-ai-slim").split(".")[:2]))
_ids = itertools.count(1)


def tools_of(world: World, **options: Any) -> list[Any]:
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

    return [Tool(one, **options) for one in (danger, safe, broken, slow)]


def agent_of(world: World, rename: Any = None, **settings: Any) -> Any:
    """Return an agent that plays the world's script."""

    def next_step(shown: str) -> Any:
        step = world.next(shown)
        if isinstance(step, str) or rename is None:
            return step
        return [(rename(name), args) for name, args in step]

    if "toolsets" not in settings:
        settings.setdefault("tools", tools_of(world))
    return Agent(scripted_model(next_step), name="worker", **settings)


def outer_of(*steps: Any, **settings: Any) -> Any:
    """Return an agent that says given steps."""
    left = list(steps)
    return Agent(scripted_model(lambda shown: left.pop(0)), name="outer", **settings)


async def finish(agent: Any, prompt: Any, **options: Any) -> Any:
    return (await agent.run(prompt, **options)).output


async def stream(agent: Any, prompt: Any) -> Any:
    async with agent.run_stream(prompt) as result:
        return await result.get_output()


async def iterate(agent: Any, prompt: Any) -> Any:
    async with agent.iter(prompt) as run:
        async for _ in run:
            pass
    return run.result.output


async def events(agent: Any, prompt: Any) -> Any:
    answer = None
    opened = agent.run_stream_events(prompt)
    if hasattr(opened, "__aenter__"):
        async with opened as stream:
            async for event in stream:
                if event.event_kind == "agent_run_result":
                    answer = event.result.output
        return answer
    async for event in opened:
        if event.event_kind == "agent_run_result":
            answer = event.result.output
    return answer


def build(way: Any, make: Any = agent_of, **options: Any) -> Any:
    def built(world: World) -> Any:
        agent = make(world)

        async def run(prompt: str) -> Any:
            return await way(agent, prompt, **options)

        return run

    return built


def build_sync(world: World) -> Any:
    return sync(agent_of(world))


def sync(agent: Any) -> Any:
    """Return a way to run an agent in a loop of its own, which is closed."""

    def run(prompt: str) -> Any:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            return agent.run_sync(prompt).output
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    return run


def with_tool(world: World) -> Any:
    """Return an agent with a tool that runs the agent which plays the script."""
    inner = agent_of(world)

    async def ask_worker(task: str) -> str:
        """Ask the worker."""
        return (await inner.run(task)).output

    steps = (("ask_worker", {"task": "please begin"}),), ANSWER
    return outer_of(*steps, tools=[ask_worker])


def with_output_function(world: World) -> Any:
    """Return an agent whose output is made by the agent which plays the script."""
    inner = agent_of(world)

    async def hand_off(task: str) -> str:
        """Hand over to the worker."""
        return (await inner.run(task)).output

    output = ToolOutput(hand_off, name="hand_off")
    return outer_of((("hand_off", {"task": "please begin"}),), output_type=output)


def prefixed(world: World) -> Any:
    toolset = FunctionToolset(tools_of(world)).prefixed("ns")
    return agent_of(world, lambda name: f"ns_{name}", toolsets=[toolset])


def renamed(world: World) -> Any:
    names = {f"my_{name}": name for name in ("danger", "safe", "broken", "slow")}
    toolset = FunctionToolset(tools_of(world)).renamed(names)
    return agent_of(world, lambda name: f"my_{name}", toolsets=[toolset])


def dynamic(world: World) -> Any:
    agent = agent_of(world, tools=[])

    @agent.toolset
    def chosen(ctx: RunContext[None]) -> Any:
        return FunctionToolset(tools_of(world))

    return agent


def sequential(world: World) -> Any:
    return agent_of(world, tools=tools_of(world, sequential=True))


def dispatched(world: World) -> Any:
    """Return an agent whose one tool makes the calls itself, as code mode does."""
    from pydantic_ai.tool_manager import ToolManager

    toolset = FunctionToolset(tools_of(world))

    async def play(ctx: RunContext[None], prompt: str) -> str:
        """Play the script."""
        manager = await ToolManager(toolset).for_run_step(ctx)

        async def call(name: str, args: dict[str, Any]) -> Any:
            part = ToolCallPart(name, args, tool_call_id=f"inner_{next(_ids)}")
            found = await manager.handle_call(part)
            return getattr(found, "message", found)

        return await world.aplay(call, prompt)

    return outer_of((("play", {"prompt": "please begin"}),), ANSWER, tools=[play])


def build_direct(world: World) -> Any:
    """Build a path on which user code calls a toolset itself."""
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import RunUsage

    toolset = FunctionToolset(tools_of(world))

    async def run(prompt: str) -> str:
        ctx = RunContext(deps=None, model=TestModel(), usage=RunUsage())

        async def call(name: str, args: dict[str, Any]) -> Any:
            tools = await toolset.get_tools(ctx)
            return await toolset.call_tool(name, args, ctx, tools[name])

        return await world.aplay(call, prompt)

    return run


async def approving(agent: Any, prompt: Any) -> Any:
    """Run an agent whose calls wait for approvals, and approve each."""
    result = await agent.run(prompt)
    while isinstance(result.output, DeferredToolRequests):
        answers = {call.tool_call_id: True for call in result.output.approvals}
        result = await agent.run(
            message_history=result.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals=answers),
        )
    return result.output


def with_approval(world: World) -> Any:
    tools = tools_of(world, requires_approval=True)
    return agent_of(world, tools=tools, output_type=[str, DeferredToolRequests])


async def in_history(agent: Any, prompt: Any) -> Any:
    """Run with the message as the last one of a history."""
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    history = [ModelRequest(parts=[UserPromptPart(content=prompt)])]
    return (await agent.run(message_history=history)).output


async def in_thread(agent: Any, prompt: Any) -> Any:
    return await anyio.to_thread.run_sync(sync(agent), prompt)


def build_mcp(prefix: str = "") -> Any:
    """Build a path with an MCP server in this process."""

    def built(world: World) -> Any:
        async def run(prompt: str) -> Any:
            toolset: Any = MCPToolset(in_process(make_server(world)), id="files")
            if not prefix:
                return await finish(agent_of(world, toolsets=[toolset]), prompt)
            rename = f"{prefix}_{{}}".format
            return await finish(
                agent_of(world, rename, toolsets=[toolset.prefixed(prefix)]), prompt
            )

        return run

    return built


def in_process(server: Any) -> Any:
    """Return a transport to a server that is an object."""
    from fastmcp.client.transports import ClientTransport
    from mcp import ClientSession
    from mcp.shared.memory import create_client_server_memory_streams

    class InProcess(ClientTransport):
        @contextlib.asynccontextmanager
        async def connect_session(self, transport_options: Any = None, **kwargs: Any) -> Any:
            low = getattr(server, "_mcp_server", None) or server._lowlevel_server
            async with create_client_server_memory_streams() as (ours, theirs):
                async with anyio.create_task_group() as group:
                    group.start_soon(low.run, *theirs, low.create_initialization_options())
                    async with ClientSession(*ours, **kwargs) as session:
                        yield session
                    group.cancel_scope.cancel()

    return InProcess()


def stream_chunks(world: World) -> Any:
    agent = agent_of(world)

    async def chunks(prompt: str) -> AsyncIterator[str]:
        async with agent.run_stream(prompt) as result:
            texts = result.stream_text(delta=True, debounce_by=None)
            async with contextlib.aclosing(texts):
                async for text in texts:
                    yield text

    return chunks


RAISED: Any = {"errors": "raised"}
AROUND_TOOL: Any = {"around": ("ask_worker",), "subagent": "ask_worker", **RAISED}
STREAMED = {"rewritten_prompt_and_answer": "its consumer reads the answer from the stream"}
if VERSION < (2, 54):
    STREAMED["stream_closed_early"] = "this version fails by itself as its generators are closed"
TYPED = {
    "deny_of_every_subagent": "a denied output function is tried again",
    **dict.fromkeys(
        ("ready_answer_at_pre_agent", "ready_answer_at_pre_model_call"), "the answer is typed"
    ),
}
PLAYED = dict.fromkeys(("budget", "rewritten_prompt_and_answer"), "a tool plays the script")
REALTIME_LACKS = {
    "exception_that_escapes": "it ends a task of the session",
    "ready_answer_at_pre_agent": "a session has no answer",
    "rewritten_prompt_and_answer": "a session has neither message nor answer",
    "what_the_user_said": "a session has no message of its own",
}
FILES: Any = {
    "selector": lambda name: f"files/{name}",
    "lacks": {"exception_that_escapes": "it ends the server, not the run"},
}


class TestPydanticAI(Contract):
    framework = "pydantic_ai"
    also = ("mcp",)
    paths = (
        Path("run", build(finish), **RAISED),
        Path("run_sync", build_sync, **RAISED),
        Path("stream", build(stream), chunks=stream_chunks, lacks=STREAMED, **RAISED),
        Path("iter", build(iterate), **RAISED),
        Path("events", build(events), **RAISED),
        Path("history", build(in_history), **RAISED),
        Path(
            "thread",
            build(in_thread),
            lacks={"cancelled": "a thread is waited for"},
            **RAISED,
        ),
        Path("sequential", build(finish, sequential), **RAISED),
        Path("agent_in_tool", build(finish, with_tool), **AROUND_TOOL),
        Path(
            "output_function",
            build(finish, with_output_function),
            around=("hand_off",),
            subagent="hand_off",
            refusals="raised",
            lacks=TYPED,
            **RAISED,
        ),
        Path(
            "prefixed",
            build(finish, prefixed),
            selector=lambda name: f"ns_{name}",
            tool_name=lambda name: f"ns_{name}",
            **RAISED,
        ),
        Path(
            "renamed",
            build(finish, renamed),
            selector=lambda name: f"my_{name}",
            tool_name=lambda name: f"my_{name}",
            **RAISED,
        ),
        Path("dynamic", build(finish, dynamic), **RAISED),
        Path("dispatched", build(finish, dispatched), around=("play",), lacks=PLAYED, **RAISED),
        Path("direct_call", build_direct, has_run=False, has_model=False, **RAISED),
        Path("mcp", build_mcp(), **FILES),
        Path("mcp_prefixed", build_mcp("fs"), **FILES),
        Path(
            "realtime",
            build_realtime(tools_of) if build_realtime is not None else build_direct,
            skip=REALTIME,
            has_model=False,
            refusals="raised",
            lacks=REALTIME_LACKS,
            **RAISED,
        ),
        Path("approval", build(approving, with_approval), pauses=True, **RAISED),
    )
