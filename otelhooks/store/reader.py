"""Reads the local store: newest traces, one whole trace, and new records."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import re
import sqlite3
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otelhooks.errors import ConfigError
from otelhooks.records import semconv
from otelhooks.store import codec, schema, verdicts
from otelhooks.store.records import (
    Event,
    Origin,
    Span,
    Trace,
    TraceSummary,
)
from otelhooks.store.rows import read_event, read_span, read_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

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
        decision: What was decided, such as ``deny``.
    """

    service: str | None = None
    agent: str | None = None
    tool: str | None = None
    rule: str | None = None
    decision: str | None = None

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
            (semconv.POLICY_DECISION, self.decision),
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


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader has come: ids of the last records that it has read.

    Attributes:
        span: Of a span.
        event: Of a log record.
    """

    span: int = 0
    event: int = 0


@dataclass(frozen=True, slots=True)
class Decided:
    """How often one verdict was given about one tool in one part of the time.

    Attributes:
        policy: Policy of the rule, empty for none, and for an allow.
        rule: Rule that decided, empty for none.
        tool: Name of the tool, empty for none.
        agent: Name of the agent, empty for none.
        verdict: The verdict.
        part: Part of the time, from 0.
        count: How often.
    """

    policy: str
    rule: str
    tool: str
    agent: str
    verdict: verdicts.Verdict
    part: int
    count: int


@dataclass(frozen=True, slots=True)
class Decisions:
    """The verdicts on the newest spans.

    Attributes:
        spans: How many spans were looked at.
        first_at: Start of the first, in nanoseconds since the Unix epoch.
        last_at: Start of the last, in nanoseconds since the Unix epoch.
        counts: The verdicts.
    """

    spans: int
    first_at: int
    last_at: int
    counts: tuple[Decided, ...]


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
            return [read_summary(db, row) for row in rows]

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
                tuple(read_span(db, row, origins) for row in spans),
                tuple(read_event(db, row, origins) for row in events),
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
        position, origins = Position(), dict[int, Origin]()
        while True:
            with self._reading() as db:
                spans = _next_spans(db, position, origins, trace_ids)
                events = [] if spans else _next_events(db, position, origins, trace_ids)
            if not spans and not events:
                return
            position = _behind(position, spans, events)
            yield spans, events

    def newest(
        self, limit: int, wanted: Wanted, fits: Callable[[Span], bool], text: str = ""
    ) -> list[Span]:
        """Return the newest spans of the 10,000 that were stored last, newest first.

        Args:
            limit: Most spans to return.
            wanted: Only those of this agent, tool, rule and decision.
            fits: Returns whether such a span is wanted.
            text: Only those with this text in their name or attributes, in any case of ASCII.
        """
        found: list[Span] = []
        origins: dict[int, Origin] = {}
        has, values = wanted.of_record()
        if text:
            has += r" AND name || ' ' || attributes LIKE ? ESCAPE '\'"
            values.append(f"%{_as_stored(text)}%")
        query = f"SELECT * FROM spans WHERE id < ? AND id > ?{has} ORDER BY id DESC LIMIT ?"
        with self._reading() as db:
            newest = _newest(db).span
            below = newest + 1
            while len(found) < limit:
                given = (below, newest - _MOST_LOOKED_AT, *values, _PAGE)
                rows = db.execute(query, given).fetchall()
                found += filter(fits, (read_span(db, row, origins) for row in rows))
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
            return tuple(read_event(db, row, origins) for row in rows)

    def follow(self, poll_s: float = 0.5, *, from_start: bool = False) -> Iterator[Span | Event]:
        """Yield spans and events as they are stored, forever.

        If the store does not exist yet, wait for it; if it is replaced, follow it from its start.

        Args:
            poll_s: Pause between two checks, in seconds.
            from_start: Whether to begin with existing records.
        """
        position = Position()
        if not from_start and self.path.exists():
            # The first read below raises the same error, or waits for the file.
            with contextlib.suppress(schema.StoreError):
                position = self.end()
        while True:
            records: Sequence[Span | Event] = ()
            try:
                records, position = self.after(position)
            except schema.StoreError as error:
                if error.cause != "missing":
                    raise
            yield from sorted(records, key=lambda record: record.at)
            if len(records) < _PAGE:
                time.sleep(poll_s)

    def end(self) -> Position:
        """Return the position after everything that is stored.

        Raises:
            StoreError: The store cannot be read.
        """
        with self._reading() as db:
            return _newest(db)

    def after(self, position: Position) -> tuple[Sequence[Span | Event], Position]:
        """Return records that were stored after a position, and the position after them.

        Args:
            position: If it is beyond the end, the store was replaced, and is read from its start.

        Returns:
            At most 512 events, then at most 512 spans, each in the order in which they were stored.

        Raises:
            StoreError: The store cannot be read.
        """
        with self._reading() as db:
            newest = _newest(db)
            if newest.span < position.span or newest.event < position.event:
                position = Position()
            origins: dict[int, Origin] = {}
            events = _next_events(db, position, origins)
            spans = _next_spans(db, position, origins)
        return [*events, *spans], _behind(position, spans, events)

    def decided(self, parts: int) -> Decisions:
        """Count the verdicts on the newest 10,000 spans.

        Args:
            parts: Into how many equal parts to cut the time from the first of them to the last.

        Raises:
            StoreError: The store cannot be read.
        """
        values = ", ".join(
            f"""coalesce(json_extract(attributes, '$."{name}"'), '')""" for name in _DECIDED
        )
        spans = f"FROM spans WHERE id > ? AND (({_NOT_ABOUT_APPROVAL}) OR ({_WITHDRAWN_ALONE}))"
        with self._reading() as db:
            above = _newest(db).span - _MOST_LOOKED_AT
            looked_at, first, last = db.execute(
                f"SELECT count(*), min(started_at), max(started_at) {spans}", (above,)
            ).fetchone()
            length = (last or 0) - (first or 0) + 1
            rows = db.execute(
                f"SELECT (started_at - ?) * ? / ? AS part, count(*), {values} {spans}"
                f" GROUP BY part, {', '.join(map(str, range(3, 3 + len(_DECIDED))))}",
                (first, parts, length, above),
            ).fetchall()
        read = functools.cache(_verdict)
        counts = tuple(
            Decided(policy, rule, tool, agent, verdict, part, count)
            for part, count, policy, rule, tool, agent, *decided in rows
            if (verdict := read(*decided)) is not None
        )
        return Decisions(looked_at, first or 0, last or 0, counts)

    @contextlib.contextmanager
    def _reading(self) -> Generator[sqlite3.Connection, None, None]:
        db = schema.open_for_reading(self.path)
        try:
            yield db
        except sqlite3.Error as error:
            raise schema.store_error(self.path, error) from error
        finally:
            db.close()


_DECIDED = (
    semconv.POLICY_ID,
    semconv.POLICY_RULE_ID,
    semconv.GEN_AI_TOOL_NAME,
    semconv.GEN_AI_AGENT_NAME,
    semconv.POLICY_DECISION,
    semconv.POLICY_ENFORCEMENT,
    semconv.APPROVAL_STATUS,
    semconv.WITHHELD,
)
_NOT_ABOUT_APPROVAL = " AND ".join(
    f"name NOT GLOB '{name}*'"
    for name in (semconv.SPAN_APPROVAL_REQUEST, semconv.SPAN_APPROVAL_WAIT)
)

_IS_WITHDRAWN = (
    f"""json_extract(attributes, '$."{semconv.APPROVAL_STATUS}"')"""
    f" = '{semconv.APPROVAL_STATUS_WITHDRAWN}'"
)
_WITHDRAWN_ALONE = (
    f"name GLOB '{semconv.SPAN_APPROVAL_WAIT}*' AND {_IS_WITHDRAWN}"
    " AND trace_id NOT IN (SELECT trace_id FROM spans"
    f" WHERE id > (SELECT max(id) FROM spans) - {_MOST_LOOKED_AT}"
    f" AND {_NOT_ABOUT_APPROVAL} AND {_IS_WITHDRAWN})"
)
"""Waits whose call has no span, as it ended with the question."""


def _verdict(
    decision: str, enforcement: str, status: str, withheld: object
) -> verdicts.Verdict | None:
    is_wait = not decision and status == semconv.APPROVAL_STATUS_WITHDRAWN
    found = {
        semconv.POLICY_DECISION: semconv.DECISION_ASK if is_wait else decision,
        semconv.POLICY_ENFORCEMENT: enforcement,
        semconv.APPROVAL_STATUS: status,
        semconv.WITHHELD: withheld,
    }
    return verdicts.read_verdict({name: value for name, value in found.items() if value})


def _as_stored(text: str) -> str:
    """Return a text as JSON within JSON has it, for LIKE."""
    return re.sub(r"([%_\\])", r"\\\1", codec.encode(text)[1:-1])


def _newest(db: sqlite3.Connection) -> Position:
    row = db.execute(
        "SELECT coalesce((SELECT max(id) FROM spans), 0), coalesce((SELECT max(id) FROM logs), 0)"
    ).fetchone()
    return Position(*row)


def _page(
    db: sqlite3.Connection, table: str, after: int, trace_ids: Sequence[str]
) -> list[sqlite3.Row]:
    wanted = f" AND trace_id IN ({', '.join('?' * len(trace_ids))})" if trace_ids else ""
    return db.execute(
        f"SELECT * FROM {table} WHERE id > ?{wanted} ORDER BY id LIMIT ?",
        (after, *trace_ids, _PAGE),
    ).fetchall()


def _next_spans(
    db: sqlite3.Connection,
    position: Position,
    origins: dict[int, Origin],
    trace_ids: Sequence[str] = (),
) -> list[Span]:
    rows = _page(db, "spans", position.span, trace_ids)
    return [read_span(db, row, origins) for row in rows]


def _next_events(
    db: sqlite3.Connection,
    position: Position,
    origins: dict[int, Origin],
    trace_ids: Sequence[str] = (),
) -> list[Event]:
    rows = _page(db, "logs", position.event, trace_ids)
    return [read_event(db, row, origins) for row in rows]


def _behind(position: Position, spans: Sequence[Span], events: Sequence[Event]) -> Position:
    return Position(
        spans[-1].id if spans else position.span, events[-1].id if events else position.event
    )
