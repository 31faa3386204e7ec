"""Reads the lists of MCP servers, with the package ``mcp`` of the environment, 1.22 or later."""
# pyright: basic

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from otelhooks.errors import ConfigError
from otelhooks.plain_text import LOGGED, one_line
from otelhooks.policy.mcp.definitions import fields_of

if TYPE_CHECKING:
    from otelhooks.policy.mcp.pins import Approved

__all__ = ["definitions"]

_TIMEOUT_S = 60
"""Longest time for a server to start and to list its tools; a list may have no end."""


def definitions(servers: Iterable[Any]) -> Approved:
    """Return what servers list now.

    Args:
        servers: Their configurations.

    Raises:
        ConfigError: Two have one name, one cannot be reached, or ``mcp`` is not installed.
    """
    try:
        anyio = _module("anyio")
        _module("mcp")
    except ImportError as error:
        raise ConfigError(
            "the package `mcp` is not installed here", hint="pip install mcp"
        ) from error
    found: Approved = {}
    for server in servers:
        if server.name in found:
            raise ConfigError(
                f"two servers are called `{server.name}`", hint="give each its own name"
            )
        try:
            pages = anyio.run(_pages, server)
        except Exception as error:
            cause = _cause(error)
            said = one_line(f"{type(cause).__name__}: {cause}", LOGGED)
            raise ConfigError(
                f"server `{server.name}` cannot be read: {said}",
                hint="start it, and check its entry in `mcp_servers`",
            ) from error
        found[server.name] = _tools(server.name, pages)
    return found


def _tools(server: str, pages: list[Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for tool in (tool for page in pages for tool in page["tools"]):
        fields, name = fields_of(tool), tool["name"]
        if found.setdefault(name, fields) != fields:
            raise ConfigError(
                f"server `{server}` lists {name!a} twice", hint="ask those who run the server"
            )
    return found


def _cause(error: BaseException) -> BaseException:
    """Return what went wrong first: the package groups errors."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return error


async def _pages(server: Any) -> list[Any]:
    """Return the pages of a server's list, in the protocol's JSON."""
    mcp = _module("mcp")
    pages: list[Any] = []
    with _module("anyio").fail_after(server.timeout_seconds or _TIMEOUT_S):
        async with _connected(server) as streams, mcp.ClientSession(*streams[:2]) as session:
            await session.initialize()
            while not pages or pages[-1].get("nextCursor"):
                cursor = pages[-1]["nextCursor"] if pages else None
                params = mcp.types.PaginatedRequestParams(cursor=cursor)
                page = await session.list_tools(params=params)
                pages.append(page.model_dump(by_alias=True, mode="json"))
    return pages


@contextlib.asynccontextmanager
async def _connected(server: Any) -> AsyncIterator[Any]:
    if server.type == "stdio":
        mcp = _module("mcp")
        given = {"command": server.command, "args": server.args, "env": server.env}
        async with mcp.stdio_client(mcp.StdioServerParameters(**given)) as streams:
            yield streams
        return
    http = _module("mcp.client.streamable_http")
    if not hasattr(http, "streamable_http_client"):  # early 1.x
        async with http.streamablehttp_client(server.url, headers=server.headers) as streams:
            yield streams
        return
    async with (
        http.create_mcp_http_client(headers=server.headers) as client,
        http.streamable_http_client(server.url, http_client=client) as streams,
    ):
        yield streams


def _module(name: str) -> Any:
    """Return a package that only programs with MCP have."""
    return importlib.import_module(name)
