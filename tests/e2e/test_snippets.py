"""The snippets go into configurations of others: the real programs take the result."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from otelhooks.records import semconv
from tests.e2e.asking import eventually
from tests.e2e.sending import Sender
from tests.e2e.stack.process import Process
from tests.e2e.stack.stack import FILES
from tests.ports import free_ports

SNIPPETS = FILES / "snippets"

COLLECTOR = """
extensions:
  health_check: {endpoint: "127.0.0.1:${env:HEALTH_PORT}"}
receivers:
  otlp: {protocols: {http: {endpoint: "127.0.0.1:${env:HTTP_PORT}"}}}
processors:
  memory_limiter: {check_interval: 1s, limit_mib: 200}
  filter/noise: {trace_conditions: ['span.name == "noise"']}
exporters:
  file/traces: {path: "${env:FOLDER}/traces.jsonl", flush_interval: 100ms}
  file/metrics: {path: "${env:FOLDER}/metrics.jsonl", flush_interval: 100ms}
service:
  extensions: [health_check]
  telemetry: {metrics: {level: none}}
  pipelines:
    traces:
      receivers: [otlp]
      processors: [memory_limiter, filter/noise]
      exporters: [file/traces]
    metrics: {receivers: [otlp], exporters: [file/metrics]}
"""

QUICK = """
connectors: {span_metrics/otelhooks_verdicts: {metrics_flush_interval: 100ms}}
"""

PROMETHEUS = """
global: {scrape_interval: 1m, external_labels: {region: here}}
rule_files: [theirs.yaml]
alerting: {alertmanagers: [{static_configs: [{targets: ["alertmanager:9093"]}]}]}
scrape_configs: [{job_name: node, static_configs: [{targets: ["node:9100"]}]}]
"""

ALERTMANAGER = """
route:
  receiver: chat
  group_by: [alertname]
  routes: [{matchers: ['severity="page"'], receiver: chat}]
receivers: [{name: chat, webhook_configs: [{url: "http://chat"}]}]
"""


def merged(theirs: Any, ours: Any) -> Any:
    """Add as the snippets say: keys to keys, entries of lists to lists, routes first."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        result = cast("dict[str, Any]", {**theirs, **ours})
        both = cast("set[str]", theirs.keys() & ours.keys())
        return result | {key: merged(theirs[key], ours[key]) for key in both}
    if isinstance(theirs, list) and isinstance(ours, list):
        return cast("list[Any]", [*ours, *theirs])
    assert theirs == ours, "a snippet replaces nothing"
    return cast("Any", theirs)


def into(config: str, snippet: str) -> dict[str, Any]:
    """Return a user's configuration with a snippet in it."""
    ours = yaml.safe_load((SNIPPETS / snippet).read_text("utf-8"))
    return merged(yaml.safe_load(config), ours)


@pytest.fixture
def collector(binaries: dict[str, Path], tmp_path: Path) -> Iterator[Process]:
    """A user's own collector with the branch of verdicts on top."""
    http_port, health_port = map(str, free_ports(2))
    (tmp_path / "theirs.yaml").write_text(COLLECTOR, "utf-8")
    (tmp_path / "quick.yaml").write_text(QUICK, "utf-8")
    files = (tmp_path / "theirs.yaml", SNIPPETS / "otelcol.yaml", tmp_path / "quick.yaml")
    process = Process(
        "theirs",
        (str(binaries["otelcol"]), *(f"--config={file}" for file in files)),
        {
            "FOLDER": str(tmp_path),
            "HTTP_PORT": http_port,
            "HEALTH_PORT": health_port,
            "OTELHOOKS_TRACES_EXPORTER": "file/traces",
            "OTELHOOKS_METRICS_EXPORTER": "file/metrics",
        },
        tmp_path,
        tmp_path / "otelcol.log",
        f"http://127.0.0.1:{health_port}",
    )
    yield process
    process.stop()


def names(folder: Path, file: str, *path: str) -> list[str]:
    """Return the names of what a collector has written, a request a line."""
    lines = (folder / file).read_text("utf-8").splitlines(keepends=True)
    found: list[Any] = [json.loads(line) for line in lines if line.endswith("\n")]
    for key in path:
        found = [part for each in found for part in each[key]]
    return [each["name"] for each in found]


def test_a_collector_has_the_branch_beside_its_own_pipelines(
    collector: Process, tmp_path: Path
) -> None:
    """It does not sample, so a verdict is there by both ways, and everything else by its own."""
    collector.start()
    sender = Sender(f"http://127.0.0.1:{collector.environment['HTTP_PORT']}", None, "theirs")
    for decision in (semconv.DECISION_DENY, semconv.DECISION_ALLOW):
        sender.span(decision, {semconv.POLICY_DECISION: decision})
    for name in ("plain", "noise"):
        sender.span(name, {})

    spans = ("traces.jsonl", "resourceSpans", "scopeSpans", "spans")
    counted = ("metrics.jsonl", "resourceMetrics", "scopeMetrics", "metrics")
    eventually(lambda: len(names(tmp_path, *spans)) >= 4)
    eventually(lambda: f"{semconv.OWN_PREFIX}verdict.calls" in names(tmp_path, *counted))
    collector.stop()

    assert sorted(names(tmp_path, *spans)) == ["allow", "deny", "deny", "plain"]


def test_the_branch_is_that_of_the_single_collector() -> None:
    single = yaml.safe_load((FILES / "single.yaml").read_text("utf-8"))
    snippet = yaml.safe_load((SNIPPETS / "otelcol.yaml").read_text("utf-8"))

    for kind in ("processors", "connectors"):
        for name, component in snippet[kind].items():
            assert component == single[kind][name.replace("otelhooks_", "")]


def test_the_collector_names_an_exporter_that_is_not_there(collector: Process) -> None:
    environment = {**collector.environment, "OTELHOOKS_TRACES_EXPORTER": "otlp_grpc/none"}
    program, *configs = collector.command

    ended = subprocess.run(
        (program, "validate", *configs), env=environment, capture_output=True, text=True
    )

    assert ended.returncode != 0
    assert "traces/otelhooks_verdicts" in ended.stderr
    assert "otlp_grpc/none" in ended.stderr


def test_a_prometheus_takes_rules_and_receiver(binaries: dict[str, Path], tmp_path: Path) -> None:
    config = into(PROMETHEUS, "prometheus.yaml")
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    (tmp_path / "theirs.yaml").write_text("groups: []\n", "utf-8")
    (tmp_path / "rules.yaml").symlink_to(FILES / "rules.yaml")

    ended = subprocess.run(
        (binaries["promtool"], "check", "config", tmp_path / "prometheus.yml"),
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 0, ended.stderr
    assert "2 rule files found" in ended.stdout
    assert [each["job_name"] for each in config["scrape_configs"]] == ["collector", "node"]


def test_its_settings_are_those_of_the_shipped_prometheus() -> None:
    shipped = yaml.safe_load((FILES / "prometheus.yaml").read_text("utf-8"))
    snippet = yaml.safe_load((SNIPPETS / "prometheus.yaml").read_text("utf-8"))

    for key in ("otlp", "storage", "rule_files"):
        assert snippet[key] == shipped[key]
    assert snippet["global"]["external_labels"] == shipped["global"]["external_labels"]
    relabel = "alert_relabel_configs"
    assert snippet["alerting"][relabel] == shipped["alerting"][relabel]


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (("alertname=OtelhooksCriticalDeny", "severity=page"), "oncall"),
        (("alertname=CollectorQueueNearlyFull", "severity=ticket"), "ticket"),
        (("alertname=NodeDown", "severity=page"), "chat"),
        (("alertname=NodeSlow", "severity=ticket"), "chat"),
    ],
)
def test_an_alertmanager_sends_ours_ours_and_theirs_theirs(
    labels: tuple[str, ...], receiver: str, binaries: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "alertmanager.yml"
    file.write_text(yaml.safe_dump(into(ALERTMANAGER, "alertmanager.yaml")), "utf-8")

    subprocess.run((binaries["amtool"], "check-config", file), check=True, capture_output=True)
    ended = subprocess.run(
        (binaries["amtool"], "config", "routes", "test", f"--config.file={file}", *labels),
        capture_output=True,
        text=True,
    )

    assert ended.stdout.strip() == receiver


def test_what_it_holds_back_is_what_the_shipped_one_does() -> None:
    shipped = yaml.safe_load((FILES / "alertmanager.yaml").read_text("utf-8"))
    snippet = yaml.safe_load((SNIPPETS / "alertmanager.yaml").read_text("utf-8"))

    assert snippet["inhibit_rules"] == shipped["inhibit_rules"]


def test_grafana_gets_a_provider_of_dashboards() -> None:
    config = yaml.safe_load((SNIPPETS / "grafana.yaml").read_text("utf-8"))

    assert config["apiVersion"] == 1
    assert [each["type"] for each in config["providers"]] == ["file"]
