"""Tokens of model calls, which the harness makes, and budgets, which are kept around them.

No seat lies before a model call. The harness tells what one has used as soon as it has answered;
a turn is not begun, or is stopped, where a budget would have denied the next one.
"""
# pyright: basic

from __future__ import annotations

from typing import Any

from otelhooks import types
from otelhooks.frameworks.google_antigravity.state import Connected, inside
from otelhooks.hooks import drive, points
from otelhooks.hooks.registry import PointHooks
from otelhooks.pipeline.call_span import record
from otelhooks.pipeline.frames import Op, Turn, current_frame, current_scope
from otelhooks.pipeline.runtime import Runtime
from otelhooks.telemetry import semconv
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import exemplar, fail, put_on
from otelhooks.telemetry.verdicts import error_type_of

__all__ = ["count_tokens", "spent", "tokens_of"]

_PROVIDER = "gcp.gemini"

_METRICS = {
    "input_tokens": semconv.METRIC_GEN_AI_USAGE_INPUT_TOKENS,
    "output_tokens": semconv.METRIC_GEN_AI_USAGE_OUTPUT_TOKENS,
    "cache_read_input_tokens": semconv.METRIC_GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
    "reasoning_output_tokens": semconv.METRIC_GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
}


def tokens_of(usage: Any) -> dict[str, int]:
    """Return the tokens in the SDK's or the harness's record of a usage."""

    def count(name: str) -> int:
        return getattr(usage, f"{name}_token_count", None) or 0

    thoughts = count("thoughts")
    return {
        "input_tokens": count("prompt"),
        "output_tokens": count("candidates") + thoughts,
        "cache_read_input_tokens": count("cached_content"),
        "reasoning_output_tokens": thoughts,
    }


async def count_tokens(rt: Runtime, state: Connected, total: Any) -> None:
    """Count what model calls have used since the last time; stop the turn if that was too much."""
    before, state.used = state.used, tokens_of(total)
    used = {name: n - before.get(name, 0) for name, n in state.used.items()}
    used = {name: n for name, n in used.items() if n > 0}
    turn = state.turn
    if not used or turn is None or not turn.is_open:
        return
    with inside(turn.split.context):
        op, gates = _operation(rt)
        _count(rt, state, op, used)
        for registration in gates.gates:
            assert registration.gate is not None
            usage = types.Usage(**used)
            await drive.adrive(registration.gate.used(op.context, (state.model,), usage))
        if gates.gates and not state.is_answering:
            reason = await spent(rt, state)
            if reason:
                await state.halt(reason)


@fails_open
def _count(rt: Runtime, state: Connected, op: Op, used: dict[str, int]) -> None:
    usage = op.turn.usage if op.turn is not None else {}
    for name, tokens in used.items():
        usage[name] = usage.get(name, 0) + tokens
        shape = semconv.OP_GENERATE_CONTENT, _PROVIDER, state.model
        rt.shapes.token_cell(_METRICS[name], *shape).add(tokens, exemplar(op.span))


async def spent(rt: Runtime, state: Connected) -> str:
    """Return why there may be no further model call in the turn that is current; empty if one may.

    Decision code: what cannot be counted denies, as the budget says.
    """
    op, gates = _operation(rt)
    if not gates.gates:
        return ""
    call = types.ModelCall(model=state.model, provider=_PROVIDER, **rt.place(op))
    verdict, _ = await drive.adrive(
        points.pre_model_call(gates, op.context, call, rt.watch, rt.loaded.monitor)
    )
    if verdict.allowed and not verdict.observed:
        return ""
    put_on(op.span, rt.verdicts.attributes(verdict))
    if not verdict.allowed and rt.denied_status == "error" and op.span is not None:
        fail(op.span, error_type_of(verdict) or "", verdict.reason)
    return await drive.adrive(record(rt, op, verdict)) or ""


def _operation(rt: Runtime) -> tuple[Op, PointHooks]:
    """Return the turn that is current in the shape of an operation, and the gates for its calls."""
    frame = current_frame()
    turn = frame if isinstance(frame, Turn) else None
    session = turn.session if turn is not None else rt.outside
    branch = turn.branch if turn is not None else ""
    op = Op(session, turn, turn, None, turn.agent if turn is not None else "", branch)
    op.span = turn.span if turn is not None else None
    hooks, _ = rt.in_force(current_scope(), branch)
    return op, PointHooks(hooks.at("pre_model_call").gates)
