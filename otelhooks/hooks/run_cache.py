"""A key-value store for each run, shared by hooks and tools, and the log that hooks keep of it."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from otelhooks.hooks.context import HookContext, TurnContext
from otelhooks.process import forks
from otelhooks.state import StateStore

__all__ = ["MAX_KEYS", "MAX_LOGS", "RunState", "run_state"]

MAX_KEYS = 10_000
"""Most values that a run keeps."""

MAX_LOGS = 1_000
"""Most log entries that a run keeps; later ones are dropped."""


class RunState:
    """What is kept for one run: a turn with its sub-agents; outside a turn, the conversation."""

    def __init__(self) -> None:
        self._cache = StateStore()
        self._keys: set[str] = set()
        self._lock = threading.Lock()
        self.logs: list[dict[str, Any]] = []

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or `default`."""
        return self._cache.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Keep a value for the run.

        Raises:
            ValueError: The run already keeps too many.
        """
        with self._lock:
            if key not in self._keys and len(self._keys) >= MAX_KEYS:
                msg = f"a run keeps at most {MAX_KEYS} values"
                raise ValueError(msg)
            self._keys.add(key)
            self._cache.set(key, value)

    def log(self, entry: dict[str, Any]) -> None:
        """Keep a log entry until the run ends."""
        with self._lock:
            if len(self.logs) < MAX_LOGS:
                self.logs.append(entry)


_states: weakref.WeakKeyDictionary[HookContext, RunState] = weakref.WeakKeyDictionary()
_lock = forks.held_over_forks()


def run_state(context: HookContext) -> RunState:
    """Return what is kept for the run that a context belongs to."""
    run = context
    outer: HookContext | None = context
    while outer is not None:
        if isinstance(outer, TurnContext) or not isinstance(run, TurnContext):
            run = outer
        outer = outer.parent
    with _lock:
        found = _states.get(run)
        if found is None:
            found = _states[run] = RunState()
        return found
