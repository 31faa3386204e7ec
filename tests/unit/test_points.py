"""How hooks compose: the rules of design section 5, one after another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from functools import partial
from typing import Any

import pytest

from otelhooks import hooks, policy, types
from otelhooks.hooks import OperationContext, SessionContext, TurnContext, points, results
from otelhooks.hooks.calls import Call
from otelhooks.hooks.chain import rule_verdict
from otelhooks.hooks.drive import Run, adrive, drive
from otelhooks.hooks.registry import HookSet, registrations
from otelhooks.hooks.verdict import Approval, Observed, Ruling, Verdict, refusal
from otelhooks.hooks.watch import Watch, ask_handlers
from otelhooks.policy.evaluate import PolicySet

Result = types.HookResult
decide = hooks.pre_tool_call_decide


class Escaped(BaseException):
    """Represents classes that `except Exception` does not catch."""


class Heard(Watch):
    """Records what a point reports."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.failed: list[BaseException] = []

    def hook_ran(self, registration: Any, seconds: float) -> None:
        self.ran.append(registration.point)

    def hook_failed(self, registration: Any, error: BaseException) -> None:
        self.failed.append(error)


class Sly(Approval):
    """An approval whose fields raise when they are read."""

    status = property(lambda self: 1 / 0, lambda self, value: None)  # type: ignore[assignment]


def nested_in_itself() -> dict[str, Any]:
    edit: dict[str, Any] = {}
    edit["x"] = edit
    return edit


def wrong(name: str, **fields: Any) -> Any:
    approval = Approval(fields.pop("status", "approved"))
    for field, value in fields.items():
        setattr(approval, field, value)
    return pytest.param(approval, id=name)


WRONG_ANSWERS = [
    pytest.param(Sly("approved"), id="fields that raise"),
    wrong("unknown status", status="yes"),
    wrong("status that cannot be hashed", status=["approved"]),
    wrong("edit that is a list", edit=["x"]),
    wrong("edit that is a text", edit="x"),
    wrong("edit of nothing much", edit=0),
    wrong("edit of a class", edit=types.ToolCall(name="t")),
    wrong("edit by number", edit={1: 2}),
    wrong("edit nested in itself", edit=nested_in_itself()),
    wrong("unknown type of approver", approver_type="cat"),
    wrong("approver without a name", approver_id=None),
    wrong("error that is a text", error="no"),
]


def context() -> OperationContext:
    return OperationContext(TurnContext(SessionContext()))


def at(point: str, *given: Any) -> Any:
    return HookSet(r for hook in given for r in registrations(hook)).at(point)


def tool_call(
    *given: Any,
    args: dict[str, Any] | None = None,
    rules: Any = (),
    monitor: bool = False,
    watch: Watch | None = None,
    call: Call | None = None,
    op: Any = None,
) -> tuple[Verdict, Call]:
    call = call or Call("t", {"x": 1} if args is None else args)
    judges = [PolicySet(r, mode="monitor" if monitor else "enforce") for r in rules]
    verdict = drive(
        points.pre_tool_call(
            at("pre_tool_call", *given), op or context(), call, watch or Watch(), judges, monitor
        )
    )
    return verdict, call


def allow(**fields: Any) -> Any:
    return decide(lambda data: Result(**fields))


def _edited(x: int, call: types.ToolCall) -> Approval:
    return Approval("approved", edit={"x": x})


class TestRule1Order:
    def test_by_priority_then_registration(self) -> None:
        log: list[str] = []

        def hook(name: str, priority: int) -> Any:
            return decide(priority=priority)(lambda data: log.append(name) or Result())

        tool_call(hook("last", 200), hook("second", 100), hook("third", 100), hook("first", 1))
        assert log == ["first", "second", "third", "last"]


class TestRule2Deny:
    def test_a_deny_ends_the_chain_and_its_result_is_returned_as_is(self) -> None:
        denied = Result(allow=False, message="no", modified_args={"x": 9})
        log: list[str] = []
        verdict, call = tool_call(
            decide(lambda data: denied), decide(lambda data: log.append("later") or Result())
        )
        assert verdict.result is denied
        assert not verdict.allowed
        assert (verdict.decision, verdict.policy_id, verdict.reason) == ("deny", "hook", "no")
        assert call.args == {"x": 1}
        assert log == []

    def test_an_answer_does_not_end_the_chain_and_the_last_one_is_used(self) -> None:
        first = hooks.pre_agent(lambda data: Result(response="one"))
        second = hooks.pre_agent(lambda data: Result(response="two"))
        verdict = drive(
            points.pre_agent(at("pre_agent", first, second), context(), types.AgentCall(), Watch())
        )
        assert verdict.answered
        assert verdict.answer == "two"
        assert verdict.result is not None
        assert verdict.result.response == "two"

    def test_an_answer_stays_if_a_later_hook_has_none(self) -> None:
        first = hooks.pre_agent(lambda data: Result(response="one"))
        second = hooks.pre_agent(lambda data: Result(message="fine"))
        verdict = drive(
            points.pre_agent(at("pre_agent", first, second), context(), types.AgentCall(), Watch())
        )
        assert verdict.result is not None
        assert verdict.result.action is types.HookAction.MODIFY
        assert (verdict.result.response, verdict.result.message) == ("one", "fine")

    def test_a_deny_beats_any_answer(self) -> None:
        answer = hooks.pre_agent(lambda data: Result(response="one"))
        deny = hooks.pre_agent(lambda data: Result(allow=False, message="no"))
        verdict = drive(
            points.pre_agent(at("pre_agent", answer, deny), context(), types.AgentCall(), Watch())
        )
        assert not verdict.allowed
        assert not verdict.answered


class TestRule3Rewrites:
    def test_modified_args_merge_into_a_copy_that_the_next_hook_sees(self) -> None:
        original = {"x": 1, "y": {"deep": 1}}
        seen: list[Any] = []
        verdict, call = tool_call(
            allow(modified_args={"x": 2}),
            decide(lambda data: seen.append(dict(data.args)) or Result(message="kept")),
            allow(modified_args={"z": 3}, message="last"),
            args=original,
        )
        assert seen[0] == {"x": 2, "y": {"deep": 1}}
        assert call.args == {"x": 2, "y": {"deep": 1}, "z": 3}
        assert original == {"x": 1, "y": {"deep": 1}}
        assert verdict.result is not None
        assert verdict.result.modified_args == call.args
        assert verdict.result.message == "last"
        assert verdict.decision == "modify"
        assert verdict.evaluations == 5  # the first two were asked again

    def test_replace_args_takes_the_place_of_all_and_modified_ones_merge_into_it(self) -> None:
        verdict, call = tool_call(allow(replace_args={"a": 1}, modified_args={"b": 2}))
        assert call.args == {"a": 1, "b": 2}
        assert verdict.result is not None
        assert verdict.result.replace_args is None

    def test_the_call_of_a_deny_carries_the_rewrites_made_before_it(self) -> None:
        verdict, call = tool_call(
            allow(modified_args={"x": 2}), allow(allow=False, replace_args={"x": 9})
        )
        assert not verdict.allowed
        assert call.args == {"x": 2}

    def test_an_empty_rewrite_is_a_modification_in_the_result_and_no_change_of_value(self) -> None:
        verdict, call = tool_call(allow(modified_args={}))
        assert verdict.result is not None
        assert verdict.result.action is types.HookAction.MODIFY
        assert verdict.decision == "allow"
        assert call.version == 0

    def test_the_prompt_that_goes_on_is_the_last_one(self) -> None:
        seen: list[str] = []
        one = hooks.pre_turn(lambda data: Result(modified_prompt="two"))
        two = hooks.pre_turn(lambda data: seen.append(data) or Result(message="kept"))
        verdict, prompt = drive(
            points.pre_turn(at("pre_turn", one, two), context(), "one", Watch())
        )
        assert (prompt, seen) == ("two", ["two"])
        assert verdict.decision == "modify"
        assert verdict.result is not None
        assert (verdict.result.modified_prompt, verdict.result.message) == ("two", "kept")

    def test_a_prompt_of_the_same_value_is_not_a_rewrite(self) -> None:
        same = hooks.pre_turn(lambda data: Result(modified_prompt="".join(["o", "ne"])))
        verdict, _ = drive(points.pre_turn(at("pre_turn", same), context(), "one", Watch()))
        assert verdict.decision == "allow"

    def test_the_prompt_of_a_deny_is_ignored(self) -> None:
        deny = hooks.pre_turn(lambda data: Result(allow=False, modified_prompt="evil"))
        for monitor in (False, True):
            verdict, prompt = drive(
                points.pre_turn(at("pre_turn", deny), context(), "one", Watch(), monitor)
            )
            assert prompt == "one"
            assert verdict.allowed is monitor

    def test_messages_and_tools_are_separate_and_an_empty_list_counts(self) -> None:
        seen: list[Any] = []
        given = [
            hooks.pre_model_call(lambda data: Result(modified_messages=[])),
            hooks.pre_model_call(lambda data: seen.append(data) or Result(modified_tools=["t"])),
            hooks.pre_model_call(lambda data: Result(message="last")),
        ]
        call = types.ModelCall(messages=["m"], tools=["a", "b"])
        verdict, new = drive(
            points.pre_model_call(at("pre_model_call", *given), context(), call, Watch())
        )
        assert seen[0].messages == []
        assert (new.messages, new.tools) == ([], ["t"])
        assert (call.messages, call.tools) == (["m"], ["a", "b"])
        result = verdict.result
        assert result is not None
        assert (result.modified_messages, result.modified_tools, result.message) == (
            [],
            ["t"],
            "last",
        )
        assert verdict.decision == "modify"

    def test_a_model_call_can_be_answered_or_denied(self) -> None:
        answer = hooks.pre_model_call(lambda data: Result(response="ready"))
        verdict, _ = drive(
            points.pre_model_call(
                at("pre_model_call", answer), context(), types.ModelCall(), Watch()
            )
        )
        assert (verdict.answered, verdict.answer) == (True, "ready")
        assert verdict.result is not None
        assert verdict.result.response == "ready"
        deny = hooks.pre_model_call(lambda data: Result(allow=False, message="no"))
        verdict, new = drive(
            points.pre_model_call(at("pre_model_call", deny), context(), "odd", Watch())
        )
        assert not verdict.allowed
        assert new == "odd"

    @pytest.mark.parametrize("monitor", [False, True])
    def test_a_model_call_changed_in_place_denies_and_is_put_back(self, monitor: bool) -> None:
        def change(data: types.ModelCall) -> Result:
            data.messages[0]["content"] = "evil"
            data.tools.append("more")
            return Result()

        call = types.ModelCall(messages=[{"content": "good"}])
        verdict, new = drive(
            points.pre_model_call(
                at("pre_model_call", hooks.pre_model_call(change)),
                context(),
                call,
                Watch(),
                monitor,
            )
        )
        assert verdict.allowed is monitor
        assert new.messages == [{"content": "good"}]
        assert new.tools == []


class TestRule4Policies:
    def test_policies_decide_last_on_the_final_arguments(self) -> None:
        rules = [[policy.deny("t", when=lambda args: args["x"] == 2)]]
        verdict, _ = tool_call(allow(modified_args={"x": 2}), rules=rules)
        assert not verdict.allowed
        assert verdict.policy_id == "code"

    def test_enforce_in_hooks_keeps_its_place_and_is_asked_again_after_a_rewrite(self) -> None:
        guard = policy.enforce([policy.deny("t", when=lambda args: args["x"] == 2)])
        verdict, _ = tool_call(guard, allow(modified_args={"x": 2}))
        assert not verdict.allowed
        verdict, _ = tool_call(guard, allow(modified_args={"x": 3}))
        assert verdict.allowed

    def test_a_decider_that_allowed_before_a_rewrite_is_asked_again(self) -> None:
        seen: list[tuple[int, bool]] = []
        contexts: list[hooks.OperationContext] = []

        @decide
        def gate(context: hooks.OperationContext, data: types.ToolCall) -> Result:
            contexts.append(context)
            seen.append((data.args["x"], context.is_recheck))
            return Result(allow=data.args["x"] < 5, message="too much")

        verdict, _ = tool_call(gate, allow(modified_args={"x": 9}))
        assert seen == [(1, False), (9, True)]
        assert not verdict.allowed
        assert verdict.reason == "too much"
        assert not any(context.is_recheck for context in contexts), "that pass is over"

    def test_a_rewrite_in_the_second_pass_denies(self) -> None:
        calls: list[int] = []

        @decide
        def wavering(data: types.ToolCall) -> Result:
            calls.append(1)
            return Result() if len(calls) == 1 else Result(modified_args={"x": len(calls)})

        verdict, _ = tool_call(wavering, allow(modified_args={"x": 7}))
        assert verdict.reason == "arguments not stable"
        assert not verdict.allowed

    def test_a_decider_that_rewrote_itself_is_not_asked_about_its_own_output(self) -> None:
        calls: list[int] = []
        first = decide(lambda data: calls.append(1) or Result(modified_args={"x": 2}))
        verdict, call = tool_call(allow(), first)
        assert calls == [1]
        assert call.args == {"x": 2}
        assert verdict.allowed

    def test_a_decider_that_rewrote_itself_may_deny_what_a_later_one_makes_of_it(self) -> None:
        """What it rewrites then does not count: later rewrites win."""
        seen: list[int] = []

        @decide
        def first(data: types.ToolCall) -> Result:
            seen.append(data.args["x"])
            return Result(allow=data.args["x"] < 5, message="too much", modified_args={"x": 2})

        verdict, call = tool_call(first, allow(modified_args={"x": 3}))
        assert seen == [1, 3]
        assert call.args == {"x": 3}
        assert verdict.allowed
        assert verdict.rule_id != "first"
        verdict, _ = tool_call(first, allow(modified_args={"x": 9}))
        assert (verdict.allowed, verdict.reason) == (False, "too much")

    def test_a_decider_that_rewrote_itself_may_deny_what_an_approver_makes_of_it(self) -> None:
        @decide
        def first(data: types.ToolCall) -> Result:
            return Result(allow=data.args["x"] < 5, message="too much", modified_args={"x": 2})

        for edit, allowed in ((9, False), (4, True)):
            rule = policy.ask_user("t", handler=partial(_edited, edit))
            verdict, call = tool_call(first, rules=[[rule]])
            assert (verdict.allowed, call.args) == (allowed, {"x": edit})

    def test_rules_are_evaluated_once_on_a_deny(self) -> None:
        calls: list[int] = []
        rule = policy.deny("t", when=lambda args: calls.append(1) or True)
        verdict, _ = tool_call(rules=[[rule]])
        assert not verdict.allowed
        assert calls == [1]

    def test_of_several_sets_of_rules_each_must_allow(self) -> None:
        verdict, _ = tool_call(rules=[[policy.allow("t")], [policy.deny("t")]])
        assert not verdict.allowed
        verdict, _ = tool_call(rules=[[policy.allow("t")], [policy.allow("*")]])
        assert verdict.allowed

    def test_who_approved_is_kept(self) -> None:
        rule = policy.ask_user("t", handler=lambda call: Approval("approved", approver_id="ann"))
        verdict, _ = tool_call(rules=[[rule]])
        assert verdict.approval is not None
        assert verdict.approval.approver_id == "ann"

    def test_people_are_asked_once_after_all_rewrites(self) -> None:
        asked: list[Any] = []

        def approve(call: types.ToolCall) -> bool:
            asked.append(call.args)
            return True

        guard = policy.enforce([policy.ask_user("t", handler=approve)])
        verdict, _ = tool_call(
            guard,
            allow(modified_args={"x": 2}),
            rules=[[policy.ask_user("t", handler=approve)]],
        )
        assert asked == [{"x": 2}]
        assert verdict.allowed
        assert verdict.decision == "ask"

    def test_a_question_about_arguments_that_are_gone_is_not_put(self) -> None:
        asked: list[Any] = []
        guard = policy.enforce(
            [
                policy.ask_user(
                    "t",
                    when=lambda args: args["x"] == 1,
                    handler=lambda call: asked.append(1) or True,
                )
            ]
        )
        verdict, _ = tool_call(guard, allow(modified_args={"x": 2}))
        assert verdict.allowed
        assert asked == []

    def test_after_the_answer_denies_are_evaluated_again(self) -> None:
        moved: list[int] = []
        rules = [
            policy.ask_user(
                "t", when=lambda args: not moved, handler=lambda call: moved.append(1) or True
            ),
            policy.deny("*", when=lambda args: bool(moved), name="late"),
        ]
        verdict, _ = tool_call(rules=[rules])
        assert not verdict.allowed
        assert verdict.message == "Denied by policy 'late'."
        assert verdict.approval is not None
        assert verdict.approval.approved

    def test_an_approvers_edit_is_a_rewrite_that_deciders_see(self) -> None:
        seen: list[int] = []

        @decide
        def gate(data: types.ToolCall) -> Result:
            seen.append(data.args["x"])
            return Result(allow=data.args["x"] != 13, message="never 13")

        def edited(value: int, call: types.ToolCall) -> Approval:
            return Approval("approved", edit={"x": value})

        for edit, allowed in ((7, True), (13, False)):
            seen.clear()
            rule = policy.ask_user("t", handler=partial(edited, edit))
            verdict, call = tool_call(gate, rules=[[rule]])
            assert seen == [1, edit]
            assert verdict.allowed is allowed
            assert call.args == {"x": edit}
            assert verdict.approval is not None

    def test_an_edit_after_a_rewrite_asks_each_decider_once_more_only(self) -> None:
        seen: list[int] = []
        gate = decide(lambda data: seen.append(data.args["x"]) or Result())
        rule = policy.ask_user("t", handler=lambda call: Approval("approved", edit={"x": 3}))
        verdict, _ = tool_call(gate, allow(modified_args={"x": 2}), rules=[[rule]])
        assert verdict.allowed
        assert seen == [1, 2, 3]

    def test_an_edit_of_the_same_value_does_not_ask_again(self) -> None:
        seen: list[int] = []
        gate = decide(lambda data: seen.append(1) or Result())
        rule = policy.ask_user("t", handler=lambda call: Approval("approved", edit={"x": 1}))
        tool_call(gate, rules=[[rule]])
        assert seen == [1]

    @pytest.mark.parametrize("is_async", [False, True])
    @pytest.mark.parametrize("is_hook", [False, True])
    @pytest.mark.parametrize("says", [True, False])
    def test_an_edit_that_another_rule_asks_about_is_put_to_a_person(
        self, says: bool, is_hook: bool, is_async: bool
    ) -> None:
        """The class: what a person did not see, or was not asked for, does not run."""
        shown: list[Any] = []

        def team(call: types.ToolCall) -> Approval:
            return Approval("approved", edit={"x": 5_000}, approver_id="team")

        async def team_later(call: types.ToolCall) -> Approval:
            await asyncio.sleep(0)
            return team(call)

        def boss(call: types.ToolCall) -> Any:
            shown.append(dict(call.args))
            return Approval("approved" if says else "rejected", approver_id="boss")

        rules = [
            policy.ask_user("t", when=lambda args: args["x"] >= 100, handler=boss, id="large"),
            policy.ask_user("t", handler=team_later if is_async else team, id="small"),
        ]
        given, sets = ([policy.enforce(rules)], []) if is_hook else ([], [rules])
        verdict, call = tool_call(*given, rules=sets)
        assert shown == [{"x": 5_000}]
        assert (verdict.allowed, verdict.decision, verdict.rule_id) == (says, "ask", "large")
        assert call.args == {"x": 5_000}
        assert verdict.approval is not None
        assert verdict.approval.approver_id == "boss"

    def test_the_same_approver_is_asked_for_the_other_rule_too(self) -> None:
        reasons: list[str] = []

        def channel(call: types.ToolCall, reason: str) -> Approval:
            reasons.append(reason)
            return Approval("approved", edit={"x": 5_000})

        rules = [
            policy.ask_user("t", channel, when=lambda args: args["x"] >= 100, reason="large"),
            policy.ask_user("t", channel, reason="small"),
        ]
        assert tool_call(rules=[rules])[0].allowed
        assert reasons == ["small", "large"]

    def test_an_edit_is_shown_to_whoever_approved_before_it(self) -> None:
        shown: list[Any] = []

        def first(call: types.ToolCall) -> bool:
            shown.append(dict(call.args))
            return True

        def second(call: types.ToolCall) -> Approval:
            return Approval("approved", edit={"x": 2})

        rules = [[policy.ask_user("t", handler=first)], [policy.ask_user("t", handler=second)]]
        verdict, call = tool_call(rules=rules)
        assert verdict.allowed
        assert shown == [{"x": 1}, call.args] == [{"x": 1}, {"x": 2}]

    def test_what_a_rule_asks_only_now_is_put_to_a_person(self) -> None:
        """Time has passed: a yes does not answer a rule that did not match then."""
        moved: list[int] = []
        asked: list[int] = []
        rules = [
            policy.ask_user(
                "t", when=lambda args: not moved, handler=lambda call: moved.append(1) or True
            ),
            policy.ask_user("*", handler=lambda call: asked.append(1) or False, name="late"),
        ]
        verdict, _ = tool_call(rules=[rules])
        assert asked == [1]
        assert verdict.message == "User denied tool 't' (policy 'late')."

    def test_approvers_who_edit_again_and_again_end_in_a_deny(self) -> None:
        asked: list[int] = []

        def more(call: types.ToolCall) -> Approval:
            asked.append(call.args["x"])
            return Approval("approved", edit={"x": call.args["x"] + 1})

        def also_more(call: types.ToolCall) -> Approval:
            return more(call)

        rules = [[policy.ask_user("t", handler=more)], [policy.ask_user("t", handler=also_more)]]
        verdict, _ = tool_call(rules=rules)
        assert (verdict.allowed, verdict.decision) == (False, "deny")
        assert verdict.message == "arguments not stable: approvers changed them again and again"
        assert verdict.approval is not None
        assert asked == list(range(1, 11))

    @pytest.mark.parametrize("answer", WRONG_ANSWERS)
    def test_an_answer_of_a_wrong_form_denies_and_says_why(self, answer: Any) -> None:
        """The class of B27: whatever is wrong with an approval, the call is denied, not the run."""
        rule = policy.ask_user("t", handler=lambda call: answer, name="p")
        verdict, call = tool_call(rules=[[rule]])
        assert not verdict.allowed
        assert verdict.message.startswith("Policy evaluation failed for policy 'p': ")
        assert verdict.approval is not None
        assert (verdict.approval.status, verdict.error) == ("error", verdict.approval.error)
        assert call.args == {"x": 1}

    def test_an_answer_that_a_handler_keeps_and_changes_is_not_what_runs(self) -> None:
        edit = {"x": [1]}
        kept = Approval("approved", edit=edit)
        verdict, call = tool_call(rules=[[policy.ask_user("t", handler=lambda call: kept)]])
        assert verdict.approval is not kept
        edit["x"].append(2)
        assert call.args == {"x": [1]}

    def test_each_approver_is_shown_what_runs_whatever_another_made_of_it(self) -> None:
        shown: list[Any] = []

        def first(call: types.ToolCall) -> bool:
            call.args["x"] = "harmless"
            return True

        def second(call: types.ToolCall) -> bool:
            shown.append(call.args)
            return True

        rules = [[policy.ask_user("t", handler=first)], [policy.ask_user("t", handler=second)]]
        verdict, call = tool_call(rules=rules)
        assert verdict.allowed
        assert shown == [call.args] == [{"x": 1}]

    def test_what_was_asked_about_is_what_runs(self) -> None:
        kept: list[types.ToolCall] = []

        def approve(call: types.ToolCall) -> bool:
            kept.append(call)
            call.args["x"] = "evil"
            return True

        _, call = tool_call(rules=[[policy.ask_user("t", handler=approve)]])
        assert call.args == {"x": 1}
        kept[0].args["x"] = "later"
        assert call.args == {"x": 1}


class TestRule5Transforms:
    def post(self, *given: Any, data: Any = None, monitor: bool = False) -> Any:
        data = types.ToolResult(name="t", result=1) if data is None else data
        return drive(
            results.post_point(
                "post_tool_call",
                at("post_tool_call", *given),
                context(),
                data,
                Watch(),
                results.place_result,
                monitor,
            )
        )

    def test_each_sees_the_last_ones_value_as_a_result_and_none_changes_nothing(self) -> None:
        seen: list[Any] = []
        data, verdict = self.post(
            hooks.post_tool_call_transform(lambda data: data.result + 1),
            hooks.post_tool_call_transform(lambda data: seen.append(data)),
            hooks.post_tool_call_transform(lambda data: data.result * 10),
        )
        assert isinstance(seen[0], types.ToolResult)
        assert (seen[0].result, data.result) == (2, 20)
        assert verdict.decision == "modify"

    def test_a_tool_result_takes_the_place_of_the_whole(self) -> None:
        new = types.ToolResult(name="t", result=5, error="e")
        data, _ = self.post(hooks.post_tool_call_transform(lambda data: new))
        assert data is new

    @pytest.mark.parametrize("value", ["", 0, False, []])
    def test_an_empty_value_is_a_value(self, value: Any) -> None:
        data, verdict = self.post(hooks.post_tool_call_transform(lambda data: value))
        assert data.result == value
        assert verdict.decision == "modify"

    def test_the_same_value_is_not_a_rewrite_but_another_type_is(self) -> None:
        _, verdict = self.post(hooks.post_tool_call_transform(lambda data: 1))
        assert verdict is None
        _, verdict = self.post(hooks.post_tool_call_transform(lambda data: True))
        assert verdict.decision == "modify"

    def test_a_value_that_cannot_be_compared_counts_as_changed(self) -> None:
        class Frame:
            def __eq__(self, other: object) -> Any:
                raise ValueError("truth of a frame")

            __hash__ = None  # type: ignore[assignment]

        data = types.ToolResult(name="t", result=Frame())
        _, verdict = self.post(hooks.post_tool_call_transform(lambda data: Frame()), data=data)
        assert verdict.decision == "modify"

    def test_the_output_of_a_result_is_the_new_value(self) -> None:
        data, _ = self.post(hooks.post_tool_call_transform(lambda data: Result(output=4)))
        assert data.result == 4
        data, verdict = self.post(hooks.post_tool_call_transform(lambda data: Result()))
        assert (data.result, verdict) == (1, None)

    def test_data_of_another_class_is_passed_on_as_given(self) -> None:
        data, _ = self.post(hooks.post_tool_call_transform(lambda data: data + "!"), data="odd")
        assert data == "odd!"

    def test_a_text_in_a_models_response_replaces_text_and_calls(self) -> None:
        response = types.ModelResponse(text="a", tool_calls=[types.ToolCall(name="t")])
        placed = results.place_response(response, "b")
        assert (placed.text, placed.tool_calls) == ("b", [])
        assert results.place_response(response, {"x": 1}) == {"x": 1}
        assert results.place_value("a", "b") == "b"

    def on_error(self, *given: Any) -> Any:
        return drive(
            results.on_error(at("on_tool_error", *given), context(), ValueError("boom"), Watch())
        )

    @pytest.mark.parametrize("value", ["", 0, "text", ("a", "b"), (1, 2, 3)])
    def test_a_plain_value_that_is_not_none_recovers_and_ends_the_chain(self, value: Any) -> None:
        log: list[int] = []
        result, found = self.on_error(
            hooks.on_tool_error(lambda error: None),
            hooks.on_tool_error(lambda error: value),
            hooks.on_tool_error(lambda error: log.append(1)),
        )
        assert result.allow
        assert found == value
        assert log == []

    def test_a_result_with_a_value_recovers(self) -> None:
        mine = Result(message="mine")
        assert self.on_error(hooks.on_tool_error(lambda error: (mine, ""))) == (mine, "")
        assert self.on_error(hooks.on_tool_error(lambda error: Result(output=3)))[1] == 3

    def test_allow_false_passes_on_and_its_message_replaces_the_text(self) -> None:
        result, value = self.on_error(
            hooks.on_tool_error(lambda error: (Result(allow=False, message="softer"), "ignored")),
            hooks.on_tool_error(lambda error: (Result(), None)),
        )
        assert (result.allow, result.message, value) == (False, "softer", None)

    @pytest.mark.parametrize("error", [ValueError("x"), Escaped("x")])
    def test_a_recovery_hook_that_raises_recovers_nothing(self, error: BaseException) -> None:
        def fail(_: Exception) -> None:
            raise error

        result, value = self.on_error(hooks.on_tool_error(fail))
        assert (result.allow, result.message) == (False, "Error recovery failed: x")
        assert value is None


class TestRule6Interactions:
    SPEC = types.AskQuestionInteractionSpec(questions=[])

    def ask(self, *given: Any) -> Any:
        return drive(
            results.interaction(at("on_interaction", *given), context(), self.SPEC, Watch())
        )

    def test_the_first_answer_is_used(self) -> None:
        answer = types.QuestionHookResult(responses=[])
        result, value = self.ask(
            hooks.on_interaction(lambda spec: None), hooks.on_interaction(lambda spec: answer)
        )
        assert result.allow
        assert value is answer

    def test_a_missing_answer_declines(self) -> None:
        result, value = self.ask()
        assert (result.allow, value) == (False, None)
        assert result.message == "No interaction hook handled the request"

    def test_an_exception_escapes(self) -> None:
        def fail(_: Any) -> None:
            raise ValueError("x")

        with pytest.raises(ValueError, match="x"):
            self.ask(hooks.on_interaction(fail))
        with pytest.raises(ValueError, match="x"):
            self.stop(hooks.stop(fail))

    def stop(self, *given: Any) -> Any:
        return drive(results.stop(at("stop", *given), context(), types.StopArgs(), Watch()))

    def test_the_first_continue_is_used(self) -> None:
        def go_on(reason: str) -> Any:
            decision = types.StopDecision.CONTINUE
            return hooks.stop(lambda args: types.StopHookResult(decision=decision, reason=reason))

        let = hooks.stop(lambda args: types.StopHookResult())
        nothing = hooks.stop(lambda args: None)
        assert self.stop(nothing, let, go_on("a"), go_on("b")).reason == "a"
        assert self.stop(let, nothing).decision is types.StopDecision.ALLOW_STOP

    def test_another_answer_is_a_type_error(self) -> None:
        with pytest.raises(TypeError, match="returned int"):
            self.stop(hooks.stop(lambda args: 3))


class TestRule7Inspectors:
    def test_they_run_in_order_and_one_that_raises_is_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        log: list[str] = []

        def fail(data: Any) -> None:
            raise Escaped("x")

        given = [
            hooks.post_tool_call(lambda data: log.append("a")),
            hooks.post_tool_call(fail),
            hooks.post_tool_call(lambda data: log.append("b")),
        ]
        with caplog.at_level(logging.ERROR, "otelhooks.hooks"):
            drive(results.inspect_point(at("post_tool_call", *given), context(), 1, Watch()))
        assert log == ["a", "b"]
        assert "fail" in caplog.text

    @pytest.mark.parametrize("answer", [Result(allow=False), Result(output="x")])
    def test_one_that_denies_or_changes_something_is_logged(
        self, answer: Result, caplog: pytest.LogCaptureFixture
    ) -> None:
        def inspect(data: Any) -> Result:
            return answer

        found = at("post_tool_call", hooks.post_tool_call(inspect))
        with caplog.at_level(logging.ERROR, "otelhooks.hooks"):
            drive(results.inspect_point(found, context(), 1, Watch()))
        assert "inspect` failed at post_tool_call" in caplog.text
        assert "it only inspects" in caplog.text

    @pytest.mark.parametrize("answer", [Result(), Result(message="seen"), True, "text"])
    def test_another_answer_passes(self, answer: Any) -> None:
        heard = Heard()
        found = at("post_tool_call", hooks.post_tool_call(lambda data: answer))
        drive(results.inspect_point(found, context(), 1, heard))
        assert heard.failed == []


class TestRule8Failures:
    @pytest.mark.parametrize("error", [ValueError("secret"), Escaped("secret")])
    def test_a_decider_that_raises_denies_and_the_model_is_not_told_how(
        self, error: BaseException
    ) -> None:
        def fail(data: Any) -> Result:
            raise error

        heard = Heard()
        verdict, _ = tool_call(decide(fail), watch=heard)
        assert not verdict.allowed
        assert verdict.message == "The call was refused because a policy check failed."
        assert "secret" not in verdict.reason
        assert "fail" in verdict.reason
        assert type(error).__name__ in verdict.reason
        assert verdict.result is not None
        assert "secret" in verdict.result.message
        assert heard.failed == [error]
        assert heard.ran == ["pre_tool_call"]

    @pytest.mark.parametrize("value", [None, True, "allow", {"allow": True}])
    def test_a_decider_that_returns_something_else_denies(self, value: Any) -> None:
        verdict, _ = tool_call(decide(lambda data: value))
        assert not verdict.allowed
        assert isinstance(verdict.error, TypeError)

    def test_an_answer_with_an_unknown_field_denies_or_withholds(self) -> None:
        """A rewrite under a wrong name must not leave the call, or a result, as it is."""

        def misspell(data: Any) -> Result:
            return types.HookResult(modified_arg={"x": 0}, modified_result="")  # type: ignore[call-arg]

        verdict, _ = tool_call(decide(misspell))
        assert not verdict.allowed
        assert "`modified_arg`; did you mean `modified_args`?" in str(verdict.error)
        given = types.ToolResult(name="t", result="secret")
        hook = hooks.post_tool_call_transform(misspell)
        seen, withheld = TestRule5Transforms().post(hook, data=given)
        assert withheld is not None
        assert "secret" not in str(seen)

    @pytest.mark.parametrize("field", ["response", "output", "input", "modified_prompt"])
    def test_so_does_one_with_a_field_of_another_point(self, field: str) -> None:
        """A ready answer that the point does not take must not let the call run."""
        verdict, _ = tool_call(decide(lambda data: types.HookResult(**{field: "x"})))
        assert not verdict.allowed
        said = f"`{field}` changes nothing at pre_tool_call, which takes `modified_args` or"
        assert said in str(verdict.error)
        given = types.ToolResult(name="t", result="secret")
        hook = hooks.post_tool_call_transform(lambda data: types.HookResult(modified_args={}))
        seen, withheld = TestRule5Transforms().post(hook, data=given)
        assert withheld is not None
        assert "secret" not in str(seen)

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit()])
    def test_stopping_the_process_escapes(self, error: BaseException) -> None:
        def fail(data: Any) -> Result:
            raise error

        async def afail(data: Any) -> Result:
            raise error

        for hook in (fail, afail):
            with pytest.raises(type(error)):
                tool_call(decide(hook))

    @pytest.mark.parametrize("error", [ValueError("secret"), Escaped("secret")])
    def test_a_transform_that_raises_withholds_the_result(self, error: BaseException) -> None:
        def fail(data: Any) -> None:
            raise error

        data, verdict = TestRule5Transforms().post(hooks.post_tool_call_transform(fail))
        assert data.result == "The result was withheld because a policy check failed."
        assert verdict.withheld
        assert "secret" not in verdict.reason
        assert type(error).__name__ in verdict.reason

    def test_a_time_limit_that_expires_counts_as_raising(self) -> None:
        import asyncio

        @decide(timeout=0.02)
        async def slow(data: Any) -> Result:
            await asyncio.sleep(30)
            return Result()

        verdict, _ = tool_call(slow)
        assert isinstance(verdict.error, TimeoutError)

    def test_a_decider_that_goes_on_after_its_time_and_allows_then_denies(self) -> None:
        import asyncio

        @decide(timeout=0.02)
        async def stubborn(data: Any) -> Result:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                return Result()

        async def main() -> Any:
            deciders = at("pre_tool_call", stubborn)
            return await adrive(points.pre_tool_call(deciders, context(), Call("t", {}), Watch()))

        verdict = asyncio.run(main())
        assert not verdict.allowed
        assert isinstance(verdict.error, TimeoutError)

    def test_a_function_that_returns_an_awaitable_is_awaited(self) -> None:
        async def later() -> Result:
            return Result(allow=False, message="later")

        verdict, _ = tool_call(decide(lambda data: later()))
        assert verdict.reason == "later"

    def test_a_deny_without_a_message_names_the_hook(self) -> None:
        verdict, _ = tool_call(decide(rule_id="r")(lambda data: Result(allow=False)))
        assert verdict.message == "Denied by hook 'r'."
        assert verdict.reason == ""


class TestRule11Withheld:
    def test_a_block_after_the_tool_ran_puts_the_reason_in_its_place(self) -> None:
        data, verdict = TestRule5Transforms().post(
            hooks.post_tool_call_transform(
                lambda data: Result(allow=False, message="secret found", severity="high")
            ),
            hooks.post_tool_call_transform(lambda data: "never"),
        )
        assert data.result == "secret found"
        assert (verdict.withheld, verdict.decision, verdict.severity) == (True, "deny", "high")

    def test_without_a_message_it_names_the_hook(self) -> None:
        hook = hooks.post_tool_call_transform(rule_id="r")(lambda data: Result(allow=False))
        data, _ = TestRule5Transforms().post(hook)
        assert data.result == "Withheld by hook 'r'."


class TestRule12Arguments:
    def test_the_callers_object_changed_later_is_not_what_runs(self) -> None:
        given = {"x": {"deep": [1]}}
        _, call = tool_call(args=given)
        given["x"]["deep"].append(2)
        assert call.args == {"x": {"deep": [1]}}

    def test_what_a_hook_kept_is_not_what_runs(self) -> None:
        kept: list[dict[str, Any]] = []
        _, call = tool_call(
            decide(lambda data: kept.append(data.args) or Result()), args={"x": [1]}
        )
        kept[0]["x"].append(2)
        assert call.args == {"x": [1]}

    def test_a_rewrite_kept_by_its_hook_is_not_what_runs(self) -> None:
        mine: dict[str, Any] = {"x": [1]}
        _, call = tool_call(allow(modified_args=mine))
        mine["x"].append(2)
        assert call.args == {"x": [1]}

    def test_a_change_in_place_denies_and_is_undone(self) -> None:
        def change(data: types.ToolCall) -> Result:
            data.args["x"] = 9
            return Result()

        verdict, call = tool_call(decide(change))
        assert not verdict.allowed
        assert isinstance(verdict.error, ValueError)
        assert call.args == {"x": 1}

    def test_other_values_go_by_reference(self) -> None:
        frame = object()
        _, call = tool_call(args={"frame": frame})
        assert call.args["frame"] is frame


class TestMonitor:
    def test_denies_of_hooks_and_rules_are_observed_and_the_chain_goes_on(self) -> None:
        log: list[str] = []
        verdict, call = tool_call(
            allow(allow=False, message="no", modified_args={"x": 9, "y": 9}),
            decide(lambda data: log.append("later") or Result(modified_args={"x": 2})),
            rules=[[policy.deny("t", name="rule")]],
            monitor=True,
        )
        assert verdict.allowed
        assert [(seen.decision, seen.policy_id) for seen in verdict.observed] == [
            ("deny", "hook"),
            ("deny", "code"),
        ]
        assert log == ["later"]
        assert call.args == {"x": 2}

    def test_a_crash_is_observed(self) -> None:
        verdict, _ = tool_call(decide(lambda data: 1 / 0), monitor=True)
        assert verdict.allowed
        assert len(verdict.observed) == 1

    def test_no_person_is_asked(self) -> None:
        asked: list[int] = []
        rule = policy.ask_user("t", handler=lambda call: asked.append(1) or True)
        verdict, _ = tool_call(policy.enforce([rule]), rules=[[rule]], monitor=True)
        assert verdict.allowed
        assert asked == []
        assert [seen.decision for seen in verdict.observed] == ["ask", "ask"]

    def test_the_reason_of_an_observed_rule_names_its_decision(self) -> None:
        rules = [policy.ask_user("t", name="mail"), policy.deny("t"), policy.deny("*", reason="no")]
        verdict, _ = tool_call(rules=[rules], monitor=True)
        assert [(seen.decision, seen.reason) for seen in verdict.observed] == [
            ("deny", "Denied by policy 't'."),
            ("ask", "Asked by policy 'mail'."),
            ("deny", "no"),
        ]

    def test_who_is_asked_again_is_observed_once(self) -> None:
        verdict, _ = tool_call(
            allow(allow=False, message="no"),
            policy.enforce([policy.deny("t")]),
            allow(modified_args={"x": 2}),
            monitor=True,
        )
        assert len(verdict.observed) == 2

    def test_a_veto_blocks(self) -> None:
        verdict, _ = tool_call(rules=[[policy.veto("t")]], monitor=True)
        assert not verdict.allowed

    def test_a_block_of_a_result_is_observed_and_the_result_goes_on(self) -> None:
        deny = hooks.post_tool_call_transform(lambda data: Result(allow=False, message="no"))
        data, verdict = TestRule5Transforms().post(deny, monitor=True)
        assert data.result == 1
        assert [seen.reason for seen in verdict.observed] == ["no"]
        assert not verdict.withheld
        change = hooks.post_tool_call_transform(lambda data: 2)
        data, verdict = TestRule5Transforms().post(deny, change, monitor=True)
        assert (data.result, verdict.decision) == (2, "modify")
        raising = hooks.post_tool_call_transform(lambda data: 1 / 0)
        _, verdict = TestRule5Transforms().post(deny, raising, monitor=True)
        assert verdict.withheld
        assert len(verdict.observed) == 1


class TestAsking:
    def answer(self, *handlers: Any, channel: Any = None, reason: str = "") -> Verdict:
        rules = [policy.ask_user("t", handler=h, reason=reason, name="p") for h in handlers]
        return tool_call(rules=[rules[:1], rules[1:]] if rules[1:] else [rules])[0]

    @pytest.mark.parametrize("value", [False, None, 1, "yes", object()])
    def test_only_true_approves(self, value: Any) -> None:
        verdict = self.answer(lambda call: value)
        assert not verdict.allowed
        assert verdict.message == "User denied tool 't' (policy 'p')."
        assert self.answer(lambda call: True).allowed

    def test_a_reason_replaces_the_text(self) -> None:
        assert self.answer(lambda call: False, reason="because").message == "because"

    @pytest.mark.parametrize("error", [ValueError("x"), Escaped("x")])
    def test_a_handler_that_raises_denies(self, error: BaseException) -> None:
        def fail(call: Any) -> bool:
            raise error

        verdict = self.answer(fail)
        assert verdict.message == f"Policy evaluation failed for policy 'p': {error!r}"
        assert verdict.error is error

    def test_time_that_is_over_denies(self) -> None:
        def late(call: Any) -> bool:
            raise TimeoutError

        verdict = self.answer(late)
        assert verdict.message == "Tool 't' was not approved in time (policy 'p')."
        assert isinstance(refusal("no", verdict), Exception)
        assert type(refusal("no", verdict)).__name__ == "ApprovalTimeout"
        assert type(refusal("no", None)).__name__ == "Denied"

    def test_a_reason_comes_after_the_word_that_time_is_over(self) -> None:
        def late(call: Any) -> bool:
            raise TimeoutError

        verdict = self.answer(late, reason="Money moves.")
        assert verdict.message == "Tool 't' was not approved in time: Money moves."

    def test_each_handler_is_asked_once_and_all_must_approve(self) -> None:
        log: list[str] = []

        def one(call: Any) -> bool:
            log.append("one")
            return True

        assert self.answer(one, one).allowed
        assert log == ["one"]
        assert not self.answer(one, lambda call: False).allowed

    def test_without_anybody_to_ask_it_is_an_error(self) -> None:
        class Rule:
            handler = ask = detail = None
            reason = ""

        approval = drive(ask_handlers([Rule()], Call("t", {})))  # type: ignore[list-item]
        assert approval.status == "error"
        assert "no approval channel to ask" in str(approval.error)

    def test_a_channel_is_asked_for_rules_without_a_handler(self) -> None:
        class Rule:
            handler = ask = detail = None
            reason = "why"

        seen: list[Any] = []

        def channel(call: types.ToolCall, reason: str) -> bool:
            seen.append((call.name, reason))
            return True

        approval = drive(ask_handlers([Rule()], Call("t", {}), channel=channel))  # type: ignore[list-item]
        assert approval.approved
        assert seen == [("t", "why")]

    def test_the_first_rule_is_the_deciding_one(self) -> None:
        verdict = self.answer(lambda call: True)
        assert (verdict.decision, verdict.reason) == ("ask", "Asked by policy 'p'.")


class TestVerdict:
    def test_an_allow_is_shared_by_calls_that_only_their_name_decides(self) -> None:
        rules = PolicySet([policy.allow("t", id="r")])
        decided = drive(
            points.pre_tool_call(at("pre_tool_call"), None, Call("t", {}), Watch(), [rules])
        )
        shared = points.constant(Call("t", {}), [rules])
        assert shared is not None
        assert shared is points.constant(Call("t", {}), [rules])
        assert (shared.decision, shared.rule_id) == ("allow", "r")
        assert decided is not shared  # what is reported of one call is not reported of others

    @pytest.mark.parametrize(
        "rule", [policy.deny("t"), policy.deny("t", mode="monitor"), policy.deny("other")]
    )
    def test_nothing_but_a_plain_allow_is_settled_by_the_name(self, rule: Any) -> None:
        rules = PolicySet([rule])
        assert points.constant(Call("t", {}), [rules]) is None  # not seen before
        verdict = drive(
            points.pre_tool_call(at("pre_tool_call"), None, Call("t", {}), Watch(), [rules])
        )
        is_settled = points.constant(Call("t", {}), [rules]) is not None
        assert is_settled == verdict.is_plain() == (rule.tool == "other")

    def test_observed_rules_of_a_ruling_are_in_the_verdict(self) -> None:
        [rule] = PolicySet([policy.deny("t", reason="why")]).rules
        verdict = rule_verdict("p", Ruling("allow", observed=(("deny", rule),)))
        assert [seen.reason for seen in verdict.observed] == ["why"]
        assert not verdict.is_plain()

    def test_deny_goes_before_ask_before_modify_before_allow(self) -> None:
        ranks = [Verdict("p", decision) for decision in ("allow", "modify", "ask", "deny")]
        for place, verdict in enumerate(ranks):
            stricter = [other for other in ranks if other.is_stricter_than(verdict)]
            assert stricter == ranks[place + 1 :]

    def test_what_was_enforced_goes_before_what_was_observed(self) -> None:
        observed = Verdict("p")
        observed.observed = [Observed("deny", "hook", "r", "no")]
        assert observed.is_stricter_than(Verdict("p", "modify"))
        assert Verdict("p", "deny").is_stricter_than(observed)
        assert not observed.is_stricter_than(Verdict("p", "deny"))


def test_something_else_than_a_tool_call_goes_through_the_deciders() -> None:
    thing = object()
    seen: list[Any] = []
    call = Call.of(thing)
    verdict, _ = tool_call(decide(lambda data: seen.append(data) or Result()), call=call)
    assert verdict.allowed
    assert seen == [thing]


def test_a_recheck_without_a_context_is_not_reported() -> None:
    calls: list[int] = []
    gate = decide(lambda data: calls.append(1) or Result())
    chain = points.pre_tool_call(
        at("pre_tool_call", gate, allow(modified_args={"x": 2})), None, Call("t", {"x": 1}), Watch()
    )
    assert drive(chain).allowed
    assert calls == [1, 1]


def test_arguments_that_contain_themselves_deny() -> None:
    loop: dict[str, Any] = {}
    loop["me"] = loop
    verdict, call = tool_call(rules=[[policy.allow("t")]], args=loop)
    assert not verdict.allowed
    assert call.args == {}
    assert isinstance(verdict.error, RecursionError)
    assert verdict.result is not None
    assert not verdict.result.allow


def test_a_result_of_another_class_that_is_equal_stays_the_same_result() -> None:
    class Money:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Money)

        __hash__ = None  # type: ignore[assignment]

    data = types.ToolResult(name="t", result=Money())
    _, verdict = TestRule5Transforms().post(
        hooks.post_tool_call_transform(lambda data: Money()), data=data
    )
    assert verdict is None


class TestOddities:
    def test_a_rewrite_that_cannot_be_made_denies(self) -> None:
        loop: dict[str, Any] = {}
        loop["me"] = loop
        rewrite = Result(modified_args={"x": 1})
        rewrite.modified_args = loop
        heard = Heard()
        verdict, _ = tool_call(decide(lambda data: rewrite), watch=heard)
        assert not verdict.allowed
        assert len(heard.failed) == 1

    def test_a_ruling_without_a_rule_in_monitor_mode_observes_nothing(self) -> None:
        class Odd:
            def evaluate(self, call: Call, context: Any = None) -> Generator[Run, Any, Ruling]:
                yield Run(lambda: None)
                return Ruling("deny")

        chain = points.pre_tool_call(
            at("pre_tool_call"), None, Call("t", {}), Watch(), [Odd()], monitor=True
        )
        verdict = drive(chain)
        assert verdict.allowed
        assert list(verdict.observed) == []

    def test_an_equal_text_of_another_class_of_data_is_not_a_rewrite(self) -> None:
        data, verdict = TestRule5Transforms().post(
            hooks.post_tool_call_transform(lambda data: "".join(["o", "dd"])), data="odd"
        )
        assert (data, verdict) == ("odd", None)

    def test_an_exception_whose_text_raises_is_named_by_its_class(self) -> None:
        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError

            __repr__ = __str__

        def fail(data: Any) -> Any:
            raise Mute

        verdict, _ = tool_call(decide(fail))
        assert not verdict.allowed
        assert "Mute" in verdict.reason

    def test_an_edit_is_what_another_approver_is_shown(self) -> None:
        def edit(call: types.ToolCall) -> Approval:
            return Approval("approved", edit={"x": 2})

        shown: list[Any] = []

        def check(allowed: int, call: types.ToolCall) -> bool:
            shown.append(dict(call.args))
            return call.args["x"] == allowed

        for allowed in (1, 2):
            shown.clear()
            both = (edit, partial(check, allowed))
            rules = [[policy.ask_user("t", handler=each)] for each in both]
            verdict, call = tool_call(rules=rules)
            assert verdict.allowed is (allowed == 2)
            assert shown == [call.args] == [{"x": 2}]


class TestACallThatWasDecidedBefore:
    """As an answer's call that a loop runs, or one that was paused."""

    def judged(self, chain: Any, call: Call, earlier: Verdict | None = None) -> Verdict:
        return drive(
            points.pre_tool_call(chain, context(), call, Watch(), [], False, earlier=earlier)
        )

    def test_a_hook_that_rewrote_it_does_not_do_so_again(self) -> None:
        @decide
        def longer(data: types.ToolCall) -> Result:
            return Result(modified_args={"x": f"{data.args['x']}!"})

        chain, call = at("pre_tool_call", longer), Call("t", {"x": "a"})
        first = self.judged(chain, call)
        assert (first.decision, call.args) == ("modify", {"x": "a!"})
        second = self.judged(chain, call, first)
        assert (second.decision, second.rule_id) == ("modify", first.rule_id)
        assert call.args == {"x": "a!"}

    def test_but_may_deny_it_now(self) -> None:
        answers = [Result(modified_args={"x": 2}), Result(allow=False, message="no")]
        chain, call = at("pre_tool_call", decide(lambda data: answers.pop(0))), Call("t", {"x": 1})
        first = self.judged(chain, call)
        assert first.allowed
        assert not self.judged(chain, call, first).allowed

    def test_one_that_people_approved_with_its_rewrite_is_no_rewrite_now(self) -> None:
        hook = decide(lambda data: Result(modified_args={"x": data.args["x"] + 1}))
        chain, call = at("pre_tool_call", hook), Call("t", {"x": 1})
        first = self.judged(chain, call)
        first.decision = "ask"
        assert self.judged(chain, call, first).decision == "allow"
        assert call.args == {"x": 2}
