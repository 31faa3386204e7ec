# pyright: basic
"""A framework's stream object whose items come from elsewhere."""

from __future__ import annotations

from typing import Any

from otelhooks.patching.fields import Proxy

__all__ = ["Iterated"]


class Iterated(Proxy):
    """Wraps a stream, plain or asynchronous; only its items and its end are ours.

    Args:
        stream: The framework's, whose class it shows.
        items: A generator, plain or asynchronous, that reads the stream.
    """

    def __init__(self, stream: Any, items: Any) -> None:
        super().__init__(stream)
        self._self_items = items

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self._self_items)

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        return await anext(self._self_items)

    def close(self) -> None:
        """End what reads the stream, and the stream."""
        self._self_items.close()
        if hasattr(self.__wrapped__, "close"):
            self.__wrapped__.close()

    async def aclose(self) -> None:
        """As `close`."""
        await self._self_items.aclose()
        if hasattr(self.__wrapped__, "aclose"):
            await self.__wrapped__.aclose()
