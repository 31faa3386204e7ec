"""The shortening of a conversation's history at a seat: hooks only observe it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otelhooks.frameworks.kit.passages import Passage
from otelhooks.pipeline.compaction import compaction
from otelhooks.pipeline.drivers import Operation
from otelhooks.pipeline.runtime import Runtime

__all__ = ["Compaction"]


class Compaction(Passage):
    """One shortening; an adapter derives a class of its own, which is usually empty."""

    must = ()
    words = "summary"

    def read(self, owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        self._given = (args, kwargs)

    def summary(self, raw: Any) -> str:
        """Return the text that replaces the history, from what the function returned."""
        return str(raw)

    def steps(self, rt: Runtime) -> Operation:
        return compaction(rt, self.summary)

    def run(self, wrapped: Callable[..., Any], approved: Any) -> Any:
        args, kwargs = self._given
        return wrapped(*args, **kwargs)
