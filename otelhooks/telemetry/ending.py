"""Flush and shut down providers in parallel, within a time limit that is really kept.

Needed because the SDK ignores the timeout of ``force_flush`` (opentelemetry-python issue 4568)
and may wait 30 s in ``shutdown``. Telemetry: fails open.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from otelhooks.records.failures import outline

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("otelhooks.telemetry")


def flush_of(provider: Any) -> Callable[[], bool]:
    """Return the action that flushes a provider; providers without a flush hold nothing."""

    def flush() -> bool:
        force_flush = getattr(provider, "force_flush", None)
        return True if force_flush is None else force_flush() is not False

    return flush


def end_of(provider: Any) -> Callable[[], bool]:
    """Return the action that shuts a provider down, which flushes it."""

    def end() -> bool:
        shut_down(provider)
        return True

    return end


def shut_down(provider: Any) -> None:
    """Shut a provider down, if possible."""
    shutdown = getattr(provider, "shutdown", None)
    if shutdown is not None:
        shutdown()


def in_time(actions: list[Callable[[], bool]], timeout_s: float) -> bool:
    """Run actions in parallel.

    Args:
        actions: Each returns True when it has finished its work.
        timeout_s: Seconds to wait for all of them.

    Returns:
        True if all finished in time.
    """
    results: list[bool] = []

    def run(action: Callable[[], bool]) -> None:
        try:
            results.append(action())
        except Exception as error:
            _log.error("a provider could not be flushed or shut down: %s", outline(error))

    threads: list[threading.Thread] = []
    for action in actions:
        thread = threading.Thread(target=run, args=(action,), name="otelhooks-flush", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            run(action)  # no new threads while the interpreter exits (Python 3.12 and later)
        else:
            threads.append(thread)
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    are_done = not any(thread.is_alive() for thread in threads)
    if not are_done:
        _log.warning("telemetry was not handed over within %g s, some of it may be lost", timeout_s)
    return are_done and len(results) == len(actions) and all(results)
