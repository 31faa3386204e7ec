"""What is done before a process ends, whichever way it exits.

For most processes, `atexit` is enough. A forked child of multiprocessing exits by `os._exit`, once
its finalizers have run; a child of Celery's prefork pool exits by `os._exit` too, and sends a
signal before that. Functions that are registered here are called in each of these cases.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from otelhooks.process import forks
from otelhooks.records.failures import outline

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["end", "register", "unregister"]

log: logging.Logger = logging.getLogger("otelhooks")

_LAST = -100
"""Priority among the finalizers of multiprocessing: those of other code run first."""

_functions: dict[Callable[[], object], None] = {}
_heard: set[str] = set()  # whose children are reported, besides those of `atexit`
_finalized = 0  # process that has a finalizer


def register(function: Callable[[], object]) -> None:
    """Run a function when this process exits, and when any process forked from it exits.

    Args:
        function: Functions run in reverse order of registration; registering it again moves it to
            the front. May be called twice.
    """
    unregister(function)
    _functions[function] = None
    atexit.register(function)
    _listen()
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        _finalize()


def unregister(function: Callable[[], object]) -> None:
    """Unregister a function; does nothing if it is not registered."""
    _functions.pop(function, None)
    atexit.unregister(function)


def _listen() -> None:
    """Watch for children that `atexit` does not cover, of imported libraries that create any."""
    after_fork: Any = getattr(sys.modules.get("multiprocessing.util"), "register_after_fork", None)
    if after_fork is not None and "multiprocessing" not in _heard:
        _heard.add("multiprocessing")
        # Called after the functions of `os.register_at_fork`, because it clears its finalizers.
        after_fork(_finalize, _finalize)
    signals = sys.modules.get("celery.signals")
    ending: Any = getattr(signals, "worker_process_shutdown", None)
    if ending is not None and "celery" not in _heard:
        _heard.add("celery")
        ending.connect(_end_of_celery, weak=False)


def _end_of_celery(**_: object) -> None:
    """End a child of Celery's pool, which tells its parent next, and exits a second later.

    The parent ends it by SIGTERM once it has read that, maybe before the child has released the
    lock of the queue: all others would wait for it forever. billiard 4.3 blocks the signal for this
    reason, but in the main thread only, and a child that is observed has more.
    """
    end()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _finalize(*_: object) -> None:
    """Add a finalizer to this child, unless it is spawned: spawned ones exit by `sys.exit`."""
    global _finalized
    multiprocessing: Any = sys.modules["multiprocessing"]
    if _finalized == os.getpid() or multiprocessing.get_start_method(allow_none=True) == "spawn":
        return
    _finalized = os.getpid()
    sys.modules["multiprocessing.util"].Finalize(None, end, exitpriority=_LAST)


def end(*_args: object, **_kwargs: object) -> None:
    """Call every registered function once; an error in one does not stop the others."""
    while _functions:
        function, _ = _functions.popitem()
        try:
            function()
        except Exception as error:
            log.error("something could not be shut down: %s", outline(error))


forks.before(_listen)
