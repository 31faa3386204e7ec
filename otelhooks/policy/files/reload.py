"""Check policy files for changes, on a thread of its own."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable

from otelhooks.records.failures import outline

__all__ = ["INTERVAL_S", "Watch"]

log: logging.Logger = logging.getLogger("otelhooks.policy")

INTERVAL_S = 1.0
"""How often files are checked, in seconds."""

_JOIN_S = 10.0
_Stamp = dict[str, tuple[int, int, int, int] | None]


class Watch:
    """Calls a function once files have changed and then stayed the same for one interval.

    So a file is not read while it is half written; a file that is replaced in one step (a rename)
    waits no longer than the interval.

    Args:
        places: Returns the files and folders to check.
        changed: Called on the watch's thread; what it raises is logged.
        interval_s: How often files are checked, in seconds.
    """

    def __init__(
        self,
        places: Callable[[], Iterable[str]],
        changed: Callable[[], None],
        *,
        interval_s: float,
    ) -> None:
        self._places = places
        self._changed = changed
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otelhooks-reload", daemon=True)
        self._known: _Stamp = {}  # the first check finds what changed while files were loaded
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after a load in progress."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=_JOIN_S)

    def _run(self) -> None:
        before: _Stamp | None = None
        while not self._stopped.wait(self._interval_s):
            try:
                now = _stamp(self._places())
                if now != self._known and now == before:
                    self._known = now
                    self._changed()
                before = now
            except Exception as error:
                log.error("policy files could not be checked for changes: %s", outline(error))


def _stamp(places: Iterable[str]) -> _Stamp:
    """Return a value that differs if a file or the list of files has changed."""
    found: _Stamp = {}
    for place in places:
        found[place] = _status(place)
        try:
            names = os.listdir(place)
        except OSError:  # not a folder, or gone
            continue
        for name in names:
            path = os.path.join(place, name)
            found[path] = _status(path)
    return found


def _status(path: str) -> tuple[int, int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
