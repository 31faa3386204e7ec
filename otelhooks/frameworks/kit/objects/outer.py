# pyright: basic
"""What only an outer function knows, such as the id of a call: noted in the tool's context."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar, copy_context
from typing import Any

__all__ = ["id_for", "known", "noted"]

_noted: ContextVar[tuple[Any, str] | None] = ContextVar("otelhooks_noted", default=None)


@contextlib.contextmanager
def known(variable: ContextVar[Any], value: Any) -> Generator[None, None, None]:
    """Set a context variable while a block runs."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def noted(
    tool: Any, id: str | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Call a function that calls a tool, now or later, with the id of that call noted.

    Args:
        tool: The tool object, or its name if the outer function knows no more.
        id: Of the call.
        function: The framework's; it may be a coroutine function, or return one that calls the
            tool, or a function that does so in a copy of this context.
        *args: Its arguments.
        **kwargs: Its keyword arguments.
    """
    note = (tool, id or "")
    context = copy_context()
    context.run(_noted.set, note)
    found = context.run(function, *args, **kwargs)
    if inspect.iscoroutine(found):
        return _inside(note, lambda: found)
    # A coroutine runs in the context of the task that awaits it, not in that of the call above.
    return functools.partial(_inside, note, found) if inspect.iscoroutinefunction(found) else found


async def _inside(note: Any, run: Callable[[], Awaitable[Any]]) -> Any:
    token = _noted.set(note)
    try:
        return await run()
    finally:
        _noted.reset(token)


def id_for(tool: Any) -> str:
    """Return the id that was noted for the call of a tool, once: what its body calls has none.

    Args:
        tool: The tool object that is called, or its name.
    """
    note = _noted.get()
    is_noted = note is not None and (note[0] is tool or (type(tool) is str and note[0] == tool))
    if note is None or not is_noted:
        return ""
    _noted.set(None)
    return note[1]
