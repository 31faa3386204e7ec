"""Values that are kept here and passed to the SDK's histograms when a reader collects.

The SDK takes twenty times as long for a value as a cell does. Used through
`otelhooks.telemetry.metrics`.

Source: design.md section 14 rule 4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING

from otelhooks.telemetry.counters import Series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opentelemetry.trace import SpanContext

    from otelhooks.telemetry.counters import AttributeValue

__all__ = ["CellHistogram", "HistogramCell", "Waiting"]


class Waiting:
    """How many values wait in all cells together.

    Args:
        limit: Number of values at which `relieve` is called.
        relieve: Makes room; takes the cell that the last value is in.

    Attributes:
        number: Number of values; threads that record at once may count one too few, never none.
        is_silent: Whether values go nowhere.
    """

    __slots__ = ("is_silent", "limit", "number", "relieve")

    def __init__(self, limit: int, relieve: Callable[[HistogramCell], None]) -> None:
        self.limit: int = limit
        self.relieve: Callable[[HistogramCell], None] = relieve
        self.number: int = 0
        self.is_silent: bool = True


class HistogramCell:
    """One attribute set of one histogram: its values, and the newest exemplar of each bucket.

    The SDK keeps the last exemplar of a bucket, at a third of the cost of a value: those that it
    would replace at once are not passed on. Without a lock: threads and signal handlers may
    record while another thread takes the values away.
    """

    __slots__ = ("_buckets", "_newest", "_waiting", "attributes", "values")

    def __init__(
        self, attributes: dict[str, AttributeValue], buckets: Sequence[float], waiting: Waiting
    ) -> None:
        self.attributes: dict[str, AttributeValue] = attributes
        self.values: deque[float] = deque()
        self._buckets = buckets
        self._newest: dict[int, tuple[float, SpanContext]] = {}
        self._waiting = waiting

    def record(self, value: float, exemplar: SpanContext | None = None) -> None:
        """Keep a value for the next collection.

        Args:
            value: Seconds, or tokens.
            exemplar: Context of the sampled span this belongs to, or None.
        """
        waiting = self._waiting
        if waiting.is_silent:
            return
        self.values.append(value)
        if exemplar is not None:
            self._newest[bisect_left(self._buckets, value)] = value, exemplar
        waiting.number += 1
        if waiting.number >= waiting.limit:
            waiting.relieve(self)

    def take(self) -> Iterator[tuple[float, SpanContext | None]]:
        """Take the values out, oldest first, each with the exemplar to keep, if any."""
        newest, self._newest = self._newest, {}
        exemplars = dict(newest.values())
        for _ in range(len(self.values)):
            try:
                value = self.values.popleft()
            except IndexError:
                break  # the oldest was dropped
            yield value, exemplars.pop(value, None)

    def after_fork(self) -> None:
        """Drop what the parent reports."""
        self.values.clear()
        self._newest.clear()


class CellHistogram(Series[HistogramCell]):
    """A histogram whose values are kept here until a collection.

    Args:
        name: Metric name.
        buckets: Upper bounds.
        waiting: Counts the waiting values of all histograms.
    """

    def __init__(self, name: str, buckets: Sequence[float], waiting: Waiting) -> None:
        super().__init__(name)
        self._buckets = buckets
        self._waiting = waiting

    def _make(self, attributes: dict[str, AttributeValue]) -> HistogramCell:
        return HistogramCell(attributes, self._buckets, self._waiting)

    def after_fork(self) -> None:
        """Renew the lock in a forked child, and drop what the parent reports."""
        for cell in self._renewed():
            cell.after_fork()
