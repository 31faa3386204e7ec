"""Verdicts on spans that other libraries open: ``spans="annotate"`` opens none of ours.

The span of a call may already be current when the call is decided, may be opened when its body
runs, or may never be opened (the other library does not see a denied call). So a verdict goes
on the current span if that span names the call; else on the first span that starts inside the call
and names it; else on the current span, whatever it describes. In that last case it is also added as
an event, so that verdicts of further calls on the same span do not replace it. The same holds for a
span that names the call but already carries the verdict of another.

Telemetry: fails open. If no span records, counts, events and audit still carry the verdict.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, TracerProvider

from otelhooks.hooks.verdict import Verdict
from otelhooks.pipeline.frames import SPAN, Op, current_frame
from otelhooks.records import semconv
from otelhooks.telemetry.by_identity import ByIdentity
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import adopt, attributes_of, fail, put_on

__all__ = ["Annotation", "current_span", "keep_failed", "share", "watch_spans"]

_AWAITED = otel_context.create_key("otelhooks-awaited-span")

_KEPT_ELSEWHERE = {"langchain": "openinference.instrumentation.langchain"}
"""Modules, by framework, that keep the current span outside the context; each can return it."""


_TITLES = ("{name}", "{operation} {name}", "{name}.tool", "tools/call {name}")
"""Operation names that other libraries give to the span of a call."""

_ALSO_NAMED_BY = {
    semconv.GEN_AI_TOOL_NAME: ("tool.name", "traceloop.entity.name"),
    semconv.GEN_AI_REQUEST_MODEL: ("llm.model_name",),
}
"""What OpenInference and Traceloop write where the conventions have an attribute of their own."""

_NAMED_IN = {"Function: {name}": ("name",)}
"""Further attributes, by the span's name: Logfire fills in the name where it shows the span."""


class Annotation:
    """What one call puts on another library's span.

    Args:
        op: The call's frame; gets the span, marked as not ours.
        named_by: Operation, attribute that names what runs, and that name.
        attributes: All that our span would start with.
        failure: ``error.type`` and reason of a call that does not run and counts as failed.
    """

    __slots__ = ("_attributes", "_failure", "_is_shared", "_named_by", "_op", "_outer", "is_placed")

    def __init__(
        self,
        op: Op,
        named_by: tuple[str, str, str],
        attributes: Mapping[str, Any],
        failure: tuple[str, str] | None,
    ) -> None:
        self._op = op
        self._named_by = named_by
        self._attributes = attributes
        self._failure = failure
        self._outer: Span | None = None
        self._is_shared = False
        self.is_placed: bool = False

    def begin(self, context: Context, framework: str) -> Context:
        """Look at the current span; return the context for the body.

        Args:
            context: Context that the call was made in.
            framework: Adapter that the call came through.
        """
        op = self._op
        self._outer = op.span = current_span(context, framework)
        op.adopted = True
        if op.span is not None and self._is_of_the_call(op.span):
            self._place(op.span)
            return context
        return otel_context.set_value(_AWAITED, self, context)

    @fails_open
    def offer(self, span: Any) -> None:
        """Take a span that starts inside the call, if it is the call's."""
        if not self.is_placed and current_frame() is self._op and self._is_of_the_call(span):
            self._op.span = span
            self._place(span)

    @fails_open
    def end(self) -> None:
        """Put the attributes on the surrounding span if no other span has taken them."""
        if not self.is_placed and self._outer is not None:
            self.is_placed = True
            share(self._outer, self._attributes)

    def amend(self, attributes: Mapping[str, Any]) -> None:
        """Add what became known after the decision; the span of the call may have ended."""
        if not self.is_placed:
            self._attributes = {**self._attributes, **attributes}
        elif self._op.span is not None and self._op.span.is_recording():
            (share if self._is_shared else put_on)(self._op.span, attributes)
        elif self._outer is not None:
            share(self._outer, attributes)

    @fails_open
    def fail(self, error_type: str, reason: str) -> None:
        """Mark the span as failed if it names the call; a surrounding span has not failed."""
        if self.is_placed:
            fail(self._op.span, error_type, reason)
            keep_failed(self._op.span)

    def _is_of_the_call(self, span: Any) -> bool:
        """Return whether a span that others opened names what this call runs."""
        operation, key, name = self._named_by
        attributes = attributes_of(span)
        if not name or attributes.get(semconv.GEN_AI_OPERATION_NAME, operation) != operation:
            return False
        title: str = getattr(span, "name", "")
        if title in {each.format(operation=operation, name=name) for each in _TITLES}:
            return True
        keys = (key, *_ALSO_NAMED_BY[key], *_NAMED_IN.get(title, ()))
        return any(attributes.get(each) == name for each in keys)

    def _place(self, span: Span) -> None:
        self.is_placed = True
        self._is_shared = semconv.POLICY_DECISION in attributes_of(span)
        if self._is_shared:
            share(span, self._attributes)
        else:
            adopt(span, self._attributes)
        if self._failure is not None:
            fail(span, *self._failure)
            keep_failed(span)


@fails_open
def current_span(context: Context, framework: str) -> Span | None:
    """Return another library's current span, if it records."""
    span: Any = context.get(SPAN)
    if span is None or not span.is_recording():
        keeper: Any = sys.modules.get(_KEPT_ELSEWHERE.get(framework, ""))
        span = keeper.get_current_span() if keeper is not None else None
    return span if span is not None and span.is_recording() else None


@fails_open
def share(span: Span, attributes: Mapping[str, Any]) -> None:
    """Put a verdict on a span that covers more than its call: as an event, which replaces none.

    The span's own attributes show the strictest verdict.
    """
    if semconv.POLICY_DECISION not in attributes:
        return
    told = _about_call(attributes)
    has = attributes_of(span)
    before = has.get(semconv.POLICY_DECISION)
    events: Any = getattr(span, "events", ())
    if before is not None and semconv.EVENT_POLICY_DECISION not in {one.name for one in events}:
        span.add_event(semconv.EVENT_POLICY_DECISION, _about_call(has))  # of one call until now
    span.add_event(semconv.EVENT_POLICY_DECISION, told)
    now = Verdict("", attributes[semconv.POLICY_DECISION])
    if before is None or now.is_stricter_than(Verdict("", before)):
        span.set_attributes({name: told[name] for name in told if name not in _ABOUT})


def _about_call(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in attributes.items()
        if name.startswith(semconv.OWN_PREFIX) or name in _ABOUT
    }


_ABOUT = frozenset(
    (semconv.GEN_AI_TOOL_NAME, semconv.GEN_AI_TOOL_CALL_ID, semconv.GEN_AI_REQUEST_MODEL)
)


@fails_open
def keep_failed(span: Any) -> None:
    """Keep another library's span failed: some mark every span a success when they end it."""
    inner = span.set_status

    def set_status(status: Status | StatusCode, description: str | None = None) -> None:
        code = status.status_code if isinstance(status, Status) else status
        if code is not StatusCode.OK:
            inner(status, description)

    span.set_status = set_status


class _Watch:
    """A span processor: offers each span to the call that it starts in."""

    def on_start(self, span: Any, parent_context: Context | None = None) -> None:
        annotation: Any = otel_context.get_current().get(_AWAITED)
        if annotation is not None:
            annotation.offer(span)

    def _on_ending(self, span: Any) -> None:
        """Do nothing; the SDK calls it."""

    def on_end(self, span: Any) -> None:
        """Do nothing."""

    def shutdown(self) -> None:
        """Do nothing."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Hold nothing back."""
        return True


_watches: ByIdentity[_Watch] = ByIdentity()


@fails_open
def watch_spans(provider: TracerProvider) -> None:
    """Watch the spans that others open through a provider from now on; each provider once."""
    add: Any = getattr(provider, "add_span_processor", None)
    if add is None:
        return

    def start() -> _Watch:
        watch = _Watch()
        add(watch)
        return watch

    _watches.get(provider, start)
