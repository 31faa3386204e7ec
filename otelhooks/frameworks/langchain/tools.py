# pyright: basic
"""Tool calls of langchain: how one is read, written and refused."""

from __future__ import annotations

from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.values import SCALARS
from otelhooks.frameworks.langchain.arguments import facts_of, only_argument, split
from otelhooks.frameworks.langchain.builtin import EDITOR, SHELL, place, read
from otelhooks.frameworks.langchain.fields import closure, field
from otelhooks.frameworks.langchain.listeners import apart
from otelhooks.frameworks.langchain.state import messages_in, thread_of, told_in, visited

__all__ = ["EditorRun", "InvokeRun", "ShellRun", "ToolRun"]

_MCP, _NATIVE_MCP = "langchain_mcp_adapters.tools", "langchain.mcp."
_MESSAGE = "langchain_core.messages.tool:ToolMessage"
_CONFIG = "langchain_core.runnables.config:var_child_runnable_config"


class ToolRun(kit.ToolCall):
    """One call of one tool, through ``run`` or ``arun``.

    Hooks see a message's content, or the tool's return value if its caller wants no message.

    Attributes:
        title: Name by which the model knows the tool.
        argument: The single argument that was passed bare; None if all go by name.
        hidden: Arguments that the framework fills in.
        later: Manager of listeners that are notified once the call is decided.
    """

    group, pauses = "langchain.tool", ("langgraph.errors:GraphBubbleUp",)
    title: str
    argument: str | None = None
    hidden: dict[str, Any]
    later: Any = None

    def read(self, tool: Any, /, tool_input: Any, *rest: Any, **further: Any) -> Any:
        """Read ``BaseTool.run``."""
        self.id = further.get("tool_call_id")
        self.of(tool, tool_input, further.get("config"), rest, further)

    def of(self, tool: Any, given: Any, config: Any, rest: Any, further: Any) -> None:
        """Read a call of a tool.

        Args:
            tool: The tool.
            given: A dict of arguments, or the text of a tool with one argument.
            config: langchain's; its thread is the conversation of a call outside any run.
            rest: Further positional arguments of the method.
            further: Further keyword arguments.
        """
        self.owner, self.rest, self.further = tool, rest, further
        self.conversation = thread_of(config)
        self.name = self.title = tool.name
        self.description = tool.description or None
        injected, built_in = facts_of(tool)
        if isinstance(given, dict):
            self.args, self.hidden = split(given, injected)
            for each in self.args.values():
                if type(each) not in SCALARS and not self.is_on_its_way(self.group):
                    self.args = self.own(self.args)  # the caller may change its objects meanwhile
                    break
        else:
            self.argument, self.hidden = only_argument(tool), {}
            self.args = {self.argument: given}
        if built_in is not None:
            read(self, built_in, self.hidden)
        # The application names an MCP server when it creates the client, and langchain-mcp-adapters
        # keeps that name only in the closure of the tool's function.
        function = field(tool, "coroutine")
        module = getattr(function, "__module__", None) or ""
        if module != _MCP and not module.startswith(_NATIVE_MCP):
            return
        closed = closure(function, "tool", "server_name", "connection")
        name = getattr(closed.get("tool"), "name", None) or tool.name
        server = closed.get("server_name") if module == _MCP else None
        named = server if isinstance(server, str) else None
        self.is_of_server(name, named, closed.get("connection"))
        about = (tool.metadata or {}).get("mcp") or {}
        if module != _MCP and isinstance(about, dict):
            self.server_says = (about.get("server") or {}).get("name")

    def call(self, wrapped: Any, args: Any) -> Any:
        """Call it with what was approved, and what is filled in.

        Listeners that stream do not see a result that a hook may still change.
        """
        further = self.further
        if self.holds_back and "callbacks" in further:
            silent, later = apart(further["callbacks"], further, is_async=self.is_async)
            # without an operation of its own, an outer seat's hooks may still change the result
            self.later = later if self.op is not None else None
            further = {**further, "callbacks": silent}
        return wrapped(self.form(args), *self.rest, **further)

    def deliver(self, item: Any) -> Any:
        """Return the result; tell listeners that were left out."""
        return (item,) if self.later is None else self._tell(item)

    def _tell(self, item: Any) -> Any:
        shown = {"name": self.title, "description": self.description}
        given = self.further.get
        about = {"name": given("run_name"), "run_id": given("run_id"), "inputs": {**self.args}}
        run = yield self.later.on_tool_start(shown, str(self.args), tool_call_id=self.id, **about)
        yield run.on_tool_end(item, name=self.title)
        return (item,)

    def form(self, args: dict[str, Any]) -> Any:
        """Return what was approved in the form that the method got."""
        if self.argument is None:
            return {**args, **self.hidden}
        return args[self.argument] if list(args) == [self.argument] else args

    def next_seat(self) -> Any:
        """Lead an override to the method below it, and a tool of another kit to its own seat."""
        if not _is_native(self.function):
            return self.at(self.group)
        return super().next_seat() or self.at_seat_of(self.owner)

    def stages(self) -> Any:
        """Return another package's adapter's facts about the steps of one of its tools."""
        return self.stages_of(self.owner)

    def puts_off(self, reason: str) -> Any:
        """Return what `interrupt` raises in a graph that keeps its state.

        A value that the graph was resumed with is for the pause before, so nothing else may get it.
        """
        place = (kit.native(_CONFIG).get() or {}).get("configurable") or {}
        pad = place.get("__pregel_scratchpad")
        if pad is None or not place.get("__pregel_checkpointer"):
            return None
        pad.get_null_resume(True)
        del pad.resume[pad.interrupt_counter() :]
        try:
            shown = {"tool": self.title, "reason": reason}
            kit.native("langgraph.types:interrupt")({"otelhooks": shown})
        except Exception as pause:
            if self.is_control_flow(pause):
                return pause
        return None

    # -- answers ------------------------------------------------------------------------------

    def denied(self, reason: str) -> Any:
        """Return an error message for the model, or the reason for a caller without a call id."""
        return reason if self.id is None else self._message(reason, status="error")

    def refused(self, error: Exception) -> Any:
        """Report to the model; any other caller gets the error."""
        if self.id is None:
            raise error
        return super().refused(error)

    def value(self, raw: Any) -> Any:
        """Return the content for the model, if there is any; of several messages as one text."""
        found = self._news(told_in(raw))
        if len(found) > 1:
            return "\n".join(self.text_of(message.content) for message in found)
        return found[0].content if found else raw

    def with_value(self, raw: Any, value: Any) -> Any:
        """Replace the content; the artifact is dropped, since it repeats what was replaced.

        The tool's other messages are left out: the value has their texts.
        """
        raw = visited(raw, lambda message: message)  # texts and dicts become messages
        own, gone = self._own(told_in(raw)), {id(one) for one in self._news(told_in(raw))}
        if not own:
            return self.recovered(value)
        new = own[0].model_copy(update={"content": self._content(value), "artifact": None})
        return visited(raw, lambda one: new if one is own[0] else None if id(one) in gone else one)

    def _own(self, told: list[Any]) -> list[Any]:
        """Return the messages that answer the call."""
        own = [one for one in told if kit.is_a(one, _MESSAGE)]
        return own if len(told) == 1 else [one for one in own if one.tool_call_id == self.id]

    def _news(self, told: list[Any]) -> list[Any]:
        """Return the messages in a result, but those that the tool only passes on.

        A hand-off puts the whole history, which langgraph filled in, into its command.
        """
        mine = self._own(told)
        if len(mine) == len(told):
            return told
        states = [getattr(given, "state", given) for given in self.hidden.values()]
        known = {_shown(message) for message in messages_in(states)} | {("remove", "")}
        return [one for one in told if one in mine or _shown(one) not in known]

    def error(self, raw: Any) -> str | None:
        """Return the text of an error that the tool reported as a message."""
        for message in [raw] if kit.is_a(raw, _MESSAGE) else self._own(told_in(raw)):
            if message.status == "error":
                return message.text if isinstance(message.text, str) else str(message.content)
        return None

    def recovered(self, value: Any) -> Any:
        if self.id is None or kit.is_a(value, _MESSAGE):
            return value
        return self._message(self._content(value))

    def _content(self, value: Any) -> Any:
        if isinstance(value, list) and all(isinstance(item, (str, dict)) for item in value):
            return value
        return self.text_of(value)  # as langchain itself shows other values

    def _message(self, content: Any, **further: Any) -> Any:
        make = kit.native(_MESSAGE, self.owner)
        return make(content, name=self.title, tool_call_id=self.id, **further)


class InvokeRun(ToolRun):
    """One call of an ``invoke`` that a subclass overrides; langchain's own leads to ``run``.

    Only this method may get a whole tool call. In the arguments of any other, something that looks
    like one is the model's own text.
    """

    asked: dict[str, Any] | None = None

    def read(self, tool: Any, /, input: Any, *rest: Any, **further: Any) -> Any:
        """Read ``BaseTool.invoke``."""
        self.owner, given = tool, input
        if isinstance(given, dict) and given.get("type") == "tool_call":
            self.asked, self.id, given = given, given.get("id"), given.get("args") or {}
        if _is_native(self.function):
            self.title = tool.name
            return kit.SKIP
        self.of(tool, given, rest[0] if rest else further.get("config"), rest, further)
        return None

    def form(self, args: dict[str, Any]) -> Any:
        """Return what was approved, as a tool call if it was passed as one."""
        form = super().form(args)
        return form if self.asked is None else {**self.asked, "args": form}


def _shown(message: Any) -> tuple[str, str]:
    """Return what a model reads of a message."""
    return message.type, str(message.content)


def _is_native(method: Any) -> bool:
    """Return whether a tool's method is langchain's own, which calls no other with a seat."""
    # Not by `__module__`, which `functools.wraps` copies.
    names: Any = getattr(getattr(method, "__func__", method), "__globals__", ())
    return "__name__" in names and names["__name__"].startswith("langchain_core.")


# -- middleware -------------------------------------------------------------------------------


class _Answered(ToolRun):
    """One call that middleware answers itself, so that no tool is called.

    langchain before 1.0.6 and langchain-anthropic before 1.0.4 do so with their shells and editors,
    in ``wrap_tool_call``. An agent keeps that method from its creation, so the seats are those
    below it that do the work.
    """

    def as_tool(self, middleware: Any, name: str, id: str | None, args: Any) -> None:
        """Read it as a call of the tool that is never called."""
        self.owner, self.id, self.args, self.hidden = middleware, id, {**args}, {}
        self.name = self.title = name

    def next_seat(self) -> None:
        """Name no deeper seat: the call reaches none."""


class ShellRun(_Answered):
    """One command of a shell."""

    def read(self, middleware: Any, resources: Any, payload: Any, **further: Any) -> None:
        """Read ``ShellToolMiddleware._run_shell_tool``."""
        self.resources, self.further = resources, further
        name = getattr(getattr(middleware, "_tool", None), "name", "bash")
        self.as_tool(middleware, name, further["tool_call_id"], payload)
        place(self, SHELL, middleware, payload)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(self.resources, args, **self.further)


class EditorRun(_Answered):
    """One step of an editor."""

    def read(self, middleware: Any, args: Any, *rest: Any, **further: Any) -> None:
        """Read a step such as ``_handle_create(args, [state,] tool_call_id)``."""
        self.rest, self.further = rest, further
        self.as_tool(middleware, middleware.tool_name, rest[-1], args)
        if args.get("command") == "rename":  # the only step whose own path has another name
            args = {**args, "path": args.get("old_path")}
        place(self, EDITOR, middleware, args)
