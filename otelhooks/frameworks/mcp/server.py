"""The server's wrappers: the handler of ``tools/call``, and tools run without a request."""
# pyright: basic

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import wrapt
from opentelemetry import context as otel_context
from opentelemetry import trace

from otelhooks.frameworks.mcp import wire
from otelhooks.frameworks.mcp.connections import Peer, peer_of
from otelhooks.frameworks.mcp.seats import (
    SERVER,
    TOOL,
    Server,
    Tool,
    or_none,
    server_call_of,
    serves,
)
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import adrive
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.tool_call import tool
from otelhooks.telemetry import semconv

__all__ = ["handle", "install_handlers", "request_handler", "run_tool"]


def request_handler(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Wrap `Server.get_request_handler` of 2.x, which is asked at each request."""
    entry = wrapped(*args, **kwargs)
    method = args[0] if args else kwargs["method"]
    if entry is None or method != semconv.MCP_METHOD_TOOLS_CALL or runtime.active() is None:
        return entry
    return dataclasses.replace(entry, handler=functools.partial(_handle, entry.handler, instance))


def _handle(handler: Any, server: Any, context: Any, params: Any) -> Any:
    """Handle a call in 2.x."""
    rt = runtime.active()
    if rt is None:
        return handler(context, params)
    peer = Peer(protocol=context.protocol_version)
    call = server_call_of(rt, SERVER, server.name, params.name, params.arguments)

    def handle(approved: dict[str, Any]) -> Any:
        update = {"name": call.name, "arguments": or_none(params.arguments, approved)}
        return handler(context, params.model_copy(update=update))

    seat = Server(peer, lambda result: result)
    return _within(_sent_trace(context.meta), lambda: adrive(tool(rt, seat, call), handle))


def _sent_trace(meta: Any) -> otel_context.Context | None:
    """Return the trace that came in ``_meta``; None where the package's own span has taken it up.

    It opens none that does where nobody set a global provider.
    """
    if not meta or trace.get_current_span().get_span_context().is_valid:
        return None
    return wire.trace_of(meta)


class _Handlers(wrapt.ObjectProxy):
    """A server's table of handlers in 1.x, from which that of tool calls comes guarded."""

    def __init__(self, handlers: Any, guard: Callable[[Any], Any]) -> None:
        super().__init__(handlers)
        self._self_guard = guard

    def __getitem__(self, key: Any) -> Any:
        return self._guarded(key, self.__wrapped__[key])

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self.__wrapped__ else default

    def _guarded(self, key: Any, handler: Any) -> Any:
        is_call = key.__name__ == "CallToolRequest"  # the class, of whichever copy of the package
        return self._self_guard(handler) if is_call else handler


def install_handlers(owner: type, name: str, call: Any) -> Callable[[], None]:
    """Put a descriptor in front of a server's table; servers that exist already are guarded too."""

    class Table:
        """The attribute of instances, seen through `_Handlers`."""

        def __get__(self, instance: Any, cls: Any = None) -> Any:
            if instance is None:
                return self
            if name not in vars(instance):
                raise AttributeError(name)

            def guard(handler: Any) -> Any:
                return lambda request: call(handler, instance, (request,), {})

            return _Handlers(vars(instance)[name], guard)

        def __set__(self, instance: Any, value: Any) -> None:
            vars(instance)[name] = value

    setattr(owner, name, Table())

    def undo() -> None:
        delattr(owner, name)

    return undo


def handle(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Wrap the handler of tool calls of 1.x."""
    rt = runtime.active()
    (request,) = args
    if rt is None:
        return wrapped(request)
    context, peer = _origin()
    return _within(context, lambda: _handle_1(rt, wrapped, instance, request, peer))


def _handle_1(rt: Runtime, handler: Any, server: Any, request: Any, peer: Peer) -> Any:
    arguments = request.params.arguments
    call = server_call_of(rt, SERVER, server.name, request.params.name, arguments)

    def body(approved: dict[str, Any]) -> Any:
        changes = {"name": call.name, "arguments": or_none(arguments, approved)}
        return handler(wire.copy_request(request, **changes))

    seat = Server(peer, sys.modules["mcp.types"].ServerResult, handler)
    return adrive(tool(rt, seat, call), body)


def _origin() -> tuple[otel_context.Context | None, Peer]:
    """Return the context that a request of 1.x comes from, and what is known of its client.

    It is that of the caller in this process, or the trace that came in ``_meta``.
    """
    request = sys.modules["mcp.server.lowlevel.server"].request_ctx.get(None)
    if request is None:  # a handler that user code calls
        return None, Peer()
    peer, client = peer_of(request.session), getattr(request.session, "client_params", None)
    seen = Peer(protocol=str(client.protocolVersion) if client is not None else None)
    sent = peer.link.sent.pop(request.request_id, None) if peer.link is not None else None
    if sent is not None or request.meta is None:
        return sent, seen
    return wire.trace_of(request.meta.model_extra or {}), seen


async def _within(context: otel_context.Context | None, make: Callable[[], Awaitable[Any]]) -> Any:
    token = otel_context.attach(context) if context is not None else None
    try:
        return await make()
    finally:
        if token is not None:
            otel_context.detach(token)


def run_tool(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Wrap `Tool.run` of `MCPServer` and `FastMCP`."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    names = ("arguments", "context", "convert_result")
    given = dict(zip(names, args, strict=False)) | kwargs
    arguments = given.pop("arguments")
    serves(instance.name)
    server = _server_of(given.get("context"))
    call = server_call_of(rt, TOOL, server, instance.name, arguments)
    call.description = instance.description
    is_override = not wrapped.__module__.startswith("mcp.server.")
    seat = Tool(instance, bool(given.get("convert_result")), is_override)
    return adrive(tool(rt, seat, call), lambda approved: wrapped(approved, **given))


def _server_of(context: Any) -> str | None:
    """Return the name of the server whose context a tool runs in; None outside of any."""
    server = getattr(context, "_mcp_server", None) or getattr(context, "_fastmcp", None)
    return getattr(server, "name", None)
