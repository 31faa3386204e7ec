"""The event `gen_ai.tool.call.decision`, which is only there on request."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.records import semconv

EVENT = semconv.EVENT_GEN_AI_TOOL_CALL_DECISION
OUTCOME = semconv.GEN_AI_TOOL_CALL_DECISION_OUTCOME
VARIABLE = "OTEL_SEMCONV_STABILITY_OPT_IN"


@otelhooks.tool
def send(text: str) -> str:
    return f"sent {text}"


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "http/dup, gen_ai_tool_call_decision")


def call() -> None:
    with contextlib.suppress(Denied):
        send("a")


def outcomes(governed: Any) -> list[str]:
    return [attributes[OUTCOME] for attributes in governed.event(EVENT)]


def test_without_the_word_there_is_none(governed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "gen_ai_latest_experimental,http")
    governed(policies=[policy.deny("send")])
    call()
    assert governed.events == [semconv.EVENT_POLICY_DECISION]


@pytest.mark.usefixtures("asked_for")
class TestOutcomes:
    def test_a_deny_has_its_tool_and_nothing_else(self, governed: Any) -> None:
        governed(policies=[policy.deny("send", severity="critical")])
        call()
        [record] = [each for each in governed.records if each.event_name == EVENT]
        assert dict(record.attributes) == {OUTCOME: "deny", semconv.GEN_AI_TOOL_NAME: "send"}
        assert getattr(record.severity_number, "value", 0) == 0
        [span] = governed.spans
        assert (record.trace_id, record.span_id) == (span.context.trace_id, span.context.span_id)

    @pytest.mark.parametrize(("answer", "outcome"), [(True, "allow"), (False, "deny")])
    def test_a_question_requires_approval_and_then_has_an_answer(
        self, governed: Any, answer: bool, outcome: str
    ) -> None:
        governed(policies=[policy.ask_user("send", handler=lambda _: answer)])
        call()
        assert outcomes(governed) == ["require_approval", outcome]

    def test_an_allow_is_there_where_allows_are_recorded(self, governed: Any) -> None:
        governed(policies=[policy.allow("send"), policy.deny("other")], record_allows=True)
        call()
        assert outcomes(governed) == ["allow"]

    def test_a_plain_allow_is_otherwise_none(self, governed: Any) -> None:
        governed(policies=[policy.allow("send"), policy.deny("other")])
        call()
        assert governed.events == []

    def test_a_call_that_no_rule_is_about_was_not_decided(self, governed: Any) -> None:
        governed(policies=[policy.deny("other")], record_allows=True)
        call()
        assert governed.events == [semconv.EVENT_POLICY_DECISION]

    def test_what_monitor_mode_observes_decides_nothing(self, governed: Any) -> None:
        governed(policies=[policy.deny("send")], mode="monitor")
        assert send("a") == "sent a"
        assert governed.events == [semconv.EVENT_POLICY_DECISION]

    def test_a_rewritten_call_is_allowed(self, governed: Any) -> None:
        new = types.HookResult(modified_args={"text": "b"})
        governed(hooks=[hooks.pre_tool_call_decide(lambda _: new)])
        assert send("a") == "sent b"
        assert outcomes(governed) == ["allow"]

    def test_a_withheld_result_is_not_a_decision_before_the_call(self, governed: Any) -> None:
        no = types.HookResult(allow=False, message="no")
        governed(hooks=[hooks.post_tool_call_transform(lambda _: no)])
        call()
        assert outcomes(governed) == []
        assert semconv.EVENT_POLICY_DECISION in governed.events
