"""The content of a trace, if it was captured: messages, arguments, results.

Everything here comes from models, tools and people: code that shows it makes it safe for a
terminal. Text that a trace repeats is left out: a history that an earlier model call had already,
and results that the span of their tool shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json

from otelhooks.plain_text import counted
from otelhooks.records import semconv

if TYPE_CHECKING:
    from otelhooks.store.records import Event, Span

__all__ = ["EARLIER", "RESULT", "Said", "what_was_said"]

_MESSAGES = (
    semconv.GEN_AI_SYSTEM_INSTRUCTIONS,
    semconv.GEN_AI_INPUT_MESSAGES,
    semconv.GEN_AI_OUTPUT_MESSAGES,
)


@dataclass(frozen=True, slots=True)
class Said:
    """One message, or the arguments or result of a tool.

    Attributes:
        lead: What precedes the text: a message's role with a colon, `RESULT`, `EARLIER`, or
            nothing before the arguments of a tool.
        text: As recorded; may have several lines.
    """

    lead: str
    text: str


RESULT = "→ "
EARLIER = "after "
"""Before the number of messages of a history that is left out."""


def what_was_said(spans: Sequence[Span], events: Sequence[Event]) -> dict[str, list[Said]]:
    """Return what each span says, by span id; spans without content are left out.

    Args:
        spans: All spans of one trace, in the order in which they started.
        events: Its log records: content may be on them instead.
    """
    details = {
        event.span_id: event.attributes
        for event in events
        if event.span_id and event.name == semconv.EVENT_GEN_AI_OPERATION_DETAILS
    }
    shown = {
        str(span.attributes[semconv.GEN_AI_TOOL_CALL_ID])
        for span in spans
        if semconv.GEN_AI_TOOL_CALL_ARGUMENTS in span.attributes
        and semconv.GEN_AI_TOOL_CALL_ID in span.attributes
    }
    found: dict[str, list[Said]] = {}
    told: dict[str | None, set[str]] = {}
    for span in spans:
        attributes = {**details.get(span.span_id, {}), **span.attributes}
        said = list(_of_tool(attributes))
        if any(name in attributes for name in _MESSAGES):
            # Agents that run side by side have histories of their own.
            said += _of_model(attributes, told.setdefault(span.parent_id, set()), shown)
        if said:
            found[span.span_id] = said
    return found


def _of_tool(attributes: Mapping[str, Any]) -> Iterable[Said]:
    for name, lead in (
        (semconv.GEN_AI_TOOL_CALL_ARGUMENTS, ""),
        (semconv.GEN_AI_TOOL_CALL_RESULT, RESULT),
    ):
        if name in attributes:
            yield Said(lead, _text(_decoded(attributes[name])))


def _of_model(attributes: Mapping[str, Any], told: set[str], shown: set[str]) -> list[Said]:
    said: list[Said] = []
    earlier = 0
    for name in _MESSAGES:
        for message in _messages(name, attributes.get(name)):
            key = _dumped(message)
            if key in told:
                earlier += name == semconv.GEN_AI_INPUT_MESSAGES
                continue
            told.add(key)
            lead = f"{message.get('role') or 'message'}: "
            said += [Said(lead, text) for text in _parts(message, shown)]
    if earlier and said:
        said.insert(0, Said(EARLIER, counted(earlier, "earlier message")))
    return said


def _messages(name: str, value: Any) -> list[dict[str, Any]]:
    found = _decoded(value)
    if not isinstance(found, list):
        return [] if found is None else [{"role": "message", "parts": [found]}]
    items = cast("list[Any]", found)
    if name == semconv.GEN_AI_SYSTEM_INSTRUCTIONS:
        return [{"role": "system", "parts": items}]
    return [
        cast("dict[str, Any]", item) if isinstance(item, dict) else {"parts": [item]}
        for item in items
    ]


def _parts(message: Mapping[str, Any], shown: set[str]) -> Iterable[str]:
    """Yield the parts of a message as texts, except calls and results that a tool's span shows."""
    parts: Any = message.get("parts")
    if not isinstance(parts, list):
        parts = [message.get("content", "")]
    for part in cast("list[Any]", parts):
        if not isinstance(part, Mapping):
            yield _text(part)
            continue
        piece = cast("Mapping[str, Any]", part)
        kind = piece.get("type")
        if kind in ("tool_call", "tool_call_response") and str(piece.get("id")) in shown:
            continue
        if kind == "tool_call":
            yield f"calls {piece.get('name')} {_text(piece.get('arguments'))}"
        elif kind == "tool_call_response":
            yield f"result {_text(piece.get('response', piece.get('result')))}"
        elif "content" in piece and kind in ("text", "reasoning", None):
            yield _text(piece["content"])
        else:
            yield f"[{kind or 'part'}]"


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return from_json(value)
    except ValueError:  # a plain text, or JSON that is cut or nested too deeply
        return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _dumped(value)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
