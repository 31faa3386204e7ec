"""What a trace used in total: tokens and cost of its model calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from otelhooks.records import semconv

__all__ = ["Totals", "add_up", "is_agent"]

_TOKENS = (semconv.GEN_AI_USAGE_INPUT_TOKENS, semconv.GEN_AI_USAGE_OUTPUT_TOKENS)
_AGENTS = (semconv.OP_INVOKE_AGENT, semconv.OP_INVOKE_WORKFLOW)


@dataclass(frozen=True, slots=True)
class Totals:
    """Tokens and cost.

    Attributes:
        input_tokens: Tokens that models read; None if no span says so.
        output_tokens: Tokens that models wrote; None if no span says so.
        cost_usd: US dollars of the calls whose cost is known; None if there are none.
        cost_unknown: Number of model calls whose cost is not known.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    cost_unknown: int = 0


def is_agent(attributes: Mapping[str, Any]) -> bool:
    """Return whether these are the attributes of a turn, or of a sub-agent's work."""
    return attributes.get(semconv.GEN_AI_OPERATION_NAME) in _AGENTS


def add_up(spans: Iterable[tuple[str, str | None, Mapping[str, Any]]]) -> Totals:
    """Add up the spans of one trace, each model call once.

    Tokens are those of the model calls; if none has any, those of the agents. A call that two
    libraries trace, one span inside the other's, counts once. The cost of an agent includes that of
    everything below it, so only the outermost ones count.

    Args:
        spans: Span id, parent's id and attributes of each.
    """
    listed = list(spans)
    parents = {span_id: parent for span_id, parent, _ in listed}
    priced = {
        span_id
        for span_id, _, attributes in listed
        if semconv.COST_USD in attributes or semconv.COST_UNKNOWN in attributes
    }
    cost: float | None = None
    unknown = 0
    for span_id, _, attributes in listed:
        if span_id in priced and not _is_below(span_id, priced, parents):
            if isinstance(known := attributes.get(semconv.COST_USD), (int, float)):
                cost = (cost or 0.0) + known
            unknown += _number(attributes, semconv.COST_UNKNOWN) or 0
    calls = {
        span_id: attributes
        for span_id, _, attributes in listed
        if not is_agent(attributes) and any(name in attributes for name in _TOKENS)
    }
    within = {span_id: parent for span_id, parent, attributes in listed if not _runs(attributes)}
    once = [calls[span_id] for span_id in calls if not _is_below(span_id, calls.keys(), within)]
    counted = once or [attributes for _, _, attributes in listed]
    read, written = (_sum(counted, name) for name in _TOKENS)
    return Totals(read, written, cost, unknown)


def _runs(attributes: Mapping[str, Any]) -> bool:
    """Return whether an agent or a tool works in a span: model calls below it are its own."""
    return is_agent(attributes) or (
        attributes.get(semconv.GEN_AI_OPERATION_NAME) == semconv.OP_EXECUTE_TOOL
    )


def _is_below(span_id: str, ids: Set[str], parents: Mapping[str, str | None]) -> bool:
    seen = {span_id}  # broken ids may form a circle
    parent = parents.get(span_id)
    while parent is not None and parent not in seen:
        if parent in ids:
            return True
        seen.add(parent)
        parent = parents.get(parent)
    return False


def _sum(spans: Iterable[Mapping[str, Any]], name: str) -> int | None:
    found = [_number(attributes, name) for attributes in spans]
    numbers = [number for number in found if number is not None]
    return sum(numbers) if numbers else None


def _number(attributes: Mapping[str, Any], name: str) -> int | None:
    value = attributes.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
