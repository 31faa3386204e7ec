"""Locks that no thread holds while the process forks."""

from __future__ import annotations

import os
import threading

__all__ = ["held_over_forks"]


def held_over_forks() -> threading.RLock:
    """Return a lock that a fork waits for, so that a child never starts with half of a thing.

    For what is done once and late, such as a late import: a thread that did it in the parent is not
    there in the child, where its locks would stay taken for ever.
    """
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock
