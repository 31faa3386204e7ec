# pyright: basic, reportMissingImports=false
"""Tool calls of langchain: how one is read, written and refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from otelhooks.frameworks.langchain.arguments import facts_of, only_argument, split
from otelhooks.frameworks.langchain.builtin import NOTHING, read
from otelhooks.frameworks.langchain.fields import field
from otelhooks.hooks.calls import Call
from otelhooks.hooks.stages import StageParams
from otelhooks.patching.copies import is_a
from otelhooks.pipeline.leads import next_seat, stages_of
from otelhooks.pipeline.permits import Handoff
from otelhooks.pipeline.tool_seat import ToolSeat

__all__ = ["GROUP", "ToolRun", "is_control_flow", "refuse", "refuse_async"]

GROUP = "langchain.tool"
FRAMEWORK = "langchain"
_MCP = "langchain_mcp_adapters.tools"
_NATIVE_MCP = "langchain.mcp."
_TOOL = ("langchain_core.tools.base", "BaseTool")
_MESSAGE = ("langchain_core.messages.tool", "ToolMessage")
_COMMAND = ("langgraph.types", "Command")
_JUMP = ("langgraph.errors", "GraphBubbleUp")


class ToolRun(ToolSeat):
    """One call of one tool, through ``run``, ``arun``, or an ``invoke`` that a subclass overrides.

    `ToolResult.result` holds a message's content, or what the tool gave back where nobody asked for
    a message.

    Args:
        tool: The tool.
        given: What the method was handed: a dict, or the text of a tool with one argument.
        call_id: Id of the call; None where user code calls the tool directly.
        is_override: Whether a subclass' own method is called, which may call ``super()``.
        takes_calls: Whether the method may be handed a whole tool call, as ``invoke`` is. In the
            arguments of any other method, what looks like one is the model's own words.
    """

    framework = FRAMEWORK
    group = GROUP

    def __init__(
        self,
        tool: Any,
        given: Any,
        call_id: str | None = None,
        *,
        is_override: bool = False,
        takes_calls: bool = False,
    ) -> None:
        self.tool = tool
        self._tool_call: dict[str, Any] | None = None
        if takes_calls and isinstance(given, dict) and given.get("type") == "tool_call":
            self._tool_call, call_id, given = given, given.get("id"), given.get("args") or {}
        self._given = given
        self._key = "" if isinstance(given, dict) else only_argument(tool)
        self._is_override = is_override
        self._was_reported = False
        self._injected: dict[str, Any] = {}
        self._mcp = _mcp_origin(tool)
        self.call = self._read(call_id)

    def _read(self, call_id: str | None) -> Call:
        tool, given = self.tool, self._given
        shown: dict[str, Any] = {self._key: given}
        facts = facts_of(tool)
        if isinstance(given, dict):
            shown = split(given, facts.injected, self._injected) if facts.injected else {**given}
        name, server, says = self._mcp or (tool.name, None, None)
        what = NOTHING
        if facts.built_in is not None:
            what = read(facts.built_in, tool, shown, self._injected.get("runtime"))
        return Call(
            name,
            shown,
            id=call_id,
            server=server,
            claimed_server=self._mcp is not None and server is None,
            server_says=says,
            canonical=what.canonical,
            kind=what.kind,
            path=what.path,
            work_dir=what.work_dir,
            tool_type="extension" if self._mcp else "function",
            description=tool.description or None,
        )

    def write(self, approved: dict[str, Any]) -> Any:
        """Return what the method is handed instead: what was approved, and what is injected."""
        if not isinstance(self._given, dict):
            value = approved.get(self._key)
            return value if list(approved) == [self._key] else approved
        args = {**approved, **self._injected}
        return args if self._tool_call is None else {**self._tool_call, "args": args}

    # -- what the pipeline asks ---------------------------------------------------------------

    def denied(self, call: Call, reason: str) -> Any:
        """Return an error message for the model, or the reason for a caller without a call id."""
        return _error_message(self.tool, call.id, reason)

    def result(self, call: Call, raw: Any) -> Any:
        """Return the content for the model, if there is one in it."""
        message = _message_in(raw, call.id)
        return raw if message is None else message.content

    def with_result(self, call: Call, raw: Any, value: Any) -> Any:
        """Put other content in; the artifact goes, since it repeats what was replaced."""
        message = _message_in(raw, call.id)
        if message is None:
            return self.recovered(call, value)
        new = message.model_copy(update={"content": _content(value), "artifact": None})
        return _replace(raw, message, new)

    def error(self, call: Call, raw: Any) -> str | None:
        """Return the text of an error that the tool told as a message."""
        message = _message_in(raw, call.id)
        if message is None or message.status != "error":
            return None
        self._was_reported = True
        return message.text if isinstance(message.text, str) else str(message.content)

    def failed(self, call: Call, error: BaseException, message: str) -> Any:
        """Return the failure with another text: told where it was told, raised where raised."""
        if self._was_reported or (call.op is not None and call.op.failure is not None):
            return _error_message(self.tool, call.id, message)
        return super().failed(call, error, message)

    def recovered(self, call: Call, value: Any) -> Any:
        """Return a value as the tool's result."""
        if call.id is None or is_a(value, _MESSAGE):
            return value
        make = _message_class(self.tool)
        return make(_content(value), name=self.tool.name, tool_call_id=call.id)

    def is_control_flow(self, error: BaseException) -> bool:
        """Say whether langgraph pauses or jumps."""
        return is_control_flow(error)

    def handoff(self, call: Call) -> Handoff | None:
        """Lead an override to the method below it, and a tool of another kit to its own seat."""
        if self._is_override:
            return Handoff(GROUP, call.name, call.server)
        if self._mcp is not None:
            return Handoff("mcp.client", call.name, call.server)
        return next_seat(self.tool, call.name)

    def stages(self, call: Call) -> StageParams | None:
        """Return what the adapter of another package knows of the steps of one of its tools."""
        return stages_of(self.tool, call.name)

    def attributes(self, call: Call) -> Mapping[str, Any] | None:
        """Return nothing further."""
        return None


def is_control_flow(error: BaseException) -> bool:
    """Say whether an exception is langgraph's way to pause a run or to jump."""
    return is_a(error, _JUMP)


def refuse(error: Exception, wrapped: Callable[..., Any], tool: Any, args: Any, kwargs: Any) -> Any:
    """Answer a call of a refused package: the model is told, other callers get the error."""
    is_invoke = "tool_input" not in kwargs and "tool_call_id" not in kwargs
    given = args[0] if args else kwargs.get("tool_input", kwargs.get("input"))
    run = ToolRun(tool, given, kwargs.get("tool_call_id"), takes_calls=is_invoke)
    if run.call.id is None:
        raise error
    return run.denied(run.call, str(error))


async def refuse_async(
    error: Exception, wrapped: Callable[..., Any], tool: Any, args: Any, kwargs: Any
) -> Any:
    """Do what `refuse` does, for a coroutine."""
    return refuse(error, wrapped, tool, args, kwargs)


# -- results ----------------------------------------------------------------------------------


def _error_message(tool: Any, call_id: str | None, text: str) -> Any:
    if call_id is None:
        return text
    return _message_class(tool)(text, name=tool.name, tool_call_id=call_id, status="error")


def _message_class(tool: Any) -> Any:
    """Return the class of messages in the copy of langchain that a tool belongs to."""
    for cls in type(tool).__mro__:
        if (cls.__module__, cls.__name__) == _TOOL:
            return vars(cls)["run"].__globals__[_MESSAGE[1]]
    from langchain_core.messages import ToolMessage

    return ToolMessage


def _content(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, (str, dict)) for item in value):
        return value
    try:  # as langchain itself tells models of other values
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)


def _message_in(raw: Any, call_id: str | None) -> Any:
    """Return the tool message of a call: the result itself, or inside commands and lists."""
    if is_a(raw, _MESSAGE):
        return raw
    if isinstance(raw, list):
        found = (_message_in(item, call_id) for item in raw if _carries(item))
        return next((message for message in found if message is not None), None)
    update = getattr(raw, "update", None) if is_a(raw, _COMMAND) else None
    messages = update.get("messages") if isinstance(update, dict) else None
    for message in messages if isinstance(messages, list) else ():
        if is_a(message, _MESSAGE) and message.tool_call_id == call_id:
            return message
    return None


def _replace(raw: Any, old: Any, new: Any) -> Any:
    if raw is old:
        return new
    if isinstance(raw, list):
        return [_replace(item, old, new) if _carries(item) else item for item in raw]
    if not is_a(raw, _COMMAND) or not isinstance(raw.update, dict):
        return raw
    import dataclasses

    messages = [new if message is old else message for message in raw.update.get("messages", ())]
    return dataclasses.replace(raw, update={**raw.update, "messages": messages})


def _carries(item: Any) -> bool:
    return is_a(item, _MESSAGE, _COMMAND)


# -- where a tool comes from ------------------------------------------------------------------


def _mcp_origin(tool: Any) -> tuple[str, str | None, str | None] | None:
    """Return an MCP tool's own name, the application's name of its server, and the server's own.

    The application names a server where it makes the client, and langchain-mcp-adapters keeps that
    name in the closure of the tool's function only.
    """
    function = field(tool, "coroutine")
    module = getattr(function, "__module__", None) or ""
    if module == _MCP:
        closed = _closure(function)
        original = getattr(closed.get("tool"), "name", None)
        server = closed.get("server_name")
        return original or tool.name, server if isinstance(server, str) else None, None
    if module.startswith(_NATIVE_MCP):
        closed = _closure(function)
        original = getattr(closed.get("tool"), "name", None)
        about = (tool.metadata or {}).get("mcp") or {}
        says = (about.get("server") or {}).get("name") if isinstance(about, dict) else None
        return original or tool.name, None, says
    return None


def _closure(function: Any) -> dict[str, Any]:
    names = function.__code__.co_freevars
    return {
        name: cell.cell_contents
        for name, cell in zip(names, function.__closure__ or (), strict=False)
        if name in ("tool", "server_name")
    }
