"""Streams that are asynchronous context managers, as operations.

Such a stream has five ends: it is read to its end, left early, fails before or after its end, or a
hook recovers from a failure. Each of them ends the operation once.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import attach, detach

from otelhooks.pipeline.drivers import Closed, Operation, Split

__all__ = ["noted", "opened"]


def noted(stream: Any, method: str, note: Callable[[], Callable[[], None] | None]) -> None:
    """Note the items of a stream.

    Args:
        stream: The framework's stream.
        method: Name of its method that returns the items.
        note: Called when the first item has come; returns what is called for each of the others,
            if anything.
    """
    items = getattr(stream, method)

    async def noting() -> AsyncGenerator[Any, None]:
        is_first, note_next = True, None
        async for item in items():
            if is_first:
                is_first, note_next = False, note()
            elif note_next is not None:
                note_next()
            yield item

    setattr(stream, method, noting)


class _Inner:
    """The framework's context manager, entered and left in the operation's context.

    Values that the framework puts into the context on entry stay until exit, when the framework
    removes them; detaching our context before that would undo it.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._token: Any = None

    async def enter(self, make: Callable[[], Any]) -> Any:
        token = attach(self._context)
        ours = otel_context.get_current()
        try:
            self._manager = make()
            return await self._manager.__aenter__()
        finally:
            if otel_context.get_current() is ours:
                detach(token)
            else:
                self._token = token

    async def leave(self, *failure: Any) -> Any:
        token = self._token if self._token is not None else attach(self._context)
        try:
            return await self._manager.__aexit__(*failure)
        finally:
            detach(token)


@contextlib.asynccontextmanager
async def opened(
    operation: Operation,
    body: Callable[[Any], Any],
    *,
    final: Callable[[Any], Any],
    chunks: Callable[[Any], Any],
    holds_back: Callable[[], bool],
    on_first: Callable[[Any], None],
    late: Callable[[Any], None],
) -> AsyncGenerator[Any, None]:
    """Run an operation whose body is a function that returns an asynchronous context manager.

    Args:
        operation: Not started.
        body: Takes what was approved; returns the framework's context manager.
        final: Takes the manager's value; returns the result that the operation gets.
        chunks: Takes a result that hooks made; returns what the consumer gets instead.
        holds_back: Whether the consumer must wait for the verdict on the whole.
        on_first: Called with the manager's value.
        late: Called with a result that hooks made after the consumer had seen the framework's.
    """
    split = await Split(operation).abegin()
    if not split.proceeds:
        yield chunks(split.finish(None))
        return
    inner, held = _Inner(split.context), holds_back()
    stream: Any = None
    try:
        stream = await inner.enter(lambda: body(split.value))
        try:
            if held:
                async for _ in stream:
                    pass
            else:
                on_first(stream)
                yield stream
        except BaseException:
            if not await inner.leave(*sys.exc_info()):
                raise
        else:
            await inner.leave(None, None, None)
        raw = final(stream)
        result = await split.afinish(raw)
    except GeneratorExit:
        await split.afinish(Closed(final(stream)))
        raise
    except BaseException as error:
        if not held or not split.proceeds:
            # what the consumer has seen cannot be undone: hooks only observe
            with contextlib.suppress(type(error)):
                await split.afail(error)
            raise
        raw = result = await split.afail(error)
    if held:
        yield chunks(result)
    elif result is not raw:
        late(result)
