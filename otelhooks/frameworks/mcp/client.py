"""The client's seats: calls, their rounds, and the requests that they become."""
# pyright: basic

from __future__ import annotations

import functools
from typing import Any

from opentelemetry.context import get_current

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import contents
from otelhooks.frameworks.kit.telemetry import semconv
from otelhooks.frameworks.mcp import lists, wire
from otelhooks.frameworks.mcp.calls import CLIENT, REQUEST, ROUND, SERVER, McpCall
from otelhooks.frameworks.mcp.connections import Peer, peer_of

__all__ = ["HostCall", "RequestCall", "RoundCall", "SessionCall", "send_with_trace"]

_REFUSED = -32603
"""JSON-RPC code "internal error", for a refused request without a form for a tool's error."""


class ClientCall(McpCall):
    """A call in the client's process."""

    def on(self, session: Any, name: str, arguments: Any, rest: Any, further: Any) -> None:
        """Read a call of a session, which may not be open yet."""
        self.peer = peer = peer_of(session) if session is not None else Peer()
        server = self.server_at(peer.connection) if peer.connection is not None else None
        self.of(name, arguments, server, peer.says)
        self._named = server
        self.is_known = self.is_known or name in getattr(session, "_tool_output_schemas", ())
        self.rest, self.further = rest, further

    @property
    def listing(self) -> Any:
        """What is known of the tool's definition; looked up only for those who ask."""
        return lists.listing(self.peer, self._named, self.name)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(self.name, self.changes(args)["arguments"], *self.rest, **self.further)


class HostCall(ClientCall):
    """`Client.call_tool` of 2.x: one logical call, in as many rounds as the server wants."""

    group = CLIENT

    def read(self, client: Any, name: str, arguments: Any = None, *rest: Any, **more: Any) -> None:
        self.on(client._session, name, arguments, rest, more)

    def next_seat(self) -> Any:
        return self.at(CLIENT)


class SessionCall(ClientCall):
    """`ClientSession.call_tool`."""

    group = CLIENT

    def read(self, session: Any, name: str, arguments: Any = None, *rest: Any, **more: Any) -> Any:
        self.on(session, name, arguments, rest, more)

    def next_seat(self) -> Any:
        return self.at(REQUEST)

    def follow_up(self, raw: Any) -> Any:
        """Expect a further round if the server asks back."""
        asks = contents.field(raw, "input_requests"), contents.field(raw, "request_state")
        return None if asks == (None, None) else self.at(ROUND)


class RoundCall(SessionCall):
    """`ClientSession.call_tool` with answers to the server's questions, in the open call."""

    group = ROUND
    judges_again = True

    def read(self, session: Any, name: str, arguments: Any = None, *rest: Any, **more: Any) -> Any:
        answers = more.get("input_responses"), more.get("request_state")
        if answers == (None, None) or not self.is_on_its_way(ROUND):
            return kit.SKIP
        return super().read(session, name, arguments, *rest, **more)


class RequestCall(ClientCall):
    """`send_request`, of 2.x and of sessions of both sides in 1.x."""

    group = REQUEST
    metric = semconv.METRIC_MCP_CLIENT_OPERATION_DURATION

    def read(self, session: Any, request: Any, *rest: Any, **further: Any) -> Any:
        params = wire.params_of(request)
        if params is None:
            if wire.is_list(request):
                self.function = functools.partial(lists.shown, self.function, session)
            return kit.SKIP
        name, arguments = contents.field(params, "name"), contents.field(params, "arguments")
        self.on(session, name, arguments, rest, further)
        self.session, self.request = session, request
        return None

    async def call(self, wrapped: Any, args: Any) -> Any:
        """Send it; while it is open, what the server asks belongs to it."""
        request = wire.copy_request(self.request, **self.changes(args))
        context, link, number = get_current(), self.peer.link, None
        if not hasattr(self.session, "dispatch_input_request"):  # 1.x
            request = wire.with_trace(request)
            number = getattr(self.session, "_request_id", None)  # before anything else runs
        if number is not None:
            self.note({semconv.JSONRPC_REQUEST_ID: str(number)})
            link[number] = context
        self.peer.calls.append(context)
        try:
            return await wrapped(request, *self.rest, **self.further)
        finally:
            self.peer.calls.remove(context)
            link.pop(number, None)

    def denied(self, reason: str) -> Any:
        """Return a tool's error, or raise if another kind of result is wanted."""
        expected = self.rest[0] if self.rest else self.further.get("result_type")
        if isinstance(expected, type):
            if not issubclass(expected, kit.native("mcp.types:CallToolResult")):
                return self.raised(wire.make_error(reason, _REFUSED))
        return super().denied(reason)

    def next_seat(self) -> Any:
        """Continue to the server, if it may be in this process."""
        return self.at(SERVER) if self.peer.connection is None else None


def send_with_trace(wrapped: Any, session: Any, request: Any, *rest: Any, **further: Any) -> Any:
    """Send a request of 1.x with the trace context, which 2.x sends itself."""
    if wire.is_list(request):
        return lists.shown(wrapped, session, wire.with_trace(request), *rest, **further)
    if wire.params_of(request) is None:
        return wrapped(wire.with_trace(request), *rest, **further)
    return RequestCall.through("coroutine", wrapped, session, request, *rest, **further)
