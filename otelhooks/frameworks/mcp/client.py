"""The client's seats: calls, their rounds, and the requests that they become."""
# pyright: basic

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from opentelemetry.context import get_current

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import contents
from otelhooks.frameworks.kit.mcp import lists
from otelhooks.frameworks.kit.telemetry import semconv
from otelhooks.frameworks.mcp import wire
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
        self.of(name, arguments)
        self.server = self.server_at(peer.connection) if peer.connection is not None else None
        self.claimed_server, self.server_says = self.server is None, peer.says
        self.is_known = self.is_known or name in getattr(session, "_tool_output_schemas", ())
        self.rest, self.further = rest, further

    @property
    def listing(self) -> Any:
        """What is known of the tool's definition; looked up only for those who ask."""
        return lists.listing(self.peer.listed_as, self.peer.tools, self.name)

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
        method, params = wire.method_of(request), wire.params_of(request)
        if method == semconv.MCP_METHOD_TOOLS_LIST:
            self.function = functools.partial(shown, self.function, session)
        if method != semconv.MCP_METHOD_TOOLS_CALL:
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
    method = wire.method_of(request)
    if method == semconv.MCP_METHOD_TOOLS_CALL:
        return RequestCall.through("coroutine", wrapped, session, request, *rest, **further)
    request = wire.with_trace(request)
    if method == semconv.MCP_METHOD_TOOLS_LIST:
        return shown(wrapped, session, request, *rest, **further)
    return wrapped(request, *rest, **further)


async def shown(
    wrapped: Callable[..., Any], session: Any, request: Any, *rest: Any, **further: Any
) -> Any:
    """Send a request for a page of the list of tools; return it with those that are approved."""
    page = await wrapped(request, *rest, **further)
    tools = getattr(page, "tools", None)
    if not isinstance(tools, list) or not lists.are_read():
        return page
    peer = peer_of(session)
    named = [(contents.field(tool, "name"), tool) for tool in tools]
    listed = [
        (name, functools.partial(contents.plain, tool, exclude_none=False)) for name, tool in named
    ]
    hidden = lists.note(peer.listed_as, peer.says, peer.tools, listed)
    if not hidden:
        return page
    return page.model_copy(update={"tools": [tool for name, tool in named if name not in hidden]})
