"""Prove a deny with the real MCP package: a scripted host, against a server in this process."""
# pyright: basic

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio

import otelhooks
from otelhooks import policy
from otelhooks.frameworks.mcp import wire
from otelhooks.frameworks.proof import Proof
from otelhooks.frameworks.trial import REASON, Trial

__all__ = ["prove"]

_NAME = "prover"

Call = Callable[[str, dict[str, Any]], Awaitable[str]]


class _Trial(Trial):
    """A trial with a server, whose tools a host asks for.

    Attributes:
        server: The server object.
    """

    def __init__(self) -> None:
        super().__init__()
        self.server = _server_class()(_NAME, log_level="ERROR")
        self.server.add_tool(self.danger, name="danger")
        self.server.add_tool(self.safe, name="safe")

    async def play(self, call: Call) -> tuple[bool, str]:
        """Ask for both tools, as a host does for its model; say whether the deny held."""
        self.shown = await call("danger", {"path": "/"})
        return self.outcome(went_on=await call("safe", {"x": 1}) == "1")


def _server_class() -> Any:
    if importlib.util.find_spec("mcp.server.mcpserver") is not None:
        return importlib.import_module("mcp.server.mcpserver").MCPServer
    return importlib.import_module("mcp.server.fastmcp").FastMCP


@contextlib.asynccontextmanager
async def _connected(server: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to a server in this process; give a client and its session, which are one in 1.x."""
    package = importlib.import_module("mcp")
    if hasattr(package, "Client"):
        async with package.Client(server) as client:
            yield client, client.session
    else:
        memory = importlib.import_module("mcp.shared.memory")
        async with memory.create_connected_server_and_client_session(server) as session:
            yield session, session


async def _client(trial: _Trial) -> tuple[bool, str]:
    async with _connected(trial.server) as (client, _):

        async def call(name: str, args: dict[str, Any]) -> str:
            return str(wire.value_of(await client.call_tool(name, args)))

        return await trial.play(call)


async def _request(trial: _Trial) -> tuple[bool, str]:
    async with _connected(trial.server) as (_, session):

        async def call(name: str, args: dict[str, Any]) -> str:
            request = wire.make(
                "CallToolRequest", method="tools/call", params={"name": name, "arguments": args}
            )
            records = importlib.import_module("mcp.types")
            if not hasattr(session, "dispatch_input_request"):  # 1.x
                request = records.ClientRequest(request)
            return str(wire.value_of(await session.send_request(request, records.CallToolResult)))

        return await trial.play(call)


async def _server(trial: _Trial) -> tuple[bool, str]:
    async def call(name: str, args: dict[str, Any]) -> str:
        try:
            found = await trial.server.call_tool(name, args)
        except Exception as error:  # the package's class for a tool's error lies elsewhere in 1.x
            return str(error)
        if isinstance(found, tuple):
            return str(wire.content_value(*found))
        return str(wire.value_of(found))

    return await trial.play(call)


_PATHS = (("client", _client), ("raw request", _request), ("server object", _server))


def prove() -> Proof:
    """Run a denied and an allowed tool on each path; the deny holds for this block only."""
    found: list[tuple[str, bool, str]] = []
    rules = [policy.deny("*/danger", reason=REASON)]
    for name, path in _PATHS:
        for backend in ("asyncio", "trio"):
            if backend == "trio" and not _has_trio():
                continue
            with otelhooks.scope(policies=rules):
                held, detail = anyio.run(path, _Trial(), backend=backend)
            found.append((f"{name}, {backend}", held, detail))
    return Proof.of("mcp", importlib.metadata.version("mcp"), found)


def _has_trio() -> bool:
    return importlib.util.find_spec("trio") is not None
