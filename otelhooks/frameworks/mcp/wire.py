"""The records of the MCP package, read and created alike for 1.x and 2.x.

Both majors write the same JSON; their Python names differ (``isError``, ``is_error``). Records are
therefore created from the JSON form. The package is never imported here.
"""
# pyright: basic

from __future__ import annotations

from typing import Any

from opentelemetry.context import Context

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import contents, telemetry
from otelhooks.frameworks.kit.values import with_fields

__all__ = [
    "copy_request",
    "error_class",
    "error_of",
    "make",
    "make_error",
    "method_of",
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


def method_of(request: Any) -> Any:
    """Return the method of a request, which 1.x has inside another record."""
    return getattr(getattr(request, "root", request), "method", None)


def params_of(request: Any) -> Any:
    """Return the parameters of a request; None if it has none."""
    return getattr(getattr(request, "root", request), "params", None)


def copy_request(request: Any, **changes: Any) -> Any:
    """Return a copy of a request with other parameters; the original belongs to its caller."""
    inner = getattr(request, "root", request)
    copied = with_fields(inner, params=with_fields(inner.params, **changes))
    return copied if inner is request else type(request)(copied)


def with_trace(request: Any) -> Any:
    """Return a request with the current trace context in ``_meta``, as 2.x sends it.

    Existing keys stay; baggage is not sent.
    """
    params, carrier = params_of(request), telemetry.carrier()
    if not carrier or not hasattr(params, "meta"):
        return request
    old = params.meta.model_dump(exclude_none=True) if params.meta is not None else {}
    return copy_request(request, meta=type(params).Meta(**{**carrier, **old}))


def trace_of(meta: Any) -> Context:
    """Return the current context with the trace that came in ``_meta``, if one did."""
    return telemetry.carried_by(contents.plain(meta))


# -- errors -----------------------------------------------------------------------------------


def error_class() -> Any:
    return kit.native("mcp.shared.exceptions:(MCPError|McpError)")  # the latter in 1.x


def error_of(error: BaseException) -> Any:
    """Return the JSON-RPC error of an exception, with code and message, else None."""
    return error.error if isinstance(error, error_class()) else None  # type: ignore[attr-defined]


def make_error(message: str, code: int) -> Any:
    """Return an exception for a JSON-RPC error."""
    cls = error_class()
    if cls.__name__ == "MCPError":
        return cls(code, message)
    return cls(make("ErrorData", code=code, message=message))
