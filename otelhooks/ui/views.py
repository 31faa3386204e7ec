"""What the pages show, made of what the store holds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.style import Style

from otelhooks.approvals.questions import Question
from otelhooks.plain_text import one_line, sanitize
from otelhooks.store import terminal
from otelhooks.store import tree as trees
from otelhooks.store.asks import in_one_row
from otelhooks.store.reader import Store, Wanted
from otelhooks.store.records import Span, Trace, TraceSummary
from otelhooks.store.verdicts import read_verdict
from otelhooks.telemetry import semconv

__all__ = ["Call", "Piece", "Run", "Shown", "calls", "question", "runs", "tree"]

_ROWS = 50
_WIDTH = 110
_NAME = 60
_OPERATIONS = ("execute_tool", "chat", "generate_content", "text_completion")


@dataclass(frozen=True, slots=True)
class Call:
    """A row of the live page."""

    at: str
    agent: str
    name: str
    duration: str
    words: str
    mood: str
    rule: str
    reason: str
    trace: str


def calls(store: Store, wanted: Wanted, decision: str) -> list[Call]:
    """Return the newest calls of tools and models that a filter lets through, newest first."""

    def fits(span: Span) -> bool:
        verdict = read_verdict(span.attributes)
        if (
            verdict is None
            and span.attributes.get(semconv.GEN_AI_OPERATION_NAME) not in _OPERATIONS
        ):
            return False
        return not decision or (verdict is not None and verdict.words.startswith(decision))

    return [_call(span) for span in in_one_row(store.newest(_ROWS, wanted, fits))]


def _call(span: Span) -> Call:
    verdict = read_verdict(span.attributes)
    rule = f"{verdict.policy_id}/{verdict.rule_id}" if verdict and verdict.rule_id else ""
    return Call(
        at=terminal.clock(span.at, with_date=False),
        agent=one_line(span.attributes.get(semconv.GEN_AI_AGENT_NAME, ""), _NAME),
        name=one_line(span.name, _NAME),
        duration=terminal.duration(span.duration_s),
        words=verdict.words if verdict else "",
        mood=verdict.mood if verdict else "",
        rule=one_line(rule, _NAME),
        reason=sanitize(verdict.reason) if verdict else "",
        trace=span.trace_id,
    )


@dataclass(frozen=True, slots=True)
class Run:
    """A row of the list of runs."""

    trace: str
    started: str
    service: str
    agents: str
    duration: str
    used: str
    refused: int
    others: int
    is_refused: bool


def runs(store: Store, *, denied: bool) -> list[Run]:
    """Return the newest traces."""
    return [_run(summary) for summary in store.traces(_ROWS, denied=denied)]


def _run(summary: TraceSummary) -> Run:
    return Run(
        trace=summary.trace_id,
        started=terminal.clock(summary.started_at),
        service=one_line(summary.service, _NAME),
        agents=one_line(", ".join(summary.agents) or summary.name or "events only", _NAME),
        duration=terminal.duration(summary.duration_s),
        used=" · ".join(terminal.used(summary.totals)),
        refused=summary.refused,
        others=summary.observed + summary.verdicts,
        is_refused=summary.is_refused,
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """A text of one style."""

    text: str
    style: str


def tree(trace: Trace, *, is_whole: bool) -> list[Piece]:
    """Return a trace as `otelhooks trace show` draws it."""
    text = trees.render(
        trace.spans, trace.events, width=_WIDTH, content="whole" if is_whole else "lines"
    )
    console = Console(width=_WIDTH, force_terminal=True, color_system="truecolor")
    return [
        Piece(segment.text, " ".join(_classes(segment.style)))
        for segment in text.render(console)
        if segment.text
    ]


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
class Shown:
    """A question, as its pages show it."""

    id: str
    tool: str
    status: str
    is_open: bool
    approver: str
    needs: int
    asked: str
    left: str
    args: str
    facts: dict[str, Any]


def question(found: Question) -> Shown:
    """Return a question with its arguments as JSON, whole and without control characters."""
    left = max(found.expires_at - time.time(), 0.0)
    facts = found.facts
    return Shown(
        id=found.id,
        tool=one_line(found.tool, _NAME),
        status=found.status,
        is_open=found.status == "pending",
        approver=found.approver,
        needs=found.needs,
        asked=terminal.clock(int(found.asked_at * 1e9)),
        left=terminal.duration(left),
        args=json.dumps(facts.get("args", {}), indent=2),
        facts={name: sanitize(value) for name, value in facts.items() if name != "args"},
    )
