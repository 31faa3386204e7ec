"""Servers and clients of both majors of MCP, for the tests of the adapter."""

from __future__ import annotations

import contextlib
import importlib.metadata
import pathlib
import sys
from typing import Any

import anyio
from mcp import ClientSession, stdio_client  # copies, made before anything is instrumented
from mcp import types as wire

from otelhooks import types

VERSION = tuple(int(part) for part in importlib.metadata.version("mcp").split(".")[:2])
IS_2 = VERSION >= (2, 0)
NAME = "files"


def text_of(result: Any) -> str:
    """Return what a model would be shown of a result."""
    return "\n".join(block.text for block in result.content)


def make_server(world: Any, name: str = NAME) -> Any:
    """Return a server whose tools are the world's, in the high-level form."""
    if IS_2:
        from mcp.server.mcpserver import MCPServer as HighLevel
    else:
        from mcp.server.fastmcp import FastMCP as HighLevel
    server = HighLevel(name)
    for body in ("danger", "safe", "broken", "slow"):
        if hasattr(world, body):
            server.add_tool(getattr(world, body), name=body)
    return server


async def call_body(world: Any, name: str, arguments: Any) -> Any:
    """Call a body of the world as a low-level handler does."""
    returned = getattr(world, name)(**(arguments or {}))
    return await returned if hasattr(returned, "__await__") else returned


async def no_tools(context: Any, params: Any) -> Any:
    """List nothing, as a handler of 2.x."""
    return wire.ListToolsResult(tools=[])


def make_lowlevel(world: Any, name: str = NAME) -> Any:
    """Return a server whose tools are the world's, in the low-level form."""
    from mcp.server.lowlevel import Server

    if IS_2:

        async def on_call(context: Any, params: Any) -> Any:
            try:
                text = await call_body(world, params.name, params.arguments)
            except Exception as error:
                return wire.CallToolResult.model_validate(
                    {"content": [{"type": "text", "text": str(error)}], "isError": True}
                )
            return wire.CallToolResult.model_validate({"content": [{"type": "text", "text": text}]})

        return Server(name, on_call_tool=on_call, on_list_tools=no_tools)

    server = Server(name)

    @server.call_tool(validate_input=False)
    async def handle(name: str, arguments: Any) -> Any:
        return [wire.TextContent(type="text", text=await call_body(world, name, arguments))]

    @server.list_tools()
    async def listed() -> Any:
        return []

    return server


@contextlib.asynccontextmanager
async def connected(server: Any, **settings: Any) -> Any:
    """Connect to a server in this process; give what has ``call_tool``."""
    if IS_2:
        from mcp import Client

        async with Client(server, **settings) as client:
            yield client
    else:
        from mcp.shared.memory import create_connected_server_and_client_session

        settings.pop("mode", None)
        async with create_connected_server_and_client_session(
            getattr(server, "_mcp_server", server), **settings
        ) as session:
            yield session


def session_of(client: Any) -> Any:
    """Return the session of a client of either major."""
    return client.session if IS_2 else client


def make_named(function: Any, name: str, server_name: str = "tools") -> Any:
    """Return a server with one tool."""
    world = type("Tools", (), {})()
    server = make_server(world, server_name)
    server.add_tool(function, name=name)
    return server


def tool_error_class() -> Any:
    if IS_2:
        from mcp.server.mcpserver.exceptions import ToolError
    else:
        from mcp.server.fastmcp.exceptions import ToolError
    return ToolError


def call_ask(server: Any, **callbacks: Any) -> str:
    async def run() -> str:
        async with connected(server, mode="legacy", **callbacks) as client:
            return text_of(await client.call_tool("ask", {}))

    return anyio.run(run)


SERVER = str(pathlib.Path(__file__).with_name("mcp_server.py"))


def stdio(name: str, ran: pathlib.Path) -> Any:
    from mcp import StdioServerParameters

    return StdioServerParameters(command=sys.executable, args=[SERVER, name, str(ran)])


def config(params: Any, name: str = "trusted") -> types.McpStdioServer:
    return types.McpStdioServer(name=name, command=params.command, args=list(params.args))


@contextlib.asynccontextmanager
async def started(params: Any) -> Any:
    """Start a server of its own process and give a session with it."""
    async with stdio_client(params) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


def run_once(params: Any, tool: str = "danger", **args: Any) -> str:
    """Call one tool of a server of its own process."""

    async def run() -> str:
        async with started(params) as session:
            return text_of(await session.call_tool(tool, args or {"path": "/etc"}))

    return anyio.run(run)


def spans_of(exporter: Any) -> list[Any]:
    return list(exporter.get_finished_spans())


class HttpServer:
    """A server of this process behind a real port, in a thread of its own."""

    def __init__(self, server: Any, port: int) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{port}/mcp"

    async def call(self, name: str, args: dict[str, Any]) -> str:
        from mcp.client import streamable_http

        connect = (
            getattr(streamable_http, "streamable_http_client", None)
            or streamable_http.streamablehttp_client
        )
        async with connect(self.url) as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            return text_of(await session.call_tool(name, args))


def direct_path_of(server: Any) -> Any:
    """Return a function that asks a server object itself."""

    async def call(name: str, args: dict[str, Any]) -> str:
        try:
            found = await server.call_tool(name, args)
        except tool_error_class() as error:
            return str(error)
        blocks = found[0] if isinstance(found, tuple) else getattr(found, "content", found)
        return "\n".join(block.text for block in blocks)

    return call
