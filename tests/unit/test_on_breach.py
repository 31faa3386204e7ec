"""`on_breach="ask"`: people are asked about what a limit would deny."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from limits.storage import Storage

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import ConfigError, PolicyFileError
from otelhooks.hooks.gates import Gate
from otelhooks.hooks.verdict import Approval, Ruling
from otelhooks.policy.limits import counters
from otelhooks.records import semconv
from tests.unit import test_kit
from tests.unit.noting import Tool
from tests.unit.test_counters import Time
from tests.unit.test_kit import guarded
from tests.unit.test_kit_approvals import Asking, Paused, ask
from tests.unit.test_quotas import Unreachable

framework = test_kit.framework
CALLS_USED = "Rate limit exceeded: at least 2 of 2 tool calls used"
ONCE = (
    "This call has run at least once in this conversation with the same arguments: use its result,"
    " or try something else."
)


class Channel:
    """Answers questions in turn, the last one for ever; notes the reason of each."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.reasons: list[str] = []
        self.calls: list[types.ToolCall] = []

    def __call__(self, call: types.ToolCall, reason: str) -> Any:
        self.reasons.append(reason)
        self.calls.append(call)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def limit(**settings: Any) -> policy.RateLimit:
    return policy.RateLimit(tool_calls=2, on_breach="ask", **settings)


def repeat(**settings: Any) -> policy.Repeat:
    return policy.Repeat(**{"calls": 2, "per": "session", "on_breach": "ask", **settings})


class TestAnswers:
    @pytest.mark.parametrize(
        ("make", "reason", "allowed"), [(limit, CALLS_USED, 2), (repeat, ONCE, 1)]
    )
    def test_a_yes_is_for_one_call_and_a_no_denies(
        self, governed: Any, tool: Tool, make: Any, reason: str, allowed: int
    ) -> None:
        channel = Channel(True, False)
        governed(policies=[make()], approvals=channel)
        told = [tool.told("x") for _ in range(allowed + 2)]
        assert told == [*["x"] * (allowed + 1), reason]
        assert channel.reasons == [reason, reason]

    def test_the_limit_is_the_rule_of_the_verdict(self, governed: Any, tool: Tool) -> None:
        governed(policies=[repeat(id="loop", severity="high")], approvals=Channel(True, False))
        for _ in range(3):
            tool.told("x")
        _, approved, refused = (dict(s.attributes) for s in governed.spans if "tool" in s.name)
        for attributes in (approved, refused):
            assert attributes[semconv.POLICY_DECISION] == "ask"
            assert attributes[semconv.POLICY_ID] == "code"
            assert attributes[semconv.POLICY_RULE_ID] == "loop"
            assert attributes[semconv.POLICY_SEVERITY] == "high"
        assert approved[semconv.POLICY_ENFORCEMENT] == "approved"
        assert approved[semconv.POLICY_REASON] == ONCE
        assert refused[semconv.POLICY_ENFORCEMENT] == "rejected"
        assert refused[semconv.ERROR_TYPE] == "approval_rejected"
        governed.check()

    def test_the_reason_of_the_limit_is_what_people_see(self, governed: Any, tool: Tool) -> None:
        channel = Channel(False)
        governed(policies=[repeat(reason="Ask for more.")], approvals=channel)
        assert [tool.told("x") for _ in range(2)] == ["x", "Ask for more."]
        assert channel.reasons == ["Ask for more."]

    def test_no_answer_in_time_denies(self, governed: Any, tool: Tool) -> None:
        async def wait(call: Any) -> bool:
            await asyncio.sleep(5)
            return True

        governed(policies=[repeat()], approvals=wait, approval_timeout=0.05)
        late = f"Tool 't' was not approved in time: {ONCE}"
        assert [tool.told("x") for _ in range(2)] == ["x", late]
        assert tool.ran == ["x"]

    def test_a_channel_that_fails_denies(self, governed: Any, tool: Tool) -> None:
        def fails(call: Any) -> bool:
            raise OSError("gone")

        governed(policies=[repeat()], approvals=fails)
        assert tool.runs("x")
        assert not tool.runs("x")

    def test_an_edit_makes_another_call_that_is_counted_as_such(
        self, governed: Any, tool: Tool
    ) -> None:
        channel = Channel(Approval("approved", edit={"x": "y"}), False)
        governed(policies=[repeat()], approvals=channel)
        assert [tool.told("x") for _ in range(2)] == ["x", "y"]
        assert tool.told("y") == ONCE
        assert tool.ran == ["x", "y"]

    def test_an_edit_into_another_call_that_has_run_asks_for_nothing_twice(
        self, governed: Any, tool: Tool
    ) -> None:
        channel = Channel(Approval("approved", edit={"x": "y"}), True)
        governed(policies=[repeat()], approvals=channel)
        assert [tool.told("y"), tool.told("x")] == ["y", "x"]
        assert tool.told("x") == "y"  # people have written this call themselves
        assert len(channel.calls) == 1

    def test_a_runner_without_a_channel_denies(self) -> None:
        runner = hooks.HookRunner([policy.Repeat(calls=2, on_breach="ask")])
        turn = hooks.TurnContext(runner.session_context)

        async def dispatch() -> list[bool]:
            call = types.ToolCall(name="t")
            return [(await runner.dispatch_pre_tool_call(turn, call))[0].allow for _ in range(2)]

        assert asyncio.run(dispatch()) == [True, False]


class TestCounts:
    def test_an_approved_call_counts(
        self, governed: Any, tool: Tool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = Time()
        monkeypatch.setattr(counters, "time", clock)
        channel = Channel(True)
        governed(policies=[limit(per="minute")], approvals=channel)
        for seconds in (0, 30, 10):  # the third is approved
            clock.now += seconds
            assert tool.runs()
        clock.now += 21  # the first is over; the second and the third are in the window
        assert tool.runs()
        assert len(channel.calls) == 2

    def test_a_call_that_is_not_approved_does_not(
        self, governed: Any, tool: Tool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = Time()
        monkeypatch.setattr(counters, "time", clock)
        channel = Channel(False)
        governed(policies=[limit(per="minute")], approvals=channel)
        assert [tool.runs() for _ in range(3)] == [True, True, False]
        clock.now += 61
        assert [tool.runs() for _ in range(2)] == [True, True]

    def test_parallel_calls_are_asked_about_one_by_one(self, governed: Any, tool: Tool) -> None:
        channel = Channel(False)
        governed(policies=[repeat(calls=3)], approvals=channel)

        async def main() -> None:
            with otelhooks.session("c"):
                await asyncio.gather(*(tool.later("x") for _ in range(6)), return_exceptions=True)

        asyncio.run(main())
        assert tool.ran == ["x", "x"]
        assert len(channel.calls) == 4

    def test_each_of_two_limits_counts_an_approved_call_once(
        self, governed: Any, tool: Tool
    ) -> None:
        hard = policy.RateLimit(tool_calls=3, id="hard")
        governed(policies=[repeat(), hard], approvals=Channel(True))
        told = [tool.told("x") for _ in range(4)]
        assert told == ["x", "x", "x", "Rate limit exceeded: 3 of 3 tool calls used"]

    def test_no_one_is_asked_about_a_call_that_another_limit_stops(
        self, governed: Any, tool: Tool
    ) -> None:
        channel = Channel(True)
        governed(policies=[repeat(), policy.RateLimit(tool_calls=1)], approvals=channel)
        assert [tool.runs("x") for _ in range(2)] == [True, False]
        assert channel.calls == []

    def test_a_limit_that_is_used_up_while_people_think_asks_too(
        self, governed: Any, tool: Tool
    ) -> None:
        reasons: list[str] = []

        def approve(call: types.ToolCall, reason: str) -> bool:
            reasons.append(reason)
            if call.args["x"] == "slow" and len(reasons) == 1:
                assert tool.runs("fast")
            return True

        rule = policy.ask_user("t", when=lambda args: args["x"] == "slow", reason="Slow.")
        one = policy.RateLimit(tool_calls=1, on_breach="ask")
        governed(policies=[rule, one, policy.label("t", adds="used")], approvals=approve)
        assert tool.runs("slow")
        assert reasons == ["Slow.", "Rate limit exceeded: at least 1 of 1 tool calls used"]
        assert tool.ran == ["fast", "slow"]

    def test_a_limit_that_is_used_up_again_and_again_denies(self, governed: Any) -> None:
        class Never(Gate):
            points = ("pre_tool_call",)
            id = "never"
            number = 0

            def admit(self, *args: Any, **kwargs: Any) -> Any:
                yield from ()
                self.number += 1
                other = Gate()
                other.id = f"question {self.number}"
                return Ruling("ask", other, "Again.")

        tool = Tool()
        governed(policies=[Never()], approvals=Channel(True))
        assert "changed them again and again" in tool.told()
        assert tool.ran == []


class TestBesideRules:
    def test_people_are_asked_once_for_rule_and_limit_and_see_the_limit(
        self, governed: Any, tool: Tool
    ) -> None:
        channel = Channel(True)
        rule = policy.ask_user("t", reason="Money leaves.")
        governed(policies=[rule, repeat()], approvals=channel)
        assert [tool.told("x") for _ in range(2)] == ["x", "x"]
        assert channel.reasons == ["Money leaves.", ONCE]

    def test_the_yes_to_a_rule_is_none_to_the_limit(self, governed: Any, tool: Tool) -> None:
        rule = policy.ask_user("t", handler=lambda call: True)
        governed(policies=[rule, repeat()], approvals=Channel(False))
        assert [tool.told("x") for _ in range(2)] == ["x", ONCE]

    def test_a_rule_that_denies_asks_no_one(self, governed: Any, tool: Tool) -> None:
        channel = Channel(True)
        rule = policy.deny("t", when=lambda args: len(tool.ran) > 0, reason="No.")
        governed(policies=[rule, repeat()], approvals=channel)
        assert [tool.told("x") for _ in range(2)] == ["x", "No."]
        assert channel.calls == []

    def test_a_limit_waits_for_the_answer_where_a_rule_would_pause_the_run(
        self, framework: Any
    ) -> None:
        """In a run that goes on later, the limit may have room again: the no would be lost."""
        channel = Channel(False)
        with guarded(framework, "plain", Asking, repeat(), approvals=channel):
            tool = framework()
            assert ask(tool, None) == "got 1"
            assert ask(tool, None) == f"denied: {ONCE}"
        assert not any(isinstance(each, Paused) for each in tool.ran)
        assert len(channel.calls) == 1


class TestMonitor:
    @pytest.mark.parametrize("settings", [{"mode": "monitor"}, {}])
    def test_an_ask_is_recorded_and_no_one_is_asked(
        self, governed: Any, tool: Tool, settings: dict[str, Any]
    ) -> None:
        governed(policies=[repeat(mode=None if settings else "monitor")], **settings)
        assert [tool.told("x") for _ in range(2)] == ["x", "x"]
        attributes = dict(governed.spans[1].attributes)
        assert attributes[semconv.POLICY_DECISION] == "ask"
        assert attributes[semconv.POLICY_ENFORCEMENT] == "observed"
        assert attributes[semconv.POLICY_REASON] == ONCE
        assert semconv.ERROR_TYPE not in attributes


class TestFailure:
    def test_a_count_out_of_reach_denies_and_asks_no_one(self, governed: Any, tool: Tool) -> None:
        channel = Channel(True)
        governed(policies=[repeat(storage=Unreachable())], approvals=channel)
        assert tool.told() == "Repeated calls could not be counted."
        assert channel.calls == []

    @pytest.mark.parametrize(("on_error", "runs"), [("deny", False), ("allow", True)])
    def test_an_approved_call_that_cannot_be_counted_is_one_that_could_not_be_checked(
        self, governed: Any, tool: Tool, on_error: Any, runs: bool
    ) -> None:
        storage = Unreachable()
        storage.is_gone = False

        def approve(call: Any) -> bool:
            storage.is_gone = True
            return True

        governed(policies=[repeat(storage=storage, on_error=on_error)], approvals=approve)
        assert [tool.runs("x") for _ in range(2)] == [True, runs]

    def test_a_gate_of_ones_own_asks_and_counts_nothing(self, governed: Any, tool: Tool) -> None:
        class Asks(Gate):
            points = ("pre_tool_call",)
            id = "asks"

            def admit(self, *args: Any, **kwargs: Any) -> Any:
                yield from ()
                return Ruling("ask", self, "May it?")

        governed(policies=[Asks()], approvals=Channel(True, False))
        assert [tool.runs("x") for _ in range(2)] == [True, False]

    def test_a_moving_window_takes_what_people_let_pass(self) -> None:
        counter = counters.Counter(1, 60, counters.MemoryStorage(), is_moving=True)
        assert counter.take("a")
        counter.add(1, "a")
        counter.add(1, "a")
        assert not counter.take("a")

    def test_an_ask_at_another_point_denies(self, governed: Any) -> None:
        class Asks(Gate):
            points = ("pre_turn",)
            id = "asks"

            def admit(self, *args: Any, **kwargs: Any) -> Any:
                yield from ()
                return Ruling("ask", self, "May it?")

        governed(policies=[Asks()], approvals=Channel(True))
        with pytest.raises(otelhooks.errors.Denied, match="May it"), otelhooks.turn("hello"):
            pytest.fail("the turn ran")


class TestNoChannel:
    """As for rules that ask: nothing starts that could not ask."""

    def test_nothing_starts_without_one(self, governed: Any) -> None:
        with pytest.raises(ConfigError, match="limit `rate limit 2 tool calls per session` asks"):
            governed(policies=[limit()])
        with pytest.raises(ConfigError, match="there is no approval channel"):
            governed(hooks=[repeat()])
        governed(policies=[limit(mode="monitor")])

    def test_nor_is_one_added_later(self, governed: Any, tool: Tool) -> None:
        handle = governed(policies=[policy.RateLimit(tool_calls=1)])
        changes: list[Callable[[], object]] = [
            lambda: handle.register(repeat()),
            lambda: handle.replace(policies=[repeat()]),
            lambda: governed(policies=[repeat()], replace=True),
            lambda: otelhooks.scope(policies=[repeat()]).__enter__(),
        ]
        for change in changes:
            with pytest.raises(ConfigError, match="asks, but there is no approval channel"):
                change()
        assert [tool.runs("x") for _ in range(2)] == [True, False]

    def test_a_scope_has_that_of_the_process(self, governed: Any, tool: Tool) -> None:
        channel = Channel(True)
        governed(approvals=channel)
        with otelhooks.scope(policies=[repeat()]):
            assert [tool.runs("x") for _ in range(2)] == [True, True]
        assert len(channel.calls) == 1

    def test_a_file_is_an_error_at_its_place(self, governed: Any, tmp_path: Path) -> None:
        path = tmp_path / "base.yaml"
        path.write_text("policies:\n  - repeat: {on_breach: ask}\n")
        with pytest.raises(PolicyFileError) as caught:
            governed(policies=[path])
        assert "base.yaml:2:5: limit `repeat 3 of arguments per turn` asks" in str(caught.value)
        path.write_text("mode: monitor\npolicies:\n  - repeat: {on_breach: ask}\n")
        governed(policies=[path])

    def test_a_file_that_is_read_again_without_one_keeps_the_old_one(
        self, governed: Any, tool: Tool, tmp_path: Path
    ) -> None:
        path = tmp_path / "base.yaml"
        path.write_text("policies:\n  - repeat: {calls: 2, per: session}\n")
        handle = governed(policies=[path])
        assert tool.runs("x")
        time.sleep(0.01)
        path.write_text("policies:\n  - repeat: {calls: 2, per: session, on_breach: ask}\n")
        handle._read_again()
        assert tool.told("x") == ONCE.replace("at least ", "")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: policy.RateLimit(turns=1, on_breach="ask"), "cannot be asked about a turn"),
        (
            lambda: policy.RateLimit(turns=1, tool_calls=2, on_breach="ask"),
            "cannot be asked about a turn",
        ),
        (lambda: policy.Budget(tokens=1, on_breach="ask"), "a budget cannot ask"),
        (lambda: policy.RateLimit(tool_calls=1, on_breach="log"), "unknown on_breach `log`"),
    ],
)
def test_what_cannot_ask_is_an_error(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_storage_of_the_library_may_hold_the_counts(governed: Any, tool: Tool) -> None:
    kept = Unreachable()
    kept.is_gone = False
    assert isinstance(kept, Storage)
    governed(policies=[repeat(storage=kept)], approvals=Channel(True, False))
    assert [tool.runs("x") for _ in range(3)] == [True, True, False]
