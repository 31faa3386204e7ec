"""The audit trail: callers seal records into a chain, a writer thread brings them to disk.

A record is sealed when it is queued, so that its place in the chain never changes, whatever happens
to the disk. It gets its place by being queued, in one step: an exception that a signal handler
raises comes before or after. Like telemetry, this code never raises into its caller;
`Audit.required` lets the caller fail closed.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from otelhooks.audit.chain import Chain, Fields, close, encode, lost
from otelhooks.audit.segment import is_transient, occupied, place, unusable, writable_by_all
from otelhooks.audit.ticket import Ticket
from otelhooks.audit.writer import Writer, logger
from otelhooks.process import exits, forks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

MAX_QUEUED_BYTES = 32 * 1024 * 1024
"""Most bytes that may wait in memory. More records are refused and counted; the trail says so."""


@functools.cache
def _warn_once(warning: str) -> None:
    logger.warning("%s", warning)


class Audit:
    """An append-only, hash-chained audit trail, on disk before the caller continues.

    Each process writes a chain of its own into segment files of its own; a forked child starts a
    new chain by itself. Thread-safe. `with Audit(...) as audit:` closes it at the end, and so does
    the exit of the interpreter.

    Args:
        path: A folder, or a file stem that ends in `.jsonl`; None is the folder `audit` in the
            user's data folder. A given path that cannot be used is an error; the default one is
            not.
        required: For the caller to read: a call whose record is not stored should be denied.
        rotate_bytes: Size in bytes at which a segment is closed and the next one begun.
        executed_only: For the caller to read: record only calls that ran successfully.
        group_wait_s: Seconds to wait for more records before each sync; 0 groups only those that
            arrive during the sync before.
        clock: Returns Unix time in nanoseconds.

    Raises:
        ConfigError: A given `path` is of the wrong kind, cannot be written, is locked, or is an
            existing file; with a hint.

    Example:
        >>> import tempfile
        >>> with Audit(tempfile.mkdtemp()) as audit:
        ...     audit.append({"decision": "deny", "tool_name": "run_command"})
        True
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        required: bool = False,
        rotate_bytes: int = 64 * 1024 * 1024,
        executed_only: bool = False,
        group_wait_s: float = 0.0,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.required = required
        self.executed_only = executed_only
        self._folder, self._stem = place(path)
        self._rotate_bytes = rotate_bytes
        self._group_wait_s = group_wait_s
        self._clock = clock
        self._is_closed = self._is_held = self._is_outlived = False
        self._reset(None)
        with self._lock:
            _, writer = self._begin()
            try:
                writer.open_first()
            except OSError as error:
                if path is not None and not is_transient(error):
                    is_taken = isinstance(error, (FileExistsError, BlockingIOError))
                    raise (
                        occupied(writer.path(1)) if is_taken else unusable(self._folder, error)
                    ) from error
            writer.start()
        if warning := writable_by_all(self._folder):
            _warn_once(warning)
        forks.in_child(self.start_anew_in_child, forks.Step.TRAILS)
        self._at_exit = forks.while_it_lives(self.close)
        exits.register(self._at_exit)

    def _reset(self, parent: str | None) -> None:
        """Set the state of this process; `parent` is the chain it was forked from."""
        self._lock = threading.RLock()
        self._parent = parent
        self._started: tuple[Chain, Writer] | None = None
        self._dropped = 0
        self._unsaid = 0  # records dropped since the trail last said so
        self._told: set[str] = set()  # causes of dropped records that were logged

    @property
    def failed(self) -> int:
        """Records of this process that were not on disk when their first write ended."""
        return self._dropped + (self._started[1].failed if self._started else 0)

    @property
    def spooled(self) -> int:
        """Failed records that now wait to be tried again."""
        return self._started[1].spooled if self._started else 0

    @property
    def dropped(self) -> int:
        """Failed records that could not be kept anywhere; the trail itself says so when it can."""
        return self._dropped

    @property
    def written(self) -> int:
        """Records of this process that are on disk, including those stored late."""
        return self._started[1].written if self._started else 0

    @property
    def folder(self) -> Path:
        """The folder that holds the segments."""
        return self._folder

    @property
    def segment(self) -> Path | None:
        """The file of the last record; None in a process that has not begun its chain."""
        with self._lock:
            started = self._started
            return started[1].path(started[1].state.segment) if started else None

    @property
    def chain(self) -> str:
        """Id of the chain that this process writes; empty before its first record."""
        return self._started[0].id if self._started else ""

    @property
    def head(self) -> str:
        """Hash of the last record, empty before the first.

        Kept elsewhere, it lets `verify` prove all records before it.
        """
        with self._lock:
            return self._started[1].state.head if self._started else ""

    def write(self, record: Mapping[str, Any]) -> Ticket:
        """Put a record into the trail without waiting. Never raises.

        Args:
            record: Read at once, not kept; values that JSON cannot express are stored as text.

        Returns:
            The receipt; call `wait()` on it before the call that the record is about continues.
        """
        ticket = Ticket()
        try:
            fields = encode(record)
        except Exception as error:  # an unreadable mapping must not fail its caller
            fields: Fields = []
            refused = f"it cannot be read: {type(error).__name__}"
        else:
            refused = ""
        with self._lock:
            is_late = self._is_closed and self._is_held
            reopens = self._is_closed and self._is_outlived and not is_late
            if not is_late:
                if reopens:
                    self._parent, self._started, self._is_closed = self.chain, None, False
                elif self._is_closed:
                    refused = "the trail is closed"
                refused = refused or self._put(fields, ticket)
                if refused:
                    self.drop(refused)
                    ticket.resolve(False)
        if is_late:
            threading.Event().wait()
        if reopens:
            self.close()
        return ticket

    def outlive(self) -> None:
        """Give each record that comes after the end of the trail a chain of its own.

        For calls that began before the end, and continue: none may run without its record.
        """
        self._is_outlived = True

    def hold(self) -> None:
        """Make records that come after the end of the trail wait for the end of the process.

        For a process that a signal is about to end: a call whose decision can no longer be recorded
        must not continue.
        """
        self._is_held = True

    def drop(self, reason: str) -> None:
        """Count a record that is not stored, and say so in the trail as soon as it continues.

        Args:
            reason: The cause, lower-case; logged once.
        """
        with self._lock:
            self._dropped += 1
            self._unsaid += 1
            is_told = reason in self._told
            self._told.add(reason)
        if not is_told:
            logger.error("audit record not stored: %s", reason)

    def append(self, record: Mapping[str, Any]) -> bool:
        """Put a record into the trail and wait until it is on disk. Never raises.

        Args:
            record: As for `write`.

        Returns:
            True if the record is on disk, False if the write failed.
        """
        return self.write(record).wait()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all records so far are on disk; tries failed writes again at once.

        Args:
            timeout: Longest wait in seconds; None waits until they are stored or a write fails.

        Returns:
            True if everything is on disk.
        """
        started = self._started
        return started is None or started[1].flush(timeout)

    def close(self, timeout: float | None = 5.0) -> bool:
        """Write what waits and the closing record, and give up the file. Never raises.

        Args:
            timeout: Longest wait in seconds; None waits until the writer is done.

        Returns:
            True if everything is on disk. Otherwise an error is logged that says how many records
            are not, and where they are. Closing twice does nothing.
        """
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
            if self._started is None:
                return True
            chain, writer = self._started
            if is_first:
                self._leave_lost_segment(chain, writer)
                self._say_lost(writer)
                writer.put([close(writer.state, self._clock())])
        exits.unregister(self._at_exit)
        return writer.end(timeout) if is_first else writer.flush(0)

    def __enter__(self) -> Audit:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self) -> tuple[Chain, Writer]:
        """Begin the chain of this process; with the lock held."""
        chain = Chain(self._clock(), os.getpid(), self._rotate_bytes, self._parent)
        writer = Writer(self._folder, self._stem, chain.id, self._lock, self._group_wait_s)
        writer.put([chain.open(self._clock())])
        self._started = chain, writer
        return self._started

    def _put(self, fields: Fields, ticket: Ticket) -> str:
        """Seal and queue a record, with the lock held; return why it cannot be, or nothing."""
        chain, writer = self._started or self._begin()
        if writer.queued_bytes > MAX_QUEUED_BYTES:
            return "too many records wait for the disk"
        if not writer.start():
            return "no thread can be started"
        self._leave_lost_segment(chain, writer)
        self._say_lost(writer)
        lines = chain.add(writer.state, fields, self._clock())
        ticket.seq = lines[-1].after.records - 1
        writer.put(lines, ticket)
        return ""

    def _leave_lost_segment(self, chain: Chain, writer: Writer) -> None:
        """Continue in the next segment if the file of this one was moved or deleted.

        This comes before a record is sealed, so that the next segment has its opening record first.
        """
        if writer.misses(writer.state.segment):
            writer.put([chain.go_on(writer.state, writer.lost, self._clock())])

    def _say_lost(self, writer: Writer) -> None:
        if self._unsaid:
            writer.put([lost(writer.state, self._unsaid, self._clock())])
            self._unsaid = 0

    def start_anew_in_child(self) -> None:
        """Give up what a forked child inherited; its first record begins its own chain."""
        started = self._started
        self._reset(started[0].id if started else self._parent)
        if started is not None:
            started[1].abandon()
