"""Read and write the tool calls of the OpenAI Agents SDK: function, custom, shell, patch, hand-off.

The model is told of a refusal by the tool's own output, since that is how the SDK tells it of every
tool error; raising would end the run, or lose the text.
"""
# pyright: basic

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from otelhooks.hooks.calls import Call
from otelhooks.instrumentation import _runtime
from otelhooks.instrumentation._drive import adrive
from otelhooks.instrumentation._frames import Op, current_frame
from otelhooks.instrumentation._permit import Handoff
from otelhooks.instrumentation._tool import ToolSeat, tool

__all__ = [
    "call_custom_tool",
    "call_function_tool",
    "call_local_shell",
    "call_patch",
    "call_shell",
    "hand_off",
    "note_failure",
    "note_rejection",
    "refuse_patch",
    "refuse_text",
]

FRAMEWORK = "openai_agents"
_HANDLED = "_function_tool_default_failure_handled"
_TEXT = "input"
_MCP_CLIENT = "mcp.client"
_PATCH_TOOLS = {"create_file": "create_file", "update_file": "edit_file"}


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


class _TextSeat(ToolSeat):
    """A tool whose output is a text, or is shown to the model as one."""

    framework = FRAMEWORK

    def denied(self, call: Call, reason: str) -> Any:
        return reason

    def with_result(self, call: Call, raw: Any, value: Any) -> Any:
        return value if isinstance(value, (str, type(raw))) else str(value)

    def recovered(self, call: Call, value: Any) -> Any:
        return value if isinstance(value, str) else str(value)


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
        tool = call.tool
        is_told = getattr(tool, "_use_default_failure_error_function", True)
        if call.failure is None and not is_told and tool._failure_error_function is None:
            return super().failed(call, error, message)
        return self.denied(call, message)

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
        tool_call = getattr(call.given, "tool_call", None)
        if not call.canonical or tool_call is None:
            return False
        state = sys.modules["agents.agent_tool_state"]
        scope = state.get_agent_tool_state_scope(call.given)
        result = state.peek_agent_tool_run_result(tool_call, scope_id=scope)
        return bool(getattr(result, "interruptions", None))


_FUNCTION = _FunctionSeat()


def read_arguments(text: Any) -> dict[str, Any]:
    """Return the arguments in a model's text; a text that is no JSON object as one argument."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return {_TEXT: text}
    return found if isinstance(found, dict) else {_TEXT: text}


def write_arguments(call: Call, text: Any, args: dict[str, Any]) -> Any:
    """Return a model's text as it was, or one with the arguments that hooks wrote."""
    if not call.version:
        return text
    is_plain = read_arguments(text).keys() == {_TEXT} and not _is_object(text)
    return args[_TEXT] if is_plain and args.keys() == {_TEXT} else json.dumps(args)


def _is_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def mcp_origin(raw: Any) -> tuple[Any, Any] | None:
    """Return server and tool behind an MCP tool's function, which the SDK binds to them."""
    bound = getattr(raw, "_invoke_tool_impl", None)
    if not isinstance(bound, functools.partial) or len(bound.args) < 2:
        return None
    is_mcp = getattr(bound.func, "__name__", "") == "invoke_mcp_tool"
    return (bound.args[0], bound.args[1]) if is_mcp else None


def read_function_call(raw: Any, tool: Any, context: Any, text: Any) -> AgentsCall:
    """Read a call of a function tool."""
    name = tool.name
    call = AgentsCall(
        name,
        read_arguments(text),
        context,
        tool,
        id=getattr(context, "tool_call_id", None),
        raw=text,
        agent=_agent_name(context),
        description=tool.description,
    )
    origin = mcp_origin(raw)
    if origin is not None:
        server, there = origin
        call.name = there.name
        call.server = call.mcp_server = server.name
        if name != there.name:  # a prefix: rules may deny by the name that the model sees
            call.canonical = (name,)
    elif getattr(tool, "_is_agent_tool", False):
        call.canonical = ("invoke_subagent",)
    return call


def _agent_name(context: Any) -> str:
    name = getattr(getattr(context, "agent", None), "name", "")
    return name if isinstance(name, str) else ""


def _conversation(context: Any) -> str:
    group = getattr(getattr(context, "run_config", None), "group_id", None)
    return group if isinstance(group, str) else ""


def _is_answer_form(raw: Any) -> bool:
    """Say whether a function is the SDK's own way to carry a structured answer: no tool."""
    name = getattr(raw, "__qualname__", "")
    is_sdk = getattr(raw, "__module__", "").startswith("agents.run_internal.")
    return is_sdk and "build_litellm_json_tool_call" in name


def call_function_tool(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `FunctionTool.on_invoke_tool`."""
    rt = _runtime.active()
    given = inspect.signature(_invoke).bind(*args, **kwargs).args if kwargs else args
    if rt is None or len(given) != 2 or _is_answer_form(wrapped):
        return wrapped(*args, **kwargs)
    context, text = given
    call = read_function_call(wrapped, instance, context, text)

    async def body(approved: dict[str, Any]) -> Any:
        written = write_arguments(call, text, approved)
        if written is not text and hasattr(context, "_function_tool_arguments"):
            context._function_tool_arguments = None  # parsed from the text before
        return await wrapped(context, written)

    return adrive(tool(rt, _FUNCTION, call, _conversation(context)), body)


def _invoke(ctx: Any, input: Any) -> None:
    """Have the parameters of a tool's function, for callers that give them by name."""


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


def mark_judged(call_id: str | None) -> None:
    """Note that a call that the model asked for is not run, by the framework's own decision."""
    frame = current_frame()
    if frame is not None and frame.turn is not None:
        frame.turn.judged(call_id)


# -- custom tools -----------------------------------------------------------------------------


class _CustomSeat(_TextSeat):
    pass


_CUSTOM = _CustomSeat()


def call_custom_tool(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `CustomTool.on_invoke_tool`, whose one argument is a plain text."""
    rt = _runtime.active()
    given = inspect.signature(_invoke).bind(*args, **kwargs).args if kwargs else args
    if rt is None or len(given) != 2:
        return wrapped(*args, **kwargs)
    context, text = given
    call = AgentsCall(
        instance.name,
        {_TEXT: text},
        context,
        instance,
        id=getattr(context, "tool_call_id", None),
        raw=text,
        agent=_agent_name(context),
        description=instance.description,
    )
    body = _awaiting(lambda approved: wrapped(context, approved[_TEXT]))
    return adrive(tool(rt, _CUSTOM, call, _conversation(context)), body)


def _awaiting(body: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    """Return a body as a coroutine function, whatever it is."""

    async def run(approved: Any) -> Any:
        value = body(approved)
        return await value if inspect.isawaitable(value) else value

    return run


# -- shells -----------------------------------------------------------------------------------


class _ShellSeat(_TextSeat):
    """`ShellTool`: a request with commands."""


_SHELL = _ShellSeat()


def call_shell(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `ShellTool.executor`."""
    rt = _runtime.active()
    if rt is None or len(args) != 1 or kwargs:
        return wrapped(*args, **kwargs)
    request = args[0]
    action = request.data.action
    call = _shell_call(instance, request, _without_none(dataclasses.asdict(action)))

    def body(approved: dict[str, Any]) -> Any:
        if not call.version:
            return wrapped(request)
        changed = dataclasses.replace(action, **approved)
        data = dataclasses.replace(request.data, action=changed)
        return wrapped(dataclasses.replace(request, data=data))

    return adrive(tool(rt, _SHELL, call), _awaiting(body))


def call_local_shell(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `LocalShellTool.executor`."""
    rt = _runtime.active()
    if rt is None or len(args) != 1 or kwargs:
        return wrapped(*args, **kwargs)
    request = args[0]
    action = request.data.action
    call = _shell_call(instance, request, action.model_dump(exclude_none=True, exclude={"type"}))

    def body(approved: dict[str, Any]) -> Any:
        if not call.version:
            return wrapped(request)
        changed = action.model_copy(update=approved)
        data = request.data.model_copy(update={"action": changed})
        return wrapped(dataclasses.replace(request, data=data))

    return adrive(tool(rt, _SHELL, call), _awaiting(body))


def _shell_call(shell: Any, request: Any, args: dict[str, Any]) -> AgentsCall:
    return AgentsCall(
        shell.name,
        args,
        request,
        shell,
        id=request.data.call_id,
        canonical=("run_command",),
        kind="shell",
    )


def _without_none(args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if value is not None}


# -- patches ----------------------------------------------------------------------------------


class _PatchSeat(ToolSeat):
    """`ApplyPatchTool`: an editor's operation on one file."""

    framework = FRAMEWORK

    def denied(self, call: Call, reason: str) -> Any:
        return patch_result("failed", reason)

    def result(self, call: Call, raw: Any) -> Any:
        return getattr(raw, "output", raw)

    def with_result(self, call: Call, raw: Any, value: Any) -> Any:
        return patch_result(getattr(raw, "status", None) or "completed", str(value))

    def error(self, call: Call, raw: Any) -> str | None:
        if getattr(raw, "status", None) != "failed":
            return None
        return getattr(raw, "output", None) or "the patch failed"

    def failed(self, call: Call, error: BaseException, message: str) -> Any:
        return patch_result("failed", message)

    def recovered(self, call: Call, value: Any) -> Any:
        return patch_result("completed", str(value))


_PATCH = _PatchSeat()


def patch_result(status: str, text: str) -> Any:
    """Return an editor's result with a text for the model."""
    return sys.modules["agents.editor"].ApplyPatchResult(status=status, output=text)


def call_patch(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of the methods of `ApplyPatchTool.editor`."""
    rt = _runtime.active()
    if rt is None or len(args) != 1 or kwargs:
        return wrapped(*args, **kwargs)
    operation = args[0]
    names = ("type", "path", "diff", "move_to")
    found = _without_none({name: getattr(operation, name, None) for name in names})
    canonical = _PATCH_TOOLS.get(operation.type)
    call = AgentsCall(
        instance.name,
        found,
        operation,
        instance,
        canonical=(canonical,) if canonical else (),
        kind="file_write",
        path=operation.path,
    )

    def body(approved: dict[str, Any]) -> Any:
        changed = dataclasses.replace(operation, **approved) if call.version else operation
        return wrapped(changed)

    return adrive(tool(rt, _PATCH, call), _awaiting(body))


# -- hand-offs --------------------------------------------------------------------------------


class _HandoffSeat(ToolSeat):
    """A hand-off: the run goes on with another agent, or with the same one if it is refused."""

    framework = FRAMEWORK

    def denied(self, call: AgentsCall, reason: str) -> Any:  # type: ignore[override]
        return not_handed_off(call.given, reason)

    def result(self, call: Call, raw: Any) -> Any:
        return getattr(getattr(raw.next_step, "new_agent", None), "name", None)

    def with_result(self, call: AgentsCall, raw: Any, value: Any) -> Any:  # type: ignore[override]
        return raw  # which agent goes on is no text that could be replaced

    def recovered(self, call: AgentsCall, value: Any) -> Any:  # type: ignore[override]
        return not_handed_off(call.given, str(value))


_HANDOFF = _HandoffSeat()


def not_handed_off(given: Mapping[str, Any], text: str) -> Any:
    """Return the step that tells the model a text in the place of each hand-off it asked for."""
    items = sys.modules["agents.items"]
    steps = sys.modules["agents.run_internal.run_steps"]
    agent = given.get("public_agent") or given["agent"]
    told = [
        items.ToolCallOutputItem(
            output=text,
            raw_item=items.ItemHelpers.tool_call_output_item(run.tool_call, text),
            agent=agent,
        )
        for run in given["run_handoffs"]
    ]
    return steps.SingleStepResult(
        original_input=given["original_input"],
        model_response=given["new_response"],
        pre_step_items=given["pre_step_items"],
        new_step_items=[*given["new_step_items"], *told],
        next_step=steps.NextStepRunAgain(),
        tool_input_guardrail_results=given.get("tool_input_guardrail_results") or [],
        tool_output_guardrail_results=given.get("tool_output_guardrail_results") or [],
    )


def hand_off(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of the hand-off: the first one that the model asked for; the SDK ignores others."""
    rt = _runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    first, *others = kwargs["run_handoffs"]
    for other in others:
        mark_judged(other.tool_call.call_id)
    text = first.tool_call.arguments
    call = AgentsCall(
        first.handoff.tool_name,
        read_arguments(text),
        kwargs,
        first.handoff,
        id=first.tool_call.call_id,
        raw=text,
        agent=(kwargs.get("public_agent") or kwargs["agent"]).name,
        description=first.handoff.tool_description,
    )

    async def body(approved: dict[str, Any]) -> Any:
        if call.version:
            asked = first.tool_call.model_copy(
                update={"arguments": write_arguments(call, text, approved)}
            )
            changed = dataclasses.replace(first, tool_call=asked)
            return await wrapped(**{**kwargs, "run_handoffs": [changed, *others]})
        return await wrapped(*args, **kwargs)

    return adrive(tool(rt, _HANDOFF, call), body)


# -- refusal of a version that cannot be guarded -----------------------------------------------


def refuse_text(
    error: BaseException,
    wrapped: Callable[..., Any],
    instance: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Answer a call of a tool with the reason why this version is refused."""
    return _soon(str(error))


def refuse_patch(
    error: BaseException,
    wrapped: Callable[..., Any],
    instance: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Answer an editor's operation with the reason why this version is refused."""
    return patch_result("failed", str(error))


async def _soon(value: Any) -> Any:
    return value
