"""What the seats of the OpenAI Agents SDK share: a call, its arguments as JSON, names and ids."""
# pyright: basic

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from otelhooks.hooks.calls import Call
from otelhooks.instrumentation._frames import current_frame
from otelhooks.instrumentation._tool import ToolSeat

__all__ = [
    "FRAMEWORK",
    "TEXT",
    "AgentsCall",
    "TextSeat",
    "agent_name",
    "awaiting",
    "conversation",
    "mark_judged",
    "read_arguments",
    "without_none",
    "write_arguments",
]

FRAMEWORK = "openai_agents"
TEXT = "input"
"""Name of the one argument of a call whose text is no JSON object."""


class AgentsCall(Call):
    """A call with what its seat needs to write it.

    Attributes:
        given: What the SDK handed over: the tool context, a request, an operation.
        tool: The SDK's tool.
        failure: What the tool raised, where the SDK has made a text of it already.
        mcp_server: Name that the application gave to the MCP server that will run the call.
    """

    __slots__ = ("failure", "given", "mcp_server", "tool")

    def __init__(self, name: str, args: dict[str, Any], given: Any, tool: Any, **more: Any) -> None:
        super().__init__(name, args, **more)
        self.given = given
        self.tool = tool
        self.failure: Exception | None = None
        self.mcp_server: str | None = None


class TextSeat(ToolSeat):
    """A tool whose output is a text, or is shown to the model as one."""

    framework = FRAMEWORK

    def denied(self, call: Call, reason: str) -> Any:
        return reason

    def with_result(self, call: Call, raw: Any, value: Any) -> Any:
        return value if isinstance(value, (str, type(raw))) else str(value)

    def recovered(self, call: Call, value: Any) -> Any:
        return value if isinstance(value, str) else str(value)


def read_arguments(text: Any) -> dict[str, Any]:
    """Return the arguments in a model's text; a text that is no JSON object as one argument."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return {TEXT: text}
    return found if isinstance(found, dict) else {TEXT: text}


def write_arguments(call: Call, text: Any, args: dict[str, Any]) -> Any:
    """Return a model's text as it was, or one with the arguments that hooks wrote."""
    if not call.version:
        return text
    is_plain = read_arguments(text).keys() == {TEXT} and not _is_object(text)
    return args[TEXT] if is_plain and args.keys() == {TEXT} else json.dumps(args)


def _is_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def agent_name(context: Any) -> str:
    name = getattr(getattr(context, "agent", None), "name", "")
    return name if isinstance(name, str) else ""


def conversation(context: Any) -> str:
    group = getattr(getattr(context, "run_config", None), "group_id", None)
    return group if isinstance(group, str) else ""


def mark_judged(call_id: str | None) -> None:
    """Note that a call that the model asked for is not run, by the framework's own decision."""
    frame = current_frame()
    if frame is not None and frame.turn is not None:
        frame.turn.judged(call_id)


def awaiting(body: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    """Return a body as a coroutine function, whatever it is."""

    async def run(approved: Any) -> Any:
        value = body(approved)
        return await value if inspect.isawaitable(value) else value

    return run


def without_none(args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if value is not None}
