"""One trace as a tree in the terminal: what ran, how long, what policy decided, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from otelhooks.plain_text import one_line
from otelhooks.store import verdicts
from otelhooks.store.terminal import append, clock, details, duration, to_ascii
from otelhooks.store.verdicts import is_about_approval, read_verdict
from otelhooks.telemetry import semconv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo
    from typing import Any

    from otelhooks.store.records import Event, Span

# Deeper nodes are not indented further: nothing would be left of the line.
_INDENTED_LEVELS = 30

# If less width than this is left beside the name, details go below it.
_DETAIL_WIDTH = 28


def render(
    spans: Sequence[Span],
    events: Sequence[Event],
    *,
    width: int = 100,
    is_unicode: bool = True,
    tz: tzinfo | None = None,
) -> Text:
    """Draw one trace.

    Args:
        spans: All stored spans of the trace, in any order.
        events: Its log records; those that only repeat a span are left out.
        width: Columns to fill; long reasons are wrapped at words.
        is_unicode: Whether lines and marks may be other than ASCII.
        tz: Zone of the start time; None for that of this machine.

    Returns:
        Text with a newline after each line; `.plain` is the same without styles.
    """
    nodes = _nest(spans, _unsaid(spans, events))
    lines = _lines(nodes)
    result = _header(spans, events, tz)
    name_width = max((cell_len(line.guide + line.node.label) for line in lines), default=0)
    time_width = max((cell_len(line.node.duration) for line in lines), default=0)
    for line in lines:
        result.append_text(_draw(line, name_width, time_width, width))
    return result if is_unicode else to_ascii(result)


@dataclass(slots=True)
class _Node:
    """A span or event in the tree."""

    label: str
    style: str
    at: int
    duration: str
    attributes: Mapping[str, Any]
    is_error: bool = False
    note: str = ""
    is_orphan: bool = False
    children: list[_Node] = field(default_factory=list["_Node"])


@dataclass(frozen=True, slots=True)
class _Line:
    node: _Node
    guide: str
    rest: str  # the guide of further lines of the same node


def _unsaid(spans: Sequence[Span], events: Sequence[Event]) -> list[Event]:
    """Return the events that add something to the spans."""
    by_id = {span.span_id: span for span in spans}
    said: set[tuple[Any, ...]] = set()
    for span in spans:
        for key in (span.span_id, span.attributes.get(semconv.DECISION_ID)):
            said.add((key, *_verdict_key(span.attributes)))
    repeats = {
        semconv.EVENT_RECOVERED: semconv.RECOVERED,
        semconv.EVENT_WITHHELD: semconv.WITHHELD,
    }
    result: list[Event] = []
    for event in events:
        span = by_id.get(event.span_id or "")
        if event.name == semconv.EVENT_GEN_AI_OPERATION_DETAILS:
            continue
        if event.name == semconv.EVENT_POLICY_DECISION:
            verdict = _verdict_key(event.attributes)
            keys = (event.span_id, event.attributes.get(semconv.DECISION_ID))
            if any(key is not None and (key, *verdict) in said for key in keys):
                continue
        if span is not None:
            if span.attributes.get(repeats.get(event.name or "", "")):
                continue
            decision = span.attributes.get(semconv.POLICY_DECISION)
            if event.name == semconv.EVENT_REWRITTEN and decision == semconv.DECISION_MODIFY:
                continue
        result.append(event)
    return result


def _verdict_key(attributes: Mapping[str, Any]) -> tuple[str, str]:
    verdict = read_verdict(attributes)
    # "recovered" and the like may come after the event.
    return (verdict.words.split(",")[0], verdict.rule_id) if verdict is not None else ("", "")


def _nest(spans: Sequence[Span], events: Sequence[Event]) -> list[_Node]:
    """Return the roots, including orphans and one node of each circle; all sorted by time."""
    nodes = [_span_node(span) for span in spans]
    by_id: dict[str, _Node] = {}
    for span, node in zip(spans, nodes, strict=True):
        by_id.setdefault(span.span_id, node)
    roots: list[_Node] = []
    for span, node in zip(spans, nodes, strict=True):
        parent = by_id.get(span.parent_id or "")
        if parent is not None and parent is not node:
            parent.children.append(node)
            continue
        if span.parent_id is not None:
            node.note = f"orphan: parent {span.parent_id} is not stored"
            node.is_orphan = True
        roots.append(node)
    for event in events:
        node = _event_node(event)
        parent = by_id.get(event.span_id or "")
        if parent is None and event.span_id:
            node.note = f"orphan: span {event.span_id} is not stored"
            node.is_orphan = True
        (roots if parent is None else parent.children).append(node)
    _break_circles(roots, nodes)
    return sorted(roots, key=lambda node: (node.is_orphan, node.at))


def _break_circles(roots: list[_Node], nodes: list[_Node]) -> None:
    """Show spans that are each other's parents, due to broken ids, as roots too."""
    reached: set[int] = set()
    waiting = list(roots)
    for node in [None, *nodes]:
        if node is not None and id(node) not in reached:
            node.note = "orphan: its parents form a circle"
            node.is_orphan = True
            for other in nodes:
                if node in other.children:
                    other.children.remove(node)
            roots.append(node)
            waiting.append(node)
        while waiting:
            found = waiting.pop()
            reached.add(id(found))
            waiting.extend(found.children)


def _span_node(span: Span) -> _Node:
    operation = span.attributes.get(semconv.GEN_AI_OPERATION_NAME)
    is_turn = operation in (semconv.OP_INVOKE_AGENT, semconv.OP_INVOKE_WORKFLOW)
    message = ""
    is_explained = (
        semconv.ERROR_TYPE in span.attributes
        or verdicts.rank(span.attributes) == verdicts.RANK_REFUSED
    )
    if span.status == "error" and not is_explained:
        message = f"error: {one_line(span.status_message)}" if span.status_message else "error"
    return _Node(
        label=one_line(span.name),
        style="bold" if is_turn else "",
        at=span.started_at,
        duration=duration(span.duration_s),
        attributes=span.attributes,
        is_error=span.status == "error",
        note=message,
    )


def _event_node(event: Event) -> _Node:
    name = event.name or (str(event.body) if event.body is not None else "log record")
    return _Node(
        label="· " + one_line(name.removeprefix(f"{semconv.SCOPE_NAME}."))[:60],
        style="dim",
        at=event.at,
        duration="",
        attributes=event.attributes,
    )


def _lines(roots: list[_Node]) -> list[_Line]:
    """Return the nodes in drawing order, with the lines to their left."""
    lines: list[_Line] = []
    # A stack, because agents may nest deeper than Python can recurse.
    waiting = [(node, "", "", 0) for node in reversed(roots)]
    while waiting:
        node, guide, rest, depth = waiting.pop()
        children = sorted(node.children, key=lambda child: child.at)
        lines.append(_Line(node, guide, rest + ("│  " if children else "   ")))
        depth += 1
        level = f"(level {depth}) " if depth > _INDENTED_LEVELS else ""
        for index, child in reversed(list(enumerate(children))):
            is_last = index == len(children) - 1
            below = rest + ("   " if is_last else "│  ")
            branch = rest + ("└─ " if is_last else "├─ ") + level
            waiting.append((child, branch, rest if level else below, depth))
    return lines


def _header(spans: Sequence[Span], events: Sequence[Event], tz: tzinfo | None) -> Text:
    trace_id = next((record.trace_id for record in (*spans, *events)), None)
    header = Text("trace ")
    header.append(trace_id or "without an id", "bold")
    times = [span.started_at for span in spans] + [event.at for event in events]
    ends = [record.at for record in (*spans, *events)]
    parts: list[str] = []
    if times:
        parts += [clock(min(times), tz), duration((max(ends) - min(times)) / 1e9)]
    parts.append(f"{len(spans)} span{'' if len(spans) == 1 else 's'}")
    ranks = [verdicts.rank(span.attributes) for span in spans if not is_about_approval(span.name)]
    for rank, word in (
        (verdicts.RANK_REFUSED, "refused"),
        (verdicts.RANK_OBSERVED, "would be refused"),
        (verdicts.RANK_VERDICT, "with another verdict"),
    ):
        if count := ranks.count(rank):
            parts.append(f"{count} {word}")
    header.append("\n" + " · ".join(parts) + "\n\n", "dim")
    return header


def _draw(line: _Line, name_width: int, time_width: int, width: int) -> Text:
    node = line.node
    # Never a style for the whole text: text that is appended later would inherit it.
    text = Text().append(line.guide, "dim")
    label = Text(node.label, node.style)
    if not node.style and " " in node.label:
        label.stylize("bold", node.label.index(" ") + 1)
    text.append_text(label)
    beside = details(node.attributes, node.label)
    if node.note:
        append(beside, node.note, "red" if node.is_error else "yellow")
    column = name_width + 2 + time_width + 2
    text.append(" " * (name_width - cell_len(line.guide + node.label) + 2))
    text.append(node.duration.rjust(time_width), "dim")
    if width - column < _DETAIL_WIDTH:
        text.rstrip()
        indent = Text().append(line.rest + "  ", "dim")
        pieces = _broken(beside, max(width - cell_len(indent.plain), _DETAIL_WIDTH))
        text.append("\n")
    else:
        # Details that do not begin with a verdict are aligned with its words, not its mark.
        has_mark = read_verdict(node.attributes) is not None
        lead = Text("" if has_mark else "  ")
        pieces = _broken(lead.append_text(beside) if beside else beside, width - column - 2)
        text.append("  ")
        indent = Text().append(line.rest.ljust(column + 2), "dim")
        if pieces:
            text.append_text(pieces.pop(0))
        text.rstrip()
        text.append("\n")
    for piece in pieces:
        text.append_text(indent.copy().append_text(piece))
        text.append("\n")
    return text


def _broken(text: Text, width: int) -> list[Text]:
    """Wrap a text at spaces so that no piece is wider than `width`, except for long words."""
    breaks: list[int] = []
    start = 0
    plain = text.plain
    for index, character in enumerate(plain):
        if character != " " or not plain[start:index].strip():
            continue
        following = plain.find(" ", index + 1)
        end = len(plain) if following < 0 else following
        if cell_len(plain[start:end]) > width and plain[index:end].strip():
            breaks.append(index + 1)
            start = index + 1
    pieces = list(text.divide(breaks)) if text else []
    for piece in pieces:
        piece.rstrip()
    return pieces
