"""Calls as they end, and runs: a list, and each as a tree or over time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.style import Style
from starlette.requests import Request
from starlette.responses import Response

from otelhooks.plain_text import one_line, sanitize
from otelhooks.records import semconv
from otelhooks.store import terminal
from otelhooks.store import tree as trees
from otelhooks.store.asks import in_one_row
from otelhooks.store.reader import AmbiguousTraceError, Wanted
from otelhooks.store.records import Span, Trace, TraceSummary
from otelhooks.store.verdicts import read_verdict
from otelhooks.ui.site import Site

__all__ = ["live", "live_rows", "run", "runs"]

_FILTERS = ("agent", "tool", "rule", "decision", "text")
_ROWS = 50
_WIDTH = 110
_NAME = 60
_DEEPEST = 12
_MOST_SPANS = 1_000
"""Spans of a run that are on one page: browsers, and people, take no more."""
_OPERATIONS = ("execute_tool", "chat", "generate_content", "text_completion")


# -- calls --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Call:
    at: str
    agent: str
    name: str
    duration: str
    words: str
    mood: str
    rule: str
    reason: str
    trace: str
    span: str
    is_tool: bool


def live(site: Site, request: Request) -> Response:
    """Show the newest calls."""
    return site.page("live.html", "live", **_found(site, request))


def live_rows(site: Site, request: Request) -> Response:
    """Show the same as rows alone."""
    return site.page("live_rows.html", "live", **_found(site, request))


def _found(site: Site, request: Request) -> dict[str, Any]:
    given = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
    wanted = Wanted(**{name: text or None for name, text in given.items() if name != "text"})
    found = site.store.newest(_ROWS, wanted, _is_call, given["text"])
    calls = [_call(span) for span in in_one_row(found)]
    return {"calls": calls, "filters": given, "query": str(request.query_params)}


def _is_call(span: Span) -> bool:
    if span.attributes.get(semconv.GEN_AI_OPERATION_NAME) in _OPERATIONS:
        return True
    return read_verdict(span.attributes) is not None


def _call(span: Span) -> _Call:
    verdict = read_verdict(span.attributes)
    rule = "/".join(filter(None, (verdict.policy_id, verdict.rule_id))) if verdict else ""
    return _Call(
        at=terminal.clock(span.at, with_date=False),
        agent=one_line(span.attributes.get(semconv.GEN_AI_AGENT_NAME, ""), _NAME),
        name=one_line(span.name, _NAME),
        duration=terminal.duration(span.duration_s),
        words=verdict.words if verdict else "",
        mood=verdict.mood if verdict else "",
        rule=one_line(rule, _NAME),
        reason=sanitize(verdict.reason) if verdict else "",
        trace=span.trace_id,
        span=span.span_id,
        is_tool=span.attributes.get(semconv.GEN_AI_OPERATION_NAME) == semconv.OP_EXECUTE_TOOL,
    )


# -- runs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    trace: str
    started: str
    service: str
    agents: str
    duration: str
    used: str
    verdicts: str
    is_refused: bool


def runs(site: Site, request: Request) -> Response:
    """Show the newest traces."""
    is_denied = "denied" in request.query_params
    found = [_run(summary) for summary in site.store.traces(_ROWS, denied=is_denied)]
    return site.page("runs.html", "runs", runs=found, denied=is_denied)


def _run(summary: TraceSummary) -> _Run:
    return _Run(
        trace=summary.trace_id,
        started=terminal.clock(summary.started_at),
        service=one_line(summary.service, _NAME),
        agents=one_line(", ".join(summary.agents) or summary.name or "events only", _NAME),
        duration=terminal.duration(summary.duration_s),
        used=" · ".join(terminal.used(summary.totals)),
        verdicts=terminal.verdicts(summary),
        is_refused=summary.is_refused,
    )


def run(site: Site, request: Request) -> Response:
    """Show one trace: as a conversation, in one line or in full, or over time."""
    try:
        found = site.store.trace(request.path_params["id"])
    except AmbiguousTraceError:
        found = None
    if found is None:
        return site.missing(request)
    query = request.query_params.get("from", "")
    first = int(query) if query.isascii() and query.isdigit() and len(query) < 10 else 0
    spans = len(found.spans)
    found = dataclasses.replace(found, spans=found.spans[first : first + _MOST_SPANS])
    shown: dict[str, Any] = {"tree": [], "bars": [], "first": first, "spans": spans}
    shown |= {"most": _MOST_SPANS}
    view = next((view for view in ("content", "time") if view in request.query_params), "")
    if view == "time":
        shown["bars"] = list(_bars(found.spans))
    else:
        shown["tree"] = list(_tree(found, is_whole=view == "content"))
    link = site.link(found.trace_id)
    shown |= {"link": link, "elsewhere": "Grafana" if site.settings.grafana else "Jaeger"}
    return site.page("run.html", "runs", trace=found.trace_id, view=view, **shown)


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    style: str


def _tree(trace: Trace, *, is_whole: bool) -> Iterator[_Piece]:
    """Yield a trace as `otelhooks trace show` draws it."""
    text = trees.render(
        trace.spans, trace.events, width=_WIDTH, content="whole" if is_whole else "lines"
    )
    console = Console(width=_WIDTH, force_terminal=True, color_system="truecolor")
    for segment in text.render(console):
        if segment.text:
            yield _Piece(segment.text, " ".join(_classes(segment.style)))


def _classes(style: Style | None) -> Iterator[str]:
    if style is None:
        return
    if style.bold:
        yield "bold"
    if style.italic:
        yield "italic"
    if style.dim:
        yield "dim"
    if style.color is not None:
        yield f"c-{style.color.name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class _Bar:
    name: str
    depth: int
    duration: str
    mood: str
    left: float
    width: float


def _bars(spans: tuple[Span, ...]) -> Iterator[_Bar]:
    """Yield the spans of a trace, each below its parent, with its part of the time in percent."""
    first = min((span.started_at for span in spans), default=0)
    whole = max((span.ended_at for span in spans), default=0) - first or 1
    known = {span.span_id for span in spans}
    below: dict[str | None, list[Span]] = {}
    for span in in_one_row(spans):
        below.setdefault(span.parent_id if span.parent_id in known else None, []).append(span)
    waiting = [(span, 0) for span in reversed(below.pop(None, []))]
    while waiting:
        span, depth = waiting.pop()
        waiting += [(child, depth + 1) for child in reversed(below.pop(span.span_id, []))]
        verdict = read_verdict(span.attributes)
        yield _Bar(
            name=one_line(span.name, _NAME),
            depth=min(depth, _DEEPEST),
            duration=terminal.duration(span.duration_s),
            mood=verdict.mood if verdict else "",
            left=round(100 * (span.started_at - first) / whole, 2),
            width=max(round(100 * (span.ended_at - span.started_at) / whole, 2), 0.3),
        )
