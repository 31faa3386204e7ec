"""Inspectors that no operation waits for: run in order on their own thread; the oldest are dropped.

Inspecting fails open: what they raise is logged, and dropped hooks are counted.
"""

from __future__ import annotations

import collections
import contextvars
import logging
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from otelhooks.hooks.drive import Raised, Run, run
from otelhooks.hooks.registry import Registration
from otelhooks.process import exits, forks
from otelhooks.records.changes import refuse_decision

if TYPE_CHECKING:
    from otelhooks.hooks.watch import Watch

__all__ = ["CAPACITY", "flush", "put"]

log: logging.Logger = logging.getLogger("otelhooks.hooks")

CAPACITY = 1_000
"""Most hooks that may wait; the oldest is dropped for the next one."""

FLUSH_S = 5.0
"""Longest wait, in seconds, for hooks to finish at the end of a session or of the process."""


class _Entry(NamedTuple):
    registration: Registration
    context: Any
    data: Any
    watch: Watch
    variables: contextvars.Context


class _Queue:
    """The queue and its thread, which starts with the first entry."""

    def __init__(self) -> None:
        self._waiting: collections.deque[_Entry | threading.Event] = collections.deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, entry: _Entry | threading.Event) -> None:
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="otelhooks-background", daemon=True
                )
                self._thread.start()
            is_full = len(self._waiting) >= CAPACITY and isinstance(entry, _Entry)
            dropped = self._make_room() if is_full else None
            self._waiting.append(entry)
            self._changed.notify()
        if dropped is not None:
            dropped.watch.hook_dropped(dropped.registration)

    def _make_room(self) -> _Entry | None:
        """Remove the oldest hook if too many wait; a caller that waits for hooks is kept."""
        hooks = [i for i, entry in enumerate(self._waiting) if isinstance(entry, _Entry)]
        if len(hooks) < CAPACITY:
            return None
        dropped = cast("_Entry", self._waiting[hooks[0]])
        del self._waiting[hooks[0]]
        return dropped

    def flush(self, timeout_s: float) -> bool:
        if self._thread is None or self._thread is threading.current_thread():
            return True
        reached = threading.Event()
        self.put(reached)
        if reached.wait(timeout_s):
            return True
        log.warning("background hooks did not finish within %g s", timeout_s)
        return False

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                entry = self._waiting.popleft()
            if isinstance(entry, threading.Event):
                entry.set()
                continue
            registration = entry.registration
            effect = Run(
                registration.call,
                entry.context,
                entry.data,
                blocking=True,
                timeout=registration.timeout,
            )
            try:
                value = entry.variables.run(run, effect)
                refuse_decision(value)
            except BaseException as error:  # stops a caller, and this thread has none
                value = Raised(error)
            if type(value) is Raised:
                entry.watch.hook_failed(registration, value.error)


_waiting = _Queue()


def put(registration: Registration, context: Any, data: Any, watch: Watch) -> None:
    """Queue an inspector, to run in the present context variables.

    Args:
        registration: The inspector.
        context: Its first argument.
        data: Its second argument.
        watch: Notified when it fails or is dropped.
    """
    _waiting.put(_Entry(registration, context, data, watch, contextvars.copy_context()))


def flush(timeout_s: float = FLUSH_S) -> bool:
    """Wait until everything queued so far has run.

    Args:
        timeout_s: Longest wait, in seconds.

    Returns:
        Whether it has.
    """
    return _waiting.flush(timeout_s)


def _after_fork() -> None:
    global _waiting
    _waiting = _Queue()  # the parent's thread did not survive the fork, and runs what was queued


exits.register(flush)
forks.in_child(_after_fork, forks.Step.THREADS)
