# pyright: basic
"""Tool calls of Strands: of agents, of MCP servers, and of decorated functions.

Tools are asynchronous generators. The last item is the result: a `ToolResultEvent`, a
`ToolInterruptEvent` if it pauses, or for tools outside the SDK a plain dict.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.objects import overrides
from otelhooks.frameworks.kit.positional import PositionalCall

__all__ = ["BUILT_IN", "ClientCall", "FunctionCall", "Tool", "locate"]

STREAM, FUNCTION, CLIENT = "strands.tool", "strands.function", "strands.mcp"
_RESULT = "strands.types._events:ToolResultEvent", "strands.types.events:ToolResultEvent"
_AGENT_TOOLS = (
    "strands.agent._agent_as_tool:_AgentAsTool",
    "strands.vended_tools.subagent.subagent:_SubagentTool",
)
_MCP_TOOL = "strands.tools.mcp.mcp_agent_tool:MCPAgentTool"


def _vended(name: str, *what: Any, way: str = "") -> tuple[str, Any]:
    """Return where a tool that the package includes is defined, and how rules see it."""
    place = f"{name}.{name}:make_{name}.<locals>.{name}_tool{way}"
    return f"strands.vended_tools.{place}", (name, *what)


_FETCH = ("read_url_content",), "net"
BUILT_IN = kit.BuiltIns(
    dict(
        (
            _vended("shell", ("run_command",), "shell"),
            _vended("python_repl", ("run_command", "code_execution"), "shell"),
            _vended(
                "file_editor",
                ("create_file", "edit_file", "view_file"),
                "file_write",
                False,
                "path",
            ),
            _vended("http_request", *_FETCH),
            _vended("web_fetch", *_FETCH, way="_markdown"),
            _vended("web_fetch", *_FETCH, way="_agentic"),
        )
    )
)


class _Call(kit.ToolCall):
    """What all seats of tools share: results are dicts with a status and content blocks."""

    pauses, tells_failures = ("strands.interrupt:InterruptException",), True

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
        run = kit.Run.here()
        may_pause = getattr(run, "can_pause", False) and run.owner is agent
        self.paused = agent if may_pause and _resumes(invocation_state) else None
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
        call.is_of_server(tool.mcp_tool.name, tool.mcp_client._prefix)
        call.goes_to(CLIENT, call.name, call.server)


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
        self.is_of_server(name, client._prefix)  # the application's only name that it keeps

    def call(self, wrapped: Any, args: Any) -> Any:
        further, named = self.further
        return wrapped(self.id, self.name, args, *further, **named)


class FunctionCall(PositionalCall):
    """A call of a decorated function by user code; agents do not call it this way."""

    group = FUNCTION

    def read(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        if inspect.iscoroutinefunction(tool._tool_func):
            through = CoroutineCall.through
            self.function = functools.partial(through, "coroutine", self.function, tool)
            return kit.SKIP
        return self.of(tool, args, kwargs)

    def of(self, tool: Any, args: Any, kwargs: Any) -> None:
        self.owner, self.name = tool, tool.tool_name
        self.description = tool.tool_spec.get("description")
        self.take_call(tool._tool_func, args, kwargs)

    def call(self, wrapped: Any, args: Any) -> Any:
        if overrides.Method(self.owner, "__call__").calls_on(wrapped):
            self.expect(self.name, self.owner, args)
        return super().call(wrapped, args)

    def denied(self, reason: str) -> Any:
        raise self.exception(reason)


class CoroutineCall(FunctionCall):
    """The same, of a coroutine function."""

    def read(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.of(tool, args, kwargs)
