# pyright: basic, reportMissingImports=false
"""Middleware that runs what a model asks for by itself, so that no tool is called.

langchain before 1.0.6 and langchain-anthropic before 1.0.4 do so with their shells and editors, in
``wrap_tool_call``. An agent keeps that method from when it was made, so the seats are the methods
below it that do the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otelhooks.frameworks.langchain.builtin import EDITOR, SHELL, Reading, at
from otelhooks.frameworks.langchain.tools import GROUP, ToolRun
from otelhooks.hooks.calls import Call
from otelhooks.patching.patches import Seat
from otelhooks.patching.versions import at_least
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import drive
from otelhooks.pipeline.tool_call import tool

__all__ = ["editor_seats", "shell_seats"]

_SHELL_TOOL = "langchain.agents.middleware.shell_tool"
_FILE_TOOLS = "langchain_anthropic.middleware.anthropic_tools"
_STEPS = ("view", "create", "str_replace", "insert", "delete", "rename")


class _MiddlewareRun(ToolRun):
    """One call that middleware answers itself."""

    group = GROUP

    def __init__(self, name: str, given: Mapping[str, Any], call_id: str | None, what: Reading):
        from langchain_core.tools import Tool

        self._what = what
        super().__init__(Tool(name, None, ""), {**given}, call_id)  # the one it has is never called

    def _read(self, call_id: str | None) -> Call:
        what = self._what
        return Call(
            self.tool.name,
            self._given,
            id=call_id,
            canonical=what.canonical,
            kind=what.kind,
            path=what.path,
            work_dir=what.work_dir,
        )


def run_shell(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard ``ShellToolMiddleware._run_shell_tool(resources, payload, *, tool_call_id)``."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    resources, payload = args
    shell = getattr(instance, "_tool", None)
    seat = _MiddlewareRun(
        "bash" if shell is None else shell.name,
        payload,
        kwargs["tool_call_id"],
        at(SHELL, instance, payload),
    )
    return drive(
        tool(rt, seat, seat.call, ""),
        lambda approved: wrapped(resources, seat.write(approved), **kwargs),
    )


def run_editor(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Guard the steps of editors, such as ``_handle_create(args, [state,] tool_call_id)``."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    given, *further, call_id = args
    what = given
    if given.get("command") == "rename":  # the only step whose own path has another name
        what = {**given, "path": given.get("old_path")}
    seat = _MiddlewareRun(instance.tool_name, given, call_id, at(EDITOR, instance, what))
    return drive(
        tool(rt, seat, seat.call, ""),
        lambda approved: wrapped(seat.write(approved), *further, call_id, **kwargs),
    )


def shell_seats(version: str) -> tuple[Seat, ...]:
    """Return the seats of a release of langchain."""
    if version and at_least(version, "1.0.6"):
        return ()
    target = "ShellToolMiddleware._run_shell_tool"
    return (Seat(_SHELL_TOOL, target, run_shell, required=False),)


def editor_seats(version: str) -> tuple[Seat, ...]:
    """Return the seats of a release of langchain-anthropic."""
    if version and at_least(version, "1.0.4"):
        return ()
    return tuple(
        Seat(_FILE_TOOLS, f"_{kind}ClaudeFileToolMiddleware._handle_{step}", run_editor)
        for kind in ("State", "Filesystem")
        for step in _STEPS
    )
