"""The SDK's exporters of log records, by the names of OpenTelemetry 1.39; 1.38 has others."""

from __future__ import annotations

from opentelemetry.sdk._logs import export

if hasattr(export, "InMemoryLogRecordExporter"):
    from opentelemetry.sdk._logs.export import (
        InMemoryLogRecordExporter,
        LogRecordExportResult,
    )
else:
    from opentelemetry.sdk._logs.export import (
        InMemoryLogExporter as InMemoryLogRecordExporter,
    )
    from opentelemetry.sdk._logs.export import (
        LogExportResult as LogRecordExportResult,
    )

__all__ = ["InMemoryLogRecordExporter", "LogRecordExportResult"]
