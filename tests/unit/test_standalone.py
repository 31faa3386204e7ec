"""A `HookRunner` used alone leaves what an instrumented framework's run leaves."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from otelhooks import audit, hooks, policy, types
from otelhooks.hooks import HookRunner
from otelhooks.pipeline import standalone
from otelhooks.records import semconv

pytestmark = pytest.mark.anyio
Result = types.HookResult
CALL = types.ToolCall(name="t", args={"x": 1}, id="c1")


async def a_turn(runner: HookRunner) -> None:
    _, turn = await runner.dispatch_pre_turn("hello")
    _, agent = await runner.dispatch_pre_agent(turn, types.AgentCall(agent="a"))
    _, _, model = await runner.dispatch_pre_model_call(
        agent, types.ModelCall(model="m", provider="openai")
    )
    await runner.dispatch_post_model_call(model, types.ModelResponse(text="x"))
    _, _, tool = await runner.dispatch_pre_tool_call(agent, CALL)
    await runner.dispatch_post_tool_call(tool, types.ToolResult(name="t", result=1))
    await runner.dispatch_post_agent(agent, "done")
    await runner.dispatch_post_turn(turn, "done")


async def test_a_turn_is_one_tree(governed: Any) -> None:
    governed()
    await a_turn(HookRunner())
    assert governed.trees == [
        (
            "invoke_agent",
            [("invoke_agent a", [("chat m", []), ("execute_tool t", [])])],
        )
    ]
    assert governed.attributes("execute_tool t")[semconv.GEN_AI_TOOL_CALL_ID] == "c1"
    assert governed.total(semconv.METRIC_TOOL_CALLS) == 1


async def test_a_deny_closes_the_span_at_once(governed: Any) -> None:
    governed()
    runner = HookRunner([policy.enforce([policy.deny("t", id="r")])])
    _, turn = await runner.dispatch_pre_turn("hello")
    result, _, _ = await runner.dispatch_pre_tool_call(turn, CALL)
    assert not result.allow
    span = governed.span("execute_tool t")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes[semconv.POLICY_RULE_ID] == "r"
    assert semconv.EVENT_POLICY_DECISION in governed.events
    await runner.dispatch_post_turn(turn, "x")


@pytest.mark.parametrize("point", ["pre_turn", "pre_agent", "pre_model_call"])
async def test_denies_at_other_points_too(governed: Any, point: str) -> None:
    governed()
    runner = HookRunner([getattr(hooks, point)(lambda data: Result(allow=False, message="no"))])
    _, turn = await runner.dispatch_pre_turn("hello")
    await runner.dispatch_pre_agent(turn, types.AgentCall(agent="a"))
    await runner.dispatch_pre_model_call(turn, types.ModelCall(model="m", provider="p"))
    assert len([s for s in governed.spans if s.status.status_code is StatusCode.ERROR]) == 1


async def test_the_text_of_a_withheld_failure_is_nowhere(governed: Any) -> None:
    governed(capture_content=True)
    seen: list[types.ToolResult] = []
    withhold = hooks.post_tool_call_transform(lambda data: Result(allow=False, message="hidden"))
    runner = HookRunner([withhold, hooks.post_tool_call(lambda data: seen.append(data))])
    _, turn = await runner.dispatch_pre_turn("hello")
    _, _, tool = await runner.dispatch_pre_tool_call(turn, CALL)
    failed = types.ToolResult(name="t", error="the secret", exception=ValueError("the secret"))
    returned = await runner.dispatch_post_tool_call(tool, failed)
    await runner.dispatch_post_turn(turn, "x")
    assert [(one.error, one.exception) for one in (returned, *seen)] == [("hidden", None)] * 2
    span = governed.span("execute_tool t")
    assert span.status.description == "hidden"
    assert "secret" not in span.to_json()


async def test_failures_and_recoveries(governed: Any) -> None:
    governed()
    runner = HookRunner([hooks.on_model_error(lambda error: "cached")])
    _, turn = await runner.dispatch_pre_turn("hello")
    _, _, tool = await runner.dispatch_pre_tool_call(turn, CALL)
    await runner.dispatch_on_tool_error(tool, ValueError("boom"))
    _, _, model = await runner.dispatch_pre_model_call(
        turn, types.ModelCall(model="m", provider="p")
    )
    await runner.dispatch_on_model_error(model, ConnectionError("down"))
    failed, recovered = governed.span("execute_tool t"), governed.attributes("chat m")
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes[semconv.ERROR_TYPE] == "ValueError"
    assert recovered[semconv.RECOVERED] is True
    assert recovered[semconv.ERROR_TYPE] == "ConnectionError"
    [event] = governed.event(semconv.EVENT_RECOVERED)
    assert event[semconv.HOOK_POINT] == "post_model_call"  # as in the pipeline


async def test_a_result_that_says_error_marks_the_span(governed: Any) -> None:
    governed()
    runner = HookRunner()
    _, turn = await runner.dispatch_pre_turn("hello")
    _, _, tool = await runner.dispatch_pre_tool_call(turn, CALL)
    await runner.dispatch_post_tool_call(tool, types.ToolResult(name="t", error="boom"))
    assert governed.attributes("execute_tool t")[semconv.ERROR_TYPE] == "tool_error"


@pytest.mark.parametrize("point", ["post_tool_call", "post_model_call", "post_agent"])
async def test_what_post_hooks_withhold_is_on_the_span(governed: Any, point: str) -> None:
    governed()
    decorator = getattr(hooks, f"{point}_transform")
    runner = HookRunner([decorator(lambda data: Result(allow=False, message="gone"))])
    await a_turn(runner)
    [span] = [s for s in governed.spans if s.attributes.get(semconv.WITHHELD)]
    assert span.attributes[semconv.HOOK_POINT] == point
    assert len(governed.event(semconv.EVENT_POLICY_DECISION)) == 1


async def test_points_without_an_operation_are_events(governed: Any) -> None:
    governed()
    runner = HookRunner()
    await runner.dispatch_session_start()
    _, turn = await runner.dispatch_pre_turn("hello")
    await runner.dispatch_compaction(turn, types.Step())
    await runner.dispatch_interaction(turn, None)
    await runner.dispatch_stop(turn, types.StopArgs())
    await runner.dispatch_post_turn(turn, "x")
    await runner.dispatch_session_end()
    assert [name for name in governed.events if name != semconv.EVENT_USER_MESSAGE] == [
        semconv.EVENT_SESSION_START,
        semconv.EVENT_COMPACTION,
        semconv.EVENT_INTERACTION,
        semconv.EVENT_STOP,
        semconv.EVENT_SESSION_END,
    ]


async def test_hooks_write_on_the_span_and_read_its_trace(governed: Any) -> None:
    seen: list[str] = []

    @hooks.pre_tool_call_decide
    def before(context: hooks.HookContext, data: Any) -> Result:
        context.set_attribute("app.before", 1)
        return Result()

    @hooks.post_tool_call
    def after(context: hooks.HookContext, data: Any) -> None:
        context.set_attribute("app.after", 2)
        seen.append(context.trace_id)

    governed()
    await a_turn(HookRunner([before, after]))
    span = governed.span("execute_tool t")
    assert (span.attributes["app.before"], span.attributes["app.after"]) == (1, 2)
    assert seen == [trace.format_trace_id(span.context.trace_id)]


async def test_without_instrument_the_applications_provider_is_used(
    tracer_provider: Any, exporter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standalone, "_own", None)
    await a_turn(HookRunner())
    assert exporter.get_finished_spans() == ()
    trace.set_tracer_provider(tracer_provider)
    await a_turn(HookRunner())
    own = standalone._own
    assert own is not None
    own[1].instruments.close()
    assert {s.name for s in exporter.get_finished_spans()} >= {"execute_tool t", "chat m"}


async def test_telemetry_that_fails_lets_dispatches_go_on(
    governed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = governed()

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no spans today")

    monkeypatch.setattr(handle._runtime.spans, "start", fail)
    await a_turn(HookRunner())
    assert governed.spans == []


@pytest.mark.parametrize("rule", [policy.allow("t"), policy.deny("t", mode="monitor")])
async def test_what_a_required_trail_cannot_record_is_not_allowed(
    governed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: Any
) -> None:
    def write(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    trail = audit.Audit(tmp_path, required=True)
    governed(audit=trail)
    runner = HookRunner([policy.enforce([rule])])
    _, turn = await runner.dispatch_pre_turn("hello")
    with monkeypatch.context() as full:
        full.setattr(os, "write", write)
        result, _, _ = await runner.dispatch_pre_tool_call(turn, CALL)
    trail.close()
    assert (result.allow, result.message, result.rule_id) == (
        False,
        "The call was refused because it could not be recorded.",
        "record_required",
    )
    assert governed.attributes("execute_tool t")[semconv.POLICY_RULE_ID] == "record_required"


async def test_a_trail_that_is_not_required_and_full_lets_the_call_run(
    governed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    trail = audit.Audit(tmp_path)
    governed(audit=trail)
    runner = HookRunner([policy.enforce([policy.allow("t")])])
    _, turn = await runner.dispatch_pre_turn("hello")
    with monkeypatch.context() as full:
        full.setattr(os, "write", write)
        result, _, tool = await runner.dispatch_pre_tool_call(turn, CALL)
    assert result.allow
    await runner.dispatch_post_tool_call(tool, types.ToolResult(name="t", result=1))
    assert governed.attributes("execute_tool t")[semconv.POLICY_DECISION] == "allow"
    trail.close()
