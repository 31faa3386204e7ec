"""Which server a client session talks to: its transport's target, and what the server says.

Transports are functions that return a pair of streams; sessions are created from such a pair. Both
are noted, so that a session leads to the command or address that the application wrote. If anything
in between is unknown (other transports, wrapped streams, functions that were copied before
`instrument()`), the session has no connection, and its server no name.

How long sessions last is a metric. A client's lasts from entering to leaving it, and so does a
server's in 1.x; in 2.x a server's lasts while it serves one connection (its session objects last
for a request). A client and a server of 2.x in one process have no connection.
"""
# pyright: basic

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Mapping
from time import perf_counter
from typing import Any, NamedTuple

import wrapt
from opentelemetry.context import Context

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.mcp import lists, servers
from otelhooks.frameworks.kit.telemetry import record, semconv

__all__ = [
    "Peer",
    "connected_memory",
    "connected_stdio",
    "connected_url",
    "entered",
    "initialized",
    "left",
    "made_dispatcher",
    "made_session",
    "peer_of",
    "served",
]

_CLIENT = semconv.METRIC_MCP_CLIENT_SESSION_DURATION
_SERVER = semconv.METRIC_MCP_SERVER_SESSION_DURATION


class Connection(NamedTuple):
    """What the application connects to: a command, or an address."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    url: str = ""


class Link(dict[Any, Context]):
    """A client and a server session in one process, over a pair of streams in memory.

    Contains the context of each call on its way, by its request id.
    """


@dataclasses.dataclass(eq=False)
class Peer:
    """What is known of the other side of a session.

    Attributes:
        connection: None if unknown.
        link: Shared with the session of the other side, if that is in this process (1.x only).
        protocol: The negotiated version.
        says: The name that a server gives itself.
        calls: Contexts of the open calls.
        tools: What it lists, if the application gave it no name.
    """

    connection: Connection | None = None
    link: Link = dataclasses.field(default_factory=Link)
    protocol: str | None = None
    says: str | None = None
    calls: list[Context] = dataclasses.field(default_factory=list)
    tools: lists.Listed = dataclasses.field(default_factory=dict)

    @property
    def listed_as(self) -> str:
        """The name that the server's tools are approved under; empty if it has none.

        What the application connects to needs a name from it. A server without a command or an
        address is in this process, or behind a transport of the application's own; it has the name
        that it gives itself, unless the application gave that name to another one.
        """
        if self.connection is not None:
            return servers.name_at(self.connection) or ""
        return "" if lists.is_taken(self.says) else self.says or ""


_streams: dict[int, tuple[Any, Any]] = {}  # the streams of 2.x cannot be referenced weakly
_dispatchers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_peers: weakref.WeakKeyDictionary[Any, Peer] = weakref.WeakKeyDictionary()
_entered: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()


def peer_of(session: Any) -> Peer:
    """Return what is known of a session's other side; empty for a session created before us."""
    peer = _peers.get(session)
    if peer is None:
        peer = _peers[session] = Peer()
    info = getattr(session, "server_info", None)  # 2.x keeps it, and it may be set late
    if info is not None:
        peer.says = info.name
    peer.protocol = getattr(session, "protocol_version", None) or peer.protocol
    return peer


# -- transports -------------------------------------------------------------------------------


class _Noted(wrapt.ObjectProxy):
    """A transport that returns a pair of streams, or two; they are noted while it is open."""

    def __init__(self, transport: Any, origin: Any) -> None:
        super().__init__(transport)
        self._self_origin = origin
        self._self_noted: list[Any] = []

    async def __aenter__(self) -> Any:
        given = await self.__wrapped__.__aenter__()
        pairs = given if isinstance(self._self_origin, Link) else [given[:2]]
        self._self_noted = [stream for pair in pairs for stream in pair]
        _streams.update({id(one): (one, self._self_origin) for one in self._self_noted})
        return given

    async def __aexit__(self, *exc_info: Any) -> Any:
        for one in self._self_noted:
            _streams.pop(id(one), None)
        return await self.__wrapped__.__aexit__(*exc_info)


def connected_stdio(wrapped: Any, owner: Any, server: Any, *args: Any, **kwargs: Any) -> Any:
    """Listen to ``stdio_client``."""
    connection = Connection(str(server.command), tuple(server.args), server.env)
    return _Noted(wrapped(server, *args, **kwargs), connection)


def connected_url(wrapped: Any, owner: Any, url: Any, *args: Any, **kwargs: Any) -> Any:
    """Listen to ``sse_client`` and ``streamable_http_client``."""
    return _Noted(wrapped(url, *args, **kwargs), Connection(url=str(url)))


def connected_memory(wrapped: Any, owner: Any) -> Any:
    """Listen to ``create_client_server_memory_streams``."""
    return _Noted(wrapped(), Link())


# -- sessions ---------------------------------------------------------------------------------


def _origin(reads: Any, writes: Any) -> Any:
    """Return the origin of a pair of streams; None unless both have the same one."""
    (_, origin), (_, other) = (_streams.get(id(one), (None, None)) for one in (reads, writes))
    return origin if origin is other else None


def made_dispatcher(
    wrapped: Any, dispatcher: Any, read_stream: Any, write_stream: Any, *args: Any, **kwargs: Any
) -> None:
    """Listen to ``JSONRPCDispatcher.__init__``, which 2.x puts between streams and session."""
    wrapped(read_stream, write_stream, *args, **kwargs)
    if (origin := _origin(read_stream, write_stream)) is not None:
        _dispatchers[dispatcher] = origin


def made_session(
    wrapped: Any,
    session: Any,
    read_stream: Any = None,
    write_stream: Any = None,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Listen to the constructor of sessions."""
    wrapped(read_stream, write_stream, *args, **kwargs)
    origin, dispatcher = _origin(read_stream, write_stream), kwargs.get("dispatcher")
    if dispatcher is not None:
        origin = _dispatchers.get(dispatcher, origin)
    peer = _peers[session] = Peer()
    if isinstance(origin, Link):
        peer.link = origin
    else:
        peer.connection = origin


async def initialized(wrapped: Any, session: Any) -> Any:
    """Listen to ``ClientSession.initialize`` of 1.x, which does not keep what the server says."""
    result = await wrapped()
    peer = peer_of(session)
    peer.says, peer.protocol = result.serverInfo.name, str(result.protocolVersion)
    return result


async def entered(wrapped: Any, session: Any) -> Any:
    """Listen to ``__aenter__`` of a session."""
    given = await wrapped()
    _entered[session] = perf_counter()
    return given


async def left(wrapped: Any, session: Any, *failure: Any) -> Any:
    """Listen to ``__aexit__`` of a session."""
    try:
        return await wrapped(*failure)
    finally:
        if (started := _entered.pop(session, None)) is not None:
            is_server = any(cls.__name__ == "ServerSession" for cls in type(session).__mro__)
            _record(_SERVER if is_server else _CLIENT, started, failure[1])


async def served(wrapped: Any, owner: Any, *args: Any, **kwargs: Any) -> Any:
    """Listen to the function that serves one connection."""
    started, failure = perf_counter(), None
    try:
        return await wrapped(*args, **kwargs)
    except BaseException as error:
        failure = error
        raise
    finally:
        _record(_SERVER, started, failure)


def _record(metric: str, started: float, error: BaseException | None) -> None:
    attributes = {} if error is None else {semconv.ERROR_TYPE: kit.ToolCall.error_type(error)}
    record(metric, perf_counter() - started, attributes)
