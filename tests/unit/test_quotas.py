"""Rate limits and budgets through the pipeline: what counts, what is denied, how it fails."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from limits.storage import Storage

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import ConfigError, Denied
from otelhooks.hooks import points
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.registry import HookSet, registrations
from otelhooks.hooks.verdict import Ruling
from otelhooks.hooks.watch import Watch
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import drive as drive_operation
from otelhooks.pipeline.tool_call import tool as run_tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.policy.limits import counters
from otelhooks.policy.limits.counters import MemoryStorage
from otelhooks.records import semconv
from tests.unit.noting import Tool

Result = types.HookResult
CALLS_USED = "Rate limit exceeded: 2 of 2 tool calls used"


class Unreachable(Storage):
    """A storage whose server is gone until it is set to come back."""

    STORAGE_SCHEME = None
    base_exceptions = ConnectionError

    def __init__(self) -> None:
        super().__init__()
        self.is_gone = True
        self.threads: set[int] = set()
        self._kept = MemoryStorage()

    def _reach(self) -> MemoryStorage:
        self.threads.add(threading.get_ident())
        if self.is_gone:
            raise ConnectionError("10.0.0.1 refused")
        return self._kept

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return self._reach().incr(key, expiry, amount)

    def get(self, key: str) -> int:
        return self._reach().get(key)

    def get_expiry(self, key: str) -> float:
        return self._reach().get_expiry(key)

    def check(self) -> bool:
        return not self.is_gone

    def reset(self) -> int:
        return self._reach().reset()

    def clear(self, key: str) -> None:
        self._reach().clear(key)


class TestToolCalls:
    def test_call_n_plus_one_is_denied_and_says_how_many_there_were(
        self, governed: Any, tool: Tool
    ) -> None:
        governed(policies=[policy.RateLimit(tool_calls=2, severity="medium")])
        with otelhooks.session("c"):
            assert [tool.told(n) for n in range(4)] == ["0", "1", CALLS_USED, CALLS_USED]
        assert tool.ran == [0, 1]
        attributes = dict(governed.spans[2].attributes)
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.POLICY_ID] == "code"
        assert attributes[semconv.POLICY_RULE_ID] == "rate_limit_2_tool_calls_per_session"
        assert attributes[semconv.POLICY_REASON] == CALLS_USED
        assert attributes[semconv.POLICY_SEVERITY] == "medium"
        assert attributes[semconv.ERROR_TYPE] == "policy_denied"
        assert governed.total(semconv.METRIC_POLICY_DENIES) == 2

    def test_its_denies_are_counted_from_zero(self, governed: Any) -> None:
        governed(policies=[policy.RateLimit(tool_calls=2, id="r"), policy.label("t", adds="x")])
        [point] = governed.points(semconv.METRIC_POLICY_DENIES)
        assert (point.value, point.attributes[semconv.POLICY_RULE_ID]) == (0, "r")

    def test_a_limit_that_lets_pass_leaves_a_plain_allow(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.RateLimit(tool_calls=2)])
        tool.t()
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.POLICY_DECISION] == "allow"
        assert semconv.POLICY_ENFORCEMENT not in attributes

    def test_conversations_have_counts_of_their_own(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.RateLimit(tool_calls=2)])
        for name in ("a", "b"):
            with otelhooks.session(name):
                assert [tool.told(name) for _ in range(3)] == [name, name, CALLS_USED]

    def test_a_conversation_that_comes_back_goes_on_counting(
        self, governed: Any, tool: Tool
    ) -> None:
        governed(policies=[policy.RateLimit(tool_calls=2)])
        told = []
        for _ in range(3):
            with otelhooks.session("c"):
                told.append(tool.told("x"))
        assert told == ["x", "x", CALLS_USED]

    def test_conversations_without_a_name_share_nothing(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.RateLimit(tool_calls=1)])
        for _ in range(3):
            with otelhooks.turn("hello"):
                assert tool.told("x") == "x"
                assert "1 of 1" in tool.told("x")

    def test_evicted_conversations_keep_their_count(
        self, governed: Any, tool: Tool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from otelhooks.pipeline import sessions

        monkeypatch.setattr(sessions, "MAX_SESSIONS", 1)
        governed(policies=[policy.RateLimit(tool_calls=1)])
        for name in ("a", "b"):
            with otelhooks.session(name):
                assert tool.told(name) == name
        with otelhooks.session("a"):
            assert "1 of 1" in tool.told("a")

    def test_a_turn_counts_from_zero_and_its_agents_share(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.RateLimit(tool_calls=2, per="turn")])

        @otelhooks.agent("helper")
        def helper() -> str:
            return tool.told("inner")

        with otelhooks.session("c"):
            for _ in range(2):
                with otelhooks.turn("hello"):
                    assert tool.told("x") == "x"
                    assert helper() == "inner"
                    assert tool.told("x") == CALLS_USED
                    assert helper() == CALLS_USED

    def test_a_window_is_shared_by_all_conversations(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.RateLimit(tool_calls=2, per="minute")])
        with otelhooks.session("a"):
            assert tool.told("x") == "x"
        with otelhooks.session("b"):
            assert tool.told("x") == "x"
            assert tool.told("x") == CALLS_USED

    def test_a_limit_of_a_scope_holds_inside_it(self, governed: Any, tool: Tool) -> None:
        governed()
        with otelhooks.scope(policies=[policy.RateLimit(tool_calls=1)]):
            assert tool.told("x") == "x"
            assert "1 of 1" in tool.told("x")
        assert tool.told("x") == "x"

    def test_it_can_be_registered_and_taken_away(self, governed: Any, tool: Tool) -> None:
        handle = governed()
        limit = policy.RateLimit(tool_calls=1)
        handle.register(limit)
        assert tool.told("x") == "x"
        assert "1 of 1" in tool.told("x")
        handle.unregister(limit)
        assert tool.told("x") == "x"

    def test_a_hook_runner_counts_too(self) -> None:
        runner = hooks.HookRunner([policy.RateLimit(tool_calls=1)])
        turn = hooks.TurnContext(runner.session_context)
        call = types.ToolCall(name="t")

        async def dispatch() -> list[bool]:
            return [(await runner.dispatch_pre_tool_call(turn, call))[0].allow for _ in range(2)]

        assert asyncio.run(dispatch()) == [True, False]


class TestWhatCounts:
    def test_what_a_rule_or_hook_refuses_is_not_counted(self, governed: Any, tool: Tool) -> None:
        guard = hooks.pre_tool_call_decide(
            lambda call: Result(allow=call.args["x"] != "hook", message="no")
        )
        governed(
            policies=[
                policy.RateLimit(tool_calls=1),
                policy.deny("t", when=lambda args: args["x"] == "rule"),
            ],
            hooks=[guard],
        )
        for x in ("rule", "hook", "rule"):
            with pytest.raises(Denied):
                tool.t(x)
        assert tool.told("ok") == "ok"

    def test_what_a_person_refuses_is_not_counted(self, governed: Any, tool: Tool) -> None:
        answers = iter([False, True])
        governed(
            policies=[
                policy.RateLimit(tool_calls=1),
                policy.ask_user("t", lambda call: next(answers)),
            ]
        )
        assert "User denied" in tool.told("x")
        assert tool.told("x") == "x"

    def test_no_person_is_asked_about_a_call_over_the_limit(
        self, governed: Any, tool: Tool
    ) -> None:
        asked: list[Any] = []

        def approve(call: Any) -> bool:
            asked.append(call)
            return True

        governed(policies=[policy.RateLimit(tool_calls=1), policy.ask_user("t", approve)])
        assert tool.told("x") == "x"
        assert "1 of 1" in tool.told("x")
        assert len(asked) == 1

    def test_the_limit_is_looked_at_again_after_the_answer(self, governed: Any, tool: Tool) -> None:
        def approve(call: Any) -> bool:
            if call.args["x"] == "slow":
                tool.t("meanwhile")  # uses up what was left when the question was put
            return True

        governed(policies=[policy.RateLimit(tool_calls=1), policy.ask_user("t", approve)])
        assert "1 of 1" in tool.told("slow")
        assert tool.ran == ["meanwhile"]

    def test_a_call_whose_arguments_change_counts_once(self, governed: Any, tool: Tool) -> None:
        governed(
            policies=[policy.RateLimit(tool_calls=2)],
            hooks=[
                hooks.pre_tool_call_decide(lambda call: Result()),
                hooks.pre_tool_call_decide(lambda call: Result(modified_args={"x": "new"})),
            ],
        )
        assert [tool.told("old") for _ in range(3)] == ["new", "new", CALLS_USED]

    def test_a_tool_that_fails_has_run(self, governed: Any) -> None:
        @otelhooks.tool
        def broken() -> None:
            raise ValueError("no")

        governed(policies=[policy.RateLimit(tool_calls=1)])
        with pytest.raises(ValueError, match="no"):
            broken()
        with pytest.raises(Denied):
            broken()

    def test_what_one_limit_refuses_another_has_not_counted(
        self, governed: Any, tool: Tool
    ) -> None:
        wide = policy.RateLimit(tool_calls=2, id="wide")
        handle = governed(policies=[wide, policy.RateLimit(tool_calls=1, per="turn", id="narrow")])
        with otelhooks.session("c"):
            for expected in (["x", "1 of 1", "1 of 1"], ["x", "2 of 2", "2 of 2"]):
                with otelhooks.turn("hello"):
                    for text in expected:
                        assert text in tool.told("x")
        assert handle.unregister(wide) is None

    def test_a_tool_that_turns_out_to_start_an_agent_counts_once(self, governed: Any) -> None:
        @otelhooks.agent("helper")
        def helper(task: str) -> str:
            return "done"

        @otelhooks.tool
        def delegate() -> str:
            return helper("task")

        governed(policies=[policy.RateLimit(tool_calls=1)])
        with otelhooks.turn("hello", agent="boss"):
            assert delegate() == "done"
            with pytest.raises(Denied):
                delegate()

    def test_a_call_that_goes_on_after_a_pause_counts_once(self, governed: Any) -> None:
        class Pausing(ToolSeat):
            def is_paused(self, call: Call, raw: Any) -> bool:
                return raw == "come back"

        def call(id: str, answer: str) -> Any:
            rt = runtime.active()
            assert rt is not None
            return drive_operation(run_tool(rt, Pausing(), Call("t", {}, id=id)), lambda _: answer)

        governed(policies=[policy.RateLimit(tool_calls=2)])
        assert [call("1", "come back"), call("1", "done"), call("2", "done")] == [
            "come back",
            "done",
            "done",
        ]
        with pytest.raises(Denied):
            call("1", "done")  # the pause is over: this is another call


class TestAtOnce:
    def test_threads_do_not_overshoot(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.RateLimit(tool_calls=5)])
        barrier = threading.Barrier(8)

        def calls(_: int) -> None:
            with otelhooks.session("c"):
                barrier.wait()
                for _ in range(4):
                    tool.told("x")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(calls, range(8)))
        assert len(tool.ran) == 5

    def test_tasks_do_not_overshoot(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.RateLimit(tool_calls=5)])

        async def main() -> None:
            with otelhooks.session("c"):
                await asyncio.gather(*(tool.later() for _ in range(20)), return_exceptions=True)

        asyncio.run(main())
        assert len(tool.ran) == 5


class TestTurns:
    def test_turn_n_plus_one_is_refused(self, governed: Any) -> None:
        governed(policies=[policy.RateLimit(turns=2)])
        with otelhooks.session("c"):
            for _ in range(2):
                with otelhooks.turn("hello") as t:
                    t.answer("hi")
            with (
                pytest.raises(Denied, match=r"^Rate limit exceeded: 2 of 2 turns used$"),
                otelhooks.turn("hello"),
            ):
                pytest.fail("the turn ran")

    def test_a_turn_that_a_hook_refuses_is_not_counted(self, governed: Any) -> None:
        guard = hooks.pre_turn(lambda prompt: Result(allow=prompt != "bad", message="no"))
        governed(policies=[policy.RateLimit(turns=1)], hooks=[guard])
        with otelhooks.session("c"):
            with contextlib.suppress(Denied), otelhooks.turn("bad"):
                pytest.fail("the turn ran")
            with otelhooks.turn("good") as t:
                t.answer("hi")
        assert t.result == "hi"

    def test_turns_and_calls_in_one_limit(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.RateLimit(turns=1, tool_calls=2)])
        with otelhooks.session("c"):
            with otelhooks.turn("hello"):
                assert [tool.told("x") for _ in range(3)] == ["x", "x", CALLS_USED]
            with pytest.raises(Denied, match="1 of 1 turns"), otelhooks.turn("hello"):
                pass


class TestMonitor:
    @pytest.mark.parametrize("settings", [{"mode": "monitor"}, {}])
    def test_too_many_are_recorded_and_run(
        self, governed: Any, tool: Tool, settings: dict[str, Any]
    ) -> None:
        mode = None if settings else "monitor"
        governed(policies=[policy.RateLimit(tool_calls=1, mode=mode)], **settings)
        assert [tool.told("x") for _ in range(2)] == ["x", "x"]
        attributes = dict(governed.spans[1].attributes)
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.POLICY_ENFORCEMENT] == "observed"
        assert attributes[semconv.POLICY_REASON] == "Rate limit exceeded: 1 of 1 tool calls used"
        assert semconv.ERROR_TYPE not in attributes


class TestFailure:
    def test_a_count_out_of_reach_denies_and_says_so(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.RateLimit(tool_calls=2, storage=Unreachable(), id="r")])
        assert tool.told("x") == "Rate limit could not be checked."
        assert tool.ran == []
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.ERROR_TYPE] == "policy_error"
        assert attributes[semconv.POLICY_RULE_ID] == "r"
        assert attributes[semconv.POLICY_REASON] == "r: ConnectionError"
        assert attributes[semconv.POLICY_ENFORCEMENT] == "blocked"

    def test_or_allows_and_says_so(self, governed: Any, tool: Tool) -> None:
        storage = Unreachable()
        governed(policies=[policy.RateLimit(tool_calls=1, storage=storage, on_error="allow")])
        assert tool.told("x") == "x"
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.POLICY_ENFORCEMENT] == "observed"
        reason = "Rate limit could not be checked. (ConnectionError)"
        assert attributes[semconv.POLICY_REASON] == reason
        assert "10.0.0.1" not in str(attributes)
        storage.is_gone = False
        assert tool.told("x") == "x"
        assert "1 of 1" in tool.told("x")

    def test_a_coroutine_waits_for_the_count_beside_its_loop(
        self, governed: Any, tool: Tool
    ) -> None:
        storage = Unreachable()
        storage.is_gone = False
        governed(policies=[policy.RateLimit(tool_calls=1, storage=storage)])

        async def main() -> None:
            assert await tool.later() == 1
            with pytest.raises(Denied, match="1 of 1"):
                await tool.later()

        asyncio.run(main())
        assert storage.threads
        assert threading.get_ident() not in storage.threads

    def test_each_cause_is_logged_once(
        self, governed: Any, tool: Tool, caplog: pytest.LogCaptureFixture
    ) -> None:
        governed(policies=[policy.RateLimit(tool_calls=1, storage=Unreachable(), id="r")])
        for _ in range(3):
            tool.told()
        assert caplog.text.count("limit `r` could not be checked (deny): ConnectionError") == 1
        assert "10.0.0.1" not in caplog.text

    def test_cancellation_goes_on_up(self, governed: Any, tool: Tool) -> None:
        class Cancelled(MemoryStorage):
            def incr(self, key: str, expiry: int, amount: int = 1) -> int:
                raise asyncio.CancelledError

        governed(policies=[policy.RateLimit(tool_calls=2, storage=Cancelled())])
        with pytest.raises(asyncio.CancelledError):
            tool.t()
        assert tool.ran == []


class Model:
    """A model that says what it used."""

    def __init__(self, *usages: types.Usage | None) -> None:
        self.usages = iter(usages)
        self.asked = 0

        @otelhooks.model_call(model="m-1")
        def ask(messages: Any) -> types.ModelResponse:
            self.asked += 1
            return types.ModelResponse(text="answer", usage=next(self.usages))

        self.ask = ask

    def told(self) -> str:
        """Return the answer, or the refusal instead."""
        try:
            return self.ask("hello").text
        except Denied as denied:
            return str(denied)


def usage(input: int, output: int, **more: int) -> types.Usage:
    return types.Usage(input_tokens=input, output_tokens=output, **more)


class TestTokens:
    def test_the_call_after_the_border_is_denied(self, governed: Any) -> None:
        model = Model(usage(300, 200), usage(300, 400))
        governed(policies=[policy.Budget(tokens=1_000)])
        with otelhooks.session("c"):
            exceeded = "Budget exceeded: 1200 of 1000 tokens used"
            assert [model.told() for _ in range(4)] == ["answer", "answer", exceeded, exceeded]
        assert model.asked == 2
        attributes = dict(governed.spans[2].attributes)
        assert attributes[semconv.POLICY_RULE_ID] == "budget_1000_tokens_per_session"
        assert attributes[semconv.HOOK_POINT] == "pre_model_call"

    def test_another_conversation_has_its_own(self, governed: Any) -> None:
        model = Model(usage(9, 1), usage(9, 1))
        governed(policies=[policy.Budget(tokens=10)])
        for name in ("a", "b"):
            with otelhooks.session(name):
                assert model.told() == "answer"
                assert "10 of 10" in model.told()

    def test_an_answer_that_a_hook_replaces_has_been_paid(self, governed: Any) -> None:
        model = Model(usage(9, 1))
        wash = hooks.post_model_call_transform(lambda data: types.ModelResponse(text="free"))
        governed(policies=[policy.Budget(tokens=10)], hooks=[wash])
        assert model.told() == "free"
        assert "10 of 10" in model.told()

    def test_a_stream_that_is_closed_early_has_been_paid(self, governed: Any) -> None:
        @otelhooks.model_call(model="m-1")
        def stream(messages: Any) -> Any:
            yield types.ModelResponse(text="a", usage=usage(9, 1))
            yield types.ModelResponse(text="b")

        governed(policies=[policy.Budget(tokens=10)])
        opened = stream("hello")
        next(opened)
        opened.close()
        with pytest.raises(Denied):
            next(stream("hello"))

    def test_an_answer_without_usage_denies_what_follows(
        self, governed: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = Model(None)
        governed(policies=[policy.Budget(tokens=10)])
        assert model.told() == "answer"
        said = "an answer without usage (unknown: deny)\nhint: `unknown: tokens` continues"
        assert said in caplog.text
        assert model.told() == "Budget cannot be kept: what a model call has used is not known"

    def test_or_goes_on_if_that_is_wanted(
        self, governed: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = Model(None, None, usage(9, 1))
        governed(policies=[policy.Budget(tokens=10, unknown="tokens")])
        assert [model.told() for _ in range(3)] == ["answer"] * 3
        assert "10 of 10" in model.told()
        assert caplog.text.count("has met an answer without usage (unknown: tokens)") == 1

    def test_a_call_that_used_nothing_takes_no_step_with_the_count(self, governed: Any) -> None:
        added: list[int] = []

        class Noted(MemoryStorage):
            def incr(self, key: str, expiry: int, amount: int = 1) -> int:
                added.append(amount)
                return super().incr(key, expiry, amount)

        model = Model(usage(0, 0), usage(1, 0))
        governed(policies=[policy.Budget(tokens=10, storage=Noted())])
        assert [model.told(), model.told()] == ["answer", "answer"]
        assert added == [1]

    def test_a_ready_answer_costs_nothing(self, governed: Any) -> None:
        model = Model()
        ready = hooks.pre_model_call(lambda data: Result(response="ready"))
        governed(policies=[policy.Budget(tokens=10)], hooks=[ready])
        assert [model.ask("hello") for _ in range(2)] == ["ready", "ready"]

    def test_a_call_that_fails_costs_nothing(self, governed: Any) -> None:
        @otelhooks.model_call(model="m-1")
        def ask(messages: Any) -> str:
            raise OSError("down")

        governed(policies=[policy.Budget(tokens=10)])
        for _ in range(2):
            with pytest.raises(OSError, match="down"):
                ask("hello")

    def test_calls_in_flight_may_pass_the_border_together_and_no_further(
        self, governed: Any
    ) -> None:
        barrier = threading.Barrier(3)

        @otelhooks.model_call(model="m-1")
        def ask(messages: Any) -> types.ModelResponse:
            barrier.wait()
            return types.ModelResponse(text="answer", usage=usage(9, 1))

        governed(policies=[policy.Budget(tokens=10, per="day")])
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: ask("hello"), range(3)))
        with pytest.raises(Denied, match="30 of 10"):
            ask("hello")


PRICES = {"m-*": {"input": 1.0, "output": 10.0, "cache_read": 0.1, "cache_write": 2.0}}


class TestCost:
    def test_tokens_cost_what_the_table_says(self, governed: Any) -> None:
        model = Model(usage(1_000_000, 100_000), usage(0, 10_000))
        governed(policies=[policy.Budget(cost_usd=2.05, prices=PRICES)])
        assert [model.told() for _ in range(3)] == [
            "answer",
            "answer",
            "Budget exceeded: 2.1000 of 2.0500 USD used",
        ]

    def test_cached_tokens_have_prices_of_their_own(self, governed: Any) -> None:
        cached = usage(
            1_000_000, 0, cache_read_input_tokens=500_000, cache_write_input_tokens=100_000
        )
        model = Model(cached)
        governed(policies=[policy.Budget(cost_usd=0.1, prices=PRICES)])
        model.told()
        assert "0.6500 of 0.1000 USD" in model.told()

    def test_a_pair_is_input_and_output(self, governed: Any) -> None:
        model = Model(usage(1_000_000, 1_000_000))
        governed(policies=[policy.Budget(cost_usd=1, prices={"m-1": (0.5, 2)})])
        model.told()
        assert "2.5000 of 1.0000" in model.told()

    def test_a_function_may_say_the_price(self, governed: Any) -> None:
        model = Model(usage(5, 0))
        prices = {"m-1": 2.0}

        def price(name: str, used: types.Usage) -> float | None:
            return prices[name] * used.input_tokens

        governed(policies=[policy.Budget(cost_usd=10, prices=price)])
        assert model.told() == "answer"
        assert "10.0000 of 10.0000" in model.told()

    @pytest.mark.parametrize("prices", [{"other": (1, 1)}, lambda name, used: None])
    def test_a_model_without_a_price_is_denied(self, governed: Any, prices: Any) -> None:
        model = Model()
        governed(policies=[policy.Budget(cost_usd=10, prices=prices)])
        assert model.told() == "Budget cannot be kept: the model has no price"
        assert model.asked == 0

    def test_or_counts_its_tokens_if_that_is_wanted(self, governed: Any) -> None:
        model = Model(usage(9, 1))
        governed(
            policies=[
                policy.Budget(cost_usd=10, tokens=10, prices={"other": (1, 1)}, unknown="tokens")
            ]
        )
        assert model.told() == "answer"
        assert "10 of 10 tokens" in model.told()

    def test_a_price_that_is_lost_after_the_call_denies_what_follows(self, governed: Any) -> None:
        model = Model(usage(1, 0))

        def price(name: str, used: types.Usage) -> float:
            if used.input_tokens:
                raise KeyError(name)
            return 0.0

        governed(policies=[policy.Budget(cost_usd=10, prices=price)])
        assert model.told() == "answer"
        assert "not known" in model.told()

    def test_the_name_in_the_answer_may_have_the_price(self) -> None:
        from otelhooks.policy.prices import Prices

        prices = Prices({"m-1-2026": (1, 1)})
        assert prices.cost(("m-1", "m-1-2026"), {"input_tokens": 1_000_000}) == 1.0


class TestBudgetFailure:
    def test_a_count_out_of_reach_denies(self, governed: Any) -> None:
        model = Model()
        governed(policies=[policy.Budget(tokens=10, storage=Unreachable())])
        assert model.told() == "Budget could not be checked."
        assert governed.attributes("chat m-1")[semconv.ERROR_TYPE] == "policy_error"

    def test_what_could_not_be_counted_is_counted_later(self, governed: Any) -> None:
        storage = Unreachable()
        model = Model(usage(9, 1))
        governed(policies=[policy.Budget(tokens=10, storage=storage, on_error="allow")])
        assert model.told() == "answer"
        storage.is_gone = False
        assert "10 of 10" in model.told()

    def test_cancellation_goes_on_up(self, governed: Any) -> None:
        class Cancelled(MemoryStorage):
            is_on = False

            def get(self, key: str) -> int:
                return self.incr(key, 1, 0)

            def incr(self, key: str, expiry: int, amount: int = 1) -> int:
                if self.is_on:
                    raise asyncio.CancelledError
                return super().incr(key, expiry, amount)

        storage = Cancelled()

        @otelhooks.model_call(model="m-1")
        def ask(messages: Any) -> types.ModelResponse:
            storage.is_on = True
            return types.ModelResponse(text="answer", usage=usage(9, 1))

        governed(policies=[policy.Budget(tokens=10, storage=storage)])
        with pytest.raises(asyncio.CancelledError):
            ask("hello")  # while what it used is counted
        with pytest.raises(asyncio.CancelledError):
            ask("hello")  # while what is left is read
        storage.is_on = False
        with pytest.raises(Denied, match="10 of 10"):
            ask("hello")

    def test_a_hook_runner_keeps_a_budget(self) -> None:
        budget = policy.Budget(cost_usd=1, prices={"m-1": (1, 1)}, tokens=10)
        runner = hooks.HookRunner([budget])
        turn = hooks.TurnContext(runner.session_context)
        call = types.ModelCall(model="m-1")

        async def ask() -> bool:
            result, _, operation = await runner.dispatch_pre_model_call(turn, call)
            if result.allow:
                answer = types.ModelResponse(text="answer", usage=usage(9, 1))
                await runner.dispatch_post_model_call(operation, answer)
            return result.allow

        async def main() -> list[bool]:
            return [await ask(), await ask()]

        assert asyncio.run(main()) == [True, False]


class TestGates:
    class Broken(Gate):
        points = ("pre_tool_call", "pre_turn", "pre_model_call")
        id = "broken"

    def test_one_that_fails_denies_wherever_it_stands(self, governed: Any, tool: Tool) -> None:
        governed(policies=[self.Broken()])
        assert tool.told() == "The call was refused because a policy check failed."
        assert governed.attributes("execute_tool t")[semconv.ERROR_TYPE] == "policy_error"
        assert governed.attributes("execute_tool t")[semconv.POLICY_RULE_ID] == "broken"
        with pytest.raises(Denied), otelhooks.turn("hello"):
            pytest.fail("the turn ran")
        assert "check failed" in Model().told()

    def test_one_that_only_lets_pass_gets_usage_and_needs_no_approver(self, governed: Any) -> None:
        class Open(Gate):
            points = ("pre_model_call",)
            id = "open"

            def admit(self, *args: Any, **kwargs: Any) -> Any:
                yield from ()
                return Ruling("allow")

        gate = Open()
        assert (gate.handler, gate.ask) == (None, None)
        governed(policies=[gate])
        assert Model(usage(1, 1)).told() == "answer"

    def test_a_turn_that_one_refuses_is_not_counted_by_another(self, governed: Any) -> None:
        class Closed(Gate):
            points = ("pre_turn",)
            id = "closed"
            ruling = Ruling("allow")

            def admit(self, *args: Any, **kwargs: Any) -> Any:
                yield from ()
                return self.ruling

        gate = Closed()
        gate.ruling = Ruling("deny", gate, "Closed.")
        governed(policies=[policy.RateLimit(turns=1), gate])
        with otelhooks.session("c"):
            with pytest.raises(Denied), otelhooks.turn("hello"):
                pytest.fail("the turn ran")
            gate.ruling = Ruling("allow")
            with otelhooks.turn("hello"):
                pass
            with pytest.raises(Denied, match="1 of 1 turns"), otelhooks.turn("hello"):
                pytest.fail("the turn ran")

    def test_a_runner_knows_no_point_by_the_name_of_a_gate(self) -> None:
        with pytest.raises(ValueError, match="not one of `pre_turn_hooks`"):
            hooks.HookRunner(pre_turn_hooks=[policy.RateLimit(turns=1)])

    @pytest.mark.parametrize(
        ("per", "seconds"),
        [
            ("minute", 60),
            ("hour", 3_600),
            ("day", 86_400),
            ("turn", 7 * 86_400),
            ("session", 366 * 86_400),
        ],
    )
    def test_a_unit_counts_until_its_time_is_over(
        self, monkeypatch: pytest.MonkeyPatch, per: Any, seconds: int
    ) -> None:
        now = 1_000.0
        monkeypatch.setattr(counters, "time", SimpleNamespace(monotonic=lambda: now))
        point = HookSet(registrations(policy.RateLimit(tool_calls=1, per=per))).at("pre_tool_call")

        def is_allowed() -> bool:
            return drive(points.pre_tool_call(point, None, Call("t", {}), Watch())).allowed

        assert is_allowed()
        now += seconds - 0.5
        assert not is_allowed()
        now += 1
        assert is_allowed()

    @pytest.mark.parametrize("name", ["", "mail"])
    def test_a_limit_is_called_by_its_name_or_by_what_it_limits(self, name: str) -> None:
        limit = policy.RateLimit(tool_calls=2, per="turn", name=name)
        assert limit.label == (name or "rate limit 2 tool calls per turn")

    def test_a_limit_without_a_context_is_one_for_all(self) -> None:
        watch = Watch()
        point = HookSet(registrations(policy.RateLimit(tool_calls=1))).at("pre_tool_call")
        for expected in (True, False):
            call = Call("t", {})
            assert drive(points.pre_tool_call(point, None, call, watch)).allowed is expected


class TestWrongValues:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: policy.RateLimit(), "of nothing"),
            (lambda: policy.RateLimit(turns=0), "`0` is not a number"),
            (lambda: policy.RateLimit(turns=True), "`True` is not a number"),
            (lambda: policy.RateLimit(tool_calls=1.5), "`1.5` is not a number"),
            (lambda: policy.RateLimit(tool_calls=1, per="week"), "unknown per `week`"),
            (lambda: policy.RateLimit(turns=1, per="turn"), "a turn has one turn"),
            (lambda: policy.RateLimit(turns=1, on_error="log"), "unknown on_error `log`"),
            (lambda: policy.RateLimit(turns=1, severity="bad"), "unknown severity `bad`"),
            (lambda: policy.RateLimit(turns=1, mode="off"), "unknown mode `off`"),
            (lambda: policy.Budget(), "of nothing"),
            (lambda: policy.Budget(tokens=-1), "`-1` is not a number"),
            (lambda: policy.Budget(tokens=1, prices={}), "`prices` without `cost_usd`"),
            (lambda: policy.Budget(tokens=1, unknown="allow"), "`allow`"),
            (lambda: policy.Budget(cost_usd=0, prices={}), "`0` is not an amount"),
            (lambda: policy.Budget(cost_usd=float("nan"), prices={}), "is not an amount"),
            (lambda: policy.Budget(cost_usd="1", prices={}), "is not an amount"),
            (lambda: policy.Budget(cost_usd=1, prices=3), "not a table of prices"),
            (lambda: policy.Budget(cost_usd=1, prices={"m": 3}), "is not a price"),
            (lambda: policy.Budget(cost_usd=1, prices={"m": (1, 2, 3)}), "is not a price"),
            (lambda: policy.Budget(cost_usd=1, prices={"m": {"input": 1}}), "is not a price"),
            (lambda: policy.Budget(cost_usd=1, prices={"m": (1, -1)}), "is not a price"),
            (lambda: policy.Budget(cost_usd=1, prices={"m": (1, "2")}), "is not a price"),
        ],
    )
    def test_are_errors(self, make: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            make()

    def test_a_billionth_of_a_dollar_is_the_least(self) -> None:
        assert policy.Budget(cost_usd=1e-9, prices={})
        with pytest.raises(ConfigError, match="is not an amount"):
            policy.Budget(cost_usd=0.9e-9, prices={})

    def test_their_text_shows_what_they_are(self) -> None:
        assert repr(policy.RateLimit(turns=3)) == "RateLimit('rate_limit_3_turns_per_session')"
