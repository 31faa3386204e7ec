"""What an adapter of a protocol records as well: the conventions' names, and its own metrics."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Generator, Mapping
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.context import Context, attach, detach, get_current

from otelhooks.frameworks.kit.objects.classes import is_a
from otelhooks.pipeline import runtime
from otelhooks.pipeline.frames import Op, Turn, current_frame
from otelhooks.pipeline.runtime import Runtime
from otelhooks.records import semconv
from otelhooks.records.failures import outline
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import error_type, exemplar, fail

__all__ = [
    "carried_by",
    "carrier",
    "failed",
    "in_place_of_own",
    "in_place_of_own_call",
    "inside_run",
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
    """Log a failure after the end of its call; the call continues.

    Args:
        what: What is wrong now, one sentence without a period.
        error: The cause.
    """
    _log.error("%s: %s", what, outline(error))


@contextlib.contextmanager
def inside_run(
    name: str,
    attributes: Mapping[str, Any],
    given: Any,
    result: Callable[[], Any],
    pauses: tuple[str, ...],
) -> Generator[None, None, None]:
    """Open a span around a part of a run, such as a node of a graph, which hooks do not see.

    Args:
        name: Span name.
        attributes: Its attributes.
        given: What goes into the part, shown if spans carry content.
        result: Gives what comes out of it, in the same case.
        pauses: Exceptions by which the framework pauses, such as ``pkg.mod:Class``.
    """
    opened = _open_part(name, attributes)
    if opened is None:
        yield
        return
    rt, span = opened
    token = attach(trace.set_span_in_context(span))
    try:
        yield
    except Exception as error:
        if not is_a(error, *pauses):
            kind = error_type(error)
            fail(span, kind, rt.content.span_error(error, kind))
        raise
    finally:
        detach(token)
        _show_part(rt, span, given, result)
        span.end()


@fails_open
def _open_part(name: str, attributes: Mapping[str, Any]) -> tuple[Runtime, trace.Span] | None:
    rt, frame = runtime.active(), current_frame()
    if rt is None or not isinstance(frame, Turn) or frame.span is None:
        return None
    if not rt.opens_spans(frame.framework):
        return None
    of_session = frame.session.wire_attributes(rt.user_attribute)
    return rt, rt.spans.start(name, {**attributes, **of_session}, None)


@fails_open
def _show_part(rt: Runtime, span: trace.Span, given: Any, result: Callable[[], Any]) -> None:
    if rt.content.on_span and span.is_recording():
        span.set_attribute(semconv.INPUT_VALUE, rt.content.span_value(given))
        span.set_attribute(semconv.OUTPUT_VALUE, rt.content.span_value(result()))


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


def in_place_of_own_call(framework: str) -> trace.Span | None:
    """Return a span for a client to use as its own span of the model call that sends its request.

    It records nothing, and what is opened inside it is inside the current span. None if the client
    should open its own.

    Args:
        framework: Adapter's name.
    """
    call = current_frame()
    if not isinstance(call, Op) or call.call is not None or call.annotation is not None:
        return None
    if call.span is None or not replaces_spans(framework):
        return None
    return trace.NonRecordingSpan(trace.get_current_span().get_span_context())


def not_on_ours(wrapped: Callable[..., Any], owner: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a framework's function that writes on the current span, unless otelhooks opened that.

    Without a global tracer provider some frameworks find one of our spans there instead of their
    own.
    """
    scope = getattr(trace.get_current_span(), "instrumentation_scope", None)
    if scope is None or scope.name != semconv.SCOPE_NAME:
        return wrapped(*args, **kwargs)
    with trace.use_span(trace.INVALID_SPAN):
        return wrapped(*args, **kwargs)
