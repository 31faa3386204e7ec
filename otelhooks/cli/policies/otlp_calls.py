"""Recorded calls in OTLP's JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, cast

from otelhooks.cli.policies.recorded import RecordedCall, read_call

__all__ = ["otlp_calls"]


def otlp_calls(document: Any) -> Iterator[RecordedCall]:
    """Yield the tool calls of a document in OTLP's JSON, also in the forms that Tempo returns.

    Args:
        document: An object with ``resourceSpans`` (or ``batches``, or either below ``trace``), or a
            list of such objects.
    """
    if isinstance(document, list):
        for item in cast("list[Any]", document):
            yield from otlp_calls(item)
        return
    if not isinstance(document, dict):
        msg = f"expected an object, not {type(document).__name__}"
        raise TypeError(msg)
    request: Any = cast("object", document)
    if "trace" in request:
        yield from otlp_calls(request["trace"] or {})
    for resource in request.get("resourceSpans") or request.get("batches") or ():
        program = _attributes(resource.get("resource") or {})
        for scope in resource.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                status: Any = span.get("status") or {}
                found = read_call(
                    _attributes(span),
                    trace_id=_hex(span["traceId"], 16),
                    span_id=_hex(span["spanId"], 8),
                    at=int(span["startTimeUnixNano"]),
                    has_failed=status.get("code") in (2, "STATUS_CODE_ERROR"),
                    resource=program,
                )
                if found is not None:
                    yield found


def _attributes(holder: Any) -> dict[str, Any]:
    return {pair["key"]: _value(pair["value"]) for pair in holder.get("attributes") or ()}


def _hex(text: str, size: int) -> str:
    """Return an id in hex: OTLP's JSON uses hex, protobuf's own JSON base64."""
    if len(text) == 2 * size:
        return text.lower()
    return base64.b64decode(text, validate=True).hex()


def _value(value: Any) -> Any:
    """Return an attribute's value as plain data."""
    if not value:
        return None
    [(kind, item)] = value.items()
    if kind == "arrayValue":
        return [_value(each) for each in item.get("values") or ()]
    if kind == "kvlistValue":
        return {pair["key"]: _value(pair.get("value")) for pair in item.get("values") or ()}
    return int(item) if kind == "intValue" else item
