# pyright: basic
"""What a consumer gets for a result or an item of a stream, and what an adapter does meanwhile.

The adapter writes this once, as generator functions, for plain and coroutine functions: what they
yield is a value already, or is awaited here.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from otelhooks.pipeline.drivers import Operation

__all__ = ["aitems", "aresult", "items", "result"]

Run = Callable[..., Any]
Body = Callable[[Any], Any]


def items(passage: Any, run: Run, operation: Operation, body: Body) -> Generator[Any, Any, None]:
    """Yield what a passage delivers for each item.

    Args:
        passage: The call.
        run: Its driver.
        operation: The driven operation.
        body: The framework's own call.
    """
    given = run(operation, body)
    try:
        for item in given:
            found = _now(passage.deliver(item))
            if passage.is_over:
                rest = [_now(passage.deliver(more)) for more in list(given)]
                found = [*found, *(each for more in rest for each in more)]
            yield from found
        _now(passage.delivered())
    finally:
        given.close()


async def aitems(
    passage: Any, run: Run, operation: Operation, body: Body
) -> AsyncGenerator[Any, None]:
    """Like `items`, for an asynchronous stream."""
    given = run(operation, body)
    try:
        async for item in given:
            found = await _awaited(passage.deliver(item))
            if passage.is_over:
                rest = [await _awaited(passage.deliver(more)) for more in [_ async for _ in given]]
                found = [*found, *(each for more in rest for each in more)]
            for each in found:
                yield each
        await _awaited(passage.delivered())
    finally:
        await given.aclose()


def result(passage: Any, run: Run, operation: Operation, body: Body) -> Any:
    """Return what a passage delivers for a result."""
    (found,) = _now(passage.deliver(run(operation, body)))
    _now(passage.delivered())
    return found


async def aresult(passage: Any, run: Run, operation: Operation, body: Body) -> Any:
    """Like `result`, for a coroutine."""
    (found,) = await _awaited(passage.deliver(await run(operation, body)))
    await _awaited(passage.delivered())
    return found


def _now(steps: Any) -> Any:
    """Return the result of a generator function that yields values, or of a plain function."""
    if type(steps) is not types.GeneratorType:
        return steps
    value: Any = None
    while True:
        try:
            value = steps.send(value)
        except StopIteration as stop:
            return stop.value


async def _awaited(steps: Any) -> Any:
    """Like `_now`, but await awaitable values."""
    if type(steps) is not types.GeneratorType:
        return steps
    go_on: Any = steps.send
    value: Any = None
    while True:
        try:
            value = go_on(value)
        except StopIteration as stop:
            return stop.value
        go_on = steps.send
        if inspect.isawaitable(value):
            try:
                value = await value
            except BaseException as error:
                go_on, value = steps.throw, error
