"""What the files of `collector/` must say alike: a thing that two tiers share is written twice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.stack.build import ROOT

FOLDER = ROOT / "collector"
NAMES = ("single", "agent", "gateway", "kafka", "kafka-gateway", "tls", "second-store")
FILES: dict[str, Any] = {
    name: yaml.safe_load((FOLDER / f"{name}.yaml").read_text("utf-8")) for name in NAMES
}


def together(*names: str) -> dict[str, Any]:
    """Return files merged as a collector merges them: maps by key, lists replaced."""
    config: dict[str, Any] = {}
    for name in names:
        config = merged(config, FILES[name])
    return config


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    found = {**one, **other}
    for key in one.keys() & other.keys():
        if isinstance(one[key], dict) and isinstance(other[key], dict):
            found[key] = merged(one[key], other[key])
    return found


COMBINATIONS = [
    ("single",),
    ("single", "tls"),
    ("single", "second-store"),
    ("single", "agent"),
    ("single", "kafka"),
    ("gateway",),
    ("gateway", "tls"),
    ("gateway", "kafka-gateway"),
]
combinations = pytest.mark.parametrize("names", COMBINATIONS, ids="+".join)


def used(config: dict[str, Any], kind: str) -> set[str]:
    """Return the components of a kind that pipelines or the service use."""
    if kind == "extensions":
        return {*config["service"]["extensions"]}
    pipelines = config["service"]["pipelines"].values()
    kinds = ("receivers", "exporters") if kind == "connectors" else (kind,)
    return {name for each in pipelines for part in kinds for name in each.get(part, ())}


@combinations
def test_what_a_pipeline_uses_is_there(names: tuple[str, ...]) -> None:
    config = together(*names)
    connectors = {*config.get("connectors", {})}

    for kind in ("receivers", "processors", "exporters"):
        assert used(config, kind) - connectors <= config[kind].keys()
    assert used(config, "extensions") <= config["extensions"].keys()


@combinations
def test_spans_are_refused_before_they_fill_the_memory(names: tuple[str, ...]) -> None:
    """What comes in from outside meets the limiter first."""
    config = together(*names)

    for name, pipeline in config["service"]["pipelines"].items():
        if {"otlp", "kafka"} & {*pipeline["receivers"]}:
            assert pipeline["processors"][0] == "memory_limiter", name


@combinations
def test_what_is_sent_waits_on_disk_and_is_never_given_up(names: tuple[str, ...]) -> None:
    config = together(*names)

    for name, exporter in config["exporters"].items():
        if name.partition("/")[0] != "file":
            assert exporter["sending_queue"]["storage"] == "file_storage/queue", name
            assert exporter["sending_queue"]["enabled"] is True, name
            assert exporter["retry_on_failure"]["max_elapsed_time"] == "0s", name


def test_the_balancer_waits_between_tries() -> None:
    """It has no defaults of its own: without these it tries again at once, forever."""
    balancer = FILES["agent"]["exporters"]["load_balancing/gateways"]
    retry = balancer["retry_on_failure"]

    assert retry["enabled"] is True
    assert retry["initial_interval"] == "5s"
    assert retry["max_interval"] == "30s"
    assert retry["multiplier"] > 1
    # And waits for room in a gateway's queue: after a timeout all of a batch is sent again.
    assert balancer["timeout"] == "24h"
    assert balancer["protocol"]["otlp"]["sending_queue"]["block_on_overflow"] is True


@pytest.mark.parametrize("kind", ["receivers", "processors", "exporters"])
def test_what_a_gateway_shares_with_a_single_collector_is_the_same(kind: str) -> None:
    single, gateway = FILES["single"][kind], FILES["gateway"][kind]

    assert gateway.keys() <= single.keys()
    assert gateway == {name: single[name] for name in gateway}


def test_a_gateway_listens_and_keeps_as_a_single_collector_does() -> None:
    """But for its token."""
    single, gateway = FILES["single"], FILES["gateway"]

    assert gateway["service"]["telemetry"] == single["service"]["telemetry"]
    assert gateway["service"]["extensions"] == single["service"]["extensions"]
    without_file = {"extensions": {"bearertokenauth/in": {"filename": None}}}
    assert merged(gateway, without_file)["extensions"] == merged(single, without_file)["extensions"]


def test_both_sample_in_the_same_order() -> None:
    single = FILES["single"]["service"]["pipelines"]["traces/sampled"]
    gateway = FILES["gateway"]["service"]["pipelines"]["traces/sampled"]

    assert gateway["processors"] == ["memory_limiter", *single["processors"]]
    assert gateway["exporters"] == single["exporters"]


@pytest.mark.parametrize("tier", ["agent", "kafka"])
def test_the_first_tier_changes_the_sampled_branch_and_no_other(tier: str) -> None:
    """Masks and verdicts are defined once, in single.yaml."""
    changed = FILES[tier]["service"]["pipelines"]
    single = FILES["single"]["service"]["pipelines"]

    assert {*changed} - {"logs/audit"} == {"traces/sampled"}
    assert changed["traces/sampled"]["processors"] == []
    for name, pipeline in changed.items():
        assert name in single
        assert pipeline.keys() <= {"processors", "exporters"}
    assert FILES[tier].keys() == {"exporters", "service"}
    assert not FILES[tier]["exporters"].keys() & FILES["single"]["exporters"].keys()
    audit = changed.get("logs/audit", {"exporters": ["file/audit"]})
    assert audit["exporters"][:1] == single["logs/audit"]["exporters"]


def test_both_sides_of_kafka_agree() -> None:
    writes = FILES["kafka"]["exporters"]
    reads = FILES["kafka-gateway"]["receivers"]["kafka"]

    for exporter in writes.values():
        assert exporter["brokers"] == reads["brokers"]
        assert exporter["tls"] == reads["tls"]
        assert exporter["producer"] == writes["kafka/traces"]["producer"]
    traces = writes["kafka/traces"]
    assert [traces["traces"]["topic"]] == reads["traces"]["topics"]
    assert traces["traces"]["encoding"] == reads["traces"]["encoding"]
    assert traces["partition_traces_by_id"] is True
    largest = traces["producer"]["max_message_bytes"]
    assert largest == reads["max_partition_fetch_size"] == reads["max_fetch_size"]


def test_a_gateway_behind_kafka_opens_no_receiver() -> None:
    config = together("gateway", "kafka-gateway")

    assert used(config, "receivers") == {"kafka"}
    assert "bearertokenauth/in" not in config["service"]["extensions"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.name)
def test_a_variable_has_one_default(path: Path) -> None:
    """But for the token, which is another one in a gateway."""
    tokens = {"OTLP_TOKEN_FILE"}
    found: dict[str, set[str]] = {}
    for file in (path, FOLDER / "single.yaml"):
        for name, default in re.findall(r"\$\{env:(\w+):-([^}]*)\}", file.read_text("utf-8")):
            found.setdefault(name, set()).add(default)

    assert {name for name, defaults in found.items() if len(defaults) > 1} <= tokens
