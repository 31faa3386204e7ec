"""The story in the MCP SDK alone: a host that calls a server's tools in a loop."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import otelhooks
from otelhooks.demo import story

CALLS = (
    *story.SCRIPT,
    ("find_page", {"query": "rate limits"}),
    ("delete_page", {"title": "rate limits"}),
)


async def _call(session: ClientSession, name: str, arguments: dict[str, Any]) -> str:
    result = await session.call_tool(name, arguments)
    return "\n".join(getattr(part, "text", "") for part in result.content)


async def _tell(session: ClientSession) -> None:
    @otelhooks.agent("researcher")
    async def research(task: str) -> str:
        await _call(session, "search", {"query": task, "limit": 50})
        return "Limits are 10 a minute."

    @otelhooks.tool
    async def researcher(task: str) -> str:
        """Look things up."""
        return await research(task)

    async with otelhooks.turn(story.PROMPT, agent="mcp-host") as turn:
        seen = [await _call(session, name, arguments) for name, arguments in CALLS]
        seen.append(await researcher("rate limits"))
        turn.answer(story.ANSWER)
    expected = [*story.TOLD, "page about rate limits", "The documentation is read-only"]
    story.check("mcp", [*seen, str(turn.result)], expected)


async def _run(loop: Callable[[ClientSession], Awaitable[None]]) -> None:
    parameters = StdioServerParameters(command=story.SERVER.command, args=story.SERVER.args)
    async with (
        stdio_client(parameters) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        await loop(session)


def run() -> None:
    """Run the host to its answer."""
    asyncio.run(_run(_tell))


def play(steps: Sequence[Any]) -> None:
    """Run a host that calls the story's tools, as these steps say."""

    async def loop(session: ClientSession) -> None:
        async with otelhooks.turn(story.PROMPT, agent="assistant") as turn:
            for name, arguments in steps[:-1]:
                await _call(session, name, arguments)
            turn.answer(steps[-1])

    asyncio.run(_run(loop))
