"""`docker-compose.yml` before Compose's own loader, and its options before the servers.

The loader is the Compose specification's own (`compose-go`, Apache-2.0), from its Go module: it
puts variables in, checks the schema, and leaves out what no chosen profile has. What services say
of each other is looked at in `tests/deploy/test_compose.py`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import pytest
import yaml

from otelhooks.records import semconv
from tests.deploy.test_compose import COLLECTORS, GATEWAYS, PROFILES, STARTED, mounts
from tests.e2e.asking import Jaeger, Prometheus, eventually, eventually_equal, get, own_metric
from tests.e2e.sending import Sender
from tests.e2e.stack.build import ROOT
from tests.e2e.stack.process import Process
from tests.e2e.stack.stack import Stack
from tests.ports import free_ports

FILE = ROOT / "docker-compose.yml"
MODULE = """\
module loader

go 1.25

require github.com/compose-spec/compose-go/v2 v2.16.2
"""
# The command of that module puts no variables in.
PROGRAM = """\
package main

import (
	"context"
	"log"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	profiles := cli.WithDefaultProfiles(os.Args[2:]...)
	options, err := cli.NewProjectOptions(os.Args[1:2], cli.WithOsEnv, profiles)
	if err != nil {
		log.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	text, err := project.MarshalJSON()
	if err != nil {
		log.Fatal(err)
	}
	os.Stdout.Write(text)
}
"""


class Load(Protocol):
    """Reads a Compose file as `docker compose config` does."""

    def __call__(
        self, *options: str, file: Path = FILE, variables: Mapping[str, str] = ...
    ) -> subprocess.CompletedProcess[str]:
        """Load.

        Args:
            options: What `--profile` says.
            file: The Compose file.
            variables: The environment.
        """
        ...


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    folder = tmp_path_factory.mktemp("loader")
    (folder / "go.mod").write_text(MODULE, "utf-8")
    (folder / "main.go").write_text(PROGRAM, "utf-8")
    built = subprocess.run(
        ("go", "build", "-mod=mod", "-o", "loader", "."),
        cwd=folder,
        env={key: os.environ[key] for key in ("PATH", "HOME")},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr

    def run(
        *options: str, file: Path = FILE, variables: Mapping[str, str] = MappingProxyType({})
    ) -> subprocess.CompletedProcess[str]:
        command = (folder / "loader", file, *options)
        return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)

    return run


def services(loaded: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """Return what is started, as the loader has it."""
    assert loaded.returncode == 0, loaded.stderr
    return json.loads(loaded.stdout)["services"]


@pytest.mark.parametrize("profile", PROFILES)
def test_compose_reads_it_as_the_unit_tests_do(profile: str, load: Load) -> None:
    """What is started, with which commands, variables and mounts."""
    found = services(load(variables={"COMPOSE_PROFILES": profile}))

    assert found.keys() == STARTED[profile].keys()
    for name, started in STARTED[profile].items():
        command = [text.replace("$$", "$") for text in started.get("command", ())]
        assert (found[name]["command"] or []) == command, name
        assert (found[name].get("environment") or {}) == started.get("environment", {}), name
        mounted = {each["target"] for each in found[name].get("volumes", ())}
        assert mounted == mounts(started).keys(), name


def test_the_option_starts_services_and_does_not_tell_the_collector(load: Load) -> None:
    """Why `profile-is-set` is there; the day this fails it can go."""
    found = services(load("scale"))

    assert found.keys() == STARTED["scale"].keys()
    assert found["otelcol"]["command"] == STARTED[""]["otelcol"]["command"]
    assert found["profile-is-set"]["environment"] == {"PROFILE": "none"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    mem_limit: 512m", "    mem_limits: 512m"),
        ("condition: service_healthy", "condition: healthy"),
        ("required: false}", "required: true}"),
    ],
    ids=["unknown key", "unknown value", "needs a service of another profile"],
)
def test_the_loader_refuses_mistakes(old: str, new: str, load: Load, tmp_path: Path) -> None:
    """The check above can fail."""
    text = FILE.read_text("utf-8")
    assert old in text
    broken = tmp_path / "broken.yml"
    broken.write_text(text.replace(old, new, 1), "utf-8")

    assert load(file=broken, variables={"COMPOSE_PROFILES": "scale"}).returncode != 0


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


@pytest.mark.parametrize(
    ("profile", "gateways"), [("", []), ("scale", GATEWAYS), ("kafka", GATEWAYS)]
)
def test_prometheus_finds_gateways_in_profiles_that_have_them(
    profile: str, gateways: Sequence[str], binaries: dict[str, Path], tmp_path: Path
) -> None:
    """Files are as compose mounts them; a missing answer does not matter here."""
    etc = Path("/etc/prometheus")
    for inside, (outside, _) in mounts(STARTED[profile]["prometheus"]).items():
        if Path(inside).is_relative_to(etc):
            link = tmp_path / Path(inside).relative_to(etc)
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(ROOT / outside)
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    prometheus = Process(
        "prometheus",
        (
            str(binaries["prometheus"]),
            f"--config.file={tmp_path / 'prometheus.yaml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ),
        {},
        tmp_path,
        tmp_path / "prometheus.log",
        f"{url}/-/ready",
    )

    def found() -> set[tuple[str, str]]:
        targets = get(f"{url}/api/v1/targets")["data"]["activeTargets"]
        return {(each["labels"]["job"], each["labels"]["instance"]) for each in targets}

    prometheus.start()
    try:
        wanted = {("gateway", f"{name}:8888") for name in gateways}
        eventually_equal(found, {("collector", "otelcol:8888"), *wanted}, 120)
        assert "level=ERROR" not in prometheus.log.read_text("utf-8")
    finally:
        prometheus.stop()


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


def print_config(otelcol: Path, *files: str) -> dict[str, Any]:
    """Return what a collector makes of files of `collector/`, merged in this order."""
    printed = subprocess.run(
        (otelcol, "print-config", *(f"--config={ROOT / 'collector' / file}" for file in files)),
        capture_output=True,
        text=True,
    )
    assert printed.returncode == 0, printed.stderr
    return yaml.safe_load(printed.stdout)


@pytest.mark.parametrize("file", ["single.yaml", "gateway.yaml"])
def test_a_file_merged_with_itself_is_the_same(file: str, binaries: dict[str, Path]) -> None:
    """What a collector of compose gets without an overlay."""
    once, twice = (print_config(binaries["otelcol"], *files) for files in ([file], [file, file]))

    assert once == twice


@pytest.mark.parametrize(
    ("profile", "service"),
    [(profile, name) for profile in PROFILES for name in COLLECTORS if name in STARTED[profile]],
)
def test_a_collector_takes_what_compose_gives_it(
    profile: str, service: str, binaries: dict[str, Path], tmp_path: Path
) -> None:
    """Its command and its variables; what is mounted is taken from where it comes from."""
    started = STARTED[profile][service]
    (tmp_path / "token").write_text("t")
    token = str(tmp_path / "token")
    command = [
        f"--config={ROOT / mounts(started)[option.partition('=')[2]][0]}"
        for option in started["command"]
    ]
    checked = subprocess.run(
        (binaries["otelcol"], "validate", *command),
        env={**started["environment"], "OTLP_TOKEN_FILE": token, "GATEWAY_TOKEN_FILE": token},
        capture_output=True,
        text=True,
    )

    assert checked.returncode == 0, checked.stderr


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


def test_what_the_image_of_the_demo_copies_is_there() -> None:
    lines = STARTED[""]["demo"]["build"]["dockerfile_inline"].splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]

    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
