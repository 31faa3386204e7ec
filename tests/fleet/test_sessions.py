"""Two hundred sessions of real agents at once, in four processes, through two tiers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from otelhooks.records import semconv
from tests.e2e.agents import DECISIONS
from tests.e2e.asking import eventually_equal
from tests.e2e.conftest import Agent, agent_of
from tests.e2e.fault_table import AddRow
from tests.e2e.stack.build import ROOT
from tests.fleet.conftest import MakeFleet
from tests.fleet.fleet import Fleet

PROCESSES = ("openai_agents", "langchain", "openai_agents", "langchain")
SESSIONS = 50
"""A process."""

ROOM = {"OTEL_BSP_MAX_QUEUE_SIZE": "20000", "OTEL_BLRP_MAX_QUEUE_SIZE": "20000"}
"""The SDK's queues hold what fifty sessions make within a second, or it drops spans itself."""


@pytest.fixture(scope="module")
def fleet(make_fleet: MakeFleet) -> Fleet:
    fleet = make_fleet()
    fleet.start()
    return fleet


@pytest.fixture(scope="module")
def agents(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> list[Agent]:
    """The processes, run to their end at the same time, half of them by each collector."""
    folder = tmp_path_factory.mktemp("sessions")
    running = [
        (f"sessions-{number}", start(fleet, folder, framework, number))
        for number, framework in enumerate(PROCESSES)
    ]
    for service, process in running:
        assert process.wait(600) == 0, (folder / f"{service}.err").read_text()
    return [agent_of(folder, service) for service, _ in running]


def start(fleet: Fleet, folder: Path, framework: str, number: int) -> subprocess.Popen[bytes]:
    service = f"sessions-{number}"
    (folder / service).mkdir()
    audit = str(folder / service / "audit.jsonl")
    with open(folder / f"{service}.out", "wb") as out, open(folder / f"{service}.err", "wb") as err:
        return subprocess.Popen(
            (sys.executable, "-m", "tests.fleet.sessions", framework, str(SESSIONS), audit),
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                **fleet.environment(number % len(fleet.agents)),
                **ROOM,
                "OTEL_SERVICE_NAME": service,
                "OTEL_TRACES_EXPORTER": "otlp,console",
            },
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )


def test_every_session_was_judged_as_it_had_been_alone(agents: list[Agent]) -> None:
    """What is compared with below is all there: the trails have every decision."""
    decided = Counter(record["decision"] for agent in agents for record in agent.records)
    sessions = SESSIONS * len(PROCESSES)

    del decided["allow"]
    assert decided == {decision: count * sessions for decision, count in DECISIONS.items()}


def test_no_deny_is_missing_and_no_turn_is_torn(
    agents: list[Agent], fleet: Fleet, row: AddRow
) -> None:
    made = {
        trace_id: frozenset(span["context"]["span_id"].removeprefix("0x") for span in spans)
        for agent in agents
        for trace_id, spans in agent.traces.items()
    }
    denied = Counter(
        record["trace_id"]
        for agent in agents
        for record in agent.records
        if record["decision"] == semconv.DECISION_DENY
    )

    def stored() -> dict[str, frozenset[str]]:
        found = (fleet.store.find(agent.service, {}) for agent in agents)
        return {
            trace_id: frozenset(span["id"] for span in spans)
            for traces in found
            for trace_id, spans in traces.items()
        }

    def denies() -> Counter[str]:
        found = (fleet.store.find(agent.service, {}) for agent in agents)
        return Counter(
            trace_id
            for traces in found
            for trace_id, spans in traces.items()
            for span in spans
            if span["tags"].get(semconv.POLICY_DECISION) == semconv.DECISION_DENY
        )

    eventually_equal(stored, made, 300)
    assert denies() == denied
    fleet.settle()
    spans = sum(map(len, made.values()))
    assert fleet.taken() == spans
    row(
        f"none: {SESSIONS * len(PROCESSES)} sessions at once, two tiers",
        "every deny; every turn whole; each span once",
        f"{len(made)} turns, {denied.total()} denies, {spans} spans",
        f"{len(stored())} turns whole, {denies().total()} denies, {fleet.taken()} spans",
    )


def test_the_counter_equals_the_audit_trails(
    agents: list[Agent], fleet: Fleet, row: AddRow
) -> None:
    made = Counter(record["decision"] for agent in agents for record in agent.records)

    def counted() -> Counter[str]:
        selector = 'otelhooks_policy_decisions_total{service_name=~"sessions-.*"}'
        series = fleet.prometheus.query(
            f"sum by (otelhooks_policy_decision) (last_over_time({selector}[1h]))"
        )
        return Counter({each["otelhooks_policy_decision"]: int(value) for each, value in series})

    eventually_equal(counted, made, 120)
    said = ", ".join(f"{count} {decision}" for decision, count in sorted(made.items()))
    row(
        "the same",
        "the counter in Prometheus equals the decisions in the audit trails",
        said,
        ", ".join(f"{count} {decision}" for decision, count in sorted(counted().items())),
    )
