"""Conversations, turns and scopes of hand-written loops."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import ConfigError, Denied
from otelhooks.records import semconv

Result = types.HookResult


@otelhooks.tool
def t(x: int = 1) -> int:
    return x


def noting(log: list[Any], *names: str) -> list[Any]:
    def note(name: str) -> Any:
        return lambda: log.append(name)

    return [getattr(hooks, name)(note(name)) for name in names]


class TestSession:
    def test_it_starts_and_ends_and_is_on_every_span_below(self, governed: Any) -> None:
        log: list[Any] = []
        governed(hooks=noting(log, "on_session_start", "on_session_end"))
        with otelhooks.session("c", user="u-1") as context:
            assert log == ["on_session_start"]
            context.set("k", 1)
            assert otelhooks.current_context() is context
            t()
            with otelhooks.turn("hello", agent="a"):
                inner = otelhooks.current_context()
                assert inner is not None
                assert inner.get("k") == 1
                assert inner.get("session_id") == "c"
        assert log == ["on_session_start", "on_session_end"]
        for span in governed.spans:
            assert span.attributes[semconv.GEN_AI_CONVERSATION_ID] == "c"
            assert span.attributes[semconv.ENDUSER_PSEUDO_ID] == "u-1"
        assert otelhooks.current_context() is None

    def test_its_own_hooks_hear_its_end_too(self, governed: Any) -> None:
        log: list[Any] = []
        governed()
        with otelhooks.session("c", hooks=noting(log, "on_session_start", "on_session_end")):
            pass
        assert log == ["on_session_start", "on_session_end"]

    def test_entered_again_inside_it_ends_once_with_the_outer_block(self, governed: Any) -> None:
        log: list[Any] = []
        governed(hooks=noting(log, "on_session_start", "on_session_end"))
        with otelhooks.session("c", user="u") as outer:
            with otelhooks.session("c") as inner:
                assert inner is outer
            assert log == ["on_session_start"]
            t()
        assert log == ["on_session_start", "on_session_end"]
        assert governed.attributes("execute_tool t")[semconv.ENDUSER_PSEUDO_ID] == "u"

    def test_without_an_id_its_turns_share_it(self, governed: Any) -> None:
        log: list[Any] = []
        numbers: list[int] = []

        @hooks.pre_turn
        def number(context: hooks.TurnContext, data: Any) -> Result:
            numbers.append(context.get("turn_number"))
            return Result()

        governed(hooks=[*noting(log, "on_session_start", "on_session_end"), number])
        with otelhooks.session():
            for _ in range(2):
                with otelhooks.turn("x"):
                    pass
            assert log == ["on_session_start"]
        assert log == ["on_session_start", "on_session_end"]
        assert numbers == [1, 2]

    def test_rules_of_a_session_hold_in_it_only(self, governed: Any) -> None:
        governed()
        with otelhooks.session("c", policies=[policy.deny("t")]), pytest.raises(Denied):
            t()
        assert t() == 1

    def test_exported_state_is_on_spans_that_start_below(self, governed: Any) -> None:
        governed(hooks=[hooks.pre_tool_call_decide(lambda data: Result())])
        with otelhooks.session("c") as context:
            context.set("team", "red", export=True)
            with otelhooks.turn("x", agent="a"):
                t()
        for name in ("invoke_agent a", "execute_tool t"):
            assert governed.attributes(name)["otelhooks.context.team"] == "red"

    def test_background_hooks_have_run_at_its_end(self, governed: Any) -> None:
        seen: list[Any] = []
        hook = hooks.post_tool_call(background=True)(lambda data: seen.append(data.result))
        governed(hooks=[hook])
        with otelhooks.session("c"):
            t(4)
        assert seen == [4]

    def test_concurrent_sessions_in_tasks_see_neither_state_nor_spans_of_each_other(
        self, governed: Any
    ) -> None:
        governed(hooks=[hooks.pre_tool_call_decide(lambda data: Result())])

        async def work(name: str) -> None:
            with otelhooks.session(name) as context:
                context.set("who", name)
                async with otelhooks.turn("x", agent=name):
                    for _ in range(3):
                        await asyncio.sleep(0)
                        inner = otelhooks.current_context()
                        assert inner is not None
                        assert inner.get("who") == name
                        t()

        async def main() -> None:
            await asyncio.gather(*(work(f"s{n}") for n in range(5)))

        asyncio.run(main())
        self.check_isolation(governed)

    def test_concurrent_sessions_in_threads_likewise(self, governed: Any) -> None:
        governed(hooks=[hooks.pre_tool_call_decide(lambda data: Result())])
        barrier = threading.Barrier(4)

        def work(name: str) -> None:
            with otelhooks.session(name), otelhooks.turn("x", agent=name):
                barrier.wait(10)
                for _ in range(3):
                    t()

        with ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(work, f"s{n}") for n in range(4)]:
                future.result()
        self.check_isolation(governed)

    def check_isolation(self, governed: Any) -> None:
        traces: dict[int, set[str]] = {}
        for span in governed.spans:
            id = span.attributes[semconv.GEN_AI_CONVERSATION_ID]
            traces.setdefault(span.context.trace_id, set()).add(id)
        assert all(len(ids) == 1 for ids in traces.values())
        tools = [("execute_tool t", [])] * 3
        assert all(children == tools for _, children in governed.trees)

    def test_without_instrument_blocks_run_as_they_are(self) -> None:
        with otelhooks.session("c", policies=[policy.deny("t")]) as context:
            context.set("k", 1)
            with otelhooks.turn("hello") as turn:
                turn.answer(turn.prompt.upper())
            assert turn.result == "HELLO"
            assert t() == 1


class TestScope:
    def test_it_adds_and_lifts_nothing(self, governed: Any) -> None:
        governed(policies=[policy.deny("t", when=lambda args: args["x"] == 1)])
        with otelhooks.scope(policies=[policy.allow("*")]), pytest.raises(Denied):
            t(1)
        with otelhooks.scope(policies=[policy.deny("t", when=lambda args: args["x"] == 2)]):
            with otelhooks.scope(policies=[policy.deny("t", when=lambda a: a["x"] == 3)]):
                for x in (1, 2, 3):
                    with pytest.raises(Denied):
                        t(x)
            assert t(3) == 3
        assert t(2) == 2

    def test_it_may_be_for_one_agent_and_those_below(self, governed: Any) -> None:
        governed()
        with otelhooks.scope(agent="researcher", policies=[policy.deny("t")]):
            assert t() == 1
            with hooks.agent_scope("researcher"):
                with pytest.raises(Denied):
                    t()
                with hooks.agent_scope("helper"), pytest.raises(Denied):
                    t()

    def test_its_rules_are_observed_in_monitor_mode(self, governed: Any) -> None:
        governed(mode="monitor")
        with otelhooks.scope(policies=[policy.deny("t")]):
            assert t() == 1

    def test_it_ends_with_an_exception_too(self, governed: Any) -> None:
        governed()
        with pytest.raises(KeyError), otelhooks.scope(policies=[policy.deny("t")]):
            raise KeyError
        assert t() == 1

    def test_what_cannot_be_understood_is_an_error_at_its_start(self, governed: Any) -> None:
        governed()
        with pytest.raises((ConfigError, ValueError)), otelhooks.scope(policies=["t"]):
            pass

    def test_a_copied_context_takes_it_to_other_threads(self, governed: Any) -> None:
        governed()
        with otelhooks.scope(policies=[policy.deny("t")]), ThreadPoolExecutor(1) as pool:
            future = pool.submit(contextvars.copy_context().run, t)
            assert isinstance(future.exception(), Denied)


class TestDecorators:
    """The class: as a decorator, a block holds while the function runs, however it does."""

    SCOPES = (
        lambda: otelhooks.scope(policies=[policy.deny("t")]),
        lambda: otelhooks.session("c", policies=[policy.deny("t")]),
    )

    @pytest.mark.parametrize("make", SCOPES, ids=["scope", "session"])
    def test_a_function_runs_inside_at_each_call(self, governed: Any, make: Any) -> None:
        @make()
        def plain() -> int:
            return t()

        @make()
        async def coroutine() -> int:
            await asyncio.sleep(0)
            return t()

        async def late() -> int:
            return t()

        governed()
        returning = make()(lambda: late())
        for _ in range(2):
            with pytest.raises(Denied):
                plain()
            for function in (coroutine, returning):
                with pytest.raises(Denied):
                    asyncio.run(function())
        assert t() == 1
        assert asyncio.iscoroutinefunction(coroutine)

    @pytest.mark.parametrize("make", SCOPES, ids=["scope", "session"])
    def test_a_generator_function_is_refused(self, make: Any) -> None:
        def items() -> Any:
            yield 1

        async def aitems() -> Any:
            yield 1

        for function in (items, aitems):
            with pytest.raises(TypeError, match="is a generator function"):
                make()(function)


class TestTurn:
    def test_hooks_see_prompt_and_answer(self, governed: Any) -> None:
        governed(
            hooks=[
                hooks.pre_turn(lambda data: Result(modified_prompt=data + "!")),
                hooks.post_agent_transform(lambda answer: answer * 2),
            ]
        )
        with otelhooks.turn("hi", agent="a") as turn:
            turn.answer(turn.prompt)
        assert turn.result == "hi!hi!"

    def test_a_deny_raises_and_the_block_does_not_run(self, governed: Any) -> None:
        deny = hooks.pre_turn(rule_id="r")(lambda data: Result(allow=False, message="no"))
        governed(hooks=[deny])
        ran: list[int] = []
        with pytest.raises(Denied, match="no") as caught, otelhooks.turn("x"):
            ran.append(1)
        assert ran == []
        assert caught.value.rule_id == "r"

    def test_a_ready_answer_stays(self, governed: Any) -> None:
        governed(hooks=[hooks.pre_agent(lambda data: Result(response="ready"))])
        with otelhooks.turn("x") as turn:
            assert turn.is_answered
            turn.answer("other")
        assert turn.result == "ready"

    def test_a_failure_is_on_the_span_and_goes_on_up(self, governed: Any) -> None:
        infos: list[types.RunInfo] = []
        governed(hooks=[hooks.on_run_end(lambda info: infos.append(info))])
        with pytest.raises(ValueError, match="boom"), otelhooks.turn("x", agent="a"):
            raise ValueError("boom")
        assert governed.span("invoke_agent a").status.status_code is StatusCode.ERROR
        assert isinstance(infos[0].error, ValueError)

    @pytest.mark.anyio
    async def test_it_works_in_coroutines(self, governed: Any) -> None:
        log: list[Any] = []
        governed(hooks=[hooks.on_run_end(lambda info: log.append(info.response))])
        async with otelhooks.turn("x", agent="a") as turn:
            turn.answer("done")
        assert turn.result == "done"
        with pytest.raises(ValueError, match="boom"):
            async with otelhooks.turn("x", agent="a"):
                raise ValueError("boom")
        assert log == ["done", None]
        assert otelhooks.current_context() is None

    @pytest.mark.anyio
    async def test_a_deny_in_a_coroutine(self, governed: Any) -> None:
        governed(hooks=[hooks.pre_turn(lambda data: Result(allow=False, message="no"))])
        with pytest.raises(Denied):
            async with otelhooks.turn("x"):
                raise AssertionError


class TestEmit:
    def test_listeners_hear_of_it_and_it_is_an_event(self, governed: Any) -> None:
        heard: list[Any] = []
        governed(
            hooks=[hooks.on_event(lambda event: heard.append((event.type, event.input)))],
            capture_content="EVENT_ONLY",
        )
        payload = {"version": 3}
        assert otelhooks.emit("custom.deploy", payload) == ("allow", {"version": 3}, "")
        assert heard == [("custom.deploy", {"version": 3})]
        assert governed.events == ["custom.deploy"]

    def test_without_instrument_nothing_happens(self) -> None:
        assert otelhooks.emit("custom.x") == ("allow", {}, "")

    def test_other_names_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"starts with `custom\.`"):
            otelhooks.emit("deploy")
