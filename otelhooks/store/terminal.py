"""Words for the terminal: names, durations, times and verdicts on one line.

Everything shown may come from models, tools and remote servers, so escape codes that would control
a terminal are spelled out (see `otelhooks.plain_text`). Words have the meaning; marks and colours
only repeat it.
"""

from __future__ import annotations

import itertools
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rich.text import Text

from otelhooks.plain_text import one_line
from otelhooks.store.verdicts import Mood, Verdict, read_verdict
from otelhooks.telemetry import semconv

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo
    from typing import Any

_MARKS: dict[Mood, tuple[str, str, str]] = {  # unicode, ascii, style
    "good": ("✓", "+", "green"),
    "bad": ("✗", "x", "bold red"),
    "changed": ("~", "~", "yellow"),
    "waiting": ("…", ".", "cyan"),
    "observed": ("◌", "o", "magenta"),
}
_ASCII = str.maketrans({"→": "->", "·": "-", "…": "...", "├": "|", "─": "-", "└": "`", "│": "|"})


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


def details(attributes: Mapping[str, Any], name: str = "") -> Text:
    """Return the details of a span or event: verdict, rule, reason, facts, error.

    Args:
        attributes: Attributes of the span or event.
        name: Its name; agent, tool and model are not repeated if they are part of it.
    """
    text = Text()
    verdict = read_verdict(attributes)
    if verdict is not None:
        _append_verdict(text, verdict)
    facts = _facts(attributes, name)
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


def _facts(attributes: Mapping[str, Any], name: str) -> list[str]:
    facts: list[str] = []
    for key, word in (
        (semconv.GEN_AI_TOOL_NAME, "tool"),
        (semconv.GEN_AI_REQUEST_MODEL, "model"),
        (semconv.GEN_AI_AGENT_NAME, "agent"),
    ):
        value = attributes.get(key)
        # A tool's line is already below its agent's.
        is_said = word == "agent" and semconv.GEN_AI_TOOL_NAME in attributes
        if value is not None and not is_said and str(value) not in name:
            facts.append(f"{word} {one_line(value)}")
    read = attributes.get(semconv.GEN_AI_USAGE_INPUT_TOKENS)
    written = attributes.get(semconv.GEN_AI_USAGE_OUTPUT_TOKENS)
    if read is not None or written is not None:
        facts.append(f"{_count(read)} → {_count(written)} tokens")
    if approver := attributes.get(semconv.APPROVAL_APPROVER_TYPE):
        who = (approver, attributes.get(semconv.APPROVAL_APPROVER_ID, ""))
        facts.append(f"by {one_line(' '.join(map(str, who)).strip())}")
    return facts


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
