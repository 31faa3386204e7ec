"""Answers of the openai, anthropic and google-genai SDKs, as functions under `@model_call` return.

An answer is read by its form, as an object or as JSON: a chat completion, a response, a message, a
generated content. What hooks write goes into a copy of the same class.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

from otelhooks import types
from otelhooks.hooks.calls import same_json
from otelhooks.pipeline.model_call import ModelReply
from otelhooks.telemetry.content import parse_arguments

__all__ = ["is_known", "read", "rewritten"]


def read(raw: Any) -> ModelReply:
    """Read an answer; one of a form that is not known has no text and no calls."""
    form = _form_of(raw)
    parts = form.parts(raw) if form is not None else ()
    texts = [one.text for one in parts if one.text]
    calls = [(one.id, one.name, one.args) for one in parts if one.name]
    model = _get(raw, "model") or _get(raw, "model_version")
    return _Reply(
        "".join(texts),
        calls,
        _usage(raw),
        form.reasons(raw) if form is not None else (),
        _text(_get(raw, "id") or _get(raw, "response_id")),
        _text(model),
    )


def is_known(raw: Any) -> bool:
    """Return whether an answer has a form that can be read."""
    return _form_of(raw) is not None


def rewritten(raw: Any, response: types.ModelResponse) -> Any:
    """Return a copy of an answer with a hook's text and arguments, without calls that it left out.

    Further choices are left out, as hooks have seen only the first.

    Raises:
        ValueError: The answer has no form that is known, or the hook has added or renamed a call.
    """
    form = _form_of(raw)
    if form is None:
        raise ValueError(f"an answer of class `{type(raw).__name__}` cannot be rewritten")
    made = copy.deepcopy(raw)
    left = [((call.id or "", call.name), call.args) for call in response.tool_calls]

    def keeps(part: _Part) -> bool:
        place = next((at for at, (key, _) in enumerate(left) if key == (part.id, part.name)), None)
        if place is None:
            return False
        _, args = left.pop(place)
        if not same_json(args, part.args):
            _set_arguments(part.native, args)
        return True

    form.write(made, response.text, keeps)
    if left:
        raise ValueError(f"an answer cannot be given another call, of `{left[0][0][1]}`")
    return made


class _Reply(ModelReply):
    """An answer whose calls a loop makes by itself, without their ids: none can be missed."""

    __slots__ = ()

    @property
    def asked(self) -> dict[str, str]:
        return {}


class _Part(NamedTuple):
    native: Any
    text: str = ""
    id: str = ""
    name: str = ""
    args: Any = None


class _Form(NamedTuple):
    """One form of answers.

    Args:
        parts: Reads the texts and calls of the first choice.
        write: Puts a text, and the calls for which the function is true, into an answer.
        reasons: Reads the finish reasons.
    """

    parts: Callable[[Any], list[_Part]]
    write: Callable[[Any, str, Callable[[_Part], bool]], None]
    reasons: Callable[[Any], list[str]]


def _form_of(raw: Any) -> _Form | None:
    return next((form for name, form in _FORMS.items() if _items(raw, name)), None)


def _get(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name)
    return getattr(value, name, None)


def _set(value: Any, name: str, new: Any) -> None:
    if isinstance(value, dict):
        cast("dict[str, Any]", value)[name] = new
    else:
        setattr(value, name, new)


def _items(value: Any, name: str) -> list[Any]:
    found = _get(value, name)
    return cast("list[Any]", found) if isinstance(found, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_BESIDE = (
    *("parsed", "parsed_output", "logprobs", "annotations", "citations", "audio"),
    *("logprobs_result", "avg_logprobs", "grounding_metadata", "citation_metadata"),
)
"""Fields that repeat a text beside it, or quote what it is made of."""


def _set_anew(value: Any, name: str, text: str | None) -> None:
    """Put a text into its place, and forget what repeats another one."""
    if _get(value, name) != text:
        _set(value, name, text)
        _forget(value)


def _forget(value: Any) -> None:
    for name in _BESIDE:
        if (old := _get(value, name)) is not None:
            _set(value, name, [] if isinstance(old, list) else None)


def _set_arguments(call: Any, args: dict[str, Any]) -> None:
    holder = _get(call, "function") or _get(call, "function_call") or call
    if (parsed := _get(holder, "parsed_arguments")) is not None:
        validate = _get(parsed, "model_validate")
        _set(holder, "parsed_arguments", args if validate is None else validate(args))
    for name in ("arguments", "args", "input"):
        if isinstance(given := _get(holder, name), Mapping):
            return _set(holder, name, args)
        if isinstance(given, str) and name == "arguments":
            return _set(holder, name, json.dumps(args))
    raise ValueError("the input of a custom tool call cannot be rewritten")


def _call(native: Any, id: Any, name: Any, args: Any) -> _Part:
    return _Part(native, id=_text(id), name=_text(name), args=parse_arguments(args))


# --- Chat completions ---------------------------------------------------------------------------


def _chat_parts(raw: Any) -> list[_Part]:
    message = _get(_items(raw, "choices")[0], "message")
    content = _get(message, "content") or _get(message, "refusal")
    blocks = _items(message, "content")
    text = "".join(_text(_get(one, "text")) for one in blocks) or _text(content)
    found = [_Part(message, text)] if text else []
    for call in _items(message, "tool_calls"):
        function = _get(call, "function") or _get(call, "custom")
        args = _get(function, "arguments") or _get(function, "input")
        found.append(_call(call, _get(call, "id"), _get(function, "name"), args))
    if call := _get(message, "function_call"):
        found.append(_call(call, "", _get(call, "name"), _get(call, "arguments")))
    return found


def _write_chat(raw: Any, text: str, keeps: Callable[[_Part], bool]) -> None:
    choice = _items(raw, "choices")[0]
    message = _get(choice, "message")
    kept = [one.native for one in _chat_parts(raw) if one.name and keeps(one)]
    _set(raw, "choices", [choice])
    if text != "".join(one.text for one in _chat_parts(raw) if not one.name):
        _forget(choice)
        _set_anew(message, "content", text or None)
    legacy = _get(message, "function_call")
    _set(message, "tool_calls", [one for one in kept if one is not legacy] or None)
    for name in ("refusal", "reasoning_content", "reasoning", "function_call"):
        if (value := _get(message, name)) is not None and not any(one is value for one in kept):
            _set(message, name, None)


# --- Responses, messages, generated content: lists of parts --------------------------------------


def _response_parts(raw: Any) -> list[_Part]:
    found: list[_Part] = []
    for item in _items(raw, "output"):
        if _get(item, "type") == "message":
            texts = (_get(one, "text") or _get(one, "refusal") for one in _items(item, "content"))
            found.append(_Part(item, "".join(filter(None, texts))))
        elif name := _get(item, "name"):
            args = _get(item, "arguments") or _get(item, "input")
            found.append(_call(item, _get(item, "call_id") or _get(item, "id"), name, args))
    return found


def _set_output_text(item: Any, text: str) -> None:
    block = _items(item, "content")[0]
    _set_anew(block, "text" if _get(block, "type") == "output_text" else "refusal", text)
    _set(item, "content", [block])


def _message_parts(raw: Any) -> list[_Part]:
    found: list[_Part] = []
    for block in _items(raw, "content"):
        if _get(block, "type") == "text":
            found.append(_Part(block, _text(_get(block, "text"))))
        elif _get(block, "type") == "tool_use":
            found.append(_call(block, _get(block, "id"), _get(block, "name"), _get(block, "input")))
    return found


def _content_parts(raw: Any) -> list[_Part]:
    found: list[_Part] = []
    for part in _items(_get(_items(raw, "candidates")[0], "content"), "parts"):
        if call := _get(part, "function_call"):
            found.append(_call(part, _get(call, "id"), _get(call, "name"), _get(call, "args")))
        elif text := _get(part, "text"):
            found.append(_Part(part, "" if _get(part, "thought") else text))
    return found


def _write_parts(
    parts: list[_Part],
    text: str,
    keeps: Callable[[_Part], bool],
    set_text: Callable[[Any, str], None],
) -> list[Any]:
    """Return the parts that are left: the first text has the whole, further ones none."""
    left: list[Any] = []
    for one in parts:
        if one.name:
            left += [one.native] if keeps(one) else []
        elif one.text and text:
            set_text(one.native, text)
            left.append(one.native)
            text = ""
    return left


def _set_text(part: Any, text: str) -> None:
    _set_anew(part, "text", text)


def _write_response(raw: Any, text: str, keeps: Callable[[_Part], bool]) -> None:
    _set(raw, "output", _write_parts(_response_parts(raw), text, keeps, _set_output_text))
    if isinstance(raw, dict) and "output_text" in raw:  # else it is made of the items
        _set(raw, "output_text", text)


def _write_message(raw: Any, text: str, keeps: Callable[[_Part], bool]) -> None:
    _set(raw, "content", _write_parts(_message_parts(raw), text, keeps, _set_text))


def _write_content(raw: Any, text: str, keeps: Callable[[_Part], bool]) -> None:
    first = _items(raw, "candidates")[0]
    if text != "".join(one.text for one in _content_parts(raw)):
        _forget(first)
        _forget(raw)
    left = _write_parts(_content_parts(raw), text, keeps, _set_text)
    _set(raw, "candidates", [first])
    _set(_get(first, "content"), "parts", left)


def _reasons_of(items: str) -> Callable[[Any], list[str]]:
    def reasons(raw: Any) -> list[str]:
        found = (_get(one, "finish_reason") for one in _items(raw, items))
        return [str(getattr(one, "value", one)).lower() for one in found if one]

    return reasons


def _no_reasons(raw: Any) -> list[str]:
    return []


def _stop_reason(raw: Any) -> list[str]:
    reason = _text(_get(raw, "stop_reason"))
    return [reason] if reason else []


_FORMS = {
    "choices": _Form(_chat_parts, _write_chat, _reasons_of("choices")),
    "output": _Form(_response_parts, _write_response, _no_reasons),
    "candidates": _Form(_content_parts, _write_content, _reasons_of("candidates")),
    "content": _Form(_message_parts, _write_message, _stop_reason),
}
"""Name of the list that an answer of a form has, to the form."""

_TOKENS: dict[str, Iterable[str]] = {
    "input_tokens": ("input_tokens", "prompt_tokens", "prompt_token_count"),
    "output_tokens": ("output_tokens", "completion_tokens", "candidates_token_count"),
    "cache_read_input_tokens": ("cache_read_input_tokens", "cached_content_token_count"),
    "cache_write_input_tokens": ("cache_creation_input_tokens",),
}


def _usage(raw: Any) -> dict[str, int] | None:
    """Read tokens from an answer's record of usage; None if it has none."""
    usage = _get(raw, "usage") or _get(raw, "usage_metadata")
    if usage is None:
        return None
    counted = {
        ours: next((n for name in names if isinstance(n := _get(usage, name), int)), None)
        for ours, names in _TOKENS.items()
    }
    return {name: tokens for name, tokens in counted.items() if tokens is not None}
