"""The event loop on which plain functions run coroutines that suspend."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import threading
from collections.abc import Awaitable
from typing import Any

__all__ = ["BackgroundLoop"]


class BackgroundLoop:
    """One event loop on a daemon thread, started at first use and again after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, awaitable: Awaitable[Any]) -> concurrent.futures.Future[Any]:
        """Run an awaitable on the loop, in a copy of the caller's context."""
        loop = self._started()
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def start() -> None:
            task = loop.create_task(_outcome(awaitable, future))
            future.add_done_callback(
                lambda f: loop.call_soon_threadsafe(task.cancel) if f.cancelled() else None
            )

        loop.call_soon_threadsafe(start, context=contextvars.copy_context())
        return future

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="otelhooks-hooks", daemon=True
                )
                self._thread.start()
            return self._loop

    def runs_here(self) -> bool:
        """Return whether the calling thread is the loop's own."""
        return self._thread is threading.current_thread()

    def forget(self) -> None:
        """Drop the parent process's loop, whose thread did not survive the fork."""
        self._lock = threading.Lock()
        self._loop = self._thread = None


async def _outcome(awaitable: Awaitable[Any], future: concurrent.futures.Future[Any]) -> None:
    """Pass what an awaitable returns or raises to a future.

    A `SystemExit` or `KeyboardInterrupt` that left the task would stop the loop for all others.
    """
    with contextlib.suppress(concurrent.futures.InvalidStateError):  # cancelled meanwhile
        try:
            value = await awaitable
        except asyncio.CancelledError:
            future.set_exception(RuntimeError("the hook was cancelled"))
        except BaseException as error:  # belongs to the waiting caller
            future.set_exception(error)
        else:
            future.set_result(value)
