"""Thread-safe key-value stores with a parent: reads look outwards, writes stay local."""

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
        parent: Store of the outer layer, read if a key is missing here.
    """

    def __init__(self, parent: StateStore | None = None) -> None:
        self.parent = parent
        self._store: dict[str, Any] = {}
        self._lock = threading.RLock()

    def get(self, key: str, default: Any = None, type: type[Any] | None = None) -> Any:
        """Return the value in this store or the nearest outer one.

        Args:
            key: Name of the value. A stored None is a value.
            default: Returned if no store has the key.
            type: A value of another type counts as absent.
        """
        value = self._find(key)
        if value is MISSING or (type is not None and not isinstance(value, type)):
            return default
        return value

    def set(self, key: str, value: Any) -> None:
        """Keep a value in this store; outer stores do not change.

        Args:
            key: Name of the value.
            value: Not copied.
        """
        with self._lock:
            self._store[key] = value

    def get_state(self, key: str, default: Any = None) -> Any:
        """Return the same as `get`."""
        return self.get(key, default)

    def set_state(self, key: str, value: Any) -> None:
        """Keep a value like `set`."""
        self.set(key, value)

    def update_state(self, key: str, fn: Callable[[Any], Any], default: Any = None) -> Any:
        """Replace a value by a function of it, in one step.

        Args:
            key: Name of the value.
            fn: Takes the value, which may come from an outer store; runs under the lock.
            default: Value for `fn` if no store has the key.

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
        """Return whether this store has an outer one."""
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
        """Return a layer's own value for `key`; a local value shadows it."""
        return MISSING

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()


class ToolContext(StateStore):
    """State of tools, kept for one session; hooks cannot read it.

    An ``@otelhooks.tool`` function with a parameter of this type gets it.

    Args:
        session_id: Conversation that the state belongs to.
    """

    def __init__(self, session_id: str = "") -> None:
        super().__init__()
        self.session_id = session_id
