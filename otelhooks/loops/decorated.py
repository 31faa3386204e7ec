"""A function of any kind, wrapped so that each of its calls runs as an operation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar, cast

from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import Operation, adrive, drive
from otelhooks.pipeline.model_call import ModelRequest
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.streams import astream, stream

__all__ = ["F", "Open", "Opened", "joined", "wrap"]

F = TypeVar("F", bound=Callable[..., Any])


class _HoldsBack(Protocol):
    """A call or request, as seen by a generator's wrapper."""

    holds_back: bool


# An operation that is not started, the user's function taking what was approved, and an object that
# says, once it is decided, whether a generator's items must wait for hooks.
Opened = tuple[Operation, Callable[[Any], Any], _HoldsBack]
Open = Callable[[Runtime, tuple[Any, ...], dict[str, Any]], Opened]


def _on_first(subject: _HoldsBack) -> Callable[[], None]:
    """Return the callback for the first item; only models record its time."""
    return subject.note_first_chunk if isinstance(subject, ModelRequest) else lambda: None


def wrap(function: F, open_operation: Open) -> F:
    """Return a function of the same kind whose calls run as operations.

    Args:
        function: The user's function.
        open_operation: Takes the runtime and the call's arguments; returns the operation and the
            body, a function of what was approved.
    """
    wrapper: Callable[..., Any]
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def agenerator(*args: Any, **kwargs: Any) -> Any:
            rt = runtime.active()
            if rt is None:
                async for item in function(*args, **kwargs):
                    yield item
                return
            operation, body, subject = open_operation(rt, args, kwargs)
            items = astream(
                operation,
                body,
                final=list,
                chunks=_as_items,
                holds_back=lambda: subject.holds_back,
                on_first=_on_first(subject),
            )
            try:
                async for item in items:
                    yield item
            finally:
                await items.aclose()

        wrapper = agenerator
    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            rt = runtime.active()
            if rt is None:
                inner: Generator[Any, Any, Any] = function(*args, **kwargs)
                return (yield from inner)
            operation, body, subject = open_operation(rt, args, kwargs)
            yield from stream(
                operation,
                body,
                final=list,
                chunks=_as_items,
                holds_back=lambda: subject.holds_back,
                on_first=_on_first(subject),
            )
            return None

        wrapper = generator
    elif inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            rt = runtime.active()
            if rt is None:
                return await function(*args, **kwargs)
            operation, body, _ = open_operation(rt, args, kwargs)
            return await adrive(operation, body)

        wrapper = coroutine
    else:

        @functools.wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            rt = runtime.active()
            if rt is None:
                return function(*args, **kwargs)
            operation, body, _ = open_operation(rt, args, kwargs)
            return drive(operation, body)

        wrapper = plain
    return cast("F", wrapper)


def _as_items(result: Any) -> list[Any]:
    if isinstance(result, list):
        return cast("list[Any]", result)
    return [result]


def joined(raw: Any) -> Any:
    """Return the text of a generator's items, if they are texts."""
    if not isinstance(raw, list):
        return raw
    items = cast("list[Any]", raw)
    is_text = bool(items) and all(isinstance(item, str) for item in items)
    return "".join(items) if is_text else items
