"""How MCP's seats read and write a call; what they share is the form of a tool's result.

Hooks see a result's text, or its content as JSON where that is not all text; what they return takes
the place of content and structured content.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import trace

from otelhooks.frameworks.mcp import wire
from otelhooks.frameworks.mcp.connections import Peer, server_name
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import Raised
from otelhooks.hooks.stages import StageParams
from otelhooks.pipeline.frames import Op, current_frame
from otelhooks.pipeline.leads import next_seat, stages_of
from otelhooks.pipeline.permits import Handoff
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.telemetry import semconv
from otelhooks.telemetry.spans import exemplar

__all__ = [
    "ROUND",
    "SERVER",
    "TOOL",
    "Host",
    "Request",
    "Round",
    "Server",
    "Session",
    "Tool",
    "client_call_of",
    "or_none",
    "server_call_of",
    "serves",
]

FRAMEWORK = "mcp"

CLIENT, ROUND, REQUEST = "mcp.client", "mcp.client.round", "mcp.request"
SERVER, TOOL = "mcp.server", "mcp.tool"

_MAX_KNOWN = 10_000
_REFUSED = -32603
"""JSON-RPC code "internal error", of a refused request that has no form for a tool's error."""

_known: set[str] = set()


def serves(name: str) -> None:
    """Note the name of a tool of this process; others are only the word of who calls."""
    if len(_known) < _MAX_KNOWN:
        _known.add(name)


class McpSeat(ToolSeat):
    """What all seats share whose result is a `CallToolResult`."""

    framework = FRAMEWORK
    metric = ""
    keeps_schema = False

    def __init__(self, peer: Peer | None = None) -> None:
        self.peer = peer or Peer()

    def denied(self, call: Call, reason: str) -> Any:
        return wire.text_result(reason, is_error=True)

    def result(self, call: Call, raw: Any) -> Any:
        return wire.value_of(raw)

    def with_result(self, call: Call, raw: Any, value: Any) -> Any:
        return wire.replaced(raw, value, keeps_schema=self.keeps_schema)

    def error(self, call: Call, raw: Any) -> str | None:
        return wire.tool_error(raw)

    def error_type(self, error: BaseException) -> str:
        found = wire.error_of(error)
        return super().error_type(error) if found is None else str(found.code)

    def failed(self, call: Call, error: BaseException, message: str) -> Any:
        found = wire.error_of(error)
        if found is not None:
            return Raised(wire.make_error(message, found.code))
        return wire.text_result(message, is_error=True)

    def recovered(self, call: Call, value: Any) -> Any:
        structured = None
        if self.keeps_schema:
            structured = value if isinstance(value, dict) else {"result": value}
        content = wire.blocks_of(value)
        fields = {"structuredContent": structured} if structured is not None else {}
        return wire.make("CallToolResult", content=content, **fields)

    def is_control_flow(self, error: BaseException) -> bool:
        found = wire.error_of(error)
        return found is not None and found.code == wire.URL_ELICITATION_REQUIRED

    def attributes(self, call: Call) -> Mapping[str, Any]:
        found = {semconv.MCP_METHOD_NAME: semconv.MCP_METHOD_TOOLS_CALL}
        if self.peer.protocol:
            found[semconv.MCP_PROTOCOL_VERSION] = self.peer.protocol
        if self.peer.connection is not None:
            found.update(self.peer.connection.attributes())
        return found

    def finished(
        self, rt: Runtime, call: Call, seconds: float, failure: str | None, span: trace.Span | None
    ) -> None:
        if not self.metric:
            return
        code = failure if failure and failure.lstrip("-").isdigit() else None
        if code is not None and span is not None:
            span.set_attribute(semconv.RPC_RESPONSE_STATUS_CODE, code)
        name = call.name if call.is_known else semconv.TOOL_NAME_OTHER
        network = self.peer.connection.attributes() if self.peer.connection is not None else {}
        if self.metric == semconv.METRIC_MCP_SERVER_OPERATION_DURATION:
            network = {}
        attributes = _metric_attributes(
            name, self.peer.protocol, failure, code, tuple(network.items())
        )
        rt.instruments.record(self.metric, seconds, attributes, exemplar(span))


@functools.lru_cache(maxsize=4096)
def _metric_attributes(
    name: str,
    protocol: str | None,
    failure: str | None,
    code: str | None,
    network: tuple[tuple[str, Any], ...],
) -> dict[str, Any]:
    optional = (
        (semconv.MCP_PROTOCOL_VERSION, protocol),
        (semconv.ERROR_TYPE, failure),
        (semconv.RPC_RESPONSE_STATUS_CODE, code),
    )
    return {
        semconv.MCP_METHOD_NAME: semconv.MCP_METHOD_TOOLS_CALL,
        semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL,
        semconv.GEN_AI_TOOL_NAME: name,
        **{key: value for key, value in optional if value},
        **dict(network),
    }


class Host(McpSeat):
    """`Client.call_tool`: one logical call, in as many rounds as the server wants."""

    group = CLIENT

    def handoff(self, call: Call) -> Handoff:
        return Handoff(CLIENT, call.name, call.server)


class Session(McpSeat):
    """`ClientSession.call_tool`."""

    group = CLIENT

    def handoff(self, call: Call) -> Handoff:
        return Handoff(REQUEST, call.name, call.server)

    def follow_up(self, call: Call, raw: Any) -> Handoff | None:
        if wire.field(raw, "input_requests") is None and wire.field(raw, "request_state") is None:
            return None
        return Handoff(ROUND, call.name, call.server)


class Round(Session):
    """`ClientSession.call_tool` with the answers to what the server asked."""

    group = ROUND
    judges_again = True


class Request(McpSeat):
    """`send_request`."""

    group = REQUEST
    metric = semconv.METRIC_MCP_CLIENT_OPERATION_DURATION

    def __init__(self, peer: Peer, result_type: Any) -> None:
        super().__init__(peer)
        self._result_type = result_type

    def denied(self, call: Call, reason: str) -> Any:
        expected, result = self._result_type, sys.modules["mcp.types"].CallToolResult
        if isinstance(expected, type) and not issubclass(expected, result):
            return Raised(wire.make_error(reason, _REFUSED))
        return super().denied(call, reason)

    def handoff(self, call: Call) -> Handoff | None:
        if self.peer.connection is not None:  # a command or an address: the server lies elsewhere
            return None
        return Handoff(SERVER, call.name, call.server)


class Server(McpSeat):
    """A server's handler; what it returns is still checked against the tool's schema.

    Args:
        peer: What is known of the client.
        wrap: Makes of a tool's result what the handler returns.
        handler: The handler.
    """

    group = SERVER
    metric = semconv.METRIC_MCP_SERVER_OPERATION_DURATION
    keeps_schema = True

    def __init__(self, peer: Peer, wrap: Callable[[Any], Any], handler: Any = None) -> None:
        super().__init__(peer)
        self._wrap = wrap
        self._handler = handler

    def stages(self, call: Call) -> StageParams | None:
        func = _closure(self._handler).get("func")  # `FastMCP.call_tool`, where it is one
        manager = getattr(getattr(func, "__self__", None), "_tool_manager", None)
        tools = getattr(manager, "_tools", None)
        tool = tools.get(call.name) if isinstance(tools, dict) else None
        return stages_of(getattr(tool, "fn", None), call.name)

    def denied(self, call: Call, reason: str) -> Any:
        return self._wrap(super().denied(call, reason))

    def result(self, call: Call, raw: Any) -> Any:
        return super().result(call, _unwrapped(raw))

    def with_result(self, call: Call, raw: Any, value: Any) -> Any:
        return self._wrap(super().with_result(call, _unwrapped(raw), value))

    def error(self, call: Call, raw: Any) -> str | None:
        return super().error(call, _unwrapped(raw))

    def failed(self, call: Call, error: BaseException, message: str) -> Any:
        replaced = super().failed(call, error, message)
        return replaced if type(replaced) is Raised else self._wrap(replaced)

    def recovered(self, call: Call, value: Any) -> Any:
        return self._wrap(super().recovered(call, value))

    def handoff(self, call: Call) -> Handoff:
        return Handoff(TOOL, call.name, call.server)


def _unwrapped(raw: Any) -> Any:
    return getattr(raw, "root", raw)


class Tool(McpSeat):
    """`Tool.run`; it raises what it has to say of a failure.

    Args:
        own: The tool's metadata, which makes a tool's result of a function's.
        converts: Whether the caller wants a tool's result.
        is_override: Whether the method of a subclass runs, which may call the package's.
    """

    group = TOOL

    def __init__(self, own: Any, converts: bool, is_override: bool) -> None:
        super().__init__()
        self._own = own
        self._converts = converts
        self._is_override = is_override

    def denied(self, call: Call, reason: str) -> Any:
        return Raised(_tool_error(reason))

    def result(self, call: Call, raw: Any) -> Any:
        if isinstance(raw, tuple) and len(raw) == 2:
            return wire.content_value(*raw)
        if self._converts and isinstance(raw, list):
            return wire.content_value(raw)
        return super().result(call, raw)

    def with_result(self, call: Call, raw: Any, value: Any) -> Any:
        if not self._converts or not (isinstance(raw, (tuple, list)) or wire.is_result(raw)):
            return value
        try:
            return self._own.fn_metadata.convert_result(value)
        except ValueError:  # the schema has no place for it: the caller gets an error instead
            return Raised(_tool_error(value if isinstance(value, str) else str(value)))

    def failed(self, call: Call, error: BaseException, message: str) -> Any:
        replaced = _tool_error(message)
        replaced.__cause__ = error
        return Raised(replaced)

    def recovered(self, call: Call, value: Any) -> Any:
        return self.with_result(call, [], value)

    def error(self, call: Call, raw: Any) -> str | None:
        return super().error(call, raw) if wire.is_result(raw) else None

    def handoff(self, call: Call) -> Handoff | None:
        if self._is_override:
            return Handoff(TOOL, call.name, call.server)
        return next_seat(self._own.fn, call.name, call.server)

    def stages(self, call: Call) -> StageParams | None:
        return stages_of(self._own.fn, call.name)


def _closure(function: Any) -> dict[str, Any]:
    """Return what a function has of the scope that it was made in; empty for what is none."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    found: dict[str, Any] = {}
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        with contextlib.suppress(ValueError):  # it has no value yet
            found[name] = cell.cell_contents
    return found


def _tool_error(reason: str) -> Exception:
    module = sys.modules.get("mcp.server.mcpserver.exceptions")
    return (module or sys.modules["mcp.server.fastmcp.exceptions"]).ToolError(reason)


def client_call_of(rt: Runtime, peer: Peer, session: Any, name: str, arguments: Any) -> Call:
    server = server_name(rt, peer.connection)
    listed = getattr(session, "_tool_output_schemas", {})
    return Call(
        name,
        dict(arguments or {}),
        server=server,
        claimed_server=server is None,
        server_says=peer.says,
        is_known=name in listed or name in _known,
    )


def server_call_of(rt: Runtime, group: str, server: str | None, name: str, arguments: Any) -> Call:
    """Read a call in the server's process.

    A call that came through a client in this process keeps the name that the client knows.
    """
    frame = current_frame()
    inside = type(frame) is Op and frame.permits.holds(group)
    taken = any(config.name == server for config in rt.servers)
    known = None if inside or taken else server or None
    return Call(
        name,
        dict(arguments or {}),
        server=known,
        claimed_server=known is None,
        server_says=server if known is None else None,
        is_known=name in _known,
    )


def or_none(arguments: Any, approved: dict[str, Any]) -> Any:
    """Return approved arguments as they were given: a call without any stays one."""
    return None if arguments is None and not approved else approved
