"""Prove a deny with the real MCP package: a scripted host, against a server in this process."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import importlib.util
from typing import Any

import mcp
from mcp import types

from otelhooks.frameworks.kit import contents, trials
from otelhooks.frameworks.mcp import wire

try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:  # 1.x
    from mcp.server.fastmcp import FastMCP as Server

__all__ = ["prove"]

IS_2 = hasattr(mcp, "Client")
_MEMORY = "mcp.shared.memory"


def _server_of(trial: trials.Trial) -> Any:
    server = Server("prover", log_level="ERROR")
    server.add_tool(trial.danger, name="danger")
    server.add_tool(trial.safe, name="safe")
    return server


def _connected(trial: trials.Trial) -> Any:
    """Return a connection to a server in this process; entered, a client, in 1.x a session."""
    server = _server_of(trial)
    if IS_2:
        return mcp.Client(server)
    return importlib.import_module(_MEMORY).create_connected_server_and_client_session(server)


async def _play(trial: trials.Trial, call: Any) -> str:
    """Call both tools, as a host does for its model; return its answer."""
    trial.shown = str(contents.value_of(await call("danger", {"path": "/"})))
    return "done" if contents.value_of(await call("safe", {"x": 1})) == "1" else "not run"


async def _client(trial: trials.Trial) -> str:
    async with _connected(trial) as client:
        return await _play(trial, client.call_tool)


async def _request(trial: trials.Trial) -> str:
    async with _connected(trial) as client:
        send = (client.session if IS_2 else client).send_request

        async def call(name: str, args: dict[str, Any]) -> Any:
            params = {"name": name, "arguments": args}
            request = wire.make("CallToolRequest", method="tools/call", params=params)
            given = request if IS_2 else types.ClientRequest(request)
            return await send(given, types.CallToolResult)

        return await _play(trial, call)


async def _server(trial: trials.Trial) -> str:
    server = _server_of(trial)

    async def call(name: str, args: dict[str, Any]) -> Any:
        try:
            found = await server.call_tool(name, args)
        except Exception as error:  # the package's class for a tool's error is elsewhere in 1.x
            return str(error)
        return contents.content_value(*found) if isinstance(found, tuple) else found

    return await _play(trial, call)


_has_trio = importlib.util.find_spec("trio") is not None
prove = trials.Proving(
    "mcp",
    {"client": _client, "raw request": _request, "server object": _server},
    denied=("*/danger",),
    backends=("asyncio", "trio") if _has_trio else ("asyncio",),
)
