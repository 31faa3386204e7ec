"""Strands: contract on every path."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
from collections.abc import AsyncIterator
from typing import Any

import anyio.to_thread
import pytest

pytest.importorskip("strands")

from strands import Agent, tool
from strands.multiagent import GraphBuilder, Swarm
from strands.tools.executors import SequentialToolExecutor
from strands.tools.mcp import MCPClient
from strands.tools.tools import PythonAgentTool
from strands.types.tools import AgentTool

from otelhooks.errors import Denied
from otelhooks.frameworks.strands.scripted import scripted_model
from tests.frameworks.contract import ANSWER, Contract, Path, World
from tests.frameworks.mcp_world import make_server

VERSION = tuple(map(int, importlib.metadata.version("strands-agents").split(".")[:2]))


def tools_of(world: World) -> list[Any]:
    """Return the world's tools, plain functions and coroutines."""

    @tool
    def danger(path: str) -> str:
        """Remove a path."""
        return world.danger(path)

    @tool
    async def safe(x: int) -> str:
        """Read number x."""
        return world.safe(x)

    @tool
    def broken(x: int) -> str:
        """Fail."""
        return world.broken(x)

    @tool
    async def slow(x: int) -> str:
        """Wait."""
        return await world.slow(x)

    return [danger, safe, broken, slow]


def generators_of(world: World) -> list[Any]:
    """Return the same as tools that stream what they do."""

    def streaming(body: Any) -> Any:
        async def stream(**args: Any) -> AsyncIterator[str]:
            yield "working"
            result = body(**args)
            yield await result if asyncio.iscoroutine(result) else result

        functools.update_wrapper(stream, body)
        return tool(stream)

    return [streaming(one) for one in (world.danger, world.safe, world.broken, world.slow)]


BODIES = ("danger", "safe", "broken", "slow")
TYPES = {"path": "string", "x": "integer"}


def spec_of(name: str) -> Any:
    args = "path" if name == "danger" else "x"
    schema = {"type": "object", "properties": {args: {"type": TYPES[args]}}, "required": [args]}
    return {"name": name, "description": "A tool.", "inputSchema": {"json": schema}}


def modules_of(world: World) -> list[Any]:
    """Return the same in the form of modules: a specification and a function of a tool use."""

    def function(name: str) -> Any:
        async def run(tool_use: Any, **state: Any) -> Any:
            found = getattr(world, name)(**tool_use["input"])
            text = await found if asyncio.iscoroutine(found) else found
            content = [{"text": text}]
            return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": content}

        return run

    return [PythonAgentTool(name, spec_of(name), function(name)) for name in BODIES]


class Own(AgentTool):
    """A class of tools outside the SDK, whose last item is a plain result."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__()
        self._world, self._name = world, name

    tool_name = property(lambda self: self._name)
    tool_spec = property(lambda self: spec_of(self._name))
    tool_type = "own"

    async def stream(self, tool_use: Any, invocation_state: Any, **further: Any) -> Any:
        yield {"note": "working"}
        found = getattr(self._world, self._name)(**tool_use["input"])
        text = await found if asyncio.iscoroutine(found) else found
        content = [{"text": text}]
        yield {"toolUseId": tool_use["toolUseId"], "status": "success", "content": content}


class Further(Own):
    """One whose method calls the overridden one."""

    async def stream(self, tool_use: Any, invocation_state: Any, **further: Any) -> Any:
        async for event in super().stream(tool_use, invocation_state, **further):
            yield event


def agent_of(world: World, tools: Any = None, **settings: Any) -> Agent:
    """Return an agent that plays the world's script."""
    settings.setdefault("name", "worker")
    return Agent(
        scripted_model(world.next),
        tools=tools_of(world) if tools is None else tools,
        callback_handler=None,
        retry_strategy=None,
        **settings,
    )


def outer_of(*steps: Any, **settings: Any) -> Agent:
    """Return an agent that says given steps."""
    left = list(steps)
    settings.setdefault("name", "outer")
    model = scripted_model(lambda shown: left.pop(0))
    return Agent(model, callback_handler=None, retry_strategy=None, **settings)


async def finish(agent: Any, prompt: Any) -> Any:
    return str(await agent.invoke_async(prompt)).strip()


async def in_blocks(agent: Any, prompt: Any) -> Any:
    return await finish(agent, [{"text": prompt}])


async def in_messages(agent: Any, prompt: Any) -> Any:
    return await finish(agent, [{"role": "user", "content": [{"text": prompt}]}])


async def in_history(agent: Any, prompt: Any) -> Any:
    agent.messages.append({"role": "user", "content": [{"text": prompt}]})
    return await finish(agent, None)


async def stream(agent: Any, prompt: Any) -> Any:
    answer = None
    async for event in agent.stream_async(prompt):
        if "result" in event:
            answer = str(event["result"]).strip()
    return answer


def call(agent: Any, prompt: Any) -> Any:
    return str(agent(prompt)).strip()


async def in_thread(agent: Any, prompt: Any) -> Any:
    return await anyio.to_thread.run_sync(call, agent, prompt)


async def of_nodes(workflow: Any, prompt: Any) -> Any:
    result = await workflow.invoke_async(prompt)
    *_, last = [one.result for one in result.results.values()]
    if isinstance(last, Exception):
        raise last
    return str(last).strip()


def build(way: Any, make: Any = agent_of) -> Any:
    def built(world: World) -> Any:
        agent = make(world)

        async def run(prompt: str) -> Any:
            return await way(agent, prompt)

        return run

    return built


def build_call(world: World) -> Any:
    agent = agent_of(world)
    return lambda prompt: call(agent, prompt)


def with_tools(make: Any) -> Any:
    return lambda world: agent_of(world, make(world))


def of_class(cls: Any) -> Any:
    return with_tools(lambda world: [cls(world, name) for name in BODIES])


def sequential(world: World) -> Any:
    return agent_of(world, tool_executor=SequentialToolExecutor())


def with_tool(world: World) -> Any:
    """Return an agent with a tool that runs the agent which plays the script."""
    inner = agent_of(world)

    @tool
    async def ask_worker(task: str) -> str:
        """Ask the worker."""
        return str(await inner.invoke_async(task)).strip()

    return outer_of((("ask_worker", {"task": "please begin"}),), ANSWER, tools=[ask_worker])


def as_tool(world: World) -> Any:
    """Return an agent with the agent that plays the script as a tool."""
    inner = agent_of(world).as_tool(name="ask_worker")
    return outer_of((("ask_worker", {"input": "please begin"}),), ANSWER, tools=[inner])


def graph(world: World) -> Any:
    builder = GraphBuilder()
    builder.add_node(agent_of(world), "worker")
    builder.set_max_node_executions(10)
    return builder.build()


def swarm(world: World) -> Any:
    """Return a swarm whose first agent hands over to the one that plays the script."""
    worker = agent_of(world)
    handover = (("handoff_to_agent", {"agent_name": "worker", "message": "go ahead"}),)
    return Swarm([outer_of(handover, "over"), worker])


def hooked(world: World) -> Any:
    """Return an agent whose hook has the model's calls of one name go to the tools of another."""
    from strands.hooks import BeforeToolCallEvent

    tools = {one.tool_name: one for one in tools_of(world)}

    def redirect(event: BeforeToolCallEvent) -> None:
        name = event.tool_use["name"].removeprefix("my_")
        event.selected_tool = tools[name]
        event.tool_use = {**event.tool_use, "name": name}

    decoys = [PythonAgentTool(f"my_{name}", spec_of(f"my_{name}"), None) for name in BODIES]

    def renamed(shown: str) -> Any:
        step = world.next(shown)
        return step if isinstance(step, str) else [(f"my_{name}", args) for name, args in step]

    agent = Agent(scripted_model(renamed), tools=decoys, name="worker", callback_handler=None)
    agent.hooks.add_callback(BeforeToolCallEvent, redirect)
    return agent


def build_direct(world: World) -> Any:
    """Build a path on which user code calls an agent's tools."""
    agent = Agent(scripted_model(world.next), tools=tools_of(world), callback_handler=None)

    def run(prompt: str) -> str:
        def call(name: str, args: dict[str, Any]) -> Any:
            return getattr(agent.tool, name)(**args)["content"][0]["text"]

        return world.play(call, prompt)

    return run


def build_functions(world: World) -> Any:
    """Build a path on which user code calls the functions that it decorated."""
    tools = {one.tool_name: one for one in tools_of(world)}

    async def run(prompt: str) -> str:
        async def call(name: str, args: dict[str, Any]) -> Any:
            try:
                found = tools[name](**args)
                return await found if asyncio.iscoroutine(found) else found
            except Denied as denied:
                return str(denied)

        return await world.aplay(call, prompt)

    return run


@contextlib.asynccontextmanager
async def in_process(server: Any) -> Any:
    """Give the streams of a server that is an object."""
    from mcp.shared.memory import create_client_server_memory_streams

    low = getattr(server, "_mcp_server", None) or server._lowlevel_server
    async with create_client_server_memory_streams() as (ours, theirs):
        async with anyio.create_task_group() as group:
            group.start_soon(low.run, *theirs, low.create_initialization_options())
            yield ours
            group.cancel_scope.cancel()


def build_mcp(prefix: str = "") -> Any:
    """Build a path with an MCP server in this process."""

    def built(world: World) -> Any:
        async def run(prompt: str) -> Any:
            client = MCPClient(lambda: in_process(make_server(world)), prefix=prefix or None)
            with client:
                script = scripted_model(named)
                tools = client.list_tools_sync()
                agent = Agent(script, tools=list(tools), name="worker", callback_handler=None)
                return await finish(agent, prompt)

        def named(shown: str) -> Any:
            step = world.next(shown)
            if isinstance(step, str) or not prefix:
                return step
            return [(f"{prefix}_{name}", args) for name, args in step]

        return run

    return built


def build_client(world: World) -> Any:
    """Build a path on which user code calls a server through the framework's client."""

    async def run(prompt: str) -> Any:
        with MCPClient(lambda: in_process(make_server(world))) as client:

            async def call(name: str, args: dict[str, Any]) -> Any:
                result = await client.call_tool_async("call_1", name, args)
                return result["content"][0]["text"]

            return await world.aplay(call, prompt)

    return run


def stream_chunks(world: World) -> Any:
    agent = agent_of(world)

    async def chunks(prompt: str) -> AsyncIterator[str]:
        events = agent.stream_async(prompt)
        async with contextlib.aclosing(events):
            async for event in events:
                if "data" in event:
                    yield event["data"]

    return chunks


LOST: Any = {"exception_that_escapes": "the framework's concurrent executor loses it"}
AROUND_TOOL: Any = {"around": ("ask_worker",), "subagent": "ask_worker", "lacks": LOST}
BY_HAND: Any = {"has_run": False, "has_model": False}
SERVER: Any = {
    "selector": lambda name: f"files/{name}",
    "lacks": {"exception_that_escapes": "it ends the server, not the run"},
}


class TestStrands(Contract):
    framework = "strands"
    also = ("mcp",)
    paths = (
        Path("run", build(finish), lacks=LOST),
        Path("call", build_call, lacks=LOST),
        Path("stream", build(stream), chunks=stream_chunks, lacks=LOST),
        Path("blocks", build(in_blocks), lacks=LOST),
        Path("messages", build(in_messages), lacks=LOST),
        Path("history", build(in_history), lacks=LOST),
        Path("thread", build(in_thread), lacks={**LOST, "cancelled": "a thread is waited for"}),
        Path("sequential", build(finish, sequential)),
        Path("generators", build(finish, with_tools(generators_of)), lacks=LOST),
        Path("modules", build(finish, with_tools(modules_of)), lacks=LOST),
        Path("own_class", build(finish, of_class(Own)), lacks=LOST),
        Path("override", build(finish, of_class(Further)), lacks=LOST),
        Path("hooked", build(finish, hooked), lacks=LOST),
        Path("agent_in_tool", build(finish, with_tool), **AROUND_TOOL),
        Path("agent_as_tool", build(finish, as_tool), **AROUND_TOOL),
        Path("graph", build(of_nodes, graph), lacks=LOST),
        Path("swarm", build(of_nodes, swarm), around=("handoff_to_agent",), lacks=LOST),
        Path("direct_call", build_direct, **BY_HAND),
        Path("functions", build_functions, errors="raised", **BY_HAND),
        Path("mcp", build_mcp(), **SERVER),
        Path("mcp_prefixed", build_mcp("files"), **SERVER),
        Path("mcp_client", build_client, has_run=False, has_model=False, **SERVER),
    )
