"""The story told by the MCP SDK alone: a host that calls a server's tools in a loop."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import otelhooks
from otelhooks.demo import story

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("find_page", {"query": "rate limits"}),
    ("delete_page", {"title": "rate limits"}),
)


async def _run() -> None:
    seen: list[str] = []
    parameters = StdioServerParameters(command=story.SERVER.command, args=story.SERVER.args)
    async with (
        otelhooks.turn(story.PROMPT, agent="mcp-host") as turn,
        stdio_client(parameters) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        for name, arguments in CALLS:
            result = await session.call_tool(name, arguments)
            seen.extend(getattr(part, "text", "") for part in result.content)
        turn.answer("Found one page.")
    story.check("mcp", seen, ["page about rate limits", "docs-read-only"])


def run() -> None:
    """Run the host to its answer."""
    asyncio.run(_run())
