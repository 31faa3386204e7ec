"""`docker-compose.yml` says what the shipped files and the process tests say.

No container engine is needed; `tests/e2e/test_compose.py` has what needs the servers or Go.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.stack.build import RECIPES, ROOT
from tests.e2e.stack.process import free_ports
from tests.e2e.stack.stack import Stack
from tests.e2e.stack.webhook import Webhook

FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
# Compose service to the file that it runs with.
CONFIGURED = {
    "otelcol": "single.yaml",
    "tempo": "tempo.yaml",
    "jaeger": "jaeger.yaml",
    "prometheus": "prometheus.yaml",
    "alertmanager": "alertmanager.yaml",
}
# Where the images keep what is not in their configuration.
STATE_FLAGS = {"prometheus": "--storage.tsdb.path", "alertmanager": "--storage.path"}


def mounts(service: str) -> dict[str, tuple[str, str]]:
    """Return path inside to (source outside, mode); modes are `ro` and `rw`."""
    found = {}
    for text in SERVICES[service].get("volumes", ()):
        source, path, *mode = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", text).split(":")
        found[path] = (source, *(mode or ["rw"]))
    return found


def flags(command: list[str]) -> dict[str, str]:
    """Return option to value, with one dash or two."""
    return {name.lstrip("-"): value for name, _, value in (each.partition("=") for each in command)}


def variables(file: str) -> dict[str, str]:
    """Return the variables of a file in `collector/` with their defaults."""
    text = (ROOT / "collector" / file).read_text("utf-8")
    return dict(re.findall(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}", text))


def script(service: str) -> str:
    """Return what a service's shell or Python is given, as the container gets it."""
    return SERVICES[service]["command"][2].replace("$$", "$")


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """What the process tests start, not started."""
    webhook = Webhook()
    names = ("otelcol", "jaeger", "prometheus", "alertmanager")
    yield Stack(tmp_path, {name: Path("/bin") / name for name in names}, webhook)
    webhook.close()


# --- Files and commands --------------------------------------------------------------------------


def test_every_bind_mount_is_a_shipped_file_and_read_only():
    for service in SERVICES:
        for path, (source, mode) in mounts(service).items():
            if source.startswith("."):
                assert (ROOT / source).exists(), f"{service}: `{source}` is not there"
                assert mode == "ro", f"{service}: `{path}` can be written"
            else:
                assert source in COMPOSE["volumes"], f"{service}: no volume `{source}`"


@pytest.mark.parametrize(("service", "file"), CONFIGURED.items())
def test_a_server_runs_the_shipped_file(service: str, file: str):
    path, *_ = [
        option.partition("=")[2]
        for option in SERVICES[service]["command"]
        if option.lstrip("-").startswith(("config=", "config.file="))
    ]

    assert mounts(service)[path] == (f"./collector/{file}", "ro")


def test_the_collectors_overlay_is_one_that_is_mounted():
    """Without one, the file itself is given twice: merged with itself it stays what it is."""
    overlay = SERVICES["otelcol"]["command"][1]

    assert overlay == "--config=/etc/otelcol/${OTELCOL_OVERLAY:-single.yaml}"
    (name,) = re.findall(r"OTELCOL_OVERLAY=([\w.-]+) docker compose", FILE.read_text("utf-8"))
    assert mounts("otelcol")[f"/etc/otelcol/{name}"] == (f"./collector/{name}", "ro")


def test_the_second_store_gets_what_the_first_gets():
    single, second = (
        yaml.safe_load((ROOT / "collector" / name).read_text("utf-8"))
        for name in ("single.yaml", "second-store.yaml")
    )
    first = single["exporters"]["otlp_grpc/traces"]
    other = second["exporters"]["otlp_grpc/second"]

    assert {**first, "endpoint": ""} == {**other, "endpoint": ""}
    senders = {
        name: pipeline["exporters"]
        for name, pipeline in single["service"]["pipelines"].items()
        if "otlp_grpc/traces" in pipeline["exporters"]
    }
    assert second["service"]["pipelines"] == {
        name: {"exporters": [*exporters, "otlp_grpc/second"]} for name, exporters in senders.items()
    }


def test_servers_are_started_as_the_process_tests_start_them(stack: Stack):
    for service, process in stack.processes.items():
        tested = flags([*process.command[1:]])
        shipped = flags([*reversed(SERVICES[service]["command"])])  # the first of a name holds

        tested.pop("web.listen-address", None)  # the default is right where nobody else listens
        assert tested.keys() <= shipped.keys(), service
        for name, value in tested.items():
            if "/" in value:
                same = name in STATE_FLAGS[service] if service in STATE_FLAGS else False
                assert same or Path(value).name == Path(shipped[name]).name, (service, name)
            else:
                assert value == shipped[name], (service, name)


def test_files_that_prometheus_and_alertmanager_look_for_lie_beside_theirs():
    prometheus = yaml.safe_load((ROOT / "collector" / "prometheus.yaml").read_text("utf-8"))
    for name in prometheus["rule_files"]:
        assert mounts("prometheus")[f"/etc/prometheus/{name}"][0] == f"./collector/{name}"
    assert mounts("prometheus")["/etc/prometheus/targets"][0] == "./collector/targets"
    alertmanager = (ROOT / "collector" / "alertmanager.yaml").read_text("utf-8")
    wanted = set(re.findall(r"secrets/(\w+)", alertmanager))
    made = set(re.findall(r"^make_secret (\w+)", script("setup"), re.MULTILINE))
    assert wanted <= made
    assert SERVICES["alertmanager"]["working_dir"] == "/etc/alertmanager"
    assert "/etc/alertmanager/secrets" in mounts("alertmanager")


def test_grafana_gets_dashboards_and_provisioning():
    provisioning = ROOT / "dashboards" / "provisioning"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "otelhooks.yaml").read_text())[
        "providers"
    ]
    found = mounts("grafana")

    assert found["/etc/grafana/provisioning"][0] == "./dashboards/provisioning"
    assert found[provider["options"]["path"]][0] == "./dashboards"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith(f"{provider['options']['path']}/")
    assert (ROOT / "dashboards" / Path(home).name).exists()


# --- Variables, addresses, ports, folders --------------------------------------------------------


@pytest.mark.parametrize("service", CONFIGURED)
def test_every_variable_is_one_of_the_file(service: str):
    given = set(SERVICES[service].get("environment", ())) - {"GOMEMLIMIT"}

    assert given <= variables(CONFIGURED[service]).keys()


@pytest.mark.parametrize("service", ["otelcol", "tempo", "jaeger"])
def test_a_state_folder_is_a_volume(service: str):
    folders = [
        value for name, value in variables(CONFIGURED[service]).items() if name.endswith("_STATE")
    ]

    assert {mounts(service)[folder] for folder in folders} == {(service, "rw")}


@pytest.mark.parametrize(("service", "flag"), STATE_FLAGS.items())
def test_a_data_folder_is_a_volume(service: str, flag: str):
    folder = flags(SERVICES[service]["command"])[flag.lstrip("-")]

    assert mounts(service)[folder] == (service, "rw")


def test_the_token_file_is_where_the_collector_looks():
    path = Path(variables("single.yaml")["OTLP_TOKEN_FILE"])

    assert mounts("otelcol")[str(path.parent)] == ("secrets", "ro")
    assert f"make_secret {path.name} " in script("setup")
    assert str(path) in script("demo")


def test_the_demo_finds_the_collector_as_the_agents_of_the_tests_do(stack: Stack):
    tested = stack.agent_environment()
    header = tested.pop("OTEL_EXPORTER_OTLP_HEADERS").replace(stack.token, "$(cat ")
    given = SERVICES["demo"]["environment"]

    assert f'OTEL_EXPORTER_OTLP_HEADERS="{header}' in script("demo")
    for name, value in tested.items():
        if name.startswith("OTEL_"):
            port = stack.settings["OTELCOL_HTTP_PORT"]
            assert given[name] == value.replace("127.0.0.1", "otelcol").replace(port, "4318")


def listens() -> dict[str, set[str]]:
    """Return the ports that each server listens on, by its file or its default."""
    ports = {service: set[str]() for service in SERVICES}
    for service in ("otelcol", "tempo", "jaeger"):
        found = variables(CONFIGURED[service])
        ports[service] = {port for name, port in found.items() if name.endswith("_PORT")}
    ports |= {"prometheus": {"9090"}, "alertmanager": {"9093"}, "grafana": {"3000"}}
    return ports | {"oncall": {"8088"}}


def test_addresses_name_a_service_and_a_port_it_listens_on():
    texts = [
        *(path.read_text("utf-8") for path in (ROOT / "collector").glob("*.yaml")),
        *(path.read_text("utf-8") for path in (ROOT / "collector" / "targets").iterdir()),
        (ROOT / "dashboards/provisioning/datasources/otelhooks.yaml").read_text("utf-8"),
        FILE.read_text("utf-8"),
    ]
    names = "|".join(SERVICES)
    found = {
        (service, port)
        for text in texts
        for service, port in re.findall(rf"(?<![\w./])(?:https?://)?({names}):(\d{{4,5}})\b", text)
        if service != "setup" and port not in {"10001", "65534"}  # owners in the setup
    }

    assert {service for service, _ in found} >= {"tempo", "prometheus", "otelcol", "alertmanager"}
    for service, port in found:
        assert port in listens()[service], f"nobody listens on {service}:{port}"


def test_ports_are_published_on_loopback_only_and_listened_on():
    for name, service in SERVICES.items():
        for port in service.get("ports", ()):
            address, outside, inside = port.split(":")
            assert (address, outside) == ("127.0.0.1", inside), f"{name}: {port}"
            assert inside in listens()[name], f"{name}: {port}"


# --- Versions, limits, rights --------------------------------------------------------------------


def test_images_are_those_of_the_process_tests():
    tags = {
        name: service["image"].partition(":")[2]
        for name, service in SERVICES.items()
        if "build" not in service
    }
    versions = {recipe.name: recipe.version.lstrip("v") for recipe in RECIPES}

    assert all(re.fullmatch(r"v?\d+\.\d+\.\d+", tag) for tag in tags.values()), tags
    assert tags["otelcol"] == versions["otelcol"]
    assert tags["alertmanager"] == f"v{versions['alertmanager']}"
    # Their modules are numbered apart: Prometheus v0.308.0 is 3.8.0, Jaeger 1.76.0 is 2.13.0.
    assert versions["prometheus"] == "0.308.0"
    assert tags["prometheus"] == "v3.8.0"
    assert versions["jaeger"] == "1.76.0"
    assert tags["jaeger"] == "2.13.0"


def test_nobody_is_root_and_nothing_can_be_written_but_volumes():
    for name, service in SERVICES.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        if name == "setup":
            assert service["network_mode"] == "none"
        else:
            uid, _, gid = service["user"].partition(":")
            assert int(uid), name
            assert int(gid), name
            assert not service.keys() & {"cap_add", "privileged", "network_mode"}, name


def test_volumes_belong_to_who_writes_them():
    owners = dict(
        re.findall(r"\b(\w+):(\d+)\b", re.search(r"for each in (.*);", script("setup"))[1])
    )
    for name in SERVICES:
        for source, mode in mounts(name).values():
            if source in owners and name != "setup":
                assert mode == "rw"
                assert SERVICES[name]["user"] == f"{owners[source]}:{owners[source]}"
    assert owners.keys() == COMPOSE["volumes"].keys() - {"secrets"}


def test_the_collectors_memory_limits_agree():
    limiter = yaml.safe_load((ROOT / "collector" / "single.yaml").read_text("utf-8"))
    share = limiter["processors"]["memory_limiter"]["limit_percentage"]
    collector = SERVICES["otelcol"]
    limit = int(collector["mem_limit"].removesuffix("m"))

    assert collector["environment"]["GOMEMLIMIT"] == f"{limit * share // 100}MiB"
    assert variables("single.yaml")["OTELCOL_MEMORY_MIB"] == "0"  # else the share does not hold


def test_what_runs_on_is_limited_and_can_be_asked_whether_it_is_well():
    for name, service in SERVICES.items():
        if service.get("restart") is None:
            continue  # ends by itself
        assert "mem_limit" in service, name
        if name not in {"otelcol", "demo"}:  # asked by otelcol-ready; nobody waits for the demo
            assert service["healthcheck"]["test"][0] == "CMD", name


def test_who_waits_for_health_waits_for_one_that_says_it():
    for name, service in SERVICES.items():
        for other, wanted in service.get("depends_on", {}).items():
            what = (name, other)
            assert other in SERVICES, what
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], what
            if wanted["condition"] == "service_completed_successfully":
                assert "restart" not in SERVICES[other], what
            assert not SERVICES[other].get("profiles"), f"{what}: it is not always there"


# --- What runs in them ---------------------------------------------------------------------------


def set_up(folder: Path, tmp_path: Path) -> None:
    """Run the setup's script there; not as root, owners are written to a file instead."""
    programs = tmp_path / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "chown").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/owners\n')
    (programs / "chown").chmod(0o755)
    subprocess.run(
        ["sh", "-euc", script("setup")],
        cwd=folder,
        env={"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        check=True,
        capture_output=True,
    )


def test_the_setup_makes_secrets_once_for_their_readers_only(tmp_path: Path):
    folder = tmp_path / "volumes"
    for name in COMPOSE["volumes"]:
        (folder / name).mkdir(parents=True)
    own = folder / "secrets" / "webhook_token"
    own.write_text("mine")

    set_up(folder, tmp_path)
    first = {path.name: path.read_text() for path in (folder / "secrets").iterdir()}
    set_up(folder, tmp_path)
    second = {path.name: path.read_text() for path in (folder / "secrets").iterdir()}

    assert first == second
    assert first["webhook_token"] == "mine"
    assert re.fullmatch(r"[\w-]{43}", first["otlp_token"])
    assert first["otlp_token"] != first["grafana_password"]
    for path in (folder / "secrets").iterdir():
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode in {0o400, 0o440}, (path.name, oct(mode))
    owners = dict(
        reversed(line.split()[-2:]) for line in (tmp_path / "owners").read_text().splitlines()
    )
    assert owners["secrets/otlp_token"] == SERVICES["otelcol"]["user"]
    assert SERVICES["demo"]["user"].partition(":")[2] == owners["secrets/otlp_token"].split(":")[1]
    assert owners["secrets/webhook_token"] == SERVICES["alertmanager"]["user"]
    assert owners["secrets/webhook_token"] == SERVICES["oncall"]["user"]
    assert owners["secrets/grafana_password"] == SERVICES["grafana"]["user"]


def send(url: str, token: str, body: dict[str, Any]) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_pager_prints_what_shows_the_token(tmp_path: Path):
    (tmp_path / "token").write_text("right\n")
    (port,) = free_ports(1)
    alert = {"status": "firing", "labels": {"alertname": "Deny"}, "annotations": {"summary": "s"}}
    environment = {"WEBHOOK_TOKEN_FILE": str(tmp_path / "token"), "PORT": str(port)}
    url = f"http://127.0.0.1:{port}/oncall"
    command = (sys.executable, "-uc", script("oncall"))
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as pager:
        try:
            while True:
                try:
                    refused = send(url, "wrong", {"alerts": [alert]})
                    break
                except OSError:
                    assert pager.poll() is None
            taken = send(url, "right", {"alerts": [alert]})
            printed = pager.stdout.readline()
        finally:
            pager.terminate()

    assert (refused, taken) == (401, 200)
    assert printed == "oncall firing Deny s \n"
