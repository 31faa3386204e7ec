"""The SDK's log records, under the names and in the form of OpenTelemetry 1.39.

The SDK 1.38 has other names, and keeps resource and number of dropped attributes on the record.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry import _logs as api
from opentelemetry.sdk import _logs as sdk
from opentelemetry.sdk._logs import export

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    IS_OLD: bool
else:
    IS_OLD = not hasattr(sdk, "ReadableLogRecord")
    ReadableLogRecord = sdk.LogData if IS_OLD else sdk.ReadableLogRecord
    LogRecordExporter = export.LogExporter if IS_OLD else export.LogRecordExporter
    LogRecordExportResult = export.LogExportResult if IS_OLD else export.LogRecordExportResult

__all__ = [
    "LogRecordExportResult",
    "LogRecordExporter",
    "ReadableLogRecord",
    "readable",
    "resource_of",
]


def resource_of(log: Any) -> Resource:
    """Return the resource of a record that an exporter gets."""
    return log.log_record.resource if IS_OLD else log.resource


def readable(
    record: api.LogRecord, resource: Resource, scope: InstrumentationScope | None, dropped: int
) -> ReadableLogRecord:
    """Create a record that an exporter gets.

    Args:
        record: The API's record.
        resource: Where it was emitted.
        scope: Instrumentation scope that emitted it.
        dropped: Number of attributes that the SDK had dropped.
    """
    if not IS_OLD:
        return _Log(record, resource, scope, dropped=dropped)
    old: Any = sdk
    kind = type("LogRecord", (old.LogRecord,), {"dropped_attributes": dropped})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each of these warns that it goes away in 1.39
        return old.LogData(kind._from_api_log_record(record=record, resource=resource), scope)


@dataclass(frozen=True)
class _Log(ReadableLogRecord):
    """A log record that knows how much the SDK had dropped from the original."""

    dropped: int = 0

    @property
    def dropped_attributes(self) -> int:
        return self.dropped
