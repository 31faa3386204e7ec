"""Looking at policy files for changes, on a thread of its own."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable

from otelhooks.records.failures import outline

__all__ = ["INTERVAL_S", "Watch"]

log: logging.Logger = logging.getLogger("otelhooks.policy")

INTERVAL_S = 1.0
"""How often files are looked at, in seconds."""

_JOIN_S = 10.0
_Stamp = dict[str, tuple[int, int, int, int] | None]


class Watch:
    """Calls a function once files have changed, and have then stayed the same for one interval.

    A file that is being written is thus not read half; who replaces files in one step (a rename)
    waits no longer than the interval.

    Args:
        places: Returns the files and folders to look at.
        changed: Is called on the watch's thread; what it raises is logged.
        interval_s: How often files are looked at, in seconds.
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
        self._known: _Stamp = {}  # the first look finds what changed while files were loaded
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a load that is going on comes to its end first."""
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
                log.error("looking at policy files failed: %s", outline(error))


def _stamp(places: Iterable[str]) -> _Stamp:
    """Return what tells a changed file, or another list of files, from the one before."""
    found: _Stamp = {}
    for place in places:
        found[place] = _status(place)
        try:
            names = os.listdir(place)
        except OSError:  # no folder, or gone
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
