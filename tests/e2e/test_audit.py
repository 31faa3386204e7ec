"""Each verdict is in two audit files: the agent's own, and the collector's copy for searches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from otelhooks.records import semconv
from tests.e2e.asking import eventually_equal
from tests.e2e.conftest import Traffic
from tests.e2e.stack.stack import Stack


def test_the_collector_keeps_the_event_of_every_verdict(traffic: Traffic, stack: Stack) -> None:
    """An ask has two: the question, and its outcome."""
    made: Counter[tuple[str, ...]] = Counter()
    for record in traffic.records:
        facts = (record["trace_id"], record["decision"], record.get("rule_id", ""))
        if record["decision"] != semconv.DECISION_ALLOW:
            made[(*facts, record["enforcement"])] += 1
        if record["decision"] == semconv.DECISION_ASK:
            made[(*facts, "")] += 1
    traces = {record["trace_id"] for record in traffic.records}

    def kept() -> Counter[tuple[str, ...]]:
        return Counter(
            (
                trace_id,
                event[semconv.POLICY_DECISION],
                event[semconv.POLICY_RULE_ID],
                event.get(semconv.POLICY_ENFORCEMENT, ""),
            )
            for trace_id, event in events(Path(stack.settings["OTELCOL_STATE"]))
            if trace_id in traces
        )

    eventually_equal(kept, made)


def test_the_agents_own_trails_are_whole(traffic: Traffic) -> None:
    for agent in traffic.agents:
        (segment,) = agent.audit.glob("*.jsonl")
        command = (sys.executable, "-m", "otelhooks", "audit", "verify", str(segment))
        verified = subprocess.run(command, capture_output=True, text=True)

        assert verified.returncode == 0, verified.stdout + verified.stderr


def events(state: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return trace id and attributes of each event in a collector's audit file."""
    return [
        (record["traceId"], attributes(record))
        for line in (state / "audit" / "decisions.jsonl").read_text("utf-8").splitlines()
        for resource in json.loads(line)["resourceLogs"]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
    ]


def attributes(record: dict[str, Any]) -> dict[str, Any]:
    """Return attributes of OTLP JSON by name."""
    return {each["key"]: next(iter(each["value"].values())) for each in record["attributes"]}
