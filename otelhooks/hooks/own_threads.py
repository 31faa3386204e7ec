"""Threads for long waits, such as for people: neither the application's nor the audit trail's.

Each is a daemon, so none keeps the process alive. At most `MAX_WAITING` exist at a time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from otelhooks.process import forks

__all__ = ["MAX_WAITING", "awaited", "spawn", "start"]

T = TypeVar("T")

MAX_WAITING = 1_000
"""Most functions that may wait at once, in the whole process."""


_slots = threading.BoundedSemaphore(MAX_WAITING)


def start(fn: Callable[..., T], *args: Any) -> concurrent.futures.Future[T]:
    """Call a function on a thread of its own, in a copy of the caller's context.

    Args:
        fn: It continues when its future is cancelled; a thread cannot be stopped.
        args: Its positional arguments.

    Raises:
        RuntimeError: There are already `MAX_WAITING` threads.
    """
    slots = _slots
    if not slots.acquire(blocking=False):
        msg = f"{MAX_WAITING} questions wait for an answer already"
        raise RuntimeError(msg)

    def call() -> T:
        try:
            return fn(*args)
        finally:
            slots.release()

    try:
        return spawn("otelhooks-question", call)
    except BaseException:  # the system has no more threads
        slots.release()
        raise


def spawn(name: str, fn: Callable[..., T], *args: Any) -> concurrent.futures.Future[T]:
    """Call a function on a daemon thread of this name, in a copy of the caller's context."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()  # so that a late answer does not find a cancelled future

    def call() -> None:
        try:
            future.set_result(fn(*args))
        except BaseException as error:  # belongs to the waiting caller
            future.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(call,), name=name, daemon=True).start()
    return future


async def awaited(future: concurrent.futures.Future[T]) -> T:
    """Return a future's value, on asyncio or trio, without a thread that waits for it."""
    trio = sys.modules.get("trio")
    try:
        token = None if trio is None else trio.lowlevel.current_trio_token()
    except RuntimeError:  # not called from trio
        token = None
    if trio is None or token is None:
        return await asyncio.wrap_future(future)
    event = trio.Event()

    def tell(_: object) -> None:
        try:
            token.run_sync_soon(event.set)
        except trio.RunFinishedError:
            return  # its loop has ended, and nothing waits any more

    future.add_done_callback(tell)
    await event.wait()
    return future.result()


def _forget() -> None:
    """Start afresh in a child process, without the parent's threads."""
    global _slots
    _slots = threading.BoundedSemaphore(MAX_WAITING)


forks.in_child(_forget, forks.Step.THREADS)
