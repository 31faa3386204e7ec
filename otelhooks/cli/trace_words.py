"""The output of ``otelhooks trace``: a list of traces, and records as they come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from rich.cells import cell_len
from rich.text import Text

from otelhooks.plain_text import LOGGED, one_line
from otelhooks.records import semconv
from otelhooks.store import terminal
from otelhooks.store.verdicts import is_about_approval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otelhooks.store.records import Event, Span, TraceSummary

__all__ = ["is_repeated", "listed", "of_record", "type_of"]

_MAX_NAME = 24
"""Most columns of a service's or an agent's name in a terminal."""


class _Row(NamedTuple):
    """A trace, as the columns of the list."""

    trace: str
    started: str
    service: str
    agent: str
    duration: str
    tokens: str
    cost: str
    verdicts: str


_HEAD = _Row("TRACE", "STARTED", "SERVICE", "AGENT", "DURATION", "TOKENS", "COST", "VERDICTS")
_TO_THE_RIGHT = ("duration", "tokens", "cost")


def listed(summaries: Sequence[TraceSummary], width: int | None) -> Text:
    """Return traces as a table, or as two lines each where a table is too wide.

    Args:
        summaries: The traces.
        width: Columns of the terminal; None for a pipe, which takes whole lines.
    """
    digits = _digits_that_tell_apart([summary.trace_id for summary in summaries])
    rows = [_row(summary, digits, width) for summary in summaries]
    used = [name for name in _Row._fields if any(getattr(row, name) != "-" for row in rows)]
    widths = {name: max(cell_len(getattr(row, name)) for row in [_HEAD, *rows]) for name in used}
    is_narrow = width is not None and sum(widths.values()) + 2 * (len(used) - 1) > width
    result = Text()
    if not is_narrow:
        result.append_text(Text(_line(_HEAD, widths), "bold")).append("\n")
    for row, summary in zip(rows, summaries, strict=True):
        style = "red" if summary.is_refused else ""
        if is_narrow:
            assert width is not None
            lines = _card(row, width)
        else:
            lines = [_line(row, widths)]
        for line in lines:
            result.append(line + "\n", style)
    return result


def _digits_that_tell_apart(trace_ids: Sequence[str]) -> int:
    """Return how many digits of the ids are shown: 8, or more where two begin alike."""
    digits = 8
    while digits < 32 and len({id[:digits] for id in trace_ids}) < len(set(trace_ids)):
        digits += 1
    return digits


def _row(summary: TraceSummary, digits: int, width: int | None) -> _Row:
    agents = ", ".join(summary.agents) or summary.name or "(events only)"
    most = LOGGED if width is None else _MAX_NAME
    names = [terminal.cut(one_line(text or "-"), most) for text in (summary.service, agents)]
    totals = terminal.used(summary.totals)
    cost = terminal.money(summary.totals.cost_usd, summary.totals.cost_unknown)
    tokens = totals[0].removesuffix(" tokens") if totals and totals[0] != cost else "-"
    return _Row(
        summary.trace_id[:digits],
        terminal.clock(summary.started_at),
        names[0],
        names[1],
        terminal.duration(summary.duration_s),
        tokens,
        cost or "-",
        terminal.verdicts(summary) or "-",
    )


def _line(row: _Row, widths: dict[str, int]) -> str:
    cells: list[str] = []
    for name, width in widths.items():
        text: str = getattr(row, name)
        blanks = " " * (width - cell_len(text))
        cells.append(blanks + text if name in _TO_THE_RIGHT else text + blanks)
    return "  ".join(cells).rstrip()


def _card(row: _Row, width: int) -> list[str]:
    """Return a trace as two lines, or three: when and how it went; what ran, and what it used."""
    tokens = f"{row.tokens} tokens" if row.tokens != "-" else "-"
    parts = [f"{row.agent} ({row.service})" if row.service != "-" else row.agent, tokens, row.cost]
    first = [row.trace, row.started, row.duration, row.verdicts]
    head, *more = terminal.filled([part for part in first if part != "-"], "  ", width)
    below = terminal.filled([part for part in parts if part != "-"], "  ", width - 2)
    lines = [head, *(f"  {line}" for line in [*more, *below])]
    return [terminal.cut(line, width) for line in lines]


def type_of(record: Span | Event) -> str:
    """Return ``span`` or ``event``."""
    return "span" if hasattr(record, "kind") else "event"


def is_repeated(record: Span | Event) -> bool:
    """Return whether other records tell the same: messages of a model call, spans of a question."""
    name = record.name or ""
    return name == semconv.EVENT_GEN_AI_OPERATION_DETAILS or is_about_approval(name)


def of_record(record: Span | Event, width: int | None) -> Text:
    """Return a span or event as it came in: time, trace, kind, name, duration, verdict.

    Args:
        record: The span or event.
        width: Columns of the terminal: what does not fit continues indented, and is broken at
            blanks. None for a pipe, which takes one line.
    """
    name = one_line(record.name or "log record", None if width is None else terminal.NAME_WIDTH)
    kind = type_of(record)
    text = Text(f"{terminal.clock(record.at, with_date=False)}  ", "dim")
    text.append(f"{terminal.short(record.trace_id or '-'):<8}  {kind:<5}  ", "dim")
    text.append(name)
    if kind == "span":
        text.append(f"  {terminal.duration(cast('Span', record).duration_s)}", "dim")
    said = terminal.details(record.attributes, name)
    if said:
        text.append("  ").append_text(said)
    if service := record.origin.resource.get(semconv.SERVICE_NAME):
        shown = one_line(service)
        text.append(f"  {shown if width is None else terminal.cut(shown, _MAX_NAME)}", "dim")
    if width is None:
        return text
    return Text("\n  ").join(terminal.broken(text, width, width - 2))
