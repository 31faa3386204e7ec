"""What is left of verdicts when a part goes down: for each fault what is promised, and found.

On a stack of their own, so that no other test misses a server. Promised: a verdict that the
collector acknowledged is in the trace store; a decision is counted; the agent's audit trail has
every decision, always. Not promised: other spans of turns that a killed sampler held, and what an
agent that was killed had not sent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from otelhooks.records import semconv
from tests.e2e.agents import DECISIONS
from tests.e2e.asking import Jaeger, Prometheus, eventually, eventually_equal, own_metric
from tests.e2e.conftest import TO_STORE, agent_of, start_agent
from tests.e2e.fault_table import AddRow
from tests.e2e.sending import Sender
from tests.e2e.stack.build import ROOT
from tests.e2e.stack.stack import Stack
from tests.e2e.stack.webhook import Webhook

DENIES = 40
DENY = {
    semconv.POLICY_DECISION: semconv.DECISION_DENY,
    semconv.POLICY_MODE: semconv.MODE_ENFORCE,
    semconv.POLICY_RULE_ID: "faults",
}


@pytest.fixture(scope="module")
def own(
    binaries: dict[str, Path], webhook: Webhook, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("faults"), binaries, webhook)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()


@pytest.fixture
def store(own: Stack) -> Jaeger:
    return Jaeger(own.url("JAEGER_PORT"))


def send_denies(stack: Stack, service: str) -> set[str]:
    """Return the trace ids of denies that the collector acknowledged."""
    sender = Sender(stack.url("OTELCOL_HTTP_PORT"), stack.token, service)
    return {sender.span(f"deny {number}", DENY) for number in range(DENIES)}


def found(store: Jaeger, service: str) -> set[str]:
    """Return the trace ids of denies in the trace store."""
    return set(store.find(service, {semconv.POLICY_DECISION: semconv.DECISION_DENY}))


def test_trace_store_down_and_up_again(
    own: Stack, store: Jaeger, tmp_path: Path, row: AddRow
) -> None:
    """A real agent's turn, made while the store is down, is whole afterwards."""
    own.processes["jaeger"].kill()
    process = start_agent(own, tmp_path, "mcp", "store-down", turns=1)
    assert process.wait(120) == 0
    agent = agent_of(tmp_path, "store-down")
    own.processes["jaeger"].start()

    ((trace_id, spans),) = agent.traces.items()
    eventually_equal(lambda: len(store.trace(trace_id)), len(spans), 120)
    row(
        "trace store down, up again",
        "every turn, whole",
        f"a turn of {len(spans)} spans by a real agent",
        f"{len(store.trace(trace_id))} spans",
    )


def test_prometheus_down_and_up_again(own: Stack, tmp_path: Path, row: AddRow) -> None:
    """The sums of an agent that came and went meanwhile are counted."""
    own.processes["prometheus"].kill()
    process = start_agent(own, tmp_path, "mcp", "prometheus-down", turns=1)
    assert process.wait(120) == 0
    own.processes["prometheus"].start()

    prometheus = Prometheus(own.settings["PROMETHEUS_URL"])

    def counted() -> dict[str, int]:
        selector = 'otelhooks_policy_decisions_total{service_name="prometheus-down"}'
        series = prometheus.query(
            f"sum by (otelhooks_policy_decision) (last_over_time({selector}[1h]))"
        )
        return {labels["otelhooks_policy_decision"]: int(value) for labels, value in series}

    made = {"allow": 4, **DECISIONS}
    eventually_equal(counted, made, 120)
    row(
        "Prometheus down, up again",
        "every decision is counted, also of agents that have ended",
        f"{sum(made.values())} decisions by a real agent",
        f"{sum(counted().values())} counted",
    )


def test_collector_killed_while_the_trace_store_is_down(
    own: Stack, store: Jaeger, row: AddRow
) -> None:
    own.processes["jaeger"].kill()
    acknowledged = send_denies(own, "collector-killed")
    own.processes["otelcol"].kill()
    own.processes["otelcol"].start()
    own.processes["jaeger"].start()

    eventually_equal(lambda: found(store, "collector-killed"), acknowledged, 120)

    assert len(acknowledged) == DENIES
    assert all(len(store.trace(trace_id)) == 1 for trace_id in acknowledged)
    row(
        "collector killed with -9 while the trace store is down",
        "every acknowledged deny",
        f"{DENIES} denies",
        f"{len(found(store, 'collector-killed'))} denies",
    )


def test_collector_killed_at_once_after_the_acknowledgement(
    own: Stack, store: Jaeger, row: AddRow
) -> None:
    acknowledged = send_denies(own, "killed-at-once")
    own.processes["otelcol"].kill()
    own.processes["otelcol"].start()

    eventually_equal(lambda: found(store, "killed-at-once"), acknowledged, 120)
    row(
        "collector killed with -9 right after the acknowledgement",
        "every acknowledged deny",
        f"{len(acknowledged)} denies",
        f"{len(found(store, 'killed-at-once'))} denies",
    )


KILLED = """
import os, signal, sys
import otelhooks
from otelhooks import errors, policy

@otelhooks.tool
def danger() -> str:
    raise AssertionError("it ran")

otelhooks.instrument(policies=[policy.deny("danger", id="no-danger")], audit=sys.argv[1])
try:
    danger()
except errors.Denied:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_agent_killed_right_after_a_deny(
    own: Stack, store: Jaeger, tmp_path: Path, row: AddRow
) -> None:
    """The audit trail has it; its span was not sent yet."""
    ended = subprocess.run(
        (sys.executable, "-c", KILLED, str(tmp_path / "audit.jsonl")),
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            **own.agent_environment(),
            "OTEL_BSP_SCHEDULE_DELAY": "60000",
            "OTEL_SERVICE_NAME": "agent-killed",
        },
        timeout=60,
    )
    (segment,) = tmp_path.glob("audit*.jsonl")

    assert ended.returncode == -signal.SIGKILL
    assert '"rule_id":"no-danger"' in segment.read_text("utf-8").replace(" ", "")
    command = (sys.executable, "-m", "otelhooks", "audit", "verify", str(segment))
    verified = subprocess.run(command, capture_output=True, text=True)
    assert "2 intact records in 1 file: 0 errors" in verified.stdout + verified.stderr
    assert found(store, "agent-killed") == set()
    row(
        "agent killed with -9 right after a deny",
        "the audit trail has it; what the agent had not sent is lost",
        "1 deny, its span still in the agent",
        "1 record in the trail, which verifies; 0 spans",
    )


def test_nothing_is_left_in_the_queue(own: Stack) -> None:
    url = own.url("OTELCOL_METRICS_PORT")

    eventually(lambda: own_metric(url, "otelcol_exporter_queue_size", **TO_STORE) == 0)
