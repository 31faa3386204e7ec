"""Claude Agent SDK: the contract on every path, with the real CLI."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk as sdk

from tests.frameworks.claude_world import answer, model_of, own, served, start, tools_of
from tests.frameworks.contract import ANSWER, Contract, Path, World

pytestmark = pytest.mark.timeout(120)  # each scenario starts the CLI, a program of 380 MB


def build_query(world: World) -> Any:
    servers = own(world)

    async def run(prompt: str) -> str:
        with served(model_of(world), mcp_servers=servers) as options:
            return await answer(sdk.query(prompt=prompt, options=options))

    return run


def build_messages(world: World) -> Any:
    """Messages that the application gives one by one."""
    servers = own(world)

    async def run(prompt: str) -> str:
        async def messages() -> AsyncIterator[dict[str, Any]]:
            yield {"type": "user", "message": {"role": "user", "content": prompt}}

        with served(model_of(world), mcp_servers=servers) as options:
            return await answer(sdk.query(prompt=messages(), options=options))

    return run


def build_client(world: World) -> Any:
    servers = own(world)

    async def run(prompt: str) -> str:
        with served(model_of(world), mcp_servers=servers) as options:
            async with sdk.ClaudeSDKClient(options) as client:
                await client.query(prompt)
                return await answer(client.receive_response())

    return run


def stream_chunks(world: World) -> Any:
    servers = own(world)

    async def chunks(prompt: str) -> AsyncIterator[str]:
        settings = {"mcp_servers": servers, "include_partial_messages": True}
        with served(model_of(world), **settings) as options:
            async with sdk.ClaudeSDKClient(options) as client:
                await client.query(prompt)
                async with contextlib.aclosing(client.receive_response()) as messages:
                    async for message in messages:
                        if isinstance(message, sdk.AssistantMessage):
                            for block in message.content:
                                yield getattr(block, "text", "")

    return chunks


def build_hooked(world: World) -> Any:
    """With hooks and a permission callback of the application's own."""
    servers = own(world)

    async def allow(given: Any, id: Any, context: Any) -> Any:
        said = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
        return {"hookSpecificOutput": said}

    async def permit(name: str, args: Any, context: Any) -> Any:
        return sdk.PermissionResultAllow()

    hooks: Any = {"PreToolUse": [sdk.HookMatcher(matcher="mcp__.*", hooks=[allow])]}
    settings = {"hooks": hooks, "can_use_tool": permit, "permission_mode": "default"}

    async def run(prompt: str) -> str:
        with served(model_of(world), mcp_servers=servers, **settings) as options:
            async with sdk.ClaudeSDKClient(options) as client:
                await client.query(prompt)
                return await answer(client.receive_response())

    return run


def build_subagent(world: World) -> Any:
    servers = own(world)

    async def run(prompt: str) -> str:
        model = model_of(world, start(), ANSWER)
        with served(model, mcp_servers=servers) as options:
            return await answer(sdk.query(prompt=prompt, options=options))

    return run


def build_direct(world: World) -> Any:
    """The application's own calls of handlers."""
    tools = {tool.name: tool for tool in tools_of(world)}

    async def call(name: str, args: dict[str, Any]) -> str:
        result = await tools[name].handler(args)
        return result["content"][0]["text"]

    async def run(prompt: str) -> str:
        return await world.aplay(call, prompt)

    return run


WAITS = {"exception_that_escapes": "the SDK loses it, and the CLI waits"}
CLIENT = {
    **WAITS,
    "stream_is_held_back": "no model seat: see the tests of turns",
    "stream_is_let_through": "no model seat",
}
SUBAGENT: dict[str, Any] = {
    "around": ("Agent",),
    "subagent": "Agent",
    "has_model": False,
    "lacks": WAITS,
}


def of_files(name: str) -> str:
    return f"files/{name}"


class TestClaudeAgentSDK(Contract):
    framework = "claude_agent_sdk"
    paths = (
        Path("query", build_query, selector=of_files, has_model=False, lacks=WAITS),
        Path("messages", build_messages, selector=of_files, has_model=False, lacks=WAITS),
        Path(
            "client",
            build_client,
            selector=of_files,
            has_model=False,
            chunks=stream_chunks,
            lacks=CLIENT,
        ),
        Path("hooked", build_hooked, selector=of_files, has_model=False, lacks=WAITS),
        Path("subagent", build_subagent, selector=of_files, **SUBAGENT),
        Path("direct", build_direct, has_run=False, has_model=False, errors="raised"),
    )
