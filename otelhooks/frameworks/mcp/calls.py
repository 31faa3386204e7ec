"""What MCP's seats have in common: a call in the protocol, and the form of a tool's result.

Hooks see a result's text, or its content as JSON if that is not all text, and structured content
that says something else; what they return replaces content and structured content.
"""
# pyright: basic

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.mcp.results import ResultCall
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


class McpCall(ResultCall):
    """A call at any of MCP's seats.

    Attributes:
        metric: Metric of its duration.
        peer: What is known of the other side.
    """

    metric = ""
    peer = Peer()

    def of(self, name: str, arguments: Any) -> None:
        """Read a call of a tool, with the arguments as they were given."""
        self.name, self.args, self._is_bare = name, dict(arguments or {}), arguments is None
        self.is_known = name in _known

    def changes(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return what was approved as parameters: a call without any arguments stays one.

        The name too: holders of the request may have written another one meanwhile.
        """
        return {"name": self.name, "arguments": None if self._is_bare and not args else args}

    def made(self, **result: Any) -> Any:
        return wire.make("CallToolResult", **result)

    def refused(self, error: Exception) -> Any:
        raise error  # an unknown package may have other forms

    def failed(self, error: BaseException, message: str) -> Any:
        """Return a result that reports the failure, or a JSON-RPC error for one."""
        if (found := wire.error_of(error)) is not None:
            return self.raised(wire.make_error(message, found.code))
        return super().failed(error, message)

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
            **self.attributes(),
            semconv.GEN_AI_OPERATION_NAME: semconv.OP_EXECUTE_TOOL,
            semconv.GEN_AI_TOOL_NAME: self.name if self.is_known else semconv.TOOL_NAME_OTHER,
            semconv.ERROR_TYPE: failure,
            semconv.RPC_RESPONSE_STATUS_CODE: code,
        }
        record(self.metric, seconds, {key: each for key, each in found.items() if each}, span)
