"""Hand over what is queued before a signal ends the process.

The default action of SIGTERM ends a Python process at once: no `atexit` function runs. Servers that
install a handler of their own, such as uvicorn, restore the default when they have shut down and
raise the signal again, so that their parent sees how they ended. gunicorn and Celery restore it in
each child. A handler that is installed once would therefore be gone when it is needed: so
`signal.signal` itself is wrapped, and whenever the default action of one of these signals is set,
ours is set. It does what the default action does, only later.

A program does not see this: `signal.signal` and `signal.getsignal` return ``SIG_DFL`` for it.
Signals that are ignored, or handled by the program itself, stay as they are.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["SIGNALS", "restore", "watch"]

_log = logging.getLogger("otelhooks")

SIGNALS: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
)
"""Signals that end a process by default and that supervisors send to end one."""

_SOON_S = 0.5
"""Seconds in which the work is done, unless the main thread or a collector delays it."""

_set, _get = signal.signal, signal.getsignal


class _Ending:
    """One exit of the process, begun by the first signal.

    A thread does the work: the main thread may have been interrupted while it held a lock that the
    work needs. If the work is not done soon, the main thread continues, which releases such a lock;
    the signal is raised again when the work is done or the time is over.
    """

    def __init__(self, number: int, end: Callable[[], object], timeout_s: float) -> None:
        self.pid = os.getpid()
        self.is_over = threading.Event()
        self._number = number
        self._end = end
        self._deadline = time.monotonic() + timeout_s
        self._soon_s = min(timeout_s / 2, _SOON_S)
        self._main_goes_on = False

    def begin(self) -> None:
        """Start the work, and wait a little for its end.

        Raises:
            RuntimeError: The interpreter is already exiting; its exit functions do the work.
        """
        work = threading.Thread(target=self._end, name="otelhooks-end", daemon=True)
        work.start()
        threading.Thread(target=self._watch, args=(work,), daemon=True).start()
        self._main_goes_on = not self.is_over.wait(self._soon_s)

    def _watch(self, work: threading.Thread) -> None:
        work.join(max(0.0, self._deadline - time.monotonic()))
        if work.is_alive():
            _log.warning("not all telemetry was handed over before the signal ends the process")
        self.is_over.set()
        if self._main_goes_on:
            os.kill(self.pid, self._number)


class _Watch:
    """What is done at a signal, and with which settings.

    Args:
        end: Sends everything and closes it.
        flush: Sends everything; what is open stays open.
        timeout_s: Seconds that either may take.
    """

    def __init__(
        self, end: Callable[[], object], flush: Callable[[], object], timeout_s: float
    ) -> None:
        self._end = end
        self._flush = flush
        self._timeout_s = timeout_s
        self._ending: _Ending | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; called by the interpreter, in the main thread."""
        ending = self._ending
        if ending is not None and ending.pid == os.getpid():
            # A supervisor and a service manager may each send one: the first is being handled.
            if ending.is_over.is_set():
                self._default(number)
            return
        # The kernel ignores the default action for the first process of a container: it continues,
        # so nothing may be closed.
        is_init = os.getpid() == 1
        ending = _Ending(number, self._flush if is_init else self._end, self._timeout_s)
        self._ending = ending
        try:
            ending.begin()
        except RuntimeError:
            _set(number, signal.SIG_DFL)
            return
        if ending.is_over.is_set():
            self._default(number)

    def _default(self, number: int) -> None:
        _set(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        if os.getpid() == 1:
            self._ending = None
            _set(number, self)


_watching: _Watch | None = None


def watch(end: Callable[[], object], flush: Callable[[], object], timeout_s: float) -> None:
    """Send everything before one of `SIGNALS` ends this process, or one that it forks.

    Without effect if the time is 0. Handlers can only be installed from the main thread; called
    from another thread, they are installed when the main thread next sets a default handler.

    Args:
        end: Sends everything and closes it; may be called twice.
        flush: Sends everything, if the process continues afterwards.
        timeout_s: Seconds that either may take; then the signal does what it does without us.
    """
    global _watching
    restore()
    if timeout_s <= 0:
        return
    _watching = _Watch(end, flush, timeout_s)
    signal.signal, signal.getsignal = _signal, _getsignal
    try:
        for number in SIGNALS:
            if _get(number) is signal.SIG_DFL and not _is_caught(number):
                _set(number, _watching)
    except ValueError:
        _log.info(
            "what is queued is lost if a signal ends the process: `otelhooks.instrument()` was not "
            "called in the main thread"
        )


def _is_caught(number: int) -> bool:
    """Return whether the process has a handler that Python does not know of.

    `faulthandler.register` and servers in C set theirs below Python, which then still reports
    ``SIG_DFL``. Only detected on Linux. Source: proc_pid_status(5), ``SigCgt``.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            caught = next(line for line in status if line.startswith("SigCgt:"))
    except (OSError, StopIteration):
        return False
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def restore() -> None:
    """Restore handlers and functions."""
    global _watching
    if _watching is None:
        return
    if signal.signal is _signal:
        signal.signal = _set
    if signal.getsignal is _getsignal:
        signal.getsignal = _get
    watching, _watching = _watching, None
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if _get(number) is watching:
                _set(number, signal.SIG_DFL)


@functools.wraps(_set)
def _signal(signalnum: Any, handler: Any) -> Any:
    if _watching is not None and handler == signal.SIG_DFL and signalnum in SIGNALS:
        handler = _watching
    return _as_seen(_set(signalnum, handler))


@functools.wraps(_get)
def _getsignal(signalnum: Any) -> Any:
    return _as_seen(_get(signalnum))


def _as_seen(handler: Any) -> Any:
    return signal.SIG_DFL if type(handler) is _Watch else handler
