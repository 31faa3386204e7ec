"""Traces of a Jaeger or a Tempo, in a store of their own that the console's pages query.

So every page has one way to read, whatever it reads. The store is a file that only this user can
read, of a folder that goes when the console ends. What a server answers is hostile: it is bounded,
and a span that is not one is left out.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import tempfile
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from otelhooks.errors import ConfigError
from otelhooks.plain_text import one_line, without_credentials
from otelhooks.policy_tools.otlp_calls import attributes_of, id_of, otlp_spans
from otelhooks.policy_tools.servers import Web, has_failed, items_in, jaeger_spans
from otelhooks.records import semconv
from otelhooks.store import terminal
from otelhooks.store.reader import Store, Wanted
from otelhooks.store.records import Trace
from otelhooks.store.writer import SqliteSpanExporter, check
from otelhooks.ui.links import check_address, grafana_link

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Server", "open_server"]

_PAGE_S = 10.0
"""How long a page waits for all that it needs of a server."""

_PAUSE_S, _PAUSE_AFTER_FAILURE_S = 2.0, 5.0
_WINDOW_NS = 24 * 3600 * 10**9
_OVERLAP_NS = 15 * 60 * 10**9
"""How far back spans are looked for that arrived since the last time."""

_MOST_TRACES, _MOST_SERVICES = 50, 50
_MOST_BYTES = 256 << 20
_LIMITS: dict[str, Any] = {"timeout_s": 5, "longest_s": 10, "most_bytes": 32 << 20}
_LATEST = 2**63 - 1
_WORDS = 300
_LOST = (
    "Not in it: events, such as a decision whose call still runs; calls that still run; and traces "
    "that were sampled away."
)
_NOT_READ = "This page shows what is on this machine: it is not in {kind}."
_LOCAL = ("approvals", "coverage", "audit")

Fetch = Callable[[str, Mapping[str, str | int]], Any]


class Server(Store):
    """The traces of a server, read again when a page is, at most every two seconds.

    Args:
        kind: ``Jaeger`` or ``Tempo``.
        address: Its base address, for links and texts.
        newest: Return the spans of the newest traces since a time, in nanoseconds, by answer.
        one: Return the spans of one trace, in one answer.
        page: Return the address at which people see a trace; empty for none.
    """

    def __init__(
        self,
        kind: str,
        address: str,
        newest: Callable[[int], Iterable[Iterable[ReadableSpan]]],
        one: Callable[[str], Iterable[Iterable[ReadableSpan]]],
        page: Callable[[str], str],
    ) -> None:
        folder = tempfile.mkdtemp(prefix="otelhooks-ui-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        super().__init__(Path(folder, "store.db"))
        self.page = page
        self._kind, self._address = kind, without_credentials(address)
        self._fetch_newest, self._fetch_one = newest, one
        self._writer = SqliteSpanExporter(self.path, max_bytes=_MOST_BYTES)
        check(self.path)
        self._starts, self._keeps = threading.Lock(), threading.Lock()
        self._reading_now: _Reading | None = None
        self._read_at = self._due = 0.0
        self._problem = ""

    def note(self, here: str) -> str:
        """Return what a page cannot show, and whether the server could be read."""
        if here in _LOCAL:
            return _NOT_READ.format(kind=self._kind)
        what = (
            f"Read from {self._kind} at {self._address}: the newest traces of the last 24 hours, at"
            f" most {_MOST_TRACES} at a time. {_LOST}"
        )
        if self._problem:
            last = terminal.clock(int(self._read_at * 1e9)) if self._read_at else "never"
            return f"{self._kind} could not be read: {self._problem} Last read: {last}. {what}"
        now = self._reading_now
        if now is not None and now.is_late():
            return (
                f"{self._kind} has not answered everything in {_PAGE_S:g} s: newer traces are not "
                f"shown yet. They are still being read; load the page again. {what}"
            )
        return what

    def trace(self, trace_id_prefix: str, *, wanted: Wanted | None = None) -> Trace | None:
        """Return one whole trace, read from the server if its whole id is given."""
        if re.fullmatch(r"[0-9a-f]{32}", trace_id_prefix):
            one = _Reading(lambda: self._take(self._fetch_one(trace_id_prefix)))
            one.wait()
            self._refresh(one.until)
            if one.is_late():
                self._problem = f"it has not answered in {_PAGE_S:g} s about this run."
        return super().trace(trace_id_prefix, wanted=wanted)

    @contextlib.contextmanager
    def _reading(self) -> Generator[sqlite3.Connection, None, None]:
        self._refresh(time.monotonic() + _PAGE_S)
        with super()._reading() as db:
            yield db

    def _refresh(self, until: float) -> None:
        """Read what is new; a page waits for another one's reading only at the start."""
        with self._starts:
            now = self._reading_now
            is_new = (now is None or now.is_over()) and time.monotonic() >= self._due
            if is_new:
                now = self._reading_now = _Reading(self._read_newest, until)
        if now is not None and (is_new or not self._read_at):
            now.wait()

    def _read_newest(self) -> None:
        now = time.time()
        since = self._read_at * 1e9 - _OVERLAP_NS if self._read_at else now * 1e9 - _WINDOW_NS
        if self._take(self._fetch_newest(int(since))):
            self._read_at = now
        pause_s = _PAUSE_AFTER_FAILURE_S if self._problem else _PAUSE_S
        self._due = time.monotonic() + pause_s

    def _take(self, answers: Iterable[Iterable[ReadableSpan]]) -> bool:
        """Store each answer when it is there; return whether all could be read."""
        try:
            for spans in answers:
                self._keep(spans)
        except ConfigError as error:
            problem = one_line(error.problem, _WORDS)
            self._problem = problem if problem.endswith(".") else f"{problem}."
        else:
            self._problem = ""
        return not self._problem

    def _keep(self, spans: Iterable[ReadableSpan]) -> None:
        """Store new spans, of traces in which at least one span is ours."""
        traces: defaultdict[str, dict[str, ReadableSpan]] = defaultdict(dict)
        for span in spans:
            place = span.get_span_context()
            assert place is not None
            traces[f"{place.trace_id:032x}"][f"{place.span_id:016x}"] = span
        for id, new in traces.items():
            if any(map(_is_ours, new.values())):
                with self._keeps:
                    with super()._reading() as db:
                        query = "SELECT span_id FROM spans WHERE trace_id = ?"
                        known = {row[0] for row in db.execute(query, (id,))}
                    self._writer.export([new[each] for each in new.keys() - known])


class _Reading:
    """Runs in a thread of its own, for which a page waits so long and no longer.

    A server that sends a byte now and then outlasts any time-out of a socket.
    """

    def __init__(self, read: Callable[[], Any], until: float | None = None) -> None:
        self.until: float = time.monotonic() + _PAGE_S if until is None else until
        self._thread = threading.Thread(target=read, daemon=True, name="otelhooks-ui-reading")
        self._thread.start()

    def wait(self) -> None:
        self._thread.join(max(self.until - time.monotonic(), 0))

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def is_late(self) -> bool:
        return self._thread.is_alive() and time.monotonic() >= self.until


def _is_ours(span: ReadableSpan) -> bool:
    names = span.attributes or {}
    return semconv.GEN_AI_OPERATION_NAME in names or semconv.POLICY_DECISION in names


def open_server(kind: str, address: str, headers: Mapping[str, str], grafana: str = "") -> Server:
    """Return a server.

    Args:
        kind: ``jaeger`` or ``tempo``.
        address: Its base address.
        headers: Sent with every request.
        grafana: Base address of a Grafana that shows its traces.

    Raises:
        ConfigError: An address cannot be used.
    """
    for url in filter(None, (address, grafana)):
        check_address(url)
    base = address.rstrip("/")
    web = Web(base, headers, **_LIMITS)
    of_kind: type[_Jaeger | _Tempo] = _Jaeger if kind == "jaeger" else _Tempo
    found, shown = of_kind(web), without_credentials(base)

    def page(id: str) -> str:
        if grafana:
            return grafana_link(grafana, kind, id)
        return f"{shown}/trace/{id}" if kind == "jaeger" else ""

    return Server(kind.capitalize(), base, found.newest, found.one, page)


# -- the two kinds ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Jaeger:
    """Source: Jaeger 1.76 (v2), ``/api/services`` and ``/api/traces``."""

    fetch: Fetch

    def newest(self, since_ns: int) -> Iterator[Iterator[ReadableSpan]]:
        services = items_in(self.fetch("/api/services", {}), "data")[:_MOST_SERVICES]
        times = {"start": since_ns // 1_000, "end": time.time_ns() // 1_000 + 1}
        for service in services:
            query: dict[str, str | int] = {"service": str(service), "limit": _MOST_TRACES}
            yield _read(jaeger_spans(self.fetch("/api/traces", query | times)), _of_jaeger)

    def one(self, id: str) -> Iterator[Iterator[ReadableSpan]]:
        yield _read(jaeger_spans(_found(self.fetch, f"/api/traces/{id}")), _of_jaeger)


@dataclass(frozen=True)
class _Tempo:
    """Source: Tempo 3, ``/api/search`` and ``/api/v2/traces/ID``."""

    fetch: Fetch
    seen: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the last search said of each trace: one that says the same is not read again."""

    def newest(self, since_ns: int) -> Iterator[Iterator[ReadableSpan]]:
        ours = f'{{ span.{semconv.GEN_AI_OPERATION_NAME} =~ ".+" }}'
        query: dict[str, str | int] = {"q": ours, "limit": _MOST_TRACES}
        times = {"start": since_ns // 10**9, "end": time.time_ns() // 10**9 + 1}
        found = items_in(self.fetch("/api/search", query | times), "traces")[:_MOST_TRACES]
        said = {id: trace for trace in found if (id := _id_in(trace))}
        for id, trace in said.items():
            if self.seen.get(id) != trace:
                yield from self.one(id)
                self.seen[id] = trace
        for id in self.seen.keys() - said.keys():
            del self.seen[id]

    def one(self, id: str) -> Iterator[Iterator[ReadableSpan]]:
        yield _read(otlp_spans(_found(self.fetch, f"/api/v2/traces/{id}")), _of_otlp)


def _found(fetch: Fetch, path: str) -> Any:
    """Return an answer about one trace; an empty one if the server does not have it."""
    try:
        return fetch(path, {})
    except ConfigError as error:
        if " answers 404" in error.problem:
            return {}
        raise


def _id_in(trace: Any) -> str:
    try:
        id = str(trace["traceID"]).zfill(32).lower()
    except (TypeError, LookupError):
        return ""
    return id if re.fullmatch(r"[0-9a-f]{32}", id) else ""


def _read(
    spans: Iterator[tuple[Any, Any, Any]], convert: Callable[[Any, Any, Any], ReadableSpan]
) -> Iterator[ReadableSpan]:
    """Yield the spans of an answer, without what is not one.

    Raises:
        ConfigError: It has another form than such answers have.
    """
    try:
        for each in spans:
            with contextlib.suppress(TypeError, ValueError, AttributeError, LookupError):
                yield convert(*each)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise ConfigError(
            "the server's answer has another form than expected",
            hint="check whether it is a Jaeger or a Tempo",
        ) from error


def _of_jaeger(span: Any, tags: dict[str, Any], service: Any) -> ReadableSpan:
    started_at = int(span["startTime"]) * 1_000
    parent = next((one["spanID"] for one in span.get("references") or ()), None)
    logs = ((log["timestamp"], items_in(log, "fields")) for log in span.get("logs") or ())
    events = [(int(at) * 1_000, {one["key"]: one.get("value") for one in log}) for at, log in logs]
    return _span(
        *(span["traceID"].zfill(32), span["spanID"].zfill(16), parent and parent.zfill(16)),
        name=span["operationName"],
        kind=tags.pop("span.kind", ""),
        times=(started_at, started_at + int(span.get("duration") or 0) * 1_000),
        failed=has_failed(tags),
        status=tags.pop("otel.status_description", None),
        attributes=tags,
        events=[(str(fields.pop("event", "log")), at, fields) for at, fields in events],
        program={semconv.SERVICE_NAME: service},
        scope=(tags.pop("otel.scope.name", ""), tags.pop("otel.scope.version", "")),
    )


def _of_otlp(span: Any, program: dict[str, Any], scope: Any) -> ReadableSpan:
    status: Any = span.get("status") or {}
    parent = span.get("parentSpanId")
    kind = span.get("kind") or 0
    return _span(
        *(id_of(span["traceId"], 16), id_of(span["spanId"], 8), parent and id_of(parent, 8)),
        name=span["name"],
        kind=_KINDS[kind] if isinstance(kind, int) else kind.removeprefix("SPAN_KIND_"),
        times=(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])),
        failed=status.get("code") in (2, "STATUS_CODE_ERROR"),
        status=status.get("message"),
        attributes=attributes_of(span),
        events=[
            (str(event.get("name", "")), int(event["timeUnixNano"]), attributes_of(event))
            for event in span.get("events") or ()
        ],
        program=program,
        scope=(scope.get("name", ""), scope.get("version", "")),
    )


_KINDS = ("internal", "internal", "server", "client", "producer", "consumer")


def _span(
    trace_id: str,
    span_id: str,
    parent_id: str | None,
    *,
    name: Any,
    kind: str,
    times: tuple[int, int],
    failed: bool,
    status: Any,
    attributes: dict[str, Any],
    events: list[tuple[str, int, dict[str, Any]]],
    program: dict[str, Any],
    scope: tuple[Any, Any],
) -> ReadableSpan:
    if not (
        0 <= times[0] <= times[1] <= _LATEST and all(0 <= at <= _LATEST for _, at, _ in events)
    ):
        raise ValueError("a time that no clock has")
    trace = _number(trace_id, 32)
    resource, where = _origin(
        tuple(sorted((str(k), str(v)) for k, v in program.items() if k and v)),
        (str(scope[0]), str(scope[1])),
    )
    return ReadableSpan(
        str(name),
        SpanContext(trace, _number(span_id, 16), is_remote=False),
        SpanContext(trace, _number(parent_id, 16), is_remote=False) if parent_id else None,
        resource=resource,
        attributes=attributes,
        events=[Event(name, fields, at) for name, at, fields in events],
        kind=SpanKind.__members__.get(kind.upper(), SpanKind.INTERNAL),
        status=Status(StatusCode.ERROR, str(status or "")) if failed else Status(),
        start_time=times[0],
        end_time=times[1],
        instrumentation_scope=where,
    )


def _number(text: str, digits: int) -> int:
    if not re.fullmatch(rf"[0-9a-f]{{{digits}}}", text.lower()) or not (number := int(text, 16)):
        raise ValueError("not an id")
    return number


@functools.lru_cache(maxsize=256)
def _origin(
    program: tuple[tuple[str, str], ...], scope: tuple[str, str]
) -> tuple[Resource, InstrumentationScope]:
    return Resource(dict(program)), InstrumentationScope(*scope)
