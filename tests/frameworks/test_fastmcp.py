"""FastMCP: contract on every path, and the proof."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("fastmcp")

from fastmcp import Client, FastMCP
from fastmcp.server import create_proxy
from fastmcp.tools import Tool

import otelhooks
from otelhooks.frameworks.fastmcp.scripted import caller, client, server_of, tool_objects
from tests.frameworks.contract import Contract, Path, World

NAME = "files"
BODIES = ("danger", "safe", "broken", "slow")


def served(world: World, name: str = NAME) -> Any:
    """Return a server whose tools are the world's."""
    return server_of(name, **{body: getattr(world, body) for body in BODIES})


def mounted(world: World) -> Any:
    """Return a server that mounts the one with the tools."""
    parent = FastMCP("parent")
    parent.mount(served(world))
    return parent


def proxied(world: World) -> Any:
    """Return a server that passes calls on to the one with the tools."""
    return create_proxy(served(world), name="proxy")


def transformed(world: World) -> Any:
    """Return a server whose tools are made of others of the same names."""
    server = FastMCP(NAME)
    for body in BODIES:
        server.add_tool(Tool.from_tool(Tool.from_function(getattr(world, body), name=body)))
    return server


def client_path(make: Callable[[World], Any]) -> Any:
    """Build a host that calls tools through a client in the same process."""

    def build(world: World) -> Any:
        server = make(world)

        async def run(prompt: str) -> str:
            async with Client(server) as session:
                return await world.aplay(client(session), prompt)

        return run

    return build


def direct_path(make: Callable[[World], Any], **options: Any) -> Any:
    """Build a host that asks a server object itself."""

    def build(world: World) -> Any:
        server = make(world)

        async def run(prompt: str) -> str:
            call = functools.partial(server.call_tool, **options)
            return await world.aplay(caller(call), prompt)

        return run

    return build


def tool_path(world: World) -> Any:
    """Build a host that runs the server's tool objects."""
    server = served(world)

    async def run(prompt: str) -> str:
        return await world.aplay(tool_objects(server), prompt)

    return run


def of_any(name: str) -> str:
    return f"*/{name}"


def of_files(name: str) -> str:
    return f"{NAME}/{name}"


ESCAPES = {
    "exception_that_escapes": "it ends the server's task; the client sees a cancelled scope only"
}
HOST: dict[str, Any] = {"has_run": False, "has_model": False}
CLIENT: dict[str, Any] = {**HOST, "selector": of_any, "lacks": ESCAPES}
DIRECT: dict[str, Any] = {**HOST, "selector": of_files}


class TestFastMcp(Contract):
    """What every adapter must do, on each path."""

    framework = "fastmcp"
    also = ("mcp",)
    paths = (
        Path("client", client_path(served), **CLIENT),
        Path("client_mounted", client_path(mounted), **CLIENT),
        Path("client_proxy", client_path(proxied), **CLIENT),
        Path("client_transformed", client_path(transformed), **CLIENT),
        Path("server_call_tool", direct_path(served), **DIRECT),
        Path("server_without_middleware", direct_path(served, run_middleware=False), **DIRECT),
        Path("tool_run", tool_path, **HOST, selector=of_any),
    )


def test_the_proof_holds_while_otelhooks_is_on_and_only_then(with_rules):
    from otelhooks.frameworks.fastmcp.scripted import prove

    with_rules(frameworks=["fastmcp", "mcp"])
    proof = prove()
    assert proof.proved, proof.paths
    assert len(proof.paths) == 3
    otelhooks.uninstrument()
    assert not prove().proved
