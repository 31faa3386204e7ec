"""Hooks and policies as the Antigravity SDK for Rust has them: one trait for all points."""

# ruff: noqa: E501  # traces are shown as they are

from __future__ import annotations

from typing import Any

import otelhooks
from otelhooks import hooks, policy, types
from tests.examples.calls import CALM, LIST, MESSAGE, RATE, REMOVE, UNKNOWN_RATE, VIEW
from tests.examples.example import Ask, Example
from tests.examples.stage import Actor


class NothingOverridden(Example):
    """A hook that overrides nothing changes nothing."""

    says = ((VIEW,), "Done.")
    ran = (VIEW,)
    told = ("sk-4711",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: allow allow:allow_all
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        class Nothing(hooks.LifecycleHook):
            pass

        return {"hooks": [Nothing()], "policies": [policy.allow_all()]}


class Logging(Example):
    """Every point of the life of a session writes a line."""

    says = ((VIEW,), "Done.")
    ran = (VIEW,)
    noted = (
        ("session", "session starts"),
        ("tool", "calls view_file"),
        ("tool", "view_file is done"),
        ("turn", "answered with 5 characters"),
        ("session", "session ends"),
    )
    trace = CALM

    def settings(self) -> dict[str, Any]:
        note = self.note

        class LoggingHook(hooks.LifecycleHook):
            def on_session_start(self) -> None:
                note("session", "session starts")

            def on_session_end(self) -> None:
                note("session", "session ends")

            def pre_tool_call(self, call: types.ToolCall) -> None:
                note("tool", f"calls {call.name}")

            def post_tool_call(self, result: types.ToolResult) -> None:
                note("tool", f"{result.name} is done")

            def post_turn(self, answer: Any) -> None:
                note("turn", f"answered with {len(answer.text)} characters")

        return {"hooks": [LoggingHook()]}


class RegisteredLater(Logging):
    """A hook that is registered once everything is set up, but nothing has started."""

    later: Any = None

    def settings(self) -> dict[str, Any]:
        (self.later,) = super().settings()["hooks"]
        return {}

    def begin(self, handle: otelhooks.Handle) -> None:
        handle.register(self.later)


class RateLimit(Example):
    """The third message of one conversation is refused."""

    prompts = ("one", "two", "three")
    says = ("first", "second")
    answers = ("first", "second", "Rate limit exceeded: 2 of 2 turns used")
    needs = ("turn",)
    trace = """
        invoke_agent ops
          chat scripted
        invoke_agent ops
          chat scripted
        invoke_agent ops: deny turns "Rate limit exceeded: 2 of 2 turns used"
    """

    def settings(self) -> dict[str, Any]:
        class RateLimitHook(hooks.LifecycleHook):
            rule_id = "turns"

            def __init__(self, max_turns: int) -> None:
                self.max_turns = max_turns

            def pre_turn(self, context: hooks.HookContext) -> types.HookResult:
                session = context.parent
                assert session is not None
                used = session.update_state("turns", lambda count: count + 1, 0) - 1
                text = f"Rate limit exceeded: {used} of {self.max_turns} turns used"
                return types.HookResult(allow=used < self.max_turns, message=text)

        return {"hooks": [RateLimitHook(2)]}


class ReadyMadeRateLimit(RateLimit):
    """The same by a rule of the library."""

    def settings(self) -> dict[str, Any]:
        return {"policies": [policy.RateLimit(turns=2, id="turns")]}


class AuditOfTools(Example):
    """Every call leaves a record that says whether it worked."""

    tools = ("view_file", "fetch_rate")
    says = ((VIEW,), (UNKNOWN_RATE,), "Done.")
    ran = (VIEW, UNKNOWN_RATE)
    noted = (
        ("tool", "invoked view_file"),
        ("tool", "view_file: success"),
        ("tool", "invoked fetch_rate"),
        ("tool", "fetch_rate: failure"),
    )
    needs = ("failing tool",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
          execute_tool fetch_rate: [RateError]
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        note = self.note

        class AuditHook(hooks.LifecycleHook):
            async def pre_tool_call(self, call: types.ToolCall) -> types.HookResult:
                note("tool", f"invoked {call.name}")
                return types.HookResult(allow=True)

            async def post_tool_call(self, result: types.ToolResult) -> None:
                outcome = "success" if result.error is None else "failure"
                note("tool", f"{result.name}: {outcome}")

        return {"hooks": [AuditHook()]}


class ErrorRecovery(Example):
    """What a service that is down would have said; other failures stay what they are."""

    tools = ("fetch_rate",)
    says = ((RATE,), (UNKNOWN_RATE,), "Done.")
    ran = (RATE, UNKNOWN_RATE)
    told = ("yesterday's rate", "unknown currency")
    never_told = ("connection refused",)
    needs = ("failing tool",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool fetch_rate: recovered [RateError]
          chat scripted
          execute_tool fetch_rate: [RateError]
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        class ErrorRecoveryHook(hooks.LifecycleHook):
            async def on_tool_error(self, error: Exception) -> Any:
                text = str(error)
                if "timeout" in text or "connection refused" in text:
                    fallback = {"fallback": True, "message": "yesterday's rate"}
                    return types.HookResult(message="recovered"), fallback
                return types.HookResult(allow=False, message=text), None

        return {"hooks": [ErrorRecoveryHook()]}


class FirstDecisionCounts(Example):
    """The first hook that denies ends the chain: who comes later is not asked."""

    says = ((LIST,), "Done.")
    told = ("first says no",)
    noted = (("tool", "first was asked"),)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command: deny first "first says no"
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        note = self.note

        class Refusing(hooks.LifecycleHook):
            def __init__(self, name: str) -> None:
                self.rule_id = name

            def pre_tool_call(self, call: types.ToolCall) -> types.HookResult:
                note("tool", f"{self.rule_id} was asked")
                return types.HookResult(allow=False, message=f"{self.rule_id} says no")

        return {"hooks": [Refusing("first"), Refusing("second")]}


class FirstRecoveryCounts(Example):
    """The first hook that recovers a failure ends the chain; those before it passed it on."""

    tools = ("fetch_rate",)
    says = ((RATE,), "Done.")
    ran = (RATE,)
    told = ("second's value",)
    noted = (("tool", "first was asked"), ("tool", "second was asked"))
    needs = ("failing tool",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool fetch_rate: recovered [RateError]
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        note = self.note

        class Recovering(hooks.LifecycleHook):
            def __init__(self, name: str, value: str | None) -> None:
                self.name, self.value = name, value

            def on_tool_error(self, error: Exception) -> str | None:
                note("tool", f"{self.name} was asked")
                return self.value

        values = {"first": None, "second": "second's value", "third": "third's value"}
        return {"hooks": [Recovering(*each) for each in values.items()]}


class ContextLayers(Example):
    """What is set outside is seen inside, what is set inside is not seen outside."""

    prompts = ("one", "two")
    says = ((VIEW,), "Done.", (LIST,), "Done.")
    answers = ("Done.", "Done.")
    ran = (VIEW, LIST)
    needs = ("turn",)
    noted = (
        ("tool", "view_file: user user-42, turn 1, mine view_file, note None"),
        ("tool", "run_command: user user-42, turn 2, mine run_command, note None"),
        ("session", "user user-42"),
    )
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file
          chat scripted
        invoke_agent ops
          chat scripted
          execute_tool run_command
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        note = self.note

        class Layers(hooks.LifecycleHook):
            def on_session_start(self, context: hooks.HookContext) -> None:
                context.set("user", "user-42")

            def pre_turn(self, context: hooks.HookContext, prompt: Any) -> None:
                context.set("turn", context.get("turn_number", type=int))

            def pre_tool_call(self, context: hooks.HookContext, call: types.ToolCall) -> None:
                outside = context.get("note")
                context.set("note", "only here")
                context.set("mine", call.name)
                seen = {key: context.get(key) for key in ("user", "turn", "mine")}
                text = ", ".join(f"{key} {value}" for key, value in seen.items())
                note("tool", f"{call.name}: {text}, note {outside}")
                context.set("user", "shadowed")

            def on_session_end(self, context: hooks.HookContext) -> None:
                note("session", f"user {context.get('user')}")

        return {"hooks": [Layers()]}


class Buckets(Example):
    """Specific before pattern before any tool; within each, deny before ask before allow."""

    tools = ("run_command", "view_file", "fetch_rate", "send_message")
    says = ((VIEW,), (LIST,), (RATE,), (MESSAGE,), "Done.")
    ran = (VIEW,)
    told = ("sk-4711", "Not the shell.", "Nothing that fetches.", "Nothing else.")
    needs = ("own tools",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: allow view
          chat scripted
          execute_tool run_command: deny shell "Not the shell."
          chat scripted
          execute_tool fetch_rate: deny fetches "Nothing that fetches."
          chat scripted
          execute_tool send_message: deny rest "Nothing else."
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        rules = [
            policy.deny("*", id="rest", reason="Nothing else."),
            policy.allow("*", id="any"),
            policy.deny("fetch_*", id="fetches", reason="Nothing that fetches."),
            policy.allow("run_command", id="shell-is-fine"),
            policy.deny("run_command", id="shell", reason="Not the shell."),
            policy.ask_user("run_command", handler=lambda call: True, id="ask-for-shell"),
            policy.allow("view_file", id="view"),
        ]
        return {"policies": rules}


class SingleToolPolicies(Example):
    """One tool is allowed, one denied, one asked about."""

    tools = ("run_command", "view_file", "send_message")
    says = ((VIEW,), (LIST,), (MESSAGE,), "Done.")
    ran = (VIEW, MESSAGE)
    told = ("sk-4711", "Denied by policy 'no-shell'.", "sent to ada")
    needs = ("named tools",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: allow view
          chat scripted
          execute_tool run_command: deny shell "Denied by policy 'no-shell'."
          chat scripted
          otelhooks.approval.request send_message: ask mail "Asked by policy 'mail'."
          otelhooks.approval.wait send_message
          execute_tool send_message: ask mail "Asked by policy 'mail'."
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        return {
            "policies": [
                policy.allow(self.tool("view_file"), id="view"),
                policy.deny(self.tool("run_command"), name="no-shell", id="shell"),
                policy.ask_user(
                    self.tool("send_message"), lambda call: True, name="mail", id="mail"
                ),
            ]
        }


class DenyAll(Example):
    """The wildcard that refuses everything."""

    says = ((VIEW,), (LIST,), "Done.")
    told = ("Denied by policy 'deny_all'.",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: deny deny:deny_all "Denied by policy 'deny_all'."
          chat scripted
          execute_tool run_command: deny deny:deny_all "Denied by policy 'deny_all'."
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        return {"policies": [policy.deny_all()]}


class ConfirmRunCommand(Example):
    """A person confirms each command; all else is allowed."""

    says = ((VIEW,), (LIST,), (REMOVE,), "Done.")
    ran = (VIEW, LIST)
    told = ("ran: ls", "User denied tool 'run_command' (policy 'confirm_run_command').")
    needs = ("own tools",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: allow allow:confirm_run_command
          chat scripted
          otelhooks.approval.request run_command: ask ask:confirm_run_command "Asked by policy 'confirm_run_command'."
          otelhooks.approval.wait run_command
          execute_tool run_command: ask ask:confirm_run_command "Asked by policy 'confirm_run_command'."
          chat scripted
          otelhooks.approval.request run_command: ask ask:confirm_run_command "Asked by policy 'confirm_run_command'."
          otelhooks.approval.wait run_command
          execute_tool run_command: ask ask:confirm_run_command "User denied tool 'run_command' (policy 'confirm_run_command')." [approval_rejected]
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        def confirm(call: types.ToolCall) -> bool:
            return call.args["CommandLine"] == "ls"

        return {"policies": policy.confirm_run_command(confirm)}


class NobodyConfirms(Example):
    """Without an approver, the same preset denies."""

    says = ((VIEW,), (LIST,), "Done.")
    ran = (VIEW,)
    told = ("Denied by policy 'confirm_run_command'.",)
    needs = ("own tools",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: allow allow:confirm_run_command
          chat scripted
          execute_tool run_command: deny deny:confirm_run_command "Denied by policy 'confirm_run_command'."
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        return {"policies": policy.confirm_run_command()}


class WorkspaceOnly(Example):
    """File tools stay in the workspace, whatever way out a path takes."""

    inside = Ask("view_file", {"path": "notes.txt"})
    outside = Ask("view_file", {"path": "/etc/passwd"})
    climbing = Ask("view_file", {"path": "../../../../../../etc/passwd"})
    says = ((outside,), (climbing,), (LIST,), "Done.")
    ran = (LIST,)
    told = ("Denied by policy 'workspace_only'.", "ran: ls")
    needs = ("own tools",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: deny workspace_only:view_file "Denied by policy 'workspace_only'."
          chat scripted
          execute_tool view_file: deny workspace_only:view_file "Denied by policy 'workspace_only'."
          chat scripted
          execute_tool run_command
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        return {"policies": policy.workspace_only([str(self.folder)])}


class ServerPolicies(Example):
    """Rules about the tools of an MCP server: some denied, some asked about, the rest allowed."""

    tools = ("view_file", "run_command", "send_message")
    says = ((VIEW,), (LIST,), (MESSAGE,), "Done.")
    ran = (VIEW, MESSAGE)
    told = ("sk-4711", "Denied by policy 'deny_math_run_command'.", "sent to ada")
    needs = ("server",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: allow allow:approve_math_all
          chat scripted
          execute_tool run_command: deny deny:deny_math_run_command "Denied by policy 'deny_math_run_command'."
          chat scripted
          otelhooks.approval.request send_message: ask ask:ask_user_math_send_message "Asked by policy 'ask_user_math_send_message'."
          otelhooks.approval.wait send_message
          execute_tool send_message: ask ask:ask_user_math_send_message "Asked by policy 'ask_user_math_send_message'."
          chat scripted
    """

    def crew(self) -> Actor:
        return Actor("ops", self.script, self.bodies(*self.tools), server="math")

    def settings(self) -> dict[str, Any]:
        server = types.McpStdioServer(name="math", command="math-server")
        return {
            "mcp_servers": [server],
            "policies": [
                policy.allow(server),
                policy.deny(server, ["run_command"]),
                policy.ask_user(server, ["send_message"], handler=lambda call: True),
            ],
        }


class Predicate(Example):
    """A rule that holds for some arguments only."""

    says = ((LIST,), (REMOVE,), "Done.")
    ran = (LIST,)
    told = ("ran: ls", "Nothing is removed here.")
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool run_command
          chat scripted
          execute_tool run_command: deny no-rm "Nothing is removed here."
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        rule = policy.deny(self.tool("run_command"), id="no-rm", reason="Nothing is removed here.")
        return {"policies": [rule.only_when(lambda args: "rm" in args["CommandLine"])]}


class Enforced(Example):
    """A table of rules as one hook."""

    says = ((VIEW,), (LIST,), "Done.")
    ran = (VIEW,)
    told = ("Denied by policy 'shell'.",)
    trace = """
        invoke_agent ops
          chat scripted
          execute_tool view_file: allow allow:allow_all
          chat scripted
          execute_tool run_command: deny shell "Denied by policy 'shell'."
          chat scripted
    """

    def settings(self) -> dict[str, Any]:
        rules = [
            policy.deny(self.tool("run_command"), name="shell", id="shell"),
            policy.allow_all(),
        ]
        return {"hooks": [policy.enforce(rules, mcp_servers=[])]}
