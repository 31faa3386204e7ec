# pyright: basic
"""What passes through Strands: tool calls, model calls, runs.

Tools and models are asynchronous generators. A tool's last item is its result: a `ToolResultEvent`,
a `ToolInterruptEvent` if it pauses, or for tools outside the SDK a plain dict.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import inspect
import itertools
import json
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import overrides, telemetry

__all__ = [
    "BUILT_IN",
    "AgentRun",
    "ClientCall",
    "FunctionCall",
    "ModelCall",
    "Tool",
    "Workflow",
    "native_span",
]

# -- tools ------------------------------------------------------------------------------------

STREAM, FUNCTION, CLIENT = "strands.tool", "strands.function", "strands.mcp"
_RESULT = "strands.types._events:ToolResultEvent", "strands.types.events:ToolResultEvent"
_AGENT_TOOLS = (
    "strands.agent._agent_as_tool:_AgentAsTool",
    "strands.vended_tools.subagent.subagent:_SubagentTool",
)
_MCP_TOOL = "strands.tools.mcp.mcp_agent_tool:MCPAgentTool"
_SHELL, _FETCH = (("run_command",), "shell"), (("read_url_content",), "net")
_VENDED = {
    "shell.shell:make_shell.<locals>.shell_tool": ("shell", *_SHELL),
    "python_repl.python_repl:make_python_repl.<locals>.python_repl_tool": (
        "python_repl",
        ("run_command", "code_execution"),
        "shell",
    ),
    "file_editor.file_editor:make_file_editor.<locals>.file_editor_tool": (
        "file_editor",
        ("create_file", "edit_file", "view_file"),
        "file_write",
        False,
        "path",
    ),
    "http_request.http_request:make_http_request.<locals>.http_request_tool": (
        "http_request",
        *_FETCH,
    ),
    **{
        f"web_fetch.web_fetch:make_web_fetch.<locals>.web_fetch_tool_{way}": ("web_fetch", *_FETCH)
        for way in ("markdown", "agentic")
    },
}
BUILT_IN = kit.BuiltIns({f"strands.vended_tools.{key}": one for key, one in _VENDED.items()}, {})
_can_pause: weakref.WeakSet[Any] = weakref.WeakSet()
"""Agents whose present run its application can resume."""


class _Call(kit.ToolCall):
    """What all seats of tools share: results are dicts with a status and content blocks."""

    pauses = ("strands.types.interrupt:InterruptException", "strands.interrupt:InterruptException")

    def dict_of(self, raw: Any) -> Any:
        """Return the framework's result; None if there is none."""
        return raw if isinstance(raw, dict) and "content" in raw else None

    def made(self, status: str, value: Any) -> Any:
        """Return a result in the form that the seat returns."""
        is_blocks = isinstance(value, list) and value and all(map(_is_block, value))
        content = value if is_blocks else [{"text": self.text_of(value)}]
        return {"toolUseId": self.id, "status": status, "content": content}

    def denied(self, reason: str) -> Any:
        return self.made("error", reason)

    def value(self, raw: Any) -> Any:
        result = self.dict_of(raw)
        if result is None:
            return None
        content = result["content"]
        if len(content) == 1 and len(content[0]) == 1:
            ((kind, value),) = content[0].items()
            if kind in ("text", "json"):
                return self.own(value)
        return self.own(content)

    def with_value(self, raw: Any, value: Any) -> Any:
        return self.made("success", value)

    def error(self, raw: Any) -> Any:
        result = self.dict_of(raw)
        if result is None or result.get("status") != "error":
            return None
        error = getattr(raw, "exception", None)
        return error if isinstance(error, Exception) else self.text_of(self.value(raw))

    def failed(self, error: BaseException, message: str) -> Any:
        return self.made("error", message)

    def recovered(self, value: Any) -> Any:
        return self.made("success", value)


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.keys() & {"text", "json", "image", "document"})


class Tool(_Call):
    """A call of a tool's body, which all executors and `agent.tool.name()` end in."""

    group = STREAM

    def read(self, tool: Any, /, tool_use: Any, invocation_state: Any, **further: Any) -> None:
        self.owner, self.given = tool, (tool_use, invocation_state, further)
        agent = invocation_state.get("agent")
        self.name, self.id = tool.tool_name, tool_use.get("toolUseId")
        self.description = tool.tool_spec.get("description")
        self.agent = getattr(agent, "name", None) or ""
        self.take(tool_use.get("input") or {})
        locate(self, tool)
        self.paused = agent if agent in _can_pause and _resumes(invocation_state) else None
        self.leads_on = self.paused is not None and kit.is_a(tool, *_AGENT_TOOLS)
        if self.paused is not None:
            known = self.paused._interrupt_state.interrupts.get(self.interrupt_id)
            response = known.response if known is not None else None
            self.is_approved = None if response is None else _approves(response)

    @functools.cached_property
    def interrupt_id(self) -> str:
        """Id of the question, by what the model asked for: calls of one message may share an id."""
        asked = json.dumps([self.name, self.args], sort_keys=True, default=str)
        return f"v1:tool_call:{self.id}:otelhooks:{hashlib.sha256(asked.encode()).hexdigest()}"

    def call(self, wrapped: Any, args: Any) -> Any:
        tool_use, invocation_state, further = self.given
        if overrides.Method(self.owner, "stream").calls_on(wrapped):
            self.expect(self.name, self.owner, args)
        return wrapped({**tool_use, "input": args}, invocation_state, **further)

    def is_result(self, item: Any) -> bool:
        return not kit.is_a(item, "strands.types._events:ToolStreamEvent")

    def whole(self, seen: Any) -> Any:
        return seen[-1] if seen else None

    def told(self, result: Any) -> Any:
        return [result]

    def dict_of(self, raw: Any) -> Any:
        return raw.tool_result if kit.is_a(raw, *_RESULT) else super().dict_of(raw)

    def made(self, status: str, value: Any) -> Any:
        return kit.native(_RESULT[0])(super().made(status, value))

    def is_paused(self, raw: Any) -> bool:
        return kit.is_a(raw, "strands.types._events:ToolInterruptEvent")

    def asks_framework(self, reason: str) -> Any:
        if self.paused is None or self.option("approvals") == "in_place":
            return None
        shown = {"tool": self.name, "arguments": self.own(self.args), "reason": reason}
        interrupt = kit.native("strands.interrupt:Interrupt")(self.interrupt_id, "otelhooks", shown)
        self.paused._interrupt_state.interrupts[self.interrupt_id] = interrupt
        return kit.native("strands.interrupt:InterruptException")(interrupt)


def locate(call: _Call, tool: Any) -> None:
    """Set what only the tool object shows: its server, its kind, or that it starts an agent."""
    if (own := BUILT_IN.of(tool, getattr(tool, "_tool_func", None))) is not None:
        call.canonical, call.kind = own.canonical, own.kind
        call.path = call.args.get(own.path) if own.path else None
    elif kit.is_a(tool, *_AGENT_TOOLS):
        call.canonical = ("invoke_subagent",)
    elif kit.is_a(tool, _MCP_TOOL):
        call.is_of_server(tool.mcp_tool.name, _server_of(tool.mcp_client))
        call.goes_to(CLIENT, call.name, call.server)


def _server_of(client: Any) -> Any:
    """Return the application's name for a server: the client's prefix, the only name it keeps."""
    return getattr(client, "_prefix", None)


def _resumes(invocation_state: Any) -> bool:
    """Return whether a model asked for the call: only those can be interrupted."""
    agent = invocation_state["agent"]
    return "event_loop_cycle_id" in invocation_state and hasattr(agent, "_middleware_registry")


def _approves(response: Any) -> bool:
    """Return whether an answer approves, as the framework's interventions read answers."""
    is_yes = isinstance(response, str) and response.lower().strip() in ("y", "yes")
    return response is True or is_yes


class ClientCall(_Call):
    """A call of an MCP server that a router tool or user code makes; an agent's has a permit."""

    group = CLIENT

    def read(
        self,
        client: Any,
        /,
        tool_use_id: Any,
        name: Any,
        arguments: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self.name, self.id, self.further = name, tool_use_id, (args, kwargs)
        self.take(arguments or {})
        self.is_of_server(name, _server_of(client))

    def call(self, wrapped: Any, args: Any) -> Any:
        further, named = self.further
        return wrapped(self.id, self.name, args, *further, **named)


class FunctionCall(kit.ToolCall):
    """A call of a decorated function by user code; agents do not call it this way."""

    group = FUNCTION

    def read(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        wrapped = self.function
        if inspect.iscoroutinefunction(tool._tool_func):
            self.function = lambda *a, **k: CoroutineCall.through("coroutine", wrapped, tool, a, k)
            return kit.SKIP
        return self.named(tool, args, kwargs)

    def named(self, tool: Any, args: Any, kwargs: Any) -> None:
        """Take all arguments by name; those by position that have none are a list."""
        self.owner, self.name = tool, tool.tool_name
        self.description = tool.tool_spec.get("description")
        names, rest = _positions(tool._tool_func)
        self.order = [*itertools.takewhile(lambda name: name not in kwargs, names[: len(args)])]
        more = args[len(self.order) :]
        self.rest = rest if more else None
        if self.rest in kwargs:
            raise TypeError(f"`{rest}` is the name of two arguments")
        unnamed = {rest: [*more]} if more else {}
        self.take({**dict(zip(self.order, args, strict=False)), **unnamed, **kwargs})

    def call(self, wrapped: Any, args: Any) -> Any:
        if overrides.Method(self.owner, "__call__").calls_on(wrapped):
            self.expect(self.name, self.owner, args)
        named = dict(args)
        by_position = [named.pop(name) for name in self.order]
        return wrapped(*by_position, *named.pop(self.rest, ()), **named)

    def denied(self, reason: str) -> Any:
        raise self.exception(reason)


class CoroutineCall(FunctionCall):
    """The same, of a coroutine function."""

    def read(self, tool: Any, args: Any, kwargs: Any) -> Any:
        return self.named(tool, args, kwargs)


def _positions(function: Any) -> tuple[list[str], str]:
    """Return the names of arguments by position, and the name for a list of further ones.

    A function of `functools.wraps` has the parameters of what it wraps only where its own are
    `*args`: it may take others as well, so what does not fit these can still run.
    """
    own = inspect.signature(function, follow_wrapped=False).parameters.values()
    names, shown = _by_position(own), inspect.signature(function).parameters.values()
    rest = next((each.name for each in own if each.kind is each.VAR_POSITIONAL), "")
    return (names + _by_position(shown)[len(names) :] if rest else names), rest or "args"


def _by_position(parameters: Iterable[inspect.Parameter]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in parameters if each.kind in kinds]


# -- models -----------------------------------------------------------------------------------

_PROVIDERS = {
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai_responses": "openai",
}


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


def _read_events(events: list[Any]) -> kit.Part:
    """Read the events of one block of an answer."""
    asked: Any = None
    texts: list[str] = []
    for event in events:
        asked = asked or event.get("contentBlockStart", {}).get("start", {}).get("toolUse")
        delta = event.get("contentBlockDelta", {}).get("delta", {})
        texts.append(delta.get("toolUse", {}).get("input") or delta.get("text") or "")
    text = "".join(texts)
    if asked is not None:
        args = kit.ToolCall.arguments_in(text, "input")
        return kit.Part("call", events, "", asked["name"], asked["toolUseId"], args)
    return kit.Part("text" if text else "other", events, text)


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
        self.stream, self.further = True, further
        config = dict(model.get_config() or {})
        self.model, self.settings = str(config.pop("model_id", None) or ""), config
        module = type(model).__module__.rpartition(".")[2]
        self.provider = _PROVIDERS.get(module, module)
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
        messages = [{**one, "content": _blocks(one)} for one in self.messages]
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
            return map(_read_block, _blocks(message))
        return map(_read_events, _groups(message))

    def role(self, part: kit.Part, message: Any) -> str:
        return "tool" if part.kind == "result" else message["role"]

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        asks = any(_read_events(events).kind == "call" for events in parts)
        reason = (_of(of, "messageStop") or {}).get("stopReason", "end_turn")
        reason = "tool_use" if asks else "end_turn" if reason == "tool_use" else reason
        events = [event for group in parts for event in group]
        start = {"messageStart": {"role": "assistant"}}
        rest = [one for one in of or () if "metadata" in one or "redactContent" in one]
        return [start, *events, {"messageStop": {"stopReason": reason}}, *rest]

    def about(self, raw: Any) -> Mapping[str, Any]:
        reason = (_of(raw, "messageStop") or {}).get("stopReason")
        return {
            "usage": self.used((_of(raw, "metadata") or {}).get("usage")),
            "finish_reasons": (reason,) if reason else (),
        }


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


def _blocks(message: Any) -> list[Any]:
    """Return a message's blocks; hooks may have written a text."""
    content = message.get("content", "")
    return content if isinstance(content, list) else [{"text": str(content)}]


# -- runs -------------------------------------------------------------------------------------

_MULTI = "strands.multiagent"
_AGENT_RESULT = "strands.agent.agent_result:AgentResult"
_ends: weakref.WeakKeyDictionary[Any, tuple[Any, str]] = weakref.WeakKeyDictionary()
"""Last message of each agent's last run, and the id by which its conversation is known."""


def _text(message: Any) -> str:
    return "\n".join(block["text"] for block in _blocks(message) if "text" in block)


def _result_in(items: Any) -> Any:
    return next((item["result"] for item in reversed(items or ()) if "result" in item), None)


class _Run(kit.Run):
    """What runs of agents and of several agents share: the last item of the stream has a result."""

    can_go_on = True
    given: Any
    options: Any

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.given if not self.is_rewritten else self.rewritten(), **self.options)

    def rewritten(self) -> Any:
        """Return what the run is given with the hooks' message in it."""
        return self.prompt

    def continued(self, raw: Any, reason: str) -> Any:
        self.given = self.prompt = reason
        return self

    def is_result(self, item: Any) -> bool:
        return "result" in item

    def is_paused(self, raw: Any) -> bool:
        return bool(getattr(_result_in(raw), "interrupts", None))


class AgentRun(_Run):
    """One run of an agent."""

    last: Any = None

    def read(self, agent: Any, /, prompt: Any = None, **options: Any) -> None:
        self.owner, self.given, self.options = agent, prompt, options
        self.agent = agent.name
        self.prompt = prompt
        if prompt is None:
            self.user_said = None
            self.last = agent.messages[-1] if agent.messages else None
            if self.last is not None and self.last["role"] == "user":
                self.prompt, self.user_said = _text(self.last) or None, self.last["content"]
        elif isinstance(prompt, list):
            self.is_resumed = any("interruptResponse" in one for one in prompt)
            *_, last = prompt or ({},)
            self.prompt = _text(last if "role" in last else {"content": prompt})
            self.user_said = prompt
        self.is_resumed = self.is_resumed or self.prompt is None
        typed = options.get("structured_output_model")
        self.is_typed = (
            typed or getattr(agent, "_default_structured_output_model", None)
        ) is not None
        manager = getattr(agent, "_session_manager", None)
        end, id = _ends.get(agent, (None, ""))
        past = agent.messages if self.last is None else agent.messages[:-1]
        known = [SimpleNamespace(id=id if any(one is end for one in past) else "")] if past else []
        self.belongs_to(getattr(manager, "session_id", None), known, "id")
        outer = kit.ToolCall.current()
        is_open = outer is None or getattr(outer, "leads_on", False)
        (_can_pause.add if is_open else _can_pause.discard)(agent)

    def rewritten(self) -> Any:
        text = {"text": self.prompt}
        if self.given is None:
            self.owner.messages[-1] = {**self.last, "content": [text]}
            return None
        if not isinstance(self.given, list):
            return self.prompt
        *past, last = self.given
        if "role" in last:
            return [*past, {**last, "content": [text, *_no_texts(_blocks(last))]}]
        return [text, *_no_texts(self.given)]

    def whole(self, seen: Any) -> Any:
        id, messages = uuid.uuid4().hex, self.owner.messages
        if messages:
            _ends[self.owner] = (messages[-1], id)
            self.is_known_as(id)
        self.note_unasked(seen)
        return seen

    def denied(self, reason: str) -> Any:
        return [{"result": _said(reason, self.owner.event_loop_metrics)}]

    def answer_of(self, raw: Any) -> Any:
        result = _result_in(raw)
        if result is None:
            return None
        typed = result.structured_output
        return _text(result.message) if typed is None else typed

    def with_answer(self, raw: Any, answer: Any) -> Any:
        return [{"result": _answering(_result_in(raw), answer)}]

    def answered_itself(self, raw: Any) -> Iterable[str]:
        for message in self.owner.messages:
            for block in message["content"]:
                result = block.get("toolResult", {})
                if result.get("status") == "error":
                    yield result["toolUseId"]


def _said(text: str, metrics: Any) -> Any:
    """Return an agent's result that says a text."""
    message = {"role": "assistant", "content": [{"text": text}]}
    return kit.native(_AGENT_RESULT)("end_turn", message, metrics, {})


def _no_texts(blocks: Any) -> list[Any]:
    return [block for block in blocks if "text" not in block]


def _answering(result: Any, answer: Any) -> Any:
    if result.structured_output is not None and not isinstance(answer, str):
        return dataclasses.replace(result, structured_output=answer)
    message = {**result.message, "content": [{"text": str(answer)}]}
    return dataclasses.replace(result, message=message, structured_output=None)


class Workflow(_Run):
    """One run of a graph, a swarm, or another orchestration; its nodes' runs are inside it."""

    def read(self, workflow: Any, /, task: Any, *further: Any, **options: Any) -> None:
        self.operation, self.agent = telemetry.semconv.OP_INVOKE_WORKFLOW, workflow.id
        self.owner = workflow
        self.given, self.further, self.options = task, further, options
        self.prompt = task if isinstance(task, str) else _text({"content": task})
        self.user_said = task
        self.is_resumed = isinstance(task, list) and any("interruptResponse" in one for one in task)

    def call(self, wrapped: Any) -> Any:
        task = self.prompt if self.is_rewritten else self.given
        return wrapped(task, *self.further, **self.options)

    def denied(self, reason: str) -> Any:
        return self.ended("FAILED", reason)

    def answered(self, answer: Any) -> Any:
        return self.ended("COMPLETED", str(answer))

    def ended(self, status: str, text: str) -> Any:
        """Return a result whose one node has the workflow's own name, and says a text."""
        kind = "graph:Graph" if kit.is_a(self.owner, f"{_MULTI}.graph:Graph") else "swarm:Swarm"
        state = kit.native(f"{_MULTI}.base:Status")[status]
        metrics = kit.native("strands.telemetry.metrics:EventLoopMetrics")()
        node = kit.native(f"{_MULTI}.base:NodeResult")(_said(text, metrics), status=state)
        return [{"result": kit.native(f"{_MULTI}.{kind}Result")(state, results={self.agent: node})}]

    def answer_of(self, raw: Any) -> Any:
        node = self.last_node(_result_in(raw))
        return None if node is None else _text(node.result.message)

    def with_answer(self, raw: Any, answer: Any) -> Any:
        result = copy.copy(_result_in(raw))
        node = self.last_node(result)
        name = next(name for name, one in result.results.items() if one is node)
        changed = dataclasses.replace(node, result=_answering(node.result, answer))
        result.results = {**result.results, name: changed}
        return [{"result": result}]

    def last_node(self, result: Any) -> Any:
        """Return the result of the last node that was an agent."""
        nodes = [*getattr(result, "results", {}).values()]
        return next((one for one in reversed(nodes) if kit.is_a(one.result, _AGENT_RESULT)), None)


def native_span(wrapped: Any, tracer: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Return a replacement for the framework's span of a run, which ours would double."""
    return telemetry.in_place_of_own("strands") or wrapped(*args, **kwargs)
