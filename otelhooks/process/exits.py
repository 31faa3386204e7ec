"""What is done before a process ends, whichever way it leaves.

For most, `atexit` is enough. A forked child of multiprocessing leaves by `os._exit`, once its
finalizers have run; a child of Celery's prefork pool leaves by `os._exit` too, and sends a signal
before that. What is registered here is called in each of them.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from otelhooks.process import forks
from otelhooks.records.failures import outline

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["end", "register", "unregister"]

log: logging.Logger = logging.getLogger("otelhooks")

_LAST = -100
"""Priority among the finalizers of multiprocessing: other people's work comes before."""

_functions: dict[Callable[[], object], None] = {}
_heard: set[str] = set()  # whose children are heard of, beside those that `atexit` knows
_finalized = 0  # process that has a finalizer


def register(function: Callable[[], object]) -> None:
    """Have a function called before this process ends, and before each does that it forks.

    Args:
        function: The last to be registered is the first to be called; again, to be the last. May
            be called twice.
    """
    unregister(function)
    _functions[function] = None
    atexit.register(function)
    _listen()
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        _finalize()


def unregister(function: Callable[[], object]) -> None:
    """Have a function not called; nothing happens if it is not registered."""
    _functions.pop(function, None)
    atexit.unregister(function)


def _listen() -> None:
    """Hear of children that `atexit` does not know, of all who make any and are imported by now."""
    after_fork: Any = getattr(sys.modules.get("multiprocessing.util"), "register_after_fork", None)
    if after_fork is not None and "multiprocessing" not in _heard:
        _heard.add("multiprocessing")
        # Called later than what `os.register_at_fork` calls, which loses its finalizers.
        after_fork(_finalize, _finalize)
    signals = sys.modules.get("celery.signals")
    ending: Any = getattr(signals, "worker_process_shutdown", None)
    if ending is not None and "celery" not in _heard:
        _heard.add("celery")
        ending.connect(end, weak=False)


def _finalize(*_: object) -> None:
    """Have multiprocessing end this child, unless it is a spawned one: they leave by `sys.exit`."""
    global _finalized
    multiprocessing: Any = sys.modules["multiprocessing"]
    if _finalized == os.getpid() or multiprocessing.get_start_method(allow_none=True) == "spawn":
        return
    _finalized = os.getpid()
    sys.modules["multiprocessing.util"].Finalize(None, end, exitpriority=_LAST)


def end(*_args: object, **_kwargs: object) -> None:
    """Call every function that is registered, once; an error in one does not stop the others."""
    while _functions:
        function, _ = _functions.popitem()
        try:
            function()
        except Exception as error:
            log.error("something could not be ended: %s", outline(error))


forks.before(_listen)
