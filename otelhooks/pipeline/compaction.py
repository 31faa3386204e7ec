"""The shortening of a conversation's history, as an operation that hooks can only observe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry import context as otel_context

from otelhooks import types
from otelhooks.hooks import results
from otelhooks.hooks.context import OperationContext, current_branch
from otelhooks.hooks.drive import Raised
from otelhooks.pipeline.drivers import Body, Operation
from otelhooks.pipeline.frames import Op, current_frame, current_scope
from otelhooks.pipeline.runtime import Runtime
from otelhooks.records import semconv

__all__ = ["compaction"]


def compaction(rt: Runtime, summary_of: Callable[[Any], str]) -> Operation:
    """Run a compaction; then emit its event and show the step to the hooks of on_compaction.

    Args:
        rt: The active runtime.
        summary_of: Takes what the framework's own call returned and returns the text that replaces
            the history.
    """
    raw = yield Body(otel_context.get_current(), None)
    if type(raw) is Raised:
        return raw
    frame = current_frame()
    hooks, _ = rt.in_force(current_scope(), current_branch())
    attributes: dict[str, Any] = {semconv.HOOK_POINT: semconv.POINT_ON_COMPACTION}
    if frame is not None:
        op = frame if isinstance(frame, Op) else None
        if op is not None:
            attributes |= rt.about(op)
        elif frame.session.id:
            attributes[semconv.GEN_AI_CONVERSATION_ID] = frame.session.id
    rt.events.emit(semconv.EVENT_COMPACTION, 9, attributes, context=otel_context.get_current())
    found = hooks.at("on_compaction")
    if found or hooks.has_events:
        outer = frame.context if frame is not None else rt.outside.context
        context = OperationContext(outer)
        step = types.Step(
            type=types.StepType.COMPACTION,
            source=types.StepSource.SYSTEM,
            content=summary_of(raw),
        )
        yield from results.inspect_point(found, context, step, rt.watch)
        if hooks.has_events:
            yield from rt.tell(hooks, "on_compaction", context, output=step)
    return raw
