"""What an adapter of a protocol records as well: the conventions' names, and its own metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.context import Context, get_current

from otelhooks.pipeline import runtime
from otelhooks.pipeline.frames import Turn, current_frame
from otelhooks.records.failures import outline
from otelhooks.telemetry import semconv
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import exemplar

__all__ = [
    "carried_by",
    "carrier",
    "failed",
    "in_place_of_own",
    "not_on_ours",
    "record",
    "replaces_spans",
    "semconv",
]

_log = logging.getLogger("otelhooks.instrumentation")


@fails_open
def record(metric: str, seconds: float, attributes: Mapping[str, Any], span: Any = None) -> None:
    """Record a duration, if otelhooks is on.

    Args:
        metric: Name in the conventions.
        seconds: How long it took.
        attributes: Attributes of the metric.
        span: Span that the metric points to.
    """
    rt = runtime.active()
    if rt is not None:
        rt.instruments.record(metric, seconds, attributes, exemplar(span))


def carrier() -> dict[str, str]:
    """Return the current trace context as it is sent elsewhere: baggage may be private."""
    found: dict[str, str] = {}
    propagate.inject(found)
    found.pop("baggage", None)
    return found


def carried_by(sent: Mapping[str, Any]) -> Context:
    """Return the current context with the trace that came in some texts, if one did."""
    texts = {key: value for key, value in sent.items() if isinstance(value, str)}
    return propagate.extract(texts, get_current())


def failed(what: str, error: Exception) -> None:
    """Log a failure after the end of its call; the call goes on.

    Args:
        what: What is wrong now, one sentence without a period.
        error: The cause.
    """
    _log.error("%s: %s", what, outline(error))


def replaces_spans(framework: str) -> bool:
    """Return whether otelhooks' spans replace the framework's own, which would double them.

    Args:
        framework: Adapter's name.
    """
    rt = runtime.active()
    return rt is not None and rt.spans_of(framework) == "auto"


def in_place_of_own(framework: str) -> trace.Span | None:
    """Return a span for a framework to use as its own span of the run that has just begun.

    It records nothing, and what is opened inside it is inside otelhooks' span of the run. None if
    the framework should open its own.

    Args:
        framework: Adapter's name.
    """
    turn = current_frame()
    if not isinstance(turn, Turn) or turn.span is None or not replaces_spans(framework):
        return None
    here = trace.get_current_span().get_span_context()
    own = turn.span.get_span_context()
    return trace.NonRecordingSpan(own) if here == own else None


def not_on_ours(wrapped: Callable[..., Any], owner: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a framework's function that writes on the current span, unless otelhooks opened that.

    Without a global tracer provider some frameworks find no span of theirs there, but one of ours.
    """
    scope = getattr(trace.get_current_span(), "instrumentation_scope", None)
    if scope is None or scope.name != semconv.SCOPE_NAME:
        return wrapped(*args, **kwargs)
    with trace.use_span(trace.INVALID_SPAN):
        return wrapped(*args, **kwargs)
