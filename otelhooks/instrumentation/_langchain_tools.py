# pyright: basic, reportMissingImports=false
"""Tool calls of langchain: how one is read, written and refused."""

from __future__ import annotations

import functools
import json
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args, get_type_hints

from otelhooks.hooks.calls import Call
from otelhooks.hooks.stages import StageParams
from otelhooks.instrumentation._copies import is_a
from otelhooks.instrumentation._langchain_fields import field
from otelhooks.instrumentation._permit import Handoff
from otelhooks.instrumentation._tool_seat import ToolSeat

__all__ = ["CANONICAL_TOOLS", "GROUP", "ToolRun", "is_control_flow", "refuse", "refuse_async"]

GROUP = "langchain.tool"
FRAMEWORK = "langchain"
PLAIN_ARGUMENT = "__arg1"
"""Name that langchain itself gives models for the one argument of a tool without a schema."""

CANONICAL_TOOLS = {
    "shell": "run_command",
    "glob_search": "find_file",
    "grep_search": "search_directory",
    "task": "invoke_subagent",
}
"""Built-in tool -> canonical name; only where the function comes from one of `_BUILT_IN`."""

_BUILT_IN = ("langchain.agents.middleware.", "deepagents.")
_KINDS = {
    "run_command": "shell",
    "find_file": "file_read",
    "search_directory": "file_read",
}
_MCP = "langchain_mcp_adapters.tools"
_NATIVE_MCP = "langchain.mcp."
_TOOL = ("langchain_core.tools.base", "BaseTool")
_MESSAGE = ("langchain_core.messages.tool", "ToolMessage")
_COMMAND = ("langgraph.types", "Command")
_JUMP = ("langgraph.errors", "GraphBubbleUp")
_JSON = (str, int, float, bool, list, dict, type(None))


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
        self._key = "" if isinstance(given, dict) else _only_argument(tool)
        self._is_override = is_override
        self._was_reported = False
        self._injected: dict[str, Any] = {}
        self._mcp = _mcp_origin(tool)
        self.call = self._read(call_id)

    def _read(self, call_id: str | None) -> Call:
        tool, given = self.tool, self._given
        shown: dict[str, Any] = {self._key: given}
        if isinstance(given, dict):
            hidden = _injected_names(tool)
            shown = {}
            for name, value in given.items():
                (self._injected if _is_hidden(name, value, hidden) else shown)[name] = value
        name, server, says = self._mcp or (tool.name, None, None)
        canonical = "" if self._mcp else _canonical(tool)
        return Call(
            name,
            shown,
            id=call_id,
            server=server,
            claimed_server=self._mcp is not None and server is None,
            server_says=says,
            canonical=(canonical,) if canonical else (),
            kind=_KINDS.get(canonical),
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
        return Handoff("hedera_agent_kit.langchain", call.name) if _is_hedera(self.tool) else None

    def stages(self, call: Call) -> StageParams | None:
        """Return what the Hedera Agent Kit's adapter knows of the steps of one of its tools."""
        steps = sys.modules.get("otelhooks.instrumentation._hedera_agent_kit_steps")
        if steps is None or not _is_hedera(self.tool) or self.tool.method != call.name:
            return None
        make = steps.at_api(self.tool.hedera_api, call.name)
        return None if make is None else make()

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


# -- arguments --------------------------------------------------------------------------------


def _only_argument(tool: Any) -> str:
    """Return the name of the argument that a bare text stands for."""
    schema = getattr(tool, "args_schema", None)
    if schema is None:
        return PLAIN_ARGUMENT if "func" in type(tool).model_fields else next(iter(tool.args), "")
    return next(iter(tool.args), PLAIN_ARGUMENT)


def _is_hidden(name: str, value: Any, hidden: Mapping[str, bool]) -> bool:
    """Say whether a rule is not shown an argument.

    What the framework itself fills in is not. What only an application might is shown where it is
    data: a model that guesses its name could have made it up.
    """
    by_framework = hidden.get(name)
    return by_framework is True or (by_framework is False and not isinstance(value, _JSON))


def _injected_names(tool: Any) -> Mapping[str, bool]:
    """Return the arguments that no model gives: name -> whether the framework fills them in."""
    kind = type(tool)
    sources = (field(tool, "args_schema"), _function(tool), kind._run, kind._arun)
    try:
        return _known_names(*map(_weakly, sources))
    except TypeError:  # one of them cannot be hashed or referred to weakly
        return _read_names(sources)


def _weakly(source: Any) -> Callable[[], Any]:
    if source is None or isinstance(source, dict):
        return _nobody
    if not isinstance(source, type):  # a bound method is a new one each time
        source = getattr(source, "__func__", source)
    return weakref.ref(source)


def _nobody() -> None:
    """Stand for a tool's schema or function that is not there, or has no annotations."""


@functools.lru_cache(maxsize=1024)
def _known_names(*sources: Callable[[], Any]) -> Mapping[str, bool]:
    return _read_names(source() for source in sources)


def _read_names(sources: Iterable[Any]) -> Mapping[str, bool]:
    found: dict[str, bool] = {}
    for source in sources:
        if source is not None and not isinstance(source, dict):
            found.update(_read_annotations(source))
    return found


def _read_annotations(source: Any) -> dict[str, bool]:
    from langchain_core.tools import base

    try:
        if isinstance(source, type):
            hints = base.get_all_basemodel_annotations(source)  # type: ignore[arg-type]
        else:
            hints = get_type_hints(source, include_extras=True)
    except Exception:  # an annotation that cannot be resolved: langchain cannot inject there either
        return {}
    return {
        name: not _is_plain(hint, base.InjectedToolArg)
        for name, hint in hints.items()
        if base._is_injected_arg_type(hint)
    }


def _is_plain(hint: Any, injected: type) -> bool:
    """Say whether an annotation says no more than that somebody injects the argument."""
    kinds = [item if isinstance(item, type) else type(item) for item in get_args(hint)[1:]]
    ours = [kind for kind in kinds if issubclass(kind, injected)]
    return bool(ours) and all(kind is injected for kind in ours)


# -- where a tool comes from ------------------------------------------------------------------


def _is_hedera(tool: Any) -> bool:
    return is_a(tool, ("hedera_agent_kit.langchain.tool", "HederaAgentKitTool"))


def _function(tool: Any) -> Any:
    return field(tool, "func") or field(tool, "coroutine")


def _canonical(tool: Any) -> str:
    name = CANONICAL_TOOLS.get(tool.name)
    if name is None:
        return ""
    module = getattr(_function(tool), "__module__", "") or ""
    return name if module.startswith(_BUILT_IN) else ""


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
