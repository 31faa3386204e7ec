"""`HookRunner`: registration by hand and dispatch by hand, without telemetry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otelhooks import hooks, policy, types
from otelhooks.hooks import HookRunner, background, base, runner
from otelhooks.hooks.hook_runner import HookRunner as Alias

pytestmark = pytest.mark.anyio
Result = types.HookResult
CALL = types.ToolCall(name="t", args={"x": 1}, id="c1")


@pytest.fixture(autouse=True)
def no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "observer", None)


def test_the_alias_is_the_same_class() -> None:
    assert Alias is HookRunner


class TestRegistration:
    def test_every_point_has_a_keyword_and_a_property(self) -> None:
        for hook_class in base.HOOK_CLASSES:
            name = base.keyword(hook_class)
            hook = getattr(hooks, name)(lambda context: None)
            made = HookRunner(**{f"{name}_hooks": [hook]})
            assert getattr(made, f"{name}_hooks") == (hook,)
            assert made.has_hooks

    def test_hooks_in_keyword_lists_come_before_the_positional_list(self) -> None:
        log: list[str] = []
        first = hooks.pre_turn(lambda data: log.append("keyword") or Result())
        second = hooks.pre_turn(lambda data: log.append("list") or Result())
        made = HookRunner([second], pre_turn_hooks=[first])
        assert made.pre_turn_hooks == (first, second)

    def test_nothing_is_registered_at_first(self) -> None:
        made = HookRunner(pre_turn_hooks=None)
        assert not made.has_hooks
        assert made.pre_turn_hooks == ()

    def test_what_is_not_a_hook_is_a_value_error(self) -> None:
        with pytest.raises(ValueError, match="Unknown hook type: "):
            HookRunner([object()])

    def test_a_hook_under_the_wrong_keyword_is_a_value_error(self) -> None:
        with pytest.raises(ValueError, match="not one of `pre_turn_hooks`"):
            HookRunner(pre_turn_hooks=[hooks.on_event(lambda data: None)])

    def test_unknown_keywords_and_attributes_are_errors(self) -> None:
        with pytest.raises(TypeError, match="unexpected keyword argument 'tool_hooks'"):
            HookRunner(tool_hooks=[])
        with pytest.raises(AttributeError, match="no attribute 'tool_hooks'"):
            _ = HookRunner().tool_hooks

    def test_one_object_may_be_several_hooks(self) -> None:
        class Both(hooks.PreToolCallDecideHook, hooks.OnSessionStartHook):
            async def run(self, context: Any, data: Any) -> Any:
                return Result()

        both = Both()
        made = HookRunner([both])
        assert made.pre_tool_call_decide_hooks == made.on_session_start_hooks == (both,)
        only = HookRunner(on_session_start_hooks=[both])
        assert only.pre_tool_call_decide_hooks == ()

    async def test_a_child_has_the_parents_hooks_first_and_only_adds(self) -> None:
        deny = hooks.pre_tool_call_decide(lambda data: Result(allow=False, message="no"))
        allow = hooks.pre_tool_call_decide(lambda data: Result())
        parent = HookRunner([deny])
        child = parent.child([allow])
        assert child.pre_tool_call_decide_hooks == (deny, allow)
        assert parent.pre_tool_call_decide_hooks == (deny,)
        assert child.session_context is parent.session_context
        _, turn = await child.dispatch_pre_turn("x")
        assert not (await child.dispatch_pre_tool_call(turn, CALL))[0].allow

    async def test_a_hook_that_removes_itself_stays_for_the_dispatch_that_runs(self) -> None:
        made = HookRunner()
        log: list[str] = []

        @hooks.pre_tool_call_decide
        def removes(data: Any) -> Result:
            made._hooks = hooks_without
            log.append("first")
            return Result()

        hooks_without = made._hooks
        made.register_hook(removes)
        made.register_hook(hooks.pre_tool_call_decide(lambda data: log.append("2") or Result()))
        _, turn = await made.dispatch_pre_turn("x")
        await made.dispatch_pre_tool_call(turn, CALL)
        assert log == ["first", "2"]


class TestDispatch:
    async def test_contexts_nest_from_session_to_operation(self) -> None:
        seen: list[Any] = []

        @hooks.pre_tool_call_decide
        def keep(context: hooks.HookContext, data: Any) -> Result:
            seen.append(context)
            return Result()

        made = HookRunner([keep])
        made.session_context.set("s", 1)
        result, turn = await made.dispatch_pre_turn(None)
        assert result.allow
        turn.set("t", 2)
        _, call, operation = await made.dispatch_pre_tool_call(turn, CALL)
        assert call == CALL
        assert seen == [operation]
        assert (operation.get("s"), operation.get("t")) == (1, 2)
        assert operation.get("tool_name") == "t"

    async def test_no_prompt_becomes_an_empty_text_and_a_list_stays(self) -> None:
        seen: list[Any] = []
        made = HookRunner([hooks.pre_turn(lambda data: seen.append(data) or Result())])
        await made.dispatch_pre_turn(None)
        await made.dispatch_pre_turn([])
        assert seen == ["", []]

    async def test_the_call_that_comes_back_is_what_is_to_run(self) -> None:
        made = HookRunner(
            [
                hooks.pre_tool_call_decide(lambda data: Result(modified_args={"y": 2})),
                policy.enforce([policy.deny("other")]),
            ]
        )
        _, turn = await made.dispatch_pre_turn("x")
        result, call, _ = await made.dispatch_pre_tool_call(turn, CALL)
        assert call.args == {"x": 1, "y": 2}
        assert result.modified_args == {"x": 1, "y": 2}
        assert CALL.args == {"x": 1}

    async def test_transforms_then_inspectors_see_the_result(self) -> None:
        seen: list[Any] = []
        made = HookRunner(
            [
                hooks.post_tool_call(lambda data: seen.append(data.result)),
                hooks.post_tool_call_transform(lambda data: "masked"),
            ]
        )
        _, turn = await made.dispatch_pre_turn("x")
        _, _, op = await made.dispatch_pre_tool_call(turn, CALL)
        result = await made.dispatch_post_tool_call(op, types.ToolResult(name="t", result="raw"))
        assert (result.result, seen) == ("masked", ["masked"])

    async def test_errors_are_recovered_or_passed_on(self) -> None:
        made = HookRunner([hooks.on_tool_error(lambda error: "value")])
        _, turn = await made.dispatch_pre_turn("x")
        _, _, op = await made.dispatch_pre_tool_call(turn, CALL)
        result, value = await made.dispatch_on_tool_error(op, ValueError("x"))
        assert (result.allow, value) == (True, "value")
        result, value = await made.dispatch_on_model_error(op, ValueError("x"))
        assert (result.allow, value) == (False, None)

    async def test_agents_models_questions_and_the_end(self) -> None:
        decision = types.StopDecision.CONTINUE
        answer = types.QuestionHookResult(responses=[])
        made = HookRunner(
            [
                hooks.pre_agent(lambda data: Result(response="ready")),
                hooks.post_agent_transform(lambda data: data + "!"),
                hooks.pre_model_call(lambda data: Result(modified_messages=["m"])),
                hooks.post_model_call_transform(lambda data: "text"),
                hooks.on_interaction(lambda spec: answer),
                hooks.stop(lambda args: types.StopHookResult(decision=decision, reason="more")),
            ]
        )
        _, turn = await made.dispatch_pre_turn("x")
        result, op = await made.dispatch_pre_agent(turn, types.AgentCall(agent="a", input="i"))
        assert result.response == "ready"
        assert op.get("agent_name") == "a"
        assert await made.dispatch_post_agent(op, "done") == "done!"
        result, call, op = await made.dispatch_pre_model_call(turn, types.ModelCall())
        assert call.messages == ["m"]
        response = await made.dispatch_post_model_call(op, types.ModelResponse(text="x"))
        assert response.text == "text"
        spec = types.AskQuestionInteractionSpec(questions=[])
        result, found, _ = await made.dispatch_interaction(turn, spec)
        assert found is answer
        assert (await made.dispatch_stop(turn, types.StopArgs())).reason == "more"

    async def test_an_exception_in_stop_and_interaction_escapes(self) -> None:
        made = HookRunner(
            [hooks.stop(lambda args: 1 / 0), hooks.on_interaction(lambda spec: 1 / 0)]
        )
        _, turn = await made.dispatch_pre_turn("x")
        with pytest.raises(ZeroDivisionError):
            await made.dispatch_stop(turn, types.StopArgs())
        with pytest.raises(ZeroDivisionError):
            await made.dispatch_interaction(turn, None)

    async def test_a_background_hook_has_run_when_the_session_has_ended(self) -> None:
        seen: list[Any] = []
        hook = hooks.post_turn(background=True)(lambda data: seen.append(data))
        made = HookRunner([hook])
        _, turn = await made.dispatch_pre_turn("x")
        await made.dispatch_post_turn(turn, "answer")
        await made.dispatch_session_end()
        assert seen == ["answer"]
        assert background.flush()

    async def test_data_of_another_class_reaches_hooks_unchanged(self) -> None:
        seen: list[Any] = []
        made = HookRunner([hooks.pre_tool_call_decide(lambda data: seen.append(data) or Result())])
        _, turn = await made.dispatch_pre_turn("x")
        thing = object()
        _, call, op = await made.dispatch_pre_tool_call(turn, thing)  # type: ignore[arg-type]
        assert call is thing
        assert seen == [thing]
        assert await made.dispatch_post_tool_call(op, thing) is thing
        await made.dispatch_pre_agent(turn, thing)  # type: ignore[arg-type]
        await made.dispatch_pre_model_call(turn, thing)  # type: ignore[arg-type]
        await made.dispatch_compaction(turn, thing)  # type: ignore[arg-type]


async def test_listeners_hear_of_every_point_once_after_its_chain_denies_included() -> None:
    heard: list[types.HookEvent] = []
    made = HookRunner(
        [
            hooks.on_event(lambda event: heard.append(event)),
            hooks.pre_tool_call_decide(rule_id="r")(
                lambda data: Result(allow=data.args["x"] == 1, message="no")
            ),
        ]
    )
    run, sub = types.RunInfo(input="i"), types.SubagentInfo(agent="b")
    await made.dispatch_session_start()
    await made.dispatch_run_start(run)
    _, turn = await made.dispatch_pre_turn("x")
    _, agent = await made.dispatch_pre_agent(turn, types.AgentCall(agent="a"))
    _, _, model = await made.dispatch_pre_model_call(turn, types.ModelCall())
    await made.dispatch_post_model_call(model, types.ModelResponse())
    await made.dispatch_on_model_error(model, ValueError("x"))
    _, _, tool = await made.dispatch_pre_tool_call(agent, CALL)
    await made.dispatch_post_tool_call(tool, types.ToolResult(name="t", error="e"))
    await made.dispatch_on_tool_error(tool, ValueError("x"))
    await made.dispatch_pre_tool_call(turn, types.ToolCall(name="t", args={"x": 2}))
    await made.dispatch_interaction(turn, None)
    await made.dispatch_compaction(turn, types.Step())
    await made.dispatch_subagent_start(tool, sub)
    await made.dispatch_subagent_stop(tool, sub)
    await made.dispatch_stop(turn, types.StopArgs())
    await made.dispatch_post_agent(agent, "done")
    await made.dispatch_post_turn(turn, "done")
    await made.dispatch_run_end(run)
    await made.dispatch_session_end()
    assert [event.type for event in heard] == [
        "session_start",
        "before_run",
        "user_message",
        "before_agent",
        "pre_model_call",
        "post_model_call",
        "model_error",
        "pre_tool_use",
        "post_tool_use",
        "tool_error",
        "pre_tool_use",
        "on_interaction",
        "on_compaction",
        "subagent_start",
        "subagent_stop",
        "stop",
        "after_agent",
        "post_turn",
        "after_run",
        "session_end",
    ]
    allowed, denied = heard[7], heard[10]
    assert (allowed.decision, allowed.tool_name, allowed.tool_call_id) == ("allow", "t", "c1")
    assert (allowed.agent_name, allowed.input) == ("a", None)
    assert (denied.decision, denied.rule_id, denied.reason) == ("deny", "r", "no")
    failed = heard[8]
    assert (failed.is_error, failed.error) == (True, "tool_error")
    assert all(json.loads(event.model_dump_json())["timestamp"] > 0 for event in heard)


class Silent:
    """An observer that only records its notifications."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def watch(self) -> Any:
        from otelhooks.hooks.watch import Watch

        return Watch()

    def opened(self, context: Any, data: Any, verdict: Any) -> Any:
        self.told.append(f"opened {verdict.point}")
        yield from ()

    def closed(self, context: Any, data: Any, verdict: Any) -> None:
        self.told.append("closed")

    def failed(self, context: Any, error: Any, recovered: bool, data: Any) -> None:
        self.told.append(f"failed {recovered}")

    def happened(self, point: str, context: Any) -> None:
        self.told.append(point)


async def test_an_observer_is_notified_of_every_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Silent()
    monkeypatch.setattr(runner, "observer", observer)
    made = HookRunner()
    await made.dispatch_session_start()
    _, turn = await made.dispatch_pre_turn("x")
    _, _, op = await made.dispatch_pre_tool_call(turn, CALL)
    await made.dispatch_on_tool_error(op, ValueError("x"))
    await made.dispatch_post_tool_call(op, types.ToolResult(name="t"))
    await made.dispatch_interaction(turn, None)
    await made.dispatch_stop(turn, types.StopArgs())
    await made.dispatch_post_turn(turn, "x")
    assert observer.told == [
        "session_start",
        "opened pre_turn",
        "opened pre_tool_call",
        "failed False",
        "closed",
        "on_interaction",
        "stop",
        "closed",
        "post_turn",
    ]
