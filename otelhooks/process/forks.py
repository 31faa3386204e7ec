"""What is done when this process forks, in one place and one order.

Before a fork, the functions registered by `around` hold their objects, the last one first, so that
a child never starts in the middle of a change; parent and child release them afterwards. Then the
child starts afresh, in the steps of `Step`: each relies on those before it. An error in one does
not stop the others.
"""

from __future__ import annotations

import enum
import logging
import os
import threading
import types
import weakref
from typing import TYPE_CHECKING, Any

from otelhooks.records.failures import outline

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Step", "around", "before", "held_over_forks", "in_child", "while_it_lives"]

log: logging.Logger = logging.getLogger("otelhooks")


class Step(enum.IntEnum):
    """The order in which a child starts afresh."""

    THREADS = 1
    """Threads, loops, queues and the locks of stores, which belong to the parent."""
    TRAILS = 2
    """Files of the audit trail."""
    SENDERS = 3
    """What follows trails, and sends them on."""
    RUNTIME = 4
    """What is instrumented. It uses everything else, and starts threads."""


_registering = threading.RLock()  # taken last and released first: its holder never waits
_fork = threading.local()  # with `held`: what this thread must release after its fork
_around: list[tuple[Callable[[], object], Callable[[], object] | None]] = []
_in_child: list[tuple[Step, Callable[[], object], weakref.ref[Any] | None]] = []


def before(function: Callable[[], object]) -> None:
    """Call a function before each fork."""
    with _registering:
        _around.append((function, None))


def around(hold: Callable[[], object], release: Callable[[], object]) -> None:
    """Call one function before each fork, and another after it, in parent and child."""
    with _registering:
        _around.append((hold, release))


def in_child(function: Callable[[], object], step: Step) -> None:
    """Call a function in each child that this process forks, and in their children.

    Args:
        function: A method is called for as long as its object lives.
        step: Step at which it runs.
    """
    with _registering:
        _in_child[:] = [entry for entry in _in_child if entry[2] is None or entry[2]() is not None]
        if isinstance(function, types.MethodType):
            owner = weakref.ref(function.__self__)
            _in_child.append((step, while_it_lives(function), owner))
        else:
            _in_child.append((step, function, None))


def while_it_lives(method: Any) -> Callable[[], None]:
    """Return a function that calls a method for as long as its object lives."""
    # Not a WeakMethod: its callback fails, on stderr, while the interpreter exits.
    owner, function = weakref.ref(method.__self__), method.__func__

    def call() -> None:
        living = owner()
        if living is not None:
            function(living)

    return call


def held_over_forks() -> threading.RLock:
    """Return a lock that a fork waits for, so that a child never starts in the middle of a change.

    For work that is done once and late, such as a late import: a thread that did it in the parent
    does not exist in the child, where its locks would stay taken forever.
    """
    lock = threading.RLock()
    around(lock.acquire, lock.release)
    return lock


def _before() -> None:
    held: list[Callable[[], object]] = []
    _fork.held = held
    for hold, release in reversed(list(_around)):
        _call(hold)
        if release is not None:
            held.append(release)
    _registering.acquire()


def _after() -> None:
    held: list[Callable[[], object]] | None = vars(_fork).pop("held", None)
    if held is None:  # forked by a program in C, such as a server, that has not called `_before`
        return
    _registering.release()
    while held:
        _call(held.pop())


def _after_in_child() -> None:
    _after()
    for _, function, _ in sorted(_in_child, key=lambda entry: entry[0]):
        _call(function)


def _call(function: Callable[[], object]) -> None:
    try:
        function()
    except Exception as error:
        log.error("something failed after a fork: %s", outline(error))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
