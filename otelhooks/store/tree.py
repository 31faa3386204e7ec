"""One trace as a tree in the terminal: what ran, how long, what policy decided, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len
from rich.text import Text

from otelhooks.plain_text import one_line, sanitize
from otelhooks.records import semconv
from otelhooks.store import verdicts
from otelhooks.store.asks import in_one_row
from otelhooks.store.said import EARLIER, Said, what_was_said
from otelhooks.store.terminal import (
    NAME_WIDTH,
    append,
    broken,
    clock,
    cut,
    details,
    duration,
    filled,
    short,
    to_ascii,
    used,
)
from otelhooks.store.totals import add_up, is_agent
from otelhooks.store.verdicts import is_about_approval, read_verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo
    from typing import Any

    from otelhooks.store.records import Event, Span

# Deeper nodes are not indented further: nothing would be left of the line.
_INDENTED_LEVELS = 30

# If less width than this is left beside the name, details go below it.
_DETAIL_WIDTH = 28

# One line of content is no wider, in columns, and a span has no more of them unless all is wanted.
_SAID_WIDTH = 160
_SAID_LINES = 12

# A message's role is cut to so many columns.
_LEAD_WIDTH = 40

ContentShown = Literal["lines", "whole", "none"]


def render(
    spans: Sequence[Span],
    events: Sequence[Event],
    *,
    width: int = 100,
    is_unicode: bool = True,
    tz: tzinfo | None = None,
    content: ContentShown = "lines",
) -> Text:
    """Draw one trace.

    Args:
        spans: All stored spans of the trace, in any order.
        events: Its log records; those that only repeat a span are left out.
        width: Columns to fill; long reasons are wrapped at words.
        is_unicode: Whether lines and marks may be other than ASCII.
        tz: Zone of the start time; None for that of this machine.
        content: Whether messages, arguments and results are shown, where they were captured: one
            line each, in full, or not at all.

    Returns:
        Text with a newline after each line; `.plain` is the same without styles.
    """
    rows = in_one_row(spans)
    nodes = _nest(rows, _unsaid((*spans, *rows), events))
    lines = _lines(nodes)
    said = what_was_said(rows, events) if content != "none" else {}
    result = _header(spans, events, width, tz)
    name_width = max((cell_len(line.guide + line.node.label) for line in lines), default=0)
    time_width = max((cell_len(line.node.duration) for line in lines), default=0)
    for line in lines:
        result.append_text(_draw(line, name_width, time_width, width))
        if found := said.get(line.node.span_id):
            result.append_text(_quote(line, found, width, is_whole=content == "whole"))
    return result if is_unicode else to_ascii(result)


@dataclass(slots=True)
class _Node:
    """A span or event in the tree."""

    label: str
    style: str
    at: int
    duration: str
    attributes: Mapping[str, Any]
    span_id: str = ""
    agent: str | None = None
    above: str | None = None  # the agent whose work this is
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
    """Return the roots, with parents that are not stored and one node of each circle; by time."""
    nodes = [_span_node(span) for span in spans]
    by_id: dict[str, _Node] = {}
    for span, node in zip(spans, nodes, strict=True):
        by_id.setdefault(span.span_id, node)
    roots: list[_Node] = []
    absent: dict[str, list[_Node]] = {}
    ids = [span.parent_id for span in spans] + [event.span_id for event in events]
    for id, node in zip(ids, [*nodes, *map(_event_node, events)], strict=True):
        parent = by_id.get(id or "")
        if parent is not None and parent is not node:
            parent.children.append(node)
        else:
            (absent.setdefault(id, []) if id else roots).append(node)
    roots += (_absent_node(id, children) for id, children in absent.items())
    _break_circles(roots, nodes)
    _tell_agents(roots)
    return sorted(roots, key=lambda node: (node.is_orphan, node.at))


def _tell_agents(roots: list[_Node]) -> None:
    """Note at each span whose work it is, and at each agent inside another whose sub-agent."""
    waiting: list[tuple[_Node, str | None]] = [(root, None) for root in roots]
    while waiting:
        node, node.above = waiting.pop()
        above = node.above
        if node.agent is not None:
            if above is not None:
                node.note = _joined(f"sub-agent of {above}".removesuffix(" of "), node.note)
            above = node.agent
        waiting.extend((child, above) for child in node.children)


def _joined(*words: str) -> str:
    """Join notes; empty ones are left out."""
    return "  ".join(word for word in words if word)


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
    is_turn = is_agent(span.attributes)
    message = ""
    is_explained = (
        semconv.ERROR_TYPE in span.attributes
        or verdicts.rank(span.attributes) == verdicts.RANK_REFUSED
    )
    if span.status == "error" and not is_explained:
        message = f"error: {one_line(span.status_message)}" if span.status_message else "error"
    return _Node(
        label=one_line(span.name, NAME_WIDTH),
        style="bold" if is_turn else "",
        at=span.started_at,
        duration=duration(span.duration_s),
        attributes=span.attributes,
        span_id=span.span_id,
        agent=_agent_name(span) if is_turn else None,
        is_error=span.status == "error",
        note=message,
    )


def _agent_name(span: Span) -> str:
    for name in (semconv.GEN_AI_AGENT_NAME, semconv.GEN_AI_WORKFLOW_NAME):
        if name in span.attributes:
            return one_line(span.attributes[name], NAME_WIDTH)
    return one_line(span.name, NAME_WIDTH).partition(" ")[2]


def _absent_node(span_id: str, children: list[_Node]) -> _Node:
    """Return the place of a span that is not stored: of a run, if its calls of models tell so."""
    for child in children:
        agent = child.attributes.get(semconv.GEN_AI_AGENT_NAME)
        is_of_run = child.attributes.get(semconv.GEN_AI_OPERATION_NAME) in _OF_RUNS
        if agent and (is_of_run or child.label == "· user_message"):
            break
    else:
        agent = None
    name = one_line(agent, NAME_WIDTH) if agent else None
    return _Node(
        label=f"{semconv.OP_INVOKE_AGENT} {name}" if name else f"span {short(span_id)}",
        style="bold" if name else "",
        at=min(child.at for child in children),
        duration="",
        attributes={},
        agent=name,
        note="not stored: still running, or lost",
        is_orphan=True,
        children=children,
    )


_OF_RUNS = (semconv.OP_CHAT, semconv.OP_GENERATE_CONTENT, semconv.OP_TEXT_COMPLETION)


def _event_node(event: Event) -> _Node:
    name = event.name or (str(event.body) if event.body is not None else "log record")
    return _Node(
        label="· " + one_line(name.removeprefix(f"{semconv.SCOPE_NAME}."), NAME_WIDTH),
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


def _header(spans: Sequence[Span], events: Sequence[Event], width: int, tz: tzinfo | None) -> Text:
    trace_id = next((record.trace_id for record in (*spans, *events)), None)
    header = Text("trace ")
    header.append(short(trace_id) if trace_id else "without an id", "bold")
    times = [span.started_at for span in spans] + [event.at for event in events]
    ends = [record.at for record in (*spans, *events)]
    parts: list[str] = []
    if times:
        parts += [clock(min(times), tz), duration((max(ends) - min(times)) / 1e9)]
    parts.append(f"{len(spans)} span{'' if len(spans) == 1 else 's'}")
    total = add_up((span.span_id, span.parent_id, span.attributes) for span in spans)
    parts += used(total)
    said = [_outcome(span.attributes) for span in spans if not is_about_approval(span.name)]
    named = [(span.name, span.attributes) for span in spans]
    said += ["withdrawn"] * verdicts.withdrawn(named) + ["pending"] * verdicts.pending(named)
    parts += [f"{count} {word}" for word in _OUTCOMES if (count := said.count(word))]
    header.append("\n" + "\n".join(filled(parts, " · ", width)) + "\n\n", "dim")
    return header


_OUTCOMES = (
    *("refused", "withheld", "would be refused", "would be asked about"),
    *("approved", "withdrawn", "pending", "with another verdict"),
)


def _outcome(attributes: Mapping[str, Any]) -> str:
    """Return what the header counts a span as; empty if it has no verdict, or a plain allow."""
    if verdicts.is_withdrawn(attributes):
        return ""  # counted with those whose call has no span
    if verdicts.is_withheld(attributes):
        return "withheld"
    rank = verdicts.rank(attributes)
    if rank == verdicts.RANK_OBSERVED:
        is_ask = attributes.get(semconv.POLICY_DECISION) == semconv.DECISION_ASK
        return "would be asked about" if is_ask else "would be refused"
    if verdicts.is_approved(attributes):
        return "approved"
    words = {verdicts.RANK_REFUSED: "refused", verdicts.RANK_VERDICT: "with another verdict"}
    return words.get(rank, "")


def _draw(line: _Line, name_width: int, time_width: int, width: int) -> Text:
    node = line.node
    # Never a style for the whole text: text that is appended later would inherit it.
    text = Text().append(line.guide, "dim")
    label = Text(node.label, node.style)
    if not node.style and " " in node.label:
        label.stylize("bold", node.label.index(" ") + 1)
    text.append_text(label)
    beside = details(node.attributes, node.label, node.above)
    if node.note:
        append(beside, node.note, "red" if node.is_error else "yellow")
    column = name_width + 2 + time_width + 2
    text.append(" " * (name_width - cell_len(line.guide + node.label) + 2))
    text.append(node.duration.rjust(time_width), "dim")
    if width - column < _DETAIL_WIDTH:
        text.rstrip()
        indent = Text().append(line.rest + "  ", "dim")
        pieces = broken(beside, max(width - cell_len(indent.plain), _DETAIL_WIDTH))
        text.append("\n")
    else:
        # Details that do not begin with a verdict are aligned with its words, not its mark.
        has_mark = read_verdict(node.attributes) is not None
        lead = Text("" if has_mark else "  ")
        pieces = broken(lead.append_text(beside) if beside else beside, width - column - 2)
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


def _quote(line: _Line, said: Sequence[Said], width: int, *, is_whole: bool) -> Text:
    """Draw what a span says below it: one line each, or in full."""
    indent = Text().append(line.rest, "dim")
    room = min(width, _SAID_WIDTH) - cell_len(indent.plain)
    text = Text()
    kept = said if is_whole else said[:_SAID_LINES]
    for each in kept:
        lead = one_line(each.lead, _LEAD_WIDTH)
        if is_whole:
            pieces = sanitize(each.text).splitlines() or [""]
        else:
            pieces = [_in_one_line(" ".join(each.text.split()), room - cell_len(lead))]
        for index, piece in enumerate(pieces):
            text.append_text(indent.copy())
            text.append(lead if index == 0 else " " * cell_len(lead), "dim")
            text.append(piece + "\n", "italic" if each.lead == EARLIER else "")
    if len(kept) < len(said):
        text.append_text(indent.copy())
        text.append(f"and {len(said) - len(kept)} more; --content shows all\n", "italic")
    return text


def _in_one_line(text: str, room: int) -> str:
    if room >= 40:
        return one_line(text, room)
    room = max(room, 10)
    return cut(one_line(text[: room + 1]), room)  # the number of characters would need the room
