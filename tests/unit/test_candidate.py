"""A candidate set: evaluated beside the rules that hold, never enforced, never in their way."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context as otel_context

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy import candidate as candidate_module
from otelhooks.policy.candidate import Candidate
from otelhooks.records import semconv
from tests.unit.noting import Tool

CANDIDATE = "otelhooks.candidate."


def flips(attributes: dict[str, Any]) -> dict[str, Any]:
    return {k.removeprefix(CANDIDATE): v for k, v in attributes.items() if k.startswith(CANDIDATE)}


class TestFlips:
    def test_the_live_span_says_what_the_candidate_would_have_done(
        self, governed: Any, tool: Tool
    ) -> None:
        governed(policies=[policy.allow("t")], candidate=[policy.deny("t", id="new")])
        assert tool.runs()
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.POLICY_DECISION] == "allow"
        assert attributes[semconv.CANDIDATE_DECISION] == "deny"
        assert attributes[semconv.CANDIDATE_POLICY_ID] == "code"
        assert attributes[semconv.CANDIDATE_RULE_ID] == "new"
        assert len(attributes[semconv.CANDIDATE_VERSION]) == 12
        [point] = governed.points(semconv.METRIC_CANDIDATE_FLIPS)
        assert point.value == 1
        assert point.attributes[semconv.POLICY_DECISION] == "allow"
        assert point.attributes[semconv.CANDIDATE_DECISION] == "deny"
        assert governed.event(semconv.EVENT_POLICY_DECISION) == []
        assert governed.total(semconv.METRIC_POLICY_DENIES) == 0

    @pytest.mark.parametrize(
        ("live", "new", "flip"),
        [
            ([], [], None),
            ([], [policy.allow("t")], None),
            ([], [policy.deny("t")], "deny"),
            ([], [policy.ask_user("t")], "ask"),
            ([], [policy.veto("t")], "deny"),
            ([], [policy.deny("t", mode="monitor")], None),
            ([policy.deny("t")], [policy.deny("*")], None),
            ([policy.deny("t")], [policy.allow("*")], "allow"),
            ([policy.deny("t")], [], "allow"),
            ([policy.deny("t")], [policy.ask_user("t")], "ask"),
            ([policy.deny("t", mode="monitor")], [policy.deny("t")], None),
            ([policy.deny("t", mode="monitor")], [policy.allow("t")], "allow"),
            ([policy.ask_user("t", lambda call: True)], [policy.ask_user("t")], None),
            ([policy.ask_user("t", lambda call: False)], [policy.allow("t")], "allow"),
        ],
    )
    def test_only_another_decision_is_a_flip(
        self, governed: Any, tool: Tool, live: Any, new: Any, flip: str | None
    ) -> None:
        governed(policies=live, candidate=[policy.allow("other"), *new])
        tool.runs()
        found = flips(governed.attributes("execute_tool t"))
        assert found.get("decision") == flip
        assert governed.total(semconv.METRIC_CANDIDATE_FLIPS) == (flip is not None)

    def test_where_nothing_holds_the_span_says_that_it_was_allowed(
        self, governed: Any, tool: Tool
    ) -> None:
        governed(candidate=[policy.deny("t")])
        assert tool.runs()
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.POLICY_DECISION] == "allow"
        assert attributes[semconv.CANDIDATE_DECISION] == "deny"

    def test_in_monitor_mode_what_was_observed_is_compared(self, governed: Any, tool: Tool) -> None:
        governed(policies=[policy.deny("t")], candidate=[policy.deny("*")], mode="monitor")
        assert tool.runs()
        assert flips(governed.attributes("execute_tool t")) == {}

    def test_it_sees_the_final_arguments(self, governed: Any, tool: Tool) -> None:
        rewrite = hooks.pre_tool_call_decide(
            lambda call: types.HookResult(modified_args={"x": "new"})
        )
        governed(
            hooks=[rewrite],
            candidate=[policy.deny("t", when=lambda args: args["x"] == "new")],
        )
        assert tool.runs("old")
        assert flips(governed.attributes("execute_tool t"))["decision"] == "deny"

    def test_what_a_hook_denies_is_not_a_flip(self, governed: Any, tool: Tool) -> None:
        guard = hooks.pre_tool_call_decide(lambda call: types.HookResult(allow=False, message="no"))
        governed(hooks=[guard], candidate=[policy.allow("t")])
        assert not tool.runs()
        assert flips(governed.attributes("execute_tool t")) == {}

    def test_it_reads_the_labels_that_are_in_force(self, governed: Any, tool: Tool) -> None:
        @otelhooks.tool
        def fetch() -> None: ...

        governed(
            policies=[policy.label("fetch", adds="untrusted")],
            candidate=[policy.deny("t", when_labels={"untrusted"})],
        )
        with otelhooks.session("c"):
            assert tool.runs()
            fetch()
            assert tool.runs()
        found = [flips(dict(span.attributes)) for span in governed.spans]
        assert [entry.get("decision") for entry in found] == [None, None, "deny"]

    def test_it_alone_may_read_labels_of_an_unseen_history(self, governed: Any, tool: Tool) -> None:
        @otelhooks.model_call(model="m")
        def ask(messages: Any) -> str:
            return "ok"

        governed(candidate=[policy.deny("t", when_labels={"untrusted"})])
        with otelhooks.session("c"), otelhooks.turn("go on"):
            ask([{"role": role, "content": "x"} for role in ("user", "assistant", "user")])
            assert tool.runs()
        assert flips(governed.attributes("execute_tool t"))["decision"] == "deny"

    def test_a_policy_file_can_be_tried_out(
        self, governed: Any, tool: Tool, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "stricter.yaml"
        file.write_text(
            "version: 1\nmode: monitor\ndefault: deny\npolicies:\n"
            "  - {ask: t, id: new}\n  - {limit: {tool_calls: 1}}\n",
            encoding="utf-8",
        )
        with caplog.at_level(logging.WARNING):
            governed(policies=[policy.allow("t")], candidate=[str(file)])
        assert "not evaluated: RateLimit" in caplog.text
        assert [tool.runs(), tool.runs()] == [True, True]
        for span in governed.spans:
            found = flips(dict(span.attributes))
            assert (found["decision"], found["policy.id"], found["rule.id"]) == (
                "ask",
                "stricter",
                "new",
            )
            assert len(found["version"]) == 12

    def test_nothing_is_evaluated_where_telemetry_is_off(self, governed: Any, tool: Tool) -> None:
        asked: list[Any] = []

        def when(args: Any) -> bool:
            asked.append(args)
            return True

        governed(candidate=[policy.deny("t", when=when)])
        token = otel_context.attach(otel_context.set_value("suppress_instrumentation", True))
        try:
            assert tool.runs()
        finally:
            otel_context.detach(token)
        assert asked == []


class TestNoHarm:
    def test_no_person_is_asked(self, governed: Any, tool: Tool) -> None:
        asked: list[Any] = []
        governed(
            candidate=[policy.ask_user("t", lambda call: bool(asked.append(call)))],
            approvals=lambda call: bool(asked.append(call)),
        )
        assert tool.runs()
        assert asked == []
        assert [span.name for span in governed.spans] == ["execute_tool t"]

    def test_no_limit_counts_and_no_label_is_set(
        self, governed: Any, tool: Tool, caplog: pytest.LogCaptureFixture
    ) -> None:
        seen: list[Any] = []

        @hooks.pre_tool_call_decide
        def look(context: hooks.HookContext, call: types.ToolCall) -> types.HookResult:
            seen.append(context.labels)
            return types.HookResult()

        with caplog.at_level(logging.WARNING):
            governed(
                hooks=[look],
                candidate=[policy.RateLimit(tool_calls=1), policy.label("t", adds="x")],
            )
        assert "not evaluated: Label, RateLimit" in caplog.text
        assert [tool.runs() for _ in range(3)] == [True, True, True]
        assert seen == [frozenset()] * 3

    def test_a_predicate_that_raises_would_deny(self, governed: Any, tool: Tool) -> None:
        def when(args: Any) -> bool:
            raise ValueError("secret")

        governed(policies=[policy.allow("t")], candidate=[policy.deny("t", when=when, id="new")])
        assert tool.runs()
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.CANDIDATE_DECISION] == "deny"
        assert "secret" not in str(attributes)

    def test_a_predicate_cannot_change_the_arguments(self, governed: Any, tool: Tool) -> None:
        def when(args: Any) -> bool:
            args["x"].append("evil")
            return False

        governed(candidate=[policy.deny("t", when=when)])
        assert tool.runs(["fine"])
        assert tool.ran == [["fine"]]

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_predicate_that_waits_is_left_behind(
        self,
        governed: Any,
        tool: Tool,
        is_async: bool,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(candidate_module, "TIME_LIMIT_S", 0.02)
        release = threading.Event()
        governed(candidate=[policy.deny("*", when=lambda args: release.wait(10))])
        started = time.perf_counter()
        for _ in range(20):  # as many as would hang without a bound
            if is_async:
                asyncio.run(_once(tool))
            else:
                assert tool.runs()
        assert time.perf_counter() - started < 5
        assert len(tool.ran) == 20
        assert threading.active_count() < 20
        assert caplog.text.count("the candidate set failed") <= 1
        release.set()

    def test_an_engine_that_breaks_is_passed_over(
        self, governed: Any, tool: Tool, caplog: pytest.LogCaptureFixture
    ) -> None:
        handle = governed(candidate=[policy.deny("t")])

        def broken(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("broken")

        handle._runtime.candidate.rules.constant = broken
        assert tool.runs()
        assert flips(governed.attributes("execute_tool t")) == {}
        assert "failed and is passed over: RuntimeError" in caplog.text

    def test_no_more_than_a_few_are_evaluated_at_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(candidate_module, "MAX_AT_ONCE", 1)
        inner: list[Any] = []

        def when(args: Any) -> bool:
            inner.append(drive(tried.flip(Call("t", {}), frozenset(), None)))
            inner.append(tried._evaluate(Call("t", {}), None))
            return True

        tried = Candidate(policy.PolicySet([policy.deny("t", when=when)]))
        found = drive(tried.flip(Call("t", {}), frozenset(), None))
        assert found is not None
        assert found.decision == "deny"
        assert inner == [None, None]

    def test_cancellation_goes_on_up(self) -> None:
        def cancelled(args: Any) -> bool:
            raise asyncio.CancelledError

        tried = Candidate(policy.PolicySet([policy.deny("t", when=cancelled)]))
        with pytest.raises(asyncio.CancelledError):
            drive(tried.flip(Call("t", {}), frozenset(), None))

    def test_a_rule_that_cannot_be_understood_is_an_error_at_load(self, governed: Any) -> None:
        with pytest.raises(ConfigError, match="Expected Policy"):
            governed(candidate=[3])


async def _once(tool: Tool) -> None:
    await tool.later()
