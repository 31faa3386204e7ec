# pyright: basic
"""Responses: what is said and asked for in their JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.generated import GeneratedCall
from otelhooks.frameworks.openai.chat import provider_of, tokens_of

__all__ = ["ResponsesRequest"]

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_EVENTS = {"arguments": "function_call_arguments", "input": "custom_tool_call_input"}
_RESULTS = {name: f"{name}_output" for name in _CALLS}
_TEXTS = ("output_text", "refusal")


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

    def json_parts(self, data: Any) -> Iterable[kit.Part]:
        if not isinstance(data, dict):
            return
        kind = data.get("type")
        if "output" in data and kind is None:
            for item in data["output"]:
                yield from self.json_parts(item)
        elif kind in _CALLS:
            text = data.get(_CALLS[kind]) or "{}"
            yield kit.Part("call", data, text, data.get("name") or "", data.get("call_id") or "")
        elif kind in _RESULTS.values():
            text = data.get("output")
            shown = text if isinstance(text, str) else json.dumps(text)
            yield kit.Part("result", data, shown, id=data.get("call_id") or "")
        elif kind == "message" and isinstance(data.get("content"), list):
            said = (one.get("text") or one.get("refusal") or "" for one in data["content"])
            yield kit.Part("text", data, "".join(said))
        else:
            yield kit.Part("other", data)

    def made_answer(self, parts: list[Any], of: Any) -> Any:
        of = of or {
            **{"id": "resp_otelhooks", "object": "response", "created_at": 0, "tools": []},
            **{"status": "completed", "parallel_tool_calls": True, "tool_choice": "auto"},
        }
        return {"model": self.model, **of, "output": parts}

    def json_about(self, data: Any) -> dict[str, Any]:
        return {
            "usage": tokens_of(data.get("usage"), "input_tokens", "output_tokens"),
            "finish_reasons": [data["status"]] if data.get("status") else [],
            "response_id": data.get("id") or "",
            "model": data.get("model") or "",
        }

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
            result = {"type": _RESULTS[native["type"]], "call_id": id, "output": text}
            added += [result] if is_kept else [native, result]
        before = messages[: at + 1]
        if before[-1] == {"role": "assistant", "content": ""}:
            before.pop()
        return [*before, *added, *messages[at + 1 :]]

    def repeats(self, index: int) -> bool:
        message = self.messages[index]
        if message.get("type") in _CALLS:
            return True
        calls = {one.get("call_id") for one in self.messages if one.get("type") in _CALLS}
        return message.get("call_id") not in calls

    def with_result(self, message: Any, part: kit.Part, text: str) -> Any:
        return {**message, "output": text}

    def with_args(self, part: kit.Part, args: dict[str, Any], text: str) -> Any:
        return {**part.native, _CALLS[part.native["type"]]: text}

    # -- streams ------------------------------------------------------------------------------

    def shows(self, event: dict[str, Any]) -> str:
        kind = event.get("type")
        if kind == "response.output_item.added":
            return "call" if event["item"].get("type") in _CALLS else ""
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            return "text"
        return "call" if kind in _ENDS else ""

    def joined(self, events: list[dict[str, Any]]) -> Any:
        for event in reversed(events):
            if event.get("type") in _ENDS:
                return event["response"]
        items = [e["item"] for e in events if e.get("type") == "response.output_item.done"]
        return {"output": items}

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
        kind = f"response.{_EVENTS[field]}"
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
