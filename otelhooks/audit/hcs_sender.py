"""The sender: puts the lines of an outbox on a topic, and waits when that fails."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from otelhooks.audit.hcs_topic import Unsent

if TYPE_CHECKING:
    from collections.abc import Callable

    from otelhooks.audit.hcs_outbox import Outbox, Parcel
    from otelhooks.audit.hcs_topic import Topic

logger: logging.Logger = logging.getLogger("otelhooks.audit")

PASSING = (0.5, 30.0)
"""Seconds to wait after a temporary failure; doubled each time, up to the second number."""
REFUSED = (60.0, 600.0)
"""The same after a failure that a person must fix: each attempt may cost a fee."""
LOOK_S = 2.0
"""Seconds between two checks of an idle sender for what other processes have left."""


class Sender:
    """Sends, a few messages at a time. Thread-safe.

    One thread takes messages, and each message in flight has a thread of its own: the SDK blocks.
    After a failure all wait, and then one message is tried before the others.

    Args:
        outbox: What to send.
        topic: Where to send it.
        name: Name of the topic, for logs.
        in_flight: Most messages in flight at once.
    """

    def __init__(self, outbox: Outbox, topic: Topic, name: str, in_flight: int) -> None:
        self.failed: int = 0
        """Failed attempts of this process."""
        self.is_running: bool = False
        self._outbox = outbox
        self._topic = topic
        self._name = name
        self._in_flight = in_flight
        self._state = threading.Condition()
        self._news = 0  # how often there was a reason to look for something to send
        self._empty_at = 0  # its value when everything there had been sent
        self._under_way = 0
        self._is_ending = False
        self._pause_s = 0.0  # 0: sending works
        self._retry_at = 0.0  # monotonic seconds
        self._is_trying = False  # one message tries whether it works again
        self._is_refused = False
        self._told: set[str] = set()  # causes that were logged, each once
        self._was_told = False  # whether one was logged since the last success

    def start(self) -> None:
        """Start looking for lines to send."""
        with self._state:
            self._news += 1
            self._state.notify_all()
            if not self.is_running and not self._is_ending:
                self.is_running = _start(self._run)

    def wait_for(self, seq: int, timeout: float) -> bool:
        """Wait until a record of this process is on the topic.

        Args:
            seq: Number of the record.
            timeout: Longest wait in seconds.

        Returns:
            Whether it is; False at once while the network refuses.
        """
        with self._state:
            self._state.wait_for(lambda: self._is_refused or self._outbox.has_sent(seq), timeout)
        return self._outbox.has_sent(seq)

    def flush(self, timeout: float | None) -> bool:
        """Wait until everything is sent.

        Args:
            timeout: Longest wait in seconds; None for no limit.

        Returns:
            Whether it is; False at once while the network refuses.
        """
        with self._state:
            self._news += 1
            news = self._news
            if not self._is_refused:
                self._retry_at = 0.0
            self._state.notify_all()
            self._state.wait_for(
                lambda: self._empty_at >= news or self._is_refused or not self.is_running, timeout
            )
            return self._empty_at >= news

    def end(self, timeout: float | None) -> bool:
        """Let the threads end, each after the message it has in flight.

        Args:
            timeout: Longest wait for all of them in seconds; None for no limit.

        Returns:
            Whether they have ended.
        """
        with self._state:
            self._is_ending = True
            self._state.notify_all()
            return self._state.wait_for(
                lambda: not self.is_running and not self._under_way, timeout
            )

    # The rest runs in the threads.

    def _run(self) -> None:
        while (news := self._turn()) is not None:
            parcel = self._outbox.take()
            with self._state:
                if parcel is not None:
                    self._under_way += 1
                elif news == self._news:
                    self._is_trying = False
                    if not self._under_way:
                        self._empty_at = news
                        self._state.notify_all()
                    self._state.wait(LOOK_S)
            if parcel is not None and not _start(self._send, parcel):
                self._send(parcel)
        with self._state:
            self.is_running = False
            self._state.notify_all()

    def _turn(self) -> int | None:
        """Wait until one more message may be in flight; None at the end, else what is new."""
        with self._state:
            while not self._is_ending:
                pause = self._retry_at - time.monotonic() if self._pause_s else 0.0
                if pause <= 0 and not self._is_trying and self._under_way < self._in_flight:
                    self._is_trying = bool(self._pause_s)
                    return self._news
                self._state.wait(pause if pause > 0 else None)
        return None

    def _send(self, parcel: Parcel) -> None:
        try:
            self._topic.submit(parcel.message, parcel.attempt, parcel.note)
        except Exception as error:
            self._outbox.put_back(parcel)
            is_read = isinstance(error, Unsent)
            self._failed(error if is_read else Unsent(type(error).__name__, is_passing=True))
        else:
            self._outbox.sent(parcel)
            self._succeeded()

    def _succeeded(self) -> None:
        with self._state:
            self._on_end()
            was_told, self._was_told = self._was_told, False
            self._pause_s = self._retry_at = 0.0
            self._is_trying = self._is_refused = False
        if was_told:
            logger.warning("audit records reach topic `%s` again", self._name)

    def _failed(self, unsent: Unsent) -> None:
        with self._state:
            self._on_end()
            self.failed += 1
            self._is_refused = not unsent.is_passing
            now = time.monotonic()
            if now >= self._retry_at:  # otherwise it was in flight when another one failed
                first, last = PASSING if unsent.is_passing else REFUSED
                self._pause_s = min(max(self._pause_s * 2, first), last)
                self._retry_at = now + self._pause_s
                self._is_trying = False
            if unsent.problem not in self._told:
                self._told.add(unsent.problem)
                self._was_told = True
                logger.log(  # here, so that it is logged when `flush` returns
                    logging.WARNING if unsent.is_passing else logging.ERROR,
                    "audit records do not reach topic `%s`: %s; they are kept and tried again%s",
                    self._name,
                    unsent.problem,
                    f"\nhint: {unsent.hint}" if unsent.hint else "",
                )

    def _on_end(self) -> None:
        self._under_way -= 1
        self._news += 1
        self._state.notify_all()


def _start(target: Callable[..., None], *given: object) -> bool:
    """Start a thread; False while the interpreter ends, which allows no new ones."""
    try:
        threading.Thread(target=target, args=given, name="otelhooks-hcs", daemon=True).start()
    except RuntimeError:
        return False
    return True
