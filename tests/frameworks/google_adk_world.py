"""MCP servers of this process for Google ADK, which starts or calls others itself."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from mcp import StdioServerParameters

from tests.frameworks.mcp_world import connected, session_of


@contextlib.asynccontextmanager
async def serving(server: Any, name: str = "files", **settings: Any) -> AsyncIterator[McpToolset]:
    """Connect to a server that is an object, as to the command of its name; give the toolset."""
    command = StdioServerParameters(command=f"{name}-server")
    place = StdioConnectionParams(server_params=command)
    toolset = McpToolset(connection_params=place, **settings)
    async with connected(server) as client:
        toolset._mcp_session_manager = Sessions(session_of(client), place)  # type: ignore[assignment]
        yield toolset


class Sessions:
    """Stands in for what opens sessions."""

    def __init__(self, session: Any, place: Any) -> None:
        self._session, self._connection_params = session, place

    async def create_session(self, headers: Any = None, **options: Any) -> Any:
        return self._session

    async def close(self) -> None:
        """Do nothing: the session is closed where it was opened."""

    def _get_session_context(self, headers: Any = None) -> None:
        return None

    def _begin_session_use(self, headers: Any = None) -> None:
        """Do nothing: there is no pool."""

    _end_session_use = _discard_session = _begin_session_use
