"""The sender: threads that put what lies in an outbox on a topic, and wait when that fails."""

from __future__ import annotations

import functools
import logging
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from otelhooks.audit.hcs_topic import Unsent
from otelhooks.audit.ticket import Ticket

if TYPE_CHECKING:
    from otelhooks.audit.hcs_outbox import Outbox, Parcel
    from otelhooks.audit.hcs_topic import Topic

logger: logging.Logger = logging.getLogger("otelhooks.audit")


class Pauses(NamedTuple):
    """Seconds to wait after failures; each pause is twice the one before, up to the last."""

    first: float
    last: float


PASSING = Pauses(0.5, 30.0)
"""After what may pass by itself."""
REFUSED = Pauses(60.0, 600.0)
"""After what somebody has to put right: a try may cost a fee."""
LOOK_S = 2.0
"""How often an idle sender looks for what other processes have left."""


class Sender:
    """Sends, a few messages at a time. Thread-safe; has as many threads as it has needed so far.

    After a failure all wait, and then one message is tried before the others.

    Args:
        outbox: What to send.
        topic: Where to.
        name: Of the topic, for logs.
        in_flight: How many messages are under way at once.
    """

    def __init__(self, outbox: Outbox, topic: Topic, name: str, in_flight: int) -> None:
        self.failed: int = 0
        """Tries of this process that failed."""
        self._outbox = outbox
        self._topic = topic
        self._name = name
        self._in_flight = in_flight
        self._lock = threading.RLock()
        self._state = threading.Condition(self._lock)
        self._idle = threading.Condition(self._lock)
        self._news = 0  # how often somebody said that there is something to send
        self._threads: list[threading.Thread] = []
        self._is_ending = False
        self._waiting = 0  # how many threads have nothing to do
        self._is_looking = False  # one of them looks for news, the others wait for it
        self._is_trying = False  # one thread tries whether it works again
        self._retry_at: float | None = None  # monotonic seconds; None: sending works
        self._pause_s = 0.0
        self._is_refused = False
        self._told: set[str] = set()  # causes that were logged, each once
        self._was_told = False  # whether one was since the last success
        self._expected: dict[str, Ticket] = {}

    def start(self) -> None:
        """See that a thread runs, and looks for something to send."""
        with self._lock:
            self._news += 1
            self._add_thread()

    def _add_thread(self) -> None:
        """Set one more thread to work; with the lock held."""
        if self._waiting:
            self._idle.notify()
        elif len(self._threads) < self._in_flight and not self._is_ending:
            thread = threading.Thread(target=self._run, name="otelhooks-hcs", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # a dying interpreter: the records stay in the spool
                return
            self._threads.append(thread)

    def expect(self, record_hash: str) -> Ticket:
        """Return a receipt for a record's being on the topic; settled at once if it cannot be."""
        ticket = Ticket()
        with self._lock:
            if self._is_refused:
                ticket.settle(False)
            else:
                self._expected[record_hash] = ticket
        return ticket

    def forget(self, record_hash: str) -> None:
        """Nobody waits for that record any more."""
        with self._lock:
            self._expected.pop(record_hash, None)

    def flush(self, timeout: float | None) -> bool:
        """Wait until everything is sent.

        Args:
            timeout: Longest wait in seconds; None for no limit.

        Returns:
            Whether it is; False at once while the network refuses.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            if self._retry_at is not None and not self._is_refused:
                self._retry_at = 0.0
            self._state.notify_all()
            self._idle.notify()
            while not self._outbox.is_empty:
                rest = LOOK_S if deadline is None else deadline - time.monotonic()
                if rest <= 0 or self._is_refused or not self._threads:
                    return False
                self._state.wait(min(rest, LOOK_S))
        return True

    def end(self, timeout: float | None) -> bool:
        """Let the threads end, each after what it has under way.

        Args:
            timeout: Longest wait for all of them in seconds; None for no limit.

        Returns:
            Whether they have ended.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._is_ending = True
            self._state.notify_all()
            self._idle.notify_all()
        for thread in self._threads:
            thread.join(None if deadline is None else max(deadline - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    # What follows runs in the threads.

    def _run(self) -> None:
        while self._may_go_on():
            news, parcel = self._news, None
            try:
                parcel = self._outbox.take()
                if parcel is not None:
                    self._send(parcel)
            except Exception as error:
                if parcel is not None:
                    self._outbox.put_back(parcel)
                self._on_failure(error)
            else:
                if parcel is None:
                    self._wait_for_news(news)

    def _send(self, parcel: Parcel) -> None:
        with self._lock:
            self._add_thread()  # where one is, there may be more
        note = functools.partial(self._outbox.note, parcel)
        self._topic.submit(parcel.message, parcel.attempt, note)
        self._outbox.sent(parcel)
        self._on_sent(parcel)

    def _may_go_on(self) -> bool:
        """Wait out a pause; False at the end."""
        with self._lock:
            while not self._is_ending:
                if self._retry_at is None:
                    return True
                pause = self._retry_at - time.monotonic()
                if pause <= 0 and not self._is_trying:
                    self._is_trying = True
                    return True
                self._state.wait(None if self._is_trying else pause)
        return False

    def _wait_for_news(self, news: int) -> None:
        with self._lock:
            self._is_trying = False
            self._state.notify_all()  # whoever flushes may find all done
            if self._is_ending or self._news != news:
                return
            self._waiting += 1
            if self._is_looking:
                self._idle.wait()
            else:
                self._is_looking = True
                self._idle.wait(LOOK_S)
                self._is_looking = False
            self._waiting -= 1

    def _on_sent(self, parcel: Parcel) -> None:
        with self._lock:
            ticket = self._expected.pop(parcel.hash, None)
            was_told, self._was_told = self._was_told, False
            self._retry_at, self._pause_s = None, 0.0
            self._is_trying = self._is_refused = False
            self._state.notify_all()
        if ticket is not None:
            ticket.settle(True)
        if was_told:
            logger.warning("audit records reach topic `%s` again", self._name)

    def _on_failure(self, error: Exception) -> None:
        unsent = error if isinstance(error, Unsent) else None
        problem = unsent.problem if unsent is not None else type(error).__name__
        is_passing = unsent is None or unsent.is_passing
        pauses = PASSING if is_passing else REFUSED
        with self._lock:
            self.failed += 1
            if problem not in self._told:
                self._told.add(problem)
                self._was_told = True
                self._tell(problem, unsent.hint if unsent is not None else "", is_passing)
            self._is_refused = not is_passing
            now = time.monotonic()
            if self._retry_at is None or now >= self._retry_at:  # else one of several under way
                self._is_trying = False
                self._pause_s = min(max(self._pause_s * 2, pauses.first), pauses.last)
                self._retry_at = now + self._pause_s
            given_up = list(self._expected.values()) if self._is_refused else []
            if given_up:
                self._expected.clear()
            self._state.notify_all()
        for ticket in given_up:
            ticket.settle(False)

    def _tell(self, problem: str, hint: str, is_passing: bool) -> None:
        logger.log(
            logging.WARNING if is_passing else logging.ERROR,
            "audit records do not reach topic `%s`: %s; they are kept and tried again%s",
            self._name,
            problem,
            f"\nhint: {hint}" if hint else "",
        )
