"""The clock of the time limits of conditions.

A garbage collection does not count: it runs in whichever thread is the next to make an object.
"""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

__all__ = ["thread_time", "without_collections"]


class _Collections:
    """How long garbage collections took in one thread while it was in this context, in seconds."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._depth = 0
        self._began: float = math.inf
        self.total_s: float = 0.0

    # Called by the collector only for as long as a limit is in force: where a program has recursed
    # to its limit, it could not be called, and Python would report that as an error.
    def __enter__(self) -> None:
        if not self._depth:
            gc.callbacks.append(self)
        self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if not self._depth:
            gc.callbacks.remove(self)

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._began = time.thread_time()
        else:  # nothing counts if the callback missed the start
            self.total_s += max(0.0, time.thread_time() - self._began)
            self._began = math.inf


class _Here(threading.local):
    def __init__(self) -> None:
        self.collections = _Collections()


_here = _Here()


def without_collections() -> _Collections:
    """Return a context in which `thread_time` leaves the collections of this thread out."""
    return _here.collections


def thread_time() -> float:
    """Return the processor time of this thread, in seconds."""
    return time.thread_time() - _here.collections.total_s
