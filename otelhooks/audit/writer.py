"""The writer of the audit trail: one thread, one sync per group, and what it does on failure."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from otelhooks.audit.chain import Line, State, parse_file_name, segment_name, spool_name
from otelhooks.audit.segment import Segment, SegmentGoneError, Spool, cause, hint
from otelhooks.plain_text import counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otelhooks.audit.ticket import Ticket

logger: logging.Logger = logging.getLogger("otelhooks.audit")

MAX_GROUP = 1024
"""Most lines that are written and synced together."""
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0
"""Pause after the first failed write, doubled after each further one up to the second number."""

_GONE = (
    "audit segment `%s` was moved or deleted while it was written; the trail continues in `%s`\n"
    "hint: if it was moved, put it back, and leave segments alone until their process ends or "
    "begins the next one"
)
_TAKEN = (
    "the name of audit segment `%s` is taken; the trail continues in `%s`\n"
    "hint: find out what made that file"
)


class _Queued:
    """A sealed line on its way to the disk."""

    __slots__ = ("has_failed", "line", "ticket")

    def __init__(self, line: Line, ticket: Ticket | None) -> None:
        self.line = line
        self.ticket = ticket  # None for the trail's own records, which have no receipt
        self.has_failed = False


class Writer:
    """Brings the lines of one chain to disk, in order.

    A record that could not be written stays at the head of the queue. It is tried again before
    anything newer, after a growing pause.

    Args:
        folder: Folder of the segments.
        stem: Beginning of their names.
        chain: Id of the chain.
        lock: Guards the queue and the counts; its owner holds it while it calls `put`.
        group_wait_s: Seconds to wait for more lines before each sync.
    """

    def __init__(
        self, folder: Path, stem: str, chain: str, lock: threading.RLock, group_wait_s: float
    ) -> None:
        self.failed: int = 0
        """Records that were not on disk when their first write ended."""
        self.spooled: int = 0
        """Failed records that now wait to be tried again."""
        self.written: int = 0
        """Records on disk, including those stored late."""
        self.lost: int = 0
        """Number of the newest segment whose file was moved or deleted; 0 for none."""
        self.spool: Spool = Spool(folder / spool_name(stem, chain))
        self._folder = folder
        self._stem = stem
        self._chain = chain
        self._group_wait_s = group_wait_s
        self._lock = lock
        self._work = threading.Condition(lock)
        self._progress = threading.Condition(lock)
        self._queue: deque[_Queued] = deque()
        self._stored = 0  # lines ever stored
        self._on_disk = State()
        self._kept = 0  # how many of the first queued lines are in the spool file
        self._segment: Segment | None = None
        self._thread: threading.Thread | None = None
        self._is_ending = False
        self._retry_at: float | None = None  # monotonic seconds; None: writing works
        self._retry_s = FIRST_RETRY_S
        self._attempts_failed = 0
        self._spool_tried_at = 0  # value of `_attempts_failed` when the spool was last tried
        self._is_spool_broken = False
        self._late = 0  # failed records stored since writing works again
        self._told: set[str] = set()

    def path(self, number: int) -> Path:
        """Return the file of a segment, by its number from 1."""
        return self._folder / segment_name(self._stem, self._chain, number)

    def open_first(self) -> None:
        """Create the first segment now, so that its errors reach the caller.

        Raises:
            OSError: It cannot be created; the thread then tries again.
        """
        self._segment = Segment(self.path(1))

    @property
    def state(self) -> State:
        """The chain with all lines that were queued; with the lock held."""
        return self._queue[-1].line.after if self._queue else self._on_disk

    @property
    def queued_bytes(self) -> int:
        """How many bytes wait; with the lock held."""
        return self.state.total - self._on_disk.total

    def put(self, lines: list[Line], ticket: Ticket | None = None) -> None:
        """Queue lines in one step, the last with a receipt if there is one; with the lock held.

        How far the chain is follows from the queue alone.
        """
        queued = [_Queued(line, None) for line in lines]
        queued[-1].ticket = ticket
        self._queue.extend(queued)
        if self._retry_at is not None:  # do not wait for a disk that is known not to work
            self._fail(queued[-1])
        self._wake()

    def misses(self, number: int) -> bool:
        """Return whether the newest segment has lost its file; with the lock held.

        What waits for that segment, or comes before the next attempt, counts as failed.

        Args:
            number: Of the newest segment, from 1.
        """
        segment = self._segment
        if number > self.lost and segment is not None and segment.path == self.path(number):
            try:
                if segment.is_gone():
                    self._on_failure(SegmentGoneError(segment.path))
            except OSError:
                pass  # the folder cannot be read: the next write fails for the same cause
        return number <= self.lost

    def start(self) -> bool:
        """Start the thread unless it runs; with the lock held.

        Returns:
            False if it cannot be started because the interpreter is ending.
        """
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="otelhooks-audit", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def flush(self, timeout: float | None) -> bool:
        """Wait until all lines so far are on disk; see `Audit.flush`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            target, attempts = self._stored + len(self._queue), self._attempts_failed
            self._retry_now()
            while self._stored < target and self._attempts_failed == attempts:
                rest = None if deadline is None else deadline - time.monotonic()
                if rest is not None and rest <= 0:
                    return False
                if self._thread is None or not self._thread.is_alive():
                    return False
                self._progress.wait(rest)
            return self._stored >= target

    def end(self, timeout: float | None) -> bool:
        """Write what waits, with one last attempt if writing does not work, and give up the file.

        Args:
            timeout: Longest wait in seconds; None waits until the thread is done.

        Returns:
            True if everything is on disk; otherwise an error is logged.
        """
        with self._lock:
            self._is_ending = True
            self._retry_now()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        with self._lock:
            waiting = [queued.ticket is not None for queued in self._queue]  # not those of its own
            is_complete = not waiting
            kept = sum(waiting[: self._kept])
        if count := sum(waiting):
            where = [f"{kept} kept in `{self.spool.path}`"] if kept else []
            where += [f"{count - kept} lost"] if kept < count else []
            what = ", ".join(where)
            logger.error("audit trail closed with %d records not stored: %s", count, what)
        elif not is_complete:
            logger.error("audit trail `%s` closed without its closing record", self._folder)
        return is_complete

    def abandon(self) -> None:
        """Give up what a forked child inherited: the parent writes it, and keeps the lock."""
        if self._segment is not None:
            self._segment.close()
        for queued in self._queue:
            if queued.ticket is not None:
                queued.ticket.resolve(False)

    def _tell(self, key: str, message: str, *args: object) -> None:
        """Log an error once per cause, until writing works again."""
        if key not in self._told:
            self._told.add(key)
            logger.error(message, *args)

    def _retry_now(self) -> None:
        if self._retry_at is not None:
            self._retry_at = 0.0
        self._wake()

    def _wake(self) -> None:
        """Wake the thread; with the lock held.

        There is one thread, but a signal handler that raises in `notify` leaves an entry in the
        list of waiters, which the next `notify` would wake instead of the thread.
        """
        self._work.notify_all()

    def _fail(self, queued: _Queued) -> None:
        if queued.ticket is not None and not queued.has_failed:
            queued.has_failed = True
            self.failed += 1
            self.spooled += 1
            queued.ticket.resolve(False)

    # The rest runs in the thread.

    def _run(self) -> None:
        with self._lock:
            if self._thread not in (None, threading.current_thread()):
                return  # an exception came when it was just started, and another one was
            self._thread = threading.current_thread()
        while (step := self._next_step()) is not None:
            try:
                step()
            except Exception as error:  # a failed write, whatever its cause, is tried again
                self._on_failure(error)
        if self._segment is not None:
            self._segment.close()

    def _next_step(self) -> Callable[[], None] | None:
        with self._lock:
            while True:
                pause = None if self._retry_at is None else self._retry_at - time.monotonic()
                is_due = bool(self._queue) and (pause is None or pause <= 0)
                # After a failed write the spool comes first, then the next attempt: new records
                # must not delay that forever.
                is_kept = self._spool_tried_at == self._attempts_failed
                if pause is not None and not (is_due and is_kept) and self._is_spool_due():
                    return self._keep
                if is_due:
                    return self._store
                if self._is_ending:
                    return None
                self._work.wait(pause)

    def _store(self) -> None:
        if self._group_wait_s and self._retry_at is None and not self._is_ending:
            time.sleep(self._group_wait_s)
        with self._lock:
            number = self._queue[0].line.segment
            same = takewhile(lambda queued: queued.line.segment == number, self._queue)
            group = list(islice(same, MAX_GROUP))
        path = self.path(number)
        segment = self._segment
        if segment is None or segment.path != path:
            left = segment
            try:
                self._segment = segment = Segment(path)
            except FileExistsError:
                if not os.path.lexists(path):
                    raise  # a file is where the folder should be
                return self._leave_segment(path, _TAKEN)
            if left is not None:
                left.close()  # only now: a chain without a lock looks like that of a dead process
        segment.append(b"".join(queued.line.data for queued in group))
        self._on_stored(len(group))

    def _on_stored(self, count: int) -> None:
        with self._lock:
            for _ in range(count):
                queued = self._queue.popleft()
                self._on_disk = queued.line.after
                if queued.ticket is not None:
                    self.written += 1
                    if queued.has_failed:
                        self.spooled -= 1
                        self._late += 1
                    queued.ticket.resolve(True)
            self._stored += count
            self._kept = max(self._kept - count, 0)
            self._retry_at = None
            self._retry_s = FIRST_RETRY_S
            late, is_whole = self._late, not self.spooled
            if is_whole:
                self._late = 0
            is_spool_done = not self._kept
            self._progress.notify_all()
        if late and is_whole:
            self._told.clear()
            logger.warning(
                "audit trail `%s` can be written again: %s stored late",
                self._folder,
                counted(late, "record"),
            )
        if is_spool_done:
            try:
                self.spool.clear()
            except OSError as error:
                self._tell(
                    "clear", "audit spool `%s` not deleted: %s", self.spool.path, cause(error)
                )

    def _on_failure(self, error: Exception) -> None:
        with self._lock:
            for queued in self._queue:
                self._fail(queued)
            self._attempts_failed += 1
            is_lost = isinstance(error, SegmentGoneError)  # which is not in the way of the next one
            self._retry_at = 0.0 if is_lost else time.monotonic() + self._retry_s
            self._retry_s = min(self._retry_s * 2, LAST_RETRY_S)
            self._progress.notify_all()
        if isinstance(error, SegmentGoneError):
            self._leave_segment(error.path, _GONE)
        else:
            self._tell(
                f"write: {cause(error)}",
                "audit trail `%s` cannot be written: %s; records are kept and tried again\n"
                "hint: %s",
                self._folder,
                cause(error),
                hint(error),
            )

    def _leave_segment(self, path: Path, problem: str) -> None:
        """Bring what waits for a lost segment into the next one, so that no name is used twice."""
        name = parse_file_name(path.name)
        assert name is not None, "the writer names its segments itself"
        with self._lock:
            self.lost = max(self.lost, name.number)
            for queued in self._queue:
                if queued.line.segment == name.number:
                    queued.line = queued.line._replace(segment=name.number + 1)
        self._tell(f"lost: {path}", problem, path, self.path(name.number + 1).name)

    def _is_spool_due(self) -> bool:
        is_hopeless = self._is_spool_broken and self._spool_tried_at == self._attempts_failed
        return len(self._queue) > self._kept and not is_hopeless

    def _keep(self) -> None:
        """Put the waiting lines into the spool file too, in case the process dies first."""
        with self._lock:
            lines = [queued.line.data for queued in islice(self._queue, self._kept, None)]
            self._spool_tried_at = self._attempts_failed
            self._is_spool_broken = True
        try:
            self.spool.append(lines)
        except OSError as error:
            self._tell(
                f"spool: {cause(error)}",
                "audit spool `%s` cannot be written either: %s; records are in memory only",
                self.spool.path,
                cause(error),
            )
        else:
            with self._lock:
                self._kept += len(lines)
                self._is_spool_broken = False
