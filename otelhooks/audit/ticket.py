"""The receipt for a record."""

from __future__ import annotations

import threading


class Ticket:
    """Reports whether a record has reached the disk. Several threads may wait for it."""

    __slots__ = ("_is_resolved", "_is_stored", "_resolved", "seq")

    def __init__(self) -> None:
        self.seq: int = -1
        """Number of the record in its chain, from 0; -1 if it was refused."""
        # A bare lock, held until the outcome is known: a tenth of an Event's cost.
        self._resolved = threading.Lock()
        self._resolved.acquire()
        self._is_resolved = False
        self._is_stored = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the record is on disk, synced.

        Args:
            timeout: Longest wait in seconds; None waits until the outcome is known.

        Returns:
            True if the record is on disk in its segment. False if the write failed (the record is
            kept and tried again, but was not on disk when the caller wanted to continue), or if the
            time was up.
        """
        if not self._is_resolved:
            if not self._resolved.acquire(timeout=-1 if timeout is None else max(timeout, 0.0)):
                return False
            self._resolved.release()
        return self._is_stored

    def resolve(self, is_stored: bool) -> None:
        """Set the outcome; only the first call counts. For the trail, not for its callers."""
        if not self._is_resolved:
            self._is_stored = is_stored
            self._is_resolved = True
            self._resolved.release()
