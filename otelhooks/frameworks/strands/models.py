# pyright: basic
"""Model calls of Strands: asynchronous generators of events."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from otelhooks.frameworks import kit
from otelhooks.frameworks.strands.tools import Tool, locate

__all__ = ["ModelCall", "blocks"]


def _text_events(part: kit.Part) -> list[Any]:
    return [_event("BlockStart", start={}), _event("BlockDelta", delta={"text": part.text}), _END]


def _call_events(part: kit.Part) -> list[Any]:
    asked = {"toolUseId": part.id or f"tooluse_{uuid.uuid4().hex}", "name": part.name}
    delta = {"toolUse": {"input": json.dumps(part.args)}}
    return [_event("BlockStart", start={"toolUse": asked}), _event("BlockDelta", delta=delta), _END]


def _event(name: str, **fields: Any) -> dict[str, Any]:
    return {f"content{name}": fields}


_END = _event("BlockStop")


def _read_block(block: Any) -> kit.Part:
    if "text" in block:
        return kit.Part("text", block, block["text"])
    if (asked := block.get("toolUse")) is not None:
        return kit.Part("call", block, "", asked["name"], asked["toolUseId"], asked["input"])
    if (result := block.get("toolResult")) is not None:
        text = "\n".join(
            one["text"] if "text" in one else json.dumps(one, default=str)
            for one in result["content"]
        )
        return kit.Part("result", block, text, id=result["toolUseId"])
    return kit.Part("other", block)


def _block_of(events: list[Any]) -> dict[str, Any]:
    """Return the block of an answer that its events tell."""
    asked: Any = None
    texts: list[str] = []
    for event in events:
        asked = asked or event.get("contentBlockStart", {}).get("start", {}).get("toolUse")
        delta = event.get("contentBlockDelta", {}).get("delta", {})
        texts.append(delta.get("toolUse", {}).get("input") or delta.get("text") or "")
    text = "".join(texts)
    if asked is not None:
        return {"toolUse": {**asked, "input": kit.ToolCall.arguments_in(text, "input")}}
    return {"text": text} if text else {}


class ModelCall(kit.ModelCall):
    """One call of a model. An answer is the list of its stream's events, a part those of a block.

    The system prompt is shown to hooks as a message, and taken out again.
    """

    table = kit.PartTable(kind="kind", made={"text": _text_events, "call": _call_events})
    tokens: ClassVar = {
        "input_tokens": "inputTokens",
        "output_tokens": "outputTokens",
        "cache_read_input_tokens": "cacheReadInputTokens",
        "cache_write_input_tokens": "cacheWriteInputTokens",
    }

    def read(
        self,
        model: Any,
        /,
        messages: Any,
        tool_specs: Any = None,
        system_prompt: Any = None,
        **further: Any,
    ) -> Any:
        if self.is_inner():
            return kit.SKIP
        self.further = further
        config = dict(model.get_config() or {})
        self.model, self.settings = str(config.pop("model_id", None) or ""), config
        module = type(model).__module__.rpartition(".")[2]
        self.provider = module.removesuffix("_responses")
        system = further.get("system_prompt_content") or (
            [{"text": system_prompt}] if system_prompt else []
        )
        self.given = (system_prompt, system)
        self.messages = [*([{"role": "system", "content": system}] if system else []), *messages]
        self.tools = list(tool_specs or ())
        self.runs_here = [spec["name"] for spec in self.tools]
        self.is_typed = "tool" in (further.get("tool_choice") or ())
        self.registry = _tools_of((further.get("invocation_state") or {}).get("agent"))

    def call(self, wrapped: Any) -> Any:
        if not self.is_rewritten:
            system_prompt, system = self.given
            messages = self.messages[1:] if system else self.messages
            return wrapped(messages, self.tools or None, system_prompt, **self.further)
        messages = [{**one, "content": blocks(one)} for one in self.messages]
        system = [b for one in messages if one["role"] == "system" for b in one["content"]]
        if "system_prompt_content" in self.further:
            self.further["system_prompt_content"] = system or None
        prompt = "\n".join(block["text"] for block in system if "text" in block) or None
        messages = [one for one in messages if one["role"] != "system"]
        return wrapped(messages, self.tools or None, prompt, **self.further)

    def offered(self, definition: Any) -> Any:
        call = Tool()
        call.name, call.args = definition["name"], {}
        locate(call, self.registry.get(call.name))
        return call

    def whole(self, seen: Any) -> Any:
        return seen

    def told(self, result: Any) -> Any:
        return result

    def parts(self, message: Any) -> Iterable[kit.Part]:
        if isinstance(message, dict):
            return map(_read_block, blocks(message))
        return (_read_block(_block_of(one))._replace(native=one) for one in _groups(message))

    def role(self, part: kit.Part, message: Any) -> str:
        return "tool" if part.kind == "result" else message["role"]

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        asks = any("toolUse" in _block_of(events) for events in parts)
        reason = (_of(of, "messageStop") or {}).get("stopReason", "end_turn")
        reason = "tool_use" if asks else "end_turn" if reason == "tool_use" else reason
        events = [event for group in parts for event in group]
        start = {"messageStart": {"role": "assistant"}}
        rest = [one for one in of or () if "metadata" in one or "redactContent" in one]
        return [start, *events, {"messageStop": {"stopReason": reason}}, *rest]

    def about(self, raw: Any) -> tuple[Any, ...]:
        end, told = _of(raw, "messageStop") or {}, _of(raw, "metadata") or {}
        return told.get("usage"), end.get("stopReason")


def _of(events: Any, name: str) -> Any:
    return next((event[name] for event in reversed(events or ()) if name in event), None)


def _groups(events: Any) -> Iterator[list[Any]]:
    """Yield the events of each block."""
    group: list[Any] = []
    for event in events:
        if any(name.startswith("contentBlock") for name in event):
            group.append(event)
        if "contentBlockStop" in event:
            yield group
            group = []


def _tools_of(agent: Any) -> Mapping[str, Any]:
    return getattr(getattr(agent, "tool_registry", None), "registry", {})


def blocks(message: Any) -> list[Any]:
    """Return a message's blocks; hooks may have written a text."""
    content = message.get("content", "")
    return content if isinstance(content, list) else [{"text": str(content)}]
