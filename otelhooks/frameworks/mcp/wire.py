"""The records of the MCP package, read and made alike for 1.x and 2.x.

Both majors write the same JSON; their Python names differ (``isError``, ``is_error``). Records are
therefore made from the JSON form and read by either name. The package is never imported here.
"""
# pyright: basic

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context, get_current

from otelhooks.frameworks.kit.telemetry import semconv

__all__ = [
    "blocks_of",
    "content_value",
    "copy_request",
    "error_class",
    "error_of",
    "field",
    "is_2",
    "is_result",
    "make",
    "make_error",
    "params_of",
    "replaced",
    "text_result",
    "tool_error",
    "trace_of",
    "value_of",
    "with_trace",
]

URL_ELICITATION_REQUIRED = -32042
"""JSON-RPC code of "go to this address first, then call again"."""

_LEAVES_THE_TRUST_ZONE = "baggage"


def _types() -> Any:
    return sys.modules["mcp.types"]


def field(record: Any, name: str, wire_name: str = "") -> Any:
    """Return a field by its name in 2.x, or that in 1.x and on the wire; None if it has neither."""
    names = (name, wire_name or name)
    for one in names:
        if isinstance(record, Mapping):
            if one in record:
                return record[one]
        elif hasattr(record, one):
            return getattr(record, one)
    return None


def make(name: str, **fields: Any) -> Any:
    """Return a record of a type, from the JSON form of its fields."""
    return getattr(_types(), name).model_validate(fields)


def is_2(session: Any) -> bool:
    """Return whether a session is of 2.x."""
    return hasattr(session, "dispatch_input_request")


# -- requests ---------------------------------------------------------------------------------


def params_of(request: Any) -> Any:
    """Return the parameters of a request to call a tool; None for any other request."""
    inner = getattr(request, "root", request)
    if getattr(inner, "method", None) != semconv.MCP_METHOD_TOOLS_CALL:
        return None
    return inner.params


def _replace(record: Any, changes: dict[str, Any]) -> Any:
    if isinstance(record, Mapping):
        return {**record, **changes}
    return record.model_copy(update=changes)


def copy_request(request: Any, **changes: Any) -> Any:
    """Return a copy of a request with other parameters; the original belongs to its caller."""
    inner = getattr(request, "root", request)
    copied = inner.model_copy(update={"params": _replace(inner.params, changes)})
    return copied if inner is request else type(request)(copied)


def with_trace(request: Any) -> Any:
    """Return a request that carries the current trace context in ``_meta``, as 2.x sends it.

    Keys that are there already stay; baggage is not sent.
    """
    inner = getattr(request, "root", request)
    params = getattr(inner, "params", None)
    if params is None or not hasattr(params, "meta"):
        return request
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    carrier.pop(_LEAVES_THE_TRUST_ZONE, None)
    if not carrier:
        return request
    old = params.meta.model_dump(exclude_none=True) if params.meta is not None else {}
    meta = type(params).Meta(**{**carrier, **old})
    return copy_request(request, meta=meta)


def trace_of(meta: Mapping[str, Any]) -> Context:
    """Return the current context with the trace that came in ``_meta``, if one did."""
    carrier = {key: value for key, value in meta.items() if isinstance(value, str)}
    return propagate.extract(carrier, get_current())


# -- results ----------------------------------------------------------------------------------


def is_result(raw: Any) -> bool:
    """Say whether something is a tool's result, and no question, task or other answer."""
    return field(raw, "content") is not None


def text_result(text: str, *, is_error: bool, structured: Any = None) -> Any:
    """Return a `CallToolResult` with one text."""
    fields: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": is_error}
    if structured is not None:
        fields["structuredContent"] = structured
    return make("CallToolResult", **fields)


def tool_error(raw: Any) -> str | None:
    """Return the text of a result that says that the tool failed, else None."""
    if field(raw, "is_error", "isError") is not True:
        return None
    value = value_of(raw)
    return value if isinstance(value, str) else json.dumps(value, default=str)


def value_of(raw: Any) -> Any:
    """Return what `ToolResult.result` holds: the text, or the content's JSON if it is not all text.

    A result without content is its structured content; what is no result is its JSON.
    """
    if not is_result(raw):
        return raw.model_dump(mode="json", by_alias=True) if hasattr(raw, "model_dump") else raw
    return content_value(
        field(raw, "content"), field(raw, "structured_content", "structuredContent")
    )


def content_value(content: Any, structured: Any = None) -> Any:
    """Return the value of content blocks, as `value_of` does."""
    if not content and structured is not None:
        return structured
    if all(field(block, "type") == "text" for block in content):
        return "\n".join(field(block, "text") for block in content)
    return [
        block.model_dump(mode="json", by_alias=True, exclude_none=True)
        if hasattr(block, "model_dump")
        else block
        for block in content
    ]


def replaced(raw: Any, value: Any, *, keeps_schema: bool) -> Any:
    """Return a result with another value in content and in structured content.

    Args:
        raw: What the tool returned.
        value: A text, content blocks as JSON, or any other JSON.
        keeps_schema: Whether the result still goes to a client, which checks structured content.
            What cannot be put in its form is then marked as an error, which is not checked.
    """
    before = field(raw, "structured_content", "structuredContent")
    structured = _structured(before, value)
    fields: dict[str, Any] = {
        "content": blocks_of(value),
        "isError": bool(field(raw, "is_error", "isError")),
    }
    if structured is not None:
        fields["structuredContent"] = structured
    elif before is not None and keeps_schema:
        fields["isError"] = True
    return make("CallToolResult", **fields)


def blocks_of(value: Any) -> list[Any]:
    """Return a value as content blocks in JSON."""
    if isinstance(value, list) and value and all(_is_block(item) for item in value):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return [{"type": "text", "text": text}]


def _is_block(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("type"), str)


def _structured(before: Any, value: Any) -> Any:
    """Return structured content for a value, in the form of what was there; None if it has none."""
    if before is None:
        return None
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(before, Mapping) and set(before) == {"result"}:
        old = before["result"]
        if isinstance(old, str) and isinstance(value, str):
            return {"result": value}
        parsed = _parsed(value)
        return {"result": parsed} if type(parsed) is type(old) else None
    parsed = _parsed(value)
    return parsed if isinstance(parsed, dict) else None


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:  # a text that is no JSON has no structured form
        return None


# -- errors -----------------------------------------------------------------------------------


def error_class() -> Any:
    """Return the package's exception for a JSON-RPC error: `MCPError`, in 1.x `McpError`."""
    exceptions = sys.modules["mcp.shared.exceptions"]
    return getattr(exceptions, "MCPError", None) or exceptions.McpError


def error_of(error: BaseException) -> Any:
    """Return the JSON-RPC error, with code and message, that an exception stands for, else None."""
    return error.error if isinstance(error, error_class()) else None  # type: ignore[attr-defined]


def make_error(message: str, code: int) -> Any:
    """Return an exception for a JSON-RPC error."""
    cls = error_class()
    if cls.__name__ == "MCPError":
        return cls(code, message)
    return cls(make("ErrorData", code=code, message=message))
