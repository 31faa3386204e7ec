# pyright: basic
"""Chat completions, the form that many providers share: the texts and calls in its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from otelhooks.frameworks.kit.clients.json_calls import JsonCall
from otelhooks.frameworks.kit.models import Part, PartTable

__all__ = ["ChatForm", "tokens_of"]


def tokens_of(usage: Any, given: str, made: str) -> dict[str, int]:
    """Return our names of the tokens in a record of usage.

    Args:
        usage: The record; None if the answer has none.
        given: Its name of input tokens, whose details have the same beginning.
        made: Its name of output tokens.
    """
    usage = usage or {}
    found = {
        "input_tokens": usage.get(given),
        "output_tokens": usage.get(made),
        "cache_read_input_tokens": (usage.get(f"{given}_details") or {}).get("cached_tokens"),
        "reasoning_output_tokens": (usage.get(f"{made}_details") or {}).get("reasoning_tokens"),
    }
    return {name: tokens for name, tokens in found.items() if tokens is not None}


def _tool_call(part: Part) -> dict[str, Any]:
    function = {"name": part.name, "arguments": json.dumps(part.args or {})}
    return {"id": part.id, "type": "function", "function": function}


def _content(value: Any) -> str:
    """Return the text of a message's content, which may be a list of blocks."""
    if isinstance(value, list):
        return "".join(
            str(one.get("text") or one.get("refusal") or _content(one.get("content")))
            for one in value
        )
    return value or ""


def _blocks(value: Any) -> list[dict[str, Any]]:
    """Return a message's content as blocks."""
    return value if isinstance(value, list) else [{"type": "text", "text": value}] if value else []


def _shown(value: Any) -> str:
    """Return what hooks see of a result: its text, and other blocks but pictures and sound."""
    if not isinstance(value, list):
        return value or ""
    heard = ("image_url", "input_audio")
    blocks = [one for one in value if one.get("type") not in heard]
    return "".join(one.get("text") or json.dumps(one) for one in blocks)


_ANSWER = ("id", "object", "created", "model", "system_fingerprint", "service_tier", "usage")
_CHOICE = ("index", "finish_reason")
_MESSAGE = ("role", "content", "tool_calls", "function_call", "name", "images")
"""Fields of an answer that do not repeat its text: servers add others as they like."""


def _only(record: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: record[name] for name in names if name in record}


class ChatForm(JsonCall):
    """A request whose messages and answers have this form."""

    must = ()
    table = PartTable(made={"text": lambda part: part.text, "call": _tool_call}, between="\n")

    def messages_in(self, answer: Any) -> Iterable[Any]:
        choices = answer.get("choices") or () if isinstance(answer, dict) else ()
        return [{**(one.get("message") or {}), "role": "assistant"} for one in choices]

    def json_parts(self, data: Any) -> Iterable[Part]:
        if not isinstance(data, dict):
            return
        content = _content(data.get("content"))
        if data.get("role") in ("tool", "function"):
            id, name = data.get("tool_call_id") or "", data.get("name") or ""
            yield Part("result", data, _shown(data.get("content")), name, id)
            return
        if content:
            yield Part("text", content, content)
        for call in data.get("tool_calls") or ():
            custom, function = call.get("custom"), call.get("function")
            if custom and function:
                raise ValueError("a tool call says `custom` and `function`: which one will run?")
            yield _call(call, custom, "input") if custom else _call(call, function, "arguments")
        if call := data.get("function_call"):
            yield _call(call, call, "arguments")

    def made_answer(self, parts: list[Any], of: Any) -> Any:
        of = of or {"id": "chatcmpl-otelhooks", "object": "chat.completion", "created": 0}
        choices = of.get("choices") or [{"index": 0, "message": {"role": "assistant"}}]
        texts = [part for part in parts if isinstance(part, str)]
        calls = [part for part in parts if not isinstance(part, str)]
        own = [_content((choice.get("message") or {}).get("content")) for choice in choices]
        is_same = set(filter(None, own)) <= set(texts)  # else a hook has changed what it saw of all
        is_shared = len(choices) == 1 or not is_same
        made = [
            self._choice(choice, texts, calls, is_only=len(choices) == 1, is_shared=is_shared)
            for choice in choices
        ]
        return {"model": self.model, **of, "choices": made}

    def _choice(
        self, choice: Any, texts: list[str], calls: list[Any], *, is_only: bool, is_shared: bool
    ) -> Any:
        """Return one choice with what is left for it, and if it is shared, with all texts."""
        message = dict(choice.get("message") or {})
        before = [*(message.pop("tool_calls", None) or ()), message.pop("function_call", None)]
        its = {id(self.origin(call)) for call in before}
        own = calls if is_only else [call for call in calls if id(self.origin(call)) in its]
        listed = [call for call in own if not _LISTED.isdisjoint(call)]
        if listed:
            message["tool_calls"] = listed
        if own and not listed:
            message["function_call"] = own[0]
        old = _content(message.get("content"))
        if is_shared or not (own or old):
            message["content"] = "\n".join(texts) or None
        reason = choice.get("finish_reason")
        is_asking = reason in (None, "tool_calls", "function_call")
        return {
            **choice,
            "message": message,
            "finish_reason": reason if own or not is_asking else "stop",
        }

    def json_bare(self, data: Any) -> Any:
        choices = [
            {**_only(one, _CHOICE), "message": _only(one["message"], _MESSAGE), "logprobs": None}
            for one in data["choices"]
        ]
        return {**_only(data, _ANSWER), "choices": choices}

    def json_about(self, data: Any) -> tuple[Any, ...]:
        reasons = [choice.get("finish_reason") for choice in data.get("choices") or ()]
        usage = tokens_of(data.get("usage"), "prompt_tokens", "completion_tokens")
        return usage, list(filter(None, reasons)), data.get("id"), data.get("model")

    # -- the next request ---------------------------------------------------------------------

    def said(self, answer: Any) -> list[Any]:
        message = answer.data["choices"][0]["message"]
        kept = ("role", "content", "tool_calls", "refusal", "name", "audio", "reasoning_content")
        return [{name: message[name] for name in kept if message.get(name) or name == "content"}]

    def with_calls(
        self, messages: list[Any], at: int, calls: Iterable[tuple[Any, str, str]]
    ) -> list[Any]:
        calls = list(calls)
        asked = {**messages[at], "role": "assistant"}
        asked["tool_calls"] = [
            *(asked.get("tool_calls") or ()),
            *(_asked(native) for native, _, _ in calls),
        ]
        results = [{"role": "tool", "tool_call_id": id, "content": text} for _, id, text in calls]
        return [*messages[:at], asked, *results, *messages[at + 1 :]]

    def with_result(self, message: Any, part: Part, text: str) -> Any:
        return {**message, "content": text}

    def with_args(self, part: Part, args: dict[str, Any], text: str) -> Any:
        native = part.native
        for name, field in (("custom", "input"), ("function", "arguments")):
            if native.get(name):
                return {**native, name: {**native[name], field: text}}
        return {**native, "arguments": text}

    # -- streams ------------------------------------------------------------------------------

    def shows(self, event: dict[str, Any]) -> str:
        what = ""
        for choice in event.get("choices") or ():
            for name in ("delta", "message"):
                told = choice.get(name) or {}
                if told.get("tool_calls") or told.get("function_call"):
                    return "call"
                what = "text" if told.get("content") else what
        return what

    def joined(self, events: list[dict[str, Any]]) -> Any:
        found: dict[str, Any] = {"object": "chat.completion"}
        choices: dict[int, Any] = {}
        for event in events:
            found.update((k, v) for k, v in event.items() if v and k not in ("choices", "object"))
            for position, each in enumerate(event.get("choices") or ()):
                self.must_retell |= each["index"] != position  # loops read the first one
                choice = choices.setdefault(each["index"], {"index": each["index"], "message": {}})
                choice["finish_reason"] = each.get("finish_reason") or choice.get("finish_reason")
                told = self._told_by(each) if each.get("message") else each.get("delta") or {}
                self._add(choice["message"], told)
        if len(choices) > 1 and ((self.settings or {}).get("n") or 1) < 2:
            raise ValueError("a stream has a choice that was not asked for: which one is read?")
        return {**found, "choices": [choices[index] for index in sorted(choices)]}

    def _told_by(self, choice: dict[str, Any]) -> dict[str, Any]:
        """Return what a chunk's choice with a message adds: some servers send one for a delta."""
        delta, message = choice.get("delta") or {}, choice["message"]
        if any(delta.values()) and any(message.values()):
            raise ValueError("a chunk says `delta` and `message`: which one is read?")
        self.must_retell = True
        return message

    def _add(self, message: dict[str, Any], delta: dict[str, Any]) -> None:
        """Add a delta to a message: texts grow, except names, which may be repeated."""
        for name, value in delta.items():
            if name == "tool_calls":
                for piece in value or ():
                    self._add(self._continued(message.setdefault(name, []), piece), piece)
            elif isinstance(value, dict):
                self._add(message.setdefault(name, {}), value)
            elif isinstance(value, list) or isinstance(message.get(name), list):
                message[name] = [*_blocks(message.get(name)), *_blocks(value)]
            elif isinstance(value, str) and name not in ("role", "type", "id"):
                known = message.get(name) or ""
                self.must_retell |= bool(known and value and name == "name")
                message[name] = known if name == "name" and known == value else known + value
            elif value is not None:
                message[name] = value

    def _continued(self, calls: list[dict[str, Any]], piece: dict[str, Any]) -> dict[str, Any]:
        """Return the call that a piece adds to: by its index, and another one for another id.

        Loops tell calls apart by index, by id, or by neither, as servers do.
        """
        index, id = piece.get("index"), piece.get("id")
        is_new = bool(id or (piece.get("function") or {}).get("name"))
        if index is None:
            known = calls[-1] if calls and not is_new else None
        else:
            known = next((one for one in reversed(calls) if one["index"] == index), None)
        if known is not None and id and known.get("id") not in (None, "", id):
            known = None
        others = [one for one in calls if one is not known]
        same = any(one["index"] == index or (id and one.get("id") == id) for one in others)
        self.must_retell |= index is None or same
        if known is None:
            calls.append(known := {"index": index})
        # Loops add a piece to the last call, or to the one at its index.
        self.must_retell |= known is not calls[-1] or index != len(calls) - 1
        return known

    def events(self, data: Any, shown: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        kept = ("id", "created", "model", "system_fingerprint", "service_tier")
        head = {"object": "chat.completion.chunk", **{k: data[k] for k in kept if k in data}}
        seen = {one["index"]: one["message"] for one in self.joined(shown)["choices"]}
        for choice in data["choices"]:
            index, message = choice["index"], choice["message"]
            has = seen.get(index)
            text = _content(message.get("content"))
            text = text.removeprefix(_content(has.get("content")) if has else "")
            delta: dict[str, Any] = {"content": text} if text else {}
            if not has:
                delta["role"] = "assistant"
            if old := message.get("function_call"):
                delta["function_call"] = old
            told = [delta]
            for at, call in enumerate(message.get("tool_calls") or ()):
                told += [{"tool_calls": [piece]} for piece in _pieces(at, call)]
            for each in told:
                yield {**head, "choices": [{"index": index, "delta": each, "finish_reason": None}]}
            end = {"index": index, "delta": {}, "finish_reason": choice["finish_reason"]}
            yield {**head, "choices": [end]}
        if data.get("usage"):
            yield {**head, "choices": [], "usage": data["usage"]}


_TEXTS = {"function": "arguments", "custom": "input"}
_LISTED = frozenset(("type", *_TEXTS))
"""Fields that a call has among ``tool_calls``; some servers leave out the type."""


def _asked(call: dict[str, Any]) -> dict[str, Any]:
    """Return a call as requests have it: strict servers take neither more fields nor less."""
    kept = {name: value for name, value in call.items() if name != "index"}
    return {"type": "custom" if call.get("custom") else "function", **kept}


def _pieces(at: int, call: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the pieces of a stream that tell a call: loops keep the first, and add to it."""
    texts = {of: text for of, text in _TEXTS.items() if call.get(of)}
    yield {**call, **{of: {**call[of], text: ""} for of, text in texts.items()}, "index": at}
    yield {**{of: {text: call[of].get(text)} for of, text in texts.items()}, "index": at}


def _call(native: Any, function: Any, field: str) -> Part:
    function = function or {}
    text = function.get(field) or "{}"
    return Part("call", native, text, function.get("name") or "", native.get("id") or "")
