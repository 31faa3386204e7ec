"""Whether a call will pass another seat: at another object, or at an overridden method."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, cast

import wrapt

from otelhooks.patching.seats import GUARD, SeatWrapper

__all__ = ["Method"]


class Method:
    """A method of an object, which subclasses and objects may override.

    Args:
        owner: The object.
        name: Name of the method.
    """

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name

    @property
    def is_guarded(self) -> bool:
        """Whether a call of it passes a seat; a method set on the object itself does not."""
        if self._name in getattr(self._owner, "__dict__", ()):
            return False
        found: Any = inspect.getattr_static(cast("Any", type(self._owner)), self._name, None)
        return _has_seat(found)

    def guard(self, through: Callable[..., Any], kind: str) -> bool:
        """Set a function on the object that leads calls through a class, if they pass no seat.

        Args:
            through: `through` of the class; its `read` gets the object first.
            kind: Kind of the method.

        Returns:
            Whether calls are guarded. Not where the object lets nothing be set, or hides it.
        """
        if not self.is_guarded and not self._leads(through):
            method = getattr(self._owner, self._name)
            with contextlib.suppress(AttributeError):  # such as that of a property
                led = functools.partial(through, kind, method, self._owner)
                setattr(self._owner, self._name, led)
        return self.is_guarded or self._leads(through)

    def _leads(self, through: Callable[..., Any]) -> bool:
        led: Any = getattr(self._owner, self._name)
        # a copy of an object leads calls to the one that it was made of
        return getattr(led, "func", None) == through and led.args[-1] is self._owner

    def calls_on(self, wrapped: Callable[..., Any]) -> bool:
        """Return whether it may call an overridden method that has a seat.

        Args:
            wrapped: The method that runs, bound, without our wrapper.
        """
        function = getattr(wrapped, "__func__", wrapped)
        if not _uses_super(function):
            return False
        is_below = False
        for cls in type(self._owner).__mro__:
            found = vars(cls).get(self._name)
            if found is None:
                continue
            if any(entry is function for entry in wrapt.wrapper_chain(found)):
                is_below = True  # a class that inherits it from a mixin holds it as well
            elif is_below:
                return _has_seat(found)
        return False

    def reaches(self, path: str) -> bool:
        """Return whether it is a class's own, or calls that through `super`.

        Args:
            path: Module and name of the class.
        """
        for cls in type(self._owner).__mro__:
            if f"{cls.__module__}:{cls.__qualname__}" == path:
                return True
            if self._name in vars(cls) and not _uses_super(vars(cls)[self._name]):
                return False
        return False


def _uses_super(function: Any) -> bool:
    """Return whether a function, below its wrappers, calls `super`, as far as its code shows."""
    # Only the code shows this before the call, and a permit for a super() that never comes would
    # stay open for whatever the body calls.
    *_, inner = wrapt.wrapper_chain(function)
    code = getattr(inner, "__code__", None)
    return code is not None and "super" in code.co_names


def _has_seat(method: Any) -> bool:
    # isinstance() would ask the wrapped object
    return any(
        issubclass(type(entry), SeatWrapper) and entry._self_switch.mode == GUARD
        for entry in wrapt.wrapper_chain(method)
    )
