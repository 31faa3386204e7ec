# pyright: basic
"""Responses: the texts and calls in their JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.clients.calls import Call
from otelhooks.frameworks.kit.clients.chat_form import tokens_of
from otelhooks.frameworks.kit.clients.generated import GeneratedCall
from otelhooks.frameworks.openai.chat import provider_of

__all__ = ["ResponsesRequest"]

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_EVENTS = {
    "arguments": "response.function_call_arguments",
    "input": "response.custom_tool_call_input",
}
_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_BESIDE = ("response.shell_call_command", "response.apply_patch_call_operation")
"""Beginnings of events that tell arguments a second time, which only some loops read."""

_ItemKey = tuple[Any, ...]
_ITEMS = ("response.output_item.added", "response.output_item.done")


class _BuiltIn(NamedTuple):
    """A tool that the API defines and the application runs."""

    name: str
    field: str = ""
    canonical: tuple[str, ...] = ()
    kind: str | None = None


_PATCH = {"create_file": "create_file", "update_file": "edit_file", "delete_file": "delete_file"}
_BUILT_IN = {
    "shell_call": _BuiltIn("shell", "action", ("run_command",), "shell"),
    "local_shell_call": _BuiltIn("local_shell", "action", ("run_command",), "shell"),
    "apply_patch_call": _BuiltIn("apply_patch", "operation", tuple(_PATCH.values()), "file_write"),
    "computer_call": _BuiltIn("computer"),
    "tool_search_call": _BuiltIn("tool_search", "arguments"),
}
_OFFERED = {one.name: one for one in _BUILT_IN.values()}
_OFFERED["computer_use_preview"] = _BUILT_IN["computer_call"]._replace(name="computer_use_preview")
_KINDS = (*_CALLS, *_BUILT_IN)
_RESULTS = {name: f"{name}_output" for name in _KINDS}
_RESULTS["tool_search_call"] = "tool_search_output"
_CONTAINERS = ("container_auto", "container_reference")
"""Environments of shells at the provider."""

_WITHOUT_TEXT = ("computer_call", "tool_search_call")
"""Calls whose results are a screenshot, or definitions of tools."""


def _is_ours(item: Any) -> bool:
    """Return whether an item asks the application to run a tool, and not the provider."""
    kind = item.get("type")
    if kind == "tool_search_call":
        return item.get("execution") != "server"
    if kind == "shell_call":
        return (item.get("environment") or {}).get("type") not in _CONTAINERS
    return kind in _KINDS


def _items_in(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the items that an event tells, also one of a kind that is not known."""
    found = [event.get("item"), *((event.get("response") or {}).get("output") or ())]
    return [item for item in found if isinstance(item, dict)]


def _id(item: Any) -> str:
    return item.get("call_id") or item.get("id") or ""


def _arguments(item: Any) -> dict[str, Any]:
    """Return the arguments of a call of a built-in tool, without what is not set."""
    field = _BUILT_IN[item["type"]].field
    given = item.get(field) or {}
    if not field:
        given = {name: item[name] for name in ("action", "actions") if item.get(name)}
    if not isinstance(given, dict):
        given = kit.ToolCall.arguments_in(given, field)
    return {k: v for k, v in given.items() if v is not None and (field != "action" or k != "type")}


def _result(item: Any, id: str, text: str) -> dict[str, Any]:
    """Return a text as the result of a call."""
    kind = item["type"].removesuffix("_output")
    made: dict[str, Any] = {"type": f"{kind}_output", "call_id": id, "output": text}
    if kind == "shell_call":
        outcome = {"type": "exit", "exit_code": 1}
        made["output"] = [{"stdout": "", "stderr": text, "outcome": outcome}]
    elif kind == "local_shell_call":
        made["id"] = made.pop("call_id")
    elif kind == "apply_patch_call":
        made["status"] = "failed"
    return made


_FOUND = ("summary", "content", "code", "queries", "results", "outputs", "output")
"""Fields of what the model thought, and of what tools of the provider did and found."""


def _blank(item: dict[str, Any]) -> dict[str, Any]:
    return {name: type(item[name])() for name in _FOUND if item.get(name)}


def _message(part: kit.Part) -> dict[str, Any]:
    text = {"type": "output_text", "text": part.text, "annotations": []}
    return {
        **{"id": f"msg_otelhooks_{abs(hash(part.text))}", "type": "message", "role": "assistant"},
        **{"status": "completed", "content": [text]},
    }


def _function_call(part: kit.Part) -> dict[str, Any]:
    call = {"type": "function_call", "id": f"fc_{part.id}", "call_id": part.id, "name": part.name}
    return {**call, "arguments": json.dumps(part.args or {}), "status": "completed"}


class ResponsesRequest(GeneratedCall):
    """A request of ``responses``."""

    path, of_messages = "/responses", "input"
    table = kit.PartTable(made={"text": _message, "call": _function_call}, between="\n")

    def begins(self) -> None:
        self.provider = provider_of(self.client)
        form = (self.body.get("text") or {}).get("format") or {}
        self.is_typed = form.get("type", "text") != "text"
        self._offers = {one.get("type") for one in self.tools}

    def messages_in(self, answer: Any) -> Iterable[Any]:
        return answer.get("output") or () if isinstance(answer, dict) else ()

    def json_parts(self, data: Any) -> Iterable[kit.Part]:
        if not isinstance(data, dict):
            return
        kind = data.get("type")
        if kind in _BUILT_IN and _is_ours(data):
            args = _arguments(data)
            name = _BUILT_IN[kind].name
            if kind == "computer_call" and "computer_use_preview" in self._offers:
                name = "computer_use_preview"
            yield kit.Part("call", data, "", name, _id(data), args)
        elif kind in _CALLS:
            text = data.get(_CALLS[kind]) or "{}"
            yield kit.Part("call", data, text, data.get("name") or "", data.get("call_id") or "")
        elif kind in _RESULTS.values():
            text = data.get("output", data.get("tools"))
            shown = text if isinstance(text, str) else json.dumps(text)
            yield kit.Part("result", data, shown, id=_id(data))
        elif kind == "message" and isinstance(data.get("content"), list):
            yield kit.Part("text", data, _said(data))
        else:
            yield kit.Part("other", data)

    def made_answer(self, parts: list[Any], of: Any) -> Any:
        of = of or {
            **{"id": "resp_otelhooks", "object": "response", "created_at": 0, "tools": []},
            **{"status": "completed", "parallel_tool_calls": True, "tool_choice": "auto"},
        }
        return {"model": self.model, **of, "output": parts}

    def json_bare(self, data: Any) -> Any:
        output = [
            item if item.get("type") == "message" else {**item, **_blank(item)}
            for item in data["output"]
        ]
        return {**data, "output": output}

    def json_about(self, data: Any) -> tuple[Any, ...]:
        usage = tokens_of(data.get("usage"), "input_tokens", "output_tokens")
        return usage, data.get("status"), data.get("id"), data.get("model")

    # -- built-in tools -----------------------------------------------------------------------

    def offered(self, definition: Any) -> Any:
        what = _OFFERED.get(definition.get("type"))
        if what is None:
            return super().offered(definition)
        return Call(what.name, {}, canonical=what.canonical, kind=what.kind)

    def asked_for(self, part: kit.Part) -> Call:
        call = super().asked_for(part)
        if (what := _BUILT_IN.get(part.native["type"])) is not None:
            call.canonical, call.kind = what.canonical, what.kind
            if what.name == "apply_patch":
                call.path = part.args.get("path")
                done = _PATCH.get(part.args.get("type", ""))
                call.canonical = (done,) if done else what.canonical
        return call

    def can_tell(self, part: kit.Part) -> bool:
        return super().can_tell(part) and part.native["type"] not in _WITHOUT_TEXT

    # -- the next request ---------------------------------------------------------------------

    def said(self, answer: Any) -> list[Any]:
        items = [{k: v for k, v in one.items() if v is not None} for one in answer.data["output"]]
        return items or [{"role": "assistant", "content": ""}]

    def with_calls(
        self, messages: list[Any], at: int, calls: Iterable[tuple[Any, str, str]]
    ) -> list[Any]:
        is_kept = messages[at].get("type") in _RESULTS.values()  # by the provider, with the calls
        added: list[Any] = []
        for native, id, text in calls:
            native = {k: v for k, v in native.items() if v is not None}
            result = _result(native, id, text)
            added += [result] if is_kept else [native, result]
        before = messages[: at + 1]
        if before[-1] == {"role": "assistant", "content": ""}:
            before.pop()
        return [*before, *added, *messages[at + 1 :]]

    def repeats(self, index: int) -> bool:
        message = self.messages[index]
        if message.get("type") in _KINDS:
            return True
        calls = {_id(one) for one in self.messages if one.get("type") in _KINDS}
        return _id(message) not in calls

    def with_result(self, message: Any, part: kit.Part, text: str) -> Any:
        if message["type"] in ("function_call_output", "custom_tool_call_output"):
            return {**message, "output": text}
        if message["type"] in [_RESULTS[kind] for kind in _WITHOUT_TEXT]:
            raise self.exception(text)
        return {**message, **_result(message, part.id, text)}

    def with_args(self, part: kit.Part, args: dict[str, Any], text: str) -> Any:
        if part.native["type"] in _BUILT_IN:
            field = _BUILT_IN[part.native["type"]].field
            if not field:
                return {**part.native, **args}
            kept = part.native[field] if field == "action" else {}
            return {**part.native, field: {**{k: kept[k] for k in kept if k == "type"}, **args}}
        return {**part.native, _CALLS[part.native["type"]]: text}

    # -- streams ------------------------------------------------------------------------------

    def shows(self, event: dict[str, Any]) -> str:
        kind = event.get("type") or ""
        if any(map(_is_ours, _items_in(event))):
            return "call"
        if kind.startswith(tuple(_EVENTS.values())):
            return "call"
        if kind in _TEXTS:
            return "text"
        return "call" if kind in _ENDS else ""

    def joined(self, events: list[dict[str, Any]]) -> Any:
        ends = [event["response"] for event in events if event.get("type") in _ENDS]
        if len(ends) > 1:
            raise ValueError("a stream ended twice")
        end = ends[0] if ends else None
        items = _Items()
        for event in events:
            items.add(event)
        output = [item for item, _ in items.told.values()] if end is None else end.get("output")
        beside = items.beside(output or [])
        self.must_retell |= items.is_unclear(output or []) or bool(beside)
        return {**(end or {}), "output": [*(output or []), *beside]}

    def events(self, data: Any, shown: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        made = [] if shown else [{"type": "response.created", "response": {**data, "output": []}}]
        known = {
            event["item"].get("id")
            for event in shown
            if event.get("type") == "response.output_item.added"
        }
        for index, item in enumerate(data["output"]):
            if item.get("id") not in known:
                made += _told(index, item)
        made.append({"type": "response.completed", "response": data})
        return [{**one, "sequence_number": len(shown) + n} for n, one in enumerate(made)]


_ENDS = ("response.completed", "response.incomplete", "response.failed")


class _Items:
    """The items that events of a stream tell.

    Attributes:
        told: Each with whether it is whole, by type, ids and name: what differs in one of them
            counts as another item.
    """

    def __init__(self) -> None:
        self.told: dict[_ItemKey, tuple[dict[str, Any], bool]] = {}
        self._places: dict[Any, dict[str, Any]] = {}
        self._pieces: dict[_ItemKey, str] = {}
        self._texts: list[str] = []
        self._is_mixed = False

    def is_unclear(self, output: list[dict[str, Any]]) -> bool:
        """Return whether events tell two versions of a call or a text, or others than an output."""
        said = [_said(item) for item in output if item.get("type") == "message"]
        if self._is_mixed or (self._texts and "".join(self._texts) != "".join(said)):
            return True
        pairs = [(self.told[_key(item)][0], item) for item in output if _key(item) in self.told]
        return any(
            not _grows(told, item) if _is_ours(told) else _said(told) not in ("", _said(item))
            for told, item in pairs
        )

    def beside(self, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the calls of the application's tools that are not in an output."""
        calls = (told for _, told in self._calls())
        return [call for call, is_whole in calls if not _is_in(output, call, is_whole=is_whole)]

    def _calls(self) -> Iterable[tuple[_ItemKey, tuple[dict[str, Any], bool]]]:
        return ((key, told) for key, told in self.told.items() if _is_ours(told[0]))

    def add(self, event: dict[str, Any]) -> None:
        """Add what an event tells."""
        kind = event.get("type") or ""
        is_whole = kind.endswith(".done")
        if kind in _ITEMS:
            self._places[event.get("output_index")] = event["item"]
        if kind not in _ENDS:
            for item in _items_in(event):
                self._put(item, is_whole=is_whole or item is not event.get("item"))
        if kind in _TEXTS:
            self._texts.append(event["delta"])
        self._is_mixed |= kind.startswith(_BESIDE)
        for call, field in _CALLS.items():
            if kind.startswith(_EVENTS[field]):
                self._add_arguments(event, call, field, is_whole=is_whole)

    def _add_arguments(
        self, event: dict[str, Any], call: str, field: str, *, is_whole: bool
    ) -> None:
        id, there = event.get("item_id"), self._places.get(event.get("output_index"))
        named = next((item for item, _ in self.told.values() if id and item.get("id") == id), None)
        self._is_mixed |= None not in (named, there) and _key(named) != _key(there)
        known = named or there or {"type": call, "id": id}
        text = event[field] if is_whole else self._pieces.get(_key(known), "") + event["delta"]
        if not is_whole:
            self._pieces[_key(known)] = text
        name = event.get("name") or known.get("name") or ""
        self._put({**known, "name": name, field: text}, is_whole=is_whole)

    def _put(self, item: dict[str, Any], *, is_whole: bool) -> None:
        before, was_whole = self.told.get(_key(item), (item, False))
        self._is_mixed |= _is_ours(item) and not _grows(before, item)
        self.told[_key(item)] = (item, is_whole or was_whole)


def _grows(before: dict[str, Any], item: dict[str, Any]) -> bool:
    """Return whether a call's arguments begin with what an earlier event says of them."""
    if (field := _CALLS.get(item["type"])) is not None:
        return str(item.get(field) or "").startswith(str(before.get(field) or ""))
    told = _arguments(before)
    return not told or told == _arguments(item) or not any(told.values())


def _said(message: dict[str, Any]) -> str:
    """Return the texts of a message."""
    content = message.get("content") if message.get("type") == "message" else None
    return "".join(one.get("text") or one.get("refusal") or "" for one in content or ())


def _key(item: Any) -> _ItemKey:
    return tuple(item.get(name) for name in ("type", "id", "call_id", "name"))


def _is_in(output: list[dict[str, Any]], call: dict[str, Any], *, is_whole: bool) -> bool:
    """Return whether a call is among items; of one that is not whole, arguments do not count."""

    def known(item: dict[str, Any]) -> Any:
        kind = item.get("type")
        args: Any = None
        if is_whole and kind in _BUILT_IN:
            args = _arguments(item)
        elif is_whole and kind in _CALLS:
            args = kit.ToolCall.arguments_in(item.get(_CALLS[kind]), _CALLS[kind])
        return kind, _id(item), item.get("name"), args

    return any(known(one) == known(call) for one in output)


def _told(index: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events that tell one item."""
    place = {"output_index": index, "item_id": item.get("id")}
    empty, told = dict(item), []
    if item.get("type") == "message":
        empty["content"] = []
        for at, part in enumerate(item["content"]):
            name = "text" if part["type"] == "output_text" else "refusal"
            here, text = {**place, "content_index": at}, part.get(name) or ""
            kind = f"response.{'output_text' if name == 'text' else name}"
            more = {"logprobs": []} if name == "text" else {}
            told += [
                {"type": "response.content_part.added", **here, "part": {**part, name: ""}},
                {"type": f"{kind}.delta", **here, "delta": text, **more},
                {"type": f"{kind}.done", **here, name: text, **more},
                {"type": "response.content_part.done", **here, "part": part},
            ]
    elif item.get("type") in _CALLS:
        field = _CALLS[item["type"]]
        empty[field] = ""
        kind = _EVENTS[field]
        named = {"name": item.get("name")} if field == "arguments" else {}
        told += [
            {"type": f"{kind}.delta", **place, "delta": item[field]},
            {"type": f"{kind}.done", **place, field: item[field], **named},
        ]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": empty},
        *told,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]
