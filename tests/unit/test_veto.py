"""A veto: nothing turns it into a question or an approval, in any mode, at any place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.hooks.verdict import Approval
from otelhooks.records import semconv
from tests.unit.noting import Tool

Result = types.HookResult
MODES = pytest.mark.parametrize("mode", ["enforce", "monitor"])


def stops(tool: Tool, *args: Any) -> None:
    with pytest.raises(Denied):
        tool.t(*args)
    assert tool.ran == []


@MODES
class TestInEveryMode:
    def test_it_blocks_and_the_span_says_so(self, governed: Any, tool: Tool, mode: str) -> None:
        governed(policies=[policy.allow("t"), policy.veto("t", id="never")], mode=mode)
        stops(tool)
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.POLICY_ENFORCEMENT] == "blocked"
        assert attributes[semconv.POLICY_RULE_ID] == "never"
        assert attributes[semconv.ERROR_TYPE] == "policy_denied"
        assert governed.total(semconv.METRIC_POLICY_DENIES) == 1

    def test_a_pattern_goes_before_an_exact_allow_or_ask(
        self, governed: Any, tool: Tool, mode: str
    ) -> None:
        asked: list[Any] = []
        governed(
            policies=[
                policy.allow("t"),
                policy.ask_user("t", lambda call: asked.append(call) or True),
                policy.veto("*"),
            ],
            mode=mode,
        )
        stops(tool)
        assert asked == []

    def test_a_predicate_that_raises_blocks(self, governed: Any, tool: Tool, mode: str) -> None:
        def when(args: Any) -> bool:
            raise ValueError("no answer")

        governed(policies=[policy.veto("t", when=when)], mode=mode)
        stops(tool)
        assert governed.attributes("execute_tool t")[semconv.ERROR_TYPE] == "policy_error"

    def test_the_veto_of_a_scope_blocks(self, governed: Any, tool: Tool, mode: str) -> None:
        governed(policies=[policy.allow("t")], mode=mode)
        with otelhooks.scope(policies=[policy.veto("t")]):
            stops(tool)
        assert tool.t() == 1

    def test_a_scope_does_not_lift_it(self, governed: Any, tool: Tool, mode: str) -> None:
        governed(policies=[policy.veto("t")], mode=mode)
        with otelhooks.scope(policies=[policy.allow("t")]), otelhooks.session("c", policies=[]):
            stops(tool)

    def test_the_veto_of_a_scope_beats_a_question_outside(
        self, governed: Any, tool: Tool, mode: str
    ) -> None:
        asked: list[Any] = []
        governed(
            policies=[policy.ask_user("t", lambda call: asked.append(call) or True)], mode=mode
        )
        with otelhooks.scope(policies=[policy.veto("t")]):
            stops(tool)
        assert asked == []

    def test_a_rule_for_one_agent_blocks_only_there(
        self, governed: Any, tool: Tool, mode: str
    ) -> None:
        governed(policies=[policy.veto("t", agent="intern")], mode=mode)

        @otelhooks.agent("intern")
        def intern() -> None:
            stops(tool)

        intern()
        assert tool.t() == 1

    def test_hooks_do_not_lift_it(self, governed: Any, tool: Tool, mode: str) -> None:
        governed(
            policies=[policy.veto("t", when=lambda args: args["x"] == "bad")],
            hooks=[
                hooks.pre_tool_call_decide(lambda call: Result(modified_args={"x": "bad"})),
                hooks.pre_tool_call_decide(lambda call: Result(allow=True)),
                hooks.on_tool_error(lambda error: "recovered"),
            ],
            mode=mode,
        )
        stops(tool, "good")

    def test_a_veto_in_a_hook_of_rules_blocks(self, governed: Any, tool: Tool, mode: str) -> None:
        governed(hooks=[policy.enforce([policy.veto("t")])], mode=mode)
        stops(tool)

    def test_labels_may_be_its_condition(self, governed: Any, tool: Tool, mode: str) -> None:
        @otelhooks.tool
        def fetch() -> None: ...

        governed(
            policies=[
                policy.label("fetch", adds="untrusted"),
                policy.veto("t", when_labels={"untrusted"}),
            ],
            mode=mode,
        )
        with otelhooks.session("c"):
            fetch()
            stops(tool)

    def test_a_candidate_does_not_lift_it(self, governed: Any, tool: Tool, mode: str) -> None:
        governed(policies=[policy.veto("t")], candidate=[policy.allow("t")], mode=mode)
        stops(tool)
        assert governed.attributes("execute_tool t")[semconv.CANDIDATE_DECISION] == "allow"

    def test_a_veto_that_is_only_tried_out_blocks_nothing(
        self, governed: Any, tool: Tool, mode: str
    ) -> None:
        governed(candidate=[policy.veto("t")], mode=mode)
        assert tool.t() == 1

    def test_limits_are_not_used_up_by_it(self, governed: Any, tool: Tool, mode: str) -> None:
        governed(
            policies=[
                policy.veto("t", when=lambda args: args["x"] == "bad"),
                policy.RateLimit(tool_calls=1, mode="enforce"),
            ],
            mode=mode,
        )
        stops(tool, "bad")
        assert tool.t("good") == "good"


class TestApprovals:
    def test_an_edit_of_an_approver_may_run_into_it(self, governed: Any, tool: Tool) -> None:
        governed(
            policies=[
                policy.ask_user("t", lambda call: Approval("approved", edit={"x": "bad"})),  # type: ignore[arg-type,return-value]
                policy.veto("t", when=lambda args: args["x"] == "bad"),
            ]
        )
        stops(tool, "good")

    def test_an_approval_does_not_outlast_a_label_that_a_veto_reads(
        self, governed: Any, tool: Tool
    ) -> None:
        @otelhooks.tool
        def fetch() -> None: ...

        def approve(call: Any) -> bool:
            fetch()
            return True

        governed(
            policies=[
                policy.ask_user("t", approve),
                policy.label("fetch", adds="untrusted"),
                policy.veto("t", when_labels={"untrusted"}),
            ]
        )
        with otelhooks.session("c"):
            stops(tool)

    def test_a_hook_runner_keeps_it_in_its_place(self) -> None:
        asked: list[Any] = []
        rules = [policy.ask_user("t", lambda call: asked.append(call) or True), policy.veto("t")]
        runner = hooks.HookRunner([policy.enforce(rules)])
        call = types.ToolCall(name="t")
        result, _, _ = asyncio.run(
            runner.dispatch_pre_tool_call(hooks.TurnContext(runner.session_context), call)
        )
        assert not result.allow
        assert asked == []
