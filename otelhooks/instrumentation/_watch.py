"""Metrics, spans and events of what happens inside points: hooks, questions, listeners."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from otelhooks import types
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import Run
from otelhooks.hooks.registry import Registration
from otelhooks.hooks.verdict import Approval, RuleLike, Verdict
from otelhooks.hooks.watch import Watch, ask_handlers
from otelhooks.instrumentation._frames import Op
from otelhooks.telemetry import semconv
from otelhooks.telemetry.spans import exemplar
from otelhooks.telemetry.verdicts import arguments_hash

if TYPE_CHECKING:
    from otelhooks.instrumentation._runtime import Runtime

__all__ = ["RuntimeWatch", "hook_attributes"]


class RuntimeWatch(Watch):
    """Makes metrics, spans and events of what happens inside points."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def hook_ran(self, registration: Registration, seconds: float) -> None:
        """Record how long a hook took."""
        self._runtime.instruments.record(
            semconv.METRIC_HOOK_DURATION, seconds, hook_attributes(registration), None
        )

    def hook_failed(self, registration: Registration, error: BaseException) -> None:
        """Log and count a hook that failed."""
        super().hook_failed(registration, error)
        self._runtime.instruments.hook_errors.cell(hook_attributes(registration)).add(1)

    def in_background(self, registration: Registration, context: Any, data: Any) -> None:
        """Queue an inspector."""
        self._runtime.in_background(registration, context, data)

    def event(self, kind: str, context: Any, **fields: Any) -> types.HookEvent:
        """Make the record for listeners; content as far as it is captured, and masked."""
        content = self._runtime.content
        if content.on_event or content.on_span:
            fields = {
                name: content.event_value(value) if name in {"input", "output"} else value
                for name, value in fields.items()
            }
            shown = {name: fields.pop(name) for name in ("input", "output") if name in fields}
            event = super().event(kind, context, **fields)
            return event.model_copy(update=shown)
        return super().event(kind, context, **fields)

    def approve(
        self, rules: Sequence[RuleLike], call: Call, context: Any
    ) -> Generator[Run, Any, Approval]:
        """Ask people, and show that they are being asked: a request span, an event, a wait span."""
        runtime, op = self._runtime, call.op
        earlier = op.resumed.approval if isinstance(op, Op) and op.resumed is not None else None
        if earlier is not None and earlier.approved:
            return earlier  # answered before the pause, for exactly this call
        deciding = rules[0]
        verdict = Verdict(
            semconv.POINT_PRE_TOOL_CALL,
            semconv.DECISION_ASK,
            policy_id=deciding.policy_id,
            policy_version=deciding.policy_version,
            rule_id=deciding.id,
            severity=deciding.severity,
            reason=deciding.reason or f"Asked by policy '{deciding.label}'.",
        )
        decision_id = runtime.verdicts.decision_id(verdict)
        wait = _ask_spans(runtime, op, call, verdict)
        runtime.pending += 1
        try:
            approval = yield from ask_handlers(
                rules, call, channel=runtime.channel, timeout=runtime.approval_timeout_s
            )
        except BaseException:
            _end_wait(wait, Approval("withdrawn"))
            raise
        finally:
            runtime.pending -= 1
        approval.decision_id = decision_id
        _end_wait(wait, approval)
        runtime.instruments.record(
            semconv.METRIC_APPROVAL_WAIT_DURATION,
            approval.wait_s,
            {semconv.APPROVAL_STATUS: approval.status},
            exemplar(wait),
        )
        return approval


def hook_attributes(registration: Registration) -> dict[str, str]:
    return {
        semconv.HOOK_POINT: registration.point,
        semconv.HOOK_NAME: registration.source,
    }


def _ask_spans(runtime: Runtime, op: Any, call: Call, verdict: Verdict) -> trace.Span | None:
    """Open the span of the wait, after one that says at once that somebody is asked."""
    about = runtime.about(op) if isinstance(op, Op) else {semconv.GEN_AI_TOOL_NAME: call.name}
    if runtime.spans_of("") == "off":
        runtime.verdicts.asked(verdict, about, None)
        return None
    outer = op.outer if isinstance(op, Op) else None
    parent = None
    if outer is not None and outer.span is not None:
        parent = trace.set_span_in_context(outer.span)
    trace_id = runtime.pin_trace(op) if isinstance(op, Op) else 0
    attributes = {
        **about,
        **runtime.verdicts.attributes(verdict),
        semconv.APPROVAL_STATUS: semconv.APPROVAL_STATUS_PENDING,
        semconv.ARGUMENTS_HASH: arguments_hash(call.args),
    }
    attributes.pop(semconv.POLICY_ENFORCEMENT, None)
    request = runtime.spans.start(
        f"{semconv.SPAN_APPROVAL_REQUEST} {call.name}", attributes, parent, trace_id=trace_id
    )
    request.end()
    runtime.verdicts.asked(verdict, about, trace.set_span_in_context(request))
    attributes.pop(semconv.POLICY_DECISION)
    name = f"{semconv.SPAN_APPROVAL_WAIT} {call.name}"
    return runtime.spans.start(name, attributes, parent, trace_id=trace_id)


def _end_wait(wait: trace.Span | None, approval: Approval) -> None:
    if wait is None:
        return
    wait.set_attribute(semconv.APPROVAL_STATUS, approval.status)
    wait.set_attribute(semconv.APPROVAL_APPROVER_TYPE, approval.approver_type)
    wait.end()
