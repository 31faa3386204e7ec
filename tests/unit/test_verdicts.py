"""Verdicts on the wire: attributes, counts, events, records."""

from __future__ import annotations

from typing import Any

import pytest

from otelhooks.hooks.verdict import Approval, Observed, Verdict
from otelhooks.records import semconv
from otelhooks.records.arguments import arguments_hash
from otelhooks.telemetry.events import EventLog
from otelhooks.telemetry.metrics import Instruments
from otelhooks.telemetry.verdicts import (
    Verdicts,
    deny_attributes,
    enforcement_of,
    error_type_of,
)


@pytest.fixture
def verdicts(meter_provider: Any, logger_provider: Any) -> Any:
    instruments = Instruments(meter_provider, "0")
    yield Verdicts(instruments, EventLog(logger_provider, "0"))
    instruments.close()


def asked(status: str, **fields: Any) -> Verdict:
    verdict = Verdict("pre_tool_call", "ask", allowed=status == "approved", rule_id="r")
    verdict.approval = Approval(status, **fields)
    return verdict


def denied(**fields: Any) -> Verdict:
    return Verdict("pre_tool_call", "deny", allowed=False, policy_id="p", rule_id="r", **fields)


@pytest.mark.parametrize(
    ("verdict", "kind", "enforcement"),
    [
        (Verdict("p"), None, "allowed"),
        (Verdict("p", "modify"), None, "modified"),
        (denied(), "policy_denied", "blocked"),
        (denied(error=ValueError()), "policy_error", "blocked"),
        (asked("approved"), None, "approved"),
        (asked("rejected"), "approval_rejected", "rejected"),
        (asked("withdrawn"), "approval_rejected", "rejected"),
        (asked("expired"), "approval_expired", "expired"),
    ],
)
def test_what_a_verdict_does_to_the_operation(
    verdict: Verdict, kind: str | None, enforcement: str
) -> None:
    assert error_type_of(verdict) == kind
    assert enforcement_of(verdict) == enforcement


def test_a_withheld_result_was_blocked_and_is_not_a_failure_of_the_operation() -> None:
    verdict = Verdict("post_tool_call", "deny")
    verdict.withheld = True
    assert (error_type_of(verdict), enforcement_of(verdict)) == (None, "blocked")


def test_an_answer_is_a_modification() -> None:
    verdict = Verdict("pre_agent", "modify")
    verdict.answered = True
    assert enforcement_of(verdict) == "modified"


class TestAttributes:
    def test_a_plain_allow_is_short_and_made_once(self, verdicts: Verdicts) -> None:
        first = verdicts.attributes(Verdict("p", rule_id="r"))
        assert first == {semconv.POLICY_DECISION: "allow", semconv.POLICY_RULE_ID: "r"}
        assert verdicts.attributes(Verdict("p", rule_id="r")) is first
        assert verdicts.attributes(Verdict("p")) == {semconv.POLICY_DECISION: "allow"}

    def test_a_deny_says_everything(self, verdicts: Verdicts) -> None:
        verdict = denied(reason="why", severity="high", policy_version="v", evaluations=2)
        attributes = verdicts.attributes(verdict)
        assert attributes == {
            semconv.POLICY_DECISION: "deny",
            semconv.POLICY_ENFORCEMENT: "blocked",
            semconv.POLICY_MODE: "enforce",
            semconv.HOOK_POINT: "pre_tool_call",
            semconv.POLICY_ID: "p",
            semconv.POLICY_VERSION: "v",
            semconv.POLICY_RULE_ID: "r",
            semconv.POLICY_REASON: "why",
            semconv.POLICY_SEVERITY: "high",
            semconv.POLICY_EVALUATIONS: 2,
            semconv.DECISION_ID: verdict.decision_id,
        }
        assert len(verdict.decision_id) == 16

    def test_a_reason_is_cut_and_a_crash_names_hook_and_class_only(
        self, verdicts: Verdicts
    ) -> None:
        long = verdicts.attributes(denied(reason="x" * 1_000))[semconv.POLICY_REASON]
        assert len(long) == 256
        crash = denied(reason="hook failed: secret", error=ValueError("secret"))
        assert verdicts.attributes(crash)[semconv.POLICY_REASON] == "r: ValueError"
        handler = asked("error", error=ValueError("secret"))
        handler.reason = "Policy evaluation failed: secret"
        handler.error = ValueError("secret")
        assert verdicts.attributes(handler)[semconv.POLICY_REASON] == "r: ValueError"
        expired = asked("expired")
        expired.reason, expired.error = "Nobody approved in time", TimeoutError()
        assert verdicts.attributes(expired)[semconv.POLICY_REASON] == "Nobody approved in time"

    def test_the_name_of_a_hook_is_not_the_key_of_a_secret(self, verdicts: Verdicts) -> None:
        blocked = denied(reason='blocked by hook "r": token=abc')
        assert verdicts.failure(blocked)[1] == 'blocked by hook "r": token=[MASKED]'
        blocked.rule_id, blocked.reason = "no-token", 'blocked by hook "no-token": not here'
        assert verdicts.attributes(blocked)[semconv.POLICY_REASON] == blocked.reason

    def test_the_strictest_thing_that_was_observed_is_shown(self, verdicts: Verdicts) -> None:
        verdict = Verdict("p", "modify", rule_id="mine", evaluations=3)
        verdict.observed = [
            Observed("ask", "code", "asks", "a"),
            Observed("deny", "code", "denies", "d", "low"),
        ]
        attributes = verdicts.attributes(verdict)
        assert attributes[semconv.POLICY_DECISION] == "deny"
        assert attributes[semconv.POLICY_RULE_ID] == "denies"
        assert attributes[semconv.POLICY_ENFORCEMENT] == "observed"
        assert attributes[semconv.POLICY_MODE] == "monitor"
        assert attributes[semconv.POLICY_EVALUATIONS] == 3

    def test_who_answered_and_how_long_it_took(self, verdicts: Verdicts) -> None:
        attributes = verdicts.attributes(asked("approved", approver_id="ann", wait_s=1.5))
        assert attributes[semconv.APPROVAL_APPROVER_ID] == "ann"
        assert attributes[semconv.APPROVAL_WAIT_DURATION] == 1.5

    def test_an_answer_and_a_withheld_result_are_marked(self, verdicts: Verdicts) -> None:
        verdict = Verdict("p", "modify")
        verdict.answered = verdict.withheld = True
        attributes = verdicts.attributes(verdict)
        assert attributes[semconv.ANSWERED] is attributes[semconv.WITHHELD] is True


@pytest.mark.parametrize(
    ("decision", "severity", "level"),
    [
        ("deny", None, 13),
        ("deny", "low", 9),
        ("deny", "medium", 13),
        ("deny", "high", 17),
        ("deny", "critical", 21),
        ("modify", "critical", 9),
    ],
)
def test_a_denys_event_is_as_severe_as_its_rule(
    verdicts: Verdicts, log_exporter: Any, decision: str, severity: str | None, level: int
) -> None:
    verdict = Verdict("pre_tool_call", decision, allowed=decision != "deny", severity=severity)
    verdicts.event(verdict, {}, None)
    [entry] = log_exporter.get_finished_logs()
    assert entry.log_record.severity_number.value == level


class TestRecord:
    def test_every_verdict_has_one_with_short_names(self, verdicts: Verdicts) -> None:
        about = {semconv.GEN_AI_TOOL_NAME: "t", semconv.GEN_AI_CONVERSATION_ID: "c"}
        record = verdicts.record(Verdict("pre_tool_call", rule_id="r"), about)
        assert record["decision"] == "allow"
        assert (record["tool_name"], record["session_id"], record["rule_id"]) == ("t", "c", "r")
        assert record["decision_id"]

    def test_a_crash_is_there_by_its_class(self, verdicts: Verdicts) -> None:
        record = verdicts.record(denied(error=ValueError("the cause")), {})
        assert record["error"] == "ValueError"
        assert record["error_type"] == "policy_error"


def test_a_hash_is_of_the_value_not_of_the_order() -> None:
    assert arguments_hash({"a": 1, "b": [2]}) == arguments_hash({"b": [2], "a": 1})
    assert arguments_hash({"a": 1}) != arguments_hash({"a": 2})
    assert len(arguments_hash({"odd": object, "lone": "\ud800"})) == 64


def test_a_count_of_denies_has_a_severity_where_there_is_one() -> None:
    assert semconv.POLICY_SEVERITY not in deny_attributes("p", "r", None, "enforce")
    assert deny_attributes("p", "r", "low", "enforce")[semconv.POLICY_SEVERITY] == "low"


def test_plain_allows_make_no_event(
    verdicts: Verdicts, log_exporter: Any, meter_provider: Any
) -> None:
    verdicts.event(Verdict("p"), {}, None)
    answered = Verdict("p")
    answered.answered = True
    verdicts.event(answered, {}, None)
    assert len(log_exporter.get_finished_logs()) == 1
