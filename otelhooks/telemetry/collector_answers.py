"""Reads what collectors answer: one may take a batch and refuse a part of it.

What is refused may not be sent again, so it is lost: logged with a count, for each reason, and
again whenever as much is lost once more. Telemetry: fails open.

Source: OTLP specification 1.9, partial success for HTTP and gRPC.
"""

from __future__ import annotations

import importlib
import logging
import threading
from typing import TYPE_CHECKING, Any

from otelhooks.plain_text import LOGGED, counted, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["watch"]

_log = logging.getLogger("otelhooks.telemetry")

_PROTO = "opentelemetry.proto.collector"
_REFUSED = {
    "traces": (
        "spans",
        "span",
        f"{_PROTO}.trace.v1.trace_service_pb2",
        "ExportTraceServiceResponse",
    ),
    "logs": (
        "log_records",
        "event",
        f"{_PROTO}.logs.v1.logs_service_pb2",
        "ExportLogsServiceResponse",
    ),
    "metrics": (
        "data_points",
        "data point",
        f"{_PROTO}.metrics.v1.metrics_service_pb2",
        "ExportMetricsServiceResponse",
    ),
}
"""By signal: how answers call what they refuse, and how we do; module and name of an answer."""


def watch(exporter: Any, signal: str) -> None:
    """Log what the collector refuses, of an exporter of the SDK for OTLP over HTTP or gRPC.

    The exporters read no answer, and have no public place to look at one. One whose parts have
    other names is left as it is.
    """
    answers = _Answers(signal)
    stub = getattr(exporter, "_stub", None)
    if stub is not None:

        def made(channel: Any) -> Any:  # again after a broken connection
            return _watched(stub(channel), answers)

        exporter._stub = made
        _watched(exporter._client, answers)
        return
    client = getattr(exporter, "_client", None)
    holder = exporter if client is None else getattr(client, "_transport", None)
    session = getattr(holder, "_session", None)  # of `requests`
    if session is not None:
        session.hooks["response"].append(answers.read_http)


def _watched(client: Any, answers: _Answers) -> Any:
    export: Callable[..., Any] = client.Export

    def watched(*args: Any, **kwargs: Any) -> Any:
        answer = export(*args, **kwargs)
        answers.read(answer)
        return answer

    client.Export = watched
    return client


class _Answers:
    def __init__(self, signal: str) -> None:
        self._field, self._word, self._module, self._name = _REFUSED[signal]
        self._lock = threading.Lock()
        self._lost = 0
        self._told_at: dict[str, int] = {}

    def read_http(self, response: Any, **_: Any) -> None:
        """Read the answer of a collector over HTTP."""
        body: bytes = response.content
        if response.status_code >= 300 or not body:
            return
        answer = getattr(importlib.import_module(self._module), self._name)()
        try:
            if response.headers.get("Content-Type", "").startswith("application/json"):
                from google.protobuf import json_format

                json_format.Parse(body, answer, ignore_unknown_fields=True)
            else:
                answer.ParseFromString(body)
        except Exception:  # of several kinds
            self._say(
                "another program than a collector may have taken the batch, it answers: "
                f"{one_line(response.text, LOGGED)}"
            )
        else:
            self.read(answer)

    def read(self, answer: Any) -> None:
        """Read an answer."""
        count: int = getattr(answer.partial_success, f"rejected_{self._field}")
        reason = one_line(answer.partial_success.error_message, LOGGED) or "it does not say why"
        if count:
            self._say(f"the collector refuses a part of what it gets: {reason}", count)
        elif answer.partial_success.error_message:
            self._say(f"the collector warns: {reason}")

    def _say(self, what: str, count: int = 0) -> None:
        with self._lock:
            self._lost += count
            told_at = self._told_at.get(what)
            if told_at is not None and (not count or self._lost < 2 * told_at):
                return
            self._told_at[what] = self._lost
            lost = f"; {counted(self._lost, self._word)} lost so far" if self._lost else ""
        _log.warning("%s%s", what, lost)
