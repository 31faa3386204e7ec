"""What is taken from a framework: by module and name, when it is needed, in any of its copies."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, cast

__all__ = ["is_a", "native", "subclass"]


def native(path: str, of: Any = None) -> Any:
    """Return something of the framework, which is imported by then.

    Args:
        path: Module and name, such as ``haystack.tools.errors:ToolInvocationError``.
        of: An object of the framework's, whose copy of the framework is asked first.
    """
    module, _, name = path.partition(":")
    for cls in type(of).__mro__:
        if f"{cls.__module__}:{cls.__qualname__}" == path:
            return cls
        if cls.__module__.partition(".")[0] == module.partition(".")[0]:
            for each in vars(cls).values():  # a module imported again has functions of its own
                found = getattr(each, "__globals__", {}).get(name)
                if getattr(found, "__module__", None) == module:
                    return found
    return getattr(sys.modules[module], name)


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
    """Make a subclass of a framework's class when it is first needed, one for each copy of it.

    Decorates a function of the class that returns the subclass; what it becomes makes instances.

    Args:
        path: Module and name of the class.
    """

    def decorate(make: Callable[[Any], Any]) -> Callable[..., Any]:
        made = functools.lru_cache(maxsize=4)(make)
        return lambda *args, **kwargs: made(native(path))(*args, **kwargs)

    return decorate
