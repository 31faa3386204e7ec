"""Spans in OTLP's JSON, and the recorded calls in them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, cast

from otelhooks.policy_tools.recorded import RecordedCall, read_call

__all__ = ["attributes_of", "id_of", "otlp_calls", "otlp_spans"]


def otlp_calls(document: Any) -> Iterator[RecordedCall]:
    """Yield the tool calls of a document in OTLP's JSON, as `otlp_spans` takes it."""
    for span, program, _ in otlp_spans(document):
        status: Any = span.get("status") or {}
        found = read_call(
            attributes_of(span),
            trace_id=id_of(span["traceId"], 16),
            span_id=id_of(span["spanId"], 8),
            at=int(span["startTimeUnixNano"]),
            has_failed=status.get("code") in (2, "STATUS_CODE_ERROR"),
            resource=program,
        )
        if found is not None:
            yield found


def otlp_spans(document: Any) -> Iterator[tuple[Any, dict[str, Any], Any]]:
    """Yield each span of a document in OTLP's JSON, also in the forms that Tempo returns.

    Args:
        document: An object with ``resourceSpans`` (or ``batches``, or either below ``trace``), or a
            list of such objects.

    Yields:
        The span, attributes of its resource, and its scope.
    """
    if isinstance(document, list):
        for item in cast("list[Any]", document):
            yield from otlp_spans(item)
        return
    if not isinstance(document, dict):
        msg = f"expected an object, not {type(document).__name__}"
        raise TypeError(msg)
    request: Any = cast("object", document)
    if "trace" in request:
        yield from otlp_spans(request["trace"] or {})
    for resource in request.get("resourceSpans") or request.get("batches") or ():
        program = attributes_of(resource.get("resource") or {})
        for scope in resource.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                yield span, program, scope.get("scope") or {}


def attributes_of(holder: Any) -> dict[str, Any]:
    """Return attributes by name, as plain data."""
    return {pair["key"]: _value(pair["value"]) for pair in holder.get("attributes") or ()}


def id_of(text: str, size: int) -> str:
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
