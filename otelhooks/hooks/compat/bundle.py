"""A bundle of functions, one for each point, and the callback that only listens."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeAlias, cast

from otelhooks import types
from otelhooks.hooks import base
from otelhooks.hooks.functions import function_hook

__all__ = ["Hooks", "observing_hooks"]

Function: TypeAlias = Callable[..., Any]
_Reading: TypeAlias = Callable[[types.HookResult], Any]


class Hooks(base.HookGroup):
    """Functions at the points that they are named after; omitted ones are not registered.

    Each may be sync or async. It receives the record of its point, and also the context if it has a
    parameter named ``context``. It returns a `HookResult`, or None to allow. With ``action="deny"``
    its ``message`` is the reason; with ``action="modify"`` the field of its point replaces the
    value.

    Args:
        pre_tool_use: `ToolCall`; ``input``: the arguments, a dict or its JSON.
        post_tool_use: `ToolResult`; ``output``: the result.
        pre_model_call: `ModelCall`; ``messages``, ``tools``, or ``response``: a ready answer.
        post_model_call: `ModelResponse`; ``response``.
        on_subagent_start: `SubagentInfo`; observes.
        on_subagent_stop: `SubagentInfo`; observes.
        on_tool_error: The exception; ``output`` recovers.
        on_model_error: The exception; ``response`` recovers.
        before_agent: `AgentCall`; ``response``: a ready answer.
        after_agent: The agent's answer; ``response``.
        before_run: `RunInfo`; observes.
        after_run: `RunInfo`; observes.
        on_user_message: The message; ``input``.
        on_event: `HookEvent`; observes every point.

    Raises:
        TypeError: A function takes what its point does not have, or is not a function.
    """

    KIND: ClassVar[base.Kind] = "inspect"

    def __init__(
        self,
        *,
        pre_tool_use: Function | None = None,
        post_tool_use: Function | None = None,
        pre_model_call: Function | None = None,
        post_model_call: Function | None = None,
        on_subagent_start: Function | None = None,
        on_subagent_stop: Function | None = None,
        on_tool_error: Function | None = None,
        on_model_error: Function | None = None,
        before_agent: Function | None = None,
        after_agent: Function | None = None,
        before_run: Function | None = None,
        after_run: Function | None = None,
        on_user_message: Function | None = None,
        on_event: Function | None = None,
    ) -> None:
        given: tuple[tuple[str, Function | None, type[base.Hook], _Reading | None], ...] = (
            ("pre_tool_use", pre_tool_use, base.PreToolCallDecideHook, _arguments),
            ("post_tool_use", post_tool_use, base.PostToolCallTransformHook, _output),
            ("pre_model_call", pre_model_call, base.PreModelCallHook, _model_call),
            ("post_model_call", post_model_call, base.PostModelCallTransformHook, _response),
            ("on_subagent_start", on_subagent_start, base.OnSubagentStartHook, None),
            ("on_subagent_stop", on_subagent_stop, base.OnSubagentStopHook, None),
            ("on_tool_error", on_tool_error, base.OnToolErrorHook, _output),
            ("on_model_error", on_model_error, base.OnModelErrorHook, _response),
            ("before_agent", before_agent, base.PreAgentHook, _ready_answer),
            ("after_agent", after_agent, base.PostAgentTransformHook, _response),
            ("before_run", before_run, base.OnRunStartHook, None),
            ("after_run", after_run, base.OnRunEndHook, None),
            ("on_user_message", on_user_message, base.PreTurnHook, _prompt),
            ("on_event", on_event, base.OnEventHook, None),
        )
        self._parts: tuple[base.Hook, ...] = tuple(
            _part(name, function, hook_class, reading)
            for name, function, hook_class, reading in given
            if function is not None
        )

    def parts(self) -> Iterator[base.Hook]:
        """Return a hook for each function."""
        return iter(self._parts)


def observing_hooks(
    callback: Callable[[types.HookEvent], Any], *, background: bool = False
) -> base.OnEventHook:
    """Return a hook that passes every event to a callback and decides nothing.

    Args:
        callback: Sync or async function of a `HookEvent`; what it returns is ignored, what it
            raises is logged and counted.
        background: Call it from a thread of its own, in order for each session, so that a slow
            callback delays nothing; a full queue drops the oldest event and counts it.

    Raises:
        TypeError: It does not take an event.
    """
    return _part("callback", callback, base.OnEventHook, None, background=background)


def _part(
    name: str,
    function: Function,
    hook_class: type[base.Hook],
    reading: _Reading | None,
    **options: Any,
) -> Any:
    if not callable(function):
        raise TypeError(f"`{name}` is {type(function).__name__}, not a function")
    try:
        inspect.signature(function)
    except ValueError:
        raise TypeError(f"`{name}`: the signature of {function!r} is not known") from None
    decides = hook_class.KIND == "decide"
    read = None if reading is None else functools.partial(_said, reading, decides)
    return function_hook(hook_class, function, read=read, **options)


def _said(reading: _Reading, decides: bool, answer: Any) -> Any:
    """Return an answer in the form of hooks.

    Raises:
        TypeError: It is not a `HookResult`.
        ValueError: It modifies, but does not say what.
    """
    if answer is None:
        return types.HookResult() if decides else None
    if not isinstance(answer, types.HookResult):
        raise TypeError(f"returned {type(answer).__name__}, not a HookResult")
    if answer.action is not types.HookAction.MODIFY:
        return answer if decides or not answer.allow else None
    read = reading(answer)
    if read is None:
        raise ValueError("modifies, and does not say what in the field of its point")
    return read


def _first(answer: types.HookResult, *fields: str) -> Any:
    return next((value for name in fields if (value := getattr(answer, name)) is not None), None)


def _arguments(answer: types.HookResult) -> types.HookResult | None:
    given = answer.input
    if isinstance(given, str):
        given = json.loads(given)
    if given is None:
        has_own = answer.modified_args is not None or answer.replace_args is not None
        return answer if has_own else None
    if not isinstance(given, dict):
        raise TypeError(f"`input` is {type(given).__name__}, not a dict or its JSON")
    args = cast("dict[str, Any]", given)
    return answer.model_copy(update={"replace_args": args, "input": None})


def _model_call(answer: types.HookResult) -> types.HookResult | None:
    messages = _first(answer, "messages", "modified_messages")
    tools = _first(answer, "tools", "modified_tools")
    if messages is None and tools is None and answer.response is None:
        return None
    own = {"modified_messages": messages, "modified_tools": tools}
    return answer.model_copy(update={**own, "messages": None, "tools": None})


def _prompt(answer: types.HookResult) -> types.HookResult | None:
    prompt = _first(answer, "input", "modified_prompt")
    changed = {"modified_prompt": prompt, "input": None}
    return None if prompt is None else answer.model_copy(update=changed)


def _ready_answer(answer: types.HookResult) -> types.HookResult | None:
    return None if answer.response is None else answer


def _output(answer: types.HookResult) -> Any:
    return answer.output


def _response(answer: types.HookResult) -> Any:
    return _first(answer, "response", "output")
