"""Lists of tools that a client reads: what is not approved is taken out of them."""
# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otelhooks.frameworks.kit import contents
from otelhooks.frameworks.kit.mcp import lists, servers
from otelhooks.frameworks.mcp.connections import Peer, peer_of

__all__ = ["listing", "shown"]


def listing(peer: Peer, server: str | None, name: str) -> Any:
    """Return what is known of a tool's definition.

    Args:
        peer: The server.
        server: The application's name for it; None if it gave none.
        name: Name of the tool.
    """
    return lists.listing(_name(peer, server), peer.tools, name)


async def shown(
    wrapped: Callable[..., Any], session: Any, request: Any, *rest: Any, **further: Any
) -> Any:
    """Send a request for one page of the list, and return the page with the approved tools."""
    page = await wrapped(request, *rest, **further)
    tools = getattr(page, "tools", None)
    if not isinstance(tools, list) or not lists.are_read():
        return page
    peer = peer_of(session)
    server = servers.name_at(peer.connection) if peer.connection is not None else None
    name = _name(peer, server)
    named = [(contents.field(tool, "name"), tool) for tool in tools]
    hidden = lists.note(name, peer.says, peer.tools, [(each, _json(tool)) for each, tool in named])
    if not hidden:
        return page
    return page.model_copy(update={"tools": [tool for each, tool in named if each not in hidden]})


def _name(peer: Peer, server: str | None) -> str:
    """Return the name that a server's tools are approved under; empty if it has none.

    What the application connects to needs a name from it. A server without a command or an address
    is in this process, or behind a transport of the application's own; it has the name that it
    gives itself, unless the application gave that name to another one.
    """
    if server or peer.connection is not None:
        return server or ""
    return "" if lists.is_taken(peer.says) else peer.says or ""


def _json(tool: Any) -> Callable[[], Any]:
    if isinstance(tool, dict):  # of a request for another type of result
        return lambda: tool
    return lambda: tool.model_dump(by_alias=True, mode="json")
