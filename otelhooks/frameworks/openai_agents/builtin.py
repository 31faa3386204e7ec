"""Read and write calls of the SDK's built-in tools: shells, patches, the computer."""
# pyright: basic

from __future__ import annotations

import contextvars
import dataclasses
import sys
from collections.abc import Callable
from typing import Any

from otelhooks.frameworks.openai_agents.answers import id_of
from otelhooks.frameworks.openai_agents.builtin_kinds import patch_names
from otelhooks.frameworks.openai_agents.calls import (
    FRAMEWORK,
    AgentsCall,
    TextSeat,
    awaiting,
    in_order,
    without_none,
)
from otelhooks.hooks.calls import Call
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import adrive
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat

__all__ = [
    "SHELL",
    "call_computer",
    "call_local_shell",
    "call_patch",
    "call_shell",
    "note_patch",
    "refuse_patch",
]

SHELL: dict[str, Any] = {"canonical": ("run_command",), "kind": "shell"}
"""What rules may know every shell by."""

# -- shells -----------------------------------------------------------------------------------


class _ShellSeat(TextSeat):
    """`ShellTool`: a request with commands."""


_SHELL = _ShellSeat()


def call_shell(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `ShellTool.executor`."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    (request,) = in_order(wrapped, args, kwargs, 1)
    action = request.data.action
    call = _shell_call(instance, request, without_none(dataclasses.asdict(action)))

    def body(approved: dict[str, Any]) -> Any:
        if not call.version:
            return wrapped(request)
        changed = dataclasses.replace(action, **approved)
        data = dataclasses.replace(request.data, action=changed)
        return wrapped(dataclasses.replace(request, data=data))

    return adrive(tool(rt, _SHELL, call), awaiting(body))


def call_local_shell(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `LocalShellTool.executor`."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    (request,) = in_order(wrapped, args, kwargs, 1)
    action = request.data.action
    call = _shell_call(instance, request, action.model_dump(exclude_none=True, exclude={"type"}))

    def body(approved: dict[str, Any]) -> Any:
        if not call.version:
            return wrapped(request)
        changed = action.model_copy(update=approved)
        data = request.data.model_copy(update={"action": changed})
        return wrapped(dataclasses.replace(request, data=data))

    return adrive(tool(rt, _SHELL, call), awaiting(body))


def _shell_call(shell: Any, request: Any, args: dict[str, Any]) -> AgentsCall:
    return AgentsCall(
        shell.name,
        args,
        request,
        shell,
        id=request.data.call_id,
        **SHELL,
    )


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


_patch_call: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "otelhooks-openai-agents-patch", default=None
)


async def note_patch(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `ApplyPatchAction.execute`: remember the call's id, which an operation has not."""
    asked = getattr(kwargs.get("call"), "tool_call", None)
    token = _patch_call.set(id_of(asked) or None)
    try:
        return await wrapped(*args, **kwargs)
    finally:
        _patch_call.reset(token)


def call_patch(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of the methods of `ApplyPatchTool.editor`."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    (operation,) = in_order(wrapped, args, kwargs, 1)
    names = ("type", "path", "diff", "move_to")
    found = without_none({name: getattr(operation, name, None) for name in names})
    call = AgentsCall(
        instance.name,
        found,
        operation,
        instance,
        id=_patch_call.get(),
        canonical=patch_names((operation,)),
        kind="file_write",
        path=operation.path,
    )

    def body(approved: dict[str, Any]) -> Any:
        changed = dataclasses.replace(operation, **approved) if call.version else operation
        return wrapped(changed)

    return adrive(tool(rt, _PATCH, call), awaiting(body))


def refuse_patch(
    error: BaseException,
    wrapped: Callable[..., Any],
    instance: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Answer an editor's operation with the reason why this version is refused."""
    return patch_result("failed", str(error))


# -- computer ---------------------------------------------------------------------------------


class _ComputerSeat(ToolSeat):
    """`ComputerTool`: actions on a screen. A refusal ends the run: its output holds no text."""

    framework = FRAMEWORK


_COMPUTER = _ComputerSeat()


def call_computer(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `ComputerAction.execute`: one call of the model, with one action or several."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    run = kwargs["action"]
    asked = run.tool_call
    actions = getattr(asked, "actions", None) or [asked.action]
    call = AgentsCall(
        run.computer_tool.name,
        {"actions": [action.model_dump(exclude_none=True) for action in actions]},
        run,
        run.computer_tool,
        id=asked.call_id,
        agent=kwargs["agent"].name,
    )

    async def body(approved: dict[str, Any]) -> Any:
        if not call.version:
            return await wrapped(*args, **kwargs)
        pairs = zip(actions, approved["actions"], strict=True)
        changed = [action.model_copy(update=other) for action, other in pairs]
        is_list = getattr(asked, "actions", None)
        update = {"actions": changed} if is_list else {"action": changed[0]}
        tool_call = asked.model_copy(update=update)
        return await wrapped(
            *args, **{**kwargs, "action": dataclasses.replace(run, tool_call=tool_call)}
        )

    return adrive(tool(rt, _COMPUTER, call), body)
