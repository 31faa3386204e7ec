"""A function of any kind, wrapped so that each of its calls runs as an operation."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, TypeVar, cast

from opentelemetry.context import attach, detach

from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import HoldsBack, Operation, Split, adrive, drive
from otelhooks.pipeline.model_call import ModelRequest
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.streams import OnFirst, astream, stream

__all__ = ["F", "Open", "Opened", "joined", "name_of", "wrap"]

F = TypeVar("F", bound=Callable[..., Any])


# An operation that is not started, the user's function taking what was approved, and an object that
# says, once it is decided, whether a generator's items must wait for hooks.
Opened = tuple[Operation, Callable[[Any], Any], HoldsBack]
Open = Callable[[Runtime, tuple[Any, ...], dict[str, Any]], Opened]


def _on_first(subject: HoldsBack) -> OnFirst:
    """Return the callback for the first item; only models record its time."""
    return subject.note_first_chunk if isinstance(subject, ModelRequest) else lambda: None


def name_of(function: Any, decorator: str) -> str:
    """Return the name of a function that a decorator gets.

    Raises:
        TypeError: It is not a function, or has no name.
    """
    if isinstance(function, (classmethod, staticmethod)):
        kind = type(function).__name__  # pyright: ignore[reportUnknownArgumentType]
        raise TypeError(f"write `@{kind}` above `@otelhooks.{decorator}`, not below it")
    if not callable(function):
        raise TypeError(
            f"`@otelhooks.{decorator}` decorates a function, not {function!r}"
            f"\nhint: write `@otelhooks.{decorator}(name=...)` to give it another name"
        )
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = cast("Any", inner).func
    name = getattr(inner, "__name__", None)
    if name is None:
        raise TypeError(
            f"{function!r} has no name"
            f"\nhint: write `otelhooks.{decorator}(name=...)` to give it one"
        )
    return name


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
            operation, body, subject = open_operation(rt, args, kwargs)
            later = functools.partial(_later, body, subject)
            return await adrive(operation, body, later, subject)

        wrapper = coroutine
    else:

        @functools.wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            rt = runtime.active()
            if rt is None:
                return function(*args, **kwargs)
            operation, body, subject = open_operation(rt, args, kwargs)
            return drive(operation, body, functools.partial(_later, body, subject), subject)

        wrapper = plain
    return cast("F", wrapper)


def _later(body: Callable[[Any], Any], subject: HoldsBack, split: Split, raw: Any) -> Any:
    """Return what stands for a result that is still to come, and ends its operation with it."""
    if inspect.isawaitable(raw):
        awaited = _awaited(body, split, raw)
        return asyncio.ensure_future(awaited) if asyncio.isfuture(raw) else awaited
    first = [raw]
    run = astream if isinstance(raw, AsyncIterator) else stream
    return run(
        split,
        lambda approved: first.pop() if first else body(approved),
        final=list,
        chunks=_as_items,
        holds_back=lambda: subject.holds_back,
        on_first=_on_first(subject),
    )


async def _awaited(body: Callable[[Any], Any], split: Split, raw: Awaitable[Any]) -> Any:
    while True:  # more than once if a stop hook continues an agent
        token = attach(split.context)  # type: ignore[arg-type]  # set while it proceeds
        error: BaseException | None = None
        value: Any = None
        try:
            value = await raw
        except GeneratorExit:
            split.abandon()
            raise
        except BaseException as raised:  # handed to the operation
            error = raised
        finally:
            detach(token)
        result = await (split.afinish(value) if error is None else split.afail(error))
        if not split.proceeds:
            return result
        raw = body(split.value)


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
