"""Do something to each subclass of a class: to existing ones, and to those created later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Subclasses"]


class Subclasses:
    """Calls a function with each subclass of a class, until `undo`.

    Args:
        owner: The class.
        each: Takes a subclass. It runs inside class statements of the user: what it raises ends
            them.
    """

    def __init__(self, owner: type, each: Callable[[type], None]) -> None:
        self._owner = owner
        self._original: Any = vars(owner).get("__init_subclass__")
        self._hook = self._make_hook(each)
        owner.__init_subclass__ = self._hook
        _below(owner, each)

    def _make_hook(self, each: Callable[[type], None]) -> Any:
        owner, original = self._owner, self._original

        def __init_subclass__(cls: type, **kwargs: Any) -> None:
            if original is None:
                super(owner, cls).__init_subclass__(**kwargs)
            else:
                original.__get__(None, cls)(**kwargs)
            each(cls)

        make: Any = classmethod
        return make(__init_subclass__)

    def undo(self) -> None:
        """Leave later subclasses alone; a hook that another library has put on top stays."""
        if vars(self._owner).get("__init_subclass__") is not self._hook:
            return
        if self._original is None:
            del self._owner.__init_subclass__
        else:
            self._owner.__init_subclass__ = self._original


def _below(owner: type, each: Callable[[type], None]) -> None:
    for cls in type.__subclasses__(owner):
        each(cls)
        _below(cls, each)
