"""The MCP adapter: contract on every path, server identity, attacks, questions, telemetry."""

from __future__ import annotations

import contextlib
import importlib.metadata
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import types as wire

from tests.frameworks.contract import Contract, Path, World

VERSION = tuple(int(part) for part in importlib.metadata.version("mcp").split(".")[:2])
IS_2 = VERSION >= (2, 0)
NAME = "files"


def text_of(result: Any) -> str:
    """Return what a model would be shown of a result."""
    return "\n".join(block.text for block in result.content)


# -- servers and clients of both majors -------------------------------------------------------


def make_server(world: Any, name: str = NAME) -> Any:
    """Return a server whose tools are the world's, in the high-level form."""
    if IS_2:
        from mcp.server.mcpserver import MCPServer as HighLevel
    else:
        from mcp.server.fastmcp import FastMCP as HighLevel
    server = HighLevel(name)
    for tool in ("danger", "safe", "broken", "slow"):
        if hasattr(world, tool):
            server.add_tool(getattr(world, tool), name=tool)
    return server


async def call_body(world: Any, name: str, arguments: Any) -> Any:
    """Call a body of the world as a low-level handler does."""
    returned = getattr(world, name)(**(arguments or {}))
    return await returned if hasattr(returned, "__await__") else returned


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

        async def on_list(context: Any, params: Any) -> Any:
            return wire.ListToolsResult(tools=[])

        return Server(name, on_call_tool=on_call, on_list_tools=on_list)

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


# -- paths ------------------------------------------------------------------------------------


def client_path(make: Any, **settings: Any) -> Any:
    """Build a host that calls tools through a client in the same process."""

    def build(world: World) -> Any:
        server = make(world)

        async def run(prompt: str) -> str:
            async with connected(server, **settings) as client:

                async def call(name: str, args: dict[str, Any]) -> str:
                    return text_of(await client.call_tool(name, args))

                return await world.aplay(call, prompt)

        return run

    return build


def raw_path(world: World) -> Any:
    """Build a host that sends requests without `call_tool`."""
    server = make_server(world)

    async def run(prompt: str) -> str:
        async with connected(server) as client:

            async def call(name: str, args: dict[str, Any]) -> str:
                params = wire.CallToolRequestParams(name=name, arguments=args)
                request = wire.CallToolRequest(method="tools/call", params=params)
                sent = request if IS_2 else wire.ClientRequest(request)
                return text_of(await session_of(client).send_request(sent, wire.CallToolResult))

            return await world.aplay(call, prompt)

    return run


def group_path(world: World) -> Any:
    """Build a host that calls tools through a group, which renames them by a prefix."""
    from mcp import ClientSessionGroup

    server = make_server(world)

    async def run(prompt: str) -> str:
        async with connected(server, **({"mode": "legacy"} if IS_2 else {})) as client:
            info = wire.Implementation(name=NAME, version="1")
            group = ClientSessionGroup(component_name_hook=lambda name, _: f"other_{name}")
            await group.connect_with_session(info, session_of(client))

            async def call(name: str, args: dict[str, Any]) -> str:
                return text_of(await group.call_tool(f"other_{name}", args))

            return await world.aplay(call, prompt)

    return run


def tool_error_class() -> Any:
    if IS_2:
        from mcp.server.mcpserver.exceptions import ToolError
    else:
        from mcp.server.fastmcp.exceptions import ToolError
    return ToolError


def direct_path(world: World) -> Any:
    """Build a host that asks the server object itself, without a request."""
    server = make_server(world)

    async def run(prompt: str) -> str:
        async def call(name: str, args: dict[str, Any]) -> str:
            try:
                found = await server.call_tool(name, args)
            except tool_error_class() as error:
                return str(error.__cause__ or error)
            blocks = found[0] if isinstance(found, tuple) else getattr(found, "content", found)
            return "\n".join(block.text for block in blocks)

        return await world.aplay(call, prompt)

    return run


def tool_path(world: World) -> Any:
    """Build a host that runs the server's tool objects."""
    server = make_server(world)
    tools = {tool.name: tool for tool in server._tool_manager.list_tools()}

    async def run(prompt: str) -> str:
        async def call(name: str, args: dict[str, Any]) -> str:
            try:
                return str(await tools[name].run(args, None))
            except tool_error_class() as error:
                return str(error.__cause__ or error)

        return await world.aplay(call, prompt)

    return run


def of_any(name: str) -> str:
    return f"*/{name}"


def of_files(name: str) -> str:
    return f"{NAME}/{name}"


ESCAPES = {
    "exception_that_escapes": "it ends the server's task; the client sees a cancelled scope only"
}


def client_paths() -> tuple[Path, ...]:
    shared = {"selector": of_any, "has_run": False, "has_model": False}
    only_2 = "" if IS_2 else "1.x has one way to connect in memory"
    no_structure = {**ESCAPES}
    return (
        Path("memory", client_path(make_server), **shared, lacks=ESCAPES),
        Path("memory_trio", client_path(make_server), backend="trio", **shared, lacks=ESCAPES),
        Path(
            "legacy", client_path(make_server, mode="legacy"), skip=only_2, **shared, lacks=ESCAPES
        ),
        Path("lowlevel", client_path(make_lowlevel), **shared, lacks=no_structure),
        Path("raw_request", raw_path, **shared, lacks=ESCAPES),
        Path("session_group", group_path, **shared, lacks=ESCAPES),
    )


def server_paths() -> tuple[Path, ...]:
    shared = {"has_run": False, "has_model": False}
    return (
        Path("server_call_tool", direct_path, selector=of_files, **shared),
        Path("server_call_tool_trio", direct_path, selector=of_files, backend="trio", **shared),
        Path("tool_run", tool_path, selector=of_any, **shared),
    )


class TestContract(Contract):
    """What every adapter must do, on each path."""

    framework = "mcp"
    paths = (*client_paths(), *server_paths())
