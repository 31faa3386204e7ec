"""Google Antigravity SDK: the contract on every path, with the real harness."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("google.antigravity")

from google.antigravity import types
from google.antigravity.tools.tool_runner import ToolRunner

from tests.frameworks.antigravity_world import (
    ask,
    model_of,
    served,
    start,
    started,
    tools_of,
)
from tests.frameworks.contract import ANSWER, Contract, Path, World
from tests.frameworks.mcp_world import make_server

# The SDK's oldest version warns of a field that its own constructor sets.
pytestmark = pytest.mark.filterwarnings("ignore:CapabilitiesConfig.compaction_threshold")


def build_chat(world: World) -> Any:
    tools = tools_of(world)

    async def run(prompt: str) -> str:
        async with started(model_of(world), tools=tools) as agent:
            return await ask(agent, prompt)

    return run


def build_steps(world: World) -> Any:
    """Below `Agent`: a conversation whose steps the application reads itself."""
    tools = tools_of(world)

    async def run(prompt: str) -> str:
        async with started(model_of(world), tools=tools) as agent:
            conversation = agent.conversation
            await conversation.send(prompt)
            said = [step async for step in conversation.receive_steps()]
            return [step.content for step in said if step.is_complete_response][-1]

    return run


def stream_chunks(world: World) -> Any:
    tools = tools_of(world)

    async def chunks(prompt: str) -> AsyncIterator[str]:
        async with started(model_of(world), tools=tools) as agent:
            async with contextlib.aclosing(aiter(await agent.chat(prompt))) as texts:
                async for text in texts:
                    yield text

    return chunks


def build_self(world: World) -> Any:
    """A sub-agent that is a copy of the agent; the harness asks for its calls."""
    tools = tools_of(world)

    async def run(prompt: str) -> str:
        model = model_of(world, start("self"), ANSWER)
        async with started(model, tools=tools) as agent:
            return await ask(agent, prompt)

    return run


def build_static(world: World) -> Any:
    """A sub-agent of the application's own, without built-in tools; nothing is asked."""
    tools = tools_of(world)
    worker = types.SubagentConfig(
        name="worker",
        description="Works.",
        tools=tools,
        capabilities=types.SubagentCapabilities(enabled_tools=[]),
    )

    async def run(prompt: str) -> str:
        model = model_of(world, start("worker"), ANSWER)
        async with started(model, tools=[], subagents=[worker]) as agent:
            return await ask(agent, prompt)

    return run


def build_mcp(world: World) -> Any:
    """Tools of an MCP server, which the harness is the client of."""

    def next_step(shown: list[str]) -> Any:
        step = world.next("\n".join(shown))
        if isinstance(step, str):
            return step
        named = {"ServerName": "files"}
        return tuple(
            ("call_mcp_tool", {**named, "ToolName": name, "Arguments": args}) for name, args in step
        )

    async def run(prompt: str) -> str:
        with served(make_server(world)) as url:
            server = types.McpStreamableHttpServer(name="files", url=url)
            async with started(next_step, mcp_servers=[server]) as agent:
                return await ask(agent, prompt)

    return run


def build_direct(world: World) -> Any:
    """The application's own use of the runner of Python tools."""
    runner = ToolRunner(tools_of(world))

    async def call(name: str, args: dict[str, Any]) -> str:
        (result,) = await runner.process_tool_calls([types.ToolCall(name=name, args=args)])
        return result.error if result.error is not None else result.result

    async def run(prompt: str) -> str:
        return await world.aplay(call, prompt)

    return run


WAITS = {"exception_that_escapes": "the SDK loses it, and the harness waits for ever"}
CHAT = {
    **WAITS,
    "stream_is_held_back": "no model seat: see the tests of turns",
    "stream_is_let_through": "no model seat",
}
INSIDE = {
    **WAITS,
    "redacted_result": "a result in the harness cannot be changed: see the tests of results",
    "withheld_result": "a result in the harness cannot be changed: see the tests of results",
    "recovered_error": "a failure in the harness stays one: see the tests of results",
    "cancelled": "the server's task is not the harness's to cancel",
}
SUBAGENT: dict[str, Any] = {
    "around": ("invoke_subagent",),
    "subagent": "invoke_subagent",
    "has_model": False,
    "lacks": WAITS,
}


class TestGoogleAntigravity(Contract):
    framework = "google_antigravity"
    paths = (
        Path("chat", build_chat, has_model=False, chunks=stream_chunks, lacks=CHAT),
        Path("steps", build_steps, has_model=False, lacks=WAITS),
        Path("self", build_self, **SUBAGENT),
        Path("static", build_static, **SUBAGENT),
        Path(
            "mcp",
            build_mcp,
            selector=lambda name: f"files/{name}",
            has_model=False,
            lacks=INSIDE,
        ),
        Path("direct", build_direct, has_run=False, has_model=False),
    )
