# pyright: basic
"""Model calls; those of live runs are not seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from otelhooks.frameworks import kit
from otelhooks.frameworks.google_adk.tools import TABLE, ToolCall, locate

__all__ = ["ModelCall", "content_of", "parts_of", "types"]

types = kit.module("google.genai.types")

_SETTINGS = ("temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences", "seed")


def content_of(text: str, role: str = "model") -> Any:
    """Return a message."""
    return types.Content(role=role, parts=[types.Part(text=text)])


def parts_of(message: Any) -> list[Any]:
    """Return the parts of a message, of an answer, or of an event."""
    return getattr(getattr(message, "content", message), "parts", None) or []


def _message(role: str) -> Any:
    return lambda text: content_of(text, role)


def _asked(part: kit.Part) -> Any:
    fields = {"name": part.name, "args": part.args, "id": part.id or None}
    return types.Part(function_call=types.FunctionCall(**fields))


class ModelCall(kit.ModelCall):
    """A call of ``BaseLlm.generate_content_async``, whose last item is the whole answer."""

    table = kit.PartTable(
        kind="function_call",
        made={"text": lambda part: types.Part(text=part.text), "call": _asked},
        messages={"assistant": _message("model"), "": _message("user")},
    )
    tokens: ClassVar = {
        "input_tokens": "prompt_token_count",
        "output_tokens": "candidates_token_count",
        "cache_read_input_tokens": "cached_content_token_count",
        "reasoning_output_tokens": "thoughts_token_count",
    }

    def read(self, llm: Any, llm_request: Any, stream: bool = False) -> Any:
        """Read it. A model that calls on, to the one it extends or stands for, is one call."""
        if self.is_inner():
            return kit.SKIP
        self.request, config = llm_request, llm_request.config
        self.model, self.provider = llm_request.model or llm.model, provider_of(llm)
        self.operation, self.stream = "generate_content", stream
        self.messages = list(llm_request.contents)
        self.tools = [each for tool in config.tools or () for each in offered_in(tool)]
        self.settings = {
            name: value for name in _SETTINGS if (value := getattr(config, name)) is not None
        }
        if isinstance(config.system_instruction, str):
            self.settings["instructions"] = config.system_instruction
        self.agent = (config.labels or {}).get("adk_agent_name", "")
        self.runs_here = llm_request.tools_dict
        return None

    def call(self, wrapped: Any) -> Any:
        """Call the model with what hooks wrote."""
        request = self.request
        if self.is_rewritten:
            config = request.config.model_copy(update={"tools": tools_of(self.tools)})
            request = request.model_copy(update={"contents": self.natives(), "config": config})
        return wrapped(request, stream=self.stream)

    def holds(self) -> bool:
        """Return whether the answer waits; always if it comes whole."""
        return self.holds_back or not self.stream

    def deliver(self, item: Any) -> Any:
        """Return the item; the framework calls tools as soon as it gets one that asks for some."""
        self.is_over = not item.partial
        return [item]

    def whole(self, seen: Any) -> Any:
        """Return the answer that a stream's items contain."""
        whole = [each for each in seen if not each.partial]
        if len(whole) == 1:
            return whole[0]
        items = whole or seen
        parts = [part for each in items for part in parts_of(each)]
        return self.answer(parts, items[-1] if items else None)

    def told(self, result: Any) -> Any:
        """Return the items that contain an answer."""
        return [result]

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        """Return an answer of these parts."""
        content = types.Content(role="model", parts=parts)
        if of is None:
            return kit.native("google.adk.models.llm_response:LlmResponse")(content=content)
        return of.model_copy(update={"content": content})

    def parts(self, message: Any) -> Iterable[kit.Part]:
        """Read the parts of an answer, or of a message."""
        for part in parts_of(message):
            if call := part.function_call:
                yield kit.Part("call", part, "", call.name or "", call.id or "", call.args or {})
            elif result := part.function_response:
                yield kit.Part("result", part, str(result.response), id=result.id or "")
            else:
                is_text = part.text is not None and not part.thought
                yield kit.Part("text" if is_text else "other", part, part.text or "")

    def role(self, part: kit.Part, message: Any) -> str:
        """Return the role of a part of a message."""
        if part.kind == "result":
            return "tool"
        return "assistant" if message.role == "model" else "user"

    def about(self, raw: Any) -> tuple[Any, ...]:
        """Read usage and the reason of the end."""
        reason = raw.finish_reason
        reason = reason and getattr(reason, "name", str(reason)).lower()
        return raw.usage_metadata, reason, None, raw.model_version

    def offered(self, definition: Any) -> Any:
        """Return a call of a defined tool, as its seat will read it."""
        tool = self.request.tools_dict.get(getattr(definition, "name", None))
        if tool is None:
            return super().offered(definition)
        call = ToolCall()
        call.name = tool.name
        locate(call, tool)
        return call

    @staticmethod
    def hosted(definition: Any) -> Any:
        """Return how rules see a tool that runs at the provider."""
        name = next((name for name in hosted_in(definition)), None)
        return None if name is None else TABLE.hosted_as(name, TABLE[name], None, {})


def provider_of(llm: Any) -> str:
    """Return the provider: that of the framework's own class, else the package of the class."""
    head, _, rest = type(llm).__module__.partition(".")
    if head != "google":
        return head
    name = rest.rpartition(".")[2]
    return {"google_llm": "gcp.gemini", "anthropic_llm": "anthropic"}.get(name, "google")


def hosted_in(tool: Any) -> list[str]:
    """Return the names of the tools of the provider in one definition."""
    return [name for name in TABLE if ":" not in name and getattr(tool, name, None) is not None]


def offered_in(tool: Any) -> list[Any]:
    """Return what one definition offers: functions one by one, each tool of the provider."""
    offered = list(getattr(tool, "function_declarations", None) or ())
    if not offered:
        return [tool]
    rest = [types.Tool(**{name: getattr(tool, name)}) for name in hosted_in(tool)]
    return [*offered, *rest]


def tools_of(offered: Iterable[Any]) -> list[Any]:
    """Return definitions as a request has them: the functions in one."""
    functions, rest = [], []
    for each in offered:
        (functions if kit.is_a(each, "google.genai.types:FunctionDeclaration") else rest).append(
            each
        )
    return [*([types.Tool(function_declarations=functions)] if functions else []), *rest]
