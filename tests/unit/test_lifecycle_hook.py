"""`LifecycleHook`: one class, a method for each point."""

from __future__ import annotations

from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, types
from otelhooks.hooks import HookContext, HookRunner, base
from otelhooks.hooks.compat import lifecycle
from otelhooks.hooks.registry import registrations
from otelhooks.records import semconv

pytestmark = pytest.mark.anyio
Result = types.HookResult
CALL = types.ToolCall(name="t", args={"x": 1}, id="c1")


async def _dispatch_all(runner: HookRunner) -> None:
    """Dispatch every point of a runner once."""
    await runner.dispatch_session_start()
    await runner.dispatch_run_start(types.RunInfo(framework="f"))
    _, turn = await runner.dispatch_pre_turn("hi")
    _, agent = await runner.dispatch_pre_agent(turn, types.AgentCall(agent="a"))
    _, _, model = await runner.dispatch_pre_model_call(turn, types.ModelCall(model="m"))
    await runner.dispatch_post_model_call(model, types.ModelResponse(text="t"))
    await runner.dispatch_on_model_error(model, ValueError("m"))
    _, _, tool = await runner.dispatch_pre_tool_call(turn, CALL)
    await runner.dispatch_post_tool_call(tool, types.ToolResult(name="t", result=1))
    await runner.dispatch_on_tool_error(tool, ValueError("t"))
    await runner.dispatch_interaction(turn, types.AskQuestionInteractionSpec(questions=[]))
    await runner.dispatch_compaction(turn, types.Step(id="s"))
    await runner.dispatch_stop(turn, types.StopArgs())
    await runner.dispatch_subagent_start(tool, types.SubagentInfo(agent="b"))
    await runner.dispatch_subagent_stop(tool, types.SubagentInfo(agent="b"))
    await runner.dispatch_post_agent(agent, "answer")
    await runner.dispatch_post_turn(turn, "answer")
    await runner.dispatch_run_end(types.RunInfo(framework="f"))
    await runner.dispatch_session_end()


class TestMethods:
    def test_there_is_one_for_every_hook_class(self) -> None:
        assert len(lifecycle._METHODS) == len(base.HOOK_CLASSES)
        assert all(callable(getattr(hooks.LifecycleHook, name)) for name in lifecycle._METHODS)

    async def test_each_is_called_at_its_point(self) -> None:
        called: list[str] = []

        def noting(name: str) -> Any:
            def method(self: Any, *data: Any) -> None:
                called.append(name)

            return method

        every = type("Every", (hooks.LifecycleHook,), {n: noting(n) for n in lifecycle._METHODS})
        await _dispatch_all(HookRunner([every()]))
        assert set(called) == set(lifecycle._METHODS)

    async def test_those_that_are_not_overridden_are_not_registered(self) -> None:
        class Nothing(hooks.LifecycleHook):
            pass

        class One(hooks.LifecycleHook):
            def pre_turn(self) -> None:
                pass

        assert registrations(Nothing()) == []
        assert [(r.point, r.kind) for r in registrations(One())] == [("pre_turn", "decide")]
        await _dispatch_all(HookRunner([hooks.LifecycleHook()]))

    async def test_one_that_is_set_on_the_object_counts(self) -> None:
        guard: Any = hooks.LifecycleHook()
        guard.pre_tool_call = lambda call: Result(allow=False, message="no")
        runner = HookRunner([guard])
        _, turn = await runner.dispatch_pre_turn("hi")
        result, _, _ = await runner.dispatch_pre_tool_call(turn, CALL)
        assert not result.allow

    @pytest.mark.parametrize("name", ["pre_tool_cal", "on_tool_failure", "post_agent"])
    def test_one_that_would_never_run_is_refused_when_the_class_is_made(self, name: str) -> None:
        with pytest.raises(TypeError, match=f"{name}` is the method of no point"):
            type("Typo", (hooks.LifecycleHook,), {name: lambda self, data: None})

    def test_the_refusal_names_what_was_meant(self) -> None:
        with pytest.raises(TypeError, match="did you mean `pre_tool_call`"):
            type("Typo", (hooks.LifecycleHook,), {"pre_tool_cal": lambda self, data: None})

    def test_other_methods_and_attributes_are_free(self) -> None:
        class Free(hooks.LifecycleHook):
            on_duty = True

            def helper(self) -> None:
                pass

            def _pre_check(self) -> None:
                pass

        assert registrations(Free()) == []


class TestParameters:
    async def test_data_and_context_may_be_left_out_and_come_in_any_order(self) -> None:
        seen: list[Any] = []

        class Any_(hooks.LifecycleHook):
            def pre_turn(self) -> None:
                seen.append("bare")

            async def pre_tool_call(self, call: types.ToolCall, context: HookContext) -> None:
                seen.append((call.name, context.get("tool_name")))

            def post_tool_call(self, where: HookContext, result: types.ToolResult) -> None:
                seen.append((where.get("tool_name"), result.result))

            def on_compaction(self, context: HookContext) -> None:
                seen.append(type(context).__name__)

        await _dispatch_all(HookRunner([Any_()]))
        assert seen == ["bare", ("t", "t"), ("t", 1), "OperationContext"]

    def test_a_wrong_signature_is_an_error_at_registration(self) -> None:
        class Wrong(hooks.LifecycleHook):
            def pre_tool_call(self, call: Any, other: Any) -> None:
                pass

        with pytest.raises(TypeError, match="Invalid signature for hook 'pre_tool_call'"):
            HookRunner([Wrong()])


class TestDecisions:
    async def test_none_allows_and_a_result_decides(self) -> None:
        class Guard(hooks.LifecycleHook):
            async def pre_tool_call(self, call: types.ToolCall) -> Result | None:
                return Result(allow=False, message="no") if call.args["x"] else None

        runner = HookRunner([Guard()])
        _, turn = await runner.dispatch_pre_turn("hi")
        denied, _, _ = await runner.dispatch_pre_tool_call(turn, CALL)
        allowed, _, _ = await runner.dispatch_pre_tool_call(
            turn, types.ToolCall(name="t", args={"x": 0})
        )
        assert (denied.allow, denied.message, allowed.allow) == (False, "no", True)

    async def test_anything_else_denies(self) -> None:
        class Wrong(hooks.LifecycleHook):
            def pre_tool_call(self, call: types.ToolCall) -> Any:
                return True

        runner = HookRunner([Wrong()])
        _, turn = await runner.dispatch_pre_turn("hi")
        result, _, _ = await runner.dispatch_pre_tool_call(turn, CALL)
        assert not result.allow

    async def test_a_result_is_rewritten_by_the_method_that_says_so(self) -> None:
        class Double(hooks.LifecycleHook):
            def post_tool_call_transform(self, result: types.ToolResult) -> Any:
                return result.result * 2

            def post_tool_call(self, result: types.ToolResult) -> Any:
                return "ignored"

        runner = HookRunner([Double()])
        _, turn = await runner.dispatch_pre_turn("hi")
        _, _, tool = await runner.dispatch_pre_tool_call(turn, CALL)
        result = await runner.dispatch_post_tool_call(tool, types.ToolResult(name="t", result=21))
        assert result.result == 42


class TestInTheProcess:
    def test_an_instrumented_tool_meets_it_and_its_verdict_names_it(self, governed: Any) -> None:
        class Guard(hooks.LifecycleHook):
            priority = 5

            def pre_tool_call(self, call: types.ToolCall) -> Result | None:
                return Result(allow=False, message="no") if call.args["x"] else None

            async def on_tool_error(self, error: Exception) -> str:
                return f"saved from {error}"

        governed(hooks=[Guard()])

        @otelhooks.tool
        def t(x: int) -> str:
            raise ValueError("it")

        with pytest.raises(otelhooks.errors.Denied, match="no"):
            t(1)
        assert t(0) == "saved from it"
        denied = governed.spans[0].attributes
        assert denied[semconv.POLICY_RULE_ID].endswith("Guard.pre_tool_call")

    def test_it_is_taken_away_whole(self, governed: Any) -> None:
        class Guard(hooks.LifecycleHook):
            def pre_tool_call(self) -> Result:
                return Result(allow=False)

            def post_tool_call_transform(self) -> str:
                return "changed"

        guard = Guard()
        handle = governed(hooks=[guard])
        handle.unregister(guard)

        @otelhooks.tool
        def t() -> str:
            return "as it is"

        assert t() == "as it is"

    def test_a_coroutine_that_awaits_nothing_runs_in_place(self, governed: Any) -> None:
        import threading

        seen: list[threading.Thread] = []

        class Noting(hooks.LifecycleHook):
            async def pre_tool_call(self, call: types.ToolCall) -> None:
                seen.append(threading.current_thread())

        governed(hooks=[Noting()])
        otelhooks.tool(lambda: None)()
        assert seen == [threading.current_thread()]
