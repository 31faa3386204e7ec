"""The spool: a folder in which the records of one topic wait, on disk, until they are sent.

Each process that records writes a trail of its own there, which `otelhooks.audit.hcs_outbox` reads
and `otelhooks.audit.hcs_sender` empties to the topic.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from otelhooks.audit.hcs_outbox import Outbox
from otelhooks.audit.hcs_sender import Sender
from otelhooks.audit.trail import Audit
from otelhooks.errors import ConfigError
from otelhooks.process import exits
from otelhooks.telemetry import semconv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otelhooks.audit.hcs_client import Clients
    from otelhooks.audit.hcs_topic import Topic
    from otelhooks.audit.ticket import Ticket
    from otelhooks.hooks.recorders import Receipt

logger: logging.Logger = logging.getLogger("otelhooks.audit")

LOOK_S = 1.0
"""How often it is looked up how much lies in the folder."""
EXIT_S = 5.0
"""How long the exit of the interpreter waits for records to be sent."""
_SEGMENT_BYTES = 4 * 1024 * 1024
_REFUSED = (
    semconv.ENFORCEMENT_BLOCKED,
    semconv.ENFORCEMENT_REJECTED,
    semconv.ENFORCEMENT_EXPIRED,
)


class Spool:
    """Takes records, and sees that they reach their topic. Thread-safe.

    What waits at the exit of the interpreter is sent, as far as it can be; a forked child starts a
    trail of its own, and leaves to its parent what its parent wrote.

    Args:
        folder: Where records wait; made if it is not there.
        topic: Where they go.
        topic_id: Its name, for logs.
        clients: Whom the topic has its client from.
        max_bytes: How much may wait in the folder; beyond it, records are dropped and counted.
        in_flight: How many records are on their way at once.
        timeout_s: Longest wait for a record that has to be on the topic, in seconds.

    Raises:
        ConfigError: The folder cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        topic: Topic,
        topic_id: str,
        clients: Clients,
        *,
        max_bytes: int,
        in_flight: int,
        timeout_s: float,
    ) -> None:
        self._folder = folder
        self._topic = topic
        self._topic_id = topic_id
        self._clients = clients
        self._max_bytes = max_bytes
        self._in_flight = in_flight
        self._timeout_s = timeout_s
        self._pid = os.getpid()
        self._trail = Audit(folder, rotate_bytes=min(_SEGMENT_BYTES, max_bytes // 8))
        self._begin()
        if clients.is_known:
            self.send()
        _live.add(self)
        self._at_exit = functools.partial(_close, weakref.ref(self))
        exits.register(self._at_exit)

    def _begin(self) -> None:
        """Set what each process has for itself."""
        self._lock = threading.Lock()
        self._taken = 0  # records, those that were dropped too
        self._is_given_away = False
        self._bytes = 0
        self._looked_at = float("-inf")
        self._outbox = Outbox(self._folder)
        self._sender = Sender(self._outbox, self._topic, self._topic_id, self._in_flight)

    @property
    def sent(self) -> int:
        """Records that this process has put on the topic, those of earlier ones included."""
        return self._outbox.records_sent

    @property
    def failed(self) -> int:
        """Tries of this process to put a record on the topic that failed."""
        return self._sender.failed

    @property
    def dropped(self) -> int:
        """Records of this process that could be kept nowhere; the topic itself says so."""
        return self._trail.dropped

    @property
    def waiting(self) -> int:
        """Records of this process that are not known to be on the topic yet."""
        return self._taken - self._trail.dropped - self._outbox.own_sent

    def put(self, record: Callable[[], Mapping[str, Any]], is_required: bool) -> Receipt:
        """Take a record, without waiting.

        Args:
            record: Returns it as it is to be told: masked, and not too large. A record that cannot
                be read is dropped and counted.
            is_required: Whether the receipt waits for the topic too, not for the disk only.
        """
        with self._lock:
            self._taken += 1
        try:
            told = record()
        except Exception as error:  # a value that cannot be read; its call must not fail
            self._trail.drop(f"it cannot be read: {type(error).__name__}")
            return _Receipt(self, None, "", None)
        # A call that is refused anyway, or is over, waits for nobody.
        is_waiting = told.get("enforcement") not in _REFUSED and "outcome" not in told
        with self._lock:
            if self._is_full():
                self._trail.drop(f"the spool `{self._folder}` is full")
                return _Receipt(self, None, "", None)
            before = self._trail.head
            ticket = self._trail.write(told)
            record_hash = self._trail.head
            is_expected = is_required and is_waiting and record_hash != before
            on_topic = self._sender.expect(record_hash) if is_expected else None
        return _Receipt(self, ticket, record_hash, on_topic)

    def send(self) -> None:
        """See that what is on disk is sent; a process that has no client leaves it to others."""
        if not self._outbox.own:
            self._outbox.own = self._trail.chain
        if self._clients.is_known or os.getpid() == self._pid:
            self._sender.start()
        elif not self._is_given_away:
            self._is_given_away = True
            self._outbox.give_away()
            logger.warning(
                "audit records for topic `%s` wait for the parent process: this one was forked, and"
                " has no client\nhint: give a function that returns a client as `logging_client`",
                self._topic_id,
            )

    def wait_for(self, ticket: Ticket, record_hash: str, on_topic: Ticket | None) -> bool:
        """Wait for one record; see `_Receipt`."""
        is_kept = ticket.wait()
        self.send()
        if on_topic is None:
            return is_kept
        is_there = is_kept and on_topic.wait(self._timeout_s)
        if not is_there:
            self._sender.forget(record_hash)
        return is_there

    def flush(self, timeout: float | None) -> bool:
        """Wait until all records of this process are on the topic.

        Args:
            timeout: Longest wait in seconds; None for no limit.

        Returns:
            Whether they are; False at once while the network refuses them.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        return self._trail.flush(timeout) and self._sender.flush(_left(deadline))

    def close(self, timeout: float | None) -> bool:
        """Send what waits, and end. What is left stays in the folder, for the next start.

        Args:
            timeout: Longest wait in seconds; None for no limit.

        Returns:
            Whether everything is on the topic.
        """
        exits.unregister(self._at_exit)
        deadline = None if timeout is None else time.monotonic() + timeout
        is_written = self._trail.close(timeout)
        is_sent = self._sender.flush(_left(deadline))
        if self._sender.end(_left(deadline)):
            self._outbox.close()
        return is_written and is_sent

    def _is_full(self) -> bool:
        """Say whether too much waits in the folder; looked up now and then."""
        now = time.monotonic()
        if now - self._looked_at > LOOK_S:
            self._looked_at = now
            self._bytes = _size_of(self._folder)
        return self._bytes > self._max_bytes

    def start_anew_in_child(self) -> None:
        """Give up what a forked child inherited: its parent sends what its parent wrote."""
        self._outbox.close()
        self._clients.start_anew_in_child()
        self._begin()


class _Receipt:
    """Waits until a record is on disk and, where that is required, on its topic."""

    __slots__ = ("_hash", "_on_topic", "_spool", "_ticket")

    def __init__(
        self, spool: Spool, ticket: Ticket | None, record_hash: str, on_topic: Ticket | None
    ) -> None:
        self._spool = spool
        self._ticket = ticket
        self._hash = record_hash
        self._on_topic = on_topic

    def wait(self) -> bool:
        if self._ticket is None:
            return False
        return self._spool.wait_for(self._ticket, self._hash, self._on_topic)


def folder_of(given: str | os.PathLike[str] | None, topic_id: str) -> Path:
    """Return where the records of a topic wait.

    Args:
        given: A folder; None for one in the user's data folder.
        topic_id: A topic id that was checked.

    Raises:
        ConfigError: It names a file.
    """
    if given is None:
        import platformdirs

        return platformdirs.user_data_path("otelhooks", appauthor=False) / "hcs" / topic_id
    folder = Path(given).expanduser().absolute()
    if folder.suffix == ".jsonl":
        raise ConfigError(f"`spool` is a file name: `{folder}`", hint="give a folder")
    return folder


def _size_of(folder: Path) -> int:
    total = 0
    try:
        for entry in os.scandir(folder):
            total += entry.stat().st_size
    except OSError:
        pass  # a file that was just sent and deleted; a disk that does not work says so elsewhere
    return total


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)


_live: WeakSet[Spool] = WeakSet()


def _close(spool: weakref.ref[Spool]) -> None:
    living = spool()
    if living is not None:
        living.close(EXIT_S)


def _start_anew_in_child() -> None:
    for spool in list(_live):
        spool.start_anew_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew_in_child)
