"""Encode spans as OTLP: byte for byte what the SDK makes of them, in a fifth of the time.

The SDK builds a protobuf message for each span, attribute and value. Most attributes repeat from
span to span, so this module keeps their bytes. What it does not know (events, links, values of
other types) goes through the SDK's encoder, span by span. So does everything if the installed SDK
turns out to encode differently.

Source: opentelemetry-proto, trace/v1/trace.proto and common/v1/common.proto.
"""

from __future__ import annotations

import functools
import logging
import struct
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as encode_by_sdk
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import SpanContext, Status, StatusCode

from otelhooks.plain_text import encodable
from otelhooks.records.failures import outline
from otelhooks.telemetry.quiet import report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

__all__ = ["encode_for_http", "encode_spans", "with_encoder"]

_log = logging.getLogger("otelhooks.telemetry")

_MAX_KEYS = 256
_MAX_VALUES = 128  # for each key
_MAX_KEPT_SIZE = 128  # of a pair, in bytes
_BYTES = [bytes((n,)) for n in range(256)]
_times = struct.Struct("<cQcQ").pack
_double = struct.Struct("<cd").pack
_UNSET = StatusCode.UNSET
_FLAGS = b"\x85\x01\x00\x01\x00\x00"  # it is known whether the parent is remote
_FLAGS_REMOTE = b"\x85\x01\x00\x03\x00\x00"


def encode_spans(spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
    """Return the request that exports spans, as the SDK's function of the same name does.

    Args:
        spans: Ended spans.
    """
    if _agrees_with_sdk():
        try:
            return ExportTraceServiceRequest.FromString(_request(spans))
        except Exception as error:
            report("encode_spans", error)
    return encode_by_sdk(spans)


class _Encoded:
    """A request that is already in bytes; anything else of the message is parsed on demand.

    The HTTP exporter only serializes the message: parsing costs a third of the encoding.
    """

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def SerializePartialToString(self) -> bytes:  # as protobuf names it
        return self._content

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a copy is being made, for which a message has methods
            raise AttributeError(name)
        return getattr(ExportTraceServiceRequest.FromString(self._content), name)


def encode_for_http(spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest | _Encoded:
    """Return what `encode_spans` returns, or what serializes to the same bytes."""
    if _agrees_with_sdk():
        try:
            return _Encoded(_request(spans))
        except Exception as error:
            report("encode_for_http", error)
    return encode_by_sdk(spans)


def with_encoder(function: Callable[..., Any], encoder: Callable[..., Any] = encode_spans) -> Any:
    """Return a copy of a function of the SDK that calls this encoder.

    The SDK's exporters find `encode_spans` in the globals of their module, which they share with
    the exporters of the application: replacing it there would change those too. Overriding more of
    an exporter would depend on parts of it that differ between releases.
    """
    original: Any = function
    return type(original)(
        original.__code__,
        {**original.__globals__, "encode_spans": encoder},
        original.__name__,
        original.__defaults__,
        original.__closure__,
    )


@functools.cache
def _agrees_with_sdk() -> bool:
    """Compare with the SDK once, on spans with everything that is encoded here."""
    context = SpanContext(trace_id=1 << 100, span_id=2, is_remote=True)
    values = {"s": "é", "b": False, "i": -1, "f": 0.5, "t": ("a", "b")}
    none: Any = cast("Any", BoundedList)(0)
    common = (Resource.get_empty(), BoundedAttributes(attributes=values), none, none)
    failed = Status(StatusCode.ERROR, "why")
    spans = [
        ReadableSpan("one", context, None, *common, start_time=1, end_time=2),
        ReadableSpan("two", context, context, *common, status=failed, start_time=1, end_time=2),
    ]
    try:
        if all(_known(span) == _by_sdk(span) for span in spans):
            return True
        problem = "its bytes differ"
    except Exception as error:
        problem = outline(error)
    _log.warning("spans are encoded by the SDK, because its release is not known: %s", problem)
    return False


# --- Messages -------------------------------------------------------------------------------------


def _request(spans: Sequence[ReadableSpan]) -> bytes:
    resources: list[Resource] = []
    scopes: list[dict[InstrumentationScope | None, list[bytes]]] = []
    groups: dict[tuple[int, int], list[bytes]] = {}  # hashing a resource is slow
    for span in spans:
        resource, scope = span.resource, span.instrumentation_scope
        group = groups.get((id(resource), id(scope)))
        if group is None:
            if resource not in resources:
                resources.append(resource)
                scopes.append({})
            group = scopes[resources.index(resource)].setdefault(scope, [])
            groups[id(resource), id(scope)] = group
        try:
            encoded = _known(span)
        except Exception:
            try:
                encoded = _by_sdk(span)
            except UnicodeEncodeError:  # in a name: in an attribute, the SDK leaves it out
                encoded = _by_sdk(_escaped(span))
        group.append(_field(b"\x12", encoded))
    return b"".join(map(_resource_spans, resources, scopes))


def _resource_spans(
    resource: Resource, scopes: Mapping[InstrumentationScope | None, Iterable[bytes]]
) -> bytes:
    parts = [_field(b"\x0a", _attributes(b"\x0a", resource.attributes))]
    for scope, spans in scopes.items():
        about = url = b""
        if scope is not None:
            about = _text(b"\x0a", scope.name) + _text(b"\x12", scope.version)
            about += _attributes(b"\x1a", scope.attributes or {})
            url = _text(b"\x1a", scope.schema_url)
        parts.append(_field(b"\x12", b"".join((_field(b"\x0a", about), *spans, url))))
    parts.append(_text(b"\x1a", resource.schema_url))
    return _field(b"\x0a", b"".join(parts))


def _by_sdk(span: ReadableSpan) -> bytes:
    (resource_spans,) = encode_by_sdk([span]).resource_spans
    return resource_spans.scope_spans[0].spans[0].SerializePartialToString()


def _escaped(span: ReadableSpan) -> ReadableSpan:
    """Return a span whose texts UTF-8 can encode: one of them would cost the whole batch."""
    given: Any = span
    return ReadableSpan(
        encodable(span.name),
        given.context,
        span.parent,
        attributes=encodable(dict(span.attributes or {})),
        events=[
            Event(encodable(each.name), encodable(dict(each.attributes or {})), each.timestamp)
            for each in span.events
        ],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code, encodable(span.status.description)),
        start_time=span.start_time,
        end_time=span.end_time,
    )


def _known(given: ReadableSpan) -> bytes:
    """Encode a span; raise any error if a part of it must be left to the SDK."""
    if type(given) is not ReadableSpan:  # a subclass's properties may differ from its fields
        raise TypeError
    span: Any = given  # fields, because the properties copy
    attributes, events, links = span._attributes, span._events, span._links
    context, parent, status = span._context, span._parent, span._status
    start, end = span._start_time, span._end_time
    if attributes.dropped or events._dq or events.dropped or links._dq or links.dropped:
        raise ValueError
    if context[4] or not start or not end:
        raise ValueError
    code, description = status._status_code, status._description
    return b"".join(
        (
            b"\x0a\x10" + context[0].to_bytes(16, "big"),
            b"\x12\x08" + context[1].to_bytes(8, "big"),
            b"" if parent is None else b"\x22\x08" + parent[1].to_bytes(8, "big"),
            _head(span._name, span._kind._value_),
            _times(b"\x39", start, b"\x41", end),
            *[_kept[key][value] for key, value in attributes._dict.items()],
            b"\x7a\x00" if code is _UNSET and not description else _status(code, description),
            _FLAGS_REMOTE if parent is not None and parent[2] else _FLAGS,
        )
    )


@functools.lru_cache(maxsize=1_024)
def _head(name: str, kind: int) -> bytes:
    return _text(b"\x2a", name) + b"\x30" + _BYTES[kind + 1]


def _status(code: StatusCode, description: str | None) -> bytes:
    said = _text(b"\x12", description)
    if code is not _UNSET:
        said += b"\x18" + _BYTES[code.value]
    return _field(b"\x7a", said)


# --- Attributes -----------------------------------------------------------------------------------


class _Key(dict[Any, bytes]):
    """Attributes of spans with one key, by value.

    Only text is kept, tuples of only text, and apart integers: `1` equals `True` and `1.0`, but
    their bytes differ.
    """

    def __init__(self, key: str) -> None:
        super().__init__()
        if not key:
            raise ValueError
        self._start = _field(b"\x0a", key.encode()) + b"\x12"
        self._integers: dict[int, bytes] = {}

    def __missing__(self, value: Any) -> bytes:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is int and (known := self._integers.get(value)) is not None:
            return known
        encoded = _field(b"\x4a", _field(self._start, _VALUES[kind](value)))
        kept = self._integers if kind is int else self
        if kept is self and not (
            kind is str or (kind is tuple and all(type(item) is str for item in value))
        ):
            return encoded
        if len(encoded) <= _MAX_KEPT_SIZE:
            if len(kept) >= _MAX_VALUES:
                kept.clear()  # mostly ids that do not repeat; the rest soon returns
            kept[value] = encoded
        return encoded


class _Keys(dict[str, _Key]):
    def __missing__(self, key: str) -> _Key:
        if len(self) >= _MAX_KEYS:
            self.clear()
        made = self[key] = _Key(key)
        return made


_kept = _Keys()


def _pairs(attributes: Mapping[str, object]) -> list[bytes]:
    """Encode attributes as those of a span."""
    return [_kept[key][value] for key, value in attributes.items()]


def _attributes(tag: bytes, attributes: Mapping[str, Any]) -> bytes:
    """Encode attributes of a resource or scope, whose messages have another tag for them."""
    return b"".join([tag + pair[1:] for pair in _pairs(attributes)])


def _string(value: str) -> bytes:
    return _field(b"\x0a", value.encode())


def _integer(value: int) -> bytes:
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError
    return b"\x18" + _varint(value & ((1 << 64) - 1))


def _array(values: tuple[Any, ...]) -> bytes:
    return _field(b"\x2a", b"".join([_field(b"\x0a", _VALUES[type(v)](v)) for v in values]))


_VALUES: dict[type, Callable[[Any], bytes]] = {
    str: _string,
    bool: (b"\x10\x00", b"\x10\x01").__getitem__,
    int: _integer,
    float: functools.partial(_double, b"\x21"),
    tuple: _array,
}


def _text(tag: bytes, text: str | None) -> bytes:
    return _field(tag, text.encode()) if text else b""


def _field(tag: bytes, content: bytes) -> bytes:
    size = len(content)
    return tag + (_BYTES[size] if size < 128 else _varint(size)) + content


def _varint(number: int) -> bytes:
    if number < 128:
        return _BYTES[number]
    if number < 16_384:
        return _BYTES[number & 127 | 128] + _BYTES[number >> 7]
    return _BYTES[number & 127 | 128] + _varint(number >> 7)
