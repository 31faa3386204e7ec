"""What a framework's function returns, and how the parameters of `read` match its own."""

from __future__ import annotations

import contextlib
import inspect
import types
from typing import Any

from otelhooks.errors import ConfigError

__all__ = ["KINDS", "checked", "kind_of", "mismatch", "renaming"]

PLAIN, COROUTINE = "plain", "coroutine"
GENERATOR, ASYNC_GENERATOR, ASYNC_CONTEXT = "generator", "async generator", "async context"
EITHER = "either"
"""Plain or coroutine: its caller awaits awaitable results. Only a seat can declare it."""

KINDS = (PLAIN, COROUTINE, EITHER, GENERATOR, ASYNC_GENERATOR, ASYNC_CONTEXT)

_make: Any = contextlib.asynccontextmanager
_CONTEXT_CODE: Any = _make(None.__class__).__code__  # shared by every function that it creates


def _plain(function: Any) -> Any:
    return getattr(function, "__func__", function)  # of a classmethod, staticmethod, bound method


def kind_of(function: Any) -> str:
    """Return what a function returns: one of `KINDS`."""
    function = _plain(function)
    if inspect.iscoroutinefunction(function):
        return COROUTINE
    if inspect.isasyncgenfunction(function):
        return ASYNC_GENERATOR
    if inspect.isgeneratorfunction(function):
        return GENERATOR
    # `functools.wraps` makes it look like the generator below; only the code shows the difference.
    if getattr(function, "__code__", None) is _CONTEXT_CODE:
        return ASYNC_CONTEXT
    return PLAIN


def checked(value: Any) -> Any:
    """Return what a plain function returned.

    Raises:
        ConfigError: It is a coroutine that has not run: the seat has the wrong kind.
    """
    if type(value) is types.CoroutineType:
        value.close()
        problem = f"`{value.__qualname__}` is a coroutine behind a plain function"
        raise ConfigError(problem, hint="write `kind='coroutine'` in the seat")
    return value


def renaming(read: Any, function: Any) -> Any:
    """Return a `read` that uses the parameter names of an override."""
    try:
        ours, theirs = _positional(read)[2:], _positional(_plain(function))
    except (TypeError, ValueError):
        return read
    pairs = zip(theirs[1:], ours, strict=False)
    names = {new: old for new, old in pairs if new not in ours and old not in theirs}
    if not names:
        return read

    def renamed(passage: Any, owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        kwargs = {names.get(name, name): value for name, value in kwargs.items()}
        return read(passage, owner, *args, **kwargs)

    return renamed


def _positional(function: Any) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters
    return [name for name, each in parameters.items() if each.kind in kinds]


def mismatch(read: Any, function: Any) -> str:
    """Return how the parameters of `read` differ from those of a function; empty if they match.

    The parameters of a listening function are compared in the same way.
    """
    name = getattr(read, "__name__", "read")
    try:
        given = list(inspect.signature(read).parameters.values())
        head, ours = given[:2], given[2:]
        theirs = list(inspect.signature(_plain(function)).parameters.values())
    except (TypeError, ValueError):
        return ""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    takes_any = any(each.kind is each.VAR_KEYWORD for each in theirs)
    if takes_any and any(each.kind is each.VAR_KEYWORD for each in ours):
        if any(each.kind is each.POSITIONAL_OR_KEYWORD for each in head):
            owner = head[-1].name
            return f"`{name}` lacks `/` behind `{owner}`: the function takes arguments of any name"
    if any(each.kind in variadic for each in theirs):
        return ""
    names = {each.name for each in theirs}
    for each in ours:
        if each.kind not in variadic and each.default is each.empty and each.name not in names:
            return f"`{name}` names `{each.name}`, which the function does not have"
    if any(each.kind in variadic for each in ours):
        return ""
    own = {each.name for each in ours}
    for each in theirs[1:]:
        if each.default is each.empty and each.name not in own:
            return f"`{name}` does not take `{each.name}`, which the function demands"
    return ""
