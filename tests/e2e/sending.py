"""Spans and events sent by hand, as any library may: a request each, acknowledged or refused."""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from otelhooks.records import semconv


class Sender:
    """Sends over HTTP as one service.

    Args:
        url: The receiver's address.
        token: Shown as bearer; None: none is shown.
        service: Its ``service.name``.
    """

    def __init__(self, url: str, token: str | None, service: str) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/x-protobuf"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._resource = attributes_of({semconv.SERVICE_NAME: service})

    def span(
        self,
        name: str,
        attributes: Mapping[str, Any],
        message: str = "",
        event: Mapping[str, Any] | None = None,
    ) -> str:
        """Send a root span and return its trace id.

        Raises:
            OSError: The collector did not acknowledge it.
        """
        request, trace_id = self.request(name, attributes, 1)
        span = request.resource_spans[0].scope_spans[0].spans[0]
        if message:
            span.status.code, span.status.message = Status.STATUS_CODE_ERROR, message
        if event is not None:
            span.events.add(name="event", attributes=attributes_of(event))
        self._acknowledged("/v1/traces", request.SerializeToString())
        return trace_id

    def request(
        self, name: str, attributes: Mapping[str, Any], count: int
    ) -> tuple[ExportTraceServiceRequest, str]:
        """Return a request with a trace of so many spans, the first the root, and its trace id."""
        request, trace_id = ExportTraceServiceRequest(), os.urandom(16)
        spans = request.resource_spans.add()
        spans.resource.attributes.extend(self._resource)
        scope = spans.scope_spans.add()
        now = time.time_ns()
        for number in range(count):
            scope.spans.add(
                trace_id=trace_id,
                span_id=os.urandom(8),
                parent_span_id=scope.spans[0].span_id if number else b"",
                name=name,
                start_time_unix_nano=now,
                end_time_unix_nano=now + 1_000_000,
                attributes=attributes_of(attributes),
            )
        return request, trace_id.hex()

    def log(self, name: str, attributes: Mapping[str, Any], body: str) -> None:
        """Send an event; raises as `span` does."""
        request = ExportLogsServiceRequest()
        logs = request.resource_logs.add()
        logs.resource.attributes.extend(self._resource)
        record = logs.scope_logs.add().log_records.add(
            event_name=name, time_unix_nano=time.time_ns(), attributes=attributes_of(attributes)
        )
        record.body.string_value = body
        self._acknowledged("/v1/logs", request.SerializeToString())

    def post(self, path: str, body: bytes, **headers: str) -> int:
        """Send bytes; return the status of the answer."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        request = urllib.request.Request(
            f"{self._url}{path}", body, {**self._headers, **named}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def _acknowledged(self, path: str, body: bytes) -> None:
        if (status := self.post(path, body)) != 200:
            msg = f"not acknowledged: {status}"
            raise ConnectionError(msg)


def attributes_of(attributes: Mapping[str, Any]) -> list[KeyValue]:
    """Return attributes as OTLP has them."""
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: Any) -> AnyValue:
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=map(_value, value)))
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
