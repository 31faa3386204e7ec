"""Functions that return a stream: it belongs to the context of their call, wherever it is read."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Generator
from typing import Any

from opentelemetry.context import Context, attach, detach, get_current

from otelhooks.frameworks.kit.objects.functions import ASYNC_GENERATOR, GENERATOR
from otelhooks.frameworks.kit.passages import SKIP, Passage

__all__ = ["returning"]


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

    return _read(get_current(), of.through(GENERATOR, items, owner, *args, **kwargs))


async def _areturned(
    of: type[Passage], function: Any, owner: Any, /, *args: Any, **kwargs: Any
) -> Any:
    async def items(*args: Any, **kwargs: Any) -> Any:
        async for item in await function(*args, **kwargs):
            yield item

    return _aread(get_current(), of.through(ASYNC_GENERATOR, items, owner, *args, **kwargs))


def _read(context: Context, items: Any) -> Generator[Any, None, None]:
    try:
        while True:
            token = attach(context)
            try:
                item = next(items, _END)
            finally:
                detach(token)
            if item is _END:
                return
            yield item
    finally:
        items.close()


async def _aread(context: Context, items: Any) -> AsyncGenerator[Any, None]:
    try:
        while True:
            token = attach(context)
            try:
                item = await anext(items, _END)
            finally:
                detach(token)
            if item is _END:
                return
            yield item
    finally:
        await items.aclose()


_END: Any = object()
