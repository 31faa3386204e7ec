# pyright: basic
"""Streams that a framework passes to a callback of the application's, chunk by chunk.

The function itself returns the whole result. So a result that never streamed, such as a refusal,
is passed to the callback here, and chunks that a hook may still change are held back until it has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from otelhooks.frameworks.kit import models, runs
from otelhooks.frameworks.kit.passages import Passage

__all__ = ["ModelCall", "Run"]


class _ToCallback(Passage):
    """What both have in common.

    Attributes:
        callback: The application's function; None if it reads no stream.
    """

    words = "callback heard"
    callback: Callable[[Any], Any] | None = None

    _has_run = False

    def run(self, wrapped: Callable[..., Any], approved: Any) -> Any:
        self._has_run = True
        return super().run(wrapped, approved)

    def deliver(self, item: Any) -> Any:
        if self.callback is not None:
            for chunk in self._chunks(item):
                yield self.callback(chunk)
        return [item]

    def _chunks(self, item: Any) -> Iterable[Any]:
        return () if self._has_run else self.told(item)


class Run(_ToCallback, runs.Run):
    """A run whose chunks the framework passes on. `told` returns those that tell a refusal."""

    must = (*runs.Run.must, "told")


class ModelCall(_ToCallback, models.ModelCall):
    """A model call whose chunks go to `heard`. `told` returns those that tell another answer."""

    must = (*models.ModelCall.must, "told")

    _held: list[Any] | None = None
    _is_heard = _is_changed = False
    _note_next: Callable[[], None] | None = None

    def heard(self) -> Callable[[Any], Any] | None:
        """Return what `call` hands on instead of the callback."""
        if self.callback is None:
            return None
        if self.must_wait():
            self._held = []
        is_async = inspect.iscoroutinefunction(self.callback)
        return self._hear_async if is_async else self._hear

    def _hear(self, chunk: Any) -> Any:
        if not self._is_heard:
            self._is_heard, self._note_next = True, self.note_first_chunk()
        elif self._note_next is not None:
            self._note_next()
        if self._held is None:
            return self.callback(chunk)  # type: ignore[misc]
        self._held.append(chunk)
        return None

    async def _hear_async(self, chunk: Any) -> None:
        given = self._hear(chunk)
        if given is not None:
            await given

    def changed(self, raw: Any, response: Any) -> Any:
        self._is_changed = True
        return super().changed(raw, response)

    def _chunks(self, item: Any) -> Iterable[Any]:
        if self._has_run and (self._held is None or not self._is_changed):
            return self._held or ()
        return self.told(item)
