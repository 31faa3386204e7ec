# pyright: basic
"""Tool calls of CrewAI: objects that are run, their form for the text format, and functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.objects import outer, overrides
from otelhooks.frameworks.kit.positional import PositionalCall

__all__ = [
    "Function",
    "Structured",
    "Tool",
    "forget",
    "go_on",
    "note_call",
    "note_first",
    "note_step",
]

_BASE = "crewai.tools.base_tool:BaseTool"
_OF_FUNCTION = "crewai.tools.base_tool:Tool"
_FAILURES = "crewai.tools.tool_failure"
_FAILURE = f"{_FAILURES}:ToolFailure"
_DELEGATING = "crewai.tools.agent_tools.base_agent_tools:BaseAgentTool"
_MCP = (
    "crewai.tools.mcp_native_tool:MCPNativeTool",
    "crewai.tools.mcp_tool_wrapper:MCPToolWrapper",
)


@kit.subclass(_FAILURE)
def _denial(base: Any) -> Any:
    class Denial(base):
        """A refusal: a failure that ends no run."""

        is_denial: ClassVar = True

    return Denial


def _shown(name: str) -> str:
    """Return a tool's name as models see it."""
    return kit.native("crewai.utilities.string_utils:sanitize_tool_name")(name)


class _Call(PositionalCall):
    group = "crewai.tool"

    def of(self, tool: Any) -> str:
        """Read what a tool object, or its form for the text format, says of itself.

        Returns:
            The name of the call at the seat of the tool object.
        """
        form, tool = tool, getattr(tool, "_original_tool", None) or tool
        shown, own = _shown(form.name), _shown(tool.name)
        self.name, self.description = shown, tool.description
        self.id = outer.id_for(tool)
        spellings = (form.name, tool.name) if own == shown else (form.name,)
        self.canonical = tuple(name for name in dict.fromkeys(spellings) if name != shown)
        if kit.is_a(tool, _DELEGATING):
            self.canonical = (*self.canonical, "invoke_subagent")
        elif kit.is_a(tool, *_MCP):
            factory = getattr(tool, "_client_factory", None)
            place = getattr(factory(), "transport", None) if factory is not None else None
            self.is_of_server(tool.original_tool_name, self.server_at(place))
        if own != shown:
            self.is_also(own, tool.name)
        return own if self.name == shown else self.name

    def denied(self, reason: str) -> Any:
        return _denial(message=reason)

    def value(self, raw: Any) -> Any:
        return raw.as_agent_message() if kit.is_a(raw, _FAILURE) else raw

    def error(self, raw: Any) -> Any:
        return raw.as_agent_message() if kit.is_a(raw, _FAILURE) else None

    def failed(self, error: BaseException, message: str) -> Any:
        return kit.native(_FAILURE)(message=message)


class Tool(_Call):
    """A call of ``run`` or ``arun``, which may hand on to what it overrides."""

    def read(self, tool: Any, /, *args: Any, **given: Any) -> None:
        self.of(tool)
        own = self.is_async and type(tool)._arun is not kit.native(_BASE)._arun
        function = tool._arun if own else tool._run
        self.take_call(tool.func if kit.is_a(tool, _OF_FUNCTION) else function, args, given)
        name = "arun" if self.is_async else "run"
        if overrides.Method(tool, name).calls_on(self.function):
            self.goes_to(self.group, self.name)


class Structured(_Call):
    """A call of a tool in its form for the text format, with a dict or a JSON text."""

    def read(self, tool: Any, /, input: Any, config: Any = None, **given: Any) -> None:
        below = self.of(tool)
        self._config, self._named = config, given.keys()
        parsed = tool._parse_args(input) if isinstance(input, str) else input
        hidden = () if "security_context" in tool.args else ("security_context",)
        self.take({**parsed, **given}, hidden)
        function = tool.func
        if kit.is_a(getattr(function, "__self__", None), _BASE) and function.__name__ == "run":
            self.goes_to(self.group, below)

    def call(self, wrapped: Any, args: Any) -> Any:
        named = {name: args[name] for name in self._named if name in args}
        rest = {name: value for name, value in args.items() if name not in named}
        return wrapped(rest, self._config, **named)


class Function(PositionalCall):
    """A call of a function that a model's client runs itself."""

    def read(self, name: Any, /, *args: Any, **given: Any) -> None:
        self.name = name
        self.take_call(self.function, args, given)

    def denied(self, reason: str) -> Any:
        return reason

    @classmethod
    def guarded(cls, functions: dict[str, Any]) -> dict[str, Callable[..., Any]]:
        """Return functions by name, each guarded: by the seat that it is, or else by this class."""
        return {
            name: function
            if kit.is_a(getattr(function, "__self__", None), _BASE) and _is_seat(function)
            else functools.partial(cls.through, "plain", function, name)
            for name, function in functions.items()
        }


def _is_seat(method: Any) -> bool:
    return overrides.Method(method.__self__, method.__name__).is_guarded


def note_call(wrapped: Any, executor: Any, tool_call: Any) -> Any:
    """Note the id of a native call that an executor makes."""
    found = getattr(executor, "_tool_name_mapping", None) or {}
    return _noted(functools.partial(wrapped, tool_call), tool_call, found, executor.original_tools)


def note_step(wrapped: Any, _: Any, tool_call: Any, **given: Any) -> Any:
    """Note the id of a native call that a step of a plan makes."""
    run = functools.partial(wrapped, tool_call, **given)
    return _noted(run, tool_call, {}, given.get("original_tools"))


def note_first(wrapped: Any, _: Any, call_id: str, original_tool: Any = None, **given: Any) -> Any:
    """Note the id of a native call that the first executor of crews makes."""
    run = functools.partial(wrapped, call_id=call_id, original_tool=original_tool, **given)
    return _with_id(call_id, original_tool, run)


def _noted(run: Any, tool_call: Any, by_name: Any, tools: Any) -> Any:
    info = kit.native("crewai.utilities.agent_utils:extract_tool_call_info")(tool_call)
    if info is None:
        return run()
    id, name, _ = info
    named = (one for one in tools or () if _shown(one.name) == name)
    return _with_id(id, by_name.get(name) or next(named, None), run)


def _with_id(id: str, tool: Any, run: Any) -> Any:
    result = outer.noted(getattr(tool, "_original_tool", None) or tool, id, run)
    kit.ToolCall.not_run(id)  # no seat had it: an unknown tool, invalid arguments, a limit
    return result


def forget(wrapped: Any, cache: Any, tool: str, input: str) -> Any:
    """Return no result of an earlier call: no seat is between it and the model."""
    if cache is kit.native("crewai.project.utils:cache"):  # of crews' own methods
        return wrapped(tool, input)
    return None


def go_on(wrapped: Any, _: Any, failure: Any, **given: Any) -> Any:
    """Report a failure, which may end the run; a refusal does not."""
    try:
        return wrapped(failure, **given)
    except kit.native(f"{_FAILURES}:ToolExecutionFailedError"):
        if not getattr(failure, "is_denial", False):
            raise
