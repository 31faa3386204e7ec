"""What the seats of the OpenAI Agents SDK share: a call, its arguments as JSON, names and ids."""
# pyright: basic

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from otelhooks.hooks.calls import Call
from otelhooks.pipeline.frames import current_frame
from otelhooks.pipeline.tool_seat import ToolSeat

__all__ = [
    "FRAMEWORK",
    "TEXT",
    "AgentsCall",
    "TextSeat",
    "agent_name",
    "awaiting",
    "conversation",
    "in_order",
    "mark_judged",
    "read_arguments",
    "without_none",
    "write_arguments",
]

FRAMEWORK = "openai_agents"
TEXT = "input"
"""Name of the one argument of a call whose text is no JSON object."""
_raw_decode = json.JSONDecoder().raw_decode


class AgentsCall(Call):
    """A call with what its seat needs to write it.

    Args:
        given: What the SDK handed over: the tool context, a request, an operation.
        tool: The SDK's tool.

    Attributes:
        failure: What the tool raised, where the SDK has made a text of it already.
        mcp_server: Name that the application gave to the MCP server that will run the call.
    """

    __slots__ = ("failure", "given", "mcp_server", "tool")

    def __init__(
        self,
        name: str,
        args: dict[str, Any],
        given: Any,
        tool: Any,
        *,
        id: str | None = None,
        canonical: tuple[str, ...] = (),
        kind: str | None = None,
        path: str | None = None,
        raw: str | None = None,
        agent: str = "",
        description: str | None = None,
    ) -> None:
        super().__init__(
            name,
            args,
            id=id,
            canonical=canonical,
            kind=kind,
            path=path,
            raw=raw,
            agent=agent,
            description=description,
        )
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
    found = _parse(text)
    return found if isinstance(found, dict) else {TEXT: text}


def _parse(text: Any) -> Any:
    """Return the JSON in a text, None if there is none that a rule could read."""
    try:
        found, end = _raw_decode(text)
        if end == len(text):  # no space around it, as models write it
            return found
    except (TypeError, ValueError, RecursionError):
        pass  # read again below, which tells the reasons apart
    try:
        return json.loads(text)
    except (TypeError, json.JSONDecodeError, UnicodeError, RecursionError):
        return None
    except ValueError:  # an integer of more digits than Python reads; other parsers do read it
        return json.loads(text, parse_int=float)


def write_arguments(call: Call, text: Any, args: dict[str, Any]) -> Any:
    """Return a model's text as it was, or one with the arguments that hooks wrote."""
    if not call.version:
        return json.dumps(args) if _repeats_names(text, args) else text
    is_plain = read_arguments(text).keys() == {TEXT} and not _is_object(text)
    return args[TEXT] if is_plain and args.keys() == {TEXT} else json.dumps(args)


def _is_object(text: Any) -> bool:
    return isinstance(_parse(text), dict)


def _repeats_names(text: Any, args: dict[str, Any]) -> bool:
    """Say whether a name stands twice in an object of a text: parsers differ in which one counts.

    Args:
        text: The model's.
        args: What our parser made of it.
    """
    if not isinstance(text, str) or text.count(":") <= len(args):
        return False
    try:
        _each_once.decode(text)
    except _RepeatedError:
        return _is_object(text)
    except (ValueError, RecursionError):
        pass  # no JSON: handed on as it is
    return False


class _RepeatedError(Exception):
    """A name stands twice in an object."""


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _RepeatedError


_each_once = json.JSONDecoder(object_pairs_hook=_once, parse_int=float)


def in_order(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], count: int
) -> tuple[Any, ...]:
    """Return what a tool's function is called with, by position.

    Raises:
        TypeError: It is called as the SDK never does: what cannot be read cannot be judged.
    """
    if kwargs:
        bound = inspect.signature(function).bind(*args, **kwargs)
        args, kwargs = bound.args, bound.kwargs
    if kwargs or len(args) != count:
        msg = f"a tool's function takes {count} arguments by position here, not {len(args)}"
        raise TypeError(msg)
    return args


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
