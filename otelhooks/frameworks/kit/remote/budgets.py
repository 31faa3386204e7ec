# pyright: basic
"""Budgets for model calls of another process: enforced around them, from its reports.

There is no seat before such a call. A turn is not begun, or is stopped, if a budget would have
denied the next call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otelhooks import types
from otelhooks.hooks import drive, points
from otelhooks.hooks.registry import PointHooks
from otelhooks.pipeline import runtime
from otelhooks.pipeline.call_span import record
from otelhooks.pipeline.frames import Op, Turn, current_frame, current_scope
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.spending import spend
from otelhooks.records import semconv
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import exemplar, fail, put_on

__all__ = ["count", "spent"]

_METRICS = {
    "input_tokens": semconv.METRIC_GEN_AI_USAGE_INPUT_TOKENS,
    "output_tokens": semconv.METRIC_GEN_AI_USAGE_OUTPUT_TOKENS,
    "cache_read_input_tokens": semconv.METRIC_GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
    "reasoning_output_tokens": semconv.METRIC_GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
}


async def count(loop: Any, used: Mapping[str, int]) -> None:
    """Count tokens in the current turn."""
    rt = runtime.active()
    if rt is None:
        return
    op, gates = _operation(rt)
    _count(rt, loop, op, used)
    for registration in gates.gates:
        assert registration.gate is not None
        usage = types.Usage(**used)
        await drive.adrive(registration.gate.used(op.context, (loop.model,), usage))


@fails_open
def _count(rt: Runtime, loop: Any, op: Op, used: Mapping[str, int]) -> None:
    usage = op.turn.usage if op.turn is not None else {}
    counts = rt.shapes.model(loop.operation, loop.provider, loop.model, "", "").counts
    for name, tokens in used.items():
        usage[name] = usage.get(name, 0) + tokens
        counts[_METRICS[name]].add(tokens, exemplar(op.span))
    if rt.prices is not None:
        spend(op, rt.prices.cost((loop.model,), used), counts, exemplar(op.span))


async def spent(loop: Any) -> str:
    """Return why no further model call may be made in the current turn; empty if one may.

    Decision code: what cannot be counted denies, as the budget says.
    """
    rt = runtime.active()
    if rt is None:
        return ""
    op, gates = _operation(rt)
    if not gates.gates:
        return ""
    call = types.ModelCall(model=loop.model, provider=loop.provider, **rt.place(op))
    verdict, _ = await drive.adrive(
        points.pre_model_call(gates, op.context, call, rt.watch, rt.loaded.monitor)
    )
    if verdict.allowed and not verdict.observed:
        return ""
    put_on(op.span, rt.verdicts.attributes(verdict))
    if not verdict.allowed and rt.denied_status == "error" and op.span is not None:
        fail(op.span, *rt.verdicts.failure(verdict))
    return await drive.adrive(record(rt, op, verdict)) or ""


def _operation(rt: Runtime) -> tuple[Op, PointHooks]:
    """Return the current turn in the shape of an operation, and the gates for its calls."""
    frame = current_frame()
    turn = frame if isinstance(frame, Turn) else None
    session = turn.session if turn is not None else rt.outside
    branch = turn.branch if turn is not None else ""
    op = Op(session, turn, turn, None, turn.agent if turn is not None else "", branch)
    op.span = turn.span if turn is not None else None
    hooks, _ = rt.in_force(current_scope(), branch)
    return op, PointHooks(hooks.at("pre_model_call").gates)
