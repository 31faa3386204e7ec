"""The servers that an application connects to: their names, and their network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from otelhooks.frameworks.kit.contents import field
from otelhooks.pipeline import runtime
from otelhooks.records import semconv

__all__ = ["name_at", "name_of", "network_of", "server_of"]


def name_at(place: Any) -> str | None:
    """Return the name in ``mcp_servers=`` for what the application connects to; see `name_of`."""
    rt = runtime.active()
    return name_of(rt.servers, place) if rt is not None and rt.servers else None


def name_of(servers: Iterable[Any], place: Any) -> str | None:
    """Return the application's name for what it connects to; None if it gave none.

    Two names for one command are distinguished by its environment, or not at all.

    Args:
        servers: As configured.
        place: Record of ``url``, or ``command``, ``args`` and ``env``; one without has no name.
    """
    found = [config for config in servers if _leads_to(config, place)]
    if len(found) > 1:
        env = dict(field(place, "env") or {})
        found = [config for config in found if (field(config, "env") or {}) == env]
    return found[0].name if len(found) == 1 else None


def _leads_to(config: Any, place: Any) -> bool:
    if url := field(place, "url"):
        return field(config, "url") == str(url)
    return bool(field(place, "command")) and _command_of(config) == _command_of(place)


def _command_of(server: Any) -> tuple[Any, ...]:
    return (field(server, "command"), *(field(server, "args") or ()))


def network_of(place: Any) -> dict[str, Any]:
    """Return the network attributes of a place, for spans and metrics; empty without a place."""
    if place is None:
        return {}
    if place.command:
        return {semconv.NETWORK_TRANSPORT: "pipe"}
    return {semconv.NETWORK_TRANSPORT: "tcp", **server_of(place.url)}


def server_of(url: Any) -> dict[str, Any]:
    """Return the attributes of the server behind a URL; empty if it is not a URL."""
    try:
        parts = urlsplit(str(url))
        known = {semconv.SERVER_ADDRESS: parts.hostname, semconv.SERVER_PORT: parts.port}
    except ValueError:  # the client will report it
        return {}
    return {key: value for key, value in known.items() if value}
