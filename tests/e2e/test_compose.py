"""`docker-compose.yml` before Compose's own loader, and its options before the servers.

The loader is the Compose specification's own (`compose-go`, Apache-2.0), run from its Go module: it
puts variables in and checks the schema. What services say of each other is looked at in
`tests/unit/test_compose.py`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from otelhooks.telemetry import semconv
from tests.e2e.asking import Jaeger, Prometheus, eventually, own_metric
from tests.e2e.sending import Sender
from tests.e2e.stack.build import ROOT
from tests.e2e.stack.process import free_ports
from tests.e2e.stack.stack import Stack

LOADER = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"
FILE = ROOT / "docker-compose.yml"


def load(file: Path) -> subprocess.CompletedProcess[str]:
    """Let the loader read a Compose file of this folder as `docker compose config` does."""
    return subprocess.run(
        ("go", "run", LOADER, "--format", "json", str(file)),
        cwd=ROOT,
        env={key: os.environ[key] for key in ("PATH", "HOME")},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    loaded = load(FILE)
    assert loaded.returncode == 0, loaded.stderr
    return json.loads(loaded.stdout)


def test_compose_reads_it(project: dict[str, Any]) -> None:
    started = {"alertmanager", "demo", "grafana", "oncall", "otelcol", "prometheus", "tempo"}

    assert started <= project["services"].keys()
    assert {"setup", "otelcol-ready"} <= project["services"].keys()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    mem_limit: 512m", "    mem_limits: 512m"),
        ("condition: service_healthy", "condition: healthy"),
    ],
    ids=["unknown key", "unknown value"],
)
def test_the_loader_refuses_mistakes(old: str, new: str, tmp_path: Path) -> None:
    """The check above can fail."""
    text = FILE.read_text("utf-8")
    assert old in text
    broken = tmp_path / "broken.yml"
    broken.write_text(text.replace(old, new, 1), "utf-8")

    assert load(broken).returncode != 0


@pytest.mark.parametrize("server", ["prometheus", "alertmanager"])
def test_a_server_knows_its_options(server: str, binaries: dict[str, Path]) -> None:
    command = yaml.safe_load(FILE.read_text("utf-8"))["services"][server]["command"]
    helped = subprocess.run((binaries[server], "--help"), capture_output=True, text=True)
    text = helped.stdout + helped.stderr

    for option in command:
        name = option.partition("=")[0]
        assert re.search(rf"--(\[no-\])?{re.escape(name[2:])}\b", text), (
            f"{server} has no option `{name}`"
        )


def test_the_overlay_sends_verdicts_to_both_stores(stack: Stack, jaeger: Jaeger) -> None:
    """Here the first store is down: the second gets on."""
    (nobody,) = free_ports(1)
    settings = {
        "TRACES_ENDPOINT": f"127.0.0.1:{nobody}",
        "SECOND_TRACES_ENDPOINT": stack.settings["TRACES_ENDPOINT"],
    }
    collector = stack.collector("both", ("single.yaml", "second-store.yaml"), settings)
    collector.start()
    try:
        port = collector.environment["OTELCOL_HTTP_PORT"]
        sender = Sender(f"http://127.0.0.1:{port}", stack.token, "two-stores")
        trace_id = sender.span("denied", {semconv.POLICY_DECISION: semconv.DECISION_DENY})

        eventually(lambda: jaeger.trace(trace_id))
        metrics = f"http://127.0.0.1:{collector.environment['OTELCOL_METRICS_PORT']}"
        waiting = {"exporter": "otlp_grpc/traces"}
        eventually(lambda: own_metric(metrics, "otelcol_exporter_queue_size", **waiting) == 1)
    finally:
        collector.kill()


def test_a_file_merged_with_itself_is_the_same(binaries: dict[str, Path], tmp_path: Path) -> None:
    """What the collector of compose is given where there is no overlay."""
    single = f"--config={ROOT / 'collector' / 'single.yaml'}"
    (tmp_path / "token").write_text("t")
    environment = {"OTELCOL_STATE": str(tmp_path), "OTLP_TOKEN_FILE": str(tmp_path / "token")}
    once, twice = (
        subprocess.run(
            (binaries["otelcol"], "print-config", *files),
            env=environment,
            capture_output=True,
            text=True,
        )
        for files in ([single], [single, single])
    )

    assert once.returncode == 0, once.stderr
    assert yaml.safe_load(once.stdout) == yaml.safe_load(twice.stdout)


def test_the_demo_of_compose_is_counted(
    stack: Stack, prometheus: Prometheus, tmp_path: Path
) -> None:
    """Its own command and variables, once, with the addresses of this stack."""
    demo = yaml.safe_load(FILE.read_text("utf-8"))["services"]["demo"]
    script = demo["command"][2].replace("$$", "$")
    assert "while otelhooks demo; do sleep 30; done" in script
    script = script.replace("while otelhooks demo; do sleep 30; done", "otelhooks demo")
    script = script.replace("/run/secrets/otlp_token", str(stack.token_file))
    address = {"OTEL_EXPORTER_OTLP_ENDPOINT": stack.url("OTELCOL_HTTP_PORT")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    ran = subprocess.run(
        ("sh", "-euc", script),
        cwd=ROOT,
        env={**demo["environment"], **address, "PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )

    assert ran.returncode == 0, ran.stderr
    counted = (
        'sum(last_over_time(otelhooks_policy_decisions_total{service_name="otelhooks-demo"}[1h]))'
    )
    lost = 'otel_sdk_processor_span_processed_total{service_name="otelhooks-demo"}'
    eventually(lambda: prometheus.query(counted))
    eventually(lambda: prometheus.query(lost))


def test_what_the_image_of_the_demo_copies_is_there(project: dict[str, Any]) -> None:
    lines = project["services"]["demo"]["build"]["dockerfile_inline"].splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]

    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
