"""Words for the terminal: names, durations, times and verdicts on one line.

Everything shown may come from models, tools and remote servers, so escape codes that would control
a terminal are spelled out (see `otelhooks.plain_text`). Words have the meaning; marks and colours
only repeat it.
"""

from __future__ import annotations

import itertools
import math
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from otelhooks.plain_text import one_line
from otelhooks.records import semconv
from otelhooks.store.verdicts import Mood, Verdict, read_verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo
    from typing import Any

    from otelhooks.store.records import TraceSummary
    from otelhooks.store.totals import Totals

_MARKS: dict[Mood, tuple[str, str, str]] = {  # unicode, ascii, style
    "good": ("✓", "+", "green"),
    "bad": ("✗", "x", "bold red"),
    "changed": ("~", "~", "yellow"),
    "waiting": ("…", ".", "cyan"),
    "observed": ("◌", "o", "magenta"),
}
NAME_WIDTH = 60
"""Most columns of a name: it may come from a model."""

_TOGETHER = 40
"""Most columns of a part that is not broken."""

_PARTS = re.compile(r"( *)([^ ]+(?: [^ ]+)*)")

_ASCII = str.maketrans(
    {"→": "->", "≥": ">=", "·": "-", "…": "...", "├": "|", "─": "-", "└": "`", "│": "|"}
)


def duration(seconds: float) -> str:
    """Return a duration with about three digits, such as ``0.21 ms``, ``412 ms``, ``1.24 s``."""
    if seconds < 0.001:
        return f"{seconds * 1000:.2f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


def clock(at: int, tz: tzinfo | None = None, *, with_date: bool = True) -> str:
    """Return a time of day, with its date.

    Args:
        at: Nanoseconds since the Unix epoch.
        tz: Time zone; None for that of this machine.
        with_date: Whether to show the date; without it milliseconds are shown.
    """
    when = datetime.fromtimestamp(at / 1e9, tz=timezone.utc).astimezone(tz)
    return f"{when:%Y-%m-%d %H:%M:%S}" if with_date else f"{when:%H:%M:%S.%f}"[:-3]


def details(attributes: Mapping[str, Any], name: str = "", above: str | None = None) -> Text:
    """Return the details of a span or event: verdict, rule, reason, facts, error.

    Args:
        attributes: Attributes of the span or event.
        name: Its name; agent, tool and model are not repeated if they are part of it.
        above: Name of the agent whose span it is below, which is not repeated either.
    """
    text = Text()
    verdict = read_verdict(attributes)
    if verdict is not None:
        _append_verdict(text, verdict)
    facts = _facts(attributes, name, above)
    if facts:
        append(text, ", ".join(facts), "dim")
    error = attributes.get(semconv.ERROR_TYPE)
    if error is not None:
        append(text, f"[{one_line(error)}]", "red")
    return text


def append(text: Text, part: str, style: str) -> None:
    """Add a part to a line, two spaces from what is there."""
    if text:
        text.append("  ")
    text.append(part, style)


def _append_verdict(text: Text, verdict: Verdict) -> None:
    mark, _, style = _MARKS[verdict.mood]
    text.append(f"{mark} {one_line(verdict.words)}", style)
    if verdict.is_plain:
        return
    rule = one_line(verdict.rule_id)
    if verdict.policy_id and verdict.policy_id not in ("", semconv.POLICY_SOURCE_HOOK):
        rule = f"{rule} ({one_line(verdict.policy_id)})" if rule else one_line(verdict.policy_id)
    if rule:
        append(text, rule, "bold")
    if verdict.reason:
        text.append(": " if rule else "  ")
        text.append(one_line(verdict.reason))


def _facts(attributes: Mapping[str, Any], name: str, above: str | None) -> list[str]:
    facts: list[str] = []
    if (meant := attributes.get(semconv.POLICY_RULE_TOOL)) is not None:
        rule, policy = (
            one_line(attributes.get(key, "?"), NAME_WIDTH)
            for key in (semconv.POLICY_RULE_ID, semconv.POLICY_ID)
        )
        facts.append(f"rule {rule} ({policy}) is for {one_line(meant, NAME_WIDTH)}")
    for key, word in (
        (semconv.GEN_AI_TOOL_NAME, "tool"),
        (semconv.TOOL_SERVER, "server"),
        (semconv.MCP_TOOL_CHANGE, "change"),
        (semconv.GEN_AI_REQUEST_MODEL, "model"),
        (semconv.GEN_AI_AGENT_NAME, "agent"),
    ):
        if (value := attributes.get(key)) is None:
            continue
        shown = one_line(value, NAME_WIDTH)
        if shown not in name and not (word == "agent" and shown == above):
            facts.append(f"{word} {shown}")
    read = attributes.get(semconv.GEN_AI_USAGE_INPUT_TOKENS)
    written = attributes.get(semconv.GEN_AI_USAGE_OUTPUT_TOKENS)
    if read is not None or written is not None:
        facts.append(f"{_count(read)} → {_count(written)} tokens")
    if cost := money(attributes.get(semconv.COST_USD), attributes.get(semconv.COST_UNKNOWN)):
        facts.append(cost)
    approver = attributes.get(semconv.APPROVAL_APPROVER_TYPE)
    waited = attributes.get(semconv.APPROVAL_WAIT_DURATION)
    approver_id = attributes.get(semconv.APPROVAL_APPROVER_ID, "")
    by = [f"by {one_line(f'{approver} {approver_id}'.strip())}"] if approver else []
    if isinstance(waited, (int, float)):
        by.append(f"after {duration(waited)}")
    if by:
        facts.append(" ".join(by))
    return facts


def money(usd: object, unknown: object = 0) -> str:
    """Return a cost, such as ``$0.0035``; ``≥ $0.0035`` if a part is unknown, ``$?`` if all is.

    Args:
        usd: US dollars; anything but a number for none known.
        unknown: Number of model calls whose cost is not known.

    Returns:
        An empty text if nothing was spent at all.
    """
    is_known = isinstance(usd, (int, float)) and math.isfinite(usd)
    if not is_known:
        return "$?" if unknown else ""
    assert isinstance(usd, (int, float))
    digits = 2 if usd >= 1 else 4 if usd >= 0.0001 or not usd else 6
    text = f"${usd:,.{digits}f}"
    return f"≥ {text}" if unknown else text


def used(totals: Totals) -> list[str]:
    """Return the tokens and the cost of a trace, as far as there are any."""
    found: list[str] = []
    if totals.input_tokens is not None or totals.output_tokens is not None:
        found.append(f"{_count(totals.input_tokens)} → {_count(totals.output_tokens)} tokens")
    if cost := money(totals.cost_usd, totals.cost_unknown):
        found.append(cost)
    return found


def verdicts(summary: TraceSummary) -> str:
    """Return how many calls of a trace had which verdicts, empty for plain allows alone."""
    parts = [
        f"{count} {word}"
        for count, word in (
            (summary.refused, "refused"),
            (summary.withheld, "withheld"),
            (summary.observed, "observed"),
            (summary.approved, "approved"),
            (summary.withdrawn, "withdrawn"),
            (summary.pending, "pending"),
            (summary.verdicts, "other"),
            (summary.errors, "failed"),
        )
        if count
    ]
    return ", ".join(parts) or ("refused" if summary.is_refused else "")


def short(id: str) -> str:
    """Return the first digits of a trace or span id, enough for people."""
    return id[:8]


def _count(number: object) -> str:
    return f"{number:,}" if isinstance(number, int) else "?"


def to_ascii(text: Text) -> Text:
    """Return the text in ASCII with its styles; other characters become a question mark."""
    marks = str.maketrans({mark: plain for mark, plain, _ in _MARKS.values()})
    result = Text()
    for piece in text.split("\n", include_separator=True, allow_blank=True):
        for part, style in _runs(piece):
            plain = part.translate(marks).translate(_ASCII)
            result.append(plain.encode("ascii", "replace").decode(), style)
    return result


def _runs(text: Text) -> list[tuple[str, str]]:
    """Return the text in pieces of one style each; where styles overlap, the last one wins."""
    edges = sorted({0, len(text), *(edge for span in text.spans for edge in span[:2])})
    runs: list[tuple[str, str]] = []
    for start, end in itertools.pairwise(edges):
        styles = [str(span.style) for span in text.spans if span.start <= start < span.end]
        runs.append((text.plain[start:end], styles[-1] if styles else str(text.style)))
    return runs


def cut(text: str, width: int) -> str:
    """Return the beginning of a line that is too wide, with an ellipsis."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text[:width], width - 1) + "…"


def filled(parts: Sequence[str], separator: str, width: int) -> list[str]:
    """Return texts side by side, in as many lines as they need; no text is broken."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1] + separator + part) <= width:
            lines[-1] += separator + part
        else:
            lines.append(part)
    return lines


def broken(text: Text, width: int, further: int | None = None) -> list[Text]:
    """Wrap a text at blanks, so that no piece is too wide, except for long words.

    Short parts that two blanks set off, such as tokens and cost, stay together.

    Args:
        text: One line.
        width: Most columns of a piece.
        further: Most columns of each piece after the first; None for `width`.
    """
    breaks: list[int] = []
    limit = min(_TOGETHER, width, further or width)
    used = 0
    for found in _PARTS.finditer(text.plain):
        blanks, part = len(found[1]), found[2]
        at = found.start(2)
        for word in [part] if cell_len(part) <= limit else part.split(" "):
            wide = cell_len(word)
            if used and used + blanks + wide > width:
                breaks.append(at)
                used, width = wide, further or width
            else:
                used += blanks + wide
            blanks = 1
            at += len(word) + 1
    pieces = list(text.divide(breaks)) if text else []
    for piece in pieces:
        piece.rstrip()
    return pieces
