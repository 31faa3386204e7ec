"""Keep what a collector that is away cannot take, and send it when it is back.

A batch that cannot be sent goes to a store file of this process, in a folder beside the local
store. After a batch that arrives, the files of all processes are sent, a few batches at a time, and
deleted. A collector may get a batch twice: if a process ends between sending and deleting. What
comes while the folder is full, or cannot be written, is lost: logged once an outage, and counted.

When the process ends, the exporter may not keep trying a collector that is away: what it is
busy with is stopped after a second, and kept. Telemetry: fails open.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from otelhooks.errors import ConfigError
from otelhooks.plain_text import LOGGED, counted, one_line
from otelhooks.records.failures import outline
from otelhooks.store import losses

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

__all__ = ["Spilling", "folder_of"]

_log = logging.getLogger("otelhooks.telemetry")

_PATIENCE_S = 1.0
"""How long one batch may take once the process ends, in seconds."""

_TURN_S = 0.5
"""How long kept batches are sent after one that arrives, in seconds."""

_TRIES = 3
"""How often a file is tried, each time after a batch that arrived."""

_MAX_BYTES = 512 * 1024 * 1024
"""Size of the folder, in bytes, from which on nothing more is kept."""

_REFUSED = ".refused"
"""Suffix of the mark of a file that the collector does not take."""

_LOCK_S = 600.0
"""Age of a lock, in seconds, from which its process is taken for dead."""


def folder_of(store: Path) -> Path:
    """Return the folder that batches are kept in, beside a local store."""
    return store.with_name(f"{store.stem}-unsent")


class Spilling:
    """An exporter of spans or log records that keeps what it cannot send.

    Args:
        exporter: The one that sends.
        signal: ``traces`` or ``logs``.
        folder: Where batches are kept; created with the first one.

    Attributes:
        beside: Exporters of metrics to the same collector, which are not waited for either.
    """

    def __init__(self, exporter: Any, signal: str, folder: Path) -> None:
        self.beside: list[Any] = []
        self._exporter = exporter
        self._signal = signal
        self._word = "span" if signal == "traces" else "event"
        self._folder = folder
        self._lock = threading.Lock()
        self._keeper: Any = None
        self._file: Path | None = None
        self._waiting: Generator[Any, None, None] | None = None
        self._sending: Path | None = None
        self._refused: dict[str, int] = {}
        self._unreadable: set[Path] = set()
        self._away_until = 0.0
        self._busy_since: float | None = None
        self._ending_since: float | None = None
        self._ending = threading.Event()
        self._is_shut_down = False
        self._has_told = False
        self._lost = 0  # since the last batch that arrived
        # Now, because an import at the end of a program hides that Ctrl-C ended it.
        importlib.import_module("otelhooks.store.writer")
        # Started now, because none can be started while the interpreter exits (Python 3.12).
        threading.Thread(target=self._watch, name="otelhooks-hurry", daemon=True).start()

    def export(self, batch: Sequence[Any]) -> Any:
        """Send a batch, or keep it; return whether one of the two worked, as the SDK says it.

        Where sending fails only after long waiting, it is not tried again for as long: the queue
        in front of this would run over.
        """
        with self._lock:
            started = time.monotonic()
            if started < self._away_until:
                return self._keep(batch, None)
            result = self._send(batch)
            if result is None or result.name != "SUCCESS":
                ended = time.monotonic()
                if ended - started > _PATIENCE_S:
                    self._away_until = ended + (ended - started)
                return self._keep(batch, result)
            self._catch_up()
            return result

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return True at once: `export` has sent or kept everything when it returns."""
        return True

    def hurry(self) -> None:
        """Wait no longer than a second for the collector from now on: the process ends."""
        if self._ending_since is None:
            self._ending_since = time.monotonic()
            self._ending.set()

    def shutdown(self) -> None:
        """Close connection and file."""
        self._stop()
        self._close()
        self._say_lost(f"no {self._signal}")

    def _watch(self) -> None:
        self._ending.wait()
        while not self._is_shut_down:
            busy, ending = self._busy_since, self._ending_since
            if busy is not None and ending is not None:
                if time.monotonic() - max(busy, ending) > _PATIENCE_S:
                    self._stop()
                    return
            time.sleep(0.05)

    def _stop(self) -> None:
        """Shut the exporter down, which ends its waiting between two tries."""
        if not self._is_shut_down:
            self._is_shut_down = True
            self._ending.set()
            self._exporter.shutdown()

    def _send(self, batch: Sequence[Any]) -> Any:
        """Return the exporter's result; None if it is shut down, or raises."""
        if self._is_shut_down:
            return None
        self._busy_since = time.monotonic()
        try:
            return self._exporter.export(batch)
        except Exception as error:
            _log.error("a batch of %s could not be sent: %s", self._signal, outline(error))
            return None
        finally:
            self._busy_since = None

    # -- keeping ------------------------------------------------------------------------------

    def _keep(self, batch: Sequence[Any], result: Any) -> Any:
        if self._ending_since is not None:
            with contextlib.suppress(IndexError):  # those of traces and logs share the list
                while True:
                    _end(self.beside.pop())
        from opentelemetry.sdk.trace.export import SpanExportResult

        try:
            keeper = self._open()
        except ConfigError as error:
            self._lose(len(batch), error)
            return SpanExportResult.FAILURE if result is None else result
        kept = keeper.export(batch)
        if kept.name == "SUCCESS" and not self._has_told:
            self._has_told = True
            _log.warning(
                "the collector takes no %s: they are kept in `%s` and sent when it is back",
                self._signal,
                self._folder,
            )
        return kept if result is None or kept.name == "SUCCESS" else result

    def _lose(self, count: int, error: ConfigError) -> None:
        if not self._lost:
            _log.warning(
                "the collector takes no %s, and they are lost from now on: %s", self._signal, error
            )
        self._lost += count
        if self._file is not None:
            losses.add(self._file, self._word, count)

    def _say_lost(self, how: str) -> None:
        if self._lost:
            lost = counted(self._lost, self._word)
            _log.warning("the collector takes %s: %s were lost", how, lost)
            self._lost = 0

    def _open(self) -> Any:
        """Return the exporter to this process's file, which is locked as long as it grows.

        Raises:
            ConfigError: Nothing can be kept now.
        """
        from otelhooks.store.writer import SqliteLogExporter, SqliteSpanExporter, check

        if self._keeper is not None and self._file is not None and not self._file.exists():
            self._close()  # it was idle for so long that another process has sent it
        if self._file is None:
            with contextlib.suppress(OSError):  # the store says what is wrong with it
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"{self._signal}-{os.getpid()}-{uuid.uuid4().hex[:8]}.db"
            self._file = self._folder / name
            _is_ours(self._file)
        with contextlib.suppress(OSError):  # without its lock, another process sends the file
            os.utime(_lock_of(self._file))
        if (size := _size_of(self._folder)) >= _MAX_BYTES:
            raise ConfigError(
                f"`{self._folder}` may not grow beyond {size >> 20} MB",
                hint="start the collector, or delete files there",
            )
        if self._keeper is None:
            check(self._file)
            kind = SqliteSpanExporter if self._signal == "traces" else SqliteLogExporter
            self._keeper = kind(self._file, max_bytes=2 * _MAX_BYTES)  # it deletes nothing
        return self._keeper

    def _close(self) -> None:
        if self._file is not None:
            if self._keeper is not None:
                self._keeper.shutdown()
            with contextlib.suppress(OSError):  # it ends by itself after `_LOCK_S`
                _lock_of(self._file).unlink()
            self._keeper = self._file = None

    # -- sending later ------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Send kept batches for a moment; never raises."""
        self._has_told = False
        self._say_lost(f"{self._signal} again")
        if not self._folder.is_dir():
            return
        until = time.monotonic() + _TURN_S
        try:
            while time.monotonic() < until and not self._is_shut_down:
                if self._waiting is None:
                    self._waiting = self._kept()
                batch = next(self._waiting, None)
                if batch is None:
                    self._waiting = None
                    return
                result = self._send(batch)
                if result is None or result.name != "SUCCESS":
                    self._waiting.close()
                    self._waiting = None
                    self._put_aside_if_refused()
                    return
        except Exception as error:
            self._waiting = None
            _log.warning("kept %s cannot be sent now: %s", self._signal, outline(error))

    def _put_aside_if_refused(self) -> None:
        """Give a file up that the collector does not take, while it takes others."""
        file = self._sending
        if file is None or self._is_shut_down:
            return
        self._refused[file.name] = self._refused.get(file.name, 0) + 1
        if self._refused[file.name] >= _TRIES:
            file.with_suffix(_REFUSED).touch(mode=0o600)
            _log.warning("the collector refuses kept %s, which stay in `%s`", self._signal, file)

    def _kept(self) -> Generator[Any, None, None]:
        """Yield the batches of all files of this signal; delete each file behind its last one."""
        from otelhooks.store.otlp import batches
        from otelhooks.store.reader import Store

        self._close()
        for file in sorted(self._folder.glob(f"{self._signal}-*.db")):
            is_left_out = file in self._unreadable or file.with_suffix(_REFUSED).exists()
            if is_left_out or not _is_ours(file):
                continue
            self._sending = file
            try:
                if file.stat().st_size:  # else its process ended before it wrote anything
                    for spans, logs in batches(Store(file)):
                        yield spans or logs
                for part in ("", "-journal", "-wal", "-shm"):  # a note of what is lost stays
                    file.with_name(f"{file.name}{part}").unlink(missing_ok=True)
            except Exception as error:  # the others are sent all the same
                self._unreadable.add(file)
                _log.warning(
                    "kept %s in `%s` cannot be read, and stay there: %s",
                    *(self._signal, file, one_line(error, LOGGED)),
                )
            finally:
                _lock_of(file).unlink(missing_ok=True)


def _end(exporter: Any) -> None:
    """Shut an exporter of metrics down, and hide that from its reader, which does so as well."""
    from opentelemetry.sdk.metrics.export import MetricExportResult

    def fail(*_args: Any, **_options: Any) -> MetricExportResult:
        return MetricExportResult.FAILURE

    exporter.shutdown()
    exporter.shutdown = exporter.export = fail


def _lock_of(file: Path) -> Path:
    return file.with_suffix(".lock")


def _size_of(folder: Path) -> int:
    """Return the size of the files in a folder, in bytes; 0 if there is none."""
    size = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(FileNotFoundError):  # another process has sent it
                size += entry.stat(follow_symlinks=False).st_size
    return size


def _is_ours(file: Path) -> bool:
    """Lock a file; return False if another process sends it, or adds to it."""
    lock = _lock_of(file)
    with contextlib.suppress(OSError):  # there is none, or opening it below fails as well
        if time.time() - lock.stat().st_mtime > _LOCK_S:
            lock.unlink()
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    return True
