"""Handlers of ask rules: functions that say whether a call may run.

Decision code: whatever is not exactly ``True`` is a no.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from otelhooks import types
from otelhooks.errors import ConfigError
from otelhooks.hooks.drive import Run

__all__ = ["Asking", "ask_handler", "ask_run", "bind_handler", "is_async"]

BoundHandler = Callable[[types.ToolCall, str], Any]


class Asking(Protocol):
    """What is needed of a rule that asks."""

    @property
    def reason(self) -> str:
        """Why the rule asks; empty if it does not say."""
        ...

    @property
    def handler(self) -> Callable[..., Any] | None:
        """The handler as the user gave it."""
        ...

    @property
    def ask(self) -> BoundHandler:
        """The handler as a function of call and reason."""
        ...


def bind_handler(handler: Callable[..., Any]) -> BoundHandler:
    """Return a handler as a function of call and reason, whatever it takes.

    The reason goes to a parameter of that name, to ``**kw``, or to the second positional parameter
    whatever its name; a handler of one parameter gets the call alone. So does one whose signature
    cannot be read.

    Args:
        handler: Sync or async.

    Raises:
        ConfigError: It cannot be called with a call.
    """
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


def is_async(handler: Callable[..., Any]) -> bool:
    """Say whether a handler is a coroutine function, or an object whose call is one."""
    call = getattr(handler, "__call__", None)  # noqa: B004  # what it is, not whether
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def ask_handler(rule: Asking, call: types.ToolCall) -> Any:
    """Put a question to the rule's handler.

    Args:
        rule: One with a handler.
        call: The very object that is decided about.

    Returns:
        What the handler returned, which may be awaitable. Only ``True`` approves.
    """
    return rule.ask(call, rule.reason)


def ask_run(rule: Asking, call: types.ToolCall) -> Run:
    """Return the question as an effect for a driver; a sync handler gets a worker thread."""
    blocking = rule.handler is not None and not is_async(rule.handler)
    return Run(ask_handler, rule, call, blocking=blocking)
