"""What MCP's seats have in common: a call in the protocol, and the form of a tool's result.

Hooks see a result's text, or its content as JSON if that is not all text, and structured content
that says something else; what they return replaces content and structured content.
"""
# pyright: basic

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import contents
from otelhooks.frameworks.kit.telemetry import record, semconv
from otelhooks.frameworks.mcp import wire
from otelhooks.frameworks.mcp.connections import Peer

__all__ = ["CLIENT", "REQUEST", "ROUND", "SERVER", "TOOL", "McpCall", "serves"]

CLIENT, ROUND, REQUEST = "mcp.client", "mcp.client.round", "mcp.request"
SERVER, TOOL = "mcp.server", "mcp.tool"

_MAX_KNOWN = 10_000

_known: set[str] = set()


def serves(name: str) -> None:
    """Note the name of a tool of this process; any other name is only the caller's word."""
    if len(_known) < _MAX_KNOWN:
        _known.add(name)


class McpCall(kit.ToolCall):
    """A call at any of MCP's seats.

    Attributes:
        metric: Metric of its duration.
        keeps_schema: Whether its result is still checked against the tool's schema.
        peer: What is known of the other side.
    """

    metric = ""
    keeps_schema = False
    peer = Peer()

    def of(self, name: str, arguments: Any, server: str | None, says: str | None) -> None:
        """Read a call.

        Args:
            name: Name of the tool.
            arguments: As they were given.
            server: The application's name for the server; None if it gave none.
            says: The name that the server gives itself.
        """
        self.name, self.args, self._is_bare = name, dict(arguments or {}), arguments is None
        self.server, self.claimed_server, self.server_says = server, server is None, says
        self.is_known = name in _known

    def changes(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return what was approved as parameters: a call without any arguments stays one.

        The name too: holders of the request may have written another one meanwhile.
        """
        return {"name": self.name, "arguments": None if self._is_bare and not args else args}

    def made(self, result: Any) -> Any:
        """Return what the function returns for a tool's result."""
        return result

    def inner(self, raw: Any) -> Any:
        """Return the result in what the function returned."""
        return raw

    def denied(self, reason: str) -> Any:
        return self.made(wire.error_result(reason))

    def refused(self, error: Exception) -> Any:
        raise error  # an unknown package may have other forms

    def value(self, raw: Any) -> Any:
        return contents.value_of(self.inner(raw))

    def with_value(self, raw: Any, value: Any) -> Any:
        fields = contents.replaced(self.inner(raw), value, keeps_schema=self.keeps_schema)
        return self.made(wire.make("CallToolResult", **fields))

    def error(self, raw: Any) -> str | None:
        return contents.error_of(self.inner(raw))

    def failed(self, error: BaseException, message: str) -> Any:
        """Return a result that reports the failure, or a JSON-RPC error for one."""
        if (found := wire.error_of(error)) is not None:
            return self.raised(wire.make_error(message, found.code))
        return self.made(wire.error_result(message))

    def recovered(self, value: Any) -> Any:
        fields: dict[str, Any] = {"content": contents.blocks_of(value)}
        if self.keeps_schema:
            fields["structuredContent"] = value if isinstance(value, dict) else {"result": value}
        return self.made(wire.make("CallToolResult", **fields))

    @staticmethod
    def error_type(error: BaseException) -> str:
        """Return the code of a JSON-RPC error, or an exception's name."""
        found = wire.error_of(error)
        return kit.ToolCall.error_type(error) if found is None else str(found.code)

    @classmethod
    def is_control_flow(cls, error: BaseException) -> bool:
        """Return whether the user must visit an address first."""
        found = wire.error_of(error)
        return found is not None and found.code == wire.URL_ELICITATION_REQUIRED

    def attributes(self) -> Mapping[str, Any]:
        found = {semconv.MCP_METHOD_NAME: semconv.MCP_METHOD_TOOLS_CALL}
        if self.peer.protocol:
            found[semconv.MCP_PROTOCOL_VERSION] = self.peer.protocol
        return found | self.network_of(self.peer.connection)

    def finished(self, seconds: float, failure: str | None, span: Any) -> None:
        """Record its duration."""
        if not self.metric:
            return
        code = failure if failure and failure.lstrip("-").isdigit() else None
        if code is not None and span is not None:
            span.set_attribute(semconv.RPC_RESPONSE_STATUS_CODE, code)
        found = {
            semconv.MCP_METHOD_NAME: semconv.MCP_METHOD_TOOLS_CALL,
            semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL,
            semconv.GEN_AI_TOOL_NAME: self.name if self.is_known else semconv.TOOL_NAME_OTHER,
            semconv.MCP_PROTOCOL_VERSION: self.peer.protocol,
            semconv.ERROR_TYPE: failure,
            semconv.RPC_RESPONSE_STATUS_CODE: code,
            **self.network_of(self.peer.connection),
        }
        record(self.metric, seconds, {key: each for key, each in found.items() if each}, span)
