"""The shortening of a conversation's history, on its way through a seat: hooks look on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otelhooks.frameworks.kit.passages import Passage
from otelhooks.pipeline.compaction import compaction
from otelhooks.pipeline.drivers import Operation
from otelhooks.pipeline.runtime import Runtime

__all__ = ["Compaction"]


class Compaction(Passage):
    """One shortening; an adapter derives a class of its own, with nothing in it in most cases."""

    must = ()
    words = "summary"

    def read(self, owner: Any, *args: Any, **kwargs: Any) -> Any:
        self._given = (args, kwargs)

    def summary(self, raw: Any) -> str:
        """Return the text that replaces the history, in what the function returned."""
        return str(raw)

    def steps(self, rt: Runtime) -> Operation:
        return compaction(rt, self.summary)

    def run(self, wrapped: Callable[..., Any], approved: Any) -> Any:
        args, kwargs = self._given
        return wrapped(*args, **kwargs)
