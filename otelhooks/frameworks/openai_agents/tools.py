"""Read and write calls of function tools and custom tools of the OpenAI Agents SDK.

The model is told of a refusal by the tool's own output, since that is how the SDK tells it of every
tool error; raising would end the run, or lose the text.
"""
# pyright: basic

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from otelhooks.frameworks.openai_agents.builtin_kinds import known, patch_names
from otelhooks.frameworks.openai_agents.calls import (
    FRAMEWORK,
    TEXT,
    AgentsCall,
    TextSeat,
    agent_name,
    awaiting,
    conversation,
    in_order,
    mark_judged,
    read_arguments,
    write_arguments,
)
from otelhooks.hooks.calls import Call
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import adrive
from otelhooks.pipeline.frames import Op, current_frame
from otelhooks.pipeline.permits import Handoff
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat

__all__ = [
    "call_custom_tool",
    "call_function_tool",
    "locate",
    "note_failure",
    "note_rejection",
    "refuse_text",
]

_HANDLED = "_function_tool_default_failure_handled"
_MCP_CLIENT = "mcp.client"


# -- function tools ---------------------------------------------------------------------------


class _FunctionSeat(ToolSeat):
    """`FunctionTool`: an asynchronous function of tool context and JSON text."""

    framework = FRAMEWORK

    def denied(self, call: AgentsCall, reason: str) -> Any:  # type: ignore[override]
        setattr(call.given, _HANDLED, True)  # else a declared output schema ends the run
        return reason

    def error(self, call: AgentsCall, raw: Any) -> Exception | None:  # type: ignore[override]
        return call.failure

    def failed(self, call: AgentsCall, error: BaseException, message: str) -> Any:  # type: ignore[override]
        if call.failure is not None or call.op.failure is not None:
            return message  # the SDK has made a text of it, which the model is to be shown
        return super().failed(call, error, message)

    def with_result(self, call: AgentsCall, raw: Any, value: Any) -> Any:  # type: ignore[override]
        if isinstance(value, str) and not isinstance(raw, str):
            setattr(call.given, _HANDLED, True)
        return value

    def recovered(self, call: AgentsCall, value: Any) -> Any:  # type: ignore[override]
        return value

    def handoff(self, call: AgentsCall) -> Handoff | None:  # type: ignore[override]
        if call.mcp_server is None:
            return None
        return Handoff(_MCP_CLIENT, call.name, call.mcp_server)

    def is_paused(self, call: AgentsCall, raw: Any) -> bool:  # type: ignore[override]
        """Say whether an agent that is a tool waits for an approval: it runs again after it."""
        if not call.canonical:
            return False
        tool_call = getattr(call.given, "tool_call", None)
        if tool_call is None:
            return False
        state = sys.modules["agents.agent_tool_state"]
        scope = state.get_agent_tool_state_scope(call.given)
        result = state.peek_agent_tool_run_result(tool_call, scope_id=scope)
        return bool(getattr(result, "interruptions", None))


_FUNCTION = _FunctionSeat()


def mcp_origin(raw: Any) -> tuple[Any, Any] | None:
    """Return server and tool behind an MCP tool's function, which the SDK binds to them."""
    bound = getattr(raw, "_invoke_tool_impl", None)
    if not isinstance(bound, functools.partial) or len(bound.args) < 2:
        return None
    is_mcp = getattr(bound.func, "__name__", "") == "invoke_mcp_tool"
    return (bound.args[0], bound.args[1]) if is_mcp else None


def read_function_call(raw: Any, tool: Any, context: Any, text: Any) -> AgentsCall:
    """Read a call of a function tool."""
    call = AgentsCall(
        tool.name,
        read_arguments(text),
        context,
        tool,
        id=getattr(context, "tool_call_id", None),
        raw=text,
        agent=agent_name(context),
        description=tool.description,
    )
    call.mcp_server = locate(call, raw, tool)
    return call


def locate(call: Call, raw: Any, tool: Any) -> str | None:
    """Say in a call of a function tool what it is: a server's, an agent, or one of the SDK's own.

    Args:
        call: Has the name that the model sees.
        raw: The tool's function.
        tool: The SDK's tool.

    Returns:
        The server's name, None where no server runs the tool.
    """
    origin = mcp_origin(raw)
    if origin is None:
        if getattr(tool, "_is_agent_tool", False):
            call.canonical = ("invoke_subagent",)
        elif (built_in := known(tool, raw)) is not None:
            call.canonical, call.kind = built_in.canonical, built_in.kind
        return None
    server, there = origin
    if call.name != there.name:  # a prefix: rules may deny by the name that the model sees
        call.canonical = (call.name,)
    call.name, call.server = there.name, server.name
    return server.name


def _is_answer_form(raw: Any) -> bool:
    """Say whether a function is the SDK's own way to carry a structured answer: no tool."""
    if "build_litellm_json_tool_call" not in getattr(raw, "__qualname__", ""):
        return False
    return getattr(raw, "__module__", "").startswith("agents.run_internal.")


def call_function_tool(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `FunctionTool.on_invoke_tool`."""
    rt = runtime.active()
    if rt is None or _is_answer_form(wrapped):
        return wrapped(*args, **kwargs)
    context, text = in_order(wrapped, args, kwargs, 2)
    call = read_function_call(wrapped, instance, context, text)

    def body(approved: dict[str, Any]) -> Any:
        written = write_arguments(call, text, approved)
        if written is not text and hasattr(context, "_function_tool_arguments"):
            context._function_tool_arguments = None  # parsed from the text before
        return wrapped(context, written)

    return adrive(tool(rt, _FUNCTION, call, conversation(context)), body)


async def note_failure(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of the function that makes a text of a tool's exception: keep the exception."""
    text = await wrapped(*args, **kwargs)
    frame = current_frame()
    call = frame.call if isinstance(frame, Op) else None
    error = kwargs.get("error")
    if text is not None and isinstance(call, AgentsCall) and isinstance(error, Exception):
        if call.given is kwargs.get("context"):
            call.failure = error
    return text


async def note_rejection(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of the user's own guardrails: a call that they reject never reaches its tool."""
    rejected = await wrapped(*args, **kwargs)
    if rejected is not None:
        mark_judged(getattr(kwargs.get("tool_context"), "tool_call_id", None))
    return rejected


# -- custom tools -----------------------------------------------------------------------------


class _CustomSeat(TextSeat):
    pass


_CUSTOM = _CustomSeat()


def call_custom_tool(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `CustomTool.on_invoke_tool`, whose one argument is a plain text."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    context, text = in_order(wrapped, args, kwargs, 2)
    call = AgentsCall(
        instance.name,
        {TEXT: text},
        context,
        instance,
        id=getattr(context, "tool_call_id", None),
        raw=text,
        agent=agent_name(context),
        description=instance.description,
    )
    classify_custom(call, wrapped, instance)
    body = awaiting(lambda approved: wrapped(context, approved[TEXT]))
    return adrive(tool(rt, _CUSTOM, call, conversation(context)), body)


def classify_custom(call: Call, raw: Any, tool: Any) -> None:
    """Say in a call of a custom tool what it is, if it is one of the SDK's own.

    Args:
        call: Without a text where the tool is only offered.
        raw: The tool's function.
        tool: The SDK's tool.
    """
    built_in = known(tool, raw)
    if built_in is None:
        return
    call.canonical, call.kind = built_in.canonical, built_in.kind
    if built_in.kind == "file_write":
        call.canonical = patch_names(_operations(raw, tool, call.args.get(TEXT)))


def _operations(raw: Any, tool: Any, text: Any) -> Any:
    """Return what a patch does, as the tool itself reads it; None where it reads nothing."""
    owner: Any = tool if hasattr(tool, "parse_custom_input") else getattr(raw, "__self__", None)
    try:
        return owner.parse_custom_input(text)
    except Exception:  # the tool will say what is wrong with it
        return None


def refuse_text(
    error: BaseException,
    wrapped: Callable[..., Any],
    instance: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Answer a call of a tool with the reason why this version is refused."""
    return _soon(str(error))


async def _soon(value: Any) -> Any:
    return value
