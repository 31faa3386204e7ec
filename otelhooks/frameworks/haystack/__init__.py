# pyright: basic
"""Haystack (``haystack-ai``), 3.0 and newer.

Seats: ``Tool.invoke`` and ``invoke_async``, for every tool call; ``Agent.run`` and ``run_async``;
steps of agents and components of pipelines: chat generators have no class in common. A denied call
is a tool's error to the model, even where errors end a run. A refused run answers with the reason.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import callbacks
from otelhooks.frameworks.kit.objects import outer, overrides

__all__ = ["ADAPTER"]

_AGENT = "haystack.components.agents.agent:Agent"
_PIPELINE = "haystack.core.pipeline.pipeline:Pipeline"
_CALLING = "haystack.components.agents.tool_calling"
_ERROR = "haystack.tools.errors:ToolInvocationError"
_STATE = "haystack.components.agents.state.state:State"
_messages = kit.module("haystack.dataclasses.chat_message")


def _message(role: str) -> Any:
    return lambda text: getattr(_messages.ChatMessage, f"from_{role}")(text)


def _result(text: str, past: Iterable[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run returns, with a text as its answer."""
    reply = _message("assistant")(text)
    counts: Any = {"step_count": 0, "token_usage": {}, "tool_call_counts": {}}
    made = {"messages": [*past, reply], "last_message": reply}
    return {**counts, "exit_reason": "text", **given, **made}


def _answer_of(result: Any) -> str:
    last = result["last_message"]
    return last.text or "" if last.tool_call_result is None else str(last.tool_call_result.result)


def _chunk(text: str) -> Any:
    make = kit.native("haystack.dataclasses.streaming_chunk:StreamingChunk")
    return make(content=text, index=0, start=True, finish_reason="stop")


def note_call(wrapped: Any, _: Any, *args: Any, **named: Any) -> Any:
    """Note the id of the call that is prepared."""
    given = inspect.signature(wrapped).bind(*args, **named).arguments
    return outer.noted(given["tool"], given["tool_call"].id, wrapped, *args, **named)


def tell_denial(wrapped: Any, _: Any, result: Any, *args: Any, raise_on_failure: bool) -> Any:
    """Show the model a denial, even if a tool's failure is set to end the run."""
    ends = raise_on_failure and not hasattr(result, "is_denial")
    return wrapped(result, *args, raise_on_failure=ends)


@kit.subclass(_ERROR)
def _denial(base: Any) -> Any:
    return type("Denial", (base,), {"is_denial": True})


class Tool(kit.ToolCall):
    """A call of ``Tool.invoke`` or ``Tool.invoke_async``, which may hand on to ``invoke``."""

    group = "haystack.tool"

    def read(self, tool: Any, /, **given: Any) -> None:
        self.of(tool)
        self.id = outer.id_for(tool)
        self.take(given, [name for name, v in given.items() if kit.is_a(v, _STATE) or callable(v)])
        method = overrides.Method(tool, "invoke_async" if self.is_async else "invoke")
        names = getattr(getattr(self.function, "__code__", None), "co_names", ())
        is_plain = self.is_async and tool.async_function is None
        if method.calls_on(self.function) or (is_plain and "invoke" in names):
            self.goes_to(self.group, self.name)  # 3.0 calls the function itself

    def of(self, tool: Any) -> None:
        self.name, self.description = tool.name, tool.description
        self.starts = getattr(tool, "_component", None)
        self.is_agent = kit.is_a(self.starts, _AGENT)
        if self.is_agent:
            self.canonical = ("invoke_subagent",)
        info, function = getattr(tool, "_server_info", None), tool.function
        if getattr(function, "__qualname__", "").startswith("MCPToolset."):
            info = inspect.getclosurevars(function).nonlocals["owner_toolset"].server_info
        if info is not None:
            self.is_of_server(tool.name, self.server_at(info))

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(**args)

    def denied(self, reason: str) -> Any:
        raise _denial(reason, tool_name=self.name)

    def failed(self, error: BaseException, message: str) -> Any:
        return self.raised(kit.native(_ERROR)(message, tool_name=self.name))

    def value(self, raw: Any) -> Any:
        return _answer_of(raw) if self.is_agent else raw

    def with_value(self, raw: Any, value: Any) -> Any:
        return _result(str(value), raw["messages"][:-1], raw) if self.is_agent else value

    def recovered(self, value: Any) -> Any:
        return _result(str(value), (), {}) if self.is_agent else value

    @staticmethod
    def error_type(error: BaseException) -> str:
        return kit.ToolCall.error_type((kit.is_a(error, _ERROR) and error.__cause__) or error)


class Model(callbacks.ModelCall):
    """A call of a chat generator's ``run`` or ``run_async``."""

    table = kit.PartTable(
        kind="__class__",
        text=("TextContent",),
        call=("ToolCall",),
        result=("ToolCallResult",),
        fields=("text", "tool_name", "id", "arguments"),
        made={
            "text": "haystack.dataclasses.chat_message:TextContent",
            "call": "haystack.dataclasses.chat_message:ToolCall",
        },
        messages={role or "": _message(role or "user") for role in ("system", "assistant", "")},
    )
    tokens: ClassVar = {
        "input_tokens": "prompt_tokens",
        "output_tokens": "completion_tokens",
        "cache_read_input_tokens": "prompt_tokens_details.cached_tokens",
    }

    def read(self, generator: Any, /, messages: Any, **given: Any) -> None:
        flat = kit.native("haystack.tools:flatten_tools_or_toolsets")(given.get("tools"))
        self.given, self.messages, self.own, self.tools = given, list(messages), flat, list(flat)
        self.runs_here = [tool.name for tool in self.tools]
        self.model = str(getattr(generator, "model", None) or "")
        _, _, place = generator.__class__.__module__.partition(".generators.")
        self.provider = place.removeprefix("chat.").partition(".")[0].removesuffix("_responses")
        self.settings = given.get("generation_kwargs") or {}
        own = getattr(generator, "streaming_callback", None)
        self.callback = given.get("streaming_callback") or own
        self.stream = self.callback is not None

    def call(self, wrapped: Any) -> Any:
        if self.tools != self.own:
            self.given["tools"] = self.tools
        if self.stream:
            self.given["streaming_callback"] = self.heard()
        return wrapped(messages=self.natives(), **self.given)

    def told(self, result: Any) -> Any:
        return [_chunk("".join(reply.text or "" for reply in result["replies"]))]

    def parts(self, message: Any) -> Iterable[kit.Part]:
        for one in message["replies"] if isinstance(message, dict) else [message]:
            for native in one._content:
                part = self.table.read(native)
                if part.kind == "result":
                    part = part._replace(text=str(native.result), id=native.origin.id or "")
                elif part.kind == "other":
                    part = part._replace(args={"type": type(native).__name__, **native.to_dict()})
                yield part

    def role(self, part: kit.Part, message: Any) -> str:
        return message.role.value

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        reply = of["replies"][-1] if of and of["replies"] else _message("assistant")("")
        return {**(of or {}), "replies": [dataclasses.replace(reply, _content=parts)]}

    def offered(self, definition: Any) -> Any:
        call = Tool()
        call.of(definition)
        return call

    def about(self, raw: Any) -> tuple[Any, ...]:
        meta = raw["replies"][-1].meta if raw.get("replies") else {}
        return meta.get("usage"), meta.get("finish_reason"), None, str(meta.get("model") or "")


_model = Model.stand_in(run=(Model, "plain"), run_async=(Model, "coroutine"))
_agent = Model.stand_in(chat_generator=_model)


def guard_step(wrapped: Any, agent: Any, *args: Any, **named: Any) -> Any:
    """Run a step of an agent whose chat generator is guarded."""
    return wrapped.__func__(_agent(agent, None), *args, **named)


def guard_component(wrapped: Any, _: Any, component_name: Any, component: Any, *args: Any, **named):
    """Run a component of a pipeline, guarded if it is a chat generator."""
    instance = component["instance"]
    if "replies" in instance.__haystack_output__._sockets_dict:
        if "messages" in instance.__haystack_input__._sockets_dict:
            component = {**component, "instance": _model(instance, None)}
    return wrapped(component_name, component, *args, **named)


class Run(callbacks.Run):
    """A call of ``Agent.run`` or ``Agent.run_async``."""

    def read(self, agent: Any, /, messages: Any, streaming_callback: Any = None, **options: Any):
        self.owner, self.messages, self.options = agent, list(messages or ()), options
        self.callback = streaming_callback or agent.streaming_callback
        outer = kit.ToolCall.current()
        is_tool = getattr(outer, "starts", None) is agent
        name = outer.name if is_tool else getattr(agent, "__component_name__", None)
        self.agent = name or "agent"
        users = [at for at, one in enumerate(self.messages) if one.role.value == "user"]
        self.at = users[-1] if users else len(self.messages)
        self.last: Any = self.messages[self.at : self.at + 1]
        self.prompt = "".join(one.text or "" for one in self.last)

    def call(self, wrapped: Any) -> Any:
        if self.is_rewritten:
            new = _message("user")(str(self.prompt))
            kept = [part for one in self.last for part in one._content if not hasattr(part, "text")]
            new = dataclasses.replace((self.last or [new])[0], _content=[*new._content, *kept])
            self.messages[self.at : self.at + 1] = [new]
        return wrapped(self.messages, self.callback, **self.options)

    def denied(self, reason: str) -> Any:
        given = self.owner.state_schema.keys() & self.options.keys()
        return _result(reason, self.messages, {name: self.options[name] for name in given})

    def told(self, result: Any) -> Any:
        return [_chunk(_answer_of(result))]

    def continued(self, raw: Any, reason: str) -> Any:
        if self.owner.user_prompt is not None:
            return None
        past, further = raw["messages"], Run()
        if self.owner.system_prompt is not None:
            past = past[1:]  # the agent puts it there again
        names = (self.owner.state_schema.keys() & raw.keys()) - {"messages"}
        state = {name: raw[name] for name in names}
        messages = [*past, _message("user")(reason)]
        further.read(self.owner, messages, self.callback, **{**self.options, **state})
        further.session = self.session
        return further

    def answer_of(self, raw: Any) -> Any:
        return _answer_of(raw)

    def with_answer(self, raw: Any, answer: Any) -> Any:
        return _result(str(answer), raw["messages"][:-1], raw)

    def answered_itself(self, raw: Any) -> Iterable[str]:
        results = [result for one in raw["messages"] for result in one.tool_call_results]
        return {result.origin.id for result in results if result.error}


ADAPTER = kit.Adapter(
    "haystack",
    kit.Package("haystack-ai", ">=3.0,<4", module="haystack"),
    seats=(
        kit.seat("haystack.tools.tool:Tool.invoke(|_async)", Tool, overrides=True),
        kit.listen(f"{_CALLING}:_make_(context_bound_invoke|bounded_invoke_async)", note_call),
        kit.listen(f"{_CALLING}:_finalize_tool_result", tell_denial),
        kit.listen(f"{_AGENT}._run_step(|_async)", guard_step),
        kit.listen(f"{_PIPELINE}._run_component(|_async)", guard_component),
        kit.seat(f"{_AGENT}.run(|_async)", Run, entry=True),
    ),
    not_covered={
        "the function under `@tool`": "calling it is plain Python",
        "components of a pipeline that are not tools": "they are not tool calls",
        "chat generators that your code or a component runs": "no seat is there",
        "histories that a `CompactionHook` shortens": "no seat is there",
    },
    in_part={
        "agent.stop": "the run of an agent with a `user_prompt` is not sent on",
        "turn.*": "what is made of a `user_prompt` is not part of the message that hooks see",
    },
)
