"""The MCP server of the demonstration: ``python -m otelhooks.demo.mcp_server``, over stdio."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

from typing import Any

from otelhooks.demo import story


def find_page(query: str) -> str:
    """Find a page of the documentation."""
    return f"page about {query}"


def delete_page(title: str) -> str:
    """Delete a page of the documentation."""
    return f"deleted {title}"


def make() -> Any:
    """Return the server, for whichever major version of the SDK is installed."""
    try:
        from mcp.server.mcpserver import MCPServer as Server
    except ImportError:  # mcp 1.x
        from mcp.server.fastmcp import FastMCP as Server
    server: Any = Server("docs", log_level="CRITICAL")
    for tool in (find_page, delete_page, *story.TOOLS):
        server.tool()(tool)
    return server


if __name__ == "__main__":
    make().run("stdio")
