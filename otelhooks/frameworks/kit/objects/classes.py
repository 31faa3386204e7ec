"""Looks up objects of a framework by module and name, when they are needed, in any copy of it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, cast

__all__ = ["each", "is_a", "module", "native", "subclass"]


def each(path: str) -> Iterator[str]:
    """Yield each path that one means: ``(a|b)`` in it is either."""
    head, is_several, rest = path.partition("(")
    inside, _, tail = rest.partition(")")
    for one in inside.split("|"):
        yield from each(f"{head}{one}{tail}") if is_several else (path,)


def native(path: str, of: Any = None) -> Any:
    """Return an object of the framework, which is already imported.

    Args:
        path: Module and name, such as ``haystack.tools.errors:ToolInvocationError``; ``(a|b)`` in
            it means the first that exists.
        of: An object of the framework, whose copy of the framework is searched first.
    """
    if "(" in path:
        path = next(filter(_is_there, each(path)), path)
    module, _, name = path.partition(":")
    for cls in type(of).__mro__:
        if f"{cls.__module__}:{cls.__qualname__}" == path:
            return cls
        if cls.__module__.partition(".")[0] == module.partition(".")[0]:
            # `sys.modules` has only the newest copy; a method's globals are those of its own copy.
            for value in vars(cls).values():
                found = getattr(value, "__globals__", {}).get(name)
                if getattr(found, "__module__", None) == module:
                    return found
    return getattr(sys.modules[module], name)


class module:
    """A module of the framework, whose objects are its attributes, looked up when they are needed.

    Args:
        name: Such as ``haystack.tools.errors``.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules[self._name], name)

    def paths(self, *names: str) -> tuple[str, ...]:
        """Return classes of it as `is_a` takes them."""
        return tuple(f"{self._name}:{name}" for name in names)


def is_a(value: Any, *paths: str) -> bool:
    """Return whether a value is of one of some classes, whichever copy of the framework made it.

    Args:
        value: Anything.
        paths: Module and name of each class, where it is defined.
    """
    # isinstance() knows only the copy that was imported last; names are the same in all of them
    kind = cast("type[Any]", type(value))
    return any(f"{each.__module__}:{each.__qualname__}" in paths for each in kind.__mro__)


def subclass(path: str) -> Callable[[Callable[[Any], Any]], Callable[..., Any]]:
    """Create a subclass of a framework's class when it is first needed, one for each copy of it.

    Decorates a function that takes the class and returns the subclass; the result creates
    instances.

    Args:
        path: As for `native`.
    """

    def decorate(make: Callable[[Any], Any]) -> Callable[..., Any]:
        made = functools.lru_cache(maxsize=4)(make)

        def instance(*args: Any, **kwargs: Any) -> Any:
            return made(native(path))(*args, **kwargs)

        return instance

    return decorate


def _is_there(path: str) -> bool:
    module, _, name = path.partition(":")
    return hasattr(sys.modules.get(module), name)
