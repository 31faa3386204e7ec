"""Lists of tools of MCP servers, for the adapters whose packages read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from otelhooks.pipeline import mcp_lists, runtime
from otelhooks.policy.mcp.definitions import Listed, Listing, tools_of

__all__ = ["Listed", "are_read", "is_taken", "listing", "note"]


def are_read() -> bool:
    """Return whether anything looks at what servers say of their tools."""
    rt = runtime.active()
    return rt is not None and rt.reads_lists


def is_taken(name: str | None) -> bool:
    """Return whether ``mcp_servers=`` gives a name to a server."""
    rt = runtime.active()
    return rt is not None and any(config.name == name for config in rt.servers)


def listing(server: str, unnamed: Listed, name: str) -> Listing:
    """Return what is known of a tool.

    Args:
        server: The server's name; empty if the application gave it none.
        unnamed: Tools of this one server, if it has no name.
        name: Name of the tool.
    """
    known = tools_of(server) if server else unnamed
    return Listing(server, known.get(name, ()))


def note(
    server: str, says: str | None, unnamed: Listed, tools: Sequence[tuple[str, Callable[[], Any]]]
) -> frozenset[str]:
    """Take note of a list of tools, or a page of it; return the names of those to hide.

    Args:
        server: As for `listing`.
        says: The name that the server gives itself.
        unnamed: As for `listing`.
        tools: Each one's name, and a function that returns it in the protocol's JSON.
    """
    rt = runtime.active()
    if rt is None:
        return frozenset()
    known = tools_of(server) if server else unnamed
    return mcp_lists.note(rt, server, says or "", known, tools)
