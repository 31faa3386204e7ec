"""Reads the local store: newest traces, one whole trace, and new records."""

from __future__ import annotations

import contextlib
import fnmatch
import sqlite3
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otelhooks.errors import ConfigError
from otelhooks.store import codec, schema, verdicts
from otelhooks.store.records import (
    Event,
    Origin,
    Span,
    SpanEvent,
    SpanLink,
    Status,
    Trace,
    TraceSummary,
)
from otelhooks.store.totals import add_up, is_agent
from otelhooks.telemetry import semconv

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

_STATUS: tuple[Status, ...] = ("unset", "ok", "error")
_KINDS = ("internal", "server", "client", "producer", "consumer")
_PAGE = 512
_MOST_LOOKED_AT = 10_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a trace or record must be about: globs, case-sensitive; None for anything.

    Attributes:
        service: ``service.name`` of the program.
        agent: Name of an agent.
        tool: Name of a tool.
        rule: Id of a rule that decided.
    """

    service: str | None = None
    agent: str | None = None
    tool: str | None = None
    rule: str | None = None

    def conditions(self) -> tuple[str, list[str]]:
        """Return SQL for a query of `traces`, and its values: each holds for some record."""
        sql, values = "", list[str]()
        for name, pattern in self._named():
            sql += _exists(f"SELECT 1 FROM {{table}} AS it WHERE {_has(name)} AND")
            values += [pattern, pattern]
        if self.service is not None:
            name = f"""json_extract(resource, '$."{semconv.SERVICE_NAME}"')"""
            origins = f"SELECT id FROM origins WHERE {name} GLOB ?"
            sql += _exists(f"SELECT 1 FROM {{table}} AS it WHERE origin IN ({origins}) AND")
            values += [self.service, self.service]
        return sql, values

    def of_record(self) -> tuple[str, list[str]]:
        """Return SQL for a query of spans or events, and its values: `service` does not count."""
        named = self._named()
        return "".join(f" AND {_has(name)}" for name, _ in named), [text for _, text in named]

    def fits(self, record: Span | Event) -> bool:
        """Return whether a record is about all of it."""
        texts = [(record.attributes.get(name), pattern) for name, pattern in self._named()]
        if self.service is not None:
            texts.append((record.origin.resource.get(semconv.SERVICE_NAME), self.service))
        return all(
            text is not None and fnmatch.fnmatchcase(str(text), pattern) for text, pattern in texts
        )

    def _named(self) -> list[tuple[str, str]]:
        pairs = (
            (semconv.GEN_AI_AGENT_NAME, self.agent),
            (semconv.GEN_AI_TOOL_NAME, self.tool),
            (semconv.POLICY_RULE_ID, self.rule),
        )
        return [(name, pattern) for name, pattern in pairs if pattern is not None]


def _has(name: str) -> str:
    return f"""json_extract(attributes, '$."{name}"') GLOB ?"""


def _exists(select: str) -> str:
    of_trace = " it.trace_id = traces.trace_id"
    spans, logs = (select.format(table=table) + of_trace for table in ("spans", "logs"))
    return f" AND (EXISTS ({spans}) OR EXISTS ({logs}))"


class AmbiguousTraceError(ConfigError):
    """Several traces share a prefix.

    Args:
        prefix: As given.
        trace_ids: Some of them.
    """

    def __init__(self, prefix: str, trace_ids: Sequence[str]) -> None:
        shown = ", ".join(f"`{trace_id}`" for trace_id in trace_ids)
        super().__init__(
            f"several traces start with `{prefix}`: {shown}", hint="give more digits of the id"
        )


@dataclass(slots=True)
class _Cursor:
    """How far a reader has come, and the origins that it has seen."""

    span_id: int = 0
    event_id: int = 0
    origins: dict[int, Origin] = field(default_factory=dict[int, Origin])


class Store:
    """A store file, opened for each call, so that it may be deleted or replaced between two calls.

    Args:
        path: The file; None for `otelhooks.store.schema.default_store_path`.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path: Path = path or schema.default_store_path()

    def traces(
        self,
        limit: int = 20,
        *,
        denied: bool = False,
        since: int | None = None,
        wanted: Wanted | None = None,
    ) -> list[TraceSummary]:
        """Return the newest traces, by last activity, newest first.

        Args:
            limit: Most traces to return.
            denied: Only those in which something was denied or not approved, or would have been.
            since: Only those with activity at or after this time, in nanoseconds since the epoch.
            wanted: Only those of this service, agent, tool and rule; None for all.

        Raises:
            StoreError: The store cannot be read.
        """
        ranks = (
            (verdicts.RANK_OBSERVED, verdicts.RANK_REFUSED)
            if denied
            else range(verdicts.RANK_REFUSED + 1)
        )
        # One walk down the index for each rank, because the index starts with it.
        conditions, values = (wanted or Wanted()).conditions()
        walk = (
            "SELECT * FROM (SELECT trace_id, started_at, ended_at, verdict FROM traces"
            f" WHERE verdict = ? AND ended_at >= ?{conditions} ORDER BY ended_at DESC LIMIT ?)"
        )
        query = " UNION ALL ".join([walk] * len(ranks)) + " ORDER BY ended_at DESC LIMIT ?"
        arguments = [value for rank in ranks for value in (rank, since or 0, *values, limit)]
        with self._reading() as db:
            rows = db.execute(query, (*arguments, limit)).fetchall()
            return [_summary(db, row) for row in rows]

    def trace_ids(self, prefix: str, limit: int = 5) -> list[str]:
        """Return ids that start with `prefix`, in hex, upper or lower case; sorted."""
        prefix = prefix.lower()
        with self._reading() as db:
            # "g" follows the last hex digit.
            rows = db.execute(
                "SELECT trace_id FROM traces WHERE trace_id >= ? AND trace_id < ?"
                " ORDER BY trace_id LIMIT ?",
                (prefix, prefix + "g", limit),
            )
            return [row["trace_id"] for row in rows]

    def trace(self, trace_id_prefix: str, *, wanted: Wanted | None = None) -> Trace | None:
        """Return one whole trace, None if there is none.

        Args:
            trace_id_prefix: The id or a unique prefix of it; ``last`` for the trace with the latest
                activity.
            wanted: With ``last``: only of this service, agent, tool and rule; None for all.

        Raises:
            AmbiguousTraceError: Several ids start with it.
            StoreError: The store cannot be read.
        """
        if trace_id_prefix == "last":
            trace_ids = [summary.trace_id for summary in self.traces(1, wanted=wanted)]
        else:
            trace_ids = self.trace_ids(trace_id_prefix)
        if len(trace_ids) > 1:
            raise AmbiguousTraceError(trace_id_prefix, trace_ids)
        if not trace_ids:
            return None
        with self._reading() as db:
            origins: dict[int, Origin] = {}
            spans = db.execute(
                "SELECT * FROM spans WHERE trace_id = ? ORDER BY started_at, id", trace_ids
            )
            events = db.execute("SELECT * FROM logs WHERE trace_id = ? ORDER BY at, id", trace_ids)
            return Trace(
                trace_ids[0],
                tuple(_span(db, row, origins) for row in spans),
                tuple(_event(db, row, origins) for row in events),
            )

    def records(
        self, trace_ids: Sequence[str] = ()
    ) -> Iterator[tuple[Sequence[Span], Sequence[Event]]]:
        """Yield everything in the order in which it was stored, in pages.

        Args:
            trace_ids: Full ids of the wanted traces; empty for all, including log records without a
                trace.

        Yields:
            Some spans and some log records, one of them empty; at most 512 together.
        """
        cursor = _Cursor()
        while True:
            with self._reading() as db:
                spans = _next_spans(db, cursor, trace_ids)
                events = [] if spans else _next_events(db, cursor, trace_ids)
            if not spans and not events:
                return
            yield spans, events

    def newest(self, limit: int, wanted: Wanted, fits: Callable[[Span], bool]) -> list[Span]:
        """Return the newest spans of those that were stored last, newest first.

        Args:
            limit: Most spans to return.
            wanted: Only those of this agent, tool and rule.
            fits: Returns whether such a span is wanted.
        """
        found: list[Span] = []
        origins: dict[int, Origin] = {}
        has, values = wanted.of_record()
        query = f"SELECT * FROM spans WHERE id < ? AND id > ?{has} ORDER BY id DESC LIMIT ?"
        with self._reading() as db:
            newest, _ = _newest(db)
            below = newest + 1
            while len(found) < limit:
                given = (below, newest - _MOST_LOOKED_AT, *values, _PAGE)
                rows = db.execute(query, given).fetchall()
                found += filter(fits, (_span(db, row, origins) for row in rows))
                if len(rows) < _PAGE:
                    break
                below = rows[-1]["id"]
        return found[:limit]

    def events(self, name: str, limit: int = 1_000) -> tuple[Event, ...]:
        """Return the newest log records with a name, newest first.

        Args:
            name: Their ``event_name``.
            limit: Most records to return.
        """
        with self._reading() as db:
            query = "SELECT * FROM logs WHERE event_name = ? ORDER BY id DESC LIMIT ?"
            rows = db.execute(query, (name, limit)).fetchall()
            origins: dict[int, Origin] = {}
            return tuple(_event(db, row, origins) for row in rows)

    def follow(self, poll_s: float = 0.5, *, from_start: bool = False) -> Iterator[Span | Event]:
        """Yield spans and events as they are stored, forever.

        If the store does not exist yet, wait for it; if it is replaced, follow it from its start.

        Args:
            poll_s: Pause between two checks, in seconds.
            from_start: Whether to begin with existing records.
        """
        cursor = _Cursor()
        if not from_start and self.path.exists():
            with contextlib.suppress(schema.StoreError), self._reading() as db:
                cursor = _Cursor(*_newest(db))
        while True:
            try:
                with self._reading() as db:
                    span_id, event_id = _newest(db)
                    if span_id < cursor.span_id or event_id < cursor.event_id:
                        cursor = _Cursor()
                    events = _next_events(db, cursor)
                    spans = _next_spans(db, cursor)
            except schema.StoreError as error:
                if error.cause != "missing":
                    raise
                events, spans = [], []
            yield from sorted([*events, *spans], key=lambda record: record.at)
            if len(events) < _PAGE and len(spans) < _PAGE:
                time.sleep(poll_s)

    @contextlib.contextmanager
    def _reading(self) -> Generator[sqlite3.Connection, None, None]:
        db = schema.open_for_reading(self.path)
        try:
            yield db
        except sqlite3.Error as error:
            raise schema.store_error(self.path, error) from error
        finally:
            db.close()


def _newest(db: sqlite3.Connection) -> tuple[int, int]:
    row = db.execute(
        "SELECT coalesce((SELECT max(id) FROM spans), 0), coalesce((SELECT max(id) FROM logs), 0)"
    ).fetchone()
    return row[0], row[1]


def _page(
    db: sqlite3.Connection, table: str, after: int, trace_ids: Sequence[str]
) -> list[sqlite3.Row]:
    wanted = f" AND trace_id IN ({', '.join('?' * len(trace_ids))})" if trace_ids else ""
    return db.execute(
        f"SELECT * FROM {table} WHERE id > ?{wanted} ORDER BY id LIMIT ?",
        (after, *trace_ids, _PAGE),
    ).fetchall()


def _next_spans(
    db: sqlite3.Connection, cursor: _Cursor, trace_ids: Sequence[str] = ()
) -> list[Span]:
    rows = _page(db, "spans", cursor.span_id, trace_ids)
    if rows:
        cursor.span_id = rows[-1]["id"]
    return [_span(db, row, cursor.origins) for row in rows]


def _next_events(
    db: sqlite3.Connection, cursor: _Cursor, trace_ids: Sequence[str] = ()
) -> list[Event]:
    rows = _page(db, "logs", cursor.event_id, trace_ids)
    if rows:
        cursor.event_id = rows[-1]["id"]
    return [_event(db, row, cursor.origins) for row in rows]


def _summary(db: sqlite3.Connection, row: sqlite3.Row) -> TraceSummary:
    trace_id = row["trace_id"]
    spans = db.execute(
        "SELECT name, verdict, status, span_id, parent_id, attributes, origin FROM spans"
        " WHERE trace_id = ? ORDER BY parent_id IS NOT NULL, started_at, id",
        (trace_id,),
    ).fetchall()
    attributes = [codec.decode(span["attributes"]) for span in spans]
    agents = [it.get(semconv.GEN_AI_AGENT_NAME) for it in attributes if is_agent(it)]
    events = db.execute("SELECT origin FROM logs WHERE trace_id = ?", (trace_id,)).fetchall()
    first = next(iter((*spans, *events)), None)
    resource: Mapping[str, Any] = (
        _origin(db, first["origin"], {}).resource if first is not None else {}
    )
    ranks = [span["verdict"] for span in spans if not verdicts.is_about_approval(span["name"])]
    return TraceSummary(
        trace_id=trace_id,
        name=spans[0]["name"] if spans else "",
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        spans=len(spans),
        events=len(events),
        refused=ranks.count(verdicts.RANK_REFUSED),
        observed=ranks.count(verdicts.RANK_OBSERVED),
        verdicts=ranks.count(verdicts.RANK_VERDICT),
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


def _span(db: sqlite3.Connection, row: sqlite3.Row, origins: dict[int, Origin]) -> Span:
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


def _event(db: sqlite3.Connection, row: sqlite3.Row, origins: dict[int, Origin]) -> Event:
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
