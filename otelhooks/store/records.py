"""What the reader returns: frozen records of traces, spans and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otelhooks.store.totals import Totals

Status = Literal["unset", "ok", "error"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record comes from.

    Attributes:
        id: The same number for the same content, in every store.
        resource: Attributes of the process.
        resource_schema_url: Schema of these, empty for none.
        scope: ``name``, ``version``, ``schema_url`` and ``attributes`` of the tracer or logger;
            None if it had none.
    """

    id: int
    resource: Mapping[str, Any]
    resource_schema_url: str
    scope: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event inside a span.

    Attributes:
        name: Its name.
        at: Time, in nanoseconds since the Unix epoch.
        attributes: As recorded.
        dropped_attributes: Number of attributes over the SDK's limit.
    """

    name: str
    at: int
    attributes: Mapping[str, Any]
    dropped_attributes: int


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A link to another span.

    Attributes:
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
        trace_state: W3C header, empty for none.
        flags: OTLP's flags of the linked context.
        attributes: As recorded.
        dropped_attributes: Number of attributes over the SDK's limit.
    """

    trace_id: str
    span_id: str
    trace_state: str
    flags: int
    attributes: Mapping[str, Any]
    dropped_attributes: int


@dataclass(frozen=True, slots=True)
class Span:
    """A finished span.

    Attributes:
        id: Place in the store; only grows.
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
        parent_id: Span id of the parent, None for a root.
        name: Its name.
        kind: ``internal``, ``server``, ``client``, ``producer`` or ``consumer``.
        started_at: In nanoseconds since the Unix epoch.
        ended_at: In nanoseconds since the Unix epoch.
        status: ``unset``, ``ok`` or ``error``.
        status_message: Description of the status, None for none.
        attributes: As recorded; sequences are lists.
        events: Events inside the span.
        links: Links to other spans.
        trace_state: W3C header, empty for none.
        flags: OTLP's flags: trace flags, and whether the parent is in another process.
        dropped_attributes: Number of attributes over the SDK's limit.
        dropped_events: Number of events over the SDK's limit.
        dropped_links: Number of links over the SDK's limit.
        origin: Resource and scope.
    """

    id: int
    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    started_at: int
    ended_at: int
    status: Status
    status_message: str | None
    attributes: Mapping[str, Any]
    events: tuple[SpanEvent, ...]
    links: tuple[SpanLink, ...]
    trace_state: str
    flags: int
    dropped_attributes: int
    dropped_events: int
    dropped_links: int
    origin: Origin

    @property
    def duration_s(self) -> float:
        """Duration in seconds."""
        return (self.ended_at - self.started_at) / 1e9

    @property
    def at(self) -> int:
        """Time of its completion, in nanoseconds since the Unix epoch."""
        return self.ended_at


@dataclass(frozen=True, slots=True)
class Event:
    """A log record, such as an event of an agent.

    Attributes:
        id: Place in the store; only grows; counted separately from spans.
        trace_id: 32 hex digits, None outside a trace.
        span_id: 16 hex digits, None outside a span.
        name: Event name, such as ``otelhooks.policy.decision``; None for a plain log record.
        at: Time, in nanoseconds since the Unix epoch.
        emitted_at: The same as set by the source, None if not set.
        observed_at: When the SDK saw it, in nanoseconds since the Unix epoch.
        severity: OTLP's number, None for none.
        severity_text: As given, None for none.
        body: As given, None for none.
        attributes: As recorded; sequences are lists.
        flags: Trace flags.
        dropped_attributes: Number of attributes over the SDK's limit.
        origin: Resource and scope.
    """

    id: int
    trace_id: str | None
    span_id: str | None
    name: str | None
    at: int
    emitted_at: int | None
    observed_at: int | None
    severity: int | None
    severity_text: str | None
    body: Any
    attributes: Mapping[str, Any]
    flags: int
    dropped_attributes: int
    origin: Origin


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """One line about a trace.

    Attributes:
        trace_id: 32 hex digits.
        name: Name of its root, or of its earliest span; empty if only events are stored.
        started_at: In nanoseconds since the Unix epoch.
        ended_at: End of what is stored, in nanoseconds since the Unix epoch.
        spans: Number of spans.
        events: Number of log records.
        refused: Number of calls that were denied or not approved, without the withdrawn.
        withheld: Number of calls that ran, and whose result was kept back.
        observed: Number of calls that monitor mode would have refused or asked about.
        approved: Number of calls that were asked about and approved.
        withdrawn: Number of calls that were asked about and ended, or whose process ended, first.
        pending: Number of questions that have no answer in the trace: parked, or still open.
        verdicts: Number of calls with any other verdict except a plain allow.
        errors: Number of spans with status error that were not refused.
        is_refused: Whether a span or an event was refused or observed; events count too, because
            spans may have been sampled away.
        service: ``service.name`` of the program, empty if it has none.
        agents: Names of its agents, in the order in which they started.
        totals: Tokens and cost.
    """

    trace_id: str
    name: str
    started_at: int
    ended_at: int
    spans: int
    events: int
    refused: int
    withheld: int
    observed: int
    approved: int
    withdrawn: int
    pending: int
    verdicts: int
    errors: int
    is_refused: bool
    service: str
    agents: tuple[str, ...]
    totals: Totals

    @property
    def duration_s(self) -> float:
        """Time from the first start to the last end, in seconds."""
        return (self.ended_at - self.started_at) / 1e9


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything that is stored of one trace.

    Attributes:
        trace_id: 32 hex digits.
        spans: By start.
        events: By time.
    """

    trace_id: str
    spans: tuple[Span, ...]
    events: tuple[Event, ...]
