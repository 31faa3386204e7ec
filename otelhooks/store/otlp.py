"""Sends on the content of the store: rebuilt as SDK objects, over OTLP/HTTP or to OTLP JSON.

The receiver gets what the program would have sent itself, with the same ids, times, types of
values, resource, scope and counts of dropped attributes.
"""

from __future__ import annotations

import base64
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from opentelemetry import trace as trace_api
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as SdkEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace.status import Status, StatusCode

from otelhooks.store import codec
from otelhooks.store.sdk_logs import LogRecordExportResult, ReadableLogRecord, readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from otelhooks.store.reader import Store
    from otelhooks.store.records import Event, Origin, Span, SpanEvent, SpanLink

_KINDS = {kind.name.lower(): kind for kind in trace_api.SpanKind}
_STATUS = {code.name.lower(): code for code in StatusCode}


class Target(Protocol):
    """A receiver of spans and log records."""

    def send_spans(self, spans: Sequence[ReadableSpan]) -> bool:
        """Take spans; return whether they arrived."""
        ...

    def send_logs(self, logs: Sequence[ReadableLogRecord]) -> bool:
        """Take log records; return whether they arrived."""
        ...


@dataclass(slots=True)
class Sent:
    """The result of sending.

    Attributes:
        spans: Spans that arrived.
        logs: Log records that arrived.
        is_complete: Whether everything arrived; sending stops at the first batch that did not.
    """

    spans: int = 0
    logs: int = 0
    is_complete: bool = False


def send(store: Store, target: Target, trace_ids: Sequence[str] = ()) -> Sent:
    """Send traces to a target, in the order in which they were stored.

    Args:
        store: Source.
        target: Receiver.
        trace_ids: Full ids; empty for everything.

    Raises:
        StoreError: The store cannot be read.
    """
    sent = Sent()
    for spans, logs in batches(store, trace_ids):
        if spans:
            if not target.send_spans(spans):
                return sent
            sent.spans += len(spans)
        if logs:
            if not target.send_logs(logs):
                return sent
            sent.logs += len(logs)
    sent.is_complete = True
    return sent


def batches(
    store: Store, trace_ids: Sequence[str] = ()
) -> Iterator[tuple[list[ReadableSpan], list[ReadableLogRecord]]]:
    """Yield spans and log records as the SDK has them, one of the two empty, at most 512.

    Args:
        store: Source.
        trace_ids: Full ids; empty for everything.

    Raises:
        StoreError: The store cannot be read.
    """
    origins: dict[int, tuple[Resource, InstrumentationScope | None]] = {}
    for spans, events in store.records(trace_ids):
        yield [_sdk_span(span, origins) for span in spans], [_sdk_log(e, origins) for e in events]


class OtlpTarget:
    """An OTLP/HTTP receiver that gets protobuf.

    Args:
        url: Its base address, without ``/v1/traces``; headers and certificates come from the
            ``OTEL_EXPORTER_OTLP_*`` variables.
        timeout_s: Longest time for a batch, in seconds, including retries.
    """

    def __init__(self, url: str, *, timeout_s: float = 10.0) -> None:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        base = url.rstrip("/")
        for path in ("/v1/traces", "/v1/logs"):
            base = base.removesuffix(path)
        self.problem = ""
        self._spans = OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=timeout_s)
        self._logs = OTLPLogExporter(endpoint=f"{base}/v1/logs", timeout=timeout_s)

    def send_spans(self, spans: Sequence[ReadableSpan]) -> bool:
        """Send one batch; on failure `problem` says why."""
        with _LastMessage(self):
            return self._spans.export(spans) is SpanExportResult.SUCCESS

    def send_logs(self, logs: Sequence[ReadableLogRecord]) -> bool:
        """Send one batch; on failure `problem` says why."""
        with _LastMessage(self):
            return self._logs.export(logs) is LogRecordExportResult.SUCCESS

    def close(self) -> None:
        """Close the connections."""
        self._spans.shutdown()
        self._logs.shutdown()


class _LastMessage(logging.Handler):
    """Keeps the exporter's last log line, the only place where it reports a failure."""

    def __init__(self, target: OtlpTarget) -> None:
        super().__init__(logging.WARNING)
        self._target = target
        self._logger = logging.getLogger("opentelemetry.exporter.otlp.proto.http")

    def emit(self, record: logging.LogRecord) -> None:
        self._target.problem = record.getMessage().strip()

    def __enter__(self) -> None:
        self._was_propagating = self._logger.propagate
        self._logger.propagate = False
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._was_propagating


class JsonLinesTarget:
    """A file of OTLP JSON, one request per line, as the collector's file exporter writes it.

    Args:
        file: Open for writing text; not closed here.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def send_spans(self, spans: Sequence[ReadableSpan]) -> bool:
        """Write one line of ``resourceSpans``."""
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        return self._write(encode_spans(spans))

    def send_logs(self, logs: Sequence[ReadableLogRecord]) -> bool:
        """Write one line of ``resourceLogs``."""
        from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs

        return self._write(encode_logs(logs))

    def _write(self, request: Any) -> bool:
        from google.protobuf.json_format import MessageToDict

        message = MessageToDict(request, use_integers_for_enums=True)
        self._file.write(json.dumps(_hex_ids(message), separators=(",", ":")) + "\n")
        return True


def _hex_ids(value: Any) -> Any:
    """Write ids in hex: OTLP's JSON differs from protobuf's here."""
    if isinstance(value, list):
        return [_hex_ids(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    message = cast("dict[str, Any]", value)
    return {
        key: base64.b64decode(item).hex()
        if key in ("traceId", "spanId", "parentSpanId")
        else _hex_ids(item)
        for key, item in message.items()
    }


class _Span(ReadableSpan):
    """A span that knows how much the SDK had dropped from the original."""

    def __init__(self, dropped: tuple[int, int, int], **parts: Any) -> None:
        super().__init__(**parts)
        self._dropped = dropped

    @property
    def dropped_attributes(self) -> int:
        return self._dropped[0]

    @property
    def dropped_events(self) -> int:
        return self._dropped[1]

    @property
    def dropped_links(self) -> int:
        return self._dropped[2]


class _SpanEvent(SdkEvent):
    def __init__(self, event: SpanEvent) -> None:
        super().__init__(event.name, event.attributes, event.at)
        self._dropped = event.dropped_attributes

    @property
    def dropped_attributes(self) -> int:
        return self._dropped


class _Link(trace_api.Link):
    def __init__(self, link: SpanLink) -> None:
        context = _context(link.trace_id, link.span_id, link.flags, link.trace_state)
        super().__init__(context, link.attributes)
        self._dropped = link.dropped_attributes

    @property
    def dropped_attributes(self) -> int:
        return self._dropped


def _sdk_span(
    span: Span, origins: dict[int, tuple[Resource, InstrumentationScope | None]]
) -> ReadableSpan:
    resource, scope = _sdk_origin(span.origin, origins)
    parent = None
    if span.parent_id is not None:
        parent = _context(span.trace_id, span.parent_id, span.flags, "")
    own_flags = span.flags & ~codec.FLAG_IS_REMOTE
    return _Span(
        (span.dropped_attributes, span.dropped_events, span.dropped_links),
        name=span.name,
        context=_context(span.trace_id, span.span_id, own_flags, span.trace_state),
        parent=parent,
        resource=resource,
        attributes=span.attributes,
        events=[_SpanEvent(event) for event in span.events],
        links=[_Link(link) for link in span.links],
        kind=_KINDS[span.kind],
        # A description is refused with any status except error; none is recorded there either.
        status=Status(_STATUS[span.status], span.status_message),
        start_time=span.started_at,
        end_time=span.ended_at,
        instrumentation_scope=scope,
    )


def _sdk_log(
    event: Event, origins: dict[int, tuple[Resource, InstrumentationScope | None]]
) -> ReadableLogRecord:
    # Set even if it is empty, or the record would take the current span's ids.
    within = _context(event.trace_id or "0", event.span_id or "0", event.flags, "")
    context = trace_api.set_span_in_context(trace_api.NonRecordingSpan(within), Context())
    record = LogRecord(
        timestamp=event.emitted_at,
        observed_timestamp=event.observed_at,
        context=context,
        severity_text=event.severity_text,
        severity_number=SeverityNumber(event.severity) if event.severity is not None else None,
        body=event.body,
        attributes=event.attributes,
        event_name=event.name,
    )
    resource, scope = _sdk_origin(event.origin, origins)
    return readable(record, resource, scope, event.dropped_attributes)


def _sdk_origin(
    origin: Origin, known: dict[int, tuple[Resource, InstrumentationScope | None]]
) -> tuple[Resource, InstrumentationScope | None]:
    # The same objects for the same origin: the encoder groups by them.
    found = known.get(origin.id)
    if found is None:
        scope = InstrumentationScope(**origin.scope) if origin.scope is not None else None
        resource = Resource(dict(origin.resource), origin.resource_schema_url)
        found = known[origin.id] = (resource, scope)
    return found


def _context(trace_id: str, span_id: str, flags: int, state: str) -> trace_api.SpanContext:
    return trace_api.SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=bool(flags & codec.FLAG_IS_REMOTE),
        trace_flags=trace_api.TraceFlags(flags & 0xFF),
        trace_state=trace_api.TraceState.from_header([state]) if state else None,
    )
