"""`Hooks`: a bundle of functions; `observing_hooks`: a callback that only listens."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, types
from otelhooks.hooks import HookContext, HookRunner
from otelhooks.hooks.registry import registrations

pytestmark = pytest.mark.anyio
Result = types.HookResult
CALL = types.ToolCall(name="t", args={"x": 1}, id="c1")


async def _tool(runner: HookRunner, call: types.ToolCall = CALL) -> tuple[Result, Any, Any]:
    _, turn = await runner.dispatch_pre_turn("hi")
    return await runner.dispatch_pre_tool_call(turn, call)


class TestWhatEachReturns:
    async def test_a_deny_has_its_message(self) -> None:
        result, _, _ = await _tool(
            HookRunner([hooks.Hooks(pre_tool_use=lambda c: Result(action="deny", message="no"))])
        )
        assert (result.allow, result.message) == (False, "no")

    @pytest.mark.parametrize("given", [{"x": 2, "y": 3}, '{"x": 2, "y": 3}'])
    async def test_input_takes_the_place_of_the_arguments(self, given: Any) -> None:
        bundle = hooks.Hooks(pre_tool_use=lambda c: Result(action="modify", input=given))
        result, call, _ = await _tool(HookRunner([bundle]))
        assert result.action is types.HookAction.MODIFY
        assert call.args == {"x": 2, "y": 3}

    async def test_the_words_of_other_hooks_are_understood_as_well(self) -> None:
        bundle = hooks.Hooks(pre_tool_use=lambda c: Result(modified_args={"y": 3}))
        _, call, _ = await _tool(HookRunner([bundle]))
        assert call.args == {"x": 1, "y": 3}

    @pytest.mark.parametrize("given", ["not json", "[1]", 7, ["a"]])
    async def test_arguments_that_are_none_deny(self, given: Any) -> None:
        bundle = hooks.Hooks(pre_tool_use=lambda c: Result(action="modify", input=given))
        result, call, _ = await _tool(HookRunner([bundle]))
        assert not result.allow
        assert call.args == {"x": 1}

    async def test_the_last_of_several_changes_is_used_and_a_deny_beats_them(self) -> None:
        def to(n: int) -> hooks.Hooks:
            return hooks.Hooks(pre_tool_use=lambda c: Result(action="modify", input={"x": n}))

        _, call, _ = await _tool(HookRunner([to(2), to(3)]))
        assert call.args == {"x": 3}
        deny = hooks.Hooks(pre_tool_use=lambda c: Result(action="deny", message="no"))
        result, _, _ = await _tool(HookRunner([to(2), deny, to(3)]))
        assert not result.allow

    async def test_output_takes_the_place_of_a_result(self) -> None:
        bundle = hooks.Hooks(post_tool_use=lambda r: Result(action="modify", output="new"))
        runner = HookRunner([bundle])
        _, _, tool = await _tool(runner)
        result = await runner.dispatch_post_tool_call(tool, types.ToolResult(name="t", result="x"))
        assert result.result == "new"

    async def test_a_result_can_be_withheld(self) -> None:
        bundle = hooks.Hooks(post_tool_use=lambda r: Result(action="deny", message="secret"))
        runner = HookRunner([bundle])
        _, _, tool = await _tool(runner)
        result = await runner.dispatch_post_tool_call(tool, types.ToolResult(name="t", result="x"))
        assert result.result == "secret"

    async def test_messages_and_tools_and_a_ready_answer_of_a_model(self) -> None:
        def pre(call: types.ModelCall) -> Result | None:
            if call.model == "ready":
                return Result(action="modify", response="cached")
            return Result(action="modify", messages=[*call.messages, "extra"], tools=[])

        runner = HookRunner([hooks.Hooks(pre_model_call=pre)])
        _, turn = await runner.dispatch_pre_turn("hi")
        _, call, _ = await runner.dispatch_pre_model_call(
            turn, types.ModelCall(model="m", messages=["a"], tools=["t"])
        )
        assert (call.messages, call.tools) == (["a", "extra"], [])
        result, _, _ = await runner.dispatch_pre_model_call(turn, types.ModelCall(model="ready"))
        assert result.response == "cached"

    async def test_answers_of_models_and_agents_are_rewritten_by_response(self) -> None:
        bundle = hooks.Hooks(
            post_model_call=lambda r: Result(action="modify", response="other"),
            after_agent=lambda answer: Result(action="modify", response=answer.upper()),
        )
        runner = HookRunner([bundle])
        _, turn = await runner.dispatch_pre_turn("hi")
        _, _, model = await runner.dispatch_pre_model_call(turn, types.ModelCall())
        response = await runner.dispatch_post_model_call(model, types.ModelResponse(text="t"))
        _, agent = await runner.dispatch_pre_agent(turn, types.AgentCall(agent="a"))
        assert response.text == "other"
        assert await runner.dispatch_post_agent(agent, "answer") == "ANSWER"

    async def test_an_agent_is_denied_or_answered_for(self) -> None:
        def before(call: types.AgentCall) -> Result:
            if call.agent == "b":
                return Result(action="deny", message="not b")
            return Result(action="modify", response="cached")

        runner = HookRunner([hooks.Hooks(before_agent=before)])
        _, turn = await runner.dispatch_pre_turn("hi")
        answered, _ = await runner.dispatch_pre_agent(turn, types.AgentCall(agent="a"))
        denied, _ = await runner.dispatch_pre_agent(turn, types.AgentCall(agent="b"))
        assert (answered.response, denied.allow) == ("cached", False)

    async def test_a_users_message_is_rewritten_by_input(self) -> None:
        bundle = hooks.Hooks(on_user_message=lambda m: Result(action="modify", input="clean"))
        result, _ = await HookRunner([bundle]).dispatch_pre_turn("dirty")
        assert result.modified_prompt == "clean"

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            (Result(action="modify", output="saved"), (True, "saved")),
            (Result(action="modify", output=""), (True, "")),
            (None, (False, None)),
            (Result(), (False, None)),
            (Result(action="deny", message="worse"), (False, None)),
        ],
    )
    async def test_a_tools_failure_is_recovered_by_output_or_passed_on(
        self, answer: Result | None, expected: tuple[bool, Any]
    ) -> None:
        runner = HookRunner([hooks.Hooks(on_tool_error=lambda e: answer)])
        _, _, tool = await _tool(runner)
        result, value = await runner.dispatch_on_tool_error(tool, ValueError("x"))
        assert (result.allow, value) == expected

    async def test_a_models_failure_is_recovered_by_response(self) -> None:
        bundle = hooks.Hooks(on_model_error=lambda e: Result(action="modify", response="later"))
        runner = HookRunner([bundle])
        _, turn = await runner.dispatch_pre_turn("hi")
        _, _, model = await runner.dispatch_pre_model_call(turn, types.ModelCall())
        _, value = await runner.dispatch_on_model_error(model, ValueError("x"))
        assert value == "later"

    @pytest.mark.parametrize("name", ["pre_tool_use", "pre_model_call", "before_agent"])
    async def test_a_change_that_says_nothing_denies(self, name: str) -> None:
        runner = HookRunner([hooks.Hooks(**{name: lambda data: Result(action="modify")})])
        _, turn = await runner.dispatch_pre_turn("hi")
        if name == "pre_tool_use":
            result: Result = (await runner.dispatch_pre_tool_call(turn, CALL))[0]
        elif name == "pre_model_call":
            result = (await runner.dispatch_pre_model_call(turn, types.ModelCall()))[0]
        else:
            result = (await runner.dispatch_pre_agent(turn, types.AgentCall()))[0]
        assert not result.allow

    async def test_what_is_not_a_result_denies_before_and_withholds_after(self) -> None:
        wrong: Any = lambda data: "deny"  # noqa: E731
        runner = HookRunner([hooks.Hooks(pre_tool_use=wrong)])
        assert not (await _tool(runner))[0].allow
        runner = HookRunner([hooks.Hooks(post_tool_use=wrong)])
        _, _, tool = await _tool(runner)
        result = await runner.dispatch_post_tool_call(tool, types.ToolResult(name="t", result="x"))
        assert result.result != "x"


class TestFunctions:
    async def test_they_may_be_async_and_take_the_context(self) -> None:
        seen: list[str] = []

        async def pre(call: types.ToolCall, context: HookContext) -> Result | None:
            seen.append(context.get("tool_name"))
            return None

        await _tool(HookRunner([hooks.Hooks(pre_tool_use=pre)]))
        assert seen == ["t"]

    async def test_observers_see_and_change_nothing(self) -> None:
        seen: list[Any] = []

        def see(data: Any) -> Result:
            seen.append(data)
            return Result(action="deny", message="not heard")

        bundle = hooks.Hooks(
            before_run=see, after_run=see, on_subagent_start=see, on_subagent_stop=see
        )
        runner = HookRunner([bundle])
        info, sub = types.RunInfo(framework="f"), types.SubagentInfo(agent="b")
        await runner.dispatch_run_start(info)
        await runner.dispatch_subagent_start(runner.session_context, sub)
        await runner.dispatch_subagent_stop(runner.session_context, sub)
        await runner.dispatch_run_end(info)
        assert seen == [info, sub, sub, info]

    def test_only_those_that_are_given_are_registered(self) -> None:
        assert registrations(hooks.Hooks()) == []
        found = registrations(hooks.Hooks(pre_tool_use=lambda c: None, after_run=lambda i: None))
        assert [r.point for r in found] == ["pre_tool_call", "run_end"]

    @pytest.mark.parametrize(
        ("function", "says"),
        [
            (lambda: None, "Invalid signature"),
            (lambda a, b: None, "Invalid signature"),
            ("a name", "is str, not a function"),
            (dict, "signature|Invalid"),
        ],
    )
    def test_one_of_the_wrong_shape_is_an_error_at_once(self, function: Any, says: str) -> None:
        with pytest.raises(TypeError, match=says):
            hooks.Hooks(pre_tool_use=function)

    def test_an_unknown_name_is_an_error(self) -> None:
        with pytest.raises(TypeError, match="pre_tool"):
            hooks.Hooks(pre_tool=lambda c: None)  # type: ignore[call-arg]


class TestObserving:
    async def test_every_point_is_told_once_denies_included(self) -> None:
        seen: list[types.HookEvent] = []

        @hooks.pre_tool_call_decide
        def deny(call: types.ToolCall) -> Result:
            return Result(allow=call.name != "bad", message="no")

        runner = HookRunner([deny, deny, hooks.observing_hooks(seen.append)])
        _, turn = await runner.dispatch_pre_turn("hi")
        await runner.dispatch_pre_tool_call(turn, types.ToolCall(name="bad"))
        _, _, tool = await runner.dispatch_pre_tool_call(turn, CALL)
        await runner.dispatch_post_tool_call(tool, types.ToolResult(name="t"))
        assert [(e.type, e.decision, e.reason) for e in seen] == [
            ("user_message", "allow", None),
            ("pre_tool_use", "deny", "no"),
            ("pre_tool_use", "allow", None),
            ("post_tool_use", None, None),
        ]

    async def test_it_hears_where_no_other_hook_is_and_decides_nothing(self) -> None:
        seen: list[types.HookEvent] = []

        async def callback(event: types.HookEvent) -> Result:
            seen.append(event)
            return Result(allow=False)

        runner = HookRunner([hooks.observing_hooks(callback)])
        result, _, _ = await _tool(runner)
        assert result.allow
        assert [e.type for e in seen] == ["user_message", "pre_tool_use"]

    async def test_a_callback_that_raises_is_logged_and_holds_nothing_up(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        def callback(event: types.HookEvent) -> None:
            raise RuntimeError("broken ui")

        with caplog.at_level(logging.ERROR, "otelhooks.hooks"):
            result, _, _ = await _tool(HookRunner([hooks.observing_hooks(callback)]))
        assert result.allow
        assert "callback" in caplog.text

    def test_a_slow_callback_in_the_background_holds_nothing_up(self, governed: Any) -> None:
        import threading

        released, seen = threading.Event(), list[str]()

        def callback(event: types.HookEvent) -> None:
            released.wait(10)
            seen.append(event.type)

        governed(hooks=[hooks.observing_hooks(callback, background=True)])
        assert otelhooks.tool(lambda: "done")() == "done"
        assert seen == []
        released.set()
        otelhooks.uninstrument()
        assert seen == ["pre_tool_use", "post_tool_use"]

    @pytest.mark.parametrize("callback", [lambda: None, lambda a, b: None, None, 3])
    def test_a_callback_that_takes_no_event_is_an_error(self, callback: Any) -> None:
        with pytest.raises(TypeError):
            hooks.observing_hooks(callback)

    def test_events_go_to_a_page_as_json(self, governed: Any) -> None:
        lines: list[str] = []
        send: Callable[[types.HookEvent], None] = lambda e: lines.append(e.model_dump_json())  # noqa: E731
        governed(hooks=[hooks.observing_hooks(send)])
        otelhooks.tool(lambda: object())()
        assert [json.loads(line)["type"] for line in lines] == ["pre_tool_use", "post_tool_use"]
