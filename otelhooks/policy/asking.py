"""Handlers of ask rules: functions that decide whether a call may run.

Decision code: any answer other than exactly ``True`` denies, and so does an exception.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from otelhooks import types
from otelhooks.errors import ConfigError

__all__ = ["BoundHandler", "bind_handler"]

BoundHandler = Callable[["types.ToolCall", str], Any]
"""A handler as a function of call and reason; its answer may be awaitable."""


def bind_handler(handler: Callable[..., Any]) -> BoundHandler:
    """Return a handler as a function of call and reason, whatever it takes.

    The reason goes to a parameter of that name, to ``**kw``, or to the second positional parameter
    whatever its name; a handler with one parameter gets only the call. So does one whose signature
    cannot be read.

    Args:
        handler: Sync or async.

    Raises:
        ConfigError: It is not callable, or does not accept a call.
    """
    if not callable(handler):
        raise ConfigError(
            f"{handler!r} is not a handler: it cannot be called",
            hint="give a function of the call, or a channel of `otelhooks.approvals`",
        )
    bound = _bound(handler)
    if bound is not handler:
        functools.update_wrapper(bound, handler)  # records name the handler
    return bound


def _bound(handler: Callable[..., Any]) -> BoundHandler:
    try:
        signature = inspect.signature(handler)
    except (ValueError, TypeError):
        return lambda call, _: handler(call)
    call = object()
    if _binds(signature, call, reason=""):
        return lambda call, reason: handler(call, reason=reason)
    if _binds(signature, call, ""):
        return handler
    if _binds(signature, call):
        return lambda call, _: handler(call)
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    raise ConfigError(
        f"the handler `{name}` cannot be called with a tool call",
        hint="let it take the call, and optionally `reason`",
    )


def _binds(signature: inspect.Signature, *args: Any, **kwargs: Any) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True
