"""Where the cost of a model call is added up.

Telemetry: an estimate by the prices in force, not what a provider bills. Calls whose cost is not
known are counted beside it, so that a sum never passes for the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from otelhooks.records import semconv

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from otelhooks.pipeline.frames import Op
    from otelhooks.telemetry.counters import Cell

__all__ = ["spend"]


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
