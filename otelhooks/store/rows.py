"""Spans, events and traces, as the rows of the store's tables say."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from otelhooks.records import semconv
from otelhooks.store import codec, verdicts
from otelhooks.store.records import Event, Origin, Span, SpanEvent, SpanLink, Status, TraceSummary
from otelhooks.store.totals import add_up, is_agent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["read_event", "read_span", "read_summary"]

_STATUS: tuple[Status, ...] = ("unset", "ok", "error")
_KINDS = ("internal", "server", "client", "producer", "consumer")


def read_summary(db: sqlite3.Connection, row: sqlite3.Row) -> TraceSummary:
    """Return what a row of the list of traces says, with what its spans say together."""
    trace_id = row["trace_id"]
    spans = db.execute(
        "SELECT name, verdict, status, span_id, parent_id, attributes, origin FROM spans"
        " WHERE trace_id = ? ORDER BY parent_id IS NOT NULL, started_at, id",
        (trace_id,),
    ).fetchall()
    attributes = [codec.decode(span["attributes"]) for span in spans]
    # Without a span of an agent, whose process ended in the middle of a turn, calls name it.
    runs = list(filter(is_agent, attributes)) or attributes
    agents = [it.get(semconv.GEN_AI_AGENT_NAME) for it in runs]
    events = db.execute("SELECT origin FROM logs WHERE trace_id = ?", (trace_id,)).fetchall()
    first = next(iter((*spans, *events)), None)
    resource: Mapping[str, Any] = (
        _origin(db, first["origin"], {}).resource if first is not None else {}
    )
    named = [(span["name"], found) for span, found in zip(spans, attributes, strict=True)]
    calls = [
        (span["verdict"], found)
        for span, found in zip(spans, attributes, strict=True)
        if not verdicts.is_about_approval(span["name"]) and not verdicts.is_withdrawn(found)
    ]
    kept_back = sum(verdicts.is_withheld(found) for _, found in calls)
    calls = [call for call in calls if not verdicts.is_withheld(call[1])]
    ranks = [rank for rank, _ in calls]
    approved = sum(verdicts.is_approved(found) for _, found in calls)
    return TraceSummary(
        trace_id=trace_id,
        name=spans[0]["name"] if spans else "",
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        spans=len(spans),
        events=len(events),
        refused=ranks.count(verdicts.RANK_REFUSED),
        withheld=kept_back,
        observed=ranks.count(verdicts.RANK_OBSERVED),
        approved=approved,
        withdrawn=verdicts.withdrawn(named),
        pending=verdicts.pending(named),
        verdicts=ranks.count(verdicts.RANK_VERDICT) - approved,
        errors=sum(
            span["status"] == _STATUS.index("error") and span["verdict"] != verdicts.RANK_REFUSED
            for span in spans
        ),
        is_refused=row["verdict"] >= verdicts.RANK_OBSERVED,
        service=str(resource.get(semconv.SERVICE_NAME, "")),
        agents=tuple(dict.fromkeys(str(agent) for agent in agents if agent)),
        totals=add_up(
            (span["span_id"], span["parent_id"], found)
            for span, found in zip(spans, attributes, strict=True)
        ),
    )


def _origin(db: sqlite3.Connection, origin_id: int, known: dict[int, Origin]) -> Origin:
    origin = known.get(origin_id)
    if origin is None:
        row = db.execute("SELECT * FROM origins WHERE id = ?", (origin_id,)).fetchone()
        origin = known[origin_id] = Origin(
            origin_id,
            codec.decode(row["resource"]),
            row["resource_schema_url"],
            codec.decode(row["scope"]) if row["scope"] is not None else None,
        )
    return origin


def read_span(db: sqlite3.Connection, row: sqlite3.Row, origins: dict[int, Origin]) -> Span:
    """Return the span of a row."""
    kind: int = row["kind"]
    status: int = row["status"]
    events = codec.decode(row["events"]) if row["events"] is not None else ()
    links = codec.decode(row["links"]) if row["links"] is not None else ()
    return Span(
        id=row["id"],
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        parent_id=row["parent_id"],
        name=row["name"],
        kind=_KINDS[kind],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        status=_STATUS[status],
        status_message=row["status_message"],
        attributes=codec.decode(row["attributes"]),
        events=tuple(SpanEvent(**event) for event in events),
        links=tuple(SpanLink(**link) for link in links),
        trace_state=row["trace_state"] or "",
        flags=row["flags"],
        dropped_attributes=row["dropped_attributes"],
        dropped_events=row["dropped_events"],
        dropped_links=row["dropped_links"],
        origin=_origin(db, row["origin"], origins),
    )


def read_event(db: sqlite3.Connection, row: sqlite3.Row, origins: dict[int, Origin]) -> Event:
    """Return the event of a row."""
    return Event(
        id=row["id"],
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        name=row["event_name"],
        at=row["at"],
        emitted_at=row["emitted_at"],
        observed_at=row["observed_at"],
        severity=row["severity"],
        severity_text=row["severity_text"],
        body=codec.decode(row["body"]) if row["body"] is not None else None,
        attributes=codec.decode(row["attributes"]),
        flags=row["flags"],
        dropped_attributes=row["dropped_attributes"],
        origin=_origin(db, row["origin"], origins),
    )
