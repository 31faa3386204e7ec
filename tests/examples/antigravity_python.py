"""Hooks and policies of the Google Antigravity SDK for Python: inspect, decide, transform."""

# ruff: noqa: E501  # traces are shown as they are

from __future__ import annotations

import itertools
from typing import Any

import otelhooks
from otelhooks import hooks, policy, types
from tests.examples.calls import CALM, LIST, MESSAGE, RATE, REMOVE, RESEARCH, VIEW
from tests.examples.example import Ask, Example, Line
from tests.examples.stage import Actor

PAGE = Ask("read_pages", {"query": "rates"})
FORMAT = Ask("run_command", {"CommandLine": "rm -rf /"})


class ThreeKinds(Example):
    """One hook that decides, one that transforms, one that inspects: in this order."""

    tools = ("view_file", "fetch_rate")
    says = ((VIEW,), (RATE,), "Done.")
    ran = (VIEW, RATE)
    told = ("sk-4711", "from yesterday")
    noted = (
        ("tool", "decides about view_file"),
        ("tool", "saw view_file: notes.txt holds the key sk-4711"),
        ("tool", "decides about fetch_rate"),
        ("tool", "recovers"),
        ("tool", "saw fetch_rate: from yesterday"),
    )
    needs = ("failing tool",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool fetch_rate: recovered [RateError]
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        note = self.note

        class Saw(hooks.PostToolCallHook):
            async def run(self, context: hooks.HookContext, data: types.ToolResult) -> None:
                note("tool", f"saw {data.name}: {data.result}")

        class Recovers(hooks.OnToolErrorHook):
            async def run(self, context: hooks.HookContext, data: Exception) -> Any:
                note("tool", "recovers")
                return "from yesterday"

        class Decides(hooks.PreToolCallDecideHook):
            async def run(
                self, context: hooks.HookContext, data: types.ToolCall
            ) -> types.HookResult:
                note("tool", f"decides about {data.name}")
                return types.HookResult(allow=True)

        return {"hooks": [Saw(), Recovers(), Decides()]}


class WhatWasDecidedIsWhatRuns(Example):
    """Inspectors see what ran; what a decider keeps and changes later has no effect."""

    says = ((LIST,), "Done.")
    ran = (LIST,)
    told = ("ran: ls",)
    noted = (("tool", "ran with {'CommandLine': 'ls'}"),)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        kept: list[dict[str, Any]] = []

        @hooks.pre_tool_call_decide
        def keep(call: types.ToolCall) -> types.HookResult:
            kept.append(call.args)
            return types.HookResult()

        @hooks.on_event
        def change(event: types.HookEvent) -> None:
            if event.type == "pre_tool_use":
                kept[0]["CommandLine"] = "rm -rf /"

        @hooks.post_tool_call
        def see(context: hooks.HookContext, result: types.ToolResult) -> None:
            self.note("tool", f"ran with {self.calls[-1].args}")

        return {"hooks": [keep, change, see]}


class Correlation(Example):
    """A turn's hook sets an id that the hooks of its tool calls read."""

    prompts = ("one", "two")
    says = ((VIEW,), (LIST,), "Done.", (VIEW,), "Done.")
    answers = ("Done.", "Done.")
    ran = (VIEW, LIST, VIEW)
    needs = ("turn",)
    noted = (
        ("tool", "view_file belongs to id-1"),
        ("tool", "run_command belongs to id-1"),
        ("tool", "view_file belongs to id-2"),
    )
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool run_command
          chat scripted
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        numbers = itertools.count(1)

        @hooks.pre_turn
        def begin(context: hooks.HookContext, prompt: Any) -> types.HookResult:
            context.set("correlation_id", f"id-{next(numbers)}", export=True)
            return types.HookResult()

        @hooks.pre_tool_call_decide
        def correlate(context: hooks.HookContext, call: types.ToolCall) -> types.HookResult:
            self.note("tool", f"{call.name} belongs to {context.get('correlation_id')}")
            return types.HookResult()

        return {"hooks": [begin, correlate]}


class StateOfTools(Example):
    """A tool remembers its place from turn to turn, in a state of its own that hooks cannot read."""

    prompts = ("one", "two")
    tools = ("read_pages",)
    says = ((PAGE,), "Done.", (PAGE,), "Done.")
    answers = ("Done.", "Done.")
    ran = (PAGE, PAGE)
    told = ("page 1 of rates", "page 2 of rates")
    noted = (("session", "hooks know of next_page: None"),)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool read_pages
            execute_tool read_page
          chat scripted
        invoke_agent ops
          chat scripted
          execute_tool read_pages
            execute_tool read_page
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        @hooks.on_session_end
        def look(context: hooks.HookContext) -> None:
            self.note("session", f"hooks know of next_page: {context.get('next_page')}")

        return {"hooks": [look]}

    def read_pages(self, query: str) -> str:
        """Return the next page of what a query finds."""
        self.calls.append(Ask("read_pages", {"query": query}))
        return read_page(query)


@otelhooks.tool
def read_page(query: str, state: types.ToolContext) -> str:
    """Return the page after the one that was returned last."""
    page = state.get_state("next_page", 1)
    state.set_state("next_page", page + 1)
    return f"page {page} of {query}"


class _WithResearcher(Example):
    """An agent that starts another one."""

    def crew(self) -> Actor:
        tools = ["view_file", "run_command"]
        return self.with_researcher((VIEW,), (LIST,), "Found.", tools=tools)


class SubagentUnderTheSameRules(_WithResearcher):
    """A rule denies a tool for every caller; hooks see the start of an agent, and its answer."""

    says = ((RESEARCH,), "Done.")
    ran = (VIEW,)
    told = ("Found.",)
    needs = ("delegate",)
    noted = (
        ("tool", "decides about researcher for ops"),
        ("tool", "decides about view_file for ops/researcher"),
        ("tool", "view_file gave notes.txt holds the key sk-4711"),
        ("tool", "decides about run_command for ops/researcher"),
        ("tool", "researcher gave Found."),
    )
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool researcher
            invoke_agent researcher
              chat scripted
              execute_tool view_file
              chat scripted
              execute_tool run_command: deny no-shell "No commands here."
              chat scripted
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        @hooks.pre_tool_call_decide
        def decide(context: hooks.HookContext, call: types.ToolCall) -> types.HookResult:
            self.note("tool", f"decides about {call.name} for {context.get('branch')}")
            return types.HookResult()

        @hooks.post_tool_call
        def see(result: types.ToolResult) -> None:
            self.note("tool", f"{result.name} gave {result.result}")

        rule = policy.deny(self.tool("run_command"), id="no-shell", reason="No commands here.")
        return {"hooks": [decide, see], "policies": [rule]}

    def finish(self) -> None:
        assert "No commands here." in self.inner.told


class NoSubagents(_WithResearcher):
    """One rule refuses the start of any agent, whatever the tool is called."""

    says = ((RESEARCH,), "Done.")
    told = ("Work alone.",)
    needs = ("delegate",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool researcher: deny alone "Work alone."
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        return {"policies": [policy.deny("start_subagent", id="alone", reason="Work alone.")]}

    def finish(self) -> None:
        assert self.inner.shown == []


class AnswerIsRead(Example):
    """A hook after the turn reads the whole answer, and what led to it."""

    says = ((VIEW,), "All is well.")
    answers = ("All is well.",)
    ran = (VIEW,)
    needs = ("turn",)
    noted: tuple[Line, ...] = (("turn", "All is well. after ['view_file']"),)
    trace = CALM

    def settings(self) -> dict[str, Any]:
        @hooks.post_turn
        def read(context: hooks.HookContext, answer: Any) -> None:
            tools = [step.name for step in context.steps if step.name == "view_file"]
            self.note("turn", f"{answer} after {tools}")

        return {"hooks": [read]}


class DeciderThatFails(Example):
    """A hook that cannot decide denies; the model learns no more than that."""

    says = ((LIST,), "Done.")
    told = ("The call was refused because a policy check failed.",)
    never_told = ("no such table",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command: deny lookup "lookup: LookupError" [policy_error]
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        @hooks.pre_tool_call_decide(rule_id="lookup")
        def look_up(call: types.ToolCall) -> types.HookResult:
            raise LookupError("no such table")

        return {"hooks": [look_up]}


class DenyByDefault(Example):
    """All is denied but reading; commands are asked about, and those that remove are not."""

    tools = ("run_command", "view_file", "send_message")
    says = ((VIEW,), (REMOVE,), (LIST,), (MESSAGE,), "Done.")
    ran = (VIEW, LIST)
    told = ("sk-4711", "Denied by policy 'removes'.", "ran: ls", "Denied by policy 'default'.")
    noted = (("tool", "asked about ls"),)
    needs = ("named tools",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: allow view
          chat scripted
          execute_tool run_command: deny removes "Denied by policy 'removes'."
          chat scripted
          otelhooks.approval.request run_command: ask confirm "Asked by policy 'confirm'."
          otelhooks.approval.wait run_command
          execute_tool run_command: ask confirm "Asked by policy 'confirm'."
          chat scripted
          execute_tool send_message: deny default "Denied by policy 'default'."
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        async def confirm(call: types.ToolCall) -> bool:
            self.note("tool", f"asked about {call.args['CommandLine']}")
            return True

        return {
            "policies": [
                policy.deny("*", name="default", id="default"),
                policy.allow(self.tool("view_file"), id="view"),
                policy.deny(
                    self.tool("run_command"),
                    when=lambda args: "rm" in args.get("CommandLine", ""),
                    name="removes",
                    id="removes",
                ),
                policy.ask_user(
                    self.tool("run_command"), handler=confirm, name="confirm", id="confirm"
                ),
            ]
        }


class PredicateThatFails(Example):
    """A rule whose predicate raises holds: the call is denied."""

    says = ((LIST,), (FORMAT,), "Done.")
    told = ("Policy evaluation failed for policy 'broken'",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command: deny broken "broken: KeyError" [policy_error]
          chat scripted
          execute_tool run_command: deny broken "broken: KeyError" [policy_error]
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        async def look(args: dict[str, Any]) -> bool:
            return "rm" in args["command"]  # it is called otherwise

        rule = policy.deny(self.tool("run_command"), when=look, name="broken", id="broken")
        return {"policies": [rule]}


class DeniedHandler(Example):
    """A person who says no, and a handler that fails: neither lets the call run."""

    tools = ("run_command", "send_message")
    says = ((LIST,), (MESSAGE,), "Done.")
    told = ("User denied tool 'run_command' (policy 'confirm').",)
    never_told = ("ran:", "sent to")
    trace = """
        invoke_agent ops
          chat scripted
          otelhooks.approval.request run_command: ask confirm "Asked by policy 'confirm'."
          otelhooks.approval.wait run_command
          execute_tool run_command: ask confirm "User denied tool 'run_command' (policy 'confirm')." [approval_rejected]
          chat scripted
          otelhooks.approval.request send_message: ask mail "Asked by policy 'mail'."
          otelhooks.approval.wait send_message
          execute_tool send_message: ask mail "mail: EOFError" [policy_error]
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        async def say_no(call: types.ToolCall) -> bool:
            return False

        async def fail(call: types.ToolCall) -> bool:
            raise EOFError

        return {
            "policies": [
                policy.ask_user(self.tool("run_command"), say_no, name="confirm", id="confirm"),
                policy.ask_user(self.tool("send_message"), fail, name="mail", id="mail"),
            ]
        }


class HiddenTool(Example):
    """A tool that the agent has no use for is not shown to the model, and denied all the same."""

    says = ((LIST,), "Done.")
    needs = ("model", "own tools")
    noted = (("model", "1 tool"), ("model", "1 tool"))
    told = ("Denied by policy 'run_command'.",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command: deny hidden "Denied by policy 'run_command'."
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        @hooks.pre_model_call
        def count(call: types.ModelCall) -> types.HookResult:
            self.note("model", f"{len(call.tools)} tool")
            return types.HookResult()

        return {"policies": [policy.hide("run_command", id="hidden")], "hooks": [count]}
