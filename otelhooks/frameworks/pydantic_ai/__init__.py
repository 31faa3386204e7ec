# pyright: basic
"""Pydantic AI (``pydantic-ai-slim``), 1.99 and newer.

Seats and what passes through them:

- ``ToolManager._raw_execute``: every tool call of an agent, after everything that may still change
  it: run, run_sync, streams, iter, parallel calls, MCP and other toolsets, calls that a tool
  dispatches itself, realtime sessions. It is private, and the only function that all of them pass.
- ``ToolManager.resolve_deferred_tool_calls``: calls that wait for a person, or that the application
  makes itself.
- ``FunctionToolset.call_tool``: tools that user code calls.
- ``MCPToolset.call_tool_for_app``: tools that the page of an MCP app calls.
- ``AgentRealtime.session``: realtime sessions.
- ``Agent.iter``: runs; all ways to run an agent end here. A capability is added to each, innermost
  of all, so that what it sees is final: the result, functions that make the output, and model
  calls, for which it gives each model of the run a stand-in.

The model learns of a denied call as if a person had denied it, and no retry is used up; of a denied
output function by a retry. A refused run answers with the reason, without its model; if its answer
has a type of the user's own, it raises `otelhooks.errors.Denied`.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.mcp.results import ResultCall
from otelhooks.frameworks.kit.objects import overrides

__all__ = ["ADAPTER"]

_TOOLSETS = "pydantic_ai.toolsets"
_errors, _messages = kit.module("pydantic_ai.exceptions"), kit.module("pydantic_ai.messages")
_tools, _capabilities = map(kit.module, ("pydantic_ai.tools", "pydantic_ai.capabilities.abstract"))
_MCP = kit.module("pydantic_ai.mcp").paths("MCPToolset", "MCPServer")
_REQUESTS = "DeferredToolRequests"
_DEFERRED = (*_tools.paths(_REQUESTS), f"pydantic_ai._deferred:{_REQUESTS}")


class Tool(kit.ToolCall):
    """What all seats of tools share."""

    pauses = _errors.paths("CallDeferred", "ApprovalRequired", "SkipToolExecution")
    told_to_model = _errors.paths("ModelRetry", "ToolRetryError", "ToolFailed", "ToolFailedError")

    def of(self, context: Any, name: str, args: Any, tool: Any = None, id: Any = None) -> None:
        self.name, self.id = name, id
        self.agent = getattr(getattr(context, "agent", None), "name", None) or ""
        self.conversation = getattr(context, "conversation_id", None) or ""
        self.take(args)
        if tool is not None:
            self.description = tool.tool_def.description
            self.validate = tool.args_validator.validate_python

    def value(self, raw: Any) -> Any:
        if not kit.is_a(raw, "pydantic_ai.messages:ToolReturn"):
            return raw
        content = raw.content if isinstance(raw.content, (list, tuple)) else [raw.content]
        texts = (getattr(each, "content", each) for each in content)
        said = [each for each in texts if isinstance(each, str)]
        return "\n".join(map(self.text_of, (raw.return_value, *said))) if said else raw.return_value

    def failed(self, error: BaseException, message: str) -> Any:
        if kit.is_a(error, *self.told_to_model):
            return self.raised(_errors.ModelRetry(message))
        return super().failed(error, message)

    def denied(self, reason: str) -> Any:
        return reason  # as the tool's result


def locate(call: Tool, toolset: Any, tool: Any) -> None:
    """Follow the framework's way from the outermost toolset to the one that runs the tool."""
    name, names = call.name, []
    while True:
        if kit.is_a(toolset, f"{_TOOLSETS}.combined:CombinedToolset"):
            toolset = getattr(tool, "source_toolset", None)
            tool = getattr(tool, "source_tool", None)
        elif kit.is_a(toolset, f"{_TOOLSETS}._dynamic:DynamicToolset"):
            toolset = toolset._toolset
        elif hasattr(toolset, "wrapped"):
            if kit.is_a(toolset, f"{_TOOLSETS}.prefixed:PrefixedToolset"):
                name = name.removeprefix(f"{toolset.prefix}_")
            elif kit.is_a(toolset, f"{_TOOLSETS}.renamed:RenamedToolset"):
                name = toolset.name_map.get(name, name)
            toolset = toolset.wrapped
            names.append(name)
        else:
            break
    if kit.is_a(toolset, *_MCP, f"{_TOOLSETS}.fastmcp:FastMCPToolset"):
        prefix = getattr(toolset, "tool_prefix", None)
        is_of(call, name.removeprefix(f"{prefix}_") if prefix else name, toolset)
    call.is_also(*names)
    if kit.is_a(toolset, f"{_TOOLSETS}.function:FunctionToolset"):
        is_of_function(call, toolset, tool)
        call.goes_to(DirectCall.group, name)


def is_of_function(call: Tool, toolset: Any, tool: Any) -> None:
    """Add the name under which a toolset keeps a tool that its own `prepare` has renamed."""
    runs = getattr(tool, "call_func", None)
    call.is_also(*(own for own, each in toolset.tools.items() if each.function_schema.call == runs))


def is_of(call: kit.ToolCall, name: str, toolset: Any) -> None:
    """Set a call's server; a name that is made from its address is not the application's."""
    id = getattr(toolset, "_explicit_id" if hasattr(toolset, "_explicit_id") else "id", None)
    client = getattr(toolset, "client", None)  # older toolsets connect themselves
    call.is_of_server(name, id, getattr(client, "transport", toolset))


class ManagedCall(Tool):
    """A call that an agent, or a tool that dispatches calls, makes through its `ToolManager`."""

    def read(self, manager: Any, validated: Any, **rest: Any) -> Any:
        if validated.tool is None or validated.tool.tool_def.kind == "output":
            return kit.SKIP
        asked, self.given = validated.call, (validated, rest)
        id, self.is_approved = asked.tool_call_id, validated.ctx.tool_call_approved or None
        run = kit.Run.here()
        self.can_pause = getattr(run, "can_pause", False) and manager.root_capability is not None
        self.of(validated.ctx, asked.tool_name, validated.validated_args, validated.tool, id)
        self.raw = asked.args if isinstance(asked.args, str) else None
        locate(self, manager.toolset, validated.tool)

    def call(self, wrapped: Any, args: Any) -> Any:
        validated, rest = self.given
        return wrapped(dataclasses.replace(validated, validated_args=args), **rest)

    def asks_framework(self, reason: str) -> Any:
        if not self.can_pause or self.option("approvals") == "in_place":
            return None
        shown = {"tool": self.name, "reason": reason}
        return _errors.ApprovalRequired(metadata={"otelhooks": shown})

    puts_off = asks_framework

    def denied(self, reason: str) -> Any:
        return _tools.ToolDenied(reason)


class DeferredCall(ManagedCall):
    """A call for which the framework is about to ask a person."""

    def read(self, manager: Any, part: Any) -> None:
        self.part, self.can_pause = part, False
        tool = (manager.tools or {}).get(part.tool_name)
        self.of(manager.ctx, part.tool_name, part.args_as_dict(), tool, part.tool_call_id)
        if tool is not None:
            locate(self, manager.toolset, tool)


class ExternalCall(DeferredCall):
    """A call that the application will make, after the run."""

    denied = Tool.denied

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(dataclasses.replace(self.part, args=args) if self.version else self.part)


async def resolved(wrapped: Any, manager: Any, requests: Any) -> Any:
    """Judge a call that is to wait for a person or the application, before either sees it."""
    answers = _tools.DeferredToolResults()
    for part in requests.approvals:
        if (denied := await DeferredCall.denied_early(manager, part)) is not None:
            answers.approvals[part.tool_call_id] = denied
    for index, part in enumerate(requests.calls):
        tool = (manager.tools or {}).get(part.tool_name)
        if tool is None or tool.tool_def.kind != "external":
            continue  # its tool has run, and put it off

        async def put_off(approved: Any, index: int = index) -> Any:
            requests.calls[index] = approved
            raise _errors.CallDeferred

        with contextlib.suppress(_errors.CallDeferred):
            denied = await ExternalCall.through("coroutine", put_off, manager, part)
            answers.calls[part.tool_call_id] = denied
    rest = requests.remaining(answers)
    if rest is not None and (given := await wrapped(rest)) is not None:
        answers.update(given)
    return answers if answers.approvals or answers.calls else None


class EarlierCall(ManagedCall):
    """The same in releases that show a model a `ToolDenied` in JSON."""

    denied = Tool.denied


class DirectCall(Tool):
    """A call that user code makes of a toolset; an agent's has a permit."""

    group = "pydantic_ai.toolset"

    def read(self, toolset: Any, name: str, tool_args: Any, ctx: Any, tool: Any) -> None:
        self.given = (name, ctx, tool)
        self.of(ctx, name, tool_args, tool, getattr(ctx, "tool_call_id", None))
        is_of_function(self, toolset, tool)
        if overrides.Method(toolset, "call_tool").calls_on(self.function):
            self.goes_to(self.group, name)

    def call(self, wrapped: Any, args: Any) -> Any:
        name, ctx, tool = self.given
        return wrapped(name, args, ctx, tool)


class AppCall(ResultCall):
    """A call that the page of an MCP app makes; results are in the wire's form."""

    def read(self, toolset: Any, name: str, arguments: Any = None) -> None:
        self.name = name
        self.take(arguments or {})
        is_of(self, name, toolset)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(self.name, args)


class OutputCall(Tool):
    """A call of a function that makes a run's output from what the model returned."""

    def read(self, context: Any, about: Any, output: Any) -> None:
        asked = about.tool_call
        tool, id = (asked.tool_name, asked.tool_call_id) if asked is not None else ("", None)
        self.of(context, getattr(about, "function_name", None) or tool or "output", {}, id=id)
        self.canonical = (tool,) if tool not in ("", self.name) else ()
        names = [*asked.args_as_dict()] if asked is not None else ["output"]
        # a function's only argument comes without its name, which rules need
        self.text_name = names[0] if len(names) == 1 else ""
        fields = output if isinstance(output, dict) else dir(output)
        self.is_alone = self.text_name != "" and self.text_name not in fields
        self.take_all({self.text_name: output} if self.is_alone else output)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(args[self.text_name] if self.is_alone else args)

    def denied(self, reason: str) -> Any:
        raise _errors.ModelRetry(reason)


def _answer(text: str) -> Any:
    return _messages.ModelResponse(parts=[_messages.TextPart(content=text)])


def _message(kind: str) -> Any:
    return lambda text: _messages.ModelRequest(parts=[getattr(_messages, kind)(content=text)])


class ModelCall(kit.ModelCall):
    """One request to a model, whose answer may be streamed."""

    table = kit.PartTable(
        kind="part_kind",
        text=("text",),
        call=("tool-call",),
        result=("tool-return", "retry-prompt"),
        made={"text": "pydantic_ai.messages:TextPart", "call": "pydantic_ai.messages:ToolCallPart"},
        roles={"system-prompt": "system", "user-prompt": "user"},
        messages={
            "system": _message("SystemPromptPart"),
            "assistant": _answer,
            "": _message("UserPromptPart"),
        },
        fields=("content", "tool_name", "tool_call_id", "args"),
    )
    tokens: ClassVar = {
        "cache_read_input_tokens": "cache_read_tokens",
        "cache_write_input_tokens": "cache_write_tokens",
        "reasoning_output_tokens": "details.reasoning_tokens",
    }
    items = "_get_event_iterator"

    def read(self, owner: Any, messages: Any, settings: Any, offers: Any, *further: Any) -> None:
        model, self.guard = owner.wrapped, owner._self_of
        self.given = (settings, offers, *further)
        self.model, self.provider = model.model_name, model.system
        self.messages, self.tools = list(messages), list(offers.function_tools)
        self.settings = dict(settings or {})
        self.agent, self.is_typed = self.guard.run.agent, not offers.allow_text_output
        self.runs_here = [one.name for one in self.tools if one.kind in ("function", "unapproved")]
        if self.stream:
            self.guard.run.can_go_on = False  # its consumer will already have seen the end

    def call(self, wrapped: Any) -> Any:
        settings, offers, *further = self.given
        if self.is_rewritten:
            offers = dataclasses.replace(offers, function_tools=self.tools)
        return wrapped(self.natives(), settings, offers, *further)

    def offered(self, definition: Any) -> Any:
        call, manager = Tool(), getattr(self.guard.context, "tool_manager", None)
        call.name = definition.name
        if manager is not None and definition.name in (manager.tools or {}):
            locate(call, manager.toolset, manager.tools[definition.name])
        return call

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        return dataclasses.replace(of or _answer(""), parts=parts)

    def about(self, raw: Any) -> tuple[Any, ...]:
        return raw.usage, raw.finish_reason, raw.provider_response_id, raw.model_name

    def whole(self, seen: Any) -> Any:
        return seen.get()

    def told(self, result: Any) -> Any:
        return _replayed(response=result, model_request_parameters=self.given[1])

    def late(self, result: Any) -> None:
        self.guard.rewritten = result


@kit.subclass("pydantic_ai.models(|.wrapper):CompletedStreamedResponse")
def _replayed(base: Any) -> Any:
    class Replayed(base):
        async def _get_event_iterator(self) -> Any:
            for index, part in enumerate(self.response.parts):
                yield self._parts_manager.handle_part(vendor_part_id=index, part=part)

    return Replayed


_stand_in = ModelCall.stand_in(
    "pydantic_ai.models.wrapper:WrapperModel",
    "wrapped",
    request=(ModelCall, "coroutine"),
    request_stream=(ModelCall, "async context"),
)


class AgentRun(kit.Run):
    """One run of an agent."""

    can_go_on = True

    def read(self, agent: Any, /, user_prompt: Any = None, **options: Any) -> None:
        self.options = options
        opened = getattr(options.get("conversation"), "messages", ())
        history = options.get("message_history") or opened
        last = history[-1].parts[-1] if history and history[-1].parts else None
        is_last = user_prompt is None and options.get("deferred_tool_results") is None
        self.last = last if is_last and getattr(last, "part_kind", "") == "user-prompt" else None
        self.agent = agent.name or "agent"
        self.prompt = user_prompt if self.last is None else self.last.content
        self.is_resumed = self.prompt is None
        given = options.get("conversation_id")
        if given != "new":
            past = (getattr(one, "conversation_id", None) for one in reversed(history))
            self.belongs_to(given, past)
        wanted = options.get("output_type") or agent.output_type
        types = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        self.is_typed = str not in types
        self.can_pause = any(getattr(each, "__name__", "") == _REQUESTS for each in types)

    def call(self, wrapped: Any) -> Any:
        options = dict(self.options)
        if self.last is not None and self.is_rewritten:
            *past, last = options["message_history"]
            parts = [*last.parts[:-1], dataclasses.replace(self.last, content=self.prompt)]
            options["message_history"] = [*past, dataclasses.replace(last, parts=parts)]
        prompt = None if self.last is not None or self.is_resumed else self.prompt
        return wrapped(prompt, **self.guarded(options))

    def guarded(self, options: Mapping[str, Any], *, inner: bool = False) -> dict[str, Any]:
        guard = _guard()
        guard.run, guard.inner = self, inner
        return {**options, "capabilities": [*(options.get("capabilities") or ()), guard]}

    async def again(self, raw: Any, reason: str) -> Any:
        past = ("conversation", "conversation_id", "message_history", "deferred_tool_results")
        options = {name: one for name, one in self.options.items() if name not in past}
        options["message_history"] = raw.all_messages()
        async with self.function(reason, **self.guarded(options, inner=True)) as opened:
            async for _ in opened:
                pass
        return opened.result

    def answer_of(self, raw: Any) -> Any:
        return raw.output

    def with_answer(self, raw: Any, answer: Any) -> Any:
        changed, history = copy.copy(raw), raw.all_messages()  # the list that the run keeps
        changed.output = answer
        last = max(index for index, one in enumerate(history) if one.kind == "response")
        asked = [part for part in history[last].parts if part.part_kind == "tool-call"]
        parts = [dataclasses.replace(part, args={}) for part in asked]
        said = parts or [_messages.TextPart(content=str(answer))]
        history[last] = dataclasses.replace(history[last], parts=said)
        return changed

    def is_paused(self, raw: Any) -> bool:
        return kit.is_a(raw.output, *_DEFERRED)

    def answered_itself(self, raw: Any) -> Iterable[str]:
        for message in raw.all_messages():
            for part in message.parts:
                says = str(getattr(part, "content", ""))
                left_out = says.startswith(("Tool not executed", "Output tool"))
                failed = getattr(part, "outcome", "success") != "success"
                if part.part_kind == "retry-prompt" or left_out or failed:
                    yield getattr(part, "tool_call_id", "")


class Session(kit.Run):
    """One realtime session: a run without a message of its own."""

    def read(self, realtime: Any, /, **options: Any) -> None:
        self.options, self.source, self.prompt, self.is_typed = options, "trigger", "", True
        self.agent = getattr(getattr(realtime, "agent", None), "name", None) or "agent"

    def call(self, wrapped: Any) -> Any:
        return wrapped(**self.options)

    def answer_of(self, raw: Any) -> Any:
        return None


@kit.subclass("pydantic_ai.capabilities.abstract:AbstractCapability")
def _guard(base: Any) -> Any:
    class Guard(base):
        _safe_at_runtime = True

        run: AgentRun
        inner: bool
        context: Any = None
        rewritten: Any = None

        def get_ordering(self) -> Any:
            return _capabilities.CapabilityOrdering(position="innermost")

        async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
            self.run.is_known_as(ctx.conversation_id)
            return await (handler() if self.inner else self.run.around(handler))

        def get_wrapper_model(self, model: Any) -> Any:
            return _stand_in(model, self)

        async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
            self.context = ctx
            if self.run.canned is not None:
                return _answer(self.run.canned)
            if not hasattr(base, "get_wrapper_model"):
                model = _stand_in(request_context.model, self)
                request_context = dataclasses.replace(request_context, model=model)
            response, rewritten = await handler(request_context), self.rewritten
            self.rewritten = None
            return response if rewritten is None else rewritten

        async def wrap_output_process(
            self, ctx: Any, *, output_context: Any, output: Any, handler: Any
        ) -> Any:
            if not output_context.has_function:
                return await handler(output)
            return await OutputCall.through("coroutine", handler, ctx, output_context, output)

    return Guard


_MANAGED = "pydantic_ai.tool_manager:ToolManager._raw_execute"
_REALTIME = "pydantic_ai.agent.abstract:AgentRealtime.session"

ADAPTER = kit.Adapter(
    "pydantic_ai",
    kit.Package(("pydantic-ai-slim", "pydantic-ai"), ">=1.99,<3", module="pydantic_ai"),
    seats=(
        kit.seat(f"{_TOOLSETS}.function:FunctionToolset.call_tool", DirectCall, overrides=True),
        kit.seat("pydantic_ai.mcp:MCPToolset.call_tool_for_app", AppCall, required=False),
        kit.seat(_MANAGED, EarlierCall, until="2.32"),
        kit.seat(_MANAGED, ManagedCall, since="2.32"),
        kit.listen("pydantic_ai.tool_manager:ToolManager.resolve_deferred_tool_calls", resolved),
        kit.seat(_REALTIME, Session, required=False, entry=True),
        kit.seat("pydantic_ai.agent:Agent.iter", AgentRun, entry=True),
    ),
    not_covered={
        "native tools of the provider": "they run at the provider",
        "the function under `@agent.tool`": "the decorator returns it unchanged",
        "`pydantic_ai.direct`, embeddings and batches": (
            "a model call is seen where an agent's run makes it"
        ),
    },
    options={"approvals": ("native", "in_place")},
    in_part={
        "agent.stop": "a streamed run is not sent on: its consumer has its end already",
        "turn.*, completion.*": "a realtime session is one run, and its model calls are not seen",
    },
)
