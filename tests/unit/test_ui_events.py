"""Which event each stored record is, of those that listeners inside a program get."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("starlette")

from otelhooks import types
from otelhooks.ui.hook_events import hook_event
from tests.unit.test_store_tree import ASKED, DENY, event, span

TOOL = {"GEN_AI_OPERATION_NAME": "execute_tool", "GEN_AI_TOOL_NAME": "look"}
CHAT = {"GEN_AI_OPERATION_NAME": "chat"}
DECISION = "otelhooks.policy.decision"


def said(record: Any) -> dict[str, Any]:
    """Return what the event of a record says, without the names and times of all."""
    found = hook_event(record)
    assert found is not None
    assert found.trace_id
    assert found.timestamp > 1_000_000_000
    return {
        name: value
        for name, value in found.model_dump().items()
        if value is not None
        and value != types.HookEvent.model_fields[name].default
        and name not in ("trace_id", "span_id", "timestamp", "duration")
    }


def test_a_model_call_has_its_usage_and_messages() -> None:
    used = {"GEN_AI_USAGE_INPUT_TOKENS": 5, "GEN_AI_USAGE_OUTPUT_TOKENS": 7}
    content = {"GEN_AI_OUTPUT_MESSAGES": '[{"role": "assistant"}]', "GEN_AI_AGENT_NAME": "helper"}
    found = said(span(2, "chat m", **CHAT, **used, **content))
    assert found.pop("usage")["output_tokens"] == 7
    output = [{"role": "assistant"}]
    assert found == {"type": "post_model_call", "agent_name": "helper", "output": output}


def test_a_failure_has_its_error() -> None:
    failed: dict[str, Any] = {"is_error": True, "error": "it broke"}
    model = span(2, "chat m", status="error", **CHAT)
    assert said(model) == {"type": "model_error", **failed}
    tool = span(2, "execute_tool look", status="error", **TOOL)
    assert said(tool) == {"type": "post_tool_use", "tool_name": "look", **failed}


def test_a_text_that_is_a_number_stays_a_text() -> None:
    found = said(span(2, "execute_tool look", **TOOL, GEN_AI_TOOL_CALL_RESULT="5"))
    assert found["output"] == "5"


def test_a_refusal_is_of_the_point_that_refused() -> None:
    refused = {"decision": "deny", "rule_id": "no-rm-rf"}
    model = span(2, "chat m", **CHAT, **DENY, HOOK_POINT="pre_model_call")
    assert said(model) == {"type": "pre_model_call", **refused}
    message = event(DECISION, 1, 0, **DENY, HOOK_POINT="pre_turn")
    assert said(message) == {"type": "user_message", **refused}


def test_a_run_of_an_agent_that_has_ended() -> None:
    record = span(1, "invoke_agent a", None, GEN_AI_OPERATION_NAME="invoke_agent")
    assert said(record) == {"type": "after_run"}


def test_what_monitor_mode_observed_was_allowed() -> None:
    seen = {**DENY, "POLICY_ENFORCEMENT": "observed", "HOOK_POINT": "pre_tool_call"}
    found = said(event(DECISION, 2, 0, **seen))
    assert found == {"type": "pre_tool_use", "decision": "allow"}


@pytest.mark.parametrize(
    "record",
    [
        event(DECISION, 2, 0, **ASKED, APPROVAL_STATUS="pending", HOOK_POINT="pre_tool_call"),
        event("otelhooks.rewritten", 2, 0, HOOK_POINT="post_tool_call"),
        event(None, 2, 0),
        span(2, "otelhooks.approval.wait look", **TOOL),
        span(2, "GET /"),
    ],
    ids=["an open question", "what another record says", "a log line", "a wait", "a request"],
)
def test_what_listeners_do_not_get(record: Any) -> None:
    assert hook_event(record) is None
