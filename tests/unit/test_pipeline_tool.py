"""A tool call through the pipeline: decision, span, body, result, record."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import StatusCode

import otelhooks
from otelhooks import audit, hooks, policy, types
from otelhooks.errors import ApprovalTimeout, Denied
from otelhooks.hooks import drive, own_threads
from otelhooks.hooks.calls import Call
from otelhooks.hooks.verdict import Approval
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import Split, Unrun
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.records import semconv
from otelhooks.store.reader import Store
from tests.unit.noting import Tool

Result = types.HookResult


class Escaped(BaseException):
    """Represents classes that `except Exception` does not catch."""


@pytest.fixture
def body() -> Tool:
    return Tool()


def active() -> Any:
    """Return the runtime that `governed` has set up."""
    return runtime.active()


def deny(**fields: Any) -> Any:
    return policy.deny("t", id="r1", **fields)


class TestAgent:
    @pytest.mark.parametrize(
        ("said", "agent", "branch"),
        [
            ({}, "lead", "lead"),
            ({"agent": "writer"}, "writer", "writer"),
            ({"branch": "team/writer"}, "lead", "team/writer"),
            ({"agent": "writer", "branch": "team/writer"}, "writer", "team/writer"),
        ],
    )
    def test_what_a_framework_says_of_a_call_goes_before_the_turns(
        self, governed: Any, said: dict[str, str], agent: str, branch: str
    ) -> None:
        governed()
        with otelhooks.session("s"), otelhooks.turn("go", agent="lead"):
            Split(tool(active(), ToolSeat(), Call("t", {}, **said))).begin().finish("done")
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.GEN_AI_AGENT_NAME] == agent
        assert attributes.get(semconv.AGENT_BRANCH) == (branch if "/" in branch else None)

    @pytest.mark.parametrize(
        ("said", "branch"),
        [
            ({"agent": "writer"}, "writer"),
            ({"agent": "writer", "branch": "team/writer"}, "team/writer"),
        ],
    )
    def test_outside_a_turn_the_framework_alone_says_who_calls(
        self, governed: Any, said: dict[str, str], branch: str
    ) -> None:
        governed()
        Split(tool(active(), ToolSeat(), Call("t", {}, **said))).begin().finish("done")
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.GEN_AI_AGENT_NAME] == "writer"
        assert attributes.get(semconv.AGENT_BRANCH) == (branch if "/" in branch else None)


class TestEvents:
    """What listeners hear of a call before and after its tool."""

    def heard(self, governed: Any, body: Any, **settings: Any) -> list[tuple[Any, ...]]:
        heard: list[tuple[Any, ...]] = []

        def hear(event: types.HookEvent) -> None:
            said = (event.type, event.decision, event.rule_id, event.reason, event.is_error)
            heard.append(said)

        given = settings.pop("hooks", [])
        governed(hooks=[*given, hooks.on_event(hear)], **settings)
        split = Split(tool(active(), ToolSeat(), Call("t", {})))
        with contextlib.suppress(Denied):
            split.begin()
        if split.proceeds:
            body(split)
        return heard

    def test_of_a_call_that_a_rule_allows(self, governed: Any) -> None:
        heard = self.heard(governed, lambda s: s.finish("x"), policies=[policy.allow("t", id="r")])
        assert heard == [
            ("pre_tool_use", "allow", "r", None, False),
            ("post_tool_use", "allow", None, None, False),
        ]

    def test_of_a_call_without_a_decider(self, governed: Any) -> None:
        heard = self.heard(governed, lambda s: s.finish("x"))
        assert [said[:3] for said in heard] == [
            ("pre_tool_use", "allow", None),
            ("post_tool_use", "allow", None),
        ]

    def test_of_a_call_that_is_denied(self, governed: Any) -> None:
        heard = self.heard(governed, None, policies=[deny(reason="not here")])
        assert heard == [("pre_tool_use", "deny", "r1", "not here", False)]

    def test_of_a_result_that_is_withheld(self, governed: Any) -> None:
        hide = hooks.post_tool_call_transform(rule_id="hide")(
            lambda data: Result(allow=False, message="secret")
        )
        heard = self.heard(governed, lambda s: s.finish("x"), hooks=[hide])
        assert heard[-1] == ("post_tool_use", "deny", "hide", "secret", False)


class TestCounts:
    def test_each_decision_counts_as_one_evaluation_where_no_condition_runs(
        self, governed: Any, body: Tool
    ) -> None:
        governed(policies=[policy.allow("t")])
        for _ in range(3):
            body.t()
        assert governed.total(semconv.METRIC_POLICY_EVALUATIONS) == 3

    def test_a_call_that_goes_on_after_a_pause_counts_again_only_under_another_verdict(
        self, governed: Any
    ) -> None:
        class Pausing(ToolSeat):
            def is_paused(self, call: Call, raw: Any) -> bool:
                return raw == "paused"

        def count(raw: str) -> float:
            call = Call("t", {}, id="1")
            Split(tool(active(), Pausing(), call)).begin().finish(raw)
            return governed.total(semconv.METRIC_POLICY_DECISIONS)

        rule = policy.allow("t", id="first")
        handle = governed(policies=[policy.deny("other")])
        handle.register(rule)
        assert [count("paused"), count("paused")] == [1, 1]
        handle.unregister(rule)
        assert count("done") == 2


class TestDeny:
    def test_a_denied_call_does_not_run_and_says_why(self, governed: Any, body: Tool) -> None:
        governed(policies=[deny(reason="not here", severity="high")])
        with pytest.raises(Denied, match="not here") as caught:
            body.t(5)
        assert body.ran == []
        span = governed.span("execute_tool t")
        attributes = governed.attributes("execute_tool t")
        assert span.status.status_code is StatusCode.ERROR
        assert attributes[semconv.ERROR_TYPE] == "policy_denied"
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.POLICY_ENFORCEMENT] == "blocked"
        assert attributes[semconv.POLICY_SEVERITY] == "high"
        assert attributes[semconv.POLICY_REASON] == "not here"
        assert (caught.value.rule_id, caught.value.policy_id) == ("r1", "code")
        [event] = governed.event(semconv.EVENT_POLICY_DECISION)
        decision_id = attributes[semconv.DECISION_ID]
        assert caught.value.decision_id == event[semconv.DECISION_ID] == decision_id
        assert governed.total(semconv.METRIC_POLICY_DENIES) == 1
        assert governed.points(semconv.METRIC_TOOL_CALLS) == []

    def test_the_status_of_denied_spans_can_be_left_unset(self, governed: Any, body: Tool) -> None:
        governed(policies=[deny()], denied_span_status="unset")
        with pytest.raises(Denied):
            body.t()
        span = governed.span("execute_tool t")
        assert span.status.status_code is StatusCode.UNSET
        assert governed.attributes("execute_tool t")[semconv.POLICY_DECISION] == "deny"

    def test_error_and_post_hooks_do_not_run_after_a_deny(self, governed: Any, body: Tool) -> None:
        log: list[str] = []
        governed(
            policies=[deny()],
            hooks=[
                hooks.on_tool_error(lambda error: log.append("error")),
                hooks.post_tool_call(lambda data: log.append("post")),
                hooks.post_tool_call_transform(lambda data: log.append("transform")),
                hooks.on_event(lambda event: log.append(f"{event.type} {event.decision}")),
            ],
        )
        with pytest.raises(Denied):
            body.t()
        assert log == ["pre_tool_use deny"]

    def test_a_crash_is_recorded_by_its_class_and_not_told_to_the_model(
        self, governed: Any, body: Tool
    ) -> None:
        def guard(data: Any) -> Result:
            raise ValueError("the secret")

        governed(hooks=[hooks.pre_tool_call_decide(rule_id="guard")(guard)])
        with pytest.raises(Denied, match="a policy check failed") as caught:
            body.t()
        assert "secret" not in str(caught.value)
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.POLICY_REASON] == "guard: ValueError"
        assert attributes[semconv.ERROR_TYPE] == "policy_error"
        [event] = governed.event(semconv.EVENT_POLICY_DECISION)
        assert event[semconv.EXCEPTION_TYPE] == "ValueError"
        assert semconv.EXCEPTION_MESSAGE not in event
        assert governed.total(semconv.METRIC_HOOK_ERRORS) == 1

    def test_a_handler_that_crashes_leaves_its_text_off_the_span(
        self, governed: Any, body: Tool
    ) -> None:
        def ask(call: Any) -> bool:
            raise ValueError("the secret")

        governed(policies=[policy.ask_user("t", handler=ask)])
        with pytest.raises(Denied):
            body.t()
        for span in governed.spans:
            assert "secret" not in str(dict(span.attributes or {}))
        assert body.ran == []

    @pytest.mark.parametrize("where", ["hook", "when", "transform"])
    def test_exception_classes_that_escape_except_exception_fail_closed(
        self, governed: Any, body: Tool, where: str
    ) -> None:
        def fail(data: Any) -> Any:
            raise Escaped("x")

        settings: dict[str, dict[str, Any]] = {
            "hook": {"hooks": [hooks.pre_tool_call_decide(fail)]},
            "when": {"policies": [policy.deny("t", when=fail)]},
            "transform": {"hooks": [hooks.post_tool_call_transform(fail)]},
        }
        governed(**settings[where])
        if where == "transform":
            assert body.t() == "The result was withheld because a policy check failed."
        else:
            with pytest.raises(Denied):
                body.t()
            assert body.ran == []


class TestAllow:
    def test_a_plain_allow_carries_decision_and_rule_only(self, governed: Any, body: Tool) -> None:
        governed(policies=[policy.allow("t", id="ok")])
        assert body.t(3) == 3
        own = {k: v for k, v in governed.attributes("execute_tool t").items() if "otelhooks" in k}
        assert own == {semconv.POLICY_DECISION: "allow", semconv.POLICY_RULE_ID: "ok"}
        assert governed.event(semconv.EVENT_POLICY_DECISION) == []
        assert governed.total(semconv.METRIC_TOOL_CALLS) == 1
        [spent] = governed.points(semconv.METRIC_TOOL_TIME)
        span = governed.span("execute_tool t")
        assert spent.value == pytest.approx((span.end_time - span.start_time) / 1e9)
        assert governed.points(semconv.METRIC_GEN_AI_EXECUTE_TOOL_DURATION) == []

    def test_the_histogram_of_durations_is_there_if_wanted(
        self, governed: Any, body: Tool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTELHOOKS_TOOL_HISTOGRAM", "1")
        governed(policies=[policy.allow("t")])
        body.t()
        [point] = governed.points(semconv.METRIC_GEN_AI_EXECUTE_TOOL_DURATION)
        [spent] = governed.points(semconv.METRIC_TOOL_TIME)
        assert (point.count, point.sum) == (1, spent.value)
        assert point.attributes == spent.attributes
        assert governed.total(semconv.METRIC_TOOL_CALLS) == 1

    def test_allows_are_events_too_if_wanted(self, governed: Any, body: Tool) -> None:
        governed(policies=[policy.allow("t", id="ok")], record_allows=True)
        body.t()
        [event] = governed.event(semconv.EVENT_POLICY_DECISION)
        assert event[semconv.POLICY_DECISION] == "allow"

    def test_without_any_policy_one_warning_is_logged(
        self, governed: Any, body: Tool, caplog: pytest.LogCaptureFixture
    ) -> None:
        governed()
        body.t()
        body.t()
        assert caplog.text.count("tools run with no policy") == 1

    def test_listeners_hear_allow_without_a_decider(self, governed: Any, body: Tool) -> None:
        heard: list[types.HookEvent] = []
        governed(hooks=[hooks.on_event(lambda event: heard.append(event))])
        body.t(3)
        assert [(e.type, e.decision) for e in heard] == [
            ("pre_tool_use", "allow"),
            ("post_tool_use", "allow"),
        ]
        span = governed.span("execute_tool t")
        assert {e.trace_id for e in heard} == {trace.format_trace_id(span.context.trace_id)}
        assert {e.span_id for e in heard} == {trace.format_span_id(span.context.span_id)}
        assert heard[1].duration is not None
        assert heard[0].input is None

    def test_a_rewrite_is_what_runs_and_an_event(self, governed: Any, body: Tool) -> None:
        governed(hooks=[hooks.pre_tool_call_decide(lambda d: Result(modified_args={"x": 9}))])
        assert body.t(1) == 9
        assert governed.attributes("execute_tool t")[semconv.POLICY_ENFORCEMENT] == "modified"

    def test_a_failing_telemetry_lets_the_call_go_on(
        self, governed: Any, body: Tool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        handle = governed(policies=[policy.allow("t")])

        def fail(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("no spans today")

        monkeypatch.setattr(handle._runtime.spans, "start", fail)
        assert body.t(3) == 3


class TestMonitor:
    def test_a_deny_is_observed_and_the_call_runs(self, governed: Any, body: Tool) -> None:
        governed(policies=[deny()], mode="monitor")
        assert body.t(3) == 3
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.POLICY_ENFORCEMENT] == "observed"
        assert attributes[semconv.POLICY_MODE] == "monitor"
        assert semconv.ERROR_TYPE not in attributes
        assert governed.span("execute_tool t").status.status_code is StatusCode.UNSET
        [event] = governed.event(semconv.EVENT_POLICY_DECISION)
        assert event[semconv.POLICY_ENFORCEMENT] == "observed"

    def test_an_ask_without_an_approver_is_observed(self, governed: Any, body: Tool) -> None:
        governed(policies=[policy.ask_user("t")], mode="monitor")
        with otelhooks.scope(policies=[policy.ask_user("t", id="of-scope")]):
            assert body.t(3) == 3
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.POLICY_DECISION] == "ask"
        assert attributes[semconv.POLICY_ENFORCEMENT] == "observed"
        assert attributes[semconv.POLICY_REASON] == "Asked by policy 't'."
        assert not attributes.keys() & {semconv.APPROVAL_STATUS, semconv.ARGUMENTS_HASH}

    def test_a_veto_blocks(self, governed: Any, body: Tool) -> None:
        governed(policies=[policy.veto("t")], mode="monitor")
        with pytest.raises(Denied):
            body.t()

    @pytest.mark.parametrize(
        "enforced",
        [
            policy.deny("t", mode="enforce"),
            policy.ask_user("t", lambda call: False, mode="enforce"),
        ],
    )
    def test_a_rule_that_says_enforce_blocks(
        self, governed: Any, body: Tool, enforced: Any
    ) -> None:
        governed(policies=[enforced], mode="monitor")
        with pytest.raises(Denied):
            body.t()
        assert governed.attributes("execute_tool t")[semconv.POLICY_ENFORCEMENT] != "observed"

    def test_a_limit_that_says_enforce_blocks(self, governed: Any, body: Tool) -> None:
        limit = policy.RateLimit(tool_calls=1, per="day", mode="enforce")
        governed(policies=[limit], mode="monitor")
        assert body.t(3) == 3
        with pytest.raises(Denied):
            body.t(3)

    def test_a_hook_that_says_enforce_blocks(self, governed: Any, body: Tool) -> None:
        block = hooks.pre_tool_call_decide(lambda data: Result(allow=False, message="no"))
        withhold = hooks.post_tool_call_transform(lambda data: Result(allow=False, message="kept"))
        block.mode = withhold.mode = "enforce"  # type: ignore[attr-defined]
        handle = governed(hooks=[block, withhold], mode="monitor")
        with pytest.raises(Denied, match="no"):
            body.t()
        handle.unregister(block)
        assert body.t(3) == "kept"

    def test_a_block_of_the_result_is_observed_and_no_rewrite(
        self, governed: Any, body: Tool
    ) -> None:
        block = hooks.post_tool_call_transform(lambda data: Result(allow=False, message="no"))
        governed(hooks=[block], mode="monitor")
        assert body.t(3) == 3
        assert semconv.EVENT_REWRITTEN not in governed.events
        assert governed.attributes("execute_tool t")[semconv.POLICY_ENFORCEMENT] == "observed"


class TestResults:
    def test_a_transform_changes_what_the_caller_gets(self, governed: Any, body: Tool) -> None:
        seen: list[Any] = []
        governed(
            hooks=[
                hooks.post_tool_call_transform(lambda data: data.result * 2),
                hooks.post_tool_call(lambda data: seen.append(data)),
            ]
        )
        assert body.t(4) == 8
        [record] = seen
        assert (record.result, record.name, record.error) == (8, "t", None)
        assert record.span_id == trace.format_span_id(
            governed.span("execute_tool t").context.span_id
        )
        assert semconv.EVENT_REWRITTEN in governed.events

    def test_a_withheld_result_says_that_the_effect_has_happened(
        self, governed: Any, body: Tool
    ) -> None:
        governed(
            hooks=[hooks.post_tool_call_transform(lambda d: Result(allow=False, message="no"))]
        )
        assert body.t(4) == "no"
        assert body.ran == [4]
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.WITHHELD] is True
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert semconv.EVENT_WITHHELD in governed.events


class TestFailures:
    @pytest.mark.parametrize("error", [ValueError("boom"), Escaped("boom")])
    def test_error_hooks_then_post_hooks_with_the_error(
        self, governed: Any, error: BaseException
    ) -> None:
        log: list[Any] = []

        @otelhooks.tool
        def broken() -> None:
            raise error

        governed(
            hooks=[
                hooks.on_tool_error(lambda e: log.append(("error", e))),
                hooks.post_tool_call(lambda data: log.append(("post", data.error))),
            ]
        )
        with pytest.raises(type(error), match="boom") as caught:
            broken()
        assert caught.value is error
        assert log == [("error", error), ("post", "boom")]
        assert governed.span("execute_tool broken").status.status_code is StatusCode.ERROR
        [point] = governed.points(semconv.METRIC_TOOL_CALLS)
        assert semconv.ERROR_TYPE in point.attributes

    def test_a_recovered_failure_keeps_the_error_type_and_has_no_error_in_post_hooks(
        self, governed: Any
    ) -> None:
        log: list[Any] = []

        @otelhooks.tool
        def broken() -> None:
            raise ValueError("boom")

        governed(
            hooks=[
                hooks.on_tool_error(lambda e: "instead"),
                hooks.post_tool_call(lambda data: log.append((data.error, data.result))),
            ]
        )
        assert broken() == "instead"
        assert log == [(None, "instead")]
        attributes = governed.attributes("execute_tool broken")
        assert attributes[semconv.RECOVERED] is True
        assert attributes[semconv.ERROR_TYPE] == "ValueError"
        assert governed.span("execute_tool broken").status.status_code is StatusCode.UNSET
        assert semconv.EVENT_RECOVERED in governed.events

    def test_what_cannot_take_a_failures_place_is_its_text_and_told_as_a_failure(
        self, governed: Any
    ) -> None:
        class Remote(ToolSeat):
            recovers = False

        log: list[Any] = []
        governed(
            hooks=[
                hooks.on_tool_error(lambda e: "instead"),
                hooks.post_tool_call(lambda data: log.append(data.error)),
            ]
        )
        split = Split(tool(active(), Remote(), Call("t", {}))).begin()
        with pytest.raises(RuntimeError, match="instead"):
            split.fail(ValueError("boom"))
        assert log == ["instead"]
        span = governed.span("execute_tool t")
        assert semconv.RECOVERED not in span.attributes
        assert span.status.status_code is StatusCode.ERROR
        assert semconv.EVENT_RECOVERED not in governed.events

    @pytest.mark.parametrize(
        ("is_refused", "kind"),
        [(True, semconv.ERROR_POLICY_DENIED), (False, semconv.ERROR_TOOL_ERROR)],
    )
    def test_what_did_not_run_after_all_is_not_a_success_and_shown_to_no_hook(
        self, governed: Any, is_refused: bool, kind: str
    ) -> None:
        log: list[Any] = []
        governed(
            hooks=[
                hooks.post_tool_call(lambda data: log.append(data)),
                hooks.on_tool_error(lambda e: log.append(e)),
            ]
        )
        split = Split(tool(active(), ToolSeat(), Call("t", {}))).begin()
        split.finish(Unrun("somebody else said no", is_refused=is_refused))
        span = governed.span("execute_tool t")
        assert span.attributes[semconv.ERROR_TYPE] == kind
        assert span.status.description == ("somebody else said no" if is_refused else kind)
        assert log == []

    @pytest.mark.parametrize(
        ("error", "description"),
        [(asyncio.CancelledError, "cancelled"), (KeyboardInterrupt, "stopped")],
    )
    def test_what_ends_a_call_from_outside_is_said_in_fixed_words(
        self, governed: Any, error: type[BaseException], description: str
    ) -> None:
        governed()
        split = Split(tool(active(), ToolSeat(), Call("t", {}))).begin()
        with pytest.raises(error):
            split.fail(error("the secret"))
        span = governed.span("execute_tool t")
        assert span.status.description == description
        assert span.attributes[semconv.ERROR_TYPE].endswith(error.__name__)

    def test_a_message_replaces_the_errors_text(self, governed: Any) -> None:
        @otelhooks.tool
        def broken() -> None:
            raise ValueError("the secret path")

        governed(hooks=[hooks.on_tool_error(lambda e: Result(allow=False, message="softer"))])
        with pytest.raises(RuntimeError, match="softer") as caught:
            broken()
        assert isinstance(caught.value.__cause__, ValueError)

    @pytest.mark.parametrize(
        ("returned", "told"),
        [
            (Result(allow=False, message="hidden"), "hidden"),
            (types.ToolResult(name="broken", error="masked"), "masked"),
            (1 / 1j, None),
        ],
    )
    def test_a_transform_can_withhold_or_change_a_failures_text(
        self, governed: Any, returned: Any, told: str | None
    ) -> None:
        seen: list[Any] = []

        @otelhooks.tool
        def broken() -> None:
            raise ValueError("the secret")

        governed(
            hooks=[
                hooks.post_tool_call_transform(lambda data: returned),
                hooks.post_tool_call(lambda data: seen.append(data.error)),
            ]
        )
        with pytest.raises((RuntimeError, ValueError), match=told or "the secret"):
            broken()
        assert seen == [told or "the secret"]

    @pytest.mark.parametrize("way", ["plain", "coroutine", "generator", "asynchronous generator"])
    @pytest.mark.parametrize(
        ("returned", "told"),
        [
            (Result(allow=False, message="hidden"), "hidden"),
            (types.ToolResult(name="broken", error="masked"), "masked"),
        ],
    )
    def test_what_hooks_withhold_or_change_of_a_failure_is_nowhere(
        self, governed: Any, returned: Any, told: str, way: str
    ) -> None:
        seen: list[Any] = []
        change = hooks.post_tool_call_transform(lambda data: returned)
        look = hooks.post_tool_call(lambda data: seen.append((data.error, data.exception)))
        governed(hooks=[change, look], capture_content=True)
        with pytest.raises(RuntimeError, match=told) as caught:
            run_broken(way)
        assert seen == [(told, None)]
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert "secret" not in "".join(traceback.format_exception(caught.value))
        span = governed.span("execute_tool broken")
        assert span.status.description == told
        assert span.attributes[semconv.ERROR_TYPE] == "ValueError"
        assert "secret" not in span.to_json()

    def test_a_failure_that_is_softened_and_then_withheld_with_the_same_words_is_nowhere(
        self, governed: Any
    ) -> None:
        softer = Result(allow=False, message="softer")
        governed(
            hooks=[
                hooks.on_tool_error(lambda error: softer),
                hooks.post_tool_call_transform(lambda data: softer),
            ],
            capture_content=True,
        )
        with pytest.raises(RuntimeError, match="softer") as caught:
            run_broken("plain")
        assert caught.value.__cause__ is None
        assert governed.span("execute_tool broken").status.description == "softer"

    def test_a_failure_that_no_hook_changes_is_on_the_span(self, governed: Any) -> None:
        seen: list[Any] = []
        look = hooks.post_tool_call_transform(lambda data: seen.append(data.error))
        governed(hooks=[look], capture_content=True)
        with pytest.raises(ValueError, match="the secret"):
            run_broken("plain")
        assert governed.span("execute_tool broken").status.description == "the secret"
        assert seen == ["the secret"]

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio keeps no trace of it")
    @pytest.mark.parametrize("how", ["decide", "when"])
    def test_a_cancelled_call_does_not_run_whatever_catches_that(
        self, governed: Any, how: str
    ) -> None:
        started, ran = asyncio.Event(), []

        async def catches(*_: Any) -> Any:
            started.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30)
            return True

        @otelhooks.tool
        async def t() -> None:
            ran.append(True)

        if how == "when":
            governed(policies=[policy.allow("t", when=catches), policy.deny_all()])
        else:
            governed(hooks=[hooks.pre_tool_call_decide(catches)])

        async def main() -> None:
            task = asyncio.ensure_future(t())
            await asyncio.wait_for(started.wait(), 10)
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())
        assert ran == []

    def test_cancellation_escapes_hooks_and_ends_the_span(self, governed: Any) -> None:
        log: list[Any] = []
        started = asyncio.Event()

        @otelhooks.tool
        async def slow() -> None:
            started.set()
            await asyncio.sleep(30)

        governed(hooks=[hooks.on_tool_error(lambda e: log.append(e))])

        async def main() -> None:
            task = asyncio.ensure_future(slow())
            await asyncio.wait_for(started.wait(), 10)
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())
        assert log == []
        span = governed.span("execute_tool slow")
        assert span.status.description == "cancelled"


def run_broken(way: str) -> None:
    """Call a tool `broken` of this kind, which fails."""

    def broken() -> None:
        raise ValueError("the secret")

    async def broken_coroutine() -> None:
        raise ValueError("the secret")

    def broken_generator() -> Iterator[str]:
        yield "one"
        raise ValueError("the secret")

    async def broken_asynchronous_generator() -> AsyncIterator[str]:
        yield "one"
        raise ValueError("the secret")

    async def read() -> None:
        async for _ in named(broken_asynchronous_generator)():
            pass

    named = otelhooks.tool(name="broken")
    if way == "plain":
        named(broken)()
    elif way == "coroutine":
        asyncio.run(named(broken_coroutine)())
    elif way == "generator":
        list(named(broken_generator)())
    else:
        asyncio.run(read())


class TestAttacks:
    def test_the_callers_argument_changed_by_another_thread_is_not_what_runs(
        self, governed: Any
    ) -> None:
        given = {"path": "/safe"}
        decided, changed = threading.Event(), threading.Event()

        def change() -> None:
            decided.wait(10)
            given["path"] = "/evil"
            changed.set()

        def when(args: Any) -> bool:
            evil = args["options"]["path"] == "/evil"
            decided.set()
            changed.wait(10)
            return evil

        @otelhooks.tool
        def opened(options: dict[str, str]) -> str:
            return options["path"]

        governed(policies=[policy.deny("opened", when=when)])
        thread = threading.Thread(target=change)
        thread.start()
        assert opened(given) == "/safe"
        thread.join()

    def test_a_tool_nested_in_itself_is_judged_each_time(self, governed: Any) -> None:
        ran: list[int] = []

        @otelhooks.tool
        def nested(depth: int) -> None:
            ran.append(depth)
            nested(depth + 1)

        governed(policies=[policy.deny("nested", when=lambda args: args["depth"] == 3)])
        with pytest.raises(Denied):
            nested(1)
        assert ran == [1, 2]
        name = "execute_tool nested"
        assert governed.trees == [(name, [(name, [(name, [])])])]

    def test_the_same_call_inside_itself_is_judged_again(self, governed: Any) -> None:
        judged: list[int] = []
        entered: list[int] = []

        @otelhooks.tool
        def again(x: int) -> None:
            entered.append(x)
            if len(entered) == 1:
                again(x)

        governed(
            hooks=[hooks.pre_tool_call_decide(lambda d: judged.append(1) or Result())],
        )
        again(1)
        assert len(judged) == len(entered) == 2

    def test_a_thread_pool_is_not_a_way_around(self, governed: Any, body: Tool) -> None:
        governed(policies=[deny()])
        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(body.t, n) for n in range(20)]
        assert all(isinstance(future.exception(), Denied) for future in futures)
        assert body.ran == []

    def test_a_hook_that_unregisters_itself_decides_to_its_end(
        self, governed: Any, body: Tool
    ) -> None:
        log: list[str] = []

        @hooks.pre_tool_call_decide
        def gone(data: Any) -> Result:
            handle.unregister(gone)
            log.append("gone")
            return Result(allow=False, message="last word")

        handle = governed(hooks=[gone])
        with pytest.raises(Denied, match="last word"):
            body.t()
        assert body.t(2) == 2
        assert log == ["gone"]

    def test_a_hook_that_calls_the_tool_is_judged_again_and_not_endless(
        self, governed: Any, body: Tool
    ) -> None:
        depth: list[int] = []

        @hooks.pre_tool_call_decide
        def reenters(data: Any) -> Result:
            depth.append(1)
            if len(depth) < 3:
                body.t(len(depth) * 10)
            return Result()

        governed(hooks=[reenters])
        assert body.t(1) == 1
        assert body.ran == [20, 10, 1]

    def test_a_later_rewrite_does_not_slip_past_an_earlier_gate(
        self, governed: Any, body: Tool
    ) -> None:
        @hooks.pre_tool_call_decide(priority=1)
        def gate(data: types.ToolCall) -> Result:
            return Result(allow=data.args["x"] != "evil", message="gate")

        rewrite = hooks.pre_tool_call_decide(lambda d: Result(modified_args={"x": "evil"}))
        governed(hooks=[gate, rewrite])
        with pytest.raises(Denied, match="gate"):
            body.t("good")
        assert body.ran == []


class TestAudit:
    def test_the_record_is_on_disk_before_the_body_runs(
        self, governed: Any, tmp_path: Path
    ) -> None:
        lines: list[str] = []
        folder = tmp_path / "audit"

        @otelhooks.tool
        def looks(password: str = "hunter2-secret") -> None:
            for file in folder.rglob("*"):
                if file.is_file():
                    lines.extend(file.read_text(errors="replace").splitlines())

        governed(policies=[policy.allow("looks", id="ok")], audit=folder)
        looks()
        [record] = [json.loads(line) for line in lines if "looks" in line]
        assert "hunter2" not in json.dumps(record)

    def test_calls_are_recorded_without_any_rule(self, governed: Any, tmp_path: Path) -> None:
        @otelhooks.tool
        def looks() -> None: ...

        governed(audit=tmp_path)
        looks()
        texts = [file.read_text() for file in tmp_path.rglob("*.jsonl")]
        lines = [json.loads(line) for text in texts for line in text.splitlines()]
        assert [line["decision"] for line in lines if "decision" in line] == ["allow"]

    def test_a_required_record_that_fails_denies(self, governed: Any, body: Tool) -> None:
        class Broken(audit.Audit):
            required = True
            executed_only = False

            def __init__(self) -> None: ...

            spooled = 0

            def write(self, record: Any) -> Any:
                class Ticket:
                    def wait(self) -> bool:
                        return False

                return Ticket()

            def flush(self, timeout_s: float = 0) -> bool:
                return False

            def close(self) -> None: ...

        governed(policies=[policy.allow("t")], audit=Broken())
        with pytest.raises(Denied, match="could not be recorded"):
            body.t()
        assert body.ran == []
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.ERROR_TYPE] == "policy_denied"
        assert governed.spans[-1].status.status_code is StatusCode.ERROR
        assert governed.total(semconv.METRIC_POLICY_DENIES) == 1
        [event] = governed.event(semconv.EVENT_POLICY_DECISION)
        assert event[semconv.POLICY_RULE_ID] == "record_required"

    @pytest.mark.parametrize("rule", [policy.allow("t"), policy.ask_user("t", lambda call: True)])
    def test_a_trail_that_was_full_for_a_while_reports_no_call_that_did_not_run(
        self,
        governed: Any,
        body: Tool,
        tmp_path: Any,
        monkeypatch: pytest.MonkeyPatch,
        rule: Any,
    ) -> None:
        def write(descriptor: int, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        trail = audit.Audit(tmp_path, required=True)
        governed(policies=[rule], audit=trail)
        body.t()
        with monkeypatch.context() as full:
            full.setattr(os, "write", write)
            with pytest.raises(Denied, match="could not be recorded") as denied:
                body.t()
        trail.close()
        assert (denied.value.policy_id, denied.value.rule_id) == ("audit", "record_required")
        assert len(body.ran) == 1
        lines = "".join(file.read_text() for file in sorted(tmp_path.glob("*.jsonl"))).splitlines()
        told = [record for line in lines if "point" in (record := json.loads(line))]
        assert [record["decision"] for record in told].count("deny") == 1
        assert told[-1]["rule_id"] == "record_required"
        assert told[-1]["decision_id"] == told[-2]["decision_id"] == denied.value.decision_id

    def test_a_deny_that_a_full_trail_records_late_is_the_rules_own(
        self, governed: Any, body: Tool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def write(descriptor: int, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        trail = audit.Audit(tmp_path, required=True)
        governed(policies=[policy.deny("t", reason="Ask Ada.")], audit=trail)
        with monkeypatch.context() as full:
            full.setattr(os, "write", write)
            with pytest.raises(Denied, match=r"^Ask Ada\.$") as denied:
                body.t()
        trail.close()
        [file] = tmp_path.glob("*.jsonl")
        records = map(json.loads, file.read_text().splitlines())
        [record] = [record for record in records if "point" in record]
        span = governed.span("execute_tool t")
        assert record["reason"] == span.attributes[semconv.POLICY_REASON] == "Ask Ada."
        assert record["rule_id"] == denied.value.rule_id == "deny:t"
        assert record["policy_id"] == denied.value.policy_id == "code"
        assert record["decision_id"] == denied.value.decision_id


class TestApprovals:
    def test_an_approved_call_runs_and_the_wait_has_spans_of_its_own(
        self, governed: Any, body: Tool
    ) -> None:
        governed(policies=[policy.ask_user("t", handler=lambda call: True, id="ask")])
        assert body.t(3) == 3
        names = [span.name for span in governed.spans]
        assert names == [
            "otelhooks.approval.request t",
            "otelhooks.approval.wait t",
            "execute_tool t",
        ]
        assert len({span.context.trace_id for span in governed.spans}) == 1
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.POLICY_ENFORCEMENT] == "approved"
        assert attributes[semconv.APPROVAL_STATUS] == "approved"
        first, second = governed.event(semconv.EVENT_POLICY_DECISION)
        assert first[semconv.APPROVAL_STATUS] == "pending"
        assert second[semconv.APPROVAL_STATUS] == "approved"
        assert first[semconv.DECISION_ID] == second[semconv.DECISION_ID]

    def test_a_rejected_call_does_not_run(self, governed: Any, body: Tool) -> None:
        governed(policies=[policy.ask_user("t", handler=lambda call: False, name="p")])
        with pytest.raises(Denied, match=r"User denied tool 't' \(policy 'p'\)\."):
            body.t()
        assert body.ran == []
        assert governed.attributes("execute_tool t")[semconv.ERROR_TYPE] == "approval_rejected"
        assert governed.total(semconv.METRIC_POLICY_DENIES) == 1

    def test_time_that_is_over_denies(
        self, governed: Any, body: Tool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        release = threading.Event()
        monkeypatch.setenv("OTELHOOKS_APPROVAL_TIMEOUT", "0.02")
        governed(policies=[policy.ask_user("t", handler=lambda call: release.wait(10))])
        with pytest.raises(ApprovalTimeout, match="in time"):
            body.t()
        release.set()
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.ERROR_TYPE] == "approval_expired"
        assert attributes[semconv.POLICY_ENFORCEMENT] == "expired"

    def test_the_channel_is_asked_for_rules_without_a_handler(
        self, governed: Any, body: Tool
    ) -> None:
        seen: list[Any] = []

        def channel(call: types.ToolCall, reason: str) -> bool:
            seen.append((call.name, call.args, reason))
            return True

        governed(policies=[policy.ask_user("t", reason="why")], approvals=channel)
        assert body.t(3) == 3
        assert seen == [("t", {"x": 3}, "why")]

    @pytest.mark.parametrize("by_name", [False, True])
    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("bogus", "the tool takes no `bogus`, which `edit` of the approval names"),
            ("amont", "the tool takes no `amont`, .*; did you mean `amount`"),
            ("context", "the tool takes no `context`"),
        ],
    )
    def test_an_approvers_edit_of_an_argument_that_the_tool_does_not_take_denies(
        self, governed: Any, name: str, said: str, by_name: bool
    ) -> None:
        ran: list[float] = []

        def send(context: types.ToolContext, amount: float = 1) -> None:
            ran.append(amount)

        def edits(call: types.ToolCall) -> Approval:
            return Approval("approved", edit={name: 7})

        governed(policies=[policy.ask_user("send", handler=edits)])
        with pytest.raises(Denied, match=said):
            otelhooks.call_tool("send", {}, send) if by_name else otelhooks.tool(send)()
        assert ran == []
        reason = governed.attributes("execute_tool send")["otelhooks.policy.reason"]
        assert ("did you mean `amount`" in reason) is (name == "amont")

    def test_an_approver_may_add_what_a_tool_takes_under_any_name(self, governed: Any) -> None:
        @otelhooks.tool
        def send(**given: float) -> dict[str, float]:
            return given

        def edits(call: types.ToolCall) -> Approval:
            return Approval("approved", edit={"bogus": 7})

        governed(policies=[policy.ask_user("send", handler=edits)])
        assert send(amount=1) == {"amount": 1, "bogus": 7}

    def test_an_approvers_edit_is_what_runs(self, governed: Any, body: Tool) -> None:
        def channel(call: types.ToolCall) -> Any:
            return Approval("approved", edit={"x": 7}, approver_id="ann")

        governed(policies=[policy.ask_user("t")], approvals=channel)
        assert body.t(3) == 7
        assert governed.attributes("execute_tool t")[semconv.APPROVAL_APPROVER_ID] == "ann"

    def test_questions_about_an_edit_belong_to_one_decision(
        self, governed: Any, body: Tool
    ) -> None:
        def channel(call: types.ToolCall) -> Any:
            return Approval("approved", edit={"x": 700})

        large = policy.ask_user("t", when=lambda args: args["x"] > 100, id="large")
        governed(policies=[large, policy.ask_user("t", id="small")], approvals=channel)
        assert body.t(3) == 700
        names = {"otelhooks.approval.request t", "execute_tool t"}
        spans = [dict(span.attributes or {}) for span in governed.spans if span.name in names]
        assert [span[semconv.POLICY_RULE_ID] for span in spans] == ["small", "large", "large"]
        assert len({span[semconv.DECISION_ID] for span in spans}) == 1

    def test_an_edit_of_a_wrong_form_denies_and_is_recorded_and_the_run_goes_on(
        self, governed: Any, body: Tool, tmp_path: Path
    ) -> None:
        def channel(call: types.ToolCall) -> Any:
            return Approval("approved", edit=["x"])  # type: ignore[arg-type]

        governed(
            policies=[policy.ask_user("t", name="p")], approvals=channel, audit=tmp_path / "audit"
        )
        with pytest.raises(Denied, match="Policy evaluation failed for policy 'p'"):
            body.t(3)
        assert body.ran == []
        span = governed.attributes("execute_tool t")
        assert span[semconv.APPROVAL_STATUS] == "error"
        assert span[semconv.POLICY_ENFORCEMENT] == "rejected"
        wait = governed.attributes("otelhooks.approval.wait t")
        assert wait[semconv.APPROVAL_STATUS] == "error"
        otelhooks.uninstrument()
        (segment,) = tmp_path.glob("audit*/*.jsonl")
        lines = map(json.loads, segment.read_text().splitlines())
        (record,) = [line for line in lines if "decision" in line]
        assert (record["approval_status"], record["enforcement"]) == ("error", "rejected")

    def test_the_span_of_a_question_that_is_open_at_uninstrument_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its provider ends, and the answer still counts."""

        def late(call: types.ToolCall) -> bool:
            otelhooks.uninstrument()
            return True

        @otelhooks.tool
        def t() -> str:
            return "ran"

        monkeypatch.setenv("OTELHOOKS_STORE", str(tmp_path / "store.db"))
        otelhooks.instrument(frameworks=[], policies=[policy.ask_user("t", handler=late)])
        assert t() == "ran"
        [summary] = Store(tmp_path / "store.db").traces()
        found = Store(tmp_path / "store.db").trace(summary.trace_id)
        assert found is not None
        [wait] = [one for one in found.spans if one.name == "otelhooks.approval.wait t"]
        assert wait.attributes[semconv.APPROVAL_STATUS] == "pending"

    def test_a_cancelled_run_withdraws_the_question(self, governed: Any) -> None:
        asked = asyncio.Event()

        async def never(call: types.ToolCall) -> bool:
            asked.set()
            await asyncio.sleep(30)
            return True

        @otelhooks.tool
        async def t() -> None: ...

        handle = governed(policies=[policy.ask_user("t", handler=never)])

        async def main() -> None:
            task = asyncio.ensure_future(t())
            await asyncio.wait_for(asked.wait(), 10)
            assert handle._runtime.pending == 1
            assert governed.total(semconv.METRIC_APPROVAL_PENDING) == 1
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())
        [point] = governed.points(semconv.METRIC_APPROVAL_PENDING)
        assert point.value == 0  # reported, or readers of the metric continue with the last value
        wait = governed.attributes("otelhooks.approval.wait t")
        assert wait[semconv.APPROVAL_STATUS] == "withdrawn"
        assert [
            e.get(semconv.APPROVAL_STATUS) for e in governed.event("otelhooks.policy.decision")
        ] == [
            "pending",
            "withdrawn",
        ]
        _, event = governed.records
        wait_span = governed.span("otelhooks.approval.wait t")
        assert event.span_id == wait_span.context.span_id
        call = governed.span("execute_tool t")
        assert call.attributes[semconv.APPROVAL_STATUS] == "withdrawn"
        assert call.attributes[semconv.ERROR_TYPE] == "approval_rejected"
        assert not call.status.is_ok
        assert call.parent == wait_span.parent

    def test_an_answer_that_comes_while_the_process_ends_denies(
        self, governed: Any, body: Tool
    ) -> None:
        def late(call: types.ToolCall) -> bool:
            handle._runtime.close(ends_process=True)
            return True

        handle = governed(policies=[policy.ask_user("t", handler=late)])
        with pytest.raises(Denied, match=r"question about tool 't' was withdrawn \(policy 't'\)"):
            body.t()
        assert body.ran == []
        assert governed.attributes("execute_tool t")[semconv.APPROVAL_STATUS] == "withdrawn"

    @pytest.mark.parametrize("is_async", [True, False])
    def test_in_a_notebook_a_question_is_waited_for_longer_than_a_hook_is(
        self, governed: Any, body: Tool, monkeypatch: pytest.MonkeyPatch, is_async: bool
    ) -> None:
        """A synchronous tool called in a coroutine, as in a FastAPI handler or a notebook."""
        monkeypatch.setattr(drive, "_INSIDE_LOOP_S", 0.0)
        asked, answered = threading.Event(), threading.Event()

        def person() -> None:
            asked.wait(10)
            answered.set()

        def waits(call: types.ToolCall) -> bool:
            asked.set()
            return answered.wait(10)

        async def waits_too(call: types.ToolCall) -> bool:
            return await asyncio.to_thread(waits, call)

        governed(policies=[policy.ask_user("t", handler=waits_too if is_async else waits)])
        threading.Thread(target=person).start()

        async def notebook() -> Any:
            return body.t(3)

        assert asyncio.run(notebook()) == 3

    @pytest.mark.parametrize("is_async", [True, False])
    def test_in_a_notebook_too_nobody_in_time_denies(
        self, governed: Any, body: Tool, is_async: bool
    ) -> None:
        never = threading.Event()

        async def waits(call: types.ToolCall) -> bool:
            await asyncio.sleep(30)
            return True

        governed(
            policies=[
                policy.ask_user("t", handler=waits if is_async else lambda c: never.wait(30))
            ],
            approval_timeout=0.02,
        )

        async def notebook() -> None:
            body.t()

        with pytest.raises(ApprovalTimeout):
            asyncio.run(notebook())
        never.set()
        assert body.ran == []

    def test_a_handler_that_needs_the_loop_it_holds_up_is_refused_and_says_why(
        self, governed: Any, body: Tool, caplog: pytest.LogCaptureFixture
    ) -> None:
        drive._log_once.cache_clear()
        inbox: list[asyncio.Future[bool]] = []
        governed(policies=[policy.ask_user("t", handler=lambda call: inbox[0])])

        async def notebook() -> None:
            inbox.append(asyncio.get_running_loop().create_future())
            body.t()

        with pytest.raises(Denied, match="different loop"):
            asyncio.run(notebook())
        assert "blocks the event loop of its thread" in caplog.text
        assert "asyncio.to_thread" in caplog.text

    @pytest.mark.anyio
    async def test_open_questions_hold_up_neither_the_application_nor_audited_calls(
        self, governed: Any, body: Tool, tmp_path: Path
    ) -> None:
        """The class of B23: whatever waits for people, it takes no thread of anything else."""
        import anyio
        import anyio.to_thread

        all_asked: Future[None] = Future()
        answered, everybody = threading.Event(), threading.Barrier(60)

        def waits(call: types.ToolCall) -> bool:
            if everybody.wait(30) == 0:
                all_asked.set_result(None)
            return answered.wait(30)

        @otelhooks.tool
        async def asks() -> str:
            return "ran"

        @otelhooks.tool
        async def audited() -> str:
            return "audited"

        governed(policies=[policy.ask_user("asks", handler=waits)], audit=tmp_path / "audit")
        results: list[str] = []

        async def ask() -> None:
            results.append(await asks())

        async with anyio.create_task_group() as group:
            for _ in range(60):
                group.start_soon(ask)
            with anyio.fail_after(10):
                await own_threads.awaited(all_asked)
                assert await anyio.to_thread.run_sync(lambda: "free") == "free"
                assert await audited() == "audited"
            answered.set()
        assert results == ["ran"] * 60

    def test_a_question_too_many_is_refused_and_says_so(
        self, governed: Any, body: Tool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(own_threads, "_slots", threading.BoundedSemaphore(1))
        refused: list[str] = []

        def asks_again(call: types.ToolCall) -> bool:
            with pytest.raises(Denied) as caught:
                body.t(2)
            refused.append(str(caught.value))
            return True

        governed(policies=[policy.ask_user("t", handler=asks_again)])
        assert body.t(1) == 1
        assert "questions wait for an answer already" in refused[0]
        assert body.t(1) == 1  # what was taken is given back
        assert len(refused) == 2


class TestContent:
    def test_no_content_is_captured_by_default(self, governed: Any, body: Tool) -> None:
        heard: list[types.HookEvent] = []
        governed(hooks=[hooks.on_event(lambda e: heard.append(e))])
        body.t("hello")
        assert semconv.GEN_AI_TOOL_CALL_ARGUMENTS not in governed.attributes("execute_tool t")
        assert [(e.input, e.output) for e in heard] == [(None, None), (None, None)]

    def test_captured_content_is_masked_on_span_and_for_listeners(self, governed: Any) -> None:
        heard: list[types.HookEvent] = []

        @otelhooks.tool
        def login(password: str) -> str:
            return "fine"

        governed(
            hooks=[hooks.on_event(lambda e: heard.append(e))], capture_content="SPAN_AND_EVENT"
        )
        login("hunter2")
        attributes = governed.attributes("execute_tool login")
        assert "hunter2" not in attributes[semconv.GEN_AI_TOOL_CALL_ARGUMENTS]
        assert attributes[semconv.GEN_AI_TOOL_CALL_RESULT] == "fine"
        assert "hunter2" not in str(heard[0].input)
        assert heard[1].output == "fine"

    def test_a_result_that_was_rewritten_is_what_is_captured(
        self, governed: Any, body: Tool
    ) -> None:
        governed(
            hooks=[hooks.post_tool_call_transform(lambda data: "clean")],
            capture_content="SPAN_ONLY",
        )
        body.t("dirty")
        result = governed.attributes("execute_tool t")[semconv.GEN_AI_TOOL_CALL_RESULT]
        assert result == "clean"


class TestContexts:
    def test_one_context_for_decide_and_post_hooks(self, governed: Any, body: Tool) -> None:
        seen: list[Any] = []

        @hooks.pre_tool_call_decide
        def before(context: hooks.OperationContext, data: Any) -> Result:
            context.set("k", 1)
            context.set("team", "red", export=True)
            context.set_attribute("app.before", True)
            context.event("app.noted", {"a": 1})
            seen.append((context, context.trace_id))
            return Result()

        @hooks.post_tool_call
        def after(context: hooks.OperationContext, data: Any) -> None:
            context.set_attribute("app.after", context.get("k"))
            seen.append((context, context.trace_id))

        governed(hooks=[before, after])
        body.t()
        (first, trace_id), (second, same) = seen
        assert first is second
        assert first.get("tool_name") == "t"
        span = governed.span("execute_tool t")
        assert trace_id == same == trace.format_trace_id(span.context.trace_id)
        attributes = governed.attributes("execute_tool t")
        assert (attributes["app.before"], attributes["app.after"]) == (True, 1)
        assert attributes["otelhooks.context.team"] == "red"
        assert [event.name for event in span.events] == ["app.noted"]

    def test_the_pinned_trace_is_that_of_one_span_only(self, governed: Any, body: Tool) -> None:
        ids: list[str] = []
        keep = hooks.pre_tool_call_decide(
            lambda context, data: ids.append(context.trace_id) or Result()
        )
        governed(hooks=[keep])
        body.t()
        body.t()
        traces = [trace.format_trace_id(span.context.trace_id) for span in governed.spans]
        assert traces == ids
        assert len(set(ids)) == 2


class TestNativeSpans:
    def test_a_native_span_of_the_call_is_adopted(
        self, governed: Any, body: Tool, tracer_provider: TracerProvider
    ) -> None:
        governed(policies=[deny(reason="no")])
        native = tracer_provider.get_tracer("framework")
        attributes = {semconv.GEN_AI_OPERATION_NAME: "execute_tool"}
        with (
            native.start_as_current_span("execute_tool t", attributes=attributes),
            pytest.raises(Denied),
        ):
            body.t()
        [span] = governed.spans
        assert span.attributes[semconv.POLICY_DECISION] == "deny"
        assert span.attributes[semconv.GEN_AI_TOOL_NAME] == "t"
        assert span.attributes[semconv.ERROR_TYPE] == "policy_denied"
        assert span.status.status_code is StatusCode.ERROR

    @pytest.mark.parametrize(
        ("name", "attributes", "is_adopted"),
        [
            ("execute_tool t", {}, True),  # it gets its attributes at its end
            ("execute_tool u", {}, False),
            ("tools/call t", {}, False),
            ("tools/call t", {semconv.GEN_AI_OPERATION_NAME: "execute_tool"}, True),
            # a framework writes them on the span of a run where another tracer opens none of a call
            ("invoke_agent t", {semconv.GEN_AI_OPERATION_NAME: "execute_tool"}, False),
        ],
    )
    def test_a_native_span_is_known_by_its_operation_and_name(
        self,
        governed: Any,
        body: Tool,
        tracer_provider: TracerProvider,
        name: str,
        attributes: dict[str, Any],
        is_adopted: bool,
    ) -> None:
        governed(policies=[policy.allow("t")])
        native = tracer_provider.get_tracer("framework")
        with native.start_as_current_span(name, attributes=attributes):
            body.t()
        number = len(governed.spans)
        governed._exporter.clear()  # the framework's own do not conform
        assert number == (1 if is_adopted else 2)

    def test_a_second_call_inside_it_has_a_span_of_its_own(
        self, governed: Any, body: Tool, tracer_provider: TracerProvider
    ) -> None:
        """The class: a retry that is allowed does not write its verdict over a deny."""
        governed(policies=[policy.deny("t", when=lambda args: args["x"] == 1, id="no")])
        native = tracer_provider.get_tracer("framework")
        attributes = {semconv.GEN_AI_OPERATION_NAME: "execute_tool"}
        with native.start_as_current_span("execute_tool t", attributes=attributes):
            with pytest.raises(Denied):
                body.t(1)
            body.t(2)
        assert governed.trees == [("execute_tool t", [("execute_tool t", [])])]
        ours, theirs = (dict(span.attributes or {}) for span in governed.spans)
        assert ours[semconv.POLICY_DECISION] == "allow"
        assert theirs[semconv.POLICY_RULE_ID] == "no"

    def test_spans_own_opens_one_beside_it_and_off_none(
        self, governed: Any, body: Tool, tracer_provider: TracerProvider
    ) -> None:
        native = tracer_provider.get_tracer("framework")
        attributes = {
            semconv.GEN_AI_OPERATION_NAME: "execute_tool",
            semconv.GEN_AI_TOOL_NAME: "t",
        }
        for mode, number in (("own", 2), ("off", 1)):
            governed(policies=[policy.allow("t")], spans=mode)
            with native.start_as_current_span("execute_tool t", attributes=attributes):
                body.t()
            assert len(governed.spans) == number
            governed._exporter.clear()
            otelhooks.uninstrument()

    def test_under_suppression_rules_still_hold_and_telemetry_is_silent(
        self, governed: Any, body: Tool
    ) -> None:
        from opentelemetry import context as otel_context

        governed(policies=[deny()])
        token = otel_context.attach(otel_context.set_value("suppress_instrumentation", True))
        try:
            with pytest.raises(Denied):
                body.t()
        finally:
            otel_context.detach(token)
        assert body.ran == []
        assert governed.spans == []
        assert governed.events == []
