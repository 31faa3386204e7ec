"""Do something to each subclass of a class: to existing ones, and to those created later."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["Subclasses", "subclasses"]


def subclasses(owner: type) -> list[type]:
    """Return the subclasses of a class, at any depth, the nearest first."""
    found = dict.fromkeys(type.__subclasses__(owner))
    for cls in list(found):
        found |= dict.fromkeys(subclasses(cls))
    return list(found)


class Subclasses:
    """Calls a function once with each subclass of a class, until `undo`.

    A subclass with an `__init_subclass__` of its own, which need not call the one above, is watched
    as well. One that a mixin outside the class gives it is not: Python calls nothing of ours then.

    Args:
        owner: The class.
        each: Takes a subclass. It runs inside class statements of the user: what it raises ends
            them.
    """

    def __init__(self, owner: type, each: Callable[[type], None]) -> None:
        self._each = each
        self._met: weakref.WeakSet[type] = weakref.WeakSet()
        self._hooked: weakref.WeakSet[type] = weakref.WeakSet()
        self._hook(owner)
        for cls in subclasses(owner):
            self._meet(cls)

    def _meet(self, cls: type) -> None:
        if cls not in self._met:
            self._met.add(cls)
            if "__init_subclass__" in vars(cls):
                self._hook(cls)
            self._each(cls)

    def _hook(self, owner: type) -> None:
        original: Any = vars(owner).get("__init_subclass__")
        place = weakref.ref(owner)  # the hook must not keep a class alive

        def __init_subclass__(cls: type, **kwargs: Any) -> None:
            above: Any = place()
            if original is None:
                super(above, cls).__init_subclass__(**kwargs)
            else:
                original.__get__(None, cls)(**kwargs)
            self._meet(cls)

        hook: Any = __init_subclass__
        hook.made = self, original  # here, because our own table would keep the class alive
        make: Any = classmethod
        owner.__init_subclass__ = make(hook)
        self._hooked.add(owner)

    def undo(self) -> None:
        """Leave later subclasses alone; a hook that another library has put on top stays."""
        for owner in list(self._hooked):
            hook: Any = vars(owner).get("__init_subclass__")
            by, original = getattr(getattr(hook, "__func__", None), "made", (None, None))
            if by is not self:
                continue
            if original is None:
                del owner.__init_subclass__
            else:
                owner.__init_subclass__ = original
