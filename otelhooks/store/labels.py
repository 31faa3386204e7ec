"""Labels of conversations in the local store: they survive eviction, restart and process.

Decision code: if the store cannot be used, this process still remembers, logs that once, and writes
it down when the store works again, at the latest when it ends. A conversation that it has
forgotten, or that another process has seen, counts as unknown.

Labels are read in the thread of the call, often that of an event loop: one call waits for a locked
store, and the next ones try it without waiting.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from otelhooks.errors import ConfigError
from otelhooks.plain_text import counted
from otelhooks.process import exits, forks

if TYPE_CHECKING:
    import sqlite3

    from otelhooks.store import connection

__all__ = ["LabelBook"]

log: logging.Logger = logging.getLogger("otelhooks.store")

MAX_REMEMBERED = 100_000
_BUSY_S = 1.0
_PAUSE_S = 10.0
"""How long after a failed try no call waits, in seconds."""
_RETRY_S = 1.0
"""Between two tries to write what could not be written, in seconds."""
_END_S = 2.0
"""Longest wait for a locked store when the process ends, in seconds: spans need the rest."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS labels"
    " (session_id TEXT NOT NULL, label TEXT NOT NULL, PRIMARY KEY (session_id, label))"
    " WITHOUT ROWID"
)


class LabelBook:
    """Which conversations are known, and their labels.

    Args:
        path: File of the local store; created when the first conversation is looked up.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._remembered: dict[str, set[str]] = {}
        self._unwritten: set[tuple[str, str]] = set()
        self._unread: set[str] = set()
        self._wait_from = 0.0
        self._has_told = False
        self._store: connection.Database | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        forks.in_child(self.after_fork, forks.Step.THREADS)

    def of(self, session_id: str) -> Kept:
        """Return the keeper of one conversation's labels."""
        return Kept(self, session_id)

    def open(self, session_id: str) -> tuple[bool, frozenset[str]]:
        """Return whether a conversation is known, and its labels; afterwards it is known.

        Args:
            session_id: The conversation's id.
        """
        with self._lock:
            remembered = self._remembered.get(session_id)
        kept = self._write(session_id, "")
        if kept is not None:
            self._unread.discard(session_id)
        elif len(self._unread) < MAX_REMEMBERED:
            self._unread.add(session_id)
        known = remembered is not None or bool(kept)
        labels = frozenset((*(remembered or ()), *(kept or ()))) - {""}
        self._remember(session_id, labels)
        return known, labels

    def is_read(self, session_id: str) -> bool:
        """Return whether the store could be read when a conversation was last opened."""
        return session_id not in self._unread

    def add(self, session_id: str, label: str) -> None:
        """Keep one more label of a conversation."""
        self._remember(session_id, frozenset((label,)))
        self._write(session_id, label)

    def _remember(self, session_id: str, labels: frozenset[str]) -> None:
        with self._lock:
            self._remembered.setdefault(session_id, set()).update(labels)
            while len(self._remembered) > MAX_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]

    def close(self) -> None:
        """Write what could not be written, and log what still cannot; later calls try it once."""
        exits.unregister(self.close)
        self._ended.set()
        if row := self._next():
            self._write(*row, _END_S)
        with self._lock:
            lost = len({session_id for session_id, _ in self._unwritten})
            self._unwritten.clear()
        if lost:
            log.warning("labels of %s could not be written", counted(lost, "conversation"))

    def _write(
        self, session_id: str, label: str, busy_s: float | None = None
    ) -> frozenset[str] | None:
        """Add a row, and those that could not be; return a conversation's labels before that.

        None is returned if the store does not work now, and may later.

        Args:
            session_id: The conversation's id.
            label: Empty to note only that the conversation is known.
            busy_s: Longest wait for a locked store, in seconds; None for that of a call.
        """
        from otelhooks.store import connection, schema  # with SQLite, which few starts need

        def work(database: sqlite3.Connection) -> frozenset[str]:
            database.execute(_TABLE)
            rows = database.execute("SELECT label FROM labels WHERE session_id = ?", (session_id,))
            before = frozenset(row[0] for row in rows)
            database.executemany("INSERT OR IGNORE INTO labels VALUES (?, ?)", rows_to_add)
            return before

        try:
            store = connection.shared(self._path or schema.default_store_path())
        except ConfigError as error:
            if not self._has_told:
                log.warning("labels are kept in this process only: %s", error)
            self._has_told = True
            return frozenset()
        self._store = store  # held open as long as the book exists
        session_id, label = map(_storable, (session_id, label))
        with self._lock:
            rows_to_add = {*self._unwritten, (session_id, label)}
        if busy_s is None:
            busy_s = _BUSY_S if time.monotonic() >= self._wait_from else 0
        try:
            before = store.write(work, busy_s=busy_s)
        except schema.StoreError as error:
            self._wait_from = time.monotonic() + _PAUSE_S
            self._write_later(session_id, label)
            store.report_trouble("labels", "labels are kept in this process only: %s", error)
            return None
        self._wait_from = 0.0
        with self._lock:
            self._unwritten -= rows_to_add
        return before

    def _write_later(self, session_id: str, label: str) -> None:
        """Keep a row for a thread that writes it when the store works again."""
        with self._lock:
            if len(self._unwritten) < MAX_REMEMBERED:
                self._unwritten.add((session_id, label))
            if self._thread is not None or self._ended.is_set():
                return
            exits.register(self.close)
            thread = threading.Thread(
                target=self._keep_trying, name="otelhooks-labels", daemon=True
            )
            with contextlib.suppress(RuntimeError):  # the interpreter exits, and `close` follows
                thread.start()
                self._thread = thread

    def _keep_trying(self) -> None:
        while not self._ended.wait(_RETRY_S) and (row := self._next()):
            self._write(*row, _BUSY_S)

    def _next(self) -> tuple[str, str] | None:
        """Return a row that could not be written; without any, no thread tries it."""
        with self._lock:
            row = next(iter(self._unwritten), None)
            if row is None:
                self._thread = None
            return row

    def after_fork(self) -> None:
        """Replace locks, which another thread of the parent may have held, and its thread."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = None


def _storable(text: str) -> str:
    """Return text as SQLite takes it: without lone surrogates."""
    return text.encode(errors="backslashreplace").decode()


class Kept:
    """One conversation of a book."""

    __slots__ = ("_book", "_session_id")

    def __init__(self, book: LabelBook, session_id: str) -> None:
        self._book = book
        self._session_id = session_id

    @property
    def is_read(self) -> bool:
        """Whether the store could be read when the conversation was last opened."""
        return self._book.is_read(self._session_id)

    def open(self) -> tuple[bool, frozenset[str]]:
        """Return whether the conversation is known, and its labels."""
        return self._book.open(self._session_id)

    def add(self, label: str) -> None:
        """Keep one more label."""
        self._book.add(self._session_id, label)
