"""A question to the user as an operation: event, hooks, then the application's own way to ask.

An interaction opens no span: its event is in the caller's trace.
"""

from __future__ import annotations

import logging
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace

from otelhooks.hooks import results
from otelhooks.hooks.context import current_branch
from otelhooks.pipeline.drivers import Body, Operation
from otelhooks.pipeline.frames import Op, current_frame, current_scope
from otelhooks.pipeline.runtime import Runtime
from otelhooks.records import semconv
from otelhooks.records.failures import outline

__all__ = ["InteractionSeat", "interaction"]

log = logging.getLogger("otelhooks.hooks")


class InteractionSeat:
    """How one seat reads and writes a question; adapters subclass it."""

    def spec(self) -> Any:
        """Return the question as hooks see it, a `types.AskQuestionInteractionSpec`."""
        raise NotImplementedError

    def answered(self, answer: Any) -> Any:
        """Return a hook's answer in the framework's own form.

        Raises:
            ValueError: The answer does not fit the question.
        """
        raise NotImplementedError

    def declined(self) -> Any:
        """Return the framework's form of an unanswered question."""
        raise NotImplementedError


def interaction(rt: Runtime, seat: InteractionSeat) -> Operation:
    """Put a question to the hooks; the body asks the user if no hook answers.

    Decision: fails closed. A hook that raises, or whose answer does not fit, declines.
    """
    outer, scope = current_frame(), current_scope()
    turn = outer.turn if outer is not None else None
    session = rt.outside
    if turn is not None:
        session = turn.session
    elif scope is not None and scope.session is not None:
        session = scope.session
    branch = current_branch()
    op = Op(session, turn, outer, None, branch.rpartition("/")[2], branch)
    hooks, _ = rt.in_force(scope, branch)
    current = trace.get_current_span()
    if current.get_span_context().is_valid:
        op.context.span = current
    attributes = {**rt.about(op), semconv.HOOK_POINT: semconv.POINT_ON_INTERACTION}
    rt.events.emit(semconv.EVENT_INTERACTION, 9, attributes)
    found = hooks.at("on_interaction")
    if not found and not hooks.has_events:
        return (yield Body(otel_context.get_current(), None))
    spec = seat.spec()
    answer = raw = None
    try:
        if found:
            _, answer = yield from results.interaction(found, op.context, spec, rt.watch)
        if answer is not None:
            raw = seat.answered(answer)
    except Exception as error:
        log.error("question declined: a hook of on_interaction failed: %s", outline(error))
        raw = seat.declined()
    if hooks.has_events:
        yield from rt.tell(hooks, "on_interaction", op.context, input=spec, output=answer)
    return raw if raw is not None else (yield Body(otel_context.get_current(), None))
