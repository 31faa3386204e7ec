"""Content of prompts, arguments and results: whether, how and how much of it is recorded.

::

    redactor = Redactor.of(config.redact)
    content = Content(config.capture_content, redactor, limit=limit_of(config.otel))
    if content.on_span:
        attributes[GEN_AI_TOOL_CALL_ARGUMENTS] = content.span_value(arguments)      # str
        attributes[GEN_AI_INPUT_MESSAGES] = content.span_messages(messages(raw))    # str
    if content.on_event:
        attributes[GEN_AI_TOOL_CALL_ARGUMENTS] = content.event_value(arguments)     # structured

Spans get one compact JSON text (a plain text stays as it is), log records the structure. Both are
masked first, then cut to the limit: whole parts are dropped first, and texts are shortened only if
a single part is too long.

The shapes of the conventions: `message`, `text_part`, `tool_call_part`, `tool_call_response_part`,
`reasoning_part`, `system_instructions`, `tool_definitions`, and `messages`, which reads the loose
forms that frameworks use. `parse_arguments` turns the JSON text of a provider into the object that
the conventions require.

Source: semconv.md section 4.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from otelhooks.config.capture import CaptureMode
from otelhooks.hooks.verdict import text_of
from otelhooks.records import semconv
from otelhooks.telemetry.masking import MASK, MAX_DEPTH, Redactor
from otelhooks.telemetry.media_parts import media_part
from otelhooks.telemetry.secret_names import is_secret_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

__all__ = [
    "DEFAULT_LIMIT",
    "MASK",
    "Content",
    "Redactor",
    "is_secret_key",
    "limit_of",
    "message",
    "messages",
    "output_message",
    "parse_arguments",
    "reasoning_part",
    "render",
    "system_instructions",
    "text_part",
    "tool_call_part",
    "tool_call_response_part",
    "tool_definitions",
]

Part: TypeAlias = dict[str, Any]
Message: TypeAlias = dict[str, Any]

DEFAULT_LIMIT = 65_536
"""Most characters of one content attribute."""


class Content:
    """Turns content into attribute values: masked, of bounded size.

    Args:
        mode: Where content is recorded.
        redactor: What is masked; None: the built-in patterns.
        limit: Most characters of one value, measured as compact JSON.
    """

    def __init__(
        self,
        mode: CaptureMode = CaptureMode.NO_CONTENT,
        redactor: Redactor | None = None,
        *,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self.mode = mode
        self.on_span: bool = mode.on_span
        self.on_event: bool = mode.on_event
        self.is_on: bool = mode.on_span or mode.on_event
        self.redactor: Redactor = redactor or Redactor()
        self._limit = limit

    def span_value(self, value: object) -> str:
        """Render arguments, a result, instructions or definitions for a span."""
        return render(self.event_value(value))

    def event_value(self, value: object) -> Any:
        """Mask and cut arguments, a result, instructions or definitions, keeping the structure."""
        return _fit(self.redactor.mask(value), self._limit)

    def span_error(self, error: BaseException | str, kind: str) -> str:
        """Return a span's status description for a failure: its text, if spans carry content.

        Args:
            error: The failure; its text is content.
            kind: ``error.type``, which is used without content.
        """
        return self._said(error) if self.on_span else kind

    def event_error(self, error: BaseException | str) -> str:
        """Return a failure's text, masked; empty if log records carry no content."""
        return self._said(error) if self.on_event else ""

    def error_text(self, error: BaseException | str, form: Callable[[Any], str] = str) -> str:
        """Return a failure's text, masked, for logs and audit; empty if content is off.

        Args:
            error: The failure.
            form: `str` or `repr`.
        """
        return self._said(error, form) if self.is_on else ""

    def _said(self, error: BaseException | str, form: Callable[[Any], str] = str) -> str:
        text = error if isinstance(error, str) else text_of(error, form)
        return render(_clip(self.redactor.mask_text(text), self._limit))

    def span_messages(self, messages: Iterable[Message]) -> str:
        """Render messages for a span."""
        return render(self.event_messages(messages))

    def event_messages(self, messages: Iterable[Message]) -> list[Message]:
        """Mask messages and leave out the oldest parts beyond the limit.

        A part ``{"type": "truncated", "parts": N}`` in the first kept message says how many were
        left out.
        """
        return _fit_messages(cast("list[Message]", self.redactor.mask(list(messages))), self._limit)


def limit_of(otel: Mapping[str, str]) -> int:
    """Read the SDK's limit on attribute values, which would cut JSON in the middle.

    Args:
        otel: The ``OTEL_*`` variables.

    Returns:
        That limit if it is smaller than `DEFAULT_LIMIT`, else `DEFAULT_LIMIT`.
    """
    for name in ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"):
        text = otel.get(name, "").strip()
        if text.isdigit():
            return min(int(text), DEFAULT_LIMIT)
    return DEFAULT_LIMIT


def render(value: object) -> str:
    """Write a value as compact JSON; a text stays as it is.

    Characters that UTF-8 cannot encode are replaced, since an exporter would fail on them.
    """
    if isinstance(value, str):
        text = value
    else:
        try:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
        except (TypeError, ValueError, RecursionError):
            text = json.dumps(str(type(value)))  # keys that are not texts, or a cycle
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def parse_arguments(value: object) -> object:
    """Decode the JSON text of arguments; anything but a JSON object stays as it is."""
    if isinstance(value, (str, bytes)):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return value
        if isinstance(parsed, dict):
            return cast("dict[str, object]", parsed)
    return value


# --- Cutting ----------------------------------------------------------------------------------


def _size(value: object) -> int:
    return len(render(value)) + (2 if isinstance(value, str) else 0)


def _clip(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    note = f"...[{len(text)} characters]"
    return text[: max(0, length - len(note))] + note


def _fit(value: Any, limit: int) -> Any:
    """Shorten JSON-like data until its compact JSON fits; the structure is kept if possible."""
    if isinstance(value, str):
        return _clip(value, limit)
    size = _size(value)
    length = limit
    while size > limit and length > 32:
        length //= 2
        value = _clip_texts(value, length)
        size = _size(value)
    if size <= limit:
        return value
    return {"truncated": size} if isinstance(value, dict) else [{"truncated": size}]


def _clip_texts(value: Any, length: int, depth: int = 0) -> Any:
    if isinstance(value, str):
        return _clip(value, length)
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _clip_texts(item, length, depth + 1) for key, item in items}
    if isinstance(value, list):
        return [_clip_texts(item, length, depth + 1) for item in cast("list[Any]", value)]
    return value


def _fit_messages(messages: list[Message], limit: int) -> list[Message]:
    sizes = [_size(item) + 1 for item in messages]
    if sum(sizes) + 1 <= limit:
        return messages
    room = limit - 48  # for the note about what is left out
    kept: list[Message] = []
    left_out = 0
    for item in reversed(messages):
        parts = cast("list[Part]", item.get("parts") or [])
        if left_out:
            left_out += len(parts)
            continue
        room -= _size({**item, "parts": []}) + 1
        whole: list[Part] = []
        for part in reversed(parts):
            size = _size(part) + 1
            if not kept and not whole and size > room > 0:
                part = cast("Part", _fit(part, max(room - 1, 0)))
                size = _size(part) + 1
            if left_out or size > room:
                left_out += 1
            else:
                room -= size
                whole.insert(0, part)
        if whole or not kept:
            kept.insert(0, {**item, "parts": whole})
    if left_out and kept:
        kept[0]["parts"] = [{"type": "truncated", "parts": left_out}, *kept[0]["parts"]]
    return kept


# --- Shapes -----------------------------------------------------------------------------------


def text_part(text: str) -> Part:
    """Return the part for a piece of text."""
    return {"type": "text", "content": text}


def reasoning_part(text: str) -> Part:
    """Return the part for a model's reasoning."""
    return {"type": "reasoning", "content": text}


def tool_call_part(name: str, arguments: object, call_id: str | None = None) -> Part:
    """Return the part for a tool call the model asked for; JSON text of arguments is decoded."""
    part: Part = {"type": "tool_call", "name": name, "arguments": parse_arguments(arguments)}
    if call_id:
        part["id"] = call_id
    return part


def tool_call_response_part(response: object, call_id: str | None = None) -> Part:
    """Return the part for the answer of a tool; it is kept unchanged."""
    part: Part = {"type": "tool_call_response", "response": response}
    if call_id:
        part["id"] = call_id
    return part


def message(role: str, *parts: Part, name: str | None = None) -> Message:
    """Return a message of parts."""
    made: Message = {"role": role, "parts": list(parts)}
    if name:
        made["name"] = name
    return made


def system_instructions(*texts: str) -> list[Part]:
    """Return the value for instructions that are kept apart from the chat history."""
    return [text_part(text) for text in texts if text]


def output_message(
    text: str, calls: Iterable[tuple[str, str, object]], reasons: Sequence[str] = ()
) -> Message:
    """Return an answer as an output message.

    Args:
        text: Its text; may be empty.
        calls: Tool calls that it asks for: id, name, arguments.
        reasons: Finish reasons as the framework told them; the first counts. Viewers drop a message
            without one, so that an answer whose framework tells none has ``tool_call`` if it asks
            for tools, else ``stop``.
    """
    parts = [text_part(text)] if text else []
    parts += [tool_call_part(name, arguments, id) for id, name, arguments in calls]
    asks = any(part["type"] == "tool_call" for part in parts)
    reason = semconv.FINISH_TOOL_CALL if asks else semconv.FINISH_STOP
    return {**message("assistant", *parts), "finish_reason": reasons[0] if reasons else reason}


_SCHEMAS = (
    "parameters",
    "parameters_json_schema",
    "params_json_schema",
    "input_schema",
    "inputSchema",
)


def tool_definitions(tools: Iterable[object]) -> list[dict[str, Any]]:
    """List the tools that a model may call, with description and schema where they have them.

    Args:
        tools: Names, or mappings with ``name`` (also below ``function``), or objects with a name.
    """
    listed: list[dict[str, Any]] = []
    for tool in tools:
        if isinstance(tool, str):
            listed.append({"type": "function", "name": tool})
            continue
        inner = _attribute(tool, "function")
        source: object = cast("object", inner) if isinstance(inner, Mapping) else tool
        definition: dict[str, Any] = {
            "type": "function",
            "name": str(_attribute(source, "name") or _attribute(source, "tool_name") or ""),
        }
        if description := _attribute(source, "description"):
            definition["description"] = str(description)
        if schema := _schema(source):
            definition["parameters"] = schema
        listed.append(definition)
    return listed


def _attribute(value: object, name: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name)
    return getattr(value, name, None)


def _schema(tool: object) -> Mapping[str, Any]:
    """Return the schema of a tool's parameters, if it is plain data; empty if it has none."""
    for name in _SCHEMAS:
        found = _attribute(tool, name)
        if found and isinstance(found, Mapping):
            schema = cast("Mapping[str, Any]", found)
            return schema.get("json", schema)  # Amazon Bedrock wraps it
    return {}


def _fields(value: object) -> dict[str, Any]:
    """Read a mapping, or the attributes of an object that matter for messages and tools."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    found = {name: getattr(value, name, None) for name in _names_of(value)}
    return {name: item for name, item in found.items() if item is not None and not callable(item)}


_NAMES = (
    *("role", "type", "name", "content", "parts", "tool_calls", "tool_call_id", "id", "text"),
    *("description", "parameters"),
)


def _names_of(value: Any) -> Iterable[str]:
    """Return the names that an object may have: pydantic takes long to miss one."""
    of_class = _of_class(cast("type[Any]", type(value)))
    if of_class is _NAMES:
        return _NAMES
    own: dict[str, Any] = value.__dict__
    further = getattr(value, "__pydantic_extra__", None) or ()
    return [name for name in _NAMES if name in own or name in of_class or name in further]


@functools.lru_cache(maxsize=256)
def _of_class(cls: type[Any]) -> Collection[str]:
    """Return the names that a pydantic model's class has; all of them for any other object."""
    from pydantic import BaseModel  # later than the rest, as few processes get here

    looks_further = getattr(cls, "__getattr__", None) is not getattr(BaseModel, "__getattr__", None)
    if looks_further or not issubclass(cls, BaseModel):
        return _NAMES
    return frozenset(name for name in _NAMES if hasattr(cls, name))


_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool"}


def messages(value: object, role: str = "user") -> list[Message]:
    """Read messages in the forms that frameworks and providers use.

    Args:
        value: A text, a message, or a list of them; a message is a mapping or object with
            ``role`` and ``content`` (a text or a list of blocks), ``parts``, ``tool_calls``.
        role: Role of messages without one.

    Returns:
        Messages in the shape of the conventions; what is not understood is kept as text.
    """
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        found: list[Message] = []
        for item in cast("Iterable[object]", value):
            found += messages(item, role)
        return found
    if isinstance(value, str):
        return [message(role, text_part(value))]
    fields = _fields(value)
    kind = str(fields.get("type") or "")
    if kind == "function_call":
        return [message("assistant", _part(fields))]
    if kind == "function_call_output":
        return [message("tool", _part(fields))]
    who = str(
        fields.get("role") or _ROLES.get(kind) or (kind if kind in ("system", "tool") else role)
    )
    who = _ROLES.get(who, who)
    parts = _parts(fields.get("parts") or fields.get("content"))
    if who == "tool" and fields.get("tool_call_id"):
        answer = fields.get("content")
        parts = [tool_call_response_part(answer, str(fields["tool_call_id"]))]
    parts += [
        _part({**_fields(call), "type": "tool_call"}) for call in _list(fields.get("tool_calls"))
    ]
    if not parts and not fields:
        parts = [text_part(str(value))]
    return [message(who, *parts, name=fields.get("name") if who != "tool" else None)]


def _list(value: object) -> list[object]:
    return list(cast("Iterable[object]", value)) if isinstance(value, (list, tuple)) else []


def _parts(content: object) -> list[Part]:
    if content is None or content == "":
        return []
    if isinstance(content, (list, tuple)):
        return [_part(item) for item in cast("Iterable[object]", content)]
    return [_part(content)]


def _part(block: object) -> Part:
    """Read one block of a provider's content, or a part of the conventions unchanged."""
    if isinstance(block, str):
        return text_part(block)
    if medium := media_part(block):
        return medium
    fields = _fields(block)
    kind = str(fields.get("type") or "")
    if kind in ("text", "input_text", "output_text", "refusal", "thinking", "reasoning"):
        text = fields.get("content") or fields.get("text") or fields.get(kind) or ""
        make = reasoning_part if kind in ("thinking", "reasoning") else text_part
        return make(text if isinstance(text, str) else render(text))
    if kind in ("tool_call", "tool_use", "function_call", "function"):
        inner = _fields(fields.get("function")) or fields
        arguments: object = next(
            (inner[k] for k in ("arguments", "args", "input") if k in inner), None
        )
        call_id = fields.get("call_id") or fields.get("id")
        return tool_call_part(
            str(inner.get("name") or ""), {} if arguments is None else arguments, call_id
        )
    if kind in ("tool_call_response", "tool_result", "function_call_output"):
        answer = next((fields[k] for k in ("response", "output", "content") if k in fields), None)
        call_id = fields.get("id") or fields.get("call_id") or fields.get("tool_use_id")
        return tool_call_response_part(answer, call_id)
    if kind:
        return fields
    if isinstance(fields.get("text"), str):
        return text_part(fields["text"])
    return text_part(render(fields if isinstance(block, Mapping) else str(block)))
