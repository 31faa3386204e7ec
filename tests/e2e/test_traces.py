"""Every turn with a verdict is in the trace store: found by people's searches, whole, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from otelhooks.records import semconv
from tests.e2e.agents import DECISIONS
from tests.e2e.asking import Jaeger
from tests.e2e.conftest import TURNS, Traffic

SEARCHES = {
    "deny": {semconv.POLICY_DECISION: semconv.DECISION_DENY},
    "approved": {semconv.POLICY_ENFORCEMENT: semconv.ENFORCEMENT_APPROVED},
    "refused": {semconv.POLICY_ENFORCEMENT: semconv.ENFORCEMENT_REJECTED},
    "pending": {semconv.APPROVAL_STATUS: semconv.APPROVAL_STATUS_PENDING},
    "modified": {semconv.POLICY_DECISION: semconv.DECISION_MODIFY},
    "recovered": {semconv.RECOVERED: "true"},
    "by rule": {semconv.POLICY_RULE_ID: "at-most-10"},
}


@pytest.mark.parametrize("search", SEARCHES)
def test_every_turn_is_found_by(search: str, traffic: Traffic, jaeger: Jaeger) -> None:
    for agent in traffic.agents:
        found = jaeger.find(agent.service, SEARCHES[search])

        assert sorted(found) == sorted(agent.traces)
        assert len(found) == TURNS


def test_every_trace_is_whole_and_every_parent_is_right(traffic: Traffic, jaeger: Jaeger) -> None:
    for agent in traffic.agents:
        for trace_id, spans in agent.traces.items():
            there = jaeger.trace(trace_id)

            assert sorted(map(_found, there), key=str) == sorted(map(_made, spans), key=str)


def test_every_span_was_sent_once(traffic: Traffic) -> None:
    made = len(traffic.spans)

    assert (traffic.accepted, traffic.sent) == (made, made)


def test_the_verdicts_are_those_of_the_script(traffic: Traffic, jaeger: Jaeger) -> None:
    for agent in traffic.agents:
        for trace_id in agent.traces:
            decisions = Counter(
                span["tags"][semconv.POLICY_DECISION]
                for span in jaeger.trace(trace_id)
                if span["name"].startswith(semconv.OP_EXECUTE_TOOL)
                and span["tags"][semconv.POLICY_DECISION] != semconv.DECISION_ALLOW
            )

            assert decisions == DECISIONS


def test_a_deny_says_why_and_lies_below_the_agent_that_asked(
    traffic: Traffic, jaeger: Jaeger
) -> None:
    for agent in traffic.agents:
        for trace_id in agent.traces:
            spans = {span["id"]: span for span in jaeger.trace(trace_id)}
            denied = [
                span
                for span in spans.values()
                if span["tags"].get(semconv.POLICY_DECISION) == semconv.DECISION_DENY
            ]

            assert sorted(_above(span, spans) for span in denied) == [
                ("invoke_agent assistant",),
                (
                    "invoke_agent researcher",
                    "execute_tool researcher",
                    "invoke_agent assistant",
                ),
            ]
            for span in denied:
                assert span["tags"][semconv.POLICY_REASON] == (
                    "Deleting files is not allowed here; list them instead."
                )
                assert span["tags"][semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED
                assert span["tags"]["otel.status_code"] == "ERROR"


def _found(span: dict[str, Any]) -> tuple[str, str | None, str]:
    return span["id"], span["parent"], span["name"]


def _made(span: dict[str, Any]) -> tuple[str, str | None, str]:
    parent = span["parent_id"]
    return (
        span["context"]["span_id"].removeprefix("0x"),
        parent and parent.removeprefix("0x"),
        span["name"],
    )


def _above(span: dict[str, Any], spans: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    names: list[str] = []
    while span["parent"] is not None:
        span = spans[span["parent"]]
        names.append(span["name"])
    return tuple(names)
