"""Streams that are asynchronous context managers, as operations.

Such a stream has five ends: it is read to its end, left early, fails before its end or after it,
and a hook may recover from a failure. Each of them ends the operation once.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import attach, detach

from otelhooks.pipeline.drivers import Closed, Operation, Split

__all__ = ["opened"]


class _Inner:
    """The framework's context manager, entered and left in the operation's context.

    What the framework itself puts into the context as it is entered stays until it is left, when
    the framework takes it out; detaching ours before that would undo it.
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
        body: Function of what was approved, giving the framework's context manager.
        final: Function of what that gave, giving the result that the operation is handed.
        chunks: Function of a result that hooks made, giving what the consumer gets instead.
        holds_back: Whether the consumer must wait for the verdict on the whole.
        on_first: Called with what the context manager gave.
        late: Called with a result that hooks made when the consumer had seen the framework's.
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
            # what its consumer has seen cannot be taken back: hooks look on
            with contextlib.suppress(type(error)):
                await split.afail(error)
            raise
        raw = result = await split.afail(error)
    if held:
        yield chunks(result)
    elif result is not raw:
        late(result)
