"""Blocks of code that can be written as ``with``, or as a decorator of a function."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

__all__ = ["Block", "block"]

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Block(Generic[T]):
    """A block: for one ``with``, or for each call of a function that it decorates.

    Args:
        open: Returns a context manager for one use.
    """

    def __init__(self, open: Callable[[], contextlib.AbstractContextManager[T]]) -> None:
        self._open = open
        self._once = open()

    def __enter__(self) -> T:
        return self._once.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool | None:
        return self._once.__exit__(kind, error, tb)

    def __call__(self, function: F) -> F:
        """Run each call of a plain or coroutine function inside.

        Raises:
            TypeError: It is a generator function, whose consumer would be inside as well.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"`{function.__qualname__}` is a generator function, which this cannot decorate"
                "\nhint: write `with` around the loop that reads it, or around its steps"
            )
        is_coroutine = inspect.iscoroutinefunction(function)

        @functools.wraps(function)
        def plain(*args: Any, **kwargs: Any) -> Any:
            with self._open():
                value = function(*args, **kwargs)
            return _inside(self._open, value) if inspect.isawaitable(value) else value

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with self._open():
                return await function(*args, **kwargs)

        return coroutine if is_coroutine else plain  # type: ignore[return-value]


async def _inside(
    open: Callable[[], contextlib.AbstractContextManager[Any]], value: Awaitable[Any]
) -> Any:
    with open():
        return await value


def block(function: Callable[P, Generator[T, None, None]]) -> Callable[P, Block[T]]:
    """Make a function of a generator with one ``yield``, as `contextlib.contextmanager` does."""
    make = contextlib.contextmanager(function)

    @functools.wraps(function)
    def opened(*args: P.args, **kwargs: P.kwargs) -> Block[T]:
        return Block(functools.partial(make, *args, **kwargs))

    return opened
