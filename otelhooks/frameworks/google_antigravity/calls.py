"""Tool calls: what the harness asks before and after each, and the Python tools that run here.

Built-in tools and those of servers run in the harness: when it reports their end, nothing can be
changed any more.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import json
from typing import Any

from otelhooks.frameworks.google_antigravity import agents
from otelhooks.frameworks.google_antigravity.harness import Harness, SubRun
from otelhooks.frameworks.kit.objects import overrides
from otelhooks.frameworks.kit.remote import asked

__all__ = ["PythonCall", "after_call", "after_error", "before_call", "run_python_tool"]

_PYTHON = "google_antigravity.python"
_INSIDE, _NAMED = "Arguments", {"ServerName": "server_name", "ToolName": "name"}
_TAKEN_BACK = "The turn was stopped, since a tool's result was taken back."


class _Asked(asked.AskedCall):
    """A call as the harness asks about it; this one is of a Python tool.

    Attributes:
        envelope: The arguments of a call of ``call_mcp_tool``, which contain those of this
            call; None if they are the call's own.
        is_text: Whether they are text there: the harness then gets what we have read in it.
    """

    envelope: dict[str, Any] | None = None
    is_text = False

    def of(self, given: Any, harness: Any) -> None:
        self.loop, self.id, self.name = harness, given.id, given.name
        self.key, _, _ = (given.step_id or "").rpartition(":")  # trajectory:index
        self.path = given.canonical_path
        self.args = dict(given.args)
        if not self.is_remote:
            self.goes_to(_PYTHON, self.name)

    def objection(self) -> Any:
        """Return the rules that refuse the start of agents whose calls would not be asked for."""
        return agents.objection(self)

    def written(self) -> dict[str, Any] | None:
        """Return the arguments that the harness must use instead of its own, or None."""
        if not self.version and not self.is_text:
            return None
        if self.envelope:
            return {**self.envelope, _INSIDE: self.approved}
        return dict(self.approved)


class _HarnessCall(asked.RemoteCall, _Asked):
    """A call of a built-in tool, or of a server's."""

    def of(self, given: Any, harness: Any) -> None:
        """Read it; a built-in tool gets its current name."""
        super().of(given, harness)
        self._unpack(given)
        servers = harness.facts.servers if harness is not None else {}
        if given.server_name:
            self.named_at(given.server_name, servers.get(given.server_name))
        else:
            self.name = agents.TABLE.name_today(self.name)
            self.kind = agents.KINDS.get(self.name)
            self.tool_type = "extension"

    def _unpack(self, given: Any) -> None:
        """Take the arguments inside those of ``call_mcp_tool``.

        The model calls tools of servers through that tool unless it was offered each one
        separately; the harness reports server and tool of it, and passes on what is inside.
        """
        args, inside = self.args, self.args.get(_INSIDE)
        is_other = any(args.get(key) != getattr(given, name) for key, name in _NAMED.items())
        if not given.server_name or is_other or args.keys() != {_INSIDE, *_NAMED}:
            return
        is_text = isinstance(inside, str)
        if is_text:
            with contextlib.suppress(ValueError):  # then rules see the text as it is
                inside = json.loads(inside)
        if isinstance(inside, dict):
            self.args, self.envelope, self.is_text = inside, args, is_text

    def starts_agent(self) -> bool:
        """Return whether it starts agents, under their current name."""
        return self.name == agents.INVOKE and self.server is None

    def starts(self) -> list[Any]:
        entries = (self.approved.get("Subagents") or ()) if self.starts_agent() else ()
        given = [entry if isinstance(entry, dict) else {} for entry in entries]
        return [
            SubRun.of(str(one.get("TypeName") or "self"), str(one.get("Prompt") or ""), self.key)
            for one in given
        ]


async def before_call(wrapped: Any, runner: Any, turn_context: Any, tool_call: Any) -> Any:
    """Listen to ``HookRunner.dispatch_pre_tool_call``: after the application's own hooks."""
    found = await wrapped(turn_context, tool_call)
    result, given, _ = found
    harness = Harness.of(runner)
    is_python = harness is not None and given.name in harness.facts.python_tools
    call = _Asked() if is_python and not given.server_name else _HarnessCall()
    call.of(given, harness)
    if not result.allow:
        if harness is not None:
            harness.denied(call.id, call.key)
        return found
    reason, changes = await call.ask(), {}
    if reason is not None:
        changes = {"allow": False, "message": reason, "modified_args": None}
    elif (written := call.written()) is not None:
        changes = {"modified_args": written}
    return (result.model_copy(update=changes), *found[1:]) if changes else found


async def after_call(wrapped: Any, runner: Any, op_context: Any, result: Any) -> None:
    """Listen to ``HookRunner.dispatch_post_tool_call``."""
    await wrapped(op_context, result)
    harness = Harness.of(runner)
    if harness is not None and await harness.returned(getattr(result, "id", None), result.result):
        await harness.close_for(_TAKEN_BACK)


async def after_error(wrapped: Any, runner: Any, op_context: Any, error: Any) -> Any:
    """Listen to ``HookRunner.dispatch_on_tool_error``: another text, but always an error."""
    given = await wrapped(op_context, error)
    harness = Harness.of(runner)
    if harness is None:
        return given
    text = await harness.failed(getattr(error, "call_id", None), error)
    return given if text is None else (given[0].model_copy(update={"allow": True}), text)


async def run_python_tool(wrapped: Any, processor: Any, tool_call: Any) -> Any:
    """Listen to ``LocalHarnessEventProcessor.handle_tool_call``: remember the call's origin."""
    harness = Harness.of(processor)
    if harness is not None:
        harness.serve(tool_call.id, tool_call.trajectory_id)
    return await wrapped(tool_call)


class PythonCall(asked.OwnCall):
    """A call of ``ToolRunner.execute``, or of an override: every Python tool runs through it."""

    group = _PYTHON

    def read(self, runner: Any, /, tool_name: str, **given: Any) -> None:
        self.name, self.is_known = tool_name, tool_name in runner.tool_names
        if overrides.Method(runner, "execute").calls_on(self.function):
            self.goes_to(_PYTHON, tool_name)
        self.take_for(Harness.of(runner), given)

    async def call(self, wrapped: Any, args: Any) -> Any:
        return await wrapped(self.name, **args)
