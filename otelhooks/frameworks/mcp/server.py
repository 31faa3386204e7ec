"""The server's seats: the handler of ``tools/call``, and tools run without a request."""
# pyright: basic

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import contents
from otelhooks.frameworks.kit.crossings import origin
from otelhooks.frameworks.kit.telemetry import semconv
from otelhooks.frameworks.mcp import wire
from otelhooks.frameworks.mcp.calls import SERVER, TOOL, McpCall, serves
from otelhooks.frameworks.mcp.connections import Peer, peer_of

__all__ = ["EarlierHandlerCall", "HandlerCall", "ToolRun", "request_handler"]


class HandlerCall(McpCall):
    """A server's handler in 2.x."""

    group = SERVER
    metric = semconv.METRIC_MCP_SERVER_OPERATION_DURATION
    keeps_schema = True

    def read(self, server: Any, context: Any, params: Any) -> None:
        self.request, self.params = context, params
        self.peer = Peer(protocol=context.protocol_version)
        self.runs_in(_sent(context.meta))
        self.of(params.name, params.arguments)
        self.is_served_by(server.name)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(self.request, self.params.model_copy(update=self.changes(args)))

    def stages(self) -> Any:
        """Return the steps of the tool of a `FastMCP` or `MCPServer`."""
        func: Any = None  # its `call_tool`, if it is one
        with contextlib.suppress(AttributeError, ValueError):  # no such name, or no value yet
            at = self.function.__code__.co_freevars.index("func")
            func = self.function.__closure__[at].cell_contents
        manager = getattr(getattr(func, "__self__", None), "_tool_manager", None)
        tools = getattr(manager, "_tools", None)
        tool = tools.get(self.name) if isinstance(tools, dict) else None
        return self.stages_of(getattr(tool, "fn", None))

    def next_seat(self) -> Any:
        return self.at(TOOL)


class EarlierHandlerCall(HandlerCall):
    """A server's handler in 1.x, which wraps the result."""

    def read(self, server: Any, request: Any) -> None:
        self.request = request
        context, self.peer = _origin()
        self.runs_in(context)
        self.of(request.params.name, request.params.arguments)
        self.is_served_by(server.name)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(wire.copy_request(self.request, **self.changes(args)))

    def made(self, **result: Any) -> Any:
        return kit.native("mcp.types:ServerResult")(super().made(**result))

    def inner(self, raw: Any) -> Any:
        return getattr(raw, "root", raw)


def request_handler(wrapped: Any, server: Any, method: str) -> Any:
    """Guard what `Server.get_request_handler` of 2.x returns; it is called at each request."""
    entry = wrapped(method)
    if entry is None or method != semconv.MCP_METHOD_TOOLS_CALL:
        return entry
    handler = functools.partial(HandlerCall.through, "coroutine", entry.handler, server)
    return dataclasses.replace(entry, handler=handler)


def _sent(meta: Any) -> Context | None:
    """Return the trace that came in ``_meta``; None if the package's own span continues it.

    Without a global provider, the package opens no such span.
    """
    if not meta or trace.get_current_span().get_span_context().is_valid:
        return None
    return wire.trace_of(meta)


def _origin() -> tuple[Context | None, Peer]:
    """Return the context that a request of 1.x comes from, and what is known of its client.

    It is the context of the caller in this process, or the trace that came in ``_meta``.
    """
    request = kit.native("mcp.server.lowlevel.server:request_ctx").get(None)
    if request is None:  # a handler that user code calls
        return None, Peer()
    client = getattr(request.session, "client_params", None)
    seen = Peer(protocol=str(client.protocolVersion) if client is not None else None)
    sent = peer_of(request.session).link.pop(request.request_id, None) or origin(request.meta)
    if sent is None and request.meta is not None:
        sent = wire.trace_of(request.meta)
    return sent, seen


class ToolRun(McpCall):
    """`Tool.run` of `MCPServer` and `FastMCP`; it raises its failures."""

    group = TOOL

    def read(self, tool: Any, arguments: Any, *rest: Any, **further: Any) -> None:
        serves(tool.name)
        self.tool, self.description = tool, tool.description
        self.given = dict(zip(("context", "convert_result"), rest, strict=False)) | further
        self.converts = bool(self.given.get("convert_result"))
        context = self.given.get("context")
        server = getattr(context, "_mcp_server", None) or getattr(context, "_fastmcp", None)
        self.of(tool.name, arguments)
        self.is_served_by(getattr(server, "name", None))

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(args, **self.given)

    def denied(self, reason: str) -> Any:
        return self.raised(_tool_error(reason))

    def inner(self, raw: Any) -> Any:
        """Return a result: 1.x has its content alone, or beside its structured content."""
        if isinstance(raw, tuple) and len(raw) == 2:
            return {"content": raw[0], "structured_content": raw[1]}
        return {"content": raw} if self.converts and isinstance(raw, list) else raw

    def with_value(self, raw: Any, value: Any) -> Any:
        """Return a value in the form that the caller wants."""
        given, made = self.inner(raw), value
        if not self.converts or not contents.is_result(given):
            return value
        if contents.has_two_values(given):
            made = self.made(**contents.replaced(given, value, keeps_schema=True))
        try:
            return self.tool.fn_metadata.convert_result(made)
        except ValueError:  # the schema has no place for it: the caller gets an error instead
            return self.raised(_tool_error(value if isinstance(value, str) else str(value)))

    def failed(self, error: BaseException, message: str) -> Any:
        replaced = _tool_error(message)
        replaced.__cause__ = error
        return self.raised(replaced)

    def recovered(self, value: Any) -> Any:
        return self.with_value([], value)

    def error(self, raw: Any) -> str | None:
        return super().error(raw) if contents.is_result(raw) else None

    def next_seat(self) -> Any:
        """Continue to the package's method from that of a subclass, which may call it."""
        if not self.function.__module__.startswith("mcp.server."):
            return self.at(TOOL)
        return self.at_seat_of(self.tool.fn)

    def stages(self) -> Any:
        return self.stages_of(self.tool.fn)


def _tool_error(reason: str) -> Exception:
    return kit.native("mcp.server.(mcpserver|fastmcp).exceptions:ToolError")(reason)
