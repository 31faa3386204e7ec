# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""Prove a deny with the real FastMCP: a scripted host, against a server in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastmcp import Client, FastMCP

from otelhooks.frameworks.kit import contents, trials

__all__ = ["caller", "client", "prove", "server_of", "tool_objects"]


def server_of(name: str, **bodies: Callable[..., Any]) -> Any:
    """Return a server with tools, by name."""
    server = FastMCP(name)
    for tool, body in bodies.items():
        server.tool(body, name=tool)
    return server


def caller(call: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Return a function that calls a tool and returns the text that a model would be shown."""

    async def texts(name: str, args: Any) -> str:
        try:
            return str(contents.value_of(await call(name, args)))
        except Exception as error:  # a program that is the host tells its model
            return str(error.__cause__ or error)

    return texts


def client(session: Any) -> Callable[[str, Any], Any]:
    """Return `caller` for a client, whose results may report an error."""

    async def call(name: str, args: Any) -> Any:
        return await session.call_tool(name, args, raise_on_error=False)

    return caller(call)


def tool_objects(server: Any) -> Callable[[str, Any], Any]:
    """Return `caller` for the tool objects of a server."""

    async def run(name: str, args: Any) -> Any:
        return await (await server.get_tool(name)).run(args)

    return caller(run)


async def _play(trial: trials.Trial, call: Any) -> str:
    trial.shown = await call("danger", {"path": "/"})
    return "done" if await call("safe", {"x": 1}) == "1" else "not run"


def _server_of(trial: trials.Trial) -> Any:
    return server_of("prover", danger=trial.danger, safe=trial.safe)


async def _client(trial: trials.Trial) -> str:
    async with Client(_server_of(trial)) as session:
        return await _play(trial, client(session))


async def _server(trial: trials.Trial) -> str:
    return await _play(trial, caller(_server_of(trial).call_tool))


async def _tools(trial: trials.Trial) -> str:
    return await _play(trial, tool_objects(_server_of(trial)))


_PATHS = {"client": _client, "server object": _server, "tool object": _tools}
prove = trials.Proving("fastmcp", _PATHS, denied=("*/danger",))
