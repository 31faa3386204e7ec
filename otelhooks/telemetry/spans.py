"""Spans: opened with the verdict among their start attributes, ended with the outcome.

Telemetry: fails open. What the hot path needs is created once: a dict of start attributes for each
tool and agent, which a call merges with its own ids and its verdict's attributes.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from otelhooks.plain_text import encodable
from otelhooks.records import semconv
from otelhooks.records.failures import error_type
from otelhooks.telemetry.quiet import fails_open

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, TracerProvider

    from otelhooks.hooks.context import SpanNotes

__all__ = ["Spans", "error_type", "exemplar"]


class _PinnedId:
    """The id generator of one span, for a trace id that is already known.

    Hooks may read a call's trace id before its span opens. For a call outside any trace, the id is
    created when it is read.
    """

    def __init__(self, trace_id: int, inner: Any) -> None:
        self._trace_id = trace_id
        self._inner = inner

    def generate_trace_id(self) -> int:
        """Return the pinned id."""
        return self._trace_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Spans:
    """Opens spans of tools, models, agents and approvals.

    Args:
        provider: Where spans go.
        version: Version of otelhooks, for the instrumentation scope.
        scope: Attributes of every span: mode, policy version, evaluator.
    """

    def __init__(
        self, provider: TracerProvider, version: str, scope: Mapping[str, str] | None = None
    ) -> None:
        self.tracer: trace.Tracer = provider.get_tracer(
            semconv.SCOPE_NAME, version, attributes=dict(scope or {})
        )
        # Only the SDK's tracers have one.
        self._ids: Any = getattr(self.tracer, "id_generator", None)

    def start(
        self,
        name: str,
        attributes: Mapping[str, Any],
        parent: Context | None,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
        start_ns: int | None = None,
        trace_id: int = 0,
    ) -> Span:
        """Open a span.

        Args:
            name: Span name.
            attributes: All that samplers should see; not copied.
            parent: Context that holds the parent; None for the current one.
            kind: INTERNAL for work in this process.
            links: Links to other traces.
            start_ns: Nanoseconds since the epoch; None for now.
            trace_id: The id that a root span gets, 0 for a new one.
        """
        tracer = self.tracer
        if trace_id and self._ids is not None:
            tracer = copy.copy(tracer)  # the provider's own, which others may hold as well
            tracer.id_generator = _PinnedId(trace_id, self._ids)  # type: ignore[attr-defined]
        if not name.isascii():
            name = encodable(name)
        for value in attributes.values():  # in line, because most have nothing to escape
            if type(value) is str and not value.isascii():
                attributes = encodable(dict(attributes))
                break
        return tracer.start_span(name, parent, kind, attributes, links, start_ns)

    def new_trace_id(self) -> int:
        """Return an id for a trace whose first span is still to open; 0 if none can be pinned."""
        return self._ids.generate_trace_id() if self._ids is not None else 0


def put_notes(span: Span, notes: SpanNotes) -> None:
    """Put on a span what hooks wrote before it was open."""
    if notes.attributes:
        span.set_attributes(notes.attributes)
    for name, attributes in notes.events:
        span.add_event(name, dict(attributes))


@fails_open
def put_on(span: Span | None, attributes: Mapping[str, Any]) -> None:
    """Put attributes on an open span, if there is one."""
    if span is not None:
        span.set_attributes(encodable(dict(attributes)))


@fails_open
def fail(span: Span | None, error_type: str, description: str) -> None:
    """Mark a span as failed, if there is one."""
    if span is None:
        return
    span.set_attribute(semconv.ERROR_TYPE, encodable(error_type))
    # A lone surrogate here, or in a name, would cost an exporter its whole batch.
    span.set_status(Status(StatusCode.ERROR, encodable(description[:256])))


def exemplar(span: Span | None) -> trace.SpanContext | None:
    """Return the span context that a metric may point to: that of a sampled span."""
    context = _context_of(span)
    return context if context is not None and context.trace_flags.sampled else None


def span_id_of(span: Span | None) -> str:
    """Return a span's id: 16 hexadecimal digits, empty without a span."""
    context = _context_of(span)
    return trace.format_span_id(context.span_id) if context is not None else ""


@fails_open
def _context_of(span: Span | None) -> trace.SpanContext | None:
    """Return a span's context, None if it has no valid one."""
    context = span.get_span_context() if span is not None else None
    return context if context is not None and context.is_valid else None


def trace_id_of(span: Span | None) -> str:
    """Return a span's trace: 32 hexadecimal digits, empty without a span."""
    context = _context_of(span)
    return trace.format_trace_id(context.trace_id) if context is not None else ""


_RUNS = (semconv.OP_INVOKE_AGENT, semconv.OP_INVOKE_WORKFLOW)


def native_span(span: Span, operation: str, name_key: str, name: str) -> Span | None:
    """Return a span if it is another library's span for this very operation.

    Args:
        span: The current one, which is not the frame's.
        operation: ``gen_ai.operation.name`` that it would have. Its own name counts as well, if it
            gets its attributes at its end, and shows a run that has those of a call by mistake.
        name_key: Attribute that names what runs: tool or model.
        name: That name.
    """
    if not span.is_recording():
        return None
    attributes = attributes_of(span)
    scope = getattr(span, "instrumentation_scope", None)
    if scope is not None and scope.name == semconv.SCOPE_NAME:
        return None
    kind, _, what = getattr(span, "name", "").partition(" ")
    is_named = kind == operation and what == name
    if attributes.get(semconv.GEN_AI_OPERATION_NAME, is_named and operation) != operation:
        return None
    if kind in _RUNS and kind != operation:
        return None
    if semconv.POLICY_DECISION in attributes:  # that of another call, such as an earlier try
        return None
    return span if attributes.get(name_key, name) == name else None


def attributes_of(span: Any) -> Mapping[str, Any]:
    """Return a span's attributes so far; empty if they cannot be read."""
    return getattr(span, "attributes", None) or {}


def adopt(span: Span, attributes: Mapping[str, Any]) -> None:
    """Put our attributes on another library's span of a call, and names that it lacks."""
    has = attributes_of(span)
    for name, value in encodable(dict(attributes)).items():
        ours = name.startswith((semconv.OWN_PREFIX, semconv.MCP_PREFIX))
        if ours or (name in _WHERE_MISSING and name not in has):
            span.set_attribute(name, value)


_WHERE_MISSING = frozenset((semconv.GEN_AI_TOOL_NAME, semconv.GEN_AI_OPERATION_NAME))


def now_ns() -> int:
    """Return nanoseconds since the epoch, as spans count them."""
    return time.time_ns()
