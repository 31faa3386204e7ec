"""The OpenAI Agents SDK: contract on every path, built-in tools, approvals, attacks."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import importlib.metadata
import itertools
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

pytest.importorskip("agents")

import agents
from agents.agent import MCPConfig
from agents.mcp.server import _MCPServerWithClientSession
from agents.tool import FunctionTool
from agents.tool_context import ToolContext

from otelhooks.frameworks.openai_agents.scripted import ScriptedModel
from tests.frameworks.contract import ANSWER, Contract, Path, World

try:
    from agents.realtime import RealtimeAgent, RealtimeRunner
    from agents.realtime.model import RealtimeModel
    from agents.realtime.model_events import RealtimeModelToolCallEvent
    from agents.realtime.model_inputs import RealtimeModelSendToolOutput
except ModuleNotFoundError as missing:
    REALTIME, RealtimeModel = f"realtime sessions need {missing.name}", object
else:
    REALTIME = ""

VERSION = tuple(int(part) for part in importlib.metadata.version("openai-agents").split(".")[:2])
PREFIX = "" if "include_server_in_tool_names" in MCPConfig.__annotations__ else "no prefixes yet"
SWALLOWED = (
    {"exception_that_escapes": "a stream of this version swallows it"} if VERSION < (0, 11) else {}
)
_ids = itertools.count(1)


@pytest.fixture(autouse=True)
def no_native_tracing() -> None:
    """Keep the SDK's own tracing from looking for somewhere to send."""
    agents.set_tracing_disabled(True)


# -- tools ------------------------------------------------------------------------------------


def tools_of(world: World) -> list[Any]:
    """Return the world's tools as the decorator makes them."""

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

    return [agents.function_tool(one) for one in (danger, safe, broken, slow)]


def raw_tools_of(world: World, kind: Any = FunctionTool) -> list[Any]:
    """Return the world's tools with functions of their own, whose exceptions are not caught."""

    def make(name: str) -> Any:
        async def invoke(context: Any, text: str) -> Any:
            value = getattr(world, name)(**json.loads(text))
            return await value if asyncio.iscoroutine(value) else value

        return kind(
            name=name,
            description=name,
            params_json_schema={"type": "object", "properties": {}},
            on_invoke_tool=invoke,
            strict_json_schema=False,
        )

    return [make(name) for name in ("danger", "safe", "broken", "slow")]


def agent_of(world: World, tools: Any = tools_of, **settings: Any) -> Any:
    """Return an agent that plays the world's script."""
    return agents.Agent(
        name="worker", model=ScriptedModel(world.next), tools=tools(world), **settings
    )


def outer_of(*steps: Any, **settings: Any) -> Any:
    """Return an agent that says given steps."""
    left = list(steps)
    return agents.Agent(name="outer", model=ScriptedModel(lambda shown: left.pop(0)), **settings)


# -- paths ------------------------------------------------------------------------------------


async def finish(agent: Any, prompt: Any, **options: Any) -> Any:
    """Run an agent to its answer."""
    return (await agents.Runner.run(agent, prompt, **options)).final_output


async def stream(agent: Any, prompt: Any, **options: Any) -> Any:
    """Run an agent to its answer, with a consumer that reads all events."""
    result = agents.Runner.run_streamed(agent, prompt, **options)
    async for _ in result.stream_events():
        pass
    return result.final_output


def build(way: Any, make: Any = agent_of, **options: Any) -> Any:
    """Build a path: an agent, and a way to run it."""

    def built(world: World) -> Any:
        agent = make(world)

        async def run(prompt: str) -> Any:
            return await way(agent, prompt, **options)

        return run

    return built


def build_sync(world: World) -> Any:
    agent = agent_of(world)

    def run(prompt: str) -> Any:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            return agents.Runner.run_sync(agent, prompt).final_output
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    return run


def with_tool(world: World) -> Any:
    """Return an agent whose tool is the agent that plays the script."""
    inner = agent_of(world).as_tool("ask_worker", "Ask the worker.")
    return outer_of((("ask_worker", {"input": "please begin"}),), ANSWER, tools=[inner])


def with_streamed_tool(world: World) -> Any:
    """Return the same with a tool whose agent streams."""

    async def consume(event: Any) -> None:
        pass

    inner = agent_of(world).as_tool("ask_worker", "Ask the worker.", on_stream=consume)
    return outer_of((("ask_worker", {"input": "please begin"}),), ANSWER, tools=[inner])


def with_handoff(world: World) -> Any:
    """Return an agent that hands off to the agent that plays the script."""
    return outer_of((("transfer_to_worker", {}),), handoffs=[agent_of(world)])


def in_session(way: Any) -> Any:
    """Build a path with a session that keeps the conversation."""

    def built(world: World) -> Any:
        agent = agent_of(world)

        async def run(prompt: str) -> Any:
            session = agents.SQLiteSession(f"conversation-{next(_ids)}")
            try:
                return await way(agent, prompt, session=session)
            finally:
                session.close()

        return run

    return built


def build_direct(world: World) -> Any:
    """Build a path on which user code calls the tools' functions itself."""
    tools = {tool.name: tool for tool in tools_of(world)}

    async def run(prompt: str) -> str:
        async def call(name: str, args: dict[str, Any]) -> Any:
            context = ToolContext(
                None, tool_name=name, tool_call_id=f"call_{next(_ids)}", tool_arguments=""
            )
            return await tools[name].on_invoke_tool(context, json.dumps(args))

        return await world.aplay(call, prompt)

    return run


def with_approval(world: World) -> Any:
    """Return an agent each of whose calls waits for the user's approval."""
    agent = agent_of(world)
    for tool in agent.tools:
        tool.needs_approval = True
    return agent


async def approving(agent: Any, prompt: Any, until: Any) -> Any:
    """Run an agent, and approve whatever it asks for, until it is done."""
    result = await until(agent, prompt)
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            state.approve(item)
        result = await until(agent, state)
    return result.final_output


async def until_pause(agent: Any, prompt: Any) -> Any:
    return await agents.Runner.run(agent, prompt)


async def streamed_until_pause(agent: Any, prompt: Any) -> Any:
    result = agents.Runner.run_streamed(agent, prompt)
    async for _ in result.stream_events():
        pass
    return result


# -- MCP --------------------------------------------------------------------------------------


class MemoryServer(_MCPServerWithClientSession):
    """An MCP server in this process, connected as the SDK connects to any other."""

    def __init__(self, bodies: Iterable[Any], name: str = "files") -> None:
        super().__init__(cache_tools_list=False, client_session_timeout_seconds=5)
        self._bodies = bodies
        self._name = name

    def create_streams(self) -> Any:
        return self._streams()

    @contextlib.asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        import anyio
        from mcp.shared.memory import create_client_server_memory_streams

        try:
            from mcp.server.mcpserver import MCPServer as HighLevel
        except ImportError:
            from mcp.server.fastmcp import FastMCP as HighLevel
        server = HighLevel("what the server says")
        for body in self._bodies:
            server.add_tool(body, name=body.__name__)
        low = getattr(server, "_mcp_server", None) or server._lowlevel_server
        async with create_client_server_memory_streams() as (ours, theirs):
            async with anyio.create_task_group() as group:
                options = low.create_initialization_options()
                group.start_soon(low.run, *theirs, options)
                yield ours
                group.cancel_scope.cancel()

    @property
    def name(self) -> str:
        return self._name


def build_mcp(prefixed: bool = False) -> Any:
    def built(world: World) -> Any:
        settings: Any = {"mcp_config": {"include_server_in_tool_names": True}} if prefixed else {}
        rename = (lambda name: f"mcp_files__{name}") if prefixed else (lambda name: name)

        def next_step(shown: str) -> Any:
            step = world.next(shown)
            return step if isinstance(step, str) else [(rename(t), args) for t, args in step]

        async def run(prompt: str) -> Any:
            bodies = (world.danger, world.safe, world.broken, world.slow)
            async with MemoryServer(bodies) as server:
                agent = agents.Agent(
                    name="worker",
                    model=ScriptedModel(next_step),
                    mcp_servers=[server],
                    **settings,
                )
                return await finish(agent, prompt)

        return run

    return built


# -- realtime ---------------------------------------------------------------------------------


class ScriptedRealtimeModel(RealtimeModel):
    """A realtime model that asks for the script's calls one step after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._listeners: list[Any] = []
        self._left = 0
        self._shown: list[str] = []
        self._tasks: list[Any] = []
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def connect(self, options: Any) -> None:
        pass

    def add_listener(self, listener: Any) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: Any) -> None:
        self._listeners.remove(listener)

    async def send_event(self, event: Any) -> None:
        if isinstance(event, RealtimeModelSendToolOutput):
            self._shown.append(event.output)
            self._left -= 1
            if not self._left:
                self._tasks.append(asyncio.create_task(self.step("\n".join(self._shown))))
                self._shown = []

    async def send_event_if(self, event: Any, send_if: Any) -> bool:
        if not send_if():
            return False
        await self.send_event(event)
        return True

    async def step(self, shown: str) -> None:
        step = self._world.next(shown)
        if isinstance(step, str):
            self.answer.set_result(step)
            return
        self._left = len(step)
        for name, args in step:
            event = RealtimeModelToolCallEvent(
                name=name, call_id=f"call_{next(_ids)}", arguments=json.dumps(args)
            )
            for listener in list(self._listeners):
                await listener.on_event(event)

    async def close(self) -> None:
        pass


def build_realtime(world: World) -> Any:
    agent = RealtimeAgent(name="worker", tools=tools_of(world))

    async def run(prompt: str) -> Any:
        model = ScriptedRealtimeModel(world)
        session = await RealtimeRunner(agent, model=model).run()
        async with session:
            await model.step(prompt)
            return await asyncio.wait_for(model.answer, 10)

    return run


# -- subclasses -------------------------------------------------------------------------------


class Overriding(FunctionTool):
    """A tool whose class defines the field's name itself, over the SDK's."""

    def __init__(self, **fields: Any) -> None:
        self._body = fields.pop("on_invoke_tool")
        for name, value in fields.items():
            setattr(self, name, value)
        for field in dataclasses.fields(FunctionTool):
            if field.name not in (*fields, "on_invoke_tool") and field.init:
                has_default = field.default is not dataclasses.MISSING
                setattr(self, field.name, field.default if has_default else None)

    @property
    def on_invoke_tool(self) -> Any:  # type: ignore[override]
        return self._body


def copied_tools_of(world: World) -> list[Any]:
    """Return copies of tools, made in each of the ways that there are."""
    danger, safe, *others = tools_of(world)
    return [copy.copy(danger), dataclasses.replace(safe), *others]


# -- streams ----------------------------------------------------------------------------------


def stream_chunks(world: World) -> Any:
    agent = agent_of(world)

    async def chunks(prompt: str) -> AsyncIterator[str]:
        result = agents.Runner.run_streamed(agent, prompt)
        events = result.stream_events()
        async with contextlib.aclosing(events):
            async for event in events:
                if event.type == "raw_response_event":
                    yield getattr(event.data, "delta", "")
                elif event.type == "run_item_stream_event":
                    yield str(event.item.raw_item)

    return chunks


FILES: Any = {
    "selector": lambda name: f"files/{name}",
    "lacks": {"exception_that_escapes": "it ends the server, not the run"},
}
AROUND_TOOL: Any = {"around": ("ask_worker",), "subagent": "ask_worker"}


class TestOpenAIAgents(Contract):
    framework = "openai_agents"
    also = ("mcp",)
    paths = (
        Path("run", build(finish)),
        Path("run_sync", build_sync),
        Path("stream", build(stream), chunks=stream_chunks, lacks=SWALLOWED),
        Path("as_tool", build(finish, with_tool), **AROUND_TOOL),
        Path("as_tool_of_a_stream", build(stream, with_tool), **AROUND_TOOL, lacks=SWALLOWED),
        Path("streamed_as_tool", build(finish, with_streamed_tool), **AROUND_TOOL, lacks=SWALLOWED),
        Path("handoff", build(finish, with_handoff), around=("transfer_to_worker",)),
        Path(
            "handoff_in_a_stream",
            build(stream, with_handoff),
            around=("transfer_to_worker",),
            lacks=SWALLOWED,
        ),
        Path("session", in_session(finish)),
        Path("session_in_a_stream", in_session(stream), lacks=SWALLOWED),
        Path("approval", build(approving, with_approval, until=until_pause), pauses=True),
        Path(
            "approval_in_a_stream",
            build(approving, with_approval, until=streamed_until_pause),
            pauses=True,
            lacks=SWALLOWED,
        ),
        Path(
            "raw_function",
            build(finish, lambda world: agent_of(world, raw_tools_of)),
            errors="raised",
        ),
        Path("copies", build(finish, lambda world: agent_of(world, copied_tools_of))),
        Path(
            "subclass",
            build(finish, lambda world: agent_of(world, lambda w: raw_tools_of(w, Overriding))),
            errors="raised",
        ),
        Path("mcp", build_mcp(), **FILES),
        Path("mcp_prefixed", build_mcp(True), skip=PREFIX, **FILES),
        Path("direct_call", build_direct, has_run=False, has_model=False),
        Path(
            "realtime",
            build_realtime,
            skip=REALTIME,
            has_run=False,
            has_model=False,
            lacks={"exception_that_escapes": "it ends a task of the session that nobody waits for"},
        ),
    )
