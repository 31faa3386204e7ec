"""Functions that return a stream: it belongs to the context of their call, wherever it is read."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any

from opentelemetry.context import Context, attach, detach, get_current

from otelhooks.frameworks.kit.objects.functions import ASYNC_GENERATOR, GENERATOR
from otelhooks.frameworks.kit.passages import SKIP, Passage

__all__ = ["returning", "stepped"]


def returning(of: type[Passage]) -> type[Passage]:
    """Return the class for a seat whose function returns a generator, awaited or not.

    Args:
        of: Class of what passes when the generator is read, as for a function that is one.
    """

    class Returning(Passage):
        framework = of.framework
        must = ()

        def read(self, owner: Any, /, *args: Any, **kwargs: Any) -> Any:
            found = _areturned if self.is_async else _returned
            self.function = functools.partial(found, of, self.function, owner)
            return SKIP

    return Returning


def _returned(of: type[Passage], function: Any, owner: Any, /, *args: Any, **kwargs: Any) -> Any:
    def items(*args: Any, **kwargs: Any) -> Any:
        yield from function(*args, **kwargs)

    read = of.through(GENERATOR, items, owner, *args, **kwargs)
    return stepped(read, functools.partial(_attached, get_current()))


async def _areturned(
    of: type[Passage], function: Any, owner: Any, /, *args: Any, **kwargs: Any
) -> Any:
    async def items(*args: Any, **kwargs: Any) -> Any:
        async for item in await function(*args, **kwargs):
            yield item

    read = of.through(ASYNC_GENERATOR, items, owner, *args, **kwargs)
    return stepped(read, functools.partial(_attached, get_current()))


def stepped(items: Any, block: Callable[[], AbstractContextManager[Any]]) -> Any:
    """Return a stream whose items are made inside a block, one by one.

    Args:
        items: A stream, plain or asynchronous.
        block: Creates the block for each item.
    """
    return _asteps(items, block) if hasattr(items, "__anext__") else _steps(items, block)


def _steps(items: Any, block: Callable[[], Any]) -> Generator[Any, None, None]:
    try:
        while True:
            with block():
                item = next(items, _END)
            if item is _END:
                return
            yield item
    finally:
        items.close()


async def _asteps(items: Any, block: Callable[[], Any]) -> AsyncGenerator[Any, None]:
    try:
        while True:
            with block():
                item = await anext(items, _END)
            if item is _END:
                return
            yield item
    finally:
        await items.aclose()


_END: Any = object()


@contextlib.contextmanager
def _attached(context: Context) -> Generator[None, None, None]:
    token = attach(context)
    try:
        yield
    finally:
        detach(token)
