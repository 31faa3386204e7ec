"""What a function leads to: the wrappers below it, and what its closure holds."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any, cast

__all__ = ["innermost", "is_function", "leads_to"]

_FAR = 100  # objects to look at


def is_function(value: Any) -> bool:
    return callable(value) or isinstance(value, (classmethod, staticmethod))


def leads_to(value: Any, is_ours: Callable[[Any], bool]) -> bool:
    """Return whether a call of a value may reach one of our wrappers.

    What other libraries put on top of it may be plain functions, which hold what they call in a
    closure, or as a global of their module.
    """
    code = getattr(value, "__code__", None)
    names = code.co_names if type(value) is types.FunctionType and code is not None else ()
    left: list[Any] = [value, *(value.__globals__.get(name) for name in names)]
    seen: set[int] = set()
    for one in left:
        if is_ours(one):
            return True
        if id(one) not in seen and len(seen) < _FAR:
            seen.add(id(one))
            left += _below(one)
    return False


def innermost(value: Any) -> Any:
    """Return what is below all wrappers of a kind that tells what it wraps."""
    while type(value) is not types.FunctionType and hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return getattr(value, "__func__", value)


def _below(value: Any) -> list[Any]:
    """Return what a wrapper or function may call: what it says that it wraps, and its closure."""
    # A plain function need not call what it only looks like, by `functools.wraps`.
    names = ("__wrapped__", "__func__", "_self_parent")
    names = names if type(value) is not types.FunctionType else ()
    found = [getattr(value, name, None) for name in names]
    if issubclass(type(value), functools.partial):
        found.append(cast("Any", value).func)
    for cell in getattr(value, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # it has no value yet
            found.append(cell.cell_contents)
    return [one for one in found if is_function(one)]
