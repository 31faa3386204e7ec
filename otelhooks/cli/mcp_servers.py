"""Reads the lists of MCP servers, with the package ``mcp`` of the environment, 1.22 or later."""
# pyright: basic

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from otelhooks.errors import ConfigError
from otelhooks.policy.definitions import fields_of
from otelhooks.records.failures import outline

if TYPE_CHECKING:
    from otelhooks.policy.pins import Approved

__all__ = ["definitions"]

_TIMEOUT_S = 60
_MAX_PAGES = 1_000


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
            found[server.name] = anyio.run(_tools, server)
        except Exception as error:
            raise ConfigError(
                f"server `{server.name}` cannot be read: {outline(_cause(error))}",
                hint="start it, and check its entry in `mcp_servers`",
            ) from error
    return found


def _cause(error: BaseException) -> BaseException:
    """Return what went wrong first: the package groups errors."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return error


async def _tools(server: Any) -> dict[str, dict[str, Any]]:
    mcp = _module("mcp")
    found: dict[str, dict[str, Any]] = {}
    cursor = None
    with _module("anyio").fail_after(server.timeout_seconds or _TIMEOUT_S):
        async with _connected(server) as streams, mcp.ClientSession(*streams[:2]) as session:
            await session.initialize()
            for _ in range(_MAX_PAGES):
                params = mcp.types.PaginatedRequestParams(cursor=cursor)
                page = await session.list_tools(params=params)
                for tool in page.tools:
                    given = tool.model_dump(by_alias=True, mode="json")
                    if found.setdefault(tool.name, fields_of(given)) != fields_of(given):
                        raise ValueError(f"it lists {tool.name!a} twice")
                cursor = page.model_dump(by_alias=True).get("nextCursor")
                if not cursor:
                    return found
    raise ValueError("its list of tools does not end")


@contextlib.asynccontextmanager
async def _connected(server: Any) -> AsyncIterator[Any]:
    if server.type == "stdio":
        mcp = _module("mcp")
        given = {"command": server.command, "args": server.args, "env": server.env}
        async with mcp.stdio_client(mcp.StdioServerParameters(**given)) as streams:
            yield streams
        return
    http = _module("mcp.client.streamable_http")
    if hasattr(http, "streamablehttp_client"):
        connected = http.streamablehttp_client(server.url, headers=server.headers)
    else:  # 2.x
        client = _module("httpx2").AsyncClient(headers=server.headers, follow_redirects=True)
        connected = http.streamable_http_client(server.url, http_client=client)
    async with connected as streams:
        yield streams


def _module(name: str) -> Any:
    """Return a package that only programs with MCP have."""
    return importlib.import_module(name)
