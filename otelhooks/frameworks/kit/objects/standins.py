"""Objects that replace a framework's own, so that calls of their methods pass a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otelhooks.frameworks.kit.objects.classes import subclass

__all__ = ["stand_in"]


def stand_in(
    path: str = "otelhooks.patching.fields:Proxy", field: str = "__wrapped__", **attributes: Any
) -> Callable[[Any, Any], Any]:
    """Return a function that creates a stand-in from an object and from data for `read`.

    `read` gets the stand-in as owner, with the data in ``_self_of``.

    Args:
        path: Class of stand-ins, created with the object; one of the framework's wrappers, if it
            has one.
        field: Its attribute that holds the object.
        **attributes: Name of a method to the adapter's class and the kind of function; or name of
            an attribute to the function, made here, that creates a stand-in for its value. A
            stand-in has those that its object has.
    """

    def replaced(name: str, of: Any) -> property:
        def attribute(self: Any) -> Any:
            value = getattr(getattr(self, field), name)
            if callable(of):
                return of(value, self._self_of)
            passage, kind = of
            wrapper = passage.wrapper(kind, value)

            def call(*args: Any, **kwargs: Any) -> Any:
                return wrapper(value, self, args, kwargs)

            return call

        return property(attribute)

    @subclass(path)
    def made(base: type[Any]) -> type[Any]:
        return type(
            "StandIn", (base,), {name: replaced(name, of) for name, of in attributes.items()}
        )

    def make(stood_for: Any, of: Any) -> Any:
        found = made(stood_for)
        found._self_of = of
        return found

    return make
