"""The local store: what goes in comes out, and nothing is lost in silence."""

from __future__ import annotations

import errno
import itertools
import json
import logging
import math
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace as trace_api
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState

from otelhooks.errors import ConfigError
from otelhooks.records import semconv
from otelhooks.store import codec, connection, losses, retention, schema, verdicts
from otelhooks.store.queues import SpanQueue
from otelhooks.store.reader import AmbiguousTraceError, Store
from otelhooks.store.writer import SqliteLogExporter, SqliteSpanExporter, check
from tests.logs import LogRecordExportResult

if TYPE_CHECKING:
    from collections.abc import Iterator

DENY = {
    semconv.POLICY_DECISION: semconv.DECISION_DENY,
    semconv.POLICY_ENFORCEMENT: semconv.ENFORCEMENT_BLOCKED,
    semconv.POLICY_RULE_ID: "no-rm",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store.db"


def tracing(exporter: Any, **options: Any) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def logging_to(exporter: Any) -> LoggerProvider:
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    return provider


def make_spans(count: int, *, traces: int = 1, at: int = 1_000, **attributes: Any) -> list[Any]:
    """Return finished spans, `count` in each trace; a trace ends one second after another."""
    return [
        ReadableSpan(
            f"span {index}",
            context=SpanContext(at + number, index + 1, is_remote=False),
            resource=Resource({}),
            attributes=attributes,
            start_time=(at + number) * 1_000_000_000,
            end_time=(at + number) * 1_000_000_000 + index + 1,
        )
        for number in range(traces)
        for index in range(count)
    ]


def count(path: Path, table: str) -> int:
    with sqlite3.connect(path) as db:
        found = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    db.close()
    return found


class TestRoundTrip:
    def test_a_span_comes_back_with_everything_it_had(self, path: Path) -> None:
        provider = tracing(
            SqliteSpanExporter(path),
            resource=Resource({"service.name": "agents"}, "https://example.org/schema"),
            span_limits=SpanLimits(max_span_attributes=7, max_events=1),
        )
        tracer = provider.get_tracer("otelhooks", "1.2", schema_url="https://example.org/s2")
        remote = SpanContext(
            7, 8, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "b")])
        )
        parent = trace_api.set_span_in_context(trace_api.NonRecordingSpan(remote))
        span = tracer.start_span(
            "execute_tool x", parent, SpanKind.CLIENT, links=[Link(remote, {"why": "resumed"})]
        )
        values = {
            "t": "ü\x00",
            "i": 1,
            "d": 1.0,
            "b": True,
            "l": ["x", "y"],
            "n": [1.5],
            "inf": 1e9,
        }
        span.set_attribute("goes over the limit", 1)
        span.set_attributes(values)
        span.add_event("dropped", timestamp=3)
        span.add_event("kept", {"k": 2}, timestamp=5)
        span.set_status(Status(StatusCode.ERROR, "broken"))
        span.end()

        trace = Store(path).trace("last")
        assert trace is not None
        (found,) = trace.spans
        assert found.trace_id == f"{7:032x}"
        assert found.parent_id == f"{8:016x}"
        assert (found.name, found.kind) == ("execute_tool x", "client")
        assert (found.status, found.status_message) == ("error", "broken")
        assert found.attributes == values
        assert [type(found.attributes[key]) for key in "tidb"] == [str, int, float, bool]
        assert (found.dropped_attributes, found.dropped_events) == (1, 1)
        assert [(event.name, event.at, event.attributes) for event in found.events] == [
            ("kept", 5, {"k": 2})
        ]
        (link,) = found.links
        assert (link.trace_id, link.span_id, link.trace_state) == (f"{7:032x}", f"{8:016x}", "a=b")
        assert link.attributes == {"why": "resumed"}
        assert found.trace_state == "a=b"
        assert found.flags == 0x301
        assert found.duration_s == (found.ended_at - found.started_at) / 1e9
        assert found.origin.resource["service.name"] == "agents"
        assert found.origin.resource_schema_url == "https://example.org/schema"
        assert found.origin.scope is not None
        assert found.origin.scope["name"] == "otelhooks"
        assert found.origin.scope["schema_url"] == "https://example.org/s2"

    def test_a_log_record_comes_back_with_everything_it_had(self, path: Path) -> None:
        logger = logging_to(SqliteLogExporter(path)).get_logger("otelhooks")
        inside = trace_api.NonRecordingSpan(SpanContext(7, 8, False, TraceFlags(1)))
        logger.emit(
            event_name=semconv.EVENT_POLICY_DECISION,
            timestamp=11,
            observed_timestamp=12,
            severity_number=SeverityNumber.WARN,
            severity_text="WARN",
            body={"deep": [1, None, {"raw": b"\x00"}]},
            attributes=DENY,
            context=trace_api.set_span_in_context(inside),
        )
        logger.emit(body="outside of any trace", observed_timestamp=13)

        pages = list(Store(path).records())
        first, second = pages[0][1]
        assert (first.name, first.at, first.emitted_at, first.observed_at) == (
            semconv.EVENT_POLICY_DECISION,
            11,
            11,
            12,
        )
        assert (first.trace_id, first.span_id) == (f"{7:032x}", f"{8:016x}")
        assert (first.severity, first.severity_text) == (13, "WARN")
        assert first.body == {"deep": [1, None, {"raw": b"\x00"}]}
        assert first.attributes == DENY
        assert (second.trace_id, second.at, second.body) == (None, 13, "outside of any trace")

    any_value = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text()
        | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("$bytes"), inner),
        max_leaves=8,
    )

    @given(any_value)
    def test_every_value_survives_json(self, value: Any) -> None:
        assert codec.decode(codec.encode({"value": value})) == {"value": value}

    def test_infinite_numbers_are_valid_json_and_come_back(self) -> None:
        text = codec.encode({"a": math.inf, "b": math.nan, "c": (1, "$x")})
        json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        found = codec.decode(text)
        assert found["a"] == math.inf
        assert math.isnan(found["b"])
        assert found["c"] == [1, "$x"]

    def test_half_a_surrogate_pair_does_not_lose_the_batch(self, path: Path) -> None:
        exporter = SqliteSpanExporter(path)
        broken = ReadableSpan(
            "bad \ud800 name",
            context=SpanContext(5, 1, False),
            attributes={"model said": "\udfff"},
            start_time=1,
            end_time=2,
        )
        assert exporter.export([broken, *make_spans(3)]) is SpanExportResult.SUCCESS
        assert exporter.dropped == 0
        trace = Store(path).trace("00000000000000000000000000000005")
        assert trace is not None
        assert trace.spans[0].name == "bad ? name"
        assert trace.spans[0].attributes == {"model said": "\udfff"}

    def test_a_span_that_cannot_be_written_is_counted_and_the_others_are_stored(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        exporter = SqliteSpanExporter(path)
        no_context = ReadableSpan("no context", resource=Resource({}))
        assert exporter.export([no_context, *make_spans(2)]) is SpanExportResult.FAILURE
        assert exporter.dropped == 1
        assert count(path, "spans") == 2
        assert "ValueError" in caplog.text


class TestReader:
    def test_traces_are_listed_newest_first_with_counts(self, path: Path) -> None:
        exporter = SqliteSpanExporter(path)
        exporter.export(make_spans(2, at=10))
        exporter.export(make_spans(1, at=30, **DENY))
        modified = {semconv.POLICY_DECISION: semconv.DECISION_MODIFY}
        exporter.export(make_spans(3, at=20, **modified))
        observed = {**DENY, semconv.POLICY_ENFORCEMENT: semconv.ENFORCEMENT_OBSERVED}
        exporter.export(make_spans(1, at=5, **observed))
        approved = {
            semconv.POLICY_DECISION: semconv.DECISION_ASK,
            semconv.POLICY_ENFORCEMENT: semconv.ENFORCEMENT_APPROVED,
        }
        exporter.export(make_spans(2, at=7, **approved))

        assert [
            (int(s.trace_id, 16), s.spans, s.refused, s.observed, s.approved, s.verdicts)
            for s in Store(path).traces()
        ] == [
            (30, 1, 1, 0, 0, 0),
            (20, 3, 0, 0, 0, 3),
            (10, 2, 0, 0, 0, 0),
            (7, 2, 0, 0, 2, 0),
            (5, 1, 0, 1, 0, 0),
        ]
        assert [int(s.trace_id, 16) for s in Store(path).traces(denied=True)] == [30, 5]
        assert [int(s.trace_id, 16) for s in Store(path).traces(2)] == [30, 20]
        assert [int(s.trace_id, 16) for s in Store(path).traces(since=15_000_000_000)] == [30, 20]

    def test_a_deny_whose_span_was_sampled_away_is_found_by_its_event(self, path: Path) -> None:
        logger = logging_to(SqliteLogExporter(path)).get_logger("otelhooks")
        span = trace_api.NonRecordingSpan(SpanContext(7, 8, False))
        logger.emit(
            event_name=semconv.EVENT_POLICY_DECISION,
            attributes=DENY,
            context=trace_api.set_span_in_context(span),
        )
        (summary,) = Store(path).traces(denied=True)
        assert (summary.spans, summary.events, summary.is_refused) == (0, 1, True)

    def test_a_trace_is_found_by_prefix_and_an_ambiguous_one_is_named(self, path: Path) -> None:
        SqliteSpanExporter(path).export(make_spans(1, traces=2, at=0xA0))
        store = Store(path)
        found = store.trace(f"{0xA1:032X}")
        assert found is not None
        assert found.trace_id == f"{0xA1:032x}"
        assert store.trace("f") is None
        with pytest.raises(AmbiguousTraceError, match="several traces start with `0000`"):
            store.trace("0000")

    def test_follow_yields_what_comes_and_goes_on_in_a_new_file(self, path: Path) -> None:
        exporter = SqliteSpanExporter(path)
        exporter.export(make_spans(1, at=1))
        following = Store(path).follow(poll_s=0.01)
        started = Store(path).follow(poll_s=0.01, from_start=True)
        assert next(started).trace_id == f"{1:032x}"
        waiting = Waiting(lambda: [record.trace_id for record in itertools.islice(following, 3)])
        waiting.until_alive()
        exporter.export(make_spans(2, at=2))
        waiting.until(lambda: len(Store(path).traces()) == 2)
        waiting.sleep(0.1)
        exporter.shutdown()
        for file in path.parent.glob("store.db*"):
            file.unlink()
        SqliteSpanExporter(path).export(make_spans(1, at=3))
        assert waiting.result() == [f"{2:032x}", f"{2:032x}", f"{3:032x}"]

    def test_a_store_that_is_being_made_is_not_there_yet(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its tables come between two statements of a reader, who finds no other program's file."""
        path.parent.mkdir(parents=True)
        path.touch()
        connect = sqlite3.connect

        class Reader(sqlite3.Connection):
            statements = 0

            def execute(self, *statement: Any) -> sqlite3.Cursor:
                self.statements += 1
                if self.statements == 2:
                    monkeypatch.setattr(sqlite3, "connect", connect)
                    SqliteSpanExporter(path).export(make_spans(1))
                return super().execute(*statement)

        monkeypatch.setattr(
            sqlite3, "connect", lambda *where, **how: connect(*where, factory=Reader, **how)
        )
        with pytest.raises(schema.StoreError) as refused:
            schema.open_for_reading(path)
        assert refused.value.cause == "missing"

    def test_verdicts_can_be_asked_for_in_sql(self, path: Path) -> None:
        logger = logging_to(SqliteLogExporter(path)).get_logger("otelhooks")
        tool = {semconv.GEN_AI_TOOL_NAME: "run_command"}
        logger.emit(event_name=semconv.EVENT_POLICY_DECISION, attributes={**DENY, **tool})
        with sqlite3.connect(path) as db:
            found = db.execute("SELECT decision, enforcement, rule_id, tool FROM verdicts")
            assert found.fetchall() == [("deny", "blocked", "no-rm", "run_command")]
        db.close()


class TestTrouble:
    """What cannot be stored is said once, with what to do, and counted."""

    def test_a_locked_store_is_waited_for_then_counted(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        exporter = SqliteSpanExporter(path, busy_s=0.3)
        exporter.export(make_spans(1))
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert exporter.export(make_spans(3)) is SpanExportResult.FAILURE
        assert exporter.export(make_spans(2)) is SpanExportResult.FAILURE
        holder.execute("ROLLBACK")
        holder.close()
        assert exporter.export(make_spans(1)) is SpanExportResult.SUCCESS
        assert exporter.dropped == 5
        assert caplog.text.count("is locked by another process") == 1
        assert "hint: end the program that holds it open" in caplog.text
        exporter.shutdown()
        assert "5 spans could not be stored" in caplog.text

    def test_a_disk_that_fills_again_is_said_again(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(connection, "_QUIET_S", 0.0)

        def full(*_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        exporter = SqliteSpanExporter(path)
        for _ in range(2):
            with monkeypatch.context() as patched:
                patched.setattr(schema, "open_for_writing", full)
                for _ in range(3):
                    assert exporter.export(make_spans(1)) is SpanExportResult.FAILURE
            assert exporter.export(make_spans(1)) is SpanExportResult.SUCCESS
            exporter.export(make_spans(1))
            connection.shared(path).close()
        assert caplog.text.count("the disk is full") == 2
        assert caplog.messages.count(f"local store `{path}` can be written again") == 2

    def test_a_store_that_is_locked_again_and_again_is_said_once_a_minute(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        exporter = SqliteSpanExporter(path, busy_s=0)
        exporter.export(make_spans(1))
        holder = sqlite3.connect(path, isolation_level=None)
        for _ in range(3):
            holder.execute("BEGIN IMMEDIATE")
            assert exporter.export(make_spans(1)) is SpanExportResult.FAILURE
            holder.execute("ROLLBACK")
            assert exporter.export(make_spans(1)) is SpanExportResult.SUCCESS
        holder.close()
        assert len(caplog.messages) == 1

    def test_spans_and_events_say_once_what_keeps_both_out(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text("not a database")
        spans, logs = SqliteSpanExporter(path), SqliteLogExporter(path)
        assert spans.export(make_spans(2)) is SpanExportResult.FAILURE
        logging_to(logs).get_logger("x").emit(event_name="custom.done")
        spans.shutdown()
        logs.shutdown()
        assert [line for line in caplog.messages if "left untouched" not in line] == [
            f"local store `{path}`: 2 spans could not be stored",
            f"local store `{path}`: 1 event could not be stored",
        ]
        [said] = [line for line in caplog.messages if "left untouched" in line]
        assert said.startswith("nothing is stored for now (numbers follow at exit): local store")

    def test_a_full_disk_is_said_and_counted_and_writing_goes_on_later(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        really_open = schema.open_for_writing

        def open_small(where: Path, busy_s: float) -> sqlite3.Connection:
            db = really_open(where, busy_s)
            db.execute("PRAGMA max_page_count=20")
            return db

        exporter = SqliteSpanExporter(path)
        with monkeypatch.context() as patched:
            patched.setattr(schema, "open_for_writing", open_small)
            assert exporter.export(make_spans(500)) is SpanExportResult.FAILURE
        assert exporter.dropped == 500
        assert "the disk is full" in caplog.text
        assert "hint: free some space" in caplog.text
        lost = losses.read(path)
        assert lost is not None
        assert lost.counts == {"span": 500}
        assert exporter.export(make_spans(500)) is SpanExportResult.SUCCESS
        assert losses.read(path) == lost
        assert count(path, "spans") == 500

    @pytest.mark.parametrize(
        ("error", "free", "cause"),
        [
            (sqlite3.OperationalError("disk I/O error"), 4_096, "full"),
            (sqlite3.OperationalError("disk I/O error"), 10**9, "unusable"),
            (OSError(errno.ENOSPC, "No space left on device"), 10**9, "full"),
            (OSError(errno.EDQUOT, "Disk quota exceeded"), 10**9, "full"),
        ],
    )
    def test_a_full_disk_is_known_by_whatever_it_makes_fail(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, free: int, cause: str
    ) -> None:
        """SQLite has no room for its `-shm`, or the system none for the file itself."""
        monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=free))
        found = schema.store_error(path, error)
        assert found.cause == cause
        assert ("free some space" in str(found)) is (cause == "full")
        assert "room" in str(found) or cause == "full"

    def test_a_file_system_that_is_mounted_read_only_is_named(self, path: Path) -> None:
        error = OSError(errno.EROFS, "Read-only file system")
        assert schema.store_error(path, error).cause == "read-only"

    def test_an_error_of_a_disk_whose_room_is_unknown_has_a_hint(self, tmp_path: Path) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        assert schema.store_error(tmp_path / "gone" / "store.db", error).cause == "unusable"

    def test_what_is_lost_is_noted_when_the_note_can_be_written_again(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def refused(*_: object, **__: object) -> None:
            raise schema.StoreError(path, "full")

        exporter = SqliteSpanExporter(path)
        exporter.export(make_spans(1))
        with monkeypatch.context() as patched:
            patched.setattr(connection.Database, "write", refused)
            patched.setattr(os, "write", full)
            assert exporter.export(make_spans(2)) is SpanExportResult.FAILURE
        assert losses.read(path) == losses.Losses({}, losses.beside(path).stat().st_mtime)
        exporter.export(make_spans(1))
        lost = losses.read(path)
        assert lost is not None
        assert lost.counts == {"span": 2}

    def test_a_read_only_file_is_said_and_counted(
        self, unprivileged: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = unprivileged / "store.db"
        SqliteSpanExporter(path).export(make_spans(1))
        connection.shared(path).close()
        path.chmod(0o444)
        unprivileged.chmod(0o555)
        exporter = SqliteSpanExporter(path)
        assert exporter.export(make_spans(3)) is SpanExportResult.FAILURE
        assert exporter.dropped == 3
        assert "hint: make the file and its folder writable" in caplog.text
        with pytest.raises(ConfigError, match="read-only"):
            check(path)
        assert len(Store(path).traces()) == 1, "reading needs no right to write"

    def test_a_folder_that_cannot_be_made_is_said_and_counted(
        self, unprivileged: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        unprivileged.chmod(0o555)
        exporter = SqliteLogExporter(unprivileged / "below" / "store.db")
        logging_to(exporter).get_logger("x").emit(body="lost")
        assert exporter.dropped == 1
        assert "hint: make the file and its folder writable" in caplog.text

    @pytest.mark.parametrize("name", ["store.db", "store.db/below.db"])
    def test_links_in_a_circle_are_said_and_counted(
        self, path: Path, caplog: pytest.LogCaptureFixture, name: str
    ) -> None:
        path.parent.mkdir()
        path.symlink_to("other.db")
        path.with_name("other.db").symlink_to(path.name)
        exporter = SqliteSpanExporter(path.parent / name)
        assert exporter.export(make_spans(1)) is SpanExportResult.FAILURE
        assert exporter.dropped == 1
        assert "cannot be used" in caplog.text

    def test_the_database_of_another_program_is_left_untouched(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path.parent.mkdir()
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE theirs (x)")
        db.close()
        before = path.read_bytes()
        exporter = SqliteSpanExporter(path)
        assert exporter.export(make_spans(1)) is SpanExportResult.FAILURE
        assert exporter.dropped == 1
        assert path.read_bytes() == before
        assert "is not an otelhooks store" in caplog.text
        with pytest.raises(ConfigError, match=r"not an otelhooks store(.|\n)*hint: set OTELHOOKS"):
            check(path)
        with pytest.raises(ConfigError, match="not an otelhooks store"):
            Store(path).traces()

    def test_a_file_that_is_not_a_database_is_left_untouched(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_text("my notes\n" * 200)
        with pytest.raises(ConfigError, match="not an otelhooks store"):
            check(path)
        assert path.read_text() == "my notes\n" * 200

    def test_another_schema_version_is_refused_with_both_numbers(self, path: Path) -> None:
        check(path)
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version=99")
        db.close()
        exporter = SqliteSpanExporter(path)
        assert exporter.export(make_spans(1)) is SpanExportResult.FAILURE
        with pytest.raises(ConfigError, match="the file has 99, this otelhooks reads 1"):
            check(path)
        with pytest.raises(ConfigError, match="hint: use the otelhooks version that wrote it"):
            Store(path).traces()

    def test_a_folder_in_place_of_the_file_is_a_config_error(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"cannot be used(.|\n)*hint: check the path"):
            check(tmp_path)

    def test_a_missing_store_is_said_with_what_to_do(self, path: Path) -> None:
        with pytest.raises(ConfigError, match=r"does not exist\nhint: run a program"):
            Store(path).traces()
        assert not path.parent.exists()

    def test_check_makes_the_store_for_the_user_alone(self, path: Path) -> None:
        assert check(path) == path.resolve()
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700

    def test_after_shutdown_batches_are_refused_and_counted(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        exporter = SqliteSpanExporter(path)
        exporter.shutdown()
        assert exporter.export(make_spans(2)) is SpanExportResult.FAILURE
        assert exporter.dropped == 2
        assert "was shut down" in caplog.text

    @pytest.mark.parametrize("most", ["", "64"])
    def test_what_a_queue_drops_is_counted_too(
        self,
        path: Path,
        most: str,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        variables = ("OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE") if most else ()
        otel = dict.fromkeys(variables, most)
        for name, value in otel.items():
            monkeypatch.setenv(name, value)  # which the SDK reads itself
        check(path)
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SpanQueue(path, otel))
        for _ in range(2_500):
            provider.get_tracer("t").start_span("s").end()
        holder.execute("ROLLBACK")
        holder.close()
        provider.shutdown()
        lost = 2_500 - count(path, "spans")
        assert (lost > 0) is bool(most)
        assert (f"{lost} spans could not be stored" in caplog.text) is bool(most)

    def test_spans_that_come_while_the_process_ends_are_not_missed(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        exporter = SqliteSpanExporter(path)
        exporter.expect()
        exporter.hurry()
        exporter.expect()
        exporter.export(make_spans(1))
        exporter.shutdown()
        assert caplog.text == ""

    def test_the_agent_of_a_turn_that_was_not_stored_is_named(self, path: Path) -> None:
        call = {semconv.GEN_AI_OPERATION_NAME: "chat", semconv.GEN_AI_AGENT_NAME: "ops"}
        SqliteSpanExporter(path).export(make_spans(2, **call))
        assert [one.agents for one in Store(path).traces()] == [("ops",)]

    def test_at_the_end_a_locked_store_is_waited_for_once_and_all_is_counted(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        check(path)
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        exporter = SqliteSpanExporter(path, busy_s=0.5)
        exporter.hurry()
        started = time.monotonic()
        for _ in range(20):
            exporter.export(make_spans(10))
        exporter.shutdown()
        took = time.monotonic() - started
        holder.execute("ROLLBACK")
        holder.close()
        assert took < 5
        assert "200 spans could not be stored" in caplog.text

    def test_one_exporter_shut_down_leaves_the_other_working(self, path: Path) -> None:
        spans, logs = SqliteSpanExporter(path), SqliteLogExporter(path)
        spans.export(make_spans(1))
        spans.shutdown()
        logging_to(logs).get_logger("x").emit(body="still here")
        assert logs.export([]) is LogRecordExportResult.SUCCESS
        assert count(path, "logs") == 1

    def test_a_store_deleted_while_in_use_is_created_again(self, path: Path) -> None:
        exporter = SqliteSpanExporter(path)
        exporter.export(make_spans(5))
        for file in path.parent.glob("store.db*"):
            file.unlink()
        assert exporter.export(make_spans(2)) is SpanExportResult.SUCCESS
        assert count(path, "spans") == 2

    def test_an_unexpected_exception_never_leaves_the_exporter(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def explode(*_: object) -> bool:
            raise RuntimeError("boom")

        monkeypatch.setattr(retention, "is_over", explode)
        exporter = SqliteSpanExporter(path)
        assert exporter.export(make_spans(2)) is SpanExportResult.FAILURE
        assert exporter.dropped == 2
        assert "RuntimeError" in caplog.text
        assert "boom" not in caplog.text
        monkeypatch.undo()
        assert exporter.export(make_spans(2)) is SpanExportResult.SUCCESS
        assert count(path, "spans") == 2, "nothing of the failed batch was stored"


class TestRetention:
    MAX_BYTES = 600_000

    def fill(self, exporter: SqliteSpanExporter, at: int, traces: int, **attributes: Any) -> None:
        for number in range(traces):
            exporter.export(make_spans(20, at=at + number, text="x" * 200, **attributes))

    def size(self, path: Path) -> int:
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        return path.stat().st_size

    def test_the_file_stays_below_its_cap_and_plain_traces_go_first(self, path: Path) -> None:
        exporter = SqliteSpanExporter(path, max_bytes=self.MAX_BYTES)
        self.fill(exporter, 1_000, 20, **DENY)
        self.fill(exporter, 2_000, 200)
        kept = [int(summary.trace_id, 16) for summary in Store(path).traces(1_000)]
        assert set(range(1_000, 1_020)) <= set(kept), "denied traces are kept, though oldest"
        plain = [number for number in kept if number >= 2_000]
        assert 0 < len(plain) < 200
        assert plain == list(range(2_199, 2_199 - len(plain), -1)), "the oldest plain ones went"
        assert self.size(path) <= self.MAX_BYTES
        assert exporter.dropped == 0

    def test_verdicts_go_when_nothing_else_is_left_and_denies_last(self, path: Path) -> None:
        exporter = SqliteSpanExporter(path, max_bytes=self.MAX_BYTES)
        self.fill(exporter, 1_000, 60, **DENY)
        self.fill(exporter, 2_000, 60, **{semconv.POLICY_DECISION: semconv.DECISION_MODIFY})
        self.fill(exporter, 3_000, 60, **DENY)
        kept = [int(summary.trace_id, 16) for summary in Store(path).traces(1_000)]
        assert kept == sorted(kept, reverse=True)
        assert all(number >= 3_000 for number in kept)
        assert kept[0] == 3_059
        assert self.size(path) <= self.MAX_BYTES

    def test_one_trace_larger_than_the_cap_loses_its_oldest_spans(self, path: Path) -> None:
        exporter = SqliteSpanExporter(path, max_bytes=self.MAX_BYTES)
        for number in range(30):
            exporter.export(make_spans(200, at=7, text=f"{number:0200}"))
        trace = Store(path).trace("last")
        assert trace is not None
        assert 0 < len(trace.spans) < 6_000
        assert trace.spans[-1].attributes["text"] == f"{29:0200}"
        assert self.size(path) <= self.MAX_BYTES

    def test_log_records_outside_traces_go_by_age_too(self, path: Path) -> None:
        exporter = SqliteLogExporter(path, max_bytes=self.MAX_BYTES)
        logger = logging_to(exporter).get_logger("x")
        for number in range(1_500):
            logger.emit(body=f"{number:0800}", observed_timestamp=1_000 + number)
        logs = [event.at for _, events in Store(path).records() for event in events]
        assert logs[-1] == 2_499
        assert logs == list(range(2_500 - len(logs), 2_500))
        assert self.size(path) <= self.MAX_BYTES

    def test_ids_only_grow_so_that_readers_can_follow(self, path: Path) -> None:
        exporter = SqliteSpanExporter(path, max_bytes=1)
        highest = 0
        for number in range(5):
            exporter.export(make_spans(10, at=number + 1))
            with sqlite3.connect(path) as db:
                now = db.execute("SELECT max(id) FROM spans").fetchone()[0]
            db.close()
            assert now >= highest + 10
            highest = now

    def test_resources_of_deleted_traces_go_with_them(self, path: Path) -> None:
        for process in range(3):
            exporter = SqliteSpanExporter(path)
            tracing(exporter, resource=Resource({"p": process})).get_tracer("x").start_span(
                "s", start_time=1
            ).end(end_time=process + 1)
        assert count(path, "origins") == 3
        exporter = SqliteSpanExporter(path, max_bytes=1)
        exporter.export(make_spans(1, at=50))
        exporter = SqliteSpanExporter(path, max_bytes=1)
        exporter.export(make_spans(1, at=51))
        assert count(path, "origins") == 1


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, verdicts.RANK_PLAIN),
        ({semconv.POLICY_DECISION: "allow"}, verdicts.RANK_PLAIN),
        ({semconv.POLICY_DECISION: "allow", semconv.RECOVERED: True}, verdicts.RANK_VERDICT),
        ({semconv.POLICY_DECISION: "ask", semconv.POLICY_ENFORCEMENT: "approved"}, 1),
        ({semconv.POLICY_DECISION: "ask", semconv.POLICY_ENFORCEMENT: "expired"}, 3),
        ({semconv.POLICY_DECISION: "deny", semconv.POLICY_ENFORCEMENT: "observed"}, 2),
        (DENY, verdicts.RANK_REFUSED),
    ],
)
def test_rank_orders_what_is_kept_longest(attributes: dict[str, Any], expected: int) -> None:
    assert verdicts.rank(attributes) == expected


def test_the_default_store_lies_in_the_users_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTELHOOKS_STORE", raising=False)
    path = schema.default_store_path()
    assert path.parts[-2:] == ("otelhooks", "store.db")


def test_a_variable_names_the_default_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OTELHOOKS_STORE", str(tmp_path / "mine.db"))
    assert Store().path == tmp_path / "mine.db"


@pytest.fixture
def unprivileged(caplog: pytest.LogCaptureFixture) -> Iterator[Path]:
    """A folder, and a user whom permissions stop; root is another user for a while."""
    folder = Path(tempfile.mkdtemp(prefix="otelhooks-"))
    nobody, root = 65534, os.geteuid()
    if root == 0:
        os.chown(folder, nobody, nobody)
        os.seteuid(nobody)
    try:
        yield folder
    finally:
        if root == 0:
            os.seteuid(root)
        folder.chmod(0o755)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


class Waiting:
    """Run a function in a thread; the rest is waiting for it without guessing."""

    def __init__(self, work: Any) -> None:
        self._results: list[Any] = []
        self._thread = threading.Thread(target=lambda: self._results.append(work()), daemon=True)
        self._thread.start()

    def until_alive(self) -> None:
        self.sleep(0.1)
        assert self._thread.is_alive()

    def until(self, is_true: Any) -> None:
        for _ in range(200):
            if is_true():
                return
            self.sleep(0.02)
        pytest.fail("waited for nothing")

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def result(self) -> Any:
        self._thread.join(10)
        assert self._results, "the thread is still waiting"
        return self._results[0]


@pytest.fixture(autouse=True)
def warnings_of_the_store(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "otelhooks.store")
