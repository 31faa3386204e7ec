"""Converts spans and log records to rows, and values to JSON and back without loss.

JSON has no bytes and no infinite numbers. They are written as ``{"$bytes": base64}`` and
``{"$double": "NaN"}``, and a ``$`` at the start of a key is doubled, so that every value survives.
Sequences come back as lists, keys as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections import abc
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json

from otelhooks.store import verdicts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link

SPAN_COLUMNS = (
    "trace_id",
    "span_id",
    "parent_id",
    "name",
    "kind",
    "started_at",
    "ended_at",
    "status",
    "status_message",
    "verdict",
    "attributes",
    "events",
    "links",
    "trace_state",
    "flags",
    "dropped_attributes",
    "dropped_events",
    "dropped_links",
    "origin",
)
LOG_COLUMNS = (
    "trace_id",
    "span_id",
    "event_name",
    "at",
    "emitted_at",
    "observed_at",
    "severity",
    "severity_text",
    "verdict",
    "body",
    "attributes",
    "flags",
    "dropped_attributes",
    "origin",
)

# OTLP's span flags: the low byte is the trace flags, these two describe the parent.
FLAG_HAS_IS_REMOTE = 0x100
FLAG_IS_REMOTE = 0x200

# Types that JSON has and that cannot contain others or an infinite number.
_PLAIN_TYPES = frozenset({str, int, bool, type(None)})


def encode(value: object) -> str:
    """Write an attribute's value, a body, or a map of them, as compact JSON."""
    if not isinstance(value, dict):
        return _json(_tagged(value))
    attributes = cast("dict[object, object]", value)
    # The plain case is most of what is stored, and many times as fast.
    if not _is_plain(attributes.values()):
        return _json(_tagged(attributes))
    text = _json(attributes)
    return _json(_tagged(attributes)) if '"$' in text else text


def _is_plain(values: Collection[object]) -> bool:
    """Return whether JSON can hold the values as they are; checks one level of sequences."""
    if _PLAIN_TYPES.issuperset(map(type, values)):
        return True
    for value in values:
        kind = type(value)
        if kind in _PLAIN_TYPES or (kind is float and math.isfinite(cast("float", value))):
            continue
        if kind is tuple and _PLAIN_TYPES.issuperset(map(type, cast("tuple[object]", value))):
            continue
        return False
    return True


def _json(value: object) -> str:
    try:
        return to_json(value).decode()
    except ValueError:
        # A lone surrogate is not Unicode; JSON can write it as an escape.
        return json.dumps(value, separators=(",", ":"))


def decode(text: str) -> Any:
    """Read what `encode` wrote."""
    return json.loads(text, object_hook=_untagged) if '"$' in text else json.loads(text)


def _tagged(value: object) -> object:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$double": str(value)}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, abc.Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {_escaped(str(key)): _tagged(item) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [_tagged(item) for item in cast("Sequence[object]", value)]
    return str(value)


def _escaped(key: str) -> str:
    return f"${key}" if key.startswith("$") else key


def _untagged(found: dict[str, Any]) -> Any:
    if len(found) == 1:
        ((key, value),) = found.items()
        if key == "$bytes":
            return base64.b64decode(value)
        if key == "$double":
            return float(value)
    return {key.removeprefix("$"): value for key, value in found.items()}


def span_row(span: ReadableSpan, origin_id: int) -> tuple[Any, ...]:
    """Return an ended span as the values of `SPAN_COLUMNS`.

    Args:
        span: A span with a context.
        origin_id: Id of its resource and scope, see `origin_row`.

    Raises:
        ValueError: The span has no context; it then belongs to no trace.
    """
    context = span.get_span_context()
    if context is None:
        msg = "span without a context"
        raise ValueError(msg)
    parent = span.parent
    state = context.trace_state
    flags = context.trace_flags | FLAG_HAS_IS_REMOTE
    if parent is not None and parent.is_remote:
        flags |= FLAG_IS_REMOTE
    attributes = _plain(span.attributes)
    status = span.status
    started_at = span.start_time or 0
    # This function runs for every span: what a property copies under a lock is read once, and ids
    # are formatted in place.
    events, links = span.events, span.links
    return (
        f"{context.trace_id:032x}",
        f"{context.span_id:016x}",
        f"{parent.span_id:016x}" if parent is not None else None,
        span.name,
        span.kind.value,
        started_at,
        span.end_time or started_at,
        status.status_code.value,
        status.description,
        verdicts.rank(attributes),
        encode(attributes),
        encode([_event(event) for event in events]) if events else None,
        encode([_link(link) for link in links]) if links else None,
        state.to_header() if state else None,
        flags,
        span.dropped_attributes,
        span.dropped_events,
        span.dropped_links,
        origin_id,
    )


def _event(event: Event) -> dict[str, Any]:
    return {
        "name": event.name,
        "at": event.timestamp,
        "attributes": _plain(event.attributes),
        "dropped_attributes": event.dropped_attributes,
    }


def _link(link: Link) -> dict[str, Any]:
    context = link.context
    flags = context.trace_flags | FLAG_HAS_IS_REMOTE
    return {
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
        "trace_state": context.trace_state.to_header(),
        "flags": flags | FLAG_IS_REMOTE if context.is_remote else flags,
        "attributes": _plain(link.attributes),
        "dropped_attributes": link.dropped_attributes,
    }


def log_row(log: ReadableLogRecord, origin_id: int) -> tuple[Any, ...]:
    """Return a log record as the values of `LOG_COLUMNS`.

    Args:
        log: A log record, in a trace or not.
        origin_id: Id of its resource and scope, see `origin_row`.
    """
    record = log.log_record
    holder: Any = log if hasattr(log, "dropped_attributes") else record  # 1.38 counts there
    attributes = _plain(record.attributes)
    emitted_at = record.timestamp or None
    severity = record.severity_number
    return (
        f"{record.trace_id:032x}" if record.trace_id else None,
        f"{record.span_id:016x}" if record.span_id else None,
        record.event_name,
        emitted_at or record.observed_timestamp or 0,
        emitted_at,
        record.observed_timestamp,
        severity.value if severity is not None else None,
        record.severity_text,
        verdicts.rank(attributes),
        encode(record.body) if record.body is not None else None,
        encode(attributes),
        int(record.trace_flags or 0),
        holder.dropped_attributes,
        origin_id,
    )


def origin_row(
    resource: Resource, scope: InstrumentationScope | None
) -> tuple[int, str, str, str | None]:
    """Return a resource and scope as id, resource, its schema address, and scope.

    The id is a hash of the rest, so that every process computes the same one.
    """
    resource_text = encode(dict(resource.attributes))
    scope_text = None
    if scope is not None:
        scope_text = encode(
            {
                "name": scope.name,
                "version": scope.version,
                "schema_url": scope.schema_url,
                "attributes": _plain(scope.attributes),
            }
        )
    content = "\0".join((resource_text, resource.schema_url, scope_text or ""))
    digest = hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=8).digest()
    return (
        int.from_bytes(digest, "big", signed=True),
        resource_text,
        resource.schema_url,
        scope_text,
    )


def _plain(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    # The views and bounded maps of the SDK copy themselves four times faster than dict() does.
    copy = getattr(attributes, "copy", None)
    return copy() if copy is not None else dict(attributes or {})


def storable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with lone surrogates, which SQLite refuses, replaced by `?`."""
    return tuple(
        value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for value in row
    )
