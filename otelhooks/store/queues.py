"""The queues in front of the local store, which know how many records they were given.

The SDK's own drop the oldest records of a burst that the store cannot write fast enough, and count
them in its metrics only. These are longer, and what they drop is in the number that the exporter
logs at exit. Telemetry: fails open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otelhooks.store.writer import SqliteLogExporter, SqliteSpanExporter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["LogQueue", "SpanQueue"]

_MOST = 16_384
"""Most records that wait, unless a variable of the SDK says otherwise; its own default is 2048."""


_DELAY_MS = 1_000
"""How long records wait: people watch the store, and a process that is killed loses them. The SDK's
own default is five seconds for spans, and in some versions for log records."""

_BUSY_S = 3.0
"""How long a batch waits while others write, in seconds: less than a process waits at its end."""


class SpanQueue(BatchSpanProcessor):
    """Waiting spans.

    Args:
        path: File of the store.
        otel: The ``OTEL_*`` variables that are set.
    """

    def __init__(self, path: Path, otel: Mapping[str, str]) -> None:
        self._exporter_behind = SqliteSpanExporter(path, busy_s=_BUSY_S)
        delay = None if "OTEL_BSP_SCHEDULE_DELAY" in otel else _DELAY_MS
        most = None if "OTEL_BSP_MAX_QUEUE_SIZE" in otel else _MOST
        super().__init__(self._exporter_behind, most, delay)

    def hurry(self) -> None:
        """Try no further batch after one that fails from now on: the process ends."""
        self._exporter_behind.hurry()

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span that has ended, if it is sampled."""
        if span.context is not None and span.context.trace_flags.sampled:
            self._exporter_behind.expect()
        super().on_end(span)


class LogQueue(BatchLogRecordProcessor):
    """Waiting log records.

    Args:
        path: File of the store.
        otel: The ``OTEL_*`` variables that are set.
    """

    def __init__(self, path: Path, otel: Mapping[str, str]) -> None:
        self._exporter_behind = SqliteLogExporter(path, busy_s=_BUSY_S)
        most = None if "OTEL_BLRP_MAX_QUEUE_SIZE" in otel else _MOST
        delay = None if "OTEL_BLRP_SCHEDULE_DELAY" in otel else _DELAY_MS
        super().__init__(self._exporter_behind, schedule_delay_millis=delay, max_queue_size=most)

    def hurry(self) -> None:
        """Try no further batch after one that fails from now on: the process ends."""
        self._exporter_behind.hurry()

    def on_emit(self, log_record: Any) -> None:
        """Queue a log record."""
        self._exporter_behind.expect()
        super().on_emit(log_record)
