"""The clock of the time limits of conditions.

A garbage collection does not count: it runs in whichever thread is the next to make an object.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["thread_time"]


class _Collections(threading.local):
    """How long garbage collections took in each thread, in seconds; one of `gc.callbacks`."""

    now: Callable[[], float] = staticmethod(time.thread_time)
    began: float = 0.0
    total_s: float = 0.0

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase == "start":
            self.began = self.now()
        else:
            self.total_s += self.now() - self.began


_collections = _Collections()
gc.callbacks.append(_collections)


def thread_time() -> float:
    """Return the processor time of this thread without garbage collections, in seconds."""
    return time.thread_time() - _collections.total_s
