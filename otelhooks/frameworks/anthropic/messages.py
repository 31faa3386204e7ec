# pyright: basic
"""Messages: the texts and calls in their JSON."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.clients.calls import Call
from otelhooks.frameworks.kit.clients.generated import GeneratedCall

__all__ = ["MessagesRequest", "built_in"]

_PROVIDERS = {
    "Bedrock": "aws.bedrock",
    "Vertex": "gcp.vertex_ai",
    "Foundry": "azure.ai.inference",
}
_ENDED = {"tool_use": "end_turn", None: "end_turn"}


def _shown(content: Any) -> str:
    """Return what hooks see of a result: its texts, and other blocks but pictures."""
    if not isinstance(content, list):
        return content or ""
    blocks = [one for one in content if one.get("type") != "image"]
    return "\n".join(
        str(one.get("text", "")) if one.get("type") == "text" else json.dumps(one) for one in blocks
    )


def _blocks(content: Any) -> list[Any]:
    return list(content) if isinstance(content, list) else [_text_block(content)] if content else []


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


_EDITS = {
    "view": "view_file",
    "create": "create_file",
    **dict.fromkeys(("str_replace", "insert", "undo_edit"), "edit_file"),
}
_AGENT_TOOLS = {
    "Bash": ("run_command", "shell"),
    "Read": ("view_file", "file_read"),
    "Write": ("create_file", "file_write"),
    "Edit": ("edit_file", "file_write"),
    "Glob": ("find_file", "file_read"),
    "Grep": ("search_directory", "file_read"),
}
"""Tools that the package has for managed sessions, by their schema's title."""


def built_in(definition: Any, args: dict[str, Any]) -> dict[str, Any]:
    """Return what rules know of a call of a tool that provider or package define."""
    if not isinstance(definition, Mapping):
        return {}
    title = str((definition.get("input_schema") or {}).get("title"))
    if title.startswith("BetaManagedAgentsAgentToolset"):
        for word, (name, kind) in _AGENT_TOOLS.items():
            if title.endswith(f"{word}Input"):
                return {"canonical": (name,), "kind": kind, "path": args.get("file_path")}
    type = definition.get("type") or ""
    if type.startswith("bash_"):
        return {"canonical": ("run_command",), "kind": "shell"}
    if not type.startswith("text_editor_"):
        return {}
    command, path = str(args.get("command")), args.get("path")
    done = (_EDITS[command],) if command in _EDITS else tuple(dict.fromkeys(_EDITS.values()))
    kind = "file_read" if done == ("view_file",) else "file_write"
    return {"canonical": done, "kind": kind, "path": path if isinstance(path, str) else None}


_ITS_OWN = ("text", "tool_use", "thinking", "redacted_thinking")
"""Blocks that are not of the provider's tools. Without its signed thoughts, no call may be sent."""


class MessagesRequest(GeneratedCall):
    """A request of ``messages``, even where Bedrock or Vertex carry it."""

    framework, path = "anthropic", "/v1/messages"
    table = kit.PartTable(
        made={
            "text": lambda part: _text_block(part.text),
            "call": lambda part: {
                **{"type": "tool_use", "id": part.id, "name": part.name},
                "input": part.args or {},
            },
        },
        between="\n",
    )

    def begins(self) -> None:
        self._defined = {
            one["name"]: one for one in self.tools if isinstance(one, Mapping) and "name" in one
        }
        name = "".join(each.__name__ for each in type(self.client).__mro__)
        found = [provider for word, provider in _PROVIDERS.items() if word in name]
        self.provider = found[0] if found else "anthropic"
        config = self.body.get("output_config") or {}
        self.is_typed = bool(self.body.get("output_format") or config.get("format"))
        if self.body.get("system"):
            self.messages.insert(0, {"role": "system", "content": self.body["system"]})

    def asked_with(self, messages: list[Any]) -> dict[str, Any]:
        """Return messages, and instructions, which have a place of their own."""
        said = [one for one in messages if one.get("role") != "system"]
        system = [one["content"] for one in messages if one.get("role") == "system"]
        if not system and not self.body.get("system"):
            return {"messages": said}
        content = system[0] if len(system) == 1 else [b for one in system for b in _blocks(one)]
        return {"messages": said, "system": content}

    def offered(self, definition: Any) -> Call | None:
        call = super().offered(definition)
        return call and _known(call, definition, {})

    def asked_for(self, part: kit.Part) -> Call:
        return _known(super().asked_for(part), self._defined.get(part.name, {}), part.args or {})

    def json_parts(self, data: Any) -> Iterable[kit.Part]:
        if not isinstance(data, dict):
            return
        for block in _blocks(data.get("content")):
            kind = block.get("type")
            if kind == "text":
                yield kit.Part("text", block, block.get("text") or "")
            elif kind == "tool_use":
                args = block.get("input")
                args = args if isinstance(args, dict) else {"arguments": args}
                yield kit.Part("call", block, name=block["name"], id=block["id"], args=args)
            elif kind == "tool_result":
                id = block.get("tool_use_id") or ""
                yield kit.Part("result", block, _shown(block.get("content")), id=id)
            else:
                yield kit.Part("other", block)

    def made_answer(self, parts: list[Any], of: Any) -> Any:
        of = of or {
            **{"id": "msg_otelhooks", "type": "message", "role": "assistant"},
            **{"stop_sequence": None, "usage": {"input_tokens": 0, "output_tokens": 0}},
        }
        reason = of.get("stop_reason")
        if not any(part.get("type") == "tool_use" for part in parts):
            reason = _ENDED.get(reason, reason)
        return {"model": self.model, **of, "content": parts, "stop_reason": reason}

    def json_bare(self, data: Any) -> Any:
        content = [
            {**block, "thinking": ""} if block["type"] == "thinking" else block
            for block in data["content"]
            if block["type"] in _ITS_OWN
        ]
        return {**data, "content": content}

    def json_about(self, data: Any) -> tuple[Any, ...]:
        usage = data.get("usage") or {}
        read, written = (
            usage.get(f"cache_{kind}_input_tokens") or 0 for kind in ("read", "creation")
        )
        tokens = {
            "input_tokens": (usage.get("input_tokens") or 0) + read + written,
            "output_tokens": usage.get("output_tokens") or 0,
            "cache_read_input_tokens": read,
            "cache_write_input_tokens": written,
        }
        used = {name: count for name, count in tokens.items() if count}
        return used, data.get("stop_reason"), data.get("id"), data.get("model")

    # -- the next request ---------------------------------------------------------------------

    def said(self, answer: Any) -> list[Any]:
        return [{"role": "assistant", "content": answer.data["content"]}]

    def with_calls(
        self, messages: list[Any], at: int, calls: Iterable[tuple[Any, str, str]]
    ) -> list[Any]:
        calls = list(calls)
        natives = [native for native, _, _ in calls]
        results = [
            {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": True}
            for _, id, text in calls
        ]
        own = _blocks(messages[at].get("content"))
        if (
            messages[at].get("role") == "user"
        ):  # the provider keeps the conversation, with the calls
            return [
                *messages[:at],
                {"role": "user", "content": [*results, *own]},
                *messages[at + 1 :],
            ]
        asked = {**messages[at], "content": [*own, *natives]}
        after = messages[at + 1 :]
        if after and after[0].get("role") == "user":  # its results come before anything else
            results += _blocks(after.pop(0).get("content"))
        return [*messages[:at], asked, {"role": "user", "content": results}, *after]

    def repeats(self, index: int) -> bool:
        here = {part.kind: part.id for part in self.parts(self.messages[index])}
        if "call" in here:
            return True
        before = (part.id for one in self.messages[:index] for part in self.parts(one))
        return here.get("result") not in before

    def with_result(self, message: Any, part: kit.Part, text: str) -> Any:
        blocks = [
            {**block, "content": text} if block.get("tool_use_id") == part.id else block
            for block in message["content"]
        ]
        return {**message, "content": blocks}

    def with_args(self, part: kit.Part, args: dict[str, Any], text: str) -> Any:
        return {**part.native, "input": args}

    # -- streams ------------------------------------------------------------------------------

    def shows(self, event: dict[str, Any]) -> str:
        kind = event.get("type")
        if kind == "message_start" and event["message"].get("content"):
            return "call"  # which nothing else of the stream tells
        if kind == "content_block_start" and event["content_block"].get("type") == "tool_use":
            return "call"
        is_text = kind == "content_block_delta" and event["delta"].get("type") == "text_delta"
        return "text" if is_text else ""

    def joined(self, events: list[dict[str, Any]]) -> Any:
        message: dict[str, Any] = {}
        texts: dict[int, str] = {}
        for event in events:
            kind = event.get("type")
            if kind == "message_start":
                if message or event["message"].get("content"):
                    raise ValueError("a stream began a second message, or one with content")
                message = {**copy.deepcopy(event["message"]), "content": []}
            elif kind == "content_block_start":
                if event["index"] != len(message["content"]):
                    raise ValueError(f"a stream began the block {event['index']} out of turn")
                message["content"].append(copy.deepcopy(event["content_block"]))
                self.must_retell |= bool(event["content_block"].get("input"))
            elif kind == "content_block_delta":
                self.must_retell |= event["index"] != len(message["content"]) - 1
                block, delta = message["content"][event["index"]], event["delta"]
                if delta["type"] == "input_json_delta":
                    text = texts[event["index"]] = (
                        texts.get(event["index"], "") + delta["partial_json"]
                    )
                    block["input"] = _input(text)
                else:
                    _add(block, delta)
            elif kind == "message_delta":
                if "content" in event["delta"]:
                    raise ValueError("a stream told its content at its end")
                message.update(event["delta"])
                usage = {k: v for k, v in (event.get("usage") or {}).items() if v is not None}
                message["usage"] = {**(message.get("usage") or {}), **usage}
        return message

    def events(self, data: Any, shown: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        if not shown:
            yield {"type": "message_start", "message": {**data, "content": [], "stop_reason": None}}
        before = self.joined(shown).get("content", [])
        is_open = any(event.get("type") == "content_block_start" for event in shown) and not any(
            event.get("type") == "content_block_stop" and event["index"] == len(before) - 1
            for event in shown
        )
        for index, block in enumerate(data["content"]):
            known = before[index] if index < len(before) else None
            if known is None:
                yield {
                    "type": "content_block_start",
                    "index": index,
                    "content_block": _empty(block),
                }
            elif index < len(before) - 1 or not is_open:
                continue
            for delta in _deltas(block, known):
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        end = {name: data.get(name) for name in ("stop_reason", "stop_sequence")}
        tokens = (data.get("usage") or {}).get("output_tokens") or 0
        yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": tokens}}
        yield {"type": "message_stop"}


def _known(call: Call, definition: Any, args: dict[str, Any]) -> Call:
    for name, value in built_in(definition, args).items():
        setattr(call, name, value)
    return call


def _input(text: str) -> Any:
    """Return arguments as the client reads them, also those that a limit cut off."""
    return kit.native("jiter:from_json")(text.encode(), partial_mode=True) if text else {}


_OF_CALL = frozenset(("id", "input", "name", "tool_use_id"))


def _add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a delta to its block: texts grow, citations are listed.

    Raises:
        ValueError: It changes which tool the block calls.
    """
    if changed := _OF_CALL.intersection(delta):
        raise ValueError(f"a stream changed `{min(changed)}` of a block that it began")
    for name, value in delta.items():
        if name == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif name != "type":
            block[name] = (block.get(name) or "") + value


def _empty(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block before its deltas."""
    blank = {"text": {"text": ""}, "tool_use": {"input": {}}}.get(block["type"], {})
    return {**block, **blank}


def _deltas(block: dict[str, Any], known: dict[str, Any] | None) -> Iterable[dict[str, Any]]:
    """Yield what is missing of a block."""
    if block["type"] == "text":
        rest = block["text"].removeprefix(known["text"] if known else "")
        yield {"type": "text_delta", "text": rest}
    elif block["type"] == "tool_use":
        yield {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
