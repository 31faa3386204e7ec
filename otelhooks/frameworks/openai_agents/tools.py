"""Calls of tools of the OpenAI Agents SDK: functions, built-in tools, hand-offs.

The model learns of a refusal from the tool's own output, as the SDK reports every tool error;
raising would end the run, or lose the text.
"""
# pyright: basic

from __future__ import annotations

import dataclasses
import functools
from contextvars import ContextVar
from typing import Any, cast

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.contents import field
from otelhooks.frameworks.kit.objects import outer
from otelhooks.frameworks.kit.values import plain, with_fields
from otelhooks.frameworks.openai_agents.builtin import TABLE, patch_names

__all__ = [
    "ComputerCall",
    "CustomCall",
    "FunctionCall",
    "HandOff",
    "HandOffFunction",
    "PatchCall",
    "ShellCall",
    "locate",
    "may_pause",
    "note_failure",
    "note_patch",
    "note_rejection",
]

_TEXT = "input"
_HANDLED = "_function_tool_default_failure_handled"
_ANSWER_FORM = "build_litellm_json_tool_call"
_INVOKE = "openai_agents.handoff"

# -- function tools ---------------------------------------------------------------------------


class Tool(kit.ToolCall):
    """What all seats of tools share."""

    text_name = _TEXT
    given: Any
    """What the SDK passed in: the tool context, a request, an operation."""

    def within(self, context: Any, name: str, description: str) -> None:
        """Read a call of a tool, and what the SDK's context contains about it."""
        self.given, self.name, self.description = context, name, description
        self.id = getattr(context, "tool_call_id", None)
        agent = getattr(getattr(context, "agent", None), "name", "")
        self.agent = agent if isinstance(agent, str) else ""
        group = getattr(getattr(context, "run_config", None), "group_id", None)
        self.conversation = group if isinstance(group, str) else ""


class FunctionCall(Tool):
    """`FunctionTool`: an asynchronous function of tool context and JSON text."""

    failure: Exception | None = None
    """What the tool raised, if the SDK has already turned it into text."""

    def read(self, tool: Any, context: Any, text: Any) -> Any:
        """Read ``FunctionTool.on_invoke_tool``."""
        function = self.function
        is_form = _ANSWER_FORM in getattr(function, "__qualname__", "")
        if is_form and getattr(function, "__module__", "").startswith("agents.run_internal."):
            return kit.SKIP  # the SDK's own way to carry a structured answer, not a tool
        self.within(context, tool.name, tool.description)
        self.take(text)
        locate(self, function, tool)
        return None

    def call(self, wrapped: Any, args: Any) -> Any:
        context = self.given
        if args is not self.raw and hasattr(context, "_function_tool_arguments"):
            context._function_tool_arguments = None  # it was parsed from the old text
        return wrapped(context, args)

    def puts_off(self, reason: str) -> Any:
        """Return what `may_pause` knows, for the call that it runs."""
        return _Paused(reason) if self.id is not None and _pausable.get() == self.id else None

    def denied(self, reason: str) -> Any:
        setattr(self.given, _HANDLED, True)  # otherwise a declared output schema ends the run
        return reason

    def error(self, raw: Any) -> Exception | None:
        """Return the exception that the SDK turned into text."""
        return self.failure

    def with_value(self, raw: Any, value: Any) -> Any:
        """Return another output; a text even if a schema was declared."""
        if isinstance(value, str) and not isinstance(raw, str):
            setattr(self.given, _HANDLED, True)
        return value

    def is_paused(self, raw: Any) -> bool:
        """Return whether an agent as a tool waits for an approval: it runs again afterwards."""
        asked = getattr(self.given, "tool_call", None)
        if "invoke_subagent" not in self.canonical or asked is None:
            return False
        state = "agents.agent_tool_state"
        scope = kit.native(f"{state}:get_agent_tool_state_scope")(self.given)
        result = kit.native(f"{state}:peek_agent_tool_run_result")(asked, scope_id=scope)
        return bool(getattr(result, "interruptions", None))


_pausable: ContextVar[str | None] = ContextVar("otelhooks-openai-agents-pausable", default=None)


class _Paused(Exception):
    """A call waits for people, and its run pauses."""


async def may_pause(wrapped: Any, owner: Any, **given: Any) -> Any:
    """Make of a call that is put off what the SDK makes of one that needs an approval."""
    tool, asked = given["func_tool"], given["tool_context"].tool_call
    token = _pausable.set(asked.call_id)
    try:
        return await wrapped(**given)
    except _Paused:
        noted = getattr(owner.context_wrapper, "_tool_invocations", {}).get(asked.call_id)
        if noted is not None:
            noted.executed = False  # or the SDK would refuse to run it later
        agent = getattr(owner, "public_agent", None) or owner.agent
        item = kit.native("agents.items:ToolApprovalItem")(agent, asked, tool.name)
        return kit.native("agents.tool:FunctionToolResult")(tool, None, item)
    finally:
        _pausable.reset(token)


def locate(call: kit.ToolCall, function: Any, tool: Any) -> None:
    """Set in a call of a function tool what it is: a server's, an agent, or the SDK's own.

    Args:
        call: Has the name that the model sees.
        function: The tool's function.
        tool: The SDK's tool.
    """
    bound = getattr(function, "_invoke_tool_impl", None)
    if isinstance(bound, functools.partial) and len(bound.args) > 1:
        if getattr(bound.func, "__name__", "") == "invoke_mcp_tool":
            server, there = bound.args[:2]  # the SDK binds them to an MCP tool's function
            place, name = getattr(server, "params", None), server.name
            is_made_up = name in _made_of(place)
            call.is_of_server(there.name, None if is_made_up else name, place)
            if is_made_up:
                call.server_says = name
            call.tool_type = "function"
            return
    if getattr(tool, "_is_agent_tool", False):
        call.canonical = ("invoke_subagent",)
    elif (built_in := TABLE.of(tool, function if bound is None else bound)) is not None:
        call.canonical, call.kind = built_in.canonical, built_in.kind
    if getattr(tool, "_tool_namespace", None):
        call.is_also(tool.qualified_name)


def _made_of(place: Any) -> tuple[str, ...]:
    """Return the names that the SDK makes for a server that the application gave none."""
    url = cast("dict[str, Any]", place).get("url") if isinstance(place, dict) else None
    command = getattr(place, "command", None)
    return (f"stdio: {command}", f"sse: {url}", f"streamable_http: {url}")


async def note_failure(wrapped: Any, owner: Any, **given: Any) -> Any:
    """Keep the exception that the SDK turns into text."""
    text = await wrapped(**given)
    call, error = kit.ToolCall.current(), given.get("error")
    if text is not None and isinstance(call, FunctionCall) and isinstance(error, Exception):
        if call.given is given.get("context"):
            call.failure = error
    return text


async def note_rejection(wrapped: Any, owner: Any, *args: Any, **given: Any) -> Any:
    """Note calls that the user's own guardrails reject: they never reach their tools."""
    rejected = await wrapped(*args, **given)
    if rejected is not None:
        kit.ToolCall.not_run(getattr(given.get("tool_context"), "tool_call_id", None))
    return rejected


# -- custom tools, shells ---------------------------------------------------------------------


class TextTool(Tool):
    """A tool whose output is text, or is shown to the model as text."""

    def denied(self, reason: str) -> Any:
        return reason

    def with_value(self, raw: Any, value: Any) -> Any:
        """Return another output, as a text unless it is of the same kind."""
        return value if isinstance(value, (str, type(raw))) else str(value)

    def recovered(self, value: Any) -> Any:
        return value if isinstance(value, str) else str(value)


class CustomCall(TextTool):
    """`CustomTool`, whose single argument is a plain text."""

    def read(self, tool: Any, context: Any, text: Any) -> None:
        """Read ``CustomTool.on_invoke_tool``."""
        self.within(context, tool.name, tool.description)
        self.take({_TEXT: text})
        self.raw = text
        function = self.function
        built_in = TABLE.of(tool, getattr(function, "_invoke_tool_impl", function))
        if built_in is not None:
            self.canonical, self.kind = built_in.canonical, built_in.kind
            if built_in.kind == "file_write":
                self.canonical = patch_names(self._operations(tool, text))

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(self.given, args[_TEXT])

    def _operations(self, tool: Any, text: Any) -> Any:
        """Return what a patch does, as the tool itself reads it; None if it reads nothing."""
        has_parser = hasattr(tool, "parse_custom_input")
        owner: Any = tool if has_parser else getattr(self.function, "__self__", None)
        try:
            return owner.parse_custom_input(text)
        except Exception:  # the tool will report what is wrong with it
            return None


class ShellCall(TextTool):
    """`ShellTool` or `LocalShellTool`: a request with commands."""

    def read(self, shell: Any, request: Any) -> None:
        """Read ``ShellTool.executor`` or ``LocalShellTool.executor``."""
        self.given = request
        self.name, self.id = shell.name, request.data.call_id
        self.canonical, self.kind = ("run_command",), "shell"
        shown = {**plain(request.data.action), "type": None}
        self.take(_without_none(shown))

    def call(self, wrapped: Any, args: Any) -> Any:
        """Run what was approved; the same request if no hook changed it."""
        request = self.given
        if not self.version:
            return wrapped(request)
        data = with_fields(request.data, action=with_fields(request.data.action, **args))
        return wrapped(dataclasses.replace(request, data=data))


def _without_none(args: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if value is not None}


# -- patches, computer ------------------------------------------------------------------------


def note_patch(wrapped: Any, owner: Any, *, call: Any, **given: Any) -> Any:
    """Note the id of a call of ``ApplyPatchTool``, which an operation lacks."""
    id = field(call.tool_call, "call_id")
    return outer.noted(call.apply_patch_tool, id, wrapped, call=call, **given)


def _patched(status: str, text: str) -> Any:
    """Return an editor's result with a text for the model."""
    return kit.native("agents.editor:ApplyPatchResult")(status=status, output=text)


class PatchCall(Tool):
    """`ApplyPatchTool`: an editor's operation on one file."""

    tells_failures = True

    def read(self, tool: Any, operation: Any) -> None:
        """Read the methods of ``ApplyPatchTool.editor``."""
        self.given, self.name, self.id = operation, tool.name, outer.id_for(tool) or None
        names = ("type", "path", "diff", "move_to")
        self.take(_without_none({name: getattr(operation, name, None) for name in names}))
        self.canonical, self.kind = patch_names((operation,)), "file_write"
        self.path = operation.path

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(dataclasses.replace(self.given, **args) if self.version else self.given)

    def denied(self, reason: str) -> Any:
        return _patched("failed", reason)

    def value(self, raw: Any) -> Any:
        return getattr(raw, "output", raw)

    def with_value(self, raw: Any, value: Any) -> Any:
        return _patched(getattr(raw, "status", None) or "completed", str(value))

    def error(self, raw: Any) -> str | None:
        if getattr(raw, "status", None) != "failed":
            return None
        return getattr(raw, "output", None) or "the patch failed"

    def recovered(self, value: Any) -> Any:
        return _patched("completed", str(value))


class ComputerCall(Tool):
    """`ComputerTool`: one call of the model, with one or more actions on a screen.

    A refusal ends the run, because the tool's output cannot contain text.
    """

    def read(self, owner: Any, *, agent: Any, action: Any, **rest: Any) -> None:
        """Read ``ComputerAction.execute``."""
        self.given = {"agent": agent, "action": action, **rest}
        asked = action.tool_call
        self.name, self.id, self.agent = action.computer_tool.name, asked.call_id, agent.name
        self.actions = getattr(asked, "actions", None) or [asked.action]
        self.take({"actions": [one.model_dump(exclude_none=True) for one in self.actions]})

    def call(self, wrapped: Any, args: Any) -> Any:
        if not self.version:
            return wrapped(**self.given)
        run = self.given["action"]
        pairs = zip(self.actions, args["actions"], strict=True)
        changed = [action.model_copy(update=other) for action, other in pairs]
        is_list = getattr(run.tool_call, "actions", None)
        update = {"actions": changed} if is_list else {"action": changed[0]}
        run = dataclasses.replace(run, tool_call=run.tool_call.model_copy(update=update))
        return wrapped(**{**self.given, "action": run})

    def denied(self, reason: str) -> Any:
        raise self.exception(reason)


# -- hand-offs --------------------------------------------------------------------------------


class HandOffFunction(Tool):
    """The function of a hand-off: under `HandOff`, or alone in a realtime session.

    Alone, a refusal raises: what the function returns is an agent.
    """

    group = _INVOKE

    def read(self, handoff: Any, context: Any, text: Any) -> None:
        """Read ``Handoff.on_invoke_handoff``."""
        self.within(context, handoff.tool_name, handoff.tool_description)
        self.take(text)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(self.given, args)

    def denied(self, reason: str) -> Any:
        """Raise: no agent could represent a refusal."""
        raise self.exception(reason)

    def value(self, raw: Any) -> Any:
        """Return the name of the agent that continues."""
        return getattr(raw, "name", None)

    def with_value(self, raw: Any, value: Any) -> Any:
        """Change nothing: the next agent is not a text that could be replaced."""
        return raw


class HandOff(HandOffFunction):
    """The first hand-off that the model asked for; the SDK ignores others.

    The run continues with another agent, or with the same one if it is refused.
    """

    group = ""

    def read(self, owner: Any, **given: Any) -> None:
        """Read ``execute_handoffs``."""
        self.given = given
        first, *others = given["run_handoffs"]
        for other in others:
            self.not_run(other.tool_call.call_id)
        asked = first.tool_call
        self.name, self.description = first.handoff.tool_name, first.handoff.tool_description
        self.id, self.agent = asked.call_id, (given.get("public_agent") or given["agent"]).name
        self.take(asked.arguments)
        self.goes_to(_INVOKE, self.name)

    def call(self, wrapped: Any, args: Any) -> Any:
        given = self.given
        if args is not self.raw:
            first, *others = given["run_handoffs"]
            asked = first.tool_call.model_copy(update={"arguments": args})
            changed = dataclasses.replace(first, tool_call=asked)
            given = {**given, "run_handoffs": [changed, *others]}
        return wrapped(**given)

    def denied(self, reason: str) -> Any:
        """Return the step that answers each hand-off with the reason."""
        given = self.given
        items, steps = "agents.items", "agents.run_internal.run_steps"
        output = kit.native(f"{items}:ItemHelpers").tool_call_output_item
        told = [
            kit.native(f"{items}:ToolCallOutputItem")(
                output=reason,
                raw_item=output(run.tool_call, reason),
                agent=given.get("public_agent") or given["agent"],
            )
            for run in given["run_handoffs"]
        ]
        return kit.native(f"{steps}:SingleStepResult")(
            original_input=given["original_input"],
            model_response=given["new_response"],
            pre_step_items=given["pre_step_items"],
            new_step_items=[*given["new_step_items"], *told],
            next_step=kit.native(f"{steps}:NextStepRunAgain")(),
            tool_input_guardrail_results=given.get("tool_input_guardrail_results") or [],
            tool_output_guardrail_results=given.get("tool_output_guardrail_results") or [],
        )

    def value(self, raw: Any) -> Any:
        return super().value(getattr(raw.next_step, "new_agent", None))

    def recovered(self, value: Any) -> Any:
        return self.denied(str(value))
