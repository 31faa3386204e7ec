# pyright: basic
"""Calls of tools, and code that a model wrote."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import unjudged
from otelhooks.frameworks.kit.objects import overrides

__all__ = ["TABLE", "Code", "Preload", "TaskCall", "ToolCall", "answer_paused", "guard_late"]

_TOOLS = "google.adk.tools"
_ENV = f"{_TOOLS}.environment"
_MCP = (f"{_TOOLS}.mcp_tool.mcp_tool:McpTool", f"{_TOOLS}.mcp_tool.mcp_tool:MCPTool")
_AGENT = f"{_TOOLS}.agent_tool:AgentTool"
_WRITES = ("create_file", "edit_file")
_QUESTION, _OURS = "adk_request_confirmation", "otelhooks"
_WAITS = "This tool call requires confirmation, please approve or reject."

TABLE = kit.BuiltIns(
    here={
        f"{_TOOLS}.bash_tool:ExecuteBashTool": ("execute_bash", ("run_command",), "shell"),
        f"{_ENV}._execute_tool:ExecuteTool": ("Execute", ("run_command",), "shell"),
        f"{_ENV}._read_file_tool:ReadFileTool": ("ReadFile", ("view_file",), "file_read"),
        f"{_ENV}._write_file_tool:WriteFileTool": ("WriteFile", _WRITES, "file_write"),
        f"{_ENV}._edit_file_tool:EditFileTool": ("EditFile", ("edit_file",), "file_write"),
        f"{_TOOLS}.skill_toolset:RunSkillScriptTool": (
            "run_skill_script",
            ("run_command", "code_execution"),
            "shell",
        ),
        f"{_TOOLS}.load_web_page:load_web_page": ("load_web_page", ("read_url_content",), "net"),
        _AGENT: ("agent", ("invoke_subagent",)),
    },
    hosted={
        "google_search": ("google_search", ("search_web",), "net"),
        "google_search_retrieval": ("google_search_retrieval", ("search_web",), "net"),
        "enterprise_web_search": ("enterprise_web_search", ("search_web",), "net"),
        "url_context": ("url_context", ("read_url_content",), "net"),
        "google_maps": ("google_maps", (), "net"),
        "code_execution": ("code_execution", (), "shell"),
        "retrieval": ("retrieval", (), "net"),
        "file_search": ("file_search", (), "net"),
        "computer_use": ("computer_use",),
        "mcp_servers": ("mcp_servers", (), "net"),
    },
)


class Paused(Exception):
    """Ends a tool call that waits for a person; the function that answers the call catches it."""


class ToolCall(kit.ToolCall):
    """A call of ``BaseTool.run_async``, or of a method that overrides it."""

    group = "google_adk"
    pauses = (f"{__name__}:Paused",)
    tells_failures = True  # the framework's model is shown no exception, only a result

    def read(self, tool: Any, *, args: Any, tool_context: Any = None) -> Any:
        """Read it. A method that calls the one it overrides may add what only it knows."""
        self.owner, self.context_of = tool, tool_context
        self.name, self.description = tool.name, tool.description
        self.id = getattr(tool_context, "function_call_id", None)
        self.agent = getattr(tool_context, "agent_name", "")
        self.conversation = getattr(getattr(tool_context, "session", None), "id", "")
        self.is_approved = answer_in(tool_context)
        self.take(args, hidden=self.added(args))
        locate(self, tool)

    def added(self, args: Mapping[str, Any]) -> set[str]:
        """Return the names that a method added to the call that it hands to `super`."""
        outer = self.current()
        if not isinstance(outer, ToolCall) or outer.owner is not self.owner:
            return set()
        # the permit is open only until the overridden method is reached, before any tool's body
        if self.function == outer.function or not self.is_on_its_way(self.group):
            return set()
        return set(args) - set(outer.args) if {**args, **outer.args} == args else set()

    def call(self, wrapped: Any, args: Any) -> Any:
        """Call it; the overridden method has the next seat."""
        inner = getattr(self.owner, "_rest_api_tool", None)  # a `GoogleApiTool` calls it
        to = inner if inner is not None else self.owner if self.calls_on() else None
        if to is not None:
            ToolCall.expect(self.name, to, {name: args[name] for name in self.args})
        return wrapped(args=args, tool_context=self.context_of)

    def calls_on(self) -> bool:
        """Return whether the method may call an overridden one."""
        return overrides.Method(self.owner, "run_async").calls_on(self.function)

    def next_seat(self) -> Any:
        """Return the seat of another package, for the method that really runs the tool."""
        return None if self.calls_on() else super().next_seat() or self.at_seat_of(self.owner)

    def stages(self) -> Any:
        """Return what hooks are shown of the tool's steps, if another package has the tool."""
        return self.stages_of(self.owner)

    def denied(self, reason: str) -> Any:
        """Return an error, in the form that the framework uses for its own."""
        return {"error": reason}

    def error(self, raw: Any) -> str | None:
        """Return the failure that a tool of the framework reports as a result."""
        return failure_in(raw)

    def asks_framework(self, reason: str) -> Exception | None:
        """Ask for the framework's confirmation, if the run can pause."""
        context = self.context_of
        invocation: Any = getattr(context, "_invocation_context", None)
        is_live = getattr(invocation, "live_request_queue", None) is not None
        if not self.id or invocation is None or is_live or self.option("approvals") == "in_place":
            return None
        calls = (call for event in context.session.events for call in event.get_function_calls())
        # It puts no second question to a call, and a workflow's node takes one for a failure.
        if context.tool_confirmation is not None or all(call.id != self.id for call in calls):
            return None
        payload = {_OURS: {"tool": self.name, "reason": reason}}
        context.request_confirmation(hint=reason, payload=payload)
        context.actions.skip_summarization = True
        return Paused(_WAITS)


def answer_in(context: Any) -> bool | None:
    """Return a person's answer to the question that a rule put about a call; None without one.

    A model can write a call of `adk_request_confirmation` about another call itself, under a
    harmless text, and the framework takes the answer to that for one to the call. Only the events
    of the framework's own questions have no other calls, and list each as running long.
    """
    confirmation = getattr(context, "tool_confirmation", None)
    if confirmation is None:
        return None
    events = context.session.events
    given = next(
        (found for event in reversed(events) if event.author == "user" and (found := _ids(event))),
        set(),
    )
    questions = [
        (event, call)
        for event in events
        for call in event.get_function_calls()
        if call.name == _QUESTION and call.id in given
    ]
    about = [each for each in questions if _is_about(each[1], context.function_call_id)]
    is_ours = bool(about) and all(_is_ours(*each) for each in about)
    return confirmation.confirmed is True if is_ours else None


def _ids(event: Any) -> set[Any]:
    return {each.id for each in event.get_function_responses()}


def _is_about(question: Any, id: Any) -> bool:
    asked = (question.args or {}).get("originalFunctionCall")
    return isinstance(asked, Mapping) and asked.get("id") == id


def _is_ours(event: Any, question: Any) -> bool:
    if any(call.name != _QUESTION for call in event.get_function_calls()):
        return False
    payload = question.args.get("toolConfirmation", {}).get("payload")
    listed = event.long_running_tool_ids or ()
    return question.id in listed and isinstance(payload, Mapping) and _OURS in payload


class Preload(kit.ToolCall):
    """A search of the memory that the framework makes before each model call, unasked."""

    def read(self, tool: Any, *, tool_context: Any, llm_request: Any) -> None:
        """Read ``PreloadMemoryTool.process_llm_request``."""
        self.given = {"tool_context": tool_context, "llm_request": llm_request}
        self.name, self.description = tool.name, tool.description
        self.agent, self.conversation = tool_context.agent_name, tool_context.session.id
        self.take({})

    def call(self, wrapped: Any, args: Any) -> Any:
        """Search it, and write what is found into the request."""
        return wrapped(**self.given)

    def denied(self, reason: str) -> None:
        """Return None: nothing is found, and the model is not told, since it did not ask."""


class TaskCall(kit.ToolCall):
    """A task that an agent hands over to a sub-agent with ``mode="task"``; no tool runs."""

    group = "google_adk.task"
    pauses = ("google.adk.workflow._errors:NodeInterruptedError",)

    def read(self, owner: Any, parent_agent: Any, fc: Any, ctx: Any) -> None:
        """Read ``_dispatch_task_fc``."""
        self.giver, self.asked, self.context_of = parent_agent, fc, ctx
        self.name, self.id, self.agent = fc.name, fc.id, parent_agent.name
        self.canonical = ("invoke_subagent",)
        self.conversation = getattr(getattr(ctx, "session", None), "id", "")
        self.take(dict(fc.args or {}))

    def call(self, wrapped: Any, args: Any) -> Any:
        """Hand over what was approved."""
        return wrapped(self.giver, self.asked.model_copy(update={"args": args}), self.context_of)

    def denied(self, reason: str) -> Any:
        """Return an error as the task's result, in the form that the framework uses for tools."""
        return {"error": reason}


class LateCall(ToolCall):
    """A call of a `run_async` that was set on a tool, or on its class, when seats were in place."""

    group = "google_adk.late"  # no permit leads here: a call of its own is another one

    def calls_on(self) -> bool:
        """Return True: it may call the method that it hides."""
        return True


async def guard_late(wrapped: Any, manager: Any, *, tool: Any, **given: Any) -> Any:
    """Guard a method that no seat guards before an agent calls it, or answer instead of it."""
    is_guarded = overrides.Method(tool, "run_async").guard(LateCall.through, "coroutine")
    if not is_guarded and unjudged.could_deny("", None, frozenset()):
        args = {"args": given["tool_args"], "tool_context": given["tool_context"]}
        return await LateCall.through("coroutine", refused, tool, **args)
    ToolCall.not_run(given["tool_context"].function_call_id)  # or a seat will have it
    return await wrapped(tool=tool, **given)


async def refused(*, args: Any, tool_context: Any) -> Any:
    """Answer instead of a method that cannot be guarded."""
    return {"error": "otelhooks cannot guard this tool: define `run_async` in its class."}


async def answer_paused(wrapped: Any, manager: Any, **given: Any) -> Any:
    """Answer a call that waits for a person: its tool has not run, which is not a failure."""
    error = given["error"]
    return {"error": str(error)} if kit.is_a(error, *ToolCall.pauses) else await wrapped(**given)


def locate(call: kit.ToolCall, tool: Any) -> None:
    """Set in a call what its tool is: a server's, an agent, or one that the framework includes."""
    if kit.is_a(tool, *_MCP):
        manager = getattr(tool, "_mcp_session_manager", None)
        place = place_of(getattr(manager, "_connection_params", None))
        call.is_of_server(tool._mcp_tool.name, call.server_at(place))
    elif (found := TABLE.of(tool, getattr(tool, "func", None))) is not None:
        call.canonical, call.kind = found.canonical, found.kind
    call.is_also(*names_of(tool))


def names_of(tool: Any) -> Iterator[str]:
    """Yield the names that a tool had before a toolset copied it under a prefix.

    The copy has a `_get_declaration` of its own, which calls that of the tool or copy below. A tool
    that is made of another framework's keeps that one, under whatever name.
    """
    declares = vars(tool).get("_get_declaration")
    while inspect.isfunction(declares):
        below = inspect.getclosurevars(declares).nonlocals.get("original_get_declaration")
        named = inspect.getclosurevars(below).nonlocals if inspect.isfunction(below) else {}
        name = named.get("prefixed_name") or getattr(getattr(below, "__self__", None), "name", "")
        if name:
            yield name
        declares = below
    for field in ("_langchain_tool", "tool"):
        if isinstance(name := getattr(vars(tool).get(field), "name", None), str):
            yield name


def place_of(params: Any) -> Any:
    """Return where connection parameters of an MCP server lead to."""
    started = getattr(params, "server_params", params)
    return SimpleNamespace(
        url=getattr(params, "url", None),
        command=getattr(started, "command", None),
        args=tuple(getattr(started, "args", None) or ()),
        env=getattr(started, "env", None),
    )


def failure_in(raw: Any) -> str | None:
    """Return the text of a result that is a failure, as the framework and MCP report one."""
    if not isinstance(raw, Mapping):
        return None
    if raw.get("isError") or raw.get("is_error"):
        return str(raw.get("content"))
    return str(raw["error"]) if [*raw] == ["error"] and raw["error"] else None


class Code(kit.ToolCall):
    """Code that a model wrote and a code executor runs."""

    group, tells_failures = "google_adk.code", True

    def read(self, executor: Any, invocation_context: Any, code_execution_input: Any) -> None:
        """Read ``BaseCodeExecutor.execute_code``."""
        self.owner, self.invocation = executor, invocation_context
        self.given = code_execution_input
        self.name, self.kind = "code_execution", "shell"
        self.agent = getattr(getattr(invocation_context, "agent", None), "name", "")
        self.take({"code": code_execution_input.code, "language": "python"})

    def call(self, wrapped: Any, args: Any) -> Any:
        """Run what was approved."""
        given = dataclasses.replace(self.given, code=args["code"])
        if overrides.Method(self.owner, "execute_code").calls_on(wrapped):
            self.expect(self.name, self.owner, args)
        return wrapped(self.invocation, given)

    def value(self, raw: Any) -> Any:
        """Return what hooks see: the output, or the text of the failure."""
        return raw.stdout or raw.stderr

    def error(self, raw: Any) -> str | None:
        """Return the failure."""
        return raw.stderr or None

    def with_value(self, raw: Any, value: Any) -> Any:
        """Return another output, and nothing else of the result."""
        return self._result(stdout=self.text_of(value))

    def recovered(self, value: Any) -> Any:
        """Return an output."""
        return self._result(stdout=self.text_of(value))

    def denied(self, reason: str) -> Any:
        """Return the reason as the error that the code wrote."""
        return self._result(stderr=reason)

    def _result(self, **fields: Any) -> Any:
        path = "google.adk.code_executors.code_execution_utils:CodeExecutionResult"
        return kit.native(path, self.owner)(**fields)
