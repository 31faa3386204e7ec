"""What tool calls and model calls share: their span from start to end, and its verdict.

Telemetry: fails open. The callers catch what goes wrong here; see `otelhooks.telemetry.quiet`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from time import time_ns
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from otelhooks import types
from otelhooks.hooks.context import OperationContext, SpanNotes, Step
from otelhooks.hooks.drive import Run
from otelhooks.hooks.registry import HookSet
from otelhooks.hooks.verdict import DENY, MODIFY, RECORD_REQUIRED, UNRECORDED_POLICY, Verdict
from otelhooks.pipeline.annotations import Annotation, keep_failed
from otelhooks.pipeline.frames import MAX_STEPS, SPAN, Op
from otelhooks.pipeline.recording import record_verdict
from otelhooks.pipeline.runtime import SUPPRESSED, Runtime
from otelhooks.records import semconv
from otelhooks.telemetry.quiet import fails_open, report
from otelhooks.telemetry.spans import adopt, exemplar, fail, native_span, put_notes, put_on
from otelhooks.telemetry.verdicts import error_type_of

__all__ = ["UNRECORDED", "Traced", "put", "put_failure", "record"]

UNRECORDED = "The call was refused because it could not be recorded."


def record(rt: Runtime, op: Op, verdict: Verdict) -> Generator[Run, Any, str | None]:
    """Count a verdict, put it into telemetry, and write it down before the operation continues.

    Decision: fails closed where the audit file or a recorder is required.

    Returns:
        The message of a refusal: the verdict's, or that an allowed operation could not be recorded.
        None if it may continue.
    """
    before = op.resumed if verdict.point == semconv.POINT_PRE_TOOL_CALL else None
    if before is not None and verdict.goes_on(before):
        verdict.decision_id = before.decision_id
        return None  # the same call continues after a pause: it was counted and written before
    rt.tell_verdict(op, verdict)
    recorded = is_made = True
    if rt.audit is not None:
        ticket = rt.write_verdict(op, verdict)
        is_made = ticket is not None
        written = ticket is not None and (yield Run(ticket.wait, blocking=True))
        recorded = written is True or not rt.audit.required
    if op.recorders:
        recorded = (yield from record_verdict(rt, op, verdict)) and recorded
    if not verdict.allowed:
        return verdict.message
    if recorded:
        return None
    _tell_refusal(rt, op, verdict, with_arguments=is_made)
    return UNRECORDED


def _tell_refusal(rt: Runtime, op: Op, verdict: Verdict, *, with_arguments: bool) -> None:
    """Report that an allowed call was refused because its record failed: a deny like any other.

    The trail gets this record after the one that it keeps and retries, so it ends with the truth.
    If no record could be made of the call, its arguments may be the cause.
    """
    refused = Verdict(
        verdict.point,
        DENY,
        allowed=False,
        policy_id=UNRECORDED_POLICY,
        rule_id=RECORD_REQUIRED,
        reason=UNRECORDED,
        message=UNRECORDED,
        result=types.HookResult(allow=False, message=UNRECORDED),
    )
    refused.decision_id = rt.verdicts.decision_id(verdict)  # it is the same call's
    if op.verdict is not None and op.verdict.point == verdict.point:
        op.verdict = refused  # the exception that a caller gets names it
    put(op, rt.verdicts.attributes(refused))
    put_failure(rt, op, refused)
    rt.tell_verdict(op, refused)
    rt.write_verdict(op, refused, with_arguments=with_arguments)


@fails_open
def put(op: Op, attributes: Mapping[str, Any]) -> None:
    """Put on a call's span what became known after its first verdict."""
    if op.annotation is not None:
        op.annotation.amend(attributes)
    else:
        put_on(op.span, attributes)


def put_failure(rt: Runtime, op: Op, verdict: Verdict) -> None:
    """Mark the span of a call as failed that a later verdict stops after the first allowed it."""
    if verdict.allowed or rt.denied_status != "error":
        return
    failure = rt.verdicts.failure(verdict)
    if op.annotation is not None:
        op.annotation.fail(*failure)
    else:
        fail(op.span, *failure)


class Traced:
    """One tool or model call, once it has a frame; its class sets all attributes.

    Attributes:
        rt: The active runtime.
        op: Its frame.
        hooks: The hooks in force for it.
        verdict: What was decided; None if there is no decider, or no decision yet.
        context: Context that it was entered in.
        started_ns: When the span, or without one the body, started; nanoseconds since the epoch.
        ended_ns: When the body ended; 0 if it did not run.
        status: ``ok``, another outcome that is not a failure, or an ``error.type``.
        exemplar: Span context that metrics may point to; None if the span is not sampled.
    """

    POINT_AFTER: str
    """The point after its body."""

    __slots__ = (
        "context",
        "ended_ns",
        "exemplar",
        "hooks",
        "op",
        "rt",
        "started_ns",
        "status",
        "verdict",
    )

    rt: Runtime
    op: Op
    hooks: HookSet
    verdict: Verdict | None
    context: Context
    started_ns: int
    ended_ns: int
    status: str
    exemplar: trace.SpanContext | None

    def attributes(self) -> dict[str, Any]:
        """Return what the span starts with."""
        raise NotImplementedError

    def open_span(
        self,
        framework: str,
        name: str,
        named_by: tuple[str, str, str],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        """Open the span, or find one of another library for the verdict, unless spans are off.

        Args:
            framework: Adapter that the call came through.
            name: Name of the span.
            named_by: As in `start_span`.
            kind: INTERNAL for work in this process.
        """
        self.started_ns = time_ns()
        try:
            if self.context.get(SUPPRESSED):
                return
            mode = self.rt.framework_spans.get(framework, self.rt.span_mode)
            if mode == "annotate":
                self.annotate(framework, self.attributes(), named_by)
            elif mode != "off":
                self.start_span(mode, name, self.attributes(), named_by, kind)
        except Exception as error:
            report(f"{type(self).__name__}.open_span", error)

    def complete(self, attributes: dict[str, Any]) -> None:
        """Add start attributes that few calls have: details of a verdict, attributes from hooks."""
        rt, op, verdict = self.rt, self.op, self.verdict
        if verdict is not None:
            attributes.update(rt.verdicts.attributes(verdict))
            failure = error_type_of(verdict)
            if failure is not None and rt.denied_status == "error":
                attributes[semconv.ERROR_TYPE] = failure
        if op.known is not None:
            exports = op.known.exports()
            attributes.update((semconv.CONTEXT_PREFIX + k, v) for k, v in exports.items())
            if labels := op.judged_under():
                attributes[semconv.LABELS] = labels
        if op.flip is not None:
            attributes.update(op.flip)

    def start_span(
        self,
        mode: str,
        name: str,
        attributes: Mapping[str, Any],
        named_by: tuple[str, str, str],
        kind: SpanKind,
    ) -> None:
        """Open the span, or adopt the framework's own; the verdict is on it from the start.

        Args:
            mode: ``auto`` or ``own``.
            name: Name of the span.
            attributes: Everything that it starts with; not copied.
            named_by: How to recognise the framework's own span for this very call: operation, the
                attribute that names what runs, and that name.
            kind: As in `open_span`.
        """
        rt, op, verdict = self.rt, self.op, self.verdict
        outer = op.outer.span if op.outer is not None else None
        parent = self.context
        current: Any = parent.get(SPAN)
        native = None
        if current is not outer:
            if mode == "auto" and current is not None:
                native = native_span(current, *named_by)
            if outer is not None and not _same_trace(current, outer):
                parent = trace.set_span_in_context(outer, parent)
        if native is not None:
            op.adopted, span = True, native
            adopt(native, attributes)
        else:
            span = rt.spans.start(
                name, attributes, parent, kind=kind, start_ns=self.started_ns, trace_id=op.trace_id
            )
        op.span = span
        if span.is_recording():
            own = span.get_span_context()
            if own.trace_flags.sampled:
                self.exemplar = own
        if verdict is not None and not verdict.allowed and rt.denied_status == "error":
            fail(span, *rt.verdicts.failure(verdict))
            if op.adopted:
                keep_failed(span)
        if op.known is not None:
            _hand_over_notes(op.known, span)

    def annotate(
        self, framework: str, attributes: Mapping[str, Any], named_by: tuple[str, str, str]
    ) -> None:
        """Open no span; find one of another library for the verdict.

        Args:
            framework: Adapter that the call came through.
            attributes: What our span would start with; not copied.
            named_by: As in `start_span`.
        """
        rt, op, verdict = self.rt, self.op, self.verdict
        failure = None
        if verdict is not None and not verdict.allowed and rt.denied_status == "error":
            failure = rt.verdicts.failure(verdict)
        op.annotation = Annotation(op, named_by, attributes, failure)
        self.context = op.annotation.begin(self.context, framework)
        self.exemplar = exemplar(op.span)
        if op.known is not None and op.span is not None:
            _hand_over_notes(op.known, op.span)

    def end_span(self, name: str) -> None:
        """End the span unless it belongs to another library, and note the step in the turn.

        Args:
            name: Name of the tool or model.
        """
        op = self.op
        turn, span = op.turn, op.span
        if turn is not None and len(steps := turn.context.steps) < MAX_STEPS:
            decision = self.verdict.decision if self.verdict is not None else "allow"
            own = self.exemplar
            if own is None and span is not None:
                own = span.get_span_context()
            span_id = "" if own is None else own.span_id
            steps.append(Step(name, decision, self.status, span_id))
        if op.annotation is not None:
            op.annotation.end()
        elif span is not None and not op.adopted:
            span.end(self.ended_ns or time_ns())

    def _put(self, attributes: Mapping[str, Any]) -> None:
        """Put on the call's span what became known after the decision."""
        put(self.op, attributes)

    @fails_open
    def mark(self, kind: str, description: str) -> None:
        """Note that the call failed.

        Args:
            kind: ``error.type``.
            description: The span's status description, in fixed words.
        """
        self.status = kind
        if self.op.span is not None and not self.op.adopted:
            fail(self.op.span, kind, description)

    @fails_open
    def mark_error(self, kind: str, error: BaseException | str) -> None:
        """Note that the call failed; the failure's own text is added where content is captured.

        Args:
            kind: ``error.type``.
            error: The failure, or its text.
        """
        self.mark(kind, kind)
        self.describe(kind, error)

    @fails_open
    def describe(self, kind: str, error: BaseException | str) -> None:
        """Put the text of a failure that is noted on the span, where content is captured."""
        span = self.op.span
        if self.rt.content.on_span and span is not None and not self.op.adopted:
            fail(span, kind, self.rt.content.span_error(error, kind))

    @fails_open
    def event(self, name: str) -> None:
        """Emit an event of the point after the body."""
        op = self.op
        context = trace.set_span_in_context(op.span) if op.span is not None else None
        attributes = {**self.rt.about(op), semconv.HOOK_POINT: self.POINT_AFTER}
        self.rt.events.emit(name, 9, attributes, context=context)

    @fails_open
    def recovered(self, kind: str) -> None:
        """Note that a hook replaced a failure.

        Args:
            kind: The failure's ``error.type``.
        """
        self._put({semconv.RECOVERED: True, semconv.ERROR_TYPE: kind})
        self.event(semconv.EVENT_RECOVERED)

    def post_verdict(self, verdict: Verdict) -> Generator[Run, Any, None]:
        """Report what post hooks did; on the span, a stricter verdict replaces the first."""
        if self.verdict is None or verdict.is_stricter_than(self.verdict):
            self._put(self.rt.verdicts.attributes(verdict))
        if verdict.withheld:
            self.status = "withheld"
            self.event(semconv.EVENT_WITHHELD)
        elif verdict.decision == MODIFY:
            self.event(semconv.EVENT_REWRITTEN)
        yield from record(self.rt, self.op, verdict)


def _same_trace(span: trace.Span | None, outer: trace.Span) -> bool:
    """Return whether the current span is in the frame's trace, and for all we know below it."""
    if span is None:
        return False
    return span.get_span_context().trace_id == outer.get_span_context().trace_id


def _hand_over_notes(context: OperationContext, span: trace.Span) -> None:
    """Let hooks write on a span, and add what they wrote before it existed."""
    notes, context.span = context.span, span
    if isinstance(notes, SpanNotes):
        put_notes(span, notes)
