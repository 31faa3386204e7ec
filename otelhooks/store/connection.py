"""One connection to a store file per process, shared by its exporters, closed across a fork.

SQLite keeps its locks per process and must not see a fork with a file open: the child would believe
that it holds locks that only the parent has. So every connection is closed before a fork, under its
lock, and opened again on the next write, in parent and child alike.

Source: https://www.sqlite.org/howtocorrupt.html, section 2.6.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from otelhooks.process import forks
from otelhooks.store import schema

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_logger = logging.getLogger("otelhooks.store")

_QUIET_S = 60.0
"""Least time between two logs of the same trouble, in seconds."""

_registry: weakref.WeakValueDictionary[Path, Database] = weakref.WeakValueDictionary()
_registry_lock = threading.Lock()


class Database:
    """A store file opened for writing. Created by `shared`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode = (0, 0)
        self._causes: set[str] = set()
        self._troubles: dict[str, float] = {}

    def __del__(self) -> None:
        # Exporters that were never shut down must not leave the file open.
        self._disconnect()

    def write(self, work: Callable[[sqlite3.Connection], T], *, busy_s: float) -> T:
        """Run `work` in one transaction that no other process can interrupt.

        Args:
            work: Gets the connection; may be called again from the start after a lock.
            busy_s: How long to wait, in seconds, while another process or thread writes; 0 for not
                at all.

        Returns:
            What `work` returned; it survives a crash of this process.

        Raises:
            StoreError: Nothing was written; with cause and hint.
        """
        deadline = time.monotonic() + busy_s
        slice_s = min(busy_s, schema.BUSY_SLICE_S)
        while True:
            if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                raise schema.StoreError(self.path, "locked", "a thread of this one waits for it")
            try:
                result = self._transaction(self._connected(slice_s), work)
            except (sqlite3.Error, OSError, schema.StoreError) as error:
                problem = schema.store_error(self.path, error)
                if problem.cause != "locked" or time.monotonic() >= deadline:
                    self._disconnect()
                    raise problem from error
            else:
                self._end_troubles()
                return result
            finally:
                self._lock.release()
            # Release the lock for a moment: for a fork, and for the other exporter.
            time.sleep(0.005)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`, which only reads, without keeping writers of other processes waiting.

        Raises:
            StoreError: With cause and hint.
        """
        try:
            with self._lock:
                return work(self._connected())
        except (sqlite3.Error, OSError, schema.StoreError) as error:
            raise schema.store_error(self.path, error) from error

    def close(self) -> None:
        """Close the connection; the next write opens it again."""
        with self._lock:
            self._disconnect()

    def report(self, cause: str, message: str, *details: object) -> None:
        """Log a warning, once per cause and file."""
        if cause not in self._causes:
            self._causes.add(cause)
            _logger.warning(message, *details)

    def report_trouble(self, about: str, message: str, error: schema.StoreError) -> None:
        """Log a warning of a store that cannot be written, once until it can be again.

        Args:
            about: Tells it from other troubles.
            message: With one placeholder, for the error.
            error: What is wrong.
        """
        if about not in self._troubles:
            self._troubles[about] = time.monotonic()
            _logger.warning(message, error)

    def _end_troubles(self) -> None:
        if self._troubles and time.monotonic() - max(self._troubles.values()) >= _QUIET_S:
            self._troubles = {}
            _logger.warning("local store `%s` can be written again", self.path)

    def _transaction(
        self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]
    ) -> T:
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            # A full disk has already rolled back by itself.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _connected(self, slice_s: float = schema.BUSY_SLICE_S) -> sqlite3.Connection:
        # Writes to a file that was deleted or replaced meanwhile would be lost.
        if self._connection is not None and self._inode != self._inode_now():
            self._disconnect()
        if self._connection is None:
            self._connection = schema.open_for_writing(self.path, slice_s)
            self._inode = self._inode_now()
        self._connection.execute(f"PRAGMA busy_timeout={int(slice_s * 1000)}")
        return self._connection

    def _inode_now(self) -> tuple[int, int]:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return (0, 0)
        return (found.st_dev, found.st_ino)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error as error:
                self.report("close", "local store `%s` was not closed: %s", self.path, error)

    def hold(self) -> None:
        """Close the connection and block all writers until `release`."""
        self._lock.acquire()
        self._disconnect()

    def release(self) -> None:
        """Let writers in again after `hold`."""
        self._lock.release()


def shared(path: Path) -> Database:
    """Return this process's one `Database` for a file, created on first use and not yet opened."""
    # `Path.resolve` raises for links in a circle; here opening the file does, with a `StoreError`.
    path = Path(os.path.realpath(path.expanduser()))
    with _registry_lock:
        database = _registry.get(path)
        if database is None:
            database = _registry[path] = Database(path)
        return database


_held: list[Database] = []


def _before_fork() -> None:
    _registry_lock.acquire()
    _held.extend(_registry.values())
    for database in _held:
        database.hold()


def _after_fork() -> None:
    # The forking thread took the locks and is the one that continues in parent and child.
    for database in _held:
        database.release()
    _held.clear()
    _registry_lock.release()


forks.around(_before_fork, _after_fork)
