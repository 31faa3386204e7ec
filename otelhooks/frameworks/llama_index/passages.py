# pyright: basic
"""Calls of tools and of models of LlamaIndex."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import contents
from otelhooks.frameworks.kit.objects import outer, overrides
from otelhooks.frameworks.kit.positional import PositionalCall
from otelhooks.frameworks.llama_index import runs

__all__ = ["Chat", "Completion", "Streamed", "StreamedCompletion", "Tool"]

_TYPES = "llama_index.core.tools.types"
_llms = kit.module("llama_index.core.base.llms.types")
_FUNCTION = "llama_index.core.tools.function_tool:FunctionTool"
_LOADER = "llama_index.core.tools.ondemand_loader_tool:OnDemandLoaderTool"
_ADAPTED = f"{_TYPES}:BaseToolAsyncAdapter"
_GROUP = "llama_index.tool"
_MCP = "McpToolSpec._create_tool_fn."


class Tool(PositionalCall):
    """A call of a tool. One of its methods calls another: ``__call__`` does ``call``."""

    group = _GROUP
    pauses, tells_failures = (runs.WAITING,), True

    def read(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        if f"{type(tool).__module__}:{type(tool).__qualname__}" == _ADAPTED:
            return kit.SKIP  # it calls the tool that it adapts; a subclass may do anything
        meta = tool.metadata
        self.name, self.description = meta.get_name(), meta.description or ""
        self.id, self.agent = outer.id_for(self.name), runs.at_work()
        self.is_approved = runs.approval_of(self.id)
        function = inspect.unwrap(self.function)
        named, hidden = self.function, ()
        if kit.is_a(tool, _FUNCTION):
            kwargs = {**getattr(tool, "_field_defaults", {}), **tool.partial_params, **kwargs}
            named, hidden = tool.real_fn, (tool.ctx_param_name,)
            if tool.real_fn.__qualname__.startswith(_MCP):
                self.is_of_server(self.name, self.server_at(_place_of(tool)))
        elif kit.is_a(tool, _LOADER):
            self.is_also(tool._loader.__name__)  # a tool's function is all that it keeps
        self._tool = tool
        self.take_call(named, args, kwargs, [name for name in hidden if name])
        method = overrides.Method(tool, function.__name__)
        leads = function.__name__ != "call" and "call" in function.__code__.co_names
        if method.calls_on(self.function) or (leads and overrides.Method(tool, "call").is_guarded):
            self.goes_to(_GROUP, self.name)
        return None

    def call(self, wrapped: Any, args: Any) -> Any:
        made = getattr(getattr(self._tool, "_async_fn", None), "__code__", None)
        if made is not None and made.co_name == "_async_wrapped_fn" and self.is_async:
            if "copy_context" not in made.co_names:  # 0.14.8: its thread does not have our context
                tool = copy.copy(self._tool)
                tool._async_fn = functools.partial(asyncio.to_thread, tool.real_fn)
                wrapped = functools.partial(wrapped.__func__, tool)
        return super().call(wrapped, args)

    def denied(self, reason: str) -> Any:
        return self._output(reason, is_error=True)

    def value(self, raw: Any) -> Any:
        if not kit.is_a(raw, f"{_TYPES}:ToolOutput"):
            return raw
        is_mcp = self.tool_type == "extension" and contents.is_result(raw.raw_output)
        return contents.value_of(raw.raw_output) if is_mcp else raw.content

    def with_value(self, raw: Any, value: Any) -> Any:
        return self._output(self.text_of(value))

    def error(self, raw: Any) -> Any:
        if not kit.is_a(raw, f"{_TYPES}:ToolOutput"):
            return None
        if raw.is_error:
            return raw.exception or raw.content
        return contents.error_of(raw.raw_output) if self.tool_type == "extension" else None

    def recovered(self, value: Any) -> Any:
        return self._output(self.text_of(value))

    def asks_framework(self, reason: str) -> Any:
        return runs.asking(self.id or "", reason) if self.option("approvals") == "native" else None

    def _output(self, text: str, **more: Any) -> Any:
        output = kit.native(f"{_TYPES}:ToolOutput")
        return output(self.name, text, raw_input=self.args, raw_output=text, **more)


def _place_of(tool: Any) -> Any:
    """Return where the server of a tool is; a session of the application's own tells nothing."""
    client = inspect.getclosurevars(tool.real_fn).nonlocals["self"].client
    found = str(getattr(client, "command_or_url", ""))
    place = {"url": found, "command": ""} if "://" in found else {"url": "", "command": found}
    further = {name: getattr(client, name, None) for name in ("args", "env")}
    return SimpleNamespace(**place, **further)


def _message(role: str) -> Any:
    return lambda text: _llms.ChatMessage(text, role=role)


class Chat(kit.ModelCall):
    """A call of a model with messages. One that calls on, to itself or another, is one call."""

    table = kit.PartTable(
        kind="block_type",
        text=("text",),
        call=("tool_call",),
        fields=("text", "tool_name", "tool_call_id", "tool_kwargs"),
        made={
            "text": "llama_index.core.base.llms.types:TextBlock",
            "call": "llama_index.core.base.llms.types:ToolCallBlock",
        },
        messages={role or "": _message(role or "user") for role in ("system", "assistant", "")},
    )
    tokens: ClassVar = {
        "input_tokens": "prompt_tokens",
        "output_tokens": "completion_tokens",
        "cache_read_input_tokens": "prompt_tokens_details.cached_tokens",
    }

    def read(self, llm: Any, /, messages: Any, **given: Any) -> Any:
        if self.is_inner():
            return kit.SKIP
        self.given, self.messages = given, list(messages)
        self._own = list(given.get("tools") or ())
        self.tools = list(self._own)
        self.model, self.provider = str(llm.metadata.model_name), _provider(llm)
        self.settings = _settings(llm, given)
        self.agent = runs.at_work()
        if self.agent:  # whose calls all pass a seat
            offered = map(self.offered, self.tools)
            self.runs_here = [one.name for one in offered if one is not None]
        return None

    def call(self, wrapped: Any) -> Any:
        if self.tools != self._own:
            self.given["tools"] = self.tools
        return wrapped(self.natives(), **self.given)

    def parts(self, message: Any) -> Iterable[kit.Part]:
        message = getattr(message, "message", message)
        if message.role == "tool":
            id_ = str(message.additional_kwargs.get("tool_call_id") or "")
            yield kit.Part("result", message, message.content or "", id=id_)
            return
        yield from map(self.table.read, message.blocks)

    def role(self, part: kit.Part, message: Any) -> str:
        return str(getattr(message, "message", message).role.value)

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        if of is None:
            message = _llms.ChatMessage(role="assistant", blocks=parts)
            return _llms.ChatResponse(message=message, delta=message.content)
        extra = of.message.additional_kwargs
        if not any(part.block_type == "tool_call" for part in parts):
            extra = {name: value for name, value in extra.items() if name != "tool_calls"}
        changed = {"blocks": parts, "additional_kwargs": extra}
        message = of.message.model_copy(update=changed)
        told = {
            "message": message,
            "delta": message.content,
            "raw": _usage(of) or None,
            "logprobs": None,
        }
        return of.model_copy(update=told)

    def about(self, raw: Any) -> tuple[Any, ...]:
        source = _usage(raw)
        usage = source.get("usage") or raw.additional_kwargs
        return usage, None, None, str(source.get("model") or "")

    def offered(self, definition: Any) -> Any:
        meta = getattr(definition, "metadata", None)
        return super().offered(definition if meta is None else {"name": meta.get_name()})


class Streamed(Chat):
    """The same with a stream, whose items hold the text so far."""

    def whole(self, seen: Any) -> Any:
        return seen[-1] if seen else self.answer([])

    def told(self, result: Any) -> list[Any]:
        return [result.model_copy(update={"delta": result.message.content or ""})]


class Completion(kit.ModelCall):
    """A call of a model with a prompt, which is one message of the user."""

    table = kit.PartTable(made={"text": lambda part: part.text})

    def read(self, llm: Any, /, prompt: Any, formatted: bool = False, **given: Any) -> Any:
        if self.is_inner():
            return kit.SKIP
        self.given, self.formatted = given, formatted
        self.operation = "text_completion"
        self.messages = [{"role": "user", "content": prompt}]
        self.model, self.provider = str(llm.metadata.model_name), _provider(llm)
        self.settings = _settings(llm, given)
        self.agent = runs.at_work()
        return None

    def call(self, wrapped: Any) -> Any:
        prompt = "\n".join(str(one.get("content", "")) for one in self.messages)
        return wrapped(prompt, formatted=self.formatted, **self.given)

    def parts(self, message: Any) -> Iterable[kit.Part]:
        yield kit.Part("text", message, message.text)

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        texts = [part if isinstance(part, str) else part.text for part in parts]
        made = {"text": "\n".join(texts)}
        told = {"delta": made["text"], "raw": (of and _usage(of)) or None, "logprobs": None, **made}
        return of.model_copy(update=told) if of else _llms.CompletionResponse(**made)


class StreamedCompletion(Completion):
    """The same with a stream."""

    def whole(self, seen: Any) -> Any:
        return seen[-1] if seen else self.answer([])

    def told(self, result: Any) -> list[Any]:
        return [result.model_copy(update={"delta": result.text})]


def _usage(answer: Any) -> dict[str, Any]:
    """Return what the provider's own form of an answer says besides the answer."""
    raw = answer.raw
    source = raw if isinstance(raw, Mapping) else getattr(raw, "__dict__", {})
    return {name: source[name] for name in ("usage", "model") if name in source}


def _settings(llm: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return what a request is made with; models of most providers keep it as fields."""
    return {**vars(llm), **given}


def _provider(llm: Any) -> str:
    """Return the last name of the package that a model's class is from, such as ``openai``."""
    names = type(llm).__module__.split(".")
    return names[2] if names[:2] == ["llama_index", "llms"] else names[0]
