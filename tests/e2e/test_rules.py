"""Alert rules against what otelhooks, the SDK and the collector really send, and their runbooks.

The names in rules are looked up in a real Prometheus with the shipped file, which has got every
instrument of otelhooks over OTLP. When an alert fires is shown by ``collector/rules_test.yaml``.
"""

from __future__ import annotations

import mmap
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.records import semconv
from otelhooks.telemetry import metrics
from tests.e2e.asking import eventually, get
from tests.e2e.stack.process import Process
from tests.e2e.stack.stack import FILES, PROMETHEUS_FLAGS
from tests.ports import free_ports

RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FILES / "rules.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
CASES: list[dict[str, Any]] = yaml.safe_load((FILES / "rules_test.yaml").read_text("utf-8"))[
    "tests"
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
OF_AGENTS = [rule for rule in RULES if not rule.get("alert", "").startswith("Collector")]
SELECTORS = {"vectorSelector", "matrixSelector"}
RUNBOOK = (FILES / "README.md").read_text("utf-8").partition("\n## Runbook\n")[2]
SERVICE = "names-of-rules"

# What the SDK counts of itself where OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED is set. The oldest
# one that otelhooks runs with does not, so the names are written out.
SDK = ("otel.sdk.processor.span.processed", "otel.sdk.processor.log.processed")

GAUGES = {
    semconv.METRIC_APPROVAL_PENDING,
    semconv.METRIC_AUDIT_SPOOLED,
    semconv.METRIC_ADAPTER_INFO,
}

# Which attributes a metric has here that no call of `send_verdicts` makes.
OTHERS: Mapping[str, Mapping[str, str]] = {
    semconv.METRIC_COVERAGE_GAPS: {semconv.ADAPTER_FRAMEWORK: "mcp"},
    semconv.METRIC_ADAPTER_INFO: {
        semconv.ADAPTER_FRAMEWORK: "mcp",
        semconv.ADAPTER_VERSION: "1.0",
        semconv.ADAPTER_STATE: semconv.ADAPTER_REFUSED,
    },
    semconv.METRIC_MCP_TOOLS_UNAPPROVED: {
        semconv.MCP_TOOL_CHANGE: "changed",
        semconv.POLICY_MODE: semconv.MODE_ENFORCE,
    },
}


@hooks.pre_tool_call_decide
def broken(context: hooks.HookContext, call: types.ToolCall) -> types.HookResult | None:
    """Fail to decide on one tool."""
    if call.name == "read":
        raise RuntimeError
    return None


def meter_provider(url: str) -> MeterProvider:
    """Return a provider that sends to Prometheus when it is flushed."""
    exporter = OTLPMetricExporter(endpoint=f"{url}/api/v1/otlp/v1/metrics")
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=float("inf"))
    return MeterProvider([reader], resource=Resource({semconv.SERVICE_NAME: SERVICE}))


def send_verdicts(url: str) -> None:
    """Send what a deny and the crash of a deciding hook are counted as."""
    provider = meter_provider(url)

    @otelhooks.tool
    def delete(path: str) -> str:
        return path

    @otelhooks.tool
    def read(path: str) -> str:
        return path

    otelhooks.instrument(
        frameworks=[],
        policies=[policy.deny("delete", id="no-delete", severity="critical")],
        hooks=[broken],
        meter_provider=provider,
    )
    try:
        for tool in (delete, read):
            with pytest.raises(Denied):
                tool("x")
        provider.force_flush()
    finally:
        otelhooks.uninstrument()
        provider.shutdown()


def send_instruments(url: str) -> None:
    """Send every instrument of otelhooks once, and what the SDK counts."""
    provider = meter_provider(url)
    instruments = metrics.Instruments(provider, "0")
    for name in vars(semconv):
        if name.startswith("METRIC_") and name != "METRIC_OVERFLOW":
            metric = getattr(semconv, name)
            attributes = OTHERS.get(metric, {})
            if metric in GAUGES:
                instruments.set_gauge(metric, lambda attributes=attributes: [(1, attributes)])
                continue
            try:
                instruments.counter(metric).cell(attributes).add(1)
            except KeyError:
                instruments.record(metric, 1, attributes)
    for name in SDK:
        counter = provider.get_meter("sdk").create_counter(name, unit="{item}")
        counter.add(1, {semconv.ERROR_TYPE: "queue_full"})
    provider.force_flush()
    instruments.close()
    provider.shutdown()


@pytest.fixture(scope="module")
def prometheus(
    binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A Prometheus of its own, so that nothing here pages, with every metric in it: its address."""
    folder = tmp_path_factory.mktemp("rules")
    for name in ("prometheus.yaml", "rules.yaml"):
        (folder / name).symlink_to(FILES / name)
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    process = Process(
        "prometheus",
        (
            str(binaries["prometheus"]),
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            *PROMETHEUS_FLAGS,
        ),
        {},
        folder,
        folder / "prometheus.log",
        f"{url}/-/ready",
    )
    process.start()
    try:
        send_instruments(url)
        send_verdicts(url)
        yield url
    finally:
        process.stop()


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Return every node of an expression as Prometheus reads it."""
    parts: list[Any] = []
    if isinstance(tree, dict):
        yield tree
        parts.extend(cast("dict[str, Any]", tree).values())
    elif isinstance(tree, list):
        parts.extend(cast("list[Any]", tree))
    for part in parts:
        yield from nodes(part)


def labels_of(url: str, matchers: list[dict[str, str]]) -> set[str]:
    """Return the label names of the series that equalities and patterns of names select."""
    name = next(each for each in matchers if each["name"] == "__name__")
    series = get(f"{url}/api/v1/series", **{"match[]": f'{{__name__=~"{name["value"]}"}}'})
    return {label for each in series["data"] for label in each}


@pytest.mark.parametrize("rule", OF_AGENTS, ids=lambda rule: rule.get("alert", "record"))
def test_every_metric_and_label_of_a_rule_is_there(rule: dict[str, Any], prometheus: str) -> None:
    recorded = {each["record"] for each in RULES if "record" in each}
    tree = get(f"{prometheus}/api/v1/parse_query", query=rule["expr"])["data"]
    selectors = [each for each in nodes(tree) if each.get("type") in SELECTORS]
    assert selectors
    grouped = {label for each in nodes(tree) for label in each.get("grouping") or ()}
    for selector in selectors:
        if selector["name"] in recorded:
            continue
        there = eventually(lambda each=selector: labels_of(prometheus, each["matchers"]), 20)
        used = {matcher["name"] for matcher in selector["matchers"]} | grouped
        assert used <= there, selector["name"]


def test_what_rules_compare_with_are_values_that_are_sent(prometheus: str) -> None:
    """Of each equality of a rule, some series has that very value."""
    for rule in OF_AGENTS:
        tree = get(f"{prometheus}/api/v1/parse_query", query=rule["expr"])["data"]
        for selector in nodes(tree):
            for matcher in selector.get("matchers") or ():
                if matcher["type"] == "=" and matcher["name"] != "__name__":
                    named = (
                        f'{{__name__="{selector["name"]}",{matcher["name"]}="{matcher["value"]}"}}'
                    )
                    assert get(f"{prometheus}/api/v1/series", **{"match[]": named})["data"], named


def test_the_collector_has_the_counters_of_its_rules(binaries: dict[str, Path]) -> None:
    names = {
        name
        for alert, rule in ALERTS.items()
        if alert.startswith("Collector")
        for name in re.findall(r"otelcol_\w+", rule["expr"])
    }
    assert names

    with open(binaries["otelcol"], "rb") as file:
        program = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        assert [name for name in names if program.find(name.encode()) < 0] == []
        program.close()


def test_the_rules_fire_when_they_should(binaries: dict[str, Path]) -> None:
    ended = subprocess.run(
        (binaries["promtool"], "test", "rules", "rules_test.yaml"),
        cwd=FILES,
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_is_shown_to_fire_to_be_silent_and_to_end(alert: str) -> None:
    """In some test it is silent, then fires, then is silent again."""
    shown: list[str] = []
    for case in CASES:
        looks = case.get("promql_expr_test", ())
        shown.append("".join("01"[f'"{alert}"' in str(look["exp_samples"])] for look in looks))

    assert any(re.search("01+0", each) for each in shown)


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_what_to_do_first(alert: str) -> None:
    rule = ALERTS[alert]
    notes = rule["annotations"]

    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert notes["summary"]
    assert "First " in notes["description"] or "first " in notes["description"]
    assert f"\n### {alert}\n" in RUNBOOK
    assert notes["runbook_url"] == f"collector/README.md#{alert.lower()}"
    assert "/d/otelhooks-" in notes["dashboard"]
    if "policy" in rule["expr"] or "approval" in rule["expr"] or "deny" in rule["expr"]:
        assert "traces" in notes


@pytest.mark.parametrize("alert", ALERTS)
def test_its_texts_use_only_labels_that_it_has(alert: str, prometheus: str) -> None:
    rule = ALERTS[alert]
    recorded = {each["record"]: each["expr"] for each in RULES if "record" in each}
    expressions = [rule["expr"], *(e for name, e in recorded.items() if name in rule["expr"])]
    trees = [
        get(f"{prometheus}/api/v1/parse_query", query=expression)["data"]
        for expression in expressions
    ]
    has = {label for each in nodes(trees) for label in each.get("grouping") or ()}
    # Where a rule has no such label, `with` in the text of links leaves it out.
    uses = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))

    assert uses - {"otelhooks_policy_rule_id"} <= has


def test_the_tests_of_rules_have_no_case_for_a_rule_that_is_gone() -> None:
    assert set(re.findall(r'alertname="(\w+)"', str(CASES))) == ALERTS.keys()


def test_every_runbook_is_of_an_alert() -> None:
    assert set(re.findall(r"^### (\w+)$", RUNBOOK, re.MULTILINE)) == ALERTS.keys()


# --- Alertmanager ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ("severity=page", "oncall"),
        ("severity=ticket", "ticket"),
        ("severity=unheard-of", "ticket"),
        ("alertname=Another", "ticket"),
    ],
)
def test_pages_and_tickets_go_their_ways(
    labels: str, receiver: str, binaries: dict[str, Path]
) -> None:
    ended = subprocess.run(
        (
            *(binaries["amtool"], "config", "routes", "test"),
            *(f"--config.file={FILES / 'alertmanager.yaml'}", labels),
        ),
        capture_output=True,
        text=True,
    )

    assert ended.stdout.strip() == receiver


def test_no_alert_holds_a_page_back() -> None:
    config = yaml.safe_load((FILES / "alertmanager.yaml").read_text("utf-8"))
    held = {
        alert
        for rule in config["inhibit_rules"]
        for matcher in rule["target_matchers"]
        for alert in re.findall(r'alertname="(\w+)"', matcher)
    }

    assert held
    assert {ALERTS[alert]["labels"]["severity"] for alert in held} == {"ticket"}


def test_what_a_rule_holds_back_is_told_by_the_same_labels() -> None:
    """An inhibition by a label that one of the two alerts has not would hold back everything."""
    config = yaml.safe_load((FILES / "alertmanager.yaml").read_text("utf-8"))
    for rule in config["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            (alert,) = re.findall(r'alertname="(\w+)"', matcher)
            for label in rule["equal"]:
                assert label in str(ALERTS[alert]["annotations"])
