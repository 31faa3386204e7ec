"""`enforce`: rules as a hook, alone and in a runner."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from otelhooks import hooks, policy, types
from otelhooks.hooks import hook_runner
from otelhooks.hooks import policy as upstream_path

CALL = types.ToolCall(name="run_command", args={"CommandLine": "ls"})
MATH = types.McpStdioServer(name="math", command="x")


def decide(rules: Any, call: Any = CALL, **settings: Any) -> types.HookResult:
    """Run the hook to its end without an event loop: it must not suspend."""
    coroutine = policy.enforce(rules, **settings).run(None, call)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the hook suspended")


def answering(value: Any) -> Any:
    """Return a handler that always says the same."""
    return lambda call: value


def test_it_is_a_hook_that_has_its_rules() -> None:
    hook = policy.enforce([policy.deny("a")])
    assert isinstance(hook, hooks.PreToolCallDecideHook)
    assert isinstance(hook.judge, policy.PolicySet)
    assert isinstance(hook, upstream_path._PolicyDecideHook)


def test_allow_and_deny() -> None:
    assert decide([policy.deny("other")]) == types.HookResult()
    denied = decide([policy.deny("run_command", id="r", severity="high")])
    assert (denied.allow, denied.message) == (False, "Denied by policy 'run_command'.")
    assert (denied.rule_id, denied.severity) == ("r", "high")


def test_each_allow_is_a_result_of_its_own() -> None:
    hook = policy.enforce([policy.deny("other")])
    first, second = (asyncio.run(hook.run(None, CALL)) for _ in range(2))
    first.message = "changed"
    assert second == types.HookResult()
    assert second.model_fields_set == types.HookResult().model_fields_set
    assert second.model_copy(update={"message": "x"}).model_dump() == {
        **types.HookResult().model_dump(),
        "message": "x",
    }


def test_a_call_that_is_settled_by_its_name_is_neither_carried_nor_evaluated_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hook = policy.enforce([policy.deny("other"), policy.allow("*")])
    asyncio.run(hook.run(None, CALL))
    monkeypatch.setattr(policy.PolicySet, "evaluate", None)
    monkeypatch.setattr(types.HookResult, "__init__", None)
    assert asyncio.run(hook.run(None, CALL)).allow


def test_a_record_of_a_class_of_the_users_own_is_judged_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Own(types.ToolCall):
        pass

    hook = policy.enforce([policy.deny("other"), policy.allow("*")])
    assert asyncio.run(hook.run(None, CALL)).allow
    assert asyncio.run(hook.run(None, Own(name=CALL.name))).allow
    assert not asyncio.run(hook.run(None, Own(name="other"))).allow
    monkeypatch.setattr(policy.PolicySet, "constant_for", None)  # it may say other than it holds
    assert asyncio.run(hook.run(None, Own(name=CALL.name))).allow


def test_a_call_of_another_server_or_name_is_not_settled_by_the_first() -> None:
    hook = policy.enforce([policy.deny("math/*"), policy.allow("add")], mcp_servers=[MATH])
    for server, allow in ((None, True), ("math", False), (None, True), ("math", False)):
        call = types.ToolCall(name="add", server_name=server)
        assert asyncio.run(hook.run(None, call)).allow is allow


def test_a_predicate_that_fails_denies() -> None:
    denied = decide([policy.allow("*", when=lambda args: args["x"])])
    assert denied.message == "Policy evaluation failed for policy '*': KeyError('x')"


class TestAsking:
    def test_only_true_approves(self) -> None:
        for answer in (False, None, 1, "yes", object()):
            result = decide([policy.ask_user("run_command", answering(answer))])
            expected = "User denied tool 'run_command' (policy 'run_command')."
            assert (result.allow, result.message) == (False, expected)
        assert decide([policy.ask_user("run_command", lambda call: True)]).allow

    def test_the_handler_gets_the_very_object_and_the_reason(self) -> None:
        seen: list[Any] = []

        def handler(call: types.ToolCall, reason: str) -> bool:
            seen.extend((call, reason))
            return False

        denied = decide([policy.ask_user("run_command", handler, reason="Costs money.")])
        assert seen[0] is CALL
        assert seen[1] == denied.message == "Costs money."

    def test_a_handler_that_raises_denies(self) -> None:
        def handler(call: types.ToolCall) -> bool:
            raise RuntimeError("broke")

        denied = decide([policy.ask_user("run_command", handler, name="n", reason="r")])
        assert denied.message == "Policy evaluation failed for policy 'n': RuntimeError('broke')"

    def test_an_async_handler_is_awaited(self) -> None:
        async def handler(call: types.ToolCall) -> bool:
            await asyncio.sleep(0)
            return True

        hook = policy.enforce([policy.ask_user("run_command", handler)])
        assert asyncio.run(hook.run(None, CALL)).allow

    def test_without_anybody_to_ask_it_denies(self) -> None:
        rules = policy.PolicySet([policy.ask_user("run_command")], channel=True)
        result = asyncio.run(policy.PolicyHook(rules).run(None, CALL))
        assert not result.allow
        assert result.message.startswith("Policy evaluation failed for policy 'run_command': ")

    def test_after_a_yes_denies_are_looked_at_again(self) -> None:
        late = False

        def handler(call: types.ToolCall) -> bool:
            nonlocal late
            late = True
            return True

        rules = [policy.ask_user("run_command", handler), policy.veto("*", when=lambda: late)]
        assert decide(rules).message == "Denied by policy '*'."

    def test_what_a_handler_makes_of_the_call_is_judged(self) -> None:
        def handler(call: types.ToolCall) -> bool:
            call.args = {"CommandLine": "rm -rf /"}
            return True

        rules = [
            policy.ask_user("run_command", handler),
            policy.deny("run_command", when=lambda args: "rm" in args["CommandLine"]),
        ]
        assert not decide(rules, CALL.model_copy(deep=True)).allow

    def test_what_a_handler_makes_of_the_call_is_asked_about_by_other_rules(self) -> None:
        asked: list[str] = []

        def handler(call: types.ToolCall) -> bool:
            asked.append("small")
            call.args = {"CommandLine": "rm -rf /"}
            return True

        def other(call: types.ToolCall) -> bool:
            asked.append(call.args["CommandLine"])
            return False

        rules = [
            policy.ask_user("run_command", other, when=lambda args: "rm" in args["CommandLine"]),
            policy.ask_user("run_command", handler),
        ]
        assert not decide(rules, CALL.model_copy(deep=True)).allow
        assert asked == ["small", "rm -rf /"]

    def test_handlers_that_change_the_call_again_and_again_end_in_a_deny(self) -> None:
        def handler(call: types.ToolCall) -> bool:
            call.args = {"n": call.args["n"] + 1}
            return True

        def other(call: types.ToolCall) -> bool:
            return handler(call)

        rules = [
            policy.ask_user("t", handler, when=lambda args: args["n"] % 2 == 0),
            policy.ask_user("t", other),
        ]
        denied = decide(rules, types.ToolCall(name="t", args={"n": 0}))
        assert denied.message == "arguments not stable: approvers changed them again and again"


class TestStartUp:
    def test_server_rules_need_the_servers(self) -> None:
        text = (
            "MCP policies (containing '/') were detected, but 'mcp_servers' was not provided to"
            " enforce(). You must pass the registered MCP servers to enable secure policy matching"
            " and prevent silent bypasses."
        )
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            policy.enforce([policy.allow("github/x")])
        assert policy.enforce([policy.allow("github/x")], mcp_servers=[])
        assert policy.PolicySet([policy.allow("github/x")]).mcp_servers == ()

    def test_an_ask_needs_a_handler(self) -> None:
        text = (
            "ASK_USER policy 'oops' is missing an ask_user handler."
            " Provide one via policy.ask_user(tool, handler=...)."
        )
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            policy.enforce([policy.ask_user("a", name="oops")])

    def test_servers_in_the_configuration_are_used(self) -> None:
        server = MATH.model_copy(update={"disabled_tools": ["calc"]})
        call = types.ToolCall(name="calc", server_name="math")
        assert not decide([], call, mcp_servers=[server]).allow


def test_auto_denies_because_there_is_no_assessor() -> None:
    assert decide([policy.auto()]).message == "Denied by policy 'auto'."
    assert decide([policy.auto(handler=lambda call: True)]).allow
    assert decide([policy.auto(), policy.allow("run_command")]).allow


def test_start_subagent_in_rules_and_calls() -> None:
    rules = [policy.deny("start_subagent")]
    old = types.ToolCall(name="start_subagent")
    of_server = types.ToolCall(name="start_subagent", server_name="mcp")
    for call in (types.ToolCall(name="invoke_subagent"), old):
        assert decide(rules, call).message == "Denied by policy 'invoke_subagent'."
    assert decide(rules, of_server).allow


def test_in_a_runner_it_denies_the_call() -> None:
    async def main() -> None:
        hook = policy.enforce([policy.deny("*"), policy.allow("view_file")])
        runner = hook_runner.HookRunner(pre_tool_call_decide_hooks=[hook])
        turn = hooks.TurnContext(runner.session_context)
        for name, expected in [("view_file", True), ("run_command", False)]:
            result, _, _ = await runner.dispatch_pre_tool_call(turn, types.ToolCall(name=name))
            assert result.allow is expected

    asyncio.run(main())


class TestUpstreamNames:
    def test_everything_is_there_under_the_other_path(self) -> None:
        for name in policy.__all__:
            assert getattr(upstream_path, name) is getattr(policy, name)

    def test_a_handler_can_be_asked_by_hand(self) -> None:
        async def handler(call: types.ToolCall, reason: str) -> bool:
            return reason == "why"

        rule = policy.ask_user("a", handler)
        assert asyncio.run(upstream_path._execute_ask_user(rule, CALL, "why")) is True
        assert asyncio.run(upstream_path._execute_ask_user(rule, CALL)) is False

    def test_a_rule_without_a_handler_cannot(self) -> None:
        with pytest.raises(ValueError, match="has no handler"):
            asyncio.run(upstream_path._execute_ask_user(policy.deny("a"), CALL))
