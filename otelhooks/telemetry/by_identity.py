"""A value for each of some foreign objects, by identity and no longer than they live.

An OpenTelemetry provider need not be hashable (Logfire's is a dataclass that compares by value), so
`weakref.WeakKeyDictionary` does not work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import finalize

Value = TypeVar("Value")


class ByIdentity(Generic[Value]):
    """The values; `get` creates missing ones. Not locked."""

    def __init__(self) -> None:
        self._values: dict[int, Value] = {}
        self._held: list[object] = []

    def __len__(self) -> int:
        return len(self._values)

    def get(self, owner: Any, make: Callable[[], Value]) -> Value:
        """Return an object's value.

        Args:
            owner: Any object; one without support for weak references is kept alive from now on.
            make: Called the first time.
        """
        key = id(owner)
        if key not in self._values:
            self._values[key] = make()
            try:
                finalize(owner, self._values.pop, key, None).atexit = False
            except TypeError:
                self._held.append(owner)
        return self._values[key]
