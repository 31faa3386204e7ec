"""Sums that are kept here and read by an observable counter at collection.

An increment is an addition under a lock: no SDK call, no attribute dictionary, no allocation.
Used through `otelhooks.telemetry.metrics`.

Source: design.md section 14 rule 4.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from opentelemetry.context import Context
from opentelemetry.metrics import Observation
from opentelemetry.trace import NonRecordingSpan, set_span_in_context

from otelhooks.plain_text import encodable
from otelhooks.records import semconv

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import SpanContext

    AttributeValue: TypeAlias = str | bool | int | float
    Attributes: TypeAlias = Mapping[str, AttributeValue]

_log = logging.getLogger("otelhooks.telemetry")

MAX_SERIES = 2_000
"""Attribute sets of one counter, the overflow series included (what the SDK holds by default)."""

# Not empty: the SDK treats an empty Context as none and uses the collecting thread's instead.
_NO_SPAN = Context({"no span": True})


def exemplar_context(span_context: SpanContext | None) -> Context:
    """Return a context with the span that the SDK reads an exemplar's trace and span id from."""
    if span_context is None:
        return _NO_SPAN
    return set_span_in_context(NonRecordingSpan(span_context), _NO_SPAN)


class Cell:
    """One attribute set of one counter."""

    __slots__ = ("attributes", "exemplar", "lock", "value")

    def __init__(self, attributes: dict[str, AttributeValue]) -> None:
        self.attributes: dict[str, AttributeValue] = attributes
        self.value: float = 0
        self.exemplar: SpanContext | None = None
        self.lock: threading.Lock = threading.Lock()

    def add(self, amount: float = 1, exemplar: SpanContext | None = None) -> None:
        """Add to the sum.

        Args:
            amount: Not negative; in the unit of the counter.
            exemplar: Context of the sampled span that caused it, or None.
        """
        with self.lock:
            self.value += amount
        if exemplar is not None:
            self.exemplar = exemplar

    def observe(self) -> Observation:
        """Read the sum; the exemplar is returned once, so that it is not reported as new twice."""
        exemplar, self.exemplar = self.exemplar, None
        return Observation(self.value, self.attributes, exemplar_context(exemplar))

    def after_fork(self, *, reset: bool) -> None:
        """Replace the lock, which another thread of the parent may have held."""
        self.lock = threading.Lock()
        self.exemplar = None
        if reset:
            self.value = 0


class Timing:
    """The number of runs with one attribute set, and their total time: two cells.

    Args:
        times: Number of runs.
        seconds: Total time.
    """

    __slots__ = ("_seconds", "_times")

    def __init__(self, times: Cell, seconds: Cell) -> None:
        self._times = times
        self._seconds = seconds

    def add(self, seconds: float, exemplar: SpanContext | None = None) -> None:
        """Count one more run.

        Args:
            seconds: How long it took.
            exemplar: Context of the sampled span that caused it, or None.
        """
        counted = self._times
        with counted.lock:  # the two are always added to together
            counted.value += 1
            self._seconds.value += seconds
        if exemplar is not None:
            counted.exemplar = exemplar


C = TypeVar("C")


class Series(Generic[C]):
    """The cells of one instrument, one for each attribute set.

    Args:
        name: Metric name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._cells: dict[frozenset[tuple[str, AttributeValue]], C] = {}
        self._overflow: C | None = None
        # Reentrant: a signal handler may run a governed call, or collect.
        self._lock = threading.RLock()

    def _make(self, attributes: dict[str, AttributeValue]) -> C:
        raise NotImplementedError

    def cell(self, attributes: Attributes) -> C:
        """Find or create the cell of an attribute set.

        Args:
            attributes: Copied. Beyond `MAX_SERIES` sets every new one is the same overflow cell.
        """
        key = frozenset(attributes.items())
        with self._lock:
            cell = self._cells.get(key)
            if cell is not None:
                return cell
            if len(self._cells) < MAX_SERIES - 1:
                cell = self._cells[key] = self._make(encodable(dict(attributes)))
                return cell
            return self._overflow_cell()

    def _overflow_cell(self) -> C:
        if self._overflow is None:
            self._overflow = self._make({semconv.METRIC_OVERFLOW: True})
            _log.warning(
                "metric `%s` has more than %d attribute sets, the rest is counted together",
                self.name,
                MAX_SERIES - 1,
            )
        return self._overflow

    def cells(self) -> list[C]:
        """List all cells, the overflow cell last."""
        with self._lock:
            cells = list(self._cells.values())
            if self._overflow is not None:
                cells.append(self._overflow)
        return cells

    def _renewed(self) -> list[C]:
        self._lock = threading.RLock()
        return self.cells()


class CellCounter(Series[Cell]):
    """A monotonic counter whose sums are kept here and read at collection.

    A cell is reported from 0 on, as soon as it exists.
    """

    def _make(self, attributes: dict[str, AttributeValue]) -> Cell:
        return Cell(attributes)

    def take_over(self, other: CellCounter) -> None:
        """Add the sums of a predecessor on the same provider: a sum must never fall."""
        for cell in other.cells():
            if semconv.METRIC_OVERFLOW in cell.attributes:
                self._overflow_cell().add(cell.value)
            else:
                self.cell(cell.attributes).add(cell.value)

    def after_fork(self, *, reset: bool) -> None:
        """Renew the locks in a forked child.

        Args:
            reset: Set the sums to 0; the cells stay.
        """
        for cell in self._renewed():
            cell.after_fork(reset=reset)
