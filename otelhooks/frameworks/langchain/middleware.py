# pyright: basic
"""Middleware that itself runs what a model asks for, so that no tool is called.

langchain before 1.0.6 and langchain-anthropic before 1.0.4 do so with their shells and editors, in
``wrap_tool_call``. An agent keeps that method from its creation, so the seats are the methods below
it that do the work.
"""

from __future__ import annotations

from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.langchain.builtin import EDITOR, SHELL, place
from otelhooks.frameworks.langchain.tools import ToolRun

__all__ = ["EDITORS", "SHELLS"]

_SHELL = "langchain.agents.middleware.shell_tool:ShellToolMiddleware._run_shell_tool"
_EDITS = (
    "langchain_anthropic.middleware.anthropic_tools:_(State|Filesystem)ClaudeFileToolMiddleware"
)
_STEPS = "_handle_(view|create|str_replace|insert|delete|rename)"


class _Answered(ToolRun):
    """One call that middleware answers itself."""

    def as_tool(self, middleware: Any, name: str, id: str | None, args: Any) -> None:
        """Read it as a call of the tool that is never called."""
        self.owner, self.id, self.args, self.hidden = middleware, id, {**args}, {}
        self.name = self.title = name

    def next_seat(self) -> None:
        """Return None: there is no deeper seat on the way."""


class _ShellRun(_Answered):
    """One command of a shell."""

    def read(self, middleware: Any, resources: Any, payload: Any, **further: Any) -> None:
        """Read ``ShellToolMiddleware._run_shell_tool``."""
        self.resources, self.further = resources, further
        shell = getattr(middleware, "_tool", None)
        name = "bash" if shell is None else shell.name
        self.as_tool(middleware, name, further["tool_call_id"], payload)
        place(self, SHELL, middleware, payload)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(self.resources, args, **self.further)


class _EditorRun(_Answered):
    """One step of an editor."""

    def read(self, middleware: Any, args: Any, *rest: Any, **further: Any) -> None:
        """Read a step such as ``_handle_create(args, [state,] tool_call_id)``."""
        self.rest, self.further = rest, further
        self.as_tool(middleware, middleware.tool_name, rest[-1], args)
        if args.get("command") == "rename":  # the only step whose own path has another name
            args = {**args, "path": args.get("old_path")}
        place(self, EDITOR, middleware, args)


SHELLS = (kit.seat(_SHELL, _ShellRun, required=False, until="1.0.6"),)
EDITORS = (kit.seat(f"{_EDITS}.{_STEPS}", _EditorRun, until="1.0.4"),)
