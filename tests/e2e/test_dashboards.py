"""Every panel's query, sent to the stack's Prometheus after the agents' traffic, has an answer.

What came back is printed, a line a query: `pytest -s`, or the report of `make e2e`.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dashboards.queries import DECISIONS, EVALUATIONS, SERVICE, model_calls
from tests.e2e.asking import Prometheus, eventually, get
from tests.e2e.conftest import Traffic
from tests.e2e.stack.build import ROOT
from tests.e2e.stack.stack import Stack

WINDOW_S = 3600
FILES = sorted((ROOT / "dashboards").glob("*.json"))


@dataclass(frozen=True)
class Query:
    """A panel's query for Prometheus, with what Grafana puts in for variables set to All."""

    panel: str
    promql: str
    has_exemplars: bool


def queries(file: Path) -> Iterator[Query]:
    """Give the queries of a dashboard's panels, for all that happened within the hour."""
    for panel in json.loads(file.read_text("utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            if "expr" in target:
                promql = re.sub(r"\$__(rate_interval|range)\b", f"{WINDOW_S}s", target["expr"])
                promql = re.sub(r"\$(service|agent|policy|rule|mode)\b", ".*", promql)
                assert "$" not in promql, (file.name, panel["title"], promql)
                yield Query(panel["title"], promql, target["exemplar"])


@pytest.fixture(scope="module")
def at(traffic: Traffic, stack: Stack) -> float:
    """When Prometheus last heard of the agents, as seconds since the epoch."""
    services = {agent.service for agent in traffic.agents}

    def heard() -> dict[str, float]:
        url = f"{stack.url('PROMETHEUS_PORT')}/api/v1/query"
        found = get(url, query=f"{EVALUATIONS}[1h]")["data"]["result"]
        return {each["metric"]["service_name"]: each["values"][-1][0] for each in found}

    times = eventually(lambda: heard() if services <= heard().keys() else {})
    return max(times.values())


def answer(stack: Stack, promql: str, at: float | None) -> list[dict[str, Any]]:
    url = f"{stack.url('PROMETHEUS_PORT')}/api/v1/query"
    moment = {} if at is None else {"time": f"{at:.3f}"}
    found = get(url, query=promql, **moment)["data"]["result"]
    return [each for each in found if not math.isnan(float(each["value"][1]))]


def shown(series: dict[str, Any]) -> str:
    labels = "/".join(value for _, value in sorted(series["metric"].items()))
    return f"{labels} {float(series['value'][1]):.4g}".strip()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_panel_shows_numbers_of_the_traffic(
    file: Path, stack: Stack, at: float, capsys: pytest.CaptureFixture[str]
) -> None:
    without = []
    for query in queries(file):
        found = answer(stack, query.promql, at)
        if not found:  # the collector is scraped on, and needs two scrapes for a rate
            with contextlib.suppress(AssertionError):
                found = eventually(partial(answer, stack, query.promql, None), 45)
        values = ", ".join(map(shown, found[:4])) + (", ..." if len(found) > 4 else "")
        with capsys.disabled():
            print(f"\n{file.stem} | {query.panel} | {query.promql}\n    = {values or 'NOTHING'}")
        if not found:
            without.append(query)

    assert not without


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_dots_of_panels_come_from_exemplars(file: Path, at: float, prometheus: Prometheus) -> None:
    """A panel with dots gets some from Prometheus, but for what did not happen."""
    dotted = {
        query.panel: prometheus.exemplars(query.promql)
        for query in queries(file)
        if query.has_exemplars
    }
    empty = {panel for panel, found in dotted.items() if not found}

    assert empty <= {"Coverage gaps by framework"}
    assert all("trace_id" in each["labels"] for found in dotted.values() for each in found)


def test_the_number_of_decisions_is_exact(traffic: Traffic, stack: Stack, at: float) -> None:
    """Also for agents that lived for seconds."""
    (query,) = [
        query
        for query in queries(ROOT / "dashboards" / "governance.json")
        if query.panel == "Decisions"
    ]
    services = "|".join(agent.service for agent in traffic.agents)
    promql = query.promql.replace(
        f'{DECISIONS}{{service_name=~".*"', f'{DECISIONS}{{service_name=~"{services}"'
    )
    made = len(traffic.records)

    def seen() -> float:
        return float(answer(stack, promql, at + 1)[0]["value"][1])

    eventually(lambda: seen() == made)


# A process that sends both names, one that has only the old one, and one whose calls of models are
# counted by another library, which counts embeddings too.
SENT = {
    ("new", "gen_ai_client_inference_duration_seconds_count", "chat"): "1+1x30",
    ("new", "gen_ai_client_operation_duration_seconds_count", "chat"): "1+1x30",
    ("old", "gen_ai_client_operation_duration_seconds_count", "chat"): "2+2x30",
    ("other", "gen_ai_client_operation_duration_seconds_count", "generate_content"): "4+4x30",
    ("other", "gen_ai_client_operation_duration_seconds_count", "embeddings"): "8+8x30",
}


def test_model_calls_are_counted_once_by_either_name(
    binaries: dict[str, Path], tmp_path: Path
) -> None:
    query = model_calls("10m", SERVICE).replace("$service", ".*")
    series = [
        {
            "series": f'{name}{{service_name="{process}",service_instance_id="{process}-1",'
            f'gen_ai_operation_name="{operation}"}}',
            "values": values,
        }
        for (process, name, operation), values in SENT.items()
    ]
    wanted = [
        {"labels": f'{{service_name="{process}"}}', "value": value}
        for process, value in (("new", 10), ("old", 20), ("other", 40))
    ]
    asked = [{"expr": query, "eval_time": "30m", "exp_samples": wanted}]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    file = tmp_path / "test.json"  # which is YAML
    file.write_text(json.dumps({"tests": [test]}))
    done = subprocess.run(
        [binaries["promtool"], "test", "rules", file], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
