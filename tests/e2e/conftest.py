"""One stack for all tests, real agents that sent to it, and what they themselves say they did.

The stack is started once, from the shipped files; the agents run in several processes at once. What
they say is taken from elsewhere than what is tested: spans from their standard output, decisions
from their audit trail.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.asking import Jaeger, Prometheus, eventually, own_metric
from tests.e2e.fault_table import pytest_terminal_summary as pytest_terminal_summary
from tests.e2e.fault_table import row as row
from tests.e2e.stack.build import RECIPES, ROOT, build
from tests.e2e.stack.stack import Stack
from tests.e2e.stack.webhook import Webhook

TURNS = 2
TO_STORE = {"exporter": "otlp_grpc/traces"}
PROCESSES = ("openai_agents", "langchain", "mcp", "langchain")


@pytest.fixture(scope="session")
def binaries() -> dict[str, Path]:
    """Every program of the stack; built here if `make stack` was never run."""
    return {name: path for recipe in RECIPES for name, path in build(recipe).items()}


@pytest.fixture(scope="session")
def webhook() -> Iterator[Webhook]:
    """Where pages and tickets arrive."""
    webhook = Webhook()
    yield webhook
    webhook.close()


@pytest.fixture(scope="session")
def stack(
    binaries: dict[str, Path], webhook: Webhook, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """The servers, started."""
    stack = Stack(tmp_path_factory.mktemp("stack"), binaries, webhook)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="session")
def jaeger(stack: Stack) -> Jaeger:
    return Jaeger(stack.url("JAEGER_PORT"))


@pytest.fixture(scope="session")
def prometheus(stack: Stack) -> Prometheus:
    return Prometheus(stack.url("PROMETHEUS_PORT"))


@dataclass(frozen=True)
class Agent:
    """A process that ran to its end.

    Attributes:
        service: Its ``service.name``.
        spans: What it printed of each span.
        records: Verdicts in its audit trail.
        output: File with all it printed.
        audit: Folder of its audit trail.
    """

    service: str
    spans: list[dict[str, Any]]
    records: list[dict[str, Any]]
    output: Path
    audit: Path

    @property
    def traces(self) -> dict[str, list[dict[str, Any]]]:
        """Its spans by trace id."""
        traces: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for span in self.spans:
            traces[span["context"]["trace_id"].removeprefix("0x")].append(span)
        return dict(traces)


@dataclass(frozen=True)
class Traffic:
    """What the agents sent, and by how much the collector's own counters grew.

    Attributes:
        agents: The processes.
        accepted: Spans the collector took from them.
        sent: Spans the trace store took from the collector.
    """

    agents: list[Agent]
    accepted: float
    sent: float

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [span for agent in self.agents for span in agent.spans]

    @property
    def records(self) -> list[dict[str, Any]]:
        return [record for agent in self.agents for record in agent.records]


@pytest.fixture(scope="session")
def traffic(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    """Agents of every framework, at once, run to their end, with their turns in the trace store."""
    folder = tmp_path_factory.mktemp("agents")
    running = [
        (f"{framework}-{number}", start_agent(stack, folder, framework, f"{framework}-{number}"))
        for number, framework in enumerate(PROCESSES)
    ]
    before = _counts(stack)
    for service, process in running:
        code = process.wait(300)
        assert code == 0, (folder / f"{service}.err").read_text()
    ran = [agent_of(folder, service) for service, _ in running]
    expected = sum(len(agent.spans) for agent in ran)
    metrics = stack.url("OTELCOL_METRICS_PORT")
    # Behind the end of each turn the sampler waits; what it holds then is on its way.
    eventually(lambda: _counts(stack)[1] - before[1] >= expected)
    eventually(lambda: own_metric(metrics, "otelcol_exporter_queue_size", **TO_STORE) == 0)
    accepted, sent = _counts(stack)
    return Traffic(ran, accepted - before[0], sent - before[1])


def _counts(stack: Stack) -> tuple[float, float]:
    metrics = stack.url("OTELCOL_METRICS_PORT")
    return (
        own_metric(metrics, "otelcol_receiver_accepted_spans"),
        own_metric(metrics, "otelcol_exporter_sent_spans", **TO_STORE),
    )


def start_agent(
    stack: Stack, folder: Path, framework: str, service: str, turns: int = TURNS
) -> subprocess.Popen[bytes]:
    """Start a real agent that sends to a stack; `agent_of` reads what it did when it has ended."""
    (folder / service).mkdir()
    with open(folder / f"{service}.out", "wb") as out, open(folder / f"{service}.err", "wb") as err:
        return subprocess.Popen(
            (
                *(sys.executable, "-m", "tests.e2e.agents"),
                *(framework, str(turns), str(folder / service / "audit.jsonl")),
            ),
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                **stack.agent_environment(),
                "OTEL_SERVICE_NAME": service,
                "OTELHOOKS_TOOL_HISTOGRAM": "1",
                "OTEL_TRACES_EXPORTER": "otlp,console",
            },
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )


def agent_of(folder: Path, service: str) -> Agent:
    """Return what an agent that has ended says of itself."""
    output = folder / f"{service}.out"
    lines = [
        json.loads(line)
        for segment in sorted((folder / service).glob("*.jsonl"))
        for line in segment.read_text("utf-8").splitlines()
    ]
    records = [line for line in lines if "decision" in line]
    return Agent(service, _printed(output.read_text("utf-8")), records, output, folder / service)


def _printed(text: str) -> list[dict[str, Any]]:
    """Read JSON objects that follow each other."""
    decoder, spans, at = json.JSONDecoder(), list[dict[str, Any]](), text.find("{")
    while at >= 0:
        span, at = decoder.raw_decode(text, at)
        spans.append(span)
        at = text.find("{", at)
    return spans


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark of tests that look at what all others left, or wait for long."""
    config.addinivalue_line("markers", "last: runs after all tests without this mark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the marked tests last: what they wait for goes on meanwhile."""
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)
