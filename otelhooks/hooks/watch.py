"""What a point reports while it runs: hooks that ran or failed, questions, events.

A `HookRunner` without telemetry uses the base class; the pipeline's subclass makes spans, metrics
and records of the same calls.
"""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from otelhooks import types
from otelhooks.hooks.answers import read_answer
from otelhooks.hooks.calls import Call, copy_json, same_json
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Run
from otelhooks.hooks.registry import Registration
from otelhooks.hooks.verdict import Approval, RuleLike, Verdict, told
from otelhooks.records.failures import outline

__all__ = ["Asking", "Watch", "ask_handlers", "asking"]


class Asking(NamedTuple):
    """What a handler is being asked for, and how many seconds it has; None for no limit."""

    rule: RuleLike
    timeout: float | None


asking: contextvars.ContextVar[Asking | None] = contextvars.ContextVar("asking", default=None)
"""The question that a handler is being asked."""

log: logging.Logger = logging.getLogger("otelhooks.hooks")


class Watch:
    """Is notified of what happens at a point. Telemetry: its methods must not raise."""

    def hook_ran(self, registration: Registration, seconds: float) -> None:
        """Note that a hook has ended, with or without an error."""

    def hook_failed(self, registration: Registration, error: BaseException) -> None:
        """Note that a hook has raised, or returned an invalid value; its message is content."""
        log.error(
            "hook `%s` failed at %s: %s", registration.source, registration.point, outline(error)
        )

    def hook_dropped(self, registration: Registration) -> None:
        """Note that a background hook was dropped, because too many are waiting."""
        log.warning("hook `%s` was dropped: too many are waiting", registration.source)

    def approve(
        self, rules: Sequence[RuleLike], call: Call, context: Any, decision_id: str = ""
    ) -> Generator[Run, Any, Approval]:
        """Ask the handlers or the channel about one call.

        Args:
            rules: Rules that said ask, in order.
            call: The call with its final arguments.
            context: The operation's context.
            decision_id: Id of the question before, if one decision takes several.
        """
        return ask_handlers(rules, call)

    def answered(self, verdict: Verdict, call: Call) -> None:
        """Note an answer that is not the last: another rule now asks about the same call."""

    def event(self, kind: str, context: HookContext, **fields: Any) -> types.HookEvent:
        """Create the record that listeners of every point get; it contains no content.

        A failure's message is content, so only its kind is included.
        """
        fields.pop("input", None)
        fields.pop("output", None)
        failure = fields.pop("failure", None)
        if fields.get("error") is not None:
            fields["error"] = failure
        return types.HookEvent(
            type=kind,
            timestamp=time.time(),
            branch=context.known("branch"),
            agent_name=context.known("agent_name"),
            task_id=context.known("task_id"),
            trace_id=context.trace_id,
            **fields,
        )


def ask_handlers(
    rules: Sequence[RuleLike],
    call: Call,
    *,
    channel: Callable[..., Any] | None = None,
    timeout: float | None = None,
) -> Generator[Run, Any, Approval]:
    """Ask the handlers of the rules that want a call approved; each handler once.

    Fails closed: see `read_answer`. An edit ends the round: the others were not shown it, and the
    call with the edit is a new one.

    Args:
        rules: Rules that said ask.
        call: The call with its final arguments.
        channel: Asked for rules that have no handler of their own.
        timeout: Seconds that each may take; None for no limit.
    """
    started = time.perf_counter()
    asked: list[Any] = []
    args = copy_json(call.args)
    approval = Approval("approved")
    for rule in rules:
        handler, ask = rule.handler or channel, rule.ask or channel
        if handler is None or ask is None:
            error = LookupError("there is no handler and no approval channel to ask")
            return Approval("error", error=error, rejected_by=rule)
        if any(handler is other for other in asked):
            continue
        if asked:
            call.args = copy_json(args)  # the handler before may have changed what it was shown
        asked.append(handler)
        previous = asking.get()
        asking.set(Asking(rule, timeout))
        try:
            record = call.record()
            reason = told(rule, rule.reason, record)
            answer = yield Run(ask, record, reason, is_question=True, timeout=timeout)
        finally:
            asking.set(previous)
        approval = read_answer(answer, rule, args, handler, call.takes)
        approval.wait_s = time.perf_counter() - started
        approval.args = {**args, **(approval.edit or {})}
        if not approval.approved:
            return approval
        if not same_json(approval.args, args):
            approval.rules = tuple(r for r in rules if (r.handler or channel) is handler)
            return approval
    approval.rules = tuple(rules)
    return approval
