"""Thread-safe key-value stores with a parent: reads walk outwards, writes stay local."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from typing_extensions import Self

__all__ = ["StateStore", "ToolContext"]

MISSING: Any = object()


class StateStore:
    """State of hooks or tools at one layer of a conversation.

    Args:
        parent: Store of the layer outside, read when a key is not here.
    """

    def __init__(self, parent: StateStore | None = None) -> None:
        self.parent = parent
        self._store: dict[str, Any] = {}
        self._lock = threading.RLock()

    def get(self, key: str, default: Any = None, type: type[Any] | None = None) -> Any:
        """Return the value that this store or the nearest one outside it has.

        Args:
            key: Name of the value. A stored None is a value.
            default: Returned where no store has the key.
            type: A value of another type counts as absent.
        """
        value = self._find(key)
        if value is MISSING or (type is not None and not isinstance(value, type)):
            return default
        return value

    def set(self, key: str, value: Any) -> None:
        """Keep a value in this store; stores outside do not change.

        Args:
            key: Name of the value.
            value: Not copied.
        """
        with self._lock:
            self._store[key] = value

    def get_state(self, key: str, default: Any = None) -> Any:
        """Return what `get` returns."""
        return self.get(key, default)

    def set_state(self, key: str, value: Any) -> None:
        """Keep a value as `set` does."""
        self.set(key, value)

    def update_state(self, key: str, fn: Callable[[Any], Any], default: Any = None) -> Any:
        """Replace a value by a function of it, in one step.

        Args:
            key: Name of the value.
            fn: Gets the value, which may come from a store outside; runs under the lock.
            default: What `fn` gets where no store has the key.

        Returns:
            The new value, now in this store.
        """
        with self._lock:
            value = fn(self.get_state(key, default))
            self._store[key] = value
            return value

    def lock(self) -> threading.RLock:
        """Return the lock of this store, to hold over several steps."""
        return self._lock

    def has_parent(self) -> bool:
        """Say whether there is a store outside this one."""
        return self.parent is not None

    def _find(self, key: str) -> Any:
        with self._lock:
            if key in self._store:
                return self._store[key]
        value = self._prefilled(key)
        if value is MISSING and self.parent is not None:
            return self.parent._find(key)
        return value

    def _prefilled(self, key: str) -> Any:
        """Return what a layer knows by itself under `key`; a local value shadows it."""
        return MISSING

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()


class ToolContext(StateStore):
    """State of tools, kept for one session; hooks cannot read it.

    Handed to an ``@otelhooks.tool`` function that annotates a parameter with it.

    Args:
        session_id: Conversation that the state belongs to.
    """

    def __init__(self, session_id: str = "") -> None:
        super().__init__()
        self.session_id = session_id
