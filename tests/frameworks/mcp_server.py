"""A server of its own process, for tests: run as a script, stdio or HTTP.

It is not instrumented. Each tool appends its name to the file that it is told, so that a test sees
what ran.

Usage: mcp_server.py NAME FILE [PORT]
"""

from __future__ import annotations

import pathlib
import sys

sys.path = [
    entry for entry in sys.path if pathlib.Path(entry or ".") != pathlib.Path(__file__).parent
]

try:
    from mcp.server.mcpserver import MCPServer as HighLevel
except ModuleNotFoundError:
    from mcp.server.fastmcp import FastMCP as HighLevel

name, ran = sys.argv[1], pathlib.Path(sys.argv[2])
server = HighLevel(name)


def note(tool: str) -> None:
    with ran.open("a") as file:
        file.write(f"{tool}\n")


@server.tool()
def danger(path: str) -> str:
    """Remove a path."""
    note("danger")
    return f"removed {path}"


@server.tool()
def safe(x: int) -> str:
    """Read number x."""
    note("safe")
    return f"number {x}"


if __name__ == "__main__":
    server.run()
