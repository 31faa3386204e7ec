"""`policy.Repeat`: which calls are the same, which count, and what happens at the last one."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import ConfigError, Denied
from otelhooks.hooks import points
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.hooks.registry import HookSet, registrations
from otelhooks.hooks.watch import Watch
from otelhooks.policy.limits import counters, quotas
from otelhooks.records import semconv
from otelhooks.records.arguments import arguments_hash
from tests.unit.noting import Tool

Result = types.HookResult
AGAIN = (
    "This call has run 2 times in this turn with the same arguments: use its result, or try"
    " something else."
)


@otelhooks.tool
def search(query: Any = "", limit: int = 5) -> str:
    return "found"


def told(**args: Any) -> str:
    """Call `search`; return what the model would be told."""
    try:
        return search(**args)
    except Denied as denied:
        return str(denied)


class TestTheSameCall:
    def test_the_third_same_call_of_a_turn_is_denied_and_told_to_do_something_else(
        self, governed: Any, tool: Tool
    ) -> None:
        governed(policies=[policy.Repeat(severity="low")])
        with otelhooks.turn("hello"):
            assert [tool.told("x") for _ in range(4)] == ["x", "x", AGAIN, AGAIN]
        assert tool.ran == ["x", "x"]
        attributes = dict(governed.spans[2].attributes)
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.POLICY_RULE_ID] == "repeat_3_of_arguments_per_turn"
        assert attributes[semconv.POLICY_REASON] == AGAIN
        assert attributes[semconv.POLICY_SEVERITY] == "low"
        assert governed.total(semconv.METRIC_POLICY_DENIES) == 2

    def test_other_arguments_are_another_call_and_may_come_between(
        self, governed: Any, tool: Tool
    ) -> None:
        governed(policies=[policy.Repeat(calls=2)])
        with otelhooks.turn("hello"):
            assert [tool.runs(x) for x in ("a", "b", "a", "c", "b")] == [
                *(True, True, False, True, False)
            ]

    def test_another_tool_is_another_call(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.Repeat(calls=2)])
        with otelhooks.turn("hello"):
            assert tool.runs("x")
            assert asyncio.run(tool.later("x")) == "x"
            assert not tool.runs("x")

    def test_a_tool_of_the_same_name_on_another_server_is_another_call(self, governed: Any) -> None:
        governed(policies=[policy.Repeat(calls=2)])

        def runs(server: str | None) -> bool:
            try:
                otelhooks.call_tool("find", {"q": 1}, lambda q: "ok", server=server)
            except Denied:
                return False
            return True

        with otelhooks.turn("hello"):
            assert [runs(s) for s in ("one", "two", None, "one", "two", None)] == [
                *(True, True, True, False, False, False)
            ]

    def test_a_server_does_not_make_it_another_tool_by_another_name_for_itself(self) -> None:
        point = HookSet(registrations(policy.Repeat(calls=2))).at("pre_tool_call")

        def is_allowed(server_says: str) -> bool:
            call = Call("t", {}, claimed_server=True, server_says=server_says)
            return drive(points.pre_tool_call(point, None, call, Watch())).allowed

        assert [is_allowed(name) for name in ("one", "two")] == [True, False]

    def test_all_calls_of_a_tool_are_the_same_if_that_is_wanted(
        self, governed: Any, tool: Tool
    ) -> None:
        governed(policies=[policy.Repeat(calls=3, of="tool")])
        with otelhooks.turn("hello"):
            assert [tool.runs(x) for x in ("a", "b")] == [True, True]
            assert tool.told("c") == (
                "Tool 't' has run 2 times in this turn: use its results, or try something else."
            )
            assert told() == "found"

    def test_a_limit_of_two_says_once(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.Repeat(calls=2, per="session")])
        tool.t("x")
        assert tool.told("x").startswith("This call has run once in this conversation with")

    def test_a_reason_replaces_the_message(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.Repeat(calls=2, reason="Ask the user.")])
        assert [tool.told("x") for _ in range(2)] == ["x", "Ask the user."]

    @pytest.mark.parametrize(
        ("first", "second", "is_same"),
        [
            ({"query": "a", "limit": 1}, {"limit": 1, "query": "a"}, True),
            ({"query": {"a": 1, "b": 2}}, {"query": {"b": 2, "a": 1}}, True),
            ({"query": 1}, {"query": 1.0}, False),
            ({"query": 1}, {"query": True}, False),
            ({"query": 1}, {"query": "1"}, False),
            ({"query": "a"}, {"query": "a "}, False),
            ({"query": [1, 2]}, {"query": [2, 1]}, False),
            ({"query": (1, 2)}, {"query": [1, 2]}, True),
        ],
        ids=["order", "order-inside", "float", "bool", "text", "blank", "list", "tuple"],
    )
    def test_arguments_are_the_same_if_the_audit_record_says_so(
        self, governed: Any, first: dict[str, Any], second: dict[str, Any], is_same: bool
    ) -> None:
        assert (arguments_hash(first) == arguments_hash(second)) is is_same
        governed(policies=[policy.Repeat(calls=2)])
        with otelhooks.turn("hello"):
            assert told(**first) == "found"
            assert (told(**second) != "found") is is_same

    def test_a_default_that_is_given_is_the_one_that_is_left_out(self, governed: Any) -> None:
        governed(policies=[policy.Repeat(calls=2)])
        with otelhooks.turn("hello"):
            assert told(query="a") == "found"
            assert told(query="a", limit=5) != "found"

    def test_what_the_hash_tells_apart_is_one_tool_all_the_same(self, governed: Any) -> None:
        governed(policies=[policy.Repeat(calls=3, of="tool")])
        with otelhooks.turn("hello"):
            results = [told(query=x) for x in (1, 1.0, True)]
        assert results[:2] == ["found", "found"]
        assert results[2].startswith("Tool 'search' has run 2 times")

    def test_the_arguments_that_run_count_not_those_of_the_model(
        self, governed: Any, tool: Tool
    ) -> None:
        governed(
            policies=[policy.Repeat(calls=2)],
            hooks=[hooks.pre_tool_call_decide(lambda call: Result(modified_args={"x": "same"}))],
        )
        with otelhooks.turn("hello"):
            assert [tool.runs(x) for x in ("a", "b")] == [True, False]

    def test_a_value_that_contains_itself_is_counted(self, governed: Any) -> None:
        class Endless(dict[str, Any]):
            """Copied by no one: a subclass is a value of its own."""

        value = Endless()
        value["again"] = value
        governed(policies=[policy.Repeat(calls=2)])
        with otelhooks.turn("hello"):
            assert told(query=value) == told(query="other")
            assert "has run once in this turn" in told(query=value)


class TestPeriods:
    def test_a_turn_starts_from_zero(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.Repeat(calls=2)])
        with otelhooks.session("c"):
            for _ in range(2):
                with otelhooks.turn("hello"):
                    assert [tool.runs("x") for _ in range(2)] == [True, False]

    def test_a_conversation_goes_on_counting_when_it_comes_back(
        self, governed: Any, tool: Tool
    ) -> None:
        governed(policies=[policy.Repeat(calls=2, per="session")])
        with otelhooks.session("a"), otelhooks.turn("hello"):
            assert tool.runs("x")
        with otelhooks.session("b"), otelhooks.turn("hello"):
            assert tool.runs("x")
        with otelhooks.session("a"), otelhooks.turn("hello"):
            assert not tool.runs("x")

    def test_sub_agents_share_the_count_of_the_turn(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.Repeat(calls=3)])

        @otelhooks.agent("helper")
        def helper() -> bool:
            return tool.runs("x")

        with otelhooks.turn("hello"):
            assert [tool.runs("x"), helper(), tool.runs("x"), helper()] == [
                *(True, True, False, False)
            ]

    def test_limits_with_ids_of_their_own_count_apart(self, governed: Any, tool: Tool) -> None:
        limits = [policy.Repeat(calls=3, id="a"), policy.Repeat(calls=2, id="b", of="tool")]
        governed(policies=limits)
        with otelhooks.turn("hello"):
            assert [tool.runs(x) for x in ("x", "y", "x")] == [True, False, False]


class TestWhatCounts:
    def test_what_a_rule_refuses_is_not_counted(self, governed: Any, tool: Tool) -> None:
        answers = iter([True, False])
        rule = policy.deny("t", when=lambda args: next(answers))
        governed(policies=[policy.Repeat(calls=2), rule])
        with otelhooks.turn("hello"):
            assert [tool.runs("x") for _ in range(2)] == [False, True]

    def test_what_a_rate_limit_refuses_is_not_counted(self, governed: Any, tool: Tool) -> None:
        repeat = policy.Repeat(calls=2, per="session")
        governed(policies=[policy.RateLimit(tool_calls=1, per="turn"), repeat])
        with otelhooks.session("c"):
            with otelhooks.turn("hello"):
                assert [tool.runs(x) for x in ("a", "b")] == [True, False]
            with otelhooks.turn("hello"):
                assert tool.runs("b")

    def test_a_tool_that_fails_has_run(self, governed: Any) -> None:
        @otelhooks.tool
        def broken() -> None:
            raise ValueError("no")

        governed(policies=[policy.Repeat(calls=2)])
        with otelhooks.turn("hello"):
            with pytest.raises(ValueError, match="no"):
                broken()
            with pytest.raises(Denied):
                broken()

    def test_a_tool_that_starts_an_agent_counts_once(self, governed: Any) -> None:
        @otelhooks.agent("helper")
        def helper(task: str) -> str:
            return "done"

        @otelhooks.tool
        def delegate(n: int) -> str:
            return helper("task")

        governed(policies=[policy.Repeat(calls=2)])
        with otelhooks.turn("hello", agent="boss"):
            assert [delegate(1), delegate(2)] == ["done", "done"]
            with pytest.raises(Denied):
                delegate(1)

    def test_monitor_mode_records_and_denies_nothing(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.Repeat(calls=2, mode="monitor")])
        with otelhooks.turn("hello"):
            assert [tool.runs("x") for _ in range(2)] == [True, True]
        attributes = dict(governed.spans[1].attributes)
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.POLICY_ENFORCEMENT] == "observed"
        assert attributes[semconv.POLICY_REASON].startswith("This call has run once")

    def test_so_does_monitor_mode_of_the_process(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.Repeat(calls=2)], mode="monitor")
        with otelhooks.turn("hello"):
            assert [tool.runs("x") for _ in range(2)] == [True, True]
        assert dict(governed.spans[1].attributes)[semconv.POLICY_ENFORCEMENT] == "observed"


class TestAtOnce:
    def test_threads_do_not_overshoot(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.Repeat(calls=5, per="session")])
        barrier = threading.Barrier(8)

        def calls(_: int) -> None:
            with otelhooks.session("c"):
                barrier.wait()
                for _ in range(4):
                    tool.told("x")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(calls, range(8)))
        assert len(tool.ran) == 4

    def test_parallel_calls_of_one_answer_do_not_overshoot(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.Repeat(calls=3)])

        async def main() -> None:
            with otelhooks.turn("hello"):
                await asyncio.gather(*(tool.later("x") for _ in range(9)), return_exceptions=True)

        asyncio.run(main())
        assert tool.ran == ["x", "x"]


class TestMemory:
    def test_it_is_bounded_and_keeps_the_calls_that_ran_last(
        self, governed: Any, tool: Tool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(counters, "_MIN_KEYS_TO_PRUNE", 4)
        monkeypatch.setattr(quotas, "_MAX_CALLS_KEPT", 20)
        limit = policy.Repeat(calls=3)
        governed(policies=[limit])
        with otelhooks.turn("hello"):
            tool.t("loop")
            for number in range(100):
                tool.t(number)
                if number % 5 == 0:
                    assert tool.told("loop") == ("loop" if number == 0 else AGAIN)
        assert limit._storage.reset() <= 20

    def test_what_a_server_keeps_says_nothing_of_the_call(self) -> None:
        kept = counters.MemoryStorage()
        runner = hooks.HookRunner([policy.Repeat(storage=kept)])
        turn = hooks.TurnContext(runner.session_context)
        call = types.ToolCall(name="pay", args={"to": "alice@example.com"})
        allowed = [asyncio.run(runner.dispatch_pre_tool_call(turn, call))[0].allow for _ in "123"]
        assert allowed == [True, True, False]
        [key] = kept._counts
        assert "pay" not in key
        assert "alice" not in key


class TestFiles:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "base.yaml"
        path.write_text("policies: [{repeat: {calls: 2, of: tool, per: session}, id: loop}]\n")
        return path

    def test_a_file_says_the_same(self, governed: Any, tool: Tool, file: Path) -> None:
        governed(policies=[file])
        assert [tool.runs(x) for x in ("a", "b")] == [True, False]
        attributes = dict(governed.spans[1].attributes)
        assert attributes[semconv.POLICY_ID] == "base"
        assert attributes[semconv.POLICY_RULE_ID] == "loop"

    def test_the_least_that_a_file_can_say_is_the_default(self, governed: Any, file: Path) -> None:
        file.write_text("policies: [{repeat: {}}]\n")
        governed(policies=[file])
        with otelhooks.turn("hello"):
            assert [told() == "found" for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"calls": 1}, "would deny every call"),
        ({"calls": 0}, "`0` is not a number"),
        ({"calls": True}, "`True` is not a number"),
        ({"calls": "3"}, "`'3'` is not a number"),
        ({"of": "name"}, "unknown `of`: `name`"),
        ({"per": "minute"}, "unknown per `minute`"),
        ({"on_breach": "allow"}, "unknown on_breach `allow`"),
        ({"on_error": "ask"}, "unknown on_error `ask`"),
        ({"mode": "off"}, "unknown mode `off`"),
    ],
)
def test_wrong_values_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        policy.Repeat(**settings)
