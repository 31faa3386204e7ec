"""The MCP server of the demonstration: ``python -m otelhooks.demo.mcp_server``, over stdio."""

from __future__ import annotations

from typing import Any


def make() -> Any:
    """Return the server, made with whichever major version of the SDK is installed."""
    try:
        from mcp.server.mcpserver import MCPServer as Server
    except ImportError:  # mcp 1.x
        from mcp.server.fastmcp import FastMCP as Server
    server: Any = Server("docs")

    @server.tool()
    def find_page(query: str) -> str:
        """Find a page of the documentation."""
        return f"page about {query}"

    @server.tool()
    def delete_page(title: str) -> str:
        """Delete a page of the documentation."""
        return f"deleted {title}"

    return server


if __name__ == "__main__":
    make().run("stdio")
