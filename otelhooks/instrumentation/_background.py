"""The queue of hooks that nobody waits for."""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from otelhooks.hooks.drive import Raised, Run, run
from otelhooks.hooks.registry import Registration
from otelhooks.instrumentation._watch import hook_attributes

if TYPE_CHECKING:
    from otelhooks.instrumentation._runtime import Runtime

__all__ = ["BackgroundQueue"]

log = logging.getLogger("otelhooks")
_CAPACITY = 1_000


class BackgroundQueue:
    """Inspectors that nobody waits for, in order, on a thread of their own; the oldest give way."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._queue: queue.Queue[tuple[Registration, Any, Any] | None] = queue.Queue(_CAPACITY)
        self._thread = threading.Thread(target=self._work, name="otelhooks-background", daemon=True)
        self._thread.start()

    def put(self, registration: Registration, context: Any, data: Any) -> None:
        """Queue one; drop and count the oldest if the queue is full."""
        while True:
            try:
                self._queue.put_nowait((registration, context, data))
                return
            except queue.Full:
                try:
                    dropped = self._queue.get_nowait()
                except queue.Empty:
                    continue
                if dropped is not None:
                    attributes = hook_attributes(dropped[0])
                    self._runtime.instruments.hook_queue_dropped.cell(attributes).add(1)

    def drain(self, timeout_s: float) -> None:
        """Let the queue run empty, for so long at most."""
        deadline = time.monotonic() + timeout_s
        try:
            self._queue.put(None, timeout=timeout_s)
        except queue.Full:
            log.warning("background hooks did not finish within %.0f s", timeout_s)
            return
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            log.warning("background hooks did not finish within %.0f s", timeout_s)

    def _work(self) -> None:
        while True:
            entry = self._queue.get()
            if entry is None:
                return
            registration, context, data = entry
            value = run(
                Run(registration.call, context, data, blocking=True, timeout=registration.timeout)
            )
            if type(value) is Raised:
                self._runtime.watch.hook_failed(registration, value.error)
