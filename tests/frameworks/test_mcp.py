"""The MCP adapter: the contract on every path, and the proof."""
# ruff: noqa: F811  # fixtures are imported by name

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import types as wire

import otelhooks
from tests.frameworks.contract import Contract, Path, World
from tests.frameworks.mcp_fixtures import on  # noqa: F401  # fixtures
from tests.frameworks.mcp_world import (
    IS_2,
    NAME,
    connected,
    make_lowlevel,
    make_server,
    session_of,
    text_of,
    tool_error_class,
)

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed .MemoryObject:ResourceWarning")


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


def test_the_proof_holds_while_otelhooks_is_on_and_only_then(on):
    from otelhooks.frameworks.mcp.scripted import prove

    on()
    proof = prove()
    assert proof.proved, proof.paths
    assert len(proof.paths) == 6
    otelhooks.uninstrument()
    assert not prove().proved
