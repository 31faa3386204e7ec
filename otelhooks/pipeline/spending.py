"""What model calls have cost, by turn and by conversation.

Telemetry: an estimate by the prices in force, not what a provider bills. Calls whose cost is not
known are counted beside it, so that a sum never passes for the whole.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from otelhooks.telemetry import semconv

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import SpanContext

    from otelhooks.pipeline.frames import Op
    from otelhooks.telemetry.counters import Cell

__all__ = ["Spent", "spend"]


class Spent:
    """The cost of the model calls so far.

    Attributes:
        usd: US dollars of the calls whose cost is known.
        known: Number of these calls.
        unknown: Number of the others.
    """

    __slots__ = ("_lock", "known", "unknown", "usd")

    def __init__(self) -> None:
        self.usd: float = 0.0
        self.known: int = 0
        self.unknown: int = 0
        self._lock = threading.Lock()

    def add(self, cost: float | None) -> None:
        """Add a call; None if its cost is not known."""
        with self._lock:
            if cost is None:
                self.unknown += 1
            else:
                self.known += 1
                self.usd += cost

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of a span or event; none before the first call."""
        attributes: dict[str, Any] = {}
        if self.known:
            attributes[semconv.COST_USD] = self.usd
        if self.unknown:
            attributes[semconv.COST_UNKNOWN] = self.unknown
        return attributes


def spend(
    op: Op, cost: float | None, counts: Mapping[str, Cell], exemplar: SpanContext | None
) -> dict[str, Any]:
    """Add a model call's cost to its turn, the turns around it, its conversation and the metrics.

    Args:
        op: The call.
        cost: US dollars; None if it is not known.
        counts: Counters of the model, by metric.
        exemplar: Context of the sampled span that it belongs to, or None.

    Returns:
        The attributes of the call itself.
    """
    turn = op.turn
    while turn is not None:
        turn.spent.add(cost)
        turn = turn.outer.turn if turn.outer is not None else None
    op.session.spent.add(cost)
    if cost is None:
        counts[semconv.METRIC_COST_UNKNOWN].add(1, exemplar)
        return {semconv.COST_UNKNOWN: 1}
    counts[semconv.METRIC_COST_USD].add(cost, exemplar)
    return {semconv.COST_USD: cost}
