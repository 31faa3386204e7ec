# pyright: basic
"""Model calls of CrewAI, and the shortening of a history."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

from otelhooks.frameworks import kit
from otelhooks.frameworks.crewai.tools import Function
from otelhooks.frameworks.kit import compaction

__all__ = ["Compaction", "ModelCall", "note_usage"]

_reported: ContextVar[dict[str, Any] | None] = ContextVar("otelhooks_crewai_usage", default=None)


def _tool_call(part: kit.Part) -> dict[str, Any]:
    function = {"name": part.name, "arguments": json.dumps(part.args or {})}
    return {"id": part.id, "type": "function", "function": function}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(one.get("text") or "") for one in content if isinstance(one, dict))
    return str(content or "")


def _call_of(native: Any) -> kit.Part:
    info = kit.native("crewai.utilities.agent_utils:extract_tool_call_info")(native)
    if info is None:
        return kit.Part("other", native)
    id, name, given = info
    args = given if isinstance(given, dict) else kit.ToolCall.arguments_in(given, "arguments")
    return kit.Part("call", native, "", name, str(id or ""), args)


class ModelCall(kit.ModelCall):
    """A call of a model's ``call`` or ``acall``; one that calls on is one call."""

    table = kit.PartTable(made={"text": lambda part: part.text, "call": _tool_call}, between="\n")
    tokens: ClassVar = {
        "input_tokens": "prompt_tokens",
        "output_tokens": "completion_tokens",
        "cache_read_input_tokens": "cached_prompt_tokens",
        "reasoning_output_tokens": "reasoning_tokens",
    }

    def read(self, llm: Any, /, messages: Any, *args: Any, **given: Any) -> Any:
        if self.is_inner():
            return kit.SKIP
        names = list(inspect.signature(self.function).parameters)[1:]
        self.given = {**dict(zip(names, args, strict=False)), **given}
        self._is_text = isinstance(messages, str)
        said = [{"role": "user", "content": messages}] if self._is_text else messages
        self.messages = list(said)
        self._own = list(self.given.get("tools") or ())
        self.tools = list(self._own)
        functions = [one.get("function", one) for one in self._own if isinstance(one, dict)]
        self.runs_here = [str(one.get("name")) for one in functions]
        self.model = str(getattr(llm, "model", "") or "")
        self.provider = str(getattr(llm, "provider", "") or "")
        self.agent = str(getattr(self.given.get("from_agent"), "role", None) or "")
        self.settings = {
            name: value
            for name in ("temperature", "max_tokens", "top_p")
            if (value := getattr(llm, name, None)) is not None
        }
        self.is_typed = self.given.get("response_model") is not None
        self._reported: dict[str, Any] = {}
        return None

    def call(self, wrapped: Any) -> Any:
        given = dict(self.given)
        if self.tools != self._own:
            given["tools"] = self.tools
        if given.get("available_functions"):
            given["available_functions"] = Function.guarded(given["available_functions"])
        messages: Any = self.natives()
        if self._is_text and len(messages) == 1:
            messages = messages[0]["content"]
        token = _reported.set(self._reported)
        try:
            return wrapped(messages, **given)
        finally:
            if not self.is_async:  # a coroutine reports later; its task has a context of its own
                _reported.reset(token)

    def parts(self, message: Any) -> Iterable[kit.Part]:
        if isinstance(message, list):
            yield from map(_call_of, message)
        elif not isinstance(message, Mapping):
            as_json = getattr(message, "model_dump_json", None)
            yield kit.Part("text", message, as_json() if as_json else str(message))
        elif message.get("role") == "tool":
            id = str(message.get("tool_call_id") or "")
            yield kit.Part("result", message, _text(message.get("content")), id=id)
        else:
            if text := _text(message.get("content")):
                yield kit.Part("text", message.get("content"), text)
            yield from map(_call_of, message.get("tool_calls") or ())

    def role(self, part: kit.Part, message: Any) -> str:
        return str(message.get("role")) if isinstance(message, Mapping) else "assistant"

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        calls = [part for part in parts if not isinstance(part, str)]
        return calls or "\n".join(parts)

    def about(self, raw: Any) -> tuple[Any, ...]:
        told = self._reported
        return told.get("usage"), told.get("finish_reason"), told.get("response_id")


def note_usage(wrapped: Any, llm: Any, /, *args: Any, **told: Any) -> Any:
    """Note what a client reports of an answer, for the call that waits for it."""
    reported = _reported.get()
    if reported is not None:
        reported.update(told)
    return wrapped(*args, **told)


class Compaction(compaction.Compaction):
    """The shortening of an agent's history, which is changed in place."""

    def summary(self, raw: Any) -> str:
        args, given = self._given
        history = given.get("messages") or next(iter(args), ())
        return "\n".join(_text(one.get("content")) for one in history)
