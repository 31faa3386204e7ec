"""The local store under several processes: together, killed, and forked."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext

from otelhooks.store.reader import Store
from otelhooks.store.schema import StoreError
from otelhooks.store.writer import SqliteSpanExporter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Writes `batches` batches of ten spans, trace ids from `first` on. Says when the first is written,
# and goes on once it gets a line.
WRITER = """
    import pathlib, sys
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext
    from otelhooks.store.writer import SqliteSpanExporter

    exporter = SqliteSpanExporter(pathlib.Path(sys.argv[1]), busy_s=20)
    first, batches = int(sys.argv[2]), int(sys.argv[3])
    for number in range(first, first + batches):
        exporter.export([
            ReadableSpan(
                "span", context=SpanContext(number, index + 1, False), resource=Resource({}),
                attributes={"text": "x" * 200}, start_time=number, end_time=number + 1,
            )
            for index in range(10)
        ])
        if number == first:
            print("begun", flush=True)
            sys.stdin.readline()
    exporter.shutdown()
    print(exporter.dropped, flush=True)
"""


def start_writer(path: Path, first: int, batches: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(path), str(first), str(batches)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(*writers: subprocess.Popen[str]) -> None:
    """Wait until each writer has begun, then let all of them go on."""
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "begun\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()


def spans_of(name: str, ids: Sequence[int]) -> list[ReadableSpan]:
    return [
        ReadableSpan(
            name, context=SpanContext(1, span_id, False), resource=Resource({}), end_time=span_id
        )
        for span_id in ids
    ]


def is_sound(path: Path) -> bool:
    db = sqlite3.connect(path)
    try:
        return db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        db.close()


def names(path: Path) -> list[str]:
    return sorted(span.name for spans, _ in Store(path).records() for span in spans)


@pytest.mark.timeout(120)  # against a hang; two interpreters start, on a machine with other work
def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    writers = [start_writer(path, first, 100) for first in (1_000, 2_000)]
    try:
        go(*writers)
        outputs = [writer.communicate()[0] for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
    assert outputs == ["0\n", "0\n"]
    summaries = Store(path).traces(1_000)
    assert len(summaries) == 200
    assert {summary.spans for summary in summaries} == {10}
    assert is_sound(path)


def test_a_process_killed_while_writing_leaves_a_sound_store(tmp_path: Path) -> None:
    """Every batch is there in full or not at all, and others go on writing."""
    path = tmp_path / "store.db"
    writer = start_writer(path, 1_000, 1_000_000)
    assert writer.stdin is not None
    assert writer.stdout is not None
    with writer.stdin, writer.stdout:
        go(writer)
        while len(Store(path).traces(20)) < 10:
            time.sleep(0.01)
        writer.send_signal(signal.SIGKILL)
        assert writer.wait(10) == -signal.SIGKILL
    assert is_sound(path)
    stored = Store(path).traces(1_000_000)
    assert len(stored) >= 10
    assert {summary.spans for summary in stored} == {10}
    exporter = SqliteSpanExporter(path)
    exporter.export(spans_of("after", [1]))
    assert exporter.dropped == 0


def batches_in(path: Path) -> int:
    """How many batches the store holds; 0 as long as its file or its tables are not made."""
    try:
        return sum(bool(spans or events) for spans, events in Store(path).records())
    except StoreError:
        return 0


def test_a_killed_process_loses_what_ended_in_its_last_second(tmp_path: Path) -> None:
    """A span and an event are stored within a second; a busy machine may need some more."""
    path = tmp_path / "store.db"
    program = """
        import otelhooks, sys
        from otelhooks import policy

        otelhooks.instrument(policies=[policy.deny("drop")])
        try:
            otelhooks.call_tool("drop", {}, lambda: None)
        except otelhooks.errors.Denied:
            print("ended", flush=True)
        sys.stdin.read()
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "OTELHOOKS_STORE": str(path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        try:
            assert child.stdout.readline() == "ended\n"
            until = time.monotonic() + 4
            while batches_in(path) < 2:
                assert time.monotonic() < until, "nothing is stored within four seconds"
                time.sleep(0.05)
        finally:
            child.kill()
            child.wait(10)
    stored = list(Store(path).records())
    assert [span.name for spans, _ in stored for span in spans] == ["execute_tool drop"]
    events = [event.name for _, events in stored for event in events]
    assert events == ["otelhooks.policy.decision"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
class TestFork:
    def run_child(self, work: object) -> None:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if work() else 2  # type: ignore[operator]
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0

    def test_parent_and_child_both_write_after_a_fork(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        exporter = SqliteSpanExporter(path)
        exporter.export(spans_of("before", [1]))

        def in_child() -> bool:
            for number in range(50):
                exporter.export(spans_of("child", [1_000 + number]))
            return exporter.dropped == 0

        writing = threading.Thread(
            target=lambda: [exporter.export(spans_of("parent", [n])) for n in range(2, 52)]
        )
        writing.start()
        self.run_child(in_child)
        writing.join()
        exporter.export(spans_of("after", [99]))
        assert exporter.dropped == 0
        assert names(path) == sorted(["before", *["child"] * 50, *["parent"] * 50, "after"])
        assert is_sound(path)

    def test_the_childs_exit_leaves_the_parents_log_of_changes_alone(self, tmp_path: Path) -> None:
        """A child that shared the file would believe itself the last one and delete the log."""
        path = tmp_path / "store.db"
        exporter = SqliteSpanExporter(path)
        exporter.export(spans_of("before", [1]))

        def in_child() -> bool:
            exporter.export(spans_of("child", [2]))
            exporter.shutdown()
            return exporter.dropped == 0

        for number in range(5):
            exporter.export(spans_of("parent", [10 + number]))
            self.run_child(in_child)
        exporter.export(spans_of("after", [3]))
        assert names(path) == sorted(["before", *["child"] * 5, *["parent"] * 5, "after"])
        assert is_sound(path)

    def test_a_batch_processor_goes_on_in_the_child(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(SqliteSpanExporter(path)))
        tracer = provider.get_tracer("otelhooks")
        tracer.start_span("parent").end()

        def in_child() -> bool:
            tracer.start_span("child").end()
            return provider.force_flush(5_000)

        self.run_child(in_child)
        provider.shutdown()
        assert names(path) == ["child", "parent"]


LABELLED = """
    import multiprocessing, os, pathlib, sqlite3, sys
    import otelhooks
    from otelhooks import policy

    @otelhooks.tool
    def fetch(): ...

    def work():
        store = pathlib.Path(os.environ["OTELHOOKS_STORE"])
        lock = sqlite3.connect(store, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        with otelhooks.session("c"):
            fetch()
        lock.execute("COMMIT")
        lock.close()

    otelhooks.instrument(policies=[policy.label("fetch", adds="untrusted")], frameworks=())
    with otelhooks.session("earlier"):
        fetch()
    if sys.argv[1] == "child":
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        os._exit(child.exitcode)  # what the child owes is not the parent's to write
    work()
"""


@pytest.mark.parametrize("where", ["process", "child"])
def test_a_label_of_a_locked_store_is_written_when_its_process_ends(
    where: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LABELLED), where],
        env={**os.environ, "OTELHOOKS_STORE": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    with contextlib.closing(sqlite3.connect(path)) as store:
        kept = store.execute("SELECT label FROM labels WHERE session_id = 'c'").fetchall()
    assert ("untrusted",) in kept, done.stderr
