"""What a collector that is away cannot take is kept, and sent when it is back."""

from __future__ import annotations

import http.server
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otelhooks.cli.trace import trace
from otelhooks.store import losses
from otelhooks.telemetry import spill
from otelhooks.telemetry.exporters import exporters
from otelhooks.telemetry.spill import Spilling, folder_of


class Collector:
    """An exporter to a collector that may be away; it waits in vain until it is shut down."""

    def __init__(self, is_away: bool = False, waits: bool = False) -> None:
        self.is_away, self.waits = is_away, waits
        self.got: list[str] = []
        self.ended = threading.Event()

    def export(self, batch: Any) -> SpanExportResult:
        if self.waits:
            self.ended.wait(20)
        if self.is_away:
            return SpanExportResult.FAILURE
        self.got += [span.name for span in batch]
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        assert not self.ended.is_set()
        self.ended.set()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(spill, "_TURN_S", 60)  # a busy machine takes long for what is sent later
    return folder_of(tmp_path / "store.db")


def spans(*names: str) -> list[ReadableSpan]:
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    for name in names:
        provider.get_tracer("t").start_span(name).end()
    return list(memory.get_finished_spans())


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A collector that has moved: it redirects, and lists what comes to its new address."""
    received: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            is_new = self.path.startswith("/new")
            if is_new:
                received.append(self.path)
            self.send_response(200 if is_new else 307)
            self.send_header("Location", f"/new{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    yield received
    server.shutdown()
    server.server_close()


def kept(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.glob("*"))


def test_what_a_collector_redirects_arrives_or_is_kept(
    folder: Path, moved: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    [exporter] = exporters("traces", {"OTEL_TRACES_EXPORTER": "otlp"}, {}, folder)
    exporter.export(spans("a"))
    follows = not hasattr(exporter._exporter, "_client")  # earlier releases of the SDK
    assert moved == ["/new/v1/traces"] * follows
    assert (".db" in kept(folder)) is not follows
    assert ("answers with a redirect (307)" in caplog.text) is not follows
    exporter.shutdown()


def test_what_cannot_be_sent_is_sent_after_the_next_batch_that_arrives(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    collector = Collector(is_away=True)
    exporter = Spilling(collector, "traces", folder)
    assert exporter.export(spans("a", "b")) is SpanExportResult.SUCCESS
    exporter.export(spans("c"))
    assert caplog.text.count("the collector takes no traces") == 1
    assert collector.got == []
    collector.is_away = False
    exporter.export(spans("d"))
    assert collector.got == ["d", "a", "b", "c"]
    assert kept(folder) == []
    exporter.export(spans("e"))
    assert collector.got == ["d", "a", "b", "c", "e"]


def test_the_next_process_sends_what_one_has_kept(folder: Path) -> None:
    before = Spilling(Collector(is_away=True), "traces", folder)
    before.export(spans("a"))
    before.shutdown()
    collector = Collector()
    Spilling(collector, "traces", folder).export(spans("b"))
    assert collector.got == ["b", "a"]
    assert kept(folder) == []


def test_a_file_that_another_process_adds_to_is_left_to_it(folder: Path) -> None:
    living, other = Collector(is_away=True), Collector()
    exporter = Spilling(living, "traces", folder)
    exporter.export(spans("a"))
    Spilling(other, "traces", folder).export(spans("b"))
    assert other.got == ["b"]
    living.is_away = False
    exporter.export(spans("c"))
    assert living.got == ["c", "a"]


def test_the_lock_of_a_process_that_died_gets_old(folder: Path) -> None:
    Spilling(Collector(is_away=True), "traces", folder).export(spans("a"))  # never shut down
    (lock,) = folder.glob("*.lock")
    long_ago = time.time() - spill._LOCK_S - 1
    os.utime(lock, (long_ago, long_ago))
    collector = Collector()
    Spilling(collector, "traces", folder).export(spans("b"))
    assert collector.got == ["b", "a"]


def test_a_file_that_cannot_be_read_holds_up_no_other(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Spilling(Collector(is_away=True), "traces", folder).export(spans("a"))
    for lock in folder.glob("*.lock"):
        lock.unlink()
    (folder / "traces-0-0.db").touch()  # of a process that was killed, or on a full disk
    (folder / "traces-0-1.db").write_bytes(b"x" * 5000)
    collector = Collector()
    exporter = Spilling(collector, "traces", folder)
    for name in ("b", "c"):
        exporter.export(spans(name))
    assert collector.got == ["b", "a", "c"]
    assert [file.name for file in folder.iterdir()] == ["traces-0-1.db"]
    assert caplog.text.count("traces-0-1.db` cannot be read") == 1


def test_a_collector_that_keeps_waiting_is_left_alone_for_as_long(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class: the queue in front of the exporter is short, and drops what it cannot hold."""
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep, time=time.time)
    monkeypatch.setattr(spill, "time", clock)
    asked: list[int] = []

    class Slow(Collector):
        def export(self, batch: Any) -> SpanExportResult:
            asked.append(len(batch))
            now[0] += 10
            return super().export(batch)

    collector = Slow(is_away=True)
    exporter = Spilling(collector, "traces", folder)
    for _ in range(3):
        assert exporter.export(spans("a")) is SpanExportResult.SUCCESS
    assert len(asked) == 1
    now[0] += 11
    exporter.export(spans("b"))
    assert len(asked) == 2


def test_a_collector_that_goes_away_again_gets_the_rest_later(folder: Path) -> None:
    collector = Collector(is_away=True)
    exporter = Spilling(collector, "traces", folder)
    exporter.export(spans(*(f"old {number}" for number in range(600))))  # two pages of the store
    collector.is_away, sent = False, []

    def goes_away(batch: Any) -> SpanExportResult:
        sent.append(len(batch))
        return SpanExportResult.SUCCESS if len(sent) < 3 else SpanExportResult.FAILURE

    collector.export = goes_away  # type: ignore[method-assign]
    exporter.export(spans("new"))
    assert sent == [1, 512, 88]
    assert ".db" in kept(folder)
    del collector.export
    exporter.export(spans("newer"))
    assert collector.got == ["newer", *(f"old {number}" for number in range(600))]


def test_what_a_collector_refuses_does_not_hold_up_the_rest(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Choosy(Collector):
        def export(self, batch: Any) -> SpanExportResult:
            refuses = any(span.name == "bad" for span in batch)
            return SpanExportResult.FAILURE if refuses else super().export(batch)

    collector = Choosy()
    exporter = Spilling(collector, "traces", folder)
    exporter.export(spans("bad"))
    for number in range(4):
        exporter.export(spans(f"{number}"))
    other = Spilling(Collector(is_away=True), "traces", folder)
    other.export(spans("kept"))
    other.shutdown()
    exporter.export(spans("last"))
    assert collector.got == ["0", "1", "2", "3", "last", "kept"]
    (mark,) = folder.glob("*.refused")
    assert [path.stem for path in folder.glob("*.db")] == [mark.stem]
    assert caplog.text.count("the collector refuses kept traces") == 1


def test_logs_and_traces_are_kept_apart(folder: Path) -> None:
    Spilling(Collector(is_away=True), "traces", folder).export(spans("a"))
    assert [path.name.split("-")[0] for path in folder.glob("*.db")] == ["traces"]
    logs = Collector()
    Spilling(logs, "logs", folder).export([])
    assert logs.got == []


def test_the_end_of_the_process_waits_a_second_and_keeps_the_rest(folder: Path) -> None:
    collector, metrics = Collector(is_away=True, waits=True), Collector()
    exporter = Spilling(collector, "traces", folder)
    exporter.beside = [metrics]
    started = time.monotonic()
    exporter.hurry()
    exporter.export(spans("a"))
    exporter.export(spans("b"))
    exporter.shutdown()
    assert time.monotonic() - started < 10  # the collector waits 20 s
    assert metrics.ended.is_set()
    assert metrics.export([]).name == "FAILURE"  # its reader, which does not know
    metrics.shutdown(timeout_millis=1)
    after = Collector()
    Spilling(after, "traces", folder).export(spans("c"))
    assert after.got == ["c", "a", "b"]


def test_a_collector_that_answers_is_not_cut_short(folder: Path) -> None:
    collector = Collector()
    exporter = Spilling(collector, "traces", folder)
    exporter.hurry()
    time.sleep(0.2)
    exporter.export(spans("a"))
    assert collector.got == ["a"]
    assert not collector.ended.is_set()
    exporter.shutdown()


def test_a_note_of_what_the_disk_did_not_take_stays_when_the_rest_is_sent(folder: Path) -> None:
    collector = Collector(is_away=True)
    exporter = Spilling(collector, "traces", folder)
    exporter.export(spans("a"))
    [file] = folder.glob("*.db")
    losses.add(file, "span", 2)
    collector.is_away = False
    exporter.export(spans("b"))
    exporter.shutdown()
    assert [each.name for each in folder.iterdir()] == [f"{file.name}-lost"]


def test_an_exporter_that_raises_and_a_disk_that_is_full_end_no_program(
    tmp_path: Path, folder: Path
) -> None:
    class Broken(Collector):
        def export(self, batch: Any) -> SpanExportResult:
            raise OSError("no route")

    assert Spilling(Broken(), "traces", folder).export(spans("a")) is SpanExportResult.SUCCESS
    (tmp_path / "file").write_text("")
    nowhere = Spilling(Broken(), "traces", tmp_path / "file" / "unsent")
    assert nowhere.export(spans("a")) is SpanExportResult.FAILURE


def test_a_folder_that_is_full_takes_no_more_which_is_said_counted_and_noted(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spill, "_MAX_BYTES", 400_000)
    away = [Collector(is_away=True), Collector(is_away=True)]
    exporters = [Spilling(each, "traces", folder) for each in away]
    for number in range(80):
        exporters[number % 2].export(spans(*(f"{number}.{i}" for i in range(20))))
    assert sum(file.stat().st_size for file in folder.iterdir()) < 600_000
    assert caplog.text.count("they are kept in") == 2
    assert caplog.text.count("they are lost from now on") == 2
    assert f"`{folder}` may not grow" in caplog.text
    for each, exporter in zip(away, exporters, strict=True):
        each.is_away = False
        exporter.export(spans("x"))
        exporter.shutdown()
    arrived = sum(len(each.got) - 1 for each in away)
    notes = [losses.read(file.with_suffix(".db")) for file in folder.glob("*.db-lost")]
    assert 0 < arrived < 1600
    assert sum(note.counts["span"] for note in notes if note) == 1600 - arrived
    said = re.findall(r"takes traces again: (\d+) spans were lost", caplog.text)
    assert sum(map(int, said)) == 1600 - arrived
    found = CliRunner().invoke(trace, ["list", "--store", str(tmp_path / "store.db")])
    assert "hint: start the collector if it is away" in found.stderr


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_a_folder_that_cannot_be_written_is_said_once_and_counted_at_the_end(
    signal: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    exporter = Spilling(Collector(is_away=True), signal, tmp_path / "file" / "unsent")
    for _ in range(3):
        assert exporter.export(spans("a", "b")).name == "FAILURE"
    [told] = caplog.messages
    assert told.startswith(f"the collector takes no {signal}, and they are lost from now on: ")
    assert "hint: " in told
    exporter.shutdown()
    word = "spans" if signal == "traces" else "events"
    assert caplog.messages[1:] == [f"the collector takes no {signal}: 6 {word} were lost"]
