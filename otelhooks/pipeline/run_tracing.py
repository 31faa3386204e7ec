"""What a run leaves in telemetry: its span, its duration, its events, and coverage gaps.

Telemetry: fails open.
"""

from __future__ import annotations

from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace

from otelhooks.hooks.context import SpanNotes
from otelhooks.hooks.drive import escapes
from otelhooks.hooks.verdict import Verdict
from otelhooks.pipeline.annotations import current_span, share
from otelhooks.pipeline.frames import Op, Turn, with_frame
from otelhooks.pipeline.run_seat import RunRequest
from otelhooks.pipeline.runtime import Runtime, log
from otelhooks.plain_text import LOGGED, one_line
from otelhooks.records import semconv
from otelhooks.telemetry.content import message, messages, output_message, text_part
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import error_type, exemplar, fail, now_ns, put_notes

__all__ = ["RunTracing"]


class RunTracing:
    """The telemetry of one run.

    Args:
        rt: The active runtime.
        request: The run.
        turn: Its frame; gets the span.
        is_turn: Whether it is a turn of its own, not a sub-agent.

    Attributes:
        started_ns: Nanoseconds since the epoch, 0 before `open`.
        shows: Whether the span gets what goes into the run and comes out of it.
    """

    __slots__ = (
        "_annotates",
        "_is_turn",
        "_request",
        "_rt",
        "_turn",
        "_verdict",
        "shows",
        "started_ns",
    )

    def __init__(self, rt: Runtime, request: RunRequest, turn: Turn, is_turn: bool) -> None:
        self._rt = rt
        self._request = request
        self._turn = turn
        self._is_turn = is_turn
        self._verdict: Verdict | None = None
        self._annotates = False
        self.shows: bool = rt.content.on_span
        self.started_ns = 0

    def open(self, links: list[trace.Link]) -> None:
        """Open the span, linked to the turn before, and the context that the body runs in."""
        turn = self._turn
        self.started_ns = now_ns()
        rt = self._rt
        if turn.framework not in rt.met:
            rt.met.add(turn.framework)
            rt.meet(turn.framework)
        mode = rt.spans_of(turn.framework)
        if mode == "annotate":
            self._annotates = True
            turn.span = current_span(otel_context.get_current(), turn.framework)
        elif mode != "off":
            self._open_span(links)
        turn.otel = with_frame(turn, None if self._annotates else turn.span)

    @fails_open
    def _open_span(self, links: list[trace.Link]) -> None:
        rt, turn, request = self._rt, self._turn, self._request
        attributes: dict[str, Any] = {semconv.GEN_AI_OPERATION_NAME: request.operation}
        is_workflow = request.operation == semconv.OP_INVOKE_WORKFLOW
        name_key = semconv.GEN_AI_WORKFLOW_NAME if is_workflow else semconv.GEN_AI_AGENT_NAME
        if turn.agent:
            attributes[name_key] = turn.agent
        if turn.branch not in ("", turn.agent):
            attributes[semconv.AGENT_BRANCH] = turn.branch
        if turn.task_id:
            attributes[semconv.TASK_ID] = turn.task_id
        attributes.update(turn.session.wire_attributes(rt.user_attribute))
        exports = turn.context.exports()
        attributes.update((semconv.CONTEXT_PREFIX + k, v) for k, v in exports.items())
        parent = None
        if self._is_turn and turn.session.span is not None:
            parent = trace.set_span_in_context(turn.session.span)
        span = rt.spans.start(
            f"{request.operation} {turn.agent}".rstrip(),
            attributes,
            parent,
            links=links,
            start_ns=self.started_ns,
        )
        turn.span = span
        context = span.get_span_context()
        turn.context.know_trace(trace.format_trace_id(context.trace_id))
        notes, turn.context.span = turn.context.span, span
        if isinstance(notes, SpanNotes):
            put_notes(span, notes)
        if self._is_turn:
            turn.session.last_turn = context

    @fails_open
    def verdict(self, verdict: Verdict) -> None:
        """Put a verdict on the span, unless a stricter one is already there."""
        span, before = self._turn.span, self._verdict
        if span is None or (before is not None and not verdict.is_stricter_than(before)):
            return
        self._verdict = verdict
        if self._annotates:
            share(span, self._rt.verdicts.attributes(verdict))
            return
        span.set_attributes(self._rt.verdicts.attributes(verdict))
        if not verdict.allowed and self._rt.denied_status == "error":
            fail(span, *self._rt.verdicts.failure(verdict))

    @fails_open
    def fail(self, error: BaseException) -> None:
        """Mark the span as failed."""
        if self._turn.span is not None and not self._annotates:
            kind = error_type(error)
            said = "" if escapes(error) else self._rt.content.span_error(error, kind)
            fail(self._turn.span, kind, said)

    @fails_open
    def answer(self, answer: Any) -> None:
        """Put the answer that goes on to the caller on the span, if spans carry content."""
        if not self.shows or answer is None or self._annotates or self._turn.span is None:
            return
        content, span = self._rt.content, self._turn.span
        text = content.span_value(answer)
        told = content.span_messages([output_message(text, ())])
        span.set_attribute(semconv.GEN_AI_OUTPUT_MESSAGES, told)
        span.set_attribute(semconv.OUTPUT_VALUE, text)

    @fails_open
    def _show_input(self) -> None:
        """Put what the run was given, as hooks left it, on the span."""
        prompt, span, content = self._request.prompt, self._turn.span, self._rt.content
        if prompt is None or span is None:
            return
        said, text = messages(prompt), content.span_value(prompt)
        if not any(one["parts"] for one in said):  # data of another form
            said = [message("user", text_part(text))]
        span.set_attribute(semconv.GEN_AI_INPUT_MESSAGES, content.span_messages(said))
        span.set_attribute(semconv.INPUT_VALUE, text)

    def as_op(self) -> Op:
        """Return the run in the shape of an operation, for code that reports operations."""
        turn = self._turn
        op = Op(turn.session, turn, turn.outer, None, turn.agent, turn.branch)
        op.span = turn.span
        return op

    @fails_open
    def event(self, name: str, point: str) -> None:
        """Emit the event of a point, in the run's trace."""
        if not self._rt.events.is_enabled or self._rt.is_suppressed():
            return
        turn = self._turn
        context = trace.set_span_in_context(turn.span) if turn.span is not None else None
        attributes = {**self._rt.about(self.as_op()), semconv.HOOK_POINT: point}
        self._rt.events.emit(name, 9, attributes, context=context)

    @fails_open
    def close(self, status: str) -> None:
        """End the span, and record the rest."""
        rt, turn, request = self._rt, self._turn, self._request
        ended = now_ns()
        if status != "paused":
            self._report_gaps(status)
        if self._annotates:
            return
        if status in _UNRUN or not (request.is_measured and rt.instruments.is_global):
            self._measure(status, (ended - self.started_ns) / 1e9)
        if turn.span is None:
            return
        if self.shows:
            self._show_input()
        attributes = {_USAGE[name]: number for name, number in turn.usage.items() if name in _USAGE}
        attributes |= turn.spent.attributes()
        if attributes:
            turn.span.set_attributes(attributes)
        turn.span.end(ended)

    def _measure(self, status: str, seconds: float) -> None:
        """Record how long the run took, and how many calls an agent made."""
        turn, operation, instruments = self._turn, self._request.operation, self._rt.instruments
        failure = status if status not in _SUCCESSES else None
        counted = self._rt.shapes.run_duration(operation, turn.agent, failure)
        where = exemplar(turn.span)
        if operation == semconv.OP_INVOKE_WORKFLOW:
            name = semconv.METRIC_GEN_AI_INVOKE_WORKFLOW_DURATION
            instruments.record(name, seconds, counted, where)
            return
        instruments.record(semconv.METRIC_GEN_AI_INVOKE_AGENT_DURATION, seconds, counted, where)
        if status in _UNRUN:
            return
        agent = {semconv.GEN_AI_AGENT_NAME: turn.agent} if turn.agent else {}
        if turn.inference_calls:  # otherwise they may be where otelhooks does not see them
            name = semconv.METRIC_GEN_AI_INVOKE_AGENT_INFERENCE_CALLS
            instruments.record(name, turn.inference_calls, agent, where)
        name = semconv.METRIC_GEN_AI_INVOKE_AGENT_TOOL_CALLS
        instruments.record(name, turn.tool_calls, agent, where)

    def _report_gaps(self, status: str) -> None:
        """Report the tool calls that a model asked for and that no seat has judged."""
        turn, rt = self._turn, self._rt
        if not turn.asked or not rt.loaded.can_deny or status not in _ANSWERED:
            return
        for name in turn.asked.values():
            rt.instruments.coverage_gaps.cell({semconv.ADAPTER_FRAMEWORK: turn.framework}).add(
                1, exemplar(turn.span)
            )
            log.error(
                "coverage gap: tool `%s` of agent `%s` (%s) was asked for and no seat judged it",
                one_line(name, LOGGED),
                one_line(turn.agent, LOGGED),
                turn.framework,
            )


_ANSWERED = frozenset(("ok", "answered"))
_SUCCESSES = frozenset(("ok", "answered", "denied", "paused"))
_UNRUN = frozenset(("answered", "denied"))
_USAGE = {
    "input_tokens": semconv.GEN_AI_USAGE_INPUT_TOKENS,
    "output_tokens": semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
}
"""What the conventions have on a run's span: the parts of these would be misleading sums."""
