# pyright: basic
"""LlamaIndex (``llama-index-core``), 0.14: tool calls, and model calls in chats.

Seats: ``__call__``, ``call`` and ``acall`` of every tool, whoever calls it; ``chat``, ``achat``,
``stream_chat``, ``astream_chat``, ``complete`` and ``acomplete`` of every model; what query engines
and retrievers call behind a tool (`engines`). A denied call is a result with an error. A run is a
workflow whose handler is awaited anywhere: no seat spans it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import contents, outer, overrides
from otelhooks.frameworks.kit.functions import ASYNC_GENERATOR, GENERATOR
from otelhooks.frameworks.kit.positional import PositionalCall
from otelhooks.frameworks.llama_index.engines import SubQuestion, route, route_retrievers

__all__ = ["ADAPTER"]

_TYPES = "llama_index.core.tools.types"
_LLMS = "llama_index.core.base.llms.types"
_MODEL = "llama_index.core.base.llms.base:BaseLLM"
_FUNCTION = "llama_index.core.tools.function_tool:FunctionTool"
_ADAPTED = f"{_TYPES}:BaseToolAsyncAdapter"
_GROUP = "llama_index.tool"
_MCP = "McpToolSpec._create_tool_fn."
_ENGINES = "llama_index.core.query_engine"
_SUB = f"{_ENGINES}.sub_question_query_engine:SubQuestionQueryEngine"
_ROUTERS, _JOINS = f"{_ENGINES}.router_query_engine", f"{_ENGINES}.sql_join_query_engine"
_RETRIEVERS = "llama_index.core.retrievers.router_retriever"


def note_call(wrapped: Any, agent: Any, ctx: Any, ev: Any) -> Any:
    """Note the id of the call that a step makes."""
    return outer.noted(ev.tool_name, ev.tool_id, wrapped, ctx, ev)


class Tool(PositionalCall):
    """A call of a tool. One of its methods calls another: ``__call__`` does ``call``."""

    group = _GROUP
    pauses = ("workflows.runtime.types.results:WaitingForEvent",)

    def read(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        if f"{type(tool).__module__}:{type(tool).__qualname__}" == _ADAPTED:
            return kit.SKIP  # it calls the tool that it adapts; a subclass may do anything
        meta = tool.metadata
        self.name, self.description = meta.get_name(), meta.description or ""
        self.id = outer.id_for(self.name)
        function = inspect.unwrap(self.function)
        named, hidden = self.function, ()
        if kit.is_a(tool, _FUNCTION):
            kwargs = {**getattr(tool, "_field_defaults", {}), **tool.partial_params, **kwargs}
            named, hidden = tool.real_fn, (tool.ctx_param_name,)
            if tool.real_fn.__qualname__.startswith(_MCP):
                self.is_of_server(self.name, self.server_at(_client_of(tool)))
        self.take_call(named, args, kwargs, [name for name in hidden if name])
        method = overrides.Method(tool, function.__name__)
        leads = function.__name__ != "call" and "call" in function.__code__.co_names
        if method.calls_on(self.function) or (leads and overrides.Method(tool, "call").is_guarded):
            self.goes_to(_GROUP, self.name)
        return None

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

    def failed(self, error: BaseException, message: str) -> Any:
        return self._output(message, is_error=True)

    def recovered(self, value: Any) -> Any:
        return self._output(self.text_of(value))

    def _output(self, text: str, **more: Any) -> Any:
        output = kit.native(f"{_TYPES}:ToolOutput")
        return output(self.name, text, raw_input=self.args, raw_output=text, **more)


def _client_of(tool: Any) -> Any:
    return inspect.getclosurevars(tool.real_fn).nonlocals["self"].client


def _block(name: str) -> Any:
    return kit.native(f"{_LLMS}:{name}")


def _message(role: str) -> Any:
    return lambda text: _block("ChatMessage")(text, role=role)


class Chat(kit.ModelCall):
    """A call of a model with messages. One that calls on, to itself or another, is one call."""

    table = kit.PartTable(
        kind="block_type",
        text=("text",),
        call=("tool_call",),
        fields=("text", "tool_name", "tool_call_id", "tool_kwargs"),
        made={
            "text": lambda part: _block("TextBlock")(text=part.text),
            "call": lambda part: _block("ToolCallBlock")(
                tool_name=part.name, tool_call_id=part.id or None, tool_kwargs=part.args
            ),
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
            message = _block("ChatMessage")(role="assistant", blocks=parts)
            return _block("ChatResponse")(message=message, delta=message.content)
        extra = of.message.additional_kwargs
        if not any(part.block_type == "tool_call" for part in parts):
            extra = {name: value for name, value in extra.items() if name != "tool_calls"}
        changed = {"blocks": parts, "additional_kwargs": extra}
        return of.model_copy(update={"message": of.message.model_copy(update=changed)})

    def about(self, raw: Any) -> Mapping[str, Any]:
        source = raw.raw if isinstance(raw.raw, Mapping) else getattr(raw.raw, "__dict__", {})
        usage = source.get("usage") or raw.additional_kwargs
        return {"usage": self.used(usage), "model": str(source.get("model") or "")}

    def offered(self, definition: Any) -> Any:
        meta = getattr(definition, "metadata", None)
        return super().offered(definition if meta is None else {"name": meta.get_name()})


class Streamed(Chat):
    """The same with a stream, whose items hold what was said until then."""

    stream = True

    def whole(self, seen: Any) -> Any:
        return seen[-1] if seen else self.answer([])

    def told(self, result: Any) -> list[Any]:
        return [result.model_copy(update={"delta": result.message.content or ""})]


class Opened(Chat):
    """A stream that a function returns."""

    def read(self, llm: Any, /, messages: Any, **given: Any) -> Any:
        if not self.is_inner():
            open_ = _aopened if self.is_async else _opened
            self.function = functools.partial(open_, self.function, llm)
        return kit.SKIP


def _opened(wrapped: Any, llm: Any, messages: Any, **given: Any) -> Any:
    def items(messages: Any, **given: Any) -> Any:
        yield from wrapped(messages, **given)

    return Streamed.through(GENERATOR, items, llm, messages, **given)


async def _aopened(wrapped: Any, llm: Any, messages: Any, **given: Any) -> Any:
    async def items(messages: Any, **given: Any) -> Any:
        async for item in await wrapped(messages, **given):
            yield item

    return Streamed.through(ASYNC_GENERATOR, items, llm, messages, **given)


class Completion(kit.ModelCall):
    """A call of a model with a prompt, which is one message of the user."""

    table = kit.PartTable(made={"text": lambda part: part.text})

    def read(self, llm: Any, /, prompt: Any, formatted: bool = False, **given: Any) -> Any:
        if self.is_inner():
            return kit.SKIP
        self.given, self.formatted, self.operation = given, formatted, "text_completion"
        self.messages = [{"role": "user", "content": prompt}]
        self.model, self.provider = str(llm.metadata.model_name), _provider(llm)
        return None

    def call(self, wrapped: Any) -> Any:
        prompt = "\n".join(str(one.get("content", "")) for one in self.messages)
        return wrapped(prompt, formatted=self.formatted, **self.given)

    def parts(self, message: Any) -> Iterable[kit.Part]:
        yield kit.Part("text", message, message.text)

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        texts = [part if isinstance(part, str) else part.text for part in parts]
        made = {"text": "\n".join(texts)}
        return of.model_copy(update=made) if of else _block("CompletionResponse")(**made)


def _provider(llm: Any) -> str:
    """Return the last name of the package that a model's class is from, such as ``openai``."""
    names = type(llm).__module__.split(".")
    return names[2] if names[:2] == ["llama_index", "llms"] else names[0]


_AGENTS = "llama_index.core.agent.workflow"

ADAPTER = kit.Adapter(
    "llama_index",
    kit.Package("llama-index-core", ">=0.14.8,<0.15", module="llama_index.core"),
    seats=(
        kit.seat(f"{_TYPES}:BaseTool.__call__", Tool, overrides=True),
        kit.seat(f"{_TYPES}:AsyncBaseTool.call", Tool, overrides=True),
        kit.seat(f"{_TYPES}:AsyncBaseTool.acall", Tool, overrides=True),
        kit.listen(f"{_AGENTS}.base_agent:BaseWorkflowAgent.call_tool", note_call),
        kit.listen(f"{_AGENTS}.multi_agent_workflow:AgentWorkflow.call_tool", note_call),
        kit.seat(f"{_SUB}._query_subq", SubQuestion),
        kit.seat(f"{_SUB}._aquery_subq", SubQuestion),
        kit.listen(f"{_ROUTERS}:RouterQueryEngine._query", route),
        kit.listen(f"{_ROUTERS}:RouterQueryEngine._aquery", route),
        kit.listen(f"{_RETRIEVERS}:RouterRetriever._retrieve", route_retrievers),
        kit.listen(f"{_RETRIEVERS}:RouterRetriever._aretrieve", route_retrievers),
        kit.seat(f"{_MODEL}.chat", Chat, overrides=True),
        kit.seat(f"{_MODEL}.achat", Chat, overrides=True),
        kit.seat(f"{_MODEL}.stream_chat", Opened, overrides=True),
        kit.seat(f"{_MODEL}.astream_chat", Opened, overrides=True),
        kit.seat(f"{_MODEL}.complete", Completion, overrides=True),
        kit.seat(f"{_MODEL}.acomplete", Completion, overrides=True),
    ),
    not_covered=(
        kit.NotCovered(
            "runs: turns, sessions, hooks on them",
            "a run is a workflow whose handler is awaited anywhere; `otelhooks.turn` around the"
            " call that runs an agent gives it them",
        ),
        kit.NotCovered(
            "a `ToolRetrieverRouterQueryEngine`",
            "it calls what is behind the tools that it finds",
            module=_ROUTERS,
            seats=tuple(
                kit.listen(f"{_ROUTERS}:ToolRetrieverRouterQueryEngine.{name}")
                for name in ("_query", "_aquery")
            ),
        ),
        kit.NotCovered(
            "a `SQLJoinQueryEngine`",
            "it calls what is behind its tools",
            module=_JOINS,
            seats=tuple(
                kit.listen(f"{_JOINS}:SQLJoinQueryEngine.{name}") for name in ("_query", "_aquery")
            ),
        ),
        kit.NotCovered("`tool.fn`, `tool.async_fn`", "calling them is plain Python"),
        kit.NotCovered(
            "functions that a `CodeActAgent`'s executor holds",
            "the tool `execute` is judged with the whole code",
        ),
        kit.NotCovered("streamed completions", "no seat is there"),
        kit.NotCovered("tools of the provider", "they run at the provider"),
    ),
)
