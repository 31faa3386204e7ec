"""The records of the MCP package, read and made alike for 1.x and 2.x.

Both majors write the same JSON; their Python names differ (``isError``, ``is_error``). Records are
therefore made from the JSON form and read by either name. The package is never imported here.
"""
# pyright: basic

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context, get_current

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.telemetry import semconv

__all__ = [
    "blocks_of",
    "content_value",
    "copy_request",
    "error_class",
    "error_of",
    "error_result",
    "field",
    "is_result",
    "make",
    "make_error",
    "params_of",
    "plain",
    "replaced",
    "tool_error",
    "trace_of",
    "value_of",
    "with_trace",
]

URL_ELICITATION_REQUIRED = -32042
"""JSON-RPC code of "go to this address first, then call again"."""

_LEAVES_THE_TRUST_ZONE = "baggage"


@functools.cache
def _names(name: str) -> tuple[str, str]:
    first, *further = name.split("_")
    return name, "".join((first, *map(str.title, further)))


def field(record: Any, name: str) -> Any:
    """Return a field by its name in 2.x, or that in 1.x and on the wire; None if it has neither."""
    for one in _names(name):
        if isinstance(record, Mapping):
            if one in record:
                return record[one]
        elif hasattr(record, one):
            return getattr(record, one)
    return None


def make(name: str, **fields: Any) -> Any:
    """Return a record of a type, from the JSON form of its fields."""
    return kit.native(f"mcp.types:{name}").model_validate(fields)


def plain(record: Any, *, exclude_none: bool = True) -> Any:
    """Return the JSON form of a record; anything else as it is."""
    if not hasattr(record, "model_dump"):
        return record
    return record.model_dump(mode="json", by_alias=True, exclude_none=exclude_none)


# -- requests ---------------------------------------------------------------------------------


def params_of(request: Any) -> Any:
    """Return the parameters of a request to call a tool; None for any other request."""
    inner = getattr(request, "root", request)
    is_call = getattr(inner, "method", None) == semconv.MCP_METHOD_TOOLS_CALL
    return inner.params if is_call else None


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
    """Return a request that carries the current trace context in ``_meta``, as 2.x sends it.

    Keys that are there already stay; baggage is not sent.
    """
    params: Any = getattr(getattr(request, "root", request), "params", None)
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    carrier.pop(_LEAVES_THE_TRUST_ZONE, None)
    if not carrier or not hasattr(params, "meta"):
        return request
    old = params.meta.model_dump(exclude_none=True) if params.meta is not None else {}
    return copy_request(request, meta=type(params).Meta(**{**carrier, **old}))


def trace_of(meta: Any) -> Context:
    """Return the current context with the trace that came in ``_meta``, if one did."""
    sent = meta if isinstance(meta, Mapping) else meta.model_dump(exclude_none=True)
    carrier = {key: value for key, value in sent.items() if isinstance(value, str)}
    return propagate.extract(carrier, get_current())


# -- results ----------------------------------------------------------------------------------


def is_result(raw: Any) -> bool:
    """Return whether something is a tool's result, not a question, task or other answer."""
    return field(raw, "content") is not None


def error_result(text: str) -> Any:
    """Return a result that says that the tool failed."""
    return make("CallToolResult", content=blocks_of(text), isError=True)


def tool_error(raw: Any) -> str | None:
    """Return the text of a result that says that the tool failed, else None."""
    return _text(value_of(raw)) if field(raw, "is_error") is True else None


def value_of(raw: Any) -> Any:
    """Return what `ToolResult.result` holds: the text, or the content's JSON if it is not all text.

    A result without content is its structured content; what is no result is its JSON.
    """
    if not is_result(raw):
        return plain(raw, exclude_none=False)
    return content_value(field(raw, "content"), field(raw, "structured_content"))


def content_value(content: Any, structured: Any = None) -> Any:
    """Return the value of content blocks, as `value_of` does."""
    if not content and structured is not None:
        return structured
    if all(field(block, "type") == "text" for block in content):
        return "\n".join(field(block, "text") for block in content)
    return list(map(plain, content))


def replaced(raw: Any, value: Any, *, keeps_schema: bool) -> Any:
    """Return a result with another value in content and in structured content.

    Args:
        raw: What the tool returned.
        value: A text, content blocks as JSON, or any other JSON.
        keeps_schema: Whether the result still goes to a client, which checks structured content.
            What cannot be put in its form is then marked as an error, which is not checked.
    """
    before = field(raw, "structured_content")
    structured = None if before is None else _structured(before, value)
    does_not_fit = keeps_schema and before is not None and structured is None
    fields = {} if structured is None else {"structuredContent": structured}
    is_error = bool(field(raw, "is_error")) or does_not_fit
    return make("CallToolResult", content=blocks_of(value), isError=is_error, **fields)


def blocks_of(value: Any) -> list[Any]:
    """Return a value as content blocks in JSON."""
    if isinstance(value, list) and value and all(map(_is_block, value)):
        return value
    return [{"type": "text", "text": _text(value)}]


def _is_block(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("type"), str)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _structured(before: Any, value: Any) -> Any:
    """Return structured content for a value, in the form of what was there; None if it has none."""
    if isinstance(value, Mapping):
        return dict(value)
    is_wrapped = isinstance(before, Mapping) and set(before) == {"result"}
    form = type(before["result"]) if is_wrapped else dict
    found = value
    if isinstance(value, str) and form is not str:
        try:
            found = json.loads(value)
        except ValueError:  # a text that is no JSON has no structured form
            return None
    if type(found) is not form:
        return None
    return {"result": found} if is_wrapped else found


# -- errors -----------------------------------------------------------------------------------


def error_class() -> Any:
    try:
        return kit.native("mcp.shared.exceptions:MCPError")
    except AttributeError:  # 1.x
        return kit.native("mcp.shared.exceptions:McpError")


def error_of(error: BaseException) -> Any:
    """Return the JSON-RPC error, with code and message, that an exception stands for, else None."""
    return error.error if isinstance(error, error_class()) else None  # type: ignore[attr-defined]


def make_error(message: str, code: int) -> Any:
    """Return an exception for a JSON-RPC error."""
    cls = error_class()
    if cls.__name__ == "MCPError":
        return cls(code, message)
    return cls(make("ErrorData", code=code, message=message))
