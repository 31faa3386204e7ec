"""Haystack: contract on every path."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("haystack.components.agents")

import haystack.tools
from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.agents.state import State
from haystack.components.generators.chat import FallbackChatGenerator, MockChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.hooks import hook
from haystack.hooks.human_in_the_loop import (
    AlwaysAskPolicy,
    BlockingConfirmationStrategy,
    ConfirmationHook,
)
from haystack.hooks.human_in_the_loop.dataclasses import ConfirmationUIResult
from haystack.tools import (
    ComponentTool,
    PipelineTool,
    Tool,
    Toolset,
    create_tool_from_function,
)
from haystack.tools.errors import ToolInvocationError
from haystack_integrations.tools.mcp import MCPTool, MCPToolset
from haystack_integrations.tools.mcp.mcp_tool import MCPClient, MCPServerInfo

from otelhooks import hooks, policy, types
from otelhooks.frameworks.haystack.scripted import scripted_model
from tests.frameworks.contract import ANSWER, Contract, Path, World
from tests.frameworks.haystack_components import Safe, Unsafe, stateful
from tests.frameworks.mcp_world import make_server

AgentTool: Any = getattr(haystack.tools, "AgentTool", None)
BEGIN = "please begin"


def user(text: str) -> list[ChatMessage]:
    return [ChatMessage.from_user(text)]


def answer_of(result: Any) -> Any:
    return result["last_message"].text


def tools_of(world: World, **options: Any) -> list[Any]:
    """Return the world's tools: plain functions, and a coroutine function."""
    plain = world.danger, world.safe, world.broken
    return [create_tool_from_function(one, **options) for one in (*plain, world.slow)]


def async_tools_of(world: World) -> list[Any]:
    """Return the world's tools, all of them coroutine functions."""

    async def danger(path: str) -> str:
        """Remove a path."""
        return world.danger(path)

    async def safe(x: int) -> str:
        """Read number x."""
        return world.safe(x)

    async def broken(x: int) -> str:
        """Fail."""
        return world.broken(x)

    return [create_tool_from_function(one) for one in (danger, safe, broken, world.slow)]


def agent_of(world: World, **settings: Any) -> Any:
    """Return an agent that plays the world's script."""
    settings.setdefault("tools", tools_of(world))
    settings.setdefault("chat_generator", scripted_model(world.next))
    return Agent(**settings)


def outer_of(*steps: Any, **settings: Any) -> Any:
    """Return an agent that says given steps."""
    left = list(steps)
    return Agent(chat_generator=scripted_model(lambda shown: left.pop(0)), **settings)


def build(make: Callable[[World], Any] = agent_of, **options: Any) -> Any:
    """Return what builds a path on which `Agent.run_async` runs."""

    def built(world: World) -> Any:
        agent = make(world)

        async def run(prompt: str) -> Any:
            return answer_of(await agent.run_async(user(prompt), **options))

        return run

    return built


def build_sync(make: Callable[[World], Any] = agent_of, **options: Any) -> Any:
    """Return what builds a path on which `Agent.run` runs."""

    def built(world: World) -> Any:
        agent = make(world)
        return lambda prompt: answer_of(agent.run(user(prompt), **options))

    return built


# -- kinds of tools ---------------------------------------------------------------------------


def with_async_tools(world: World) -> Any:
    return agent_of(world, tools=async_tools_of(world))


def with_toolset(world: World) -> Any:
    return agent_of(world, tools=[Toolset(tools_of(world))])


def with_handlers(world: World) -> Any:
    """Return an agent whose tools have handlers of their results."""
    options: Any = {"outputs_to_string": {"handler": lambda value: f"<{value}>"}}
    return agent_of(world, tools=tools_of(world, **options))


def with_state(world: World) -> Any:
    """Return an agent whose tools read and write the run's state."""

    danger, safe = stateful(world)
    found = {"outputs_to_state": {"found": {"source": "found"}}}
    tools = [
        create_tool_from_function(danger),
        create_tool_from_function(safe, inputs_from_state={"owner": "owner"}, **found),
        create_tool_from_function(world.broken),
        create_tool_from_function(world.slow),
    ]
    return agent_of(
        world, tools=tools, state_schema={"owner": {"type": str}, "found": {"type": str}}
    )


def with_components(world: World) -> Any:
    """Return an agent two of whose tools are components, one of them in a pipeline."""
    pipeline = Pipeline()
    pipeline.add_component("safe", Safe(world))
    mapping: Any = {"input_mapping": {"x": ["safe.x"]}, "output_mapping": {"safe.text": "text"}}
    tools = [
        ComponentTool(Unsafe(world), name="danger", description="Remove a path."),
        PipelineTool(pipeline, name="safe", description="Read number x.", **mapping),
        *tools_of(world)[2:],
    ]
    return agent_of(world, tools=tools)


class Overriding(Tool):
    """A tool that has methods of its own, and comes to those that it overrides."""

    def invoke(self, **given: Any) -> Any:
        return super().invoke(**given)

    async def invoke_async(self, **given: Any) -> Any:
        return await super().invoke_async(**given)


def with_overrides(world: World) -> Any:
    fields = dataclasses.fields(Tool)
    tools = [
        Overriding(**{field.name: getattr(tool, field.name) for field in fields})
        for tool in tools_of(world)
    ]
    return agent_of(world, tools=tools)


def with_agent_tool(world: World) -> Any:
    """Return an agent with a tool that is the agent which plays the script."""
    tool = AgentTool(agent_of(world), name="ask_worker", description="Ask the worker.")
    asked = {"messages": [{"role": "user", "content": BEGIN}]}
    return outer_of((("ask_worker", asked),), ANSWER, tools=[tool])


def with_agent_component(world: World) -> Any:
    """Return the same with a tool of any component."""
    tool = ComponentTool(
        agent_of(world),
        name="ask_worker",
        description="Ask the worker.",
        outputs_to_string={"source": "last_message", "handler": lambda message: message.text},
        parameters={"type": "object", "properties": {"messages": {"type": "array"}}},
    )
    asked = {"messages": [{"role": "user", "content": [{"text": BEGIN}]}]}
    return outer_of((("ask_worker", asked),), ANSWER, tools=[tool])


def raising(world: World) -> Any:
    return agent_of(world, raise_on_tool_invocation_failure=True)


def with_fallback(world: World) -> Any:
    """Return an agent whose first model is out of order."""

    def fail(shown: str) -> Any:
        raise RuntimeError("the model is down")

    models: Any = [scripted_model(fail), scripted_model(world.next)]
    return agent_of(world, chat_generator=FallbackChatGenerator(models))


# -- hooks of the framework -------------------------------------------------------------------


def with_hook(world: World) -> Any:
    """Return an agent whose model asks for other names, which a hook puts right."""

    @hook
    def rename(state: State) -> None:
        *past, last = state.data["messages"]
        calls = [
            dataclasses.replace(call, tool_name=call.tool_name.removeprefix("my_"))
            for call in last.tool_calls
        ]
        state.data["messages"] = [*past, dataclasses.replace(last, _content=calls)]

    def next_step(shown: str) -> Any:
        step = world.next(shown)
        return step if isinstance(step, str) else [(f"my_{name}", args) for name, args in step]

    return agent_of(
        world, chat_generator=scripted_model(next_step), hooks={"before_tool": [rename]}
    )


class Approving:
    """A person who confirms every call."""

    def get_user_confirmation(self, name: str, description: str, params: Any) -> Any:
        return ConfirmationUIResult(action="confirm")


def with_confirmation(world: World) -> Any:
    strategy = BlockingConfirmationStrategy(
        confirmation_policy=AlwaysAskPolicy(), confirmation_ui=Approving()
    )
    return agent_of(world, hooks={"before_tool": [ConfirmationHook({"*": strategy})]})


# -- pipelines, and tools that user code calls --------------------------------------------------


def pipeline_of(world: World) -> Any:
    pipeline = Pipeline()
    pipeline.add_component("worker", agent_of(world))
    return pipeline


def build_pipeline(world: World) -> Any:
    pipeline = pipeline_of(world)
    return lambda prompt: answer_of(pipeline.run({"messages": user(prompt)})["worker"])


def build_async_pipeline(world: World) -> Any:
    pipeline = pipeline_of(world)

    async def run(prompt: str) -> Any:
        return answer_of((await pipeline.run_async({"messages": user(prompt)}))["worker"])

    return run


def build_direct(world: World) -> Any:
    tools = {tool.name: tool for tool in tools_of(world)}

    def call(name: str, args: dict[str, Any]) -> Any:
        try:
            return tools[name].invoke(**args)
        except ToolInvocationError as error:
            return error

    return lambda prompt: world.play(call, prompt)


def build_async_direct(world: World) -> Any:
    tools = {tool.name: tool for tool in tools_of(world)}

    async def call(name: str, args: dict[str, Any]) -> Any:
        try:
            return await tools[name].invoke_async(**args)
        except ToolInvocationError as error:
            return error

    async def run(prompt: str) -> str:
        return await world.aplay(call, prompt)

    return run


# -- MCP --------------------------------------------------------------------------------------


class InProcess(MCPClient):
    """A connection with a server that is an object."""

    def __init__(self, server: Any) -> None:
        super().__init__()
        self._server = server

    async def connect(self) -> Any:
        from mcp.shared.memory import create_client_server_memory_streams

        low = getattr(self._server, "_mcp_server", None) or self._server._lowlevel_server
        opened = create_client_server_memory_streams()
        ours, theirs = await self.exit_stack.enter_async_context(opened)
        task = asyncio.create_task(low.run(*theirs, low.create_initialization_options()))
        self.exit_stack.callback(task.cancel)
        return await self._initialize_session_with_transport(ours, "a server in this process")


@dataclasses.dataclass
class Server(MCPServerInfo):
    """Where such a server is."""

    world: Any

    def create_client(self) -> MCPClient:
        return InProcess(make_server(self.world))


NAMES = ("danger", "safe", "broken", "slow")


def build_mcp_toolset(world: World) -> Any:
    """Build a path that closes its connection: a collected one may wait for its own thread."""
    tools = MCPToolset(Server(world))
    agent = agent_of(world, tools=tools)

    def run(prompt: str) -> Any:
        with contextlib.closing(tools):
            return answer_of(agent.run(user(prompt)))

    return run


def build_mcp_tools(world: World) -> Any:
    tools = [MCPTool(name, Server(world)) for name in NAMES]
    agent = agent_of(world, tools=tools)

    async def run(prompt: str) -> Any:
        with contextlib.ExitStack() as stack:
            for tool in tools:
                stack.callback(tool.close)
            return answer_of(await agent.run_async(user(prompt)))

    return run


# -- streams ----------------------------------------------------------------------------------


def stream_chunks(world: World) -> Any:
    """Return what gives the texts while the run goes on; it is cancelled when its reader leaves."""
    agent = agent_of(world)

    async def chunks(prompt: str) -> AsyncIterator[str]:
        texts: asyncio.Queue[str | None] = asyncio.Queue(1)

        async def put(chunk: Any) -> None:
            if chunk.content:
                await texts.put(chunk.content)

        async def run() -> None:
            try:
                await agent.run_async(user(prompt), streaming_callback=put)
            finally:
                with contextlib.suppress(asyncio.QueueFull):
                    texts.put_nowait(None)

        task = asyncio.create_task(run())
        try:
            while not task.done() or not texts.empty():
                text = await texts.get()
                if text is None:
                    break
                yield text
            await task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    return chunks


def sync_chunks(world: World) -> Any:
    """Return what gives the texts when the run is over: a callback cannot be left early."""
    agent = agent_of(world)

    def chunks(prompt: str) -> Iterator[str]:
        texts: list[str] = []
        agent.run(user(prompt), streaming_callback=lambda chunk: texts.append(chunk.content))
        yield from filter(None, texts)

    return chunks


async def ignored(chunk: Any) -> None:
    """Read a chunk of a stream."""


AROUND: Any = {"around": ("ask_worker",), "subagent": "ask_worker"}
MCP: Any = {
    "selector": lambda name: f"*/{name}",
    "lacks": {
        "exception_that_escapes": "it ends the server, not the run",
        "cancelled": "a thread is waited for",
    },
}
STATE: Any = {"owner": "somebody"}
NEEDS_AGENT_TOOL = "" if AgentTool is not None else "needs 3.1"


class TestHaystack(Contract):
    framework = "haystack"
    also = ("mcp",)
    paths = (
        Path("run", build_sync()),
        Path("run_async", build()),
        Path("async_tools", build(with_async_tools)),
        Path("stream", build(streaming_callback=ignored), chunks=stream_chunks, cancels="a task"),
        Path("sync_stream", build_sync(streaming_callback=print), chunks=sync_chunks),
        Path("toolset", build_sync(with_toolset)),
        Path("handlers", build(with_handlers)),
        Path("state", build_sync(with_state, **STATE)),
        Path("async_state", build(with_state, **STATE)),
        Path("components", build_sync(with_components)),
        Path("async_components", build(with_components)),
        Path("overriding", build_sync(with_overrides)),
        Path("async_overriding", build(with_overrides)),
        Path("agent_tool", build_sync(with_agent_tool), skip=NEEDS_AGENT_TOOL, **AROUND),
        Path("async_agent_tool", build(with_agent_tool), skip=NEEDS_AGENT_TOOL, **AROUND),
        Path("agent_component", build(with_agent_component), **AROUND),
        Path("raising", build_sync(raising), errors="raised"),
        Path("async_raising", build(raising), errors="raised"),
        Path("fallback", build_sync(with_fallback)),
        Path("async_fallback", build(with_fallback)),
        Path("hook", build(with_hook)),
        Path("confirmation", build_sync(with_confirmation)),
        Path("async_confirmation", build(with_confirmation)),
        Path("pipeline", build_pipeline),
        Path("async_pipeline", build_async_pipeline),
        Path("direct", build_direct, has_run=False, has_model=False),
        Path("async_direct", build_async_direct, has_run=False, has_model=False),
        Path("mcp_toolset", build_mcp_toolset, **MCP),
        Path("mcp_tool", build_mcp_tools, **MCP),
    )


def test_a_tool_may_name_its_arguments_as_it_likes(with_rules):
    """An argument with the name of one of ours is the tool's; a State is not shown to rules."""
    seen: list[Any] = []

    def look(args: dict[str, Any]) -> bool:
        seen.append(args)
        return False

    with_rules(policy.deny("use", when=look), frameworks=["haystack"])

    def body(tool: str, wrapped: int, state: Any) -> Any:
        return tool, wrapped, state.data

    use = Tool("use", "", {"type": "object", "properties": {}}, body)
    given = {"tool": "hammer", "wrapped": 1}
    assert use.invoke(**given, state=State({}, {})) == ("hammer", 1, {})
    assert seen == [given]


def test_a_pipeline_is_written_down_as_before(with_rules):
    """What an agent holds keeps its class: stand-ins live within a step."""
    agent = agent_of(World(), chat_generator=MockChatGenerator("done"), tools=[])
    before = agent.to_dict()
    with_rules(policy.deny("danger"), frameworks=["haystack"])
    assert answer_of(agent.run(user(BEGIN))) == "done"
    assert agent.to_dict() == before


@pytest.mark.parametrize("is_async", [False, True])
def test_a_chat_generator_in_a_pipeline_is_refused_as_in_an_agent(with_rules, is_async):
    @hooks.pre_model_call
    def refuse(call: types.ModelCall) -> types.HookResult:
        return types.HookResult(allow=False, message="Not that.")

    with_rules(hooks=[refuse], frameworks=["haystack"])
    pipeline = Pipeline()
    pipeline.add_component("model", MockChatGenerator("done"))
    given = {"messages": user(BEGIN)}
    result = asyncio.run(pipeline.run_async(given)) if is_async else pipeline.run(given)
    assert result["model"]["replies"][0].text == "Not that."
