"""The records of the MCP package, read and created alike for 1.x and 2.x.

Both majors write the same JSON; their Python names differ (``isError``, ``is_error``). Records are
therefore created from the JSON form. The package is never imported here.
"""
# pyright: basic

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.context import Context

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import contents, telemetry

__all__ = [
    "copy_request",
    "error_class",
    "error_of",
    "error_result",
    "is_list",
    "make",
    "make_error",
    "params_of",
    "trace_of",
    "with_trace",
]

URL_ELICITATION_REQUIRED = -32042
"""JSON-RPC code of "go to this address first, then call again"."""


def make(name: str, **fields: Any) -> Any:
    """Return a record of a type, created from the JSON form of its fields."""
    return kit.native(f"mcp.types:{name}").model_validate(fields)


# -- requests ---------------------------------------------------------------------------------


def params_of(request: Any) -> Any:
    """Return the parameters of a request to call a tool; None for any other request."""
    inner = getattr(request, "root", request)
    return inner.params if _method(inner) == telemetry.semconv.MCP_METHOD_TOOLS_CALL else None


def is_list(request: Any) -> bool:
    """Return whether a request is for the list of tools."""
    inner = getattr(request, "root", request)
    return _method(inner) == telemetry.semconv.MCP_METHOD_TOOLS_LIST


def _method(request: Any) -> Any:
    return getattr(request, "method", None)


def copy_request(request: Any, **changes: Any) -> Any:
    """Return a copy of a request with other parameters; the original belongs to its caller."""
    inner = getattr(request, "root", request)
    params: Any = inner.params
    if isinstance(params, Mapping):
        params = {**params, **changes}
    else:
        params = params.model_copy(update=changes)
    copied = inner.model_copy(update={"params": params})
    return copied if inner is request else type(request)(copied)


def with_trace(request: Any) -> Any:
    """Return a request with the current trace context in ``_meta``, as 2.x sends it.

    Existing keys stay; baggage is not sent.
    """
    params: Any = getattr(getattr(request, "root", request), "params", None)
    carrier = telemetry.carrier()
    if not carrier or not hasattr(params, "meta"):
        return request
    old = params.meta.model_dump(exclude_none=True) if params.meta is not None else {}
    return copy_request(request, meta=type(params).Meta(**{**carrier, **old}))


def trace_of(meta: Any) -> Context:
    """Return the current context with the trace that came in ``_meta``, if one did."""
    return telemetry.carried_by(
        meta if isinstance(meta, Mapping) else meta.model_dump(exclude_none=True)
    )


# -- results ----------------------------------------------------------------------------------


def error_result(text: str) -> Any:
    """Return a result that reports that the tool failed."""
    return make("CallToolResult", content=contents.blocks_of(text), isError=True)


# -- errors -----------------------------------------------------------------------------------


def error_class() -> Any:
    try:
        return kit.native("mcp.shared.exceptions:MCPError")
    except AttributeError:  # 1.x
        return kit.native("mcp.shared.exceptions:McpError")


def error_of(error: BaseException) -> Any:
    """Return the JSON-RPC error of an exception, with code and message, else None."""
    return error.error if isinstance(error, error_class()) else None  # type: ignore[attr-defined]


def make_error(message: str, code: int) -> Any:
    """Return an exception for a JSON-RPC error."""
    cls = error_class()
    if cls.__name__ == "MCPError":
        return cls(code, message)
    return cls(make("ErrorData", code=code, message=message))
