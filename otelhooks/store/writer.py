"""The exporters that fill the local store.

Both fail open: they run in the worker thread of a batch processor, never raise, and a store that
cannot take a batch is logged once per cause with a hint, and counted in `dropped`.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otelhooks.plain_text import counted
from otelhooks.records.failures import outline
from otelhooks.store import codec, connection, losses, retention, schema
from otelhooks.store.sdk_logs import (
    LogRecordExporter,
    LogRecordExportResult,
    ReadableLogRecord,
    resource_of,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

DEFAULT_MAX_BYTES = 512 * 1024 * 1024
DEFAULT_BUSY_S = 5.0

_MAX_KNOWN_ORIGINS = 256

R = TypeVar("R", ReadableSpan, ReadableLogRecord)
Row = tuple[Any, ...]


class _SqliteExporter(Generic[R]):
    """What both exporters share, except the table they fill and the result of `export`."""

    _resource_of: ClassVar[Any] = operator.attrgetter("resource")
    _table: ClassVar[str]
    _word: ClassVar[str]
    _columns: ClassVar[tuple[str, ...]]
    _started_column: ClassVar[str]
    _ended_column: ClassVar[str]
    _encode: ClassVar[staticmethod[[Any, int], Row]]

    def __init__(
        self,
        path: Path | None = None,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        busy_s: float = DEFAULT_BUSY_S,
    ) -> None:
        columns = self._columns
        self._from = columns.index(self._started_column)
        self._at = columns.index(self._ended_column)
        self._verdict = columns.index("verdict")
        marks = ", ".join("?" * len(columns))
        self._insert = f"INSERT INTO {self._table} ({', '.join(columns)}) VALUES ({marks})"
        self._database = connection.shared(path or schema.default_store_path())
        self._max_bytes = max_bytes
        self._busy_s = busy_s
        self._is_shut_down = False
        self._is_ending = self._is_given_up = False
        self._is_swept = False
        # By identity: hashing a resource costs more than storing a span. The objects are kept too,
        # or their ids could be reused for others.
        self._origins: dict[tuple[int, int], tuple[Row, object, object]] = {}
        self._dropped = 0
        self._noted = 0  # of the dropped
        self._received = 0
        self._expected = itertools.count()  # counts in one step, on any thread

    @property
    def dropped(self) -> int:
        """Records that this exporter could not store."""
        return self._dropped

    def expect(self) -> None:
        """Note that a queue has taken a record for this exporter, and may drop it."""
        if not self._is_ending:
            next(self._expected)

    def hurry(self) -> None:
        """Try no further batch after one that fails from now on: the process ends.

        Records that come later are not expected to be stored, as those of calls that still run.
        """
        self._is_ending = True

    def shutdown(self) -> None:
        """Close the file and log how many records were lost, if any; later batches are refused."""
        if self._is_shut_down:
            return
        self._is_shut_down = True
        self._database.close()
        self._dropped += max(0, next(self._expected) - self._received)
        self._note()
        if self._dropped:
            self._database.report(
                f"total {self._table}",
                "local store `%s`: %s could not be stored",
                self._database.path,
                counted(self._dropped, self._word),
            )

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Return True at once: `export` has written everything when it returns."""
        return True

    def _store(self, records: Sequence[R]) -> bool:
        """Write the records; return whether all of them are in the store. Never raises."""
        self._received += len(records)
        if self._is_shut_down:
            return self._lost(len(records), "shut down", "the exporter was shut down")
        if self._is_given_up:
            return self._lost(len(records), "given up", "the process ends")
        try:
            rows, origins = self._rows(records)
            if rows:
                self._write(rows, origins)
        except schema.StoreError as error:
            self._is_given_up = self._is_ending  # so that what is left can be counted in time
            # Once for spans and events together.
            self._database.report_trouble(
                error.cause, "nothing is stored for now (numbers follow at exit): %s", error
            )
            self._dropped += len(records)
            self._note()
            return False
        except Exception as error:  # telemetry fails open
            return self._lost(len(records), type(error).__name__, outline(error))
        self._note()
        return len(rows) == len(records)

    def _note(self) -> None:
        """Say beside the store what it lacks, for those who read it."""
        count = self._dropped - self._noted
        if count and losses.add(self._database.path, self._word, count):
            self._noted += count

    def _lost(self, count: int, cause: str, message: str) -> bool:
        self._dropped += count
        if count:
            self._database.report(
                f"{self._word} {cause}",
                "%ss are not stored (logged once; the number follows at exit): %s",
                self._word,
                message,
            )
        return not count

    def _rows(self, records: Sequence[R]) -> tuple[list[Row], list[Row]]:
        """Return the rows, and the origins that they refer to."""
        rows: list[Row] = []
        origins: dict[int, Row] = {}
        resource_of: Callable[[Any], Resource] = self._resource_of
        resource: Resource | None = None
        scope: InstrumentationScope | None = None
        origin: Row = ()
        for record in records:
            try:
                # Neighbours mostly come from the same tracer.
                found = resource_of(record)
                if found is not resource or record.instrumentation_scope is not scope:
                    origin = self._origin(found, record.instrumentation_scope)
                    origins[origin[0]] = origin
                    resource, scope = found, record.instrumentation_scope
                row = self._encode(record, origin[0])
            except Exception as error:  # one odd record must not lose the batch
                self._lost(1, "encoding", outline(error))
                continue
            rows.append(row)
        # The end of the batch for all of them: late is fine, early would delete one in use.
        used_at = max((row[self._at] for row in rows), default=0)
        return rows, [(*origin, used_at) for origin in origins.values()]

    def _origin(self, resource: Resource, scope: InstrumentationScope | None) -> Row:
        key = (id(resource), id(scope))
        known = self._origins.get(key)
        if known is None:
            if len(self._origins) >= _MAX_KNOWN_ORIGINS:
                self._origins.clear()
            known = self._origins[key] = (codec.origin_row(resource, scope), resource, scope)
        return known[0]

    def _write(self, rows: list[Row], origins: list[Row]) -> None:
        def insert(db: sqlite3.Connection) -> bool:
            db.executemany(_UPSERT_ORIGIN, origins)
            db.executemany(self._insert, rows)
            db.executemany(_UPSERT_TRACE, self._traces(rows))
            return retention.is_over(db, self._max_bytes)

        try:
            is_over = self._database.write(insert, busy_s=self._busy_s)
        except UnicodeEncodeError:
            rows[:] = [codec.storable(row) for row in rows]
            origins[:] = [codec.storable(row) for row in origins]
            is_over = self._database.write(insert, busy_s=self._busy_s)
        if is_over:
            self._trim()

    def _trim(self) -> None:
        def step(db: sqlite3.Connection) -> bool:
            return retention.trim_step(db, self._max_bytes)

        try:
            if not self._is_swept:
                self._database.write(retention.sweep_origins, busy_s=self._busy_s)
                self._is_swept = True
            for _ in range(retention.STEPS):
                if not self._database.write(step, busy_s=self._busy_s):
                    return
        except schema.StoreError as error:
            # The batch itself is stored and nothing is lost yet; the next batch tries again.
            self._database.report(f"trim {error.cause}", "old traces are not deleted: %s", error)

    def _traces(self, rows: list[Row]) -> list[Row]:
        """Return one row per trace: id, start, end, rank of the most severe verdict."""
        found: dict[str, tuple[int, int, int]] = {}
        for row in rows:
            trace_id: str | None = row[0]
            if trace_id is None:
                continue
            start, end, verdict = row[self._from], row[self._at], row[self._verdict]
            if (seen := found.get(trace_id)) is not None:
                start, end, verdict = min(start, seen[0]), max(end, seen[1]), max(verdict, seen[2])
            found[trace_id] = (start, end, verdict)
        return [(trace_id, *summary) for trace_id, summary in found.items()]


class SqliteSpanExporter(_SqliteExporter[ReadableSpan], SpanExporter):
    """Write ended spans to the local store.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "store.db"
        >>> exporter = SqliteSpanExporter(path)
        >>> exporter.export([]).name
        'SUCCESS'

    Args:
        path: The file; None for `otelhooks.store.schema.default_store_path`. Not opened here.
        max_bytes: Size of the file, in bytes, above which the oldest traces are deleted.
        busy_s: How long, in seconds, a batch waits while other processes write.
    """

    _table = "spans"
    _word = "span"
    _columns = codec.SPAN_COLUMNS
    _started_column = "started_at"
    _ended_column = "ended_at"
    _encode = staticmethod(codec.span_row)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write one batch in one transaction; a failure is logged once and counted."""
        return SpanExportResult.SUCCESS if self._store(spans) else SpanExportResult.FAILURE


class SqliteLogExporter(_SqliteExporter[ReadableLogRecord], LogRecordExporter):
    """Write log records, and so all events, to the local store.

    Args:
        path: The file; None for `otelhooks.store.schema.default_store_path`. Not opened here.
        max_bytes: Size of the file, in bytes, above which the oldest traces are deleted.
        busy_s: How long, in seconds, a batch waits while other processes write.
    """

    _resource_of = staticmethod(resource_of)
    _table = "logs"
    _word = "event"
    _columns = codec.LOG_COLUMNS
    _started_column = _ended_column = "at"
    _encode = staticmethod(codec.log_row)

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Write one batch in one transaction; a failure is logged once and counted."""
        is_stored = self._store(batch)
        return LogRecordExportResult.SUCCESS if is_stored else LogRecordExportResult.FAILURE


def check(path: Path | None = None, *, busy_s: float = DEFAULT_BUSY_S) -> Path:
    """Check that the store can be written, creating it if it is missing.

    Args:
        path: The file; None for `otelhooks.store.schema.default_store_path`.
        busy_s: How long, in seconds, to wait while other processes write.

    Returns:
        The absolute path of the file.

    Raises:
        ConfigError: It cannot; with cause and hint.
    """
    database = connection.shared(path or schema.default_store_path())
    # Written and undone in the same transaction: a read-only file would accept the bare BEGIN.
    database.write(
        lambda it: it.execute(f"PRAGMA user_version={schema.SCHEMA_VERSION}"), busy_s=busy_s
    )
    return database.path


_UPSERT_ORIGIN = (
    "INSERT INTO origins (id, resource, resource_schema_url, scope, used_at)"
    " VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET used_at = max(used_at, excluded.used_at)"
)
_UPSERT_TRACE = (
    "INSERT INTO traces (trace_id, started_at, ended_at, verdict) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (trace_id) DO UPDATE SET"
    " started_at = min(started_at, excluded.started_at),"
    " ended_at = max(ended_at, excluded.ended_at),"
    " verdict = max(verdict, excluded.verdict)"
)
