"""One hook that writes a line about each call of a tool, in the five ways to write a hook.

All five must report the same, and leave the same spans. `otelhooks demo --styles` shows it, and the
tests of each framework compare it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from otelhooks import hooks, policy, types

__all__ = ["STEPS", "STORY", "STYLES", "Note", "Style", "rules"]

Note = Callable[[str], object]
"""Takes a line."""

Style = Callable[[Note, Path], dict[str, Any]]
"""Creates arguments of `otelhooks.instrument` from a note and an empty folder for files."""

STEPS: tuple[Any, ...] = (
    ("view_file", {"path": "notes.txt"}),
    ("run_command", {"CommandLine": "rm -rf build"}),
    ("search", {"query": "rate limits"}),
    "Done.",
)
"""What the scripted model asks for, and its answer."""

STORY = (
    "calls view_file",
    "view_file is done",
    "calls run_command",  # and is denied
    "calls search",
    "search is done",
)
"""What each of them must write."""


def rules() -> list[policy.Policy]:
    """Return a rule for the second call."""
    return [policy.deny("run_command", id="no-shell", reason="No commands here.")]


def decorators(note: Note, folder: Path) -> dict[str, Any]:
    """Decorated functions, one for each point."""

    @hooks.pre_tool_call_decide
    def called(call: types.ToolCall) -> types.HookResult:
        note(f"calls {call.name}")
        return types.HookResult()

    @hooks.post_tool_call
    def done(result: types.ToolResult) -> None:
        note(f"{result.name} is done")

    return {"hooks": [called, done]}


def lifecycle(note: Note, folder: Path) -> dict[str, Any]:
    """One class with a method for each point."""

    class LoggingHook(hooks.LifecycleHook):
        async def pre_tool_call(self, call: types.ToolCall) -> None:
            note(f"calls {call.name}")

        async def post_tool_call(self, result: types.ToolResult) -> None:
            note(f"{result.name} is done")

    return {"hooks": [LoggingHook()]}


def files(note: Note, folder: Path) -> dict[str, Any]:
    """Files in Markdown with a script; their lines are OpenTelemetry's log records."""
    for event, line in (("tool.pre", '"calls " + {}'), ("tool.post", '{} + " is done"')):
        text = f"""\
            ---
            event: {event}
            priority: 1
            script: |
              def handle(event, payload):
                  log.info({line.format('payload["name"]')})
                  return allow()
            ---
            # A line for {event}
            """
        path = folder / f"log_{event.replace('.', '_')}.md"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return {"policies": [folder]}


def tool_bound(note: Note, folder: Path) -> dict[str, Any]:
    """A hook that is bound to tools, at two of the four places of a call."""

    class LoggingHook(hooks.AbstractHook):
        name = "logging"
        relevant_tools = ("*",)

        async def pre_tool_execution_hook(self, context: Any, params: Any, method: str) -> None:
            note(f"calls {method}")

        async def post_secondary_action_hook(self, context: Any, params: Any, method: str) -> None:
            note(f"{method} is done")

    return {"hooks": [LoggingHook()]}


def bundle(note: Note, folder: Path) -> dict[str, Any]:
    """A bundle of functions; with `hooks.observing_hooks` it would be one for all events."""

    def called(call: types.ToolCall) -> None:
        note(f"calls {call.name}")

    def done(result: types.ToolResult) -> None:
        note(f"{result.name} is done")

    return {"hooks": [hooks.Hooks(pre_tool_use=called, post_tool_use=done)]}


STYLES: dict[str, Style] = {
    "decorators": decorators,
    "LifecycleHook": lifecycle,
    "hook files": files,
    "AbstractHook": tool_bound,
    "Hooks": bundle,
}
"""The five ways, by name."""
