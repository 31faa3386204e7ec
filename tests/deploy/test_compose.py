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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.stack.build import KAFKA, RECIPES, ROOT
from tests.e2e.stack.process import Process
from tests.e2e.stack.stack import Stack
from tests.e2e.stack.webhook import Webhook
from tests.fleet.fleet import WITNESS, Fleet
from tests.fleet.kafka import PARTITIONS, PROPERTIES
from tests.ports import free_ports

FILE = ROOT / "docker-compose.yml"
FILES = ROOT / "collector"
README = ROOT / "dashboards" / "README.md"
# No profile, and the words that COMPOSE_PROFILES takes.
PROFILES = ("", "jaeger", "scale", "kafka")


def interpolated(profile: str) -> dict[str, Any]:
    """Return the file as Compose reads it with one word in COMPOSE_PROFILES and nothing else."""

    def value(found: re.Match[str]) -> str:
        return (profile if found[1] == "COMPOSE_PROFILES" else "") or found[2]

    return yaml.safe_load(re.sub(r"\$\{(\w+):-([^}]*)\}", value, FILE.read_text("utf-8")))


COMPOSE = interpolated("")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
# Profile to what it starts.
STARTED: dict[str, dict[str, dict[str, Any]]] = {
    profile: {
        name: service
        for name, service in interpolated(profile)["services"].items()
        if not service.get("profiles") or profile in service["profiles"]
    }
    for profile in PROFILES
}
# Compose service to the files of `collector/` that it runs with, by profile.
SERVERS = {
    "tempo": ("tempo.yaml",),
    "prometheus": ("prometheus.yaml",),
    "alertmanager": ("alertmanager.yaml",),
}
GATEWAYS = ("gateway-1", "gateway-2")
CONFIGURED: dict[str, dict[str, tuple[str, ...]]] = {
    "": {**SERVERS, "otelcol": ("single.yaml",)},
    "jaeger": {
        **SERVERS,
        "otelcol": ("single.yaml", "second-store.yaml"),
        "jaeger": ("jaeger.yaml",),
    },
    "scale": {
        **SERVERS,
        "otelcol": ("single.yaml", "agent.yaml"),
        **dict.fromkeys(GATEWAYS, ("gateway.yaml",)),
    },
    "kafka": {
        **SERVERS,
        "otelcol": ("single.yaml", "kafka.yaml"),
        **dict.fromkeys(GATEWAYS, ("gateway.yaml", "kafka-gateway.yaml")),
    },
}
RUNNING = [
    pytest.param(profile, service, files, id=f"{service} {profile}".strip())
    for profile, configured in CONFIGURED.items()
    for service, files in configured.items()
]
COLLECTORS = ("otelcol", *GATEWAYS)
# Where the images keep what is not in their configuration.
STATE_FLAGS = {"prometheus": "--storage.tsdb.path", "alertmanager": "--storage.path"}


def mounts(service: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return path inside to (source outside, mode); modes are `ro` and `rw`."""
    found: dict[str, tuple[str, str]] = {}
    for text in service.get("volumes", ()):
        source, path, *mode = text.split(":")
        assert path not in found, f"`{path}` is mounted twice"
        found[path] = (source, *(mode or ["rw"]))
    return found


def flags(command: Sequence[str]) -> dict[str, str]:
    """Return option to value, with one dash or two."""
    return {name.lstrip("-"): value for name, _, value in (each.partition("=") for each in command)}


def variables(*files: str) -> dict[str, str | None]:
    """Return the variables of files in `collector/`, each with its default or None."""
    return {
        found[1]: found[2]
        for file in files
        for found in re.finditer(
            r"(?<!\$)\$\{(?:env:)?(\w+)(?::-([^}]*))?\}", (FILES / file).read_text("utf-8")
        )
    }


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


@pytest.mark.parametrize("profile", PROFILES)
def test_every_bind_mount_is_a_shipped_file_and_read_only(profile: str):
    for name, service in STARTED[profile].items():
        for path, (source, mode) in mounts(service).items():
            if source.startswith("."):
                assert (ROOT / source).exists(), f"{name}: `{source}` is not there"
                assert mode == "ro", f"{name}: `{path}` can be written"
            else:
                assert source in COMPOSE["volumes"], f"{name}: no volume `{source}`"


@pytest.mark.parametrize(("profile", "service", "files"), RUNNING)
def test_a_server_runs_the_shipped_files(profile: str, service: str, files: tuple[str, ...]):
    """The first file may be given twice: merged with itself it stays what it is."""
    started = STARTED[profile][service]
    given = [
        mounts(started)[option.partition("=")[2]]
        for option in started["command"]
        if option.lstrip("-").startswith(("config=", "config.file="))
    ]

    assert {mode for _, mode in given} == {"ro"}
    assert tuple(dict.fromkeys(Path(source).name for source, _ in given)) == files
    assert {Path(source).parent for source, _ in given} == {Path("collector")}


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

        tested.pop("web.listen-address", None)  # the default is right if nothing else listens
        assert tested.keys() <= shipped.keys(), service
        for name, value in tested.items():
            if "/" in value:
                same = name in STATE_FLAGS[service] if service in STATE_FLAGS else False
                assert same or Path(value).name == Path(shipped[name]).name, (service, name)
            else:
                assert value == shipped[name], (service, name)


@pytest.mark.parametrize("profile", ["scale", "kafka"])
def test_a_fleet_has_the_files_of_the_process_tests(profile: str, tmp_path: Path):
    """Theirs also write down what a gateway is given."""
    webhook = Webhook()
    binaries = {name: Path("/bin") / name for name in ("otelcol", "jaeger", "prometheus")}
    fleet = Fleet(tmp_path, binaries, webhook, "kafka:9092" if profile == "kafka" else None)
    webhook.close()

    def files(process: Process) -> tuple[str, ...]:
        names = [Path(each.partition("=")[2]).name for each in process.command[1:]]
        return tuple(name for name in names if name != Path(WITNESS).name)

    assert {files(each) for each in fleet.agents} == {CONFIGURED[profile]["otelcol"]}
    assert {files(each) for each in fleet.gateways} == {CONFIGURED[profile]["gateway-1"]}
    assert len(fleet.gateways) == len(GATEWAYS)


def test_kafka_is_set_as_the_process_tests_set_it():
    """But for addresses and folders, TLS, and what is smaller or quicker for one short run."""
    tested = dict(line.split("=", 1) for line in PROPERTIES.splitlines())
    quicker = {"offsets.topic.num.partitions", "group.initial.rebalance.delay.ms"}
    of_tls = {name for name in tested if name.startswith("ssl.")} | {"inter.broker.listener.name"}
    shipped = {
        name.removeprefix("KAFKA_").replace("_", ".").lower(): value
        for name, value in SERVICES["kafka"]["environment"].items()
    }
    compared = {
        name: value
        for name, value in tested.items()
        if name not in quicker | of_tls and "{" not in value and "listener.security" not in name
    }

    assert len(compared) > 5
    assert compared == {name: shipped.get(name) for name in compared}


def test_files_that_prometheus_and_alertmanager_look_for_lie_beside_theirs():
    prometheus = yaml.safe_load((FILES / "prometheus.yaml").read_text("utf-8"))
    for name in prometheus["rule_files"]:
        assert mounts(SERVICES["prometheus"])[f"/etc/prometheus/{name}"][0] == f"./collector/{name}"
    alertmanager = (FILES / "alertmanager.yaml").read_text("utf-8")
    wanted = set(re.findall(r"secrets/(\w+)", alertmanager))
    made = set(re.findall(r"^make_secret (\w+)", script("setup"), re.MULTILINE))
    assert wanted <= made
    assert SERVICES["alertmanager"]["working_dir"] == "/etc/alertmanager"
    assert "/etc/alertmanager/secrets" in mounts(SERVICES["alertmanager"])


@pytest.mark.parametrize("profile", PROFILES)
def test_prometheus_scrapes_the_collectors_that_are_started_and_no_other(profile: str):
    """One that is never started would be an alert."""
    prometheus = yaml.safe_load((FILES / "prometheus.yaml").read_text("utf-8"))
    found = mounts(STARTED[profile]["prometheus"])
    jobs = {
        job["job_name"]: [
            target
            for discovered in job["file_sd_configs"]
            for name in discovered["files"]
            if f"/etc/prometheus/{name}" in found
            for group in yaml.safe_load((ROOT / found[f"/etc/prometheus/{name}"][0]).read_text())
            for target in group["targets"]
        ]
        for job in prometheus["scrape_configs"]
    }

    gateways = [f"{name}:8888" for name in GATEWAYS if name in STARTED[profile]]
    assert jobs == {"collector": ["otelcol:8888"], "gateway": gateways}
    (alertmanagers,) = prometheus["alerting"]["alertmanagers"]
    ((file,),) = (each["files"] for each in alertmanagers["file_sd_configs"])
    assert found[f"/etc/prometheus/{file}"] == (f"./collector/{file}", "ro")


def test_grafana_gets_dashboards_and_provisioning():
    provisioning = ROOT / "dashboards" / "provisioning"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "otelhooks.yaml").read_text())[
        "providers"
    ]
    found = mounts(SERVICES["grafana"])

    assert found["/etc/grafana/provisioning"][0] == "./dashboards/provisioning"
    assert found[provider["options"]["path"]][0] == "./dashboards"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith(f"{provider['options']['path']}/")
    assert (ROOT / "dashboards" / Path(home).name).exists()


# --- Variables, addresses, ports, folders --------------------------------------------------------


@pytest.mark.parametrize(("profile", "service", "files"), RUNNING)
def test_a_variable_that_is_set_is_one_of_the_files(
    profile: str, service: str, files: tuple[str, ...]
):
    given = set(STARTED[profile][service].get("environment", ())) - {"GOMEMLIMIT"}

    assert given <= variables(*files).keys()


@pytest.mark.parametrize(("profile", "service", "files"), RUNNING)
def test_a_variable_that_is_not_set_has_a_default_that_holds_in_compose(
    profile: str, service: str, files: tuple[str, ...]
):
    """A path is in a volume, a secret is made, an address is looked at below."""
    started = STARTED[profile][service]
    defaults = variables(*files)
    for name, default in defaults.items():
        if name in started.get("environment", ()):
            continue
        assert default is not None, f"{service}: `{name}` has no value"
        if default.startswith("/run/secrets/"):
            assert mounts(started)["/run/secrets"] == ("secrets", "ro"), name
            assert f"make_secret {Path(default).name} " in script("setup"), name
        elif default.startswith("/"):
            assert mounts(started)[default] == (service, "rw"), name
        elif not default:  # a certificate: none is asked for
            assert defaults[f"{name.partition('_')[0]}_INSECURE"] == "true", name


@pytest.mark.parametrize(("service", "flag"), STATE_FLAGS.items())
def test_a_data_folder_is_a_volume(service: str, flag: str):
    folder = flags(SERVICES[service]["command"])[flag.lstrip("-")]

    assert mounts(SERVICES[service])[folder] == (service, "rw")


def test_the_token_file_is_where_the_demo_looks():
    assert str(variables("single.yaml")["OTLP_TOKEN_FILE"]) in script("demo")


def test_collectors_show_the_token_that_gateways_ask_for():
    shown = variables("agent.yaml")["GATEWAY_TOKEN_FILE"]

    assert shown == variables("gateway.yaml")["OTLP_TOKEN_FILE"]
    assert shown != variables("single.yaml")["OTLP_TOKEN_FILE"]


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
    for configured in CONFIGURED.values():
        for service, files in configured.items():
            ports[service] |= {
                str(port) for name, port in variables(*files).items() if name.endswith("_PORT")
            }
    ports["kafka"] |= set(
        re.findall(r":(\d+)", SERVICES["kafka"]["environment"]["KAFKA_LISTENERS"])
    )
    for service, port in {
        "prometheus": "9090",
        "alertmanager": "9093",
        "grafana": "3000",
        "oncall": "8088",
    }.items():
        ports[service].add(port)
    return ports


def addresses(text: str) -> set[tuple[str, str]]:
    """Return what in a text is a service of compose and a port."""
    names = "|".join(map(re.escape, SERVICES))
    found = re.findall(rf"(?<![\w./-])(?:\w+://)?({names}):(\d{{4,5}})\b", text)
    owners = {"1000", "10001", "65534"}  # in the setup
    return {(service, port) for service, port in found if port not in owners}


def test_addresses_name_a_service_and_a_port_it_listens_on():
    texts = [
        *(path.read_text("utf-8") for path in FILES.glob("*.yaml")),
        *(path.read_text("utf-8") for path in (FILES / "targets").iterdir()),
        (ROOT / "dashboards/provisioning/datasources/otelhooks.yaml").read_text("utf-8"),
        FILE.read_text("utf-8"),
    ]
    found = set[tuple[str, str]]().union(*map(addresses, texts))

    assert {service for service, _ in found} >= {
        *("tempo", "prometheus", "otelcol", "alertmanager", "jaeger", "kafka"),
        *GATEWAYS,
    }
    for service, port in found:
        assert port in listens()[service], f"nobody listens on {service}:{port}"


@pytest.mark.parametrize(("profile", "service", "files"), RUNNING)
def test_a_profile_starts_what_its_servers_talk_to(
    profile: str, service: str, files: tuple[str, ...]
):
    texts = "".join((FILES / file).read_text("utf-8") for file in files)
    texts += str(STARTED[profile][service].get("environment", ""))

    assert {name for name, _ in addresses(texts)} <= STARTED[profile].keys()


def test_a_profile_starts_its_servers_and_what_serves_them():
    at_all_times = {"setup", "oncall", "otelcol-ready", "grafana", "demo"}
    more = {
        "": set[str](),
        "jaeger": {"profile-is-set"},
        "scale": {"profile-is-set", "gateways-ready"},
        "kafka": {"profile-is-set", "gateways-ready", "kafka", "topics"},
    }
    for profile, configured in CONFIGURED.items():
        assert STARTED[profile].keys() == configured.keys() | at_all_times | more[profile]


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
    versions = {recipe.name: recipe.version.lstrip("v") for recipe in (*RECIPES, KAFKA)}

    assert all(re.fullmatch(r"v?\d+\.\d+\.\d+", tag) for tag in tags.values()), tags
    assert {tags[name] for name in COLLECTORS} == {versions["otelcol"]}
    assert tags["alertmanager"] == f"v{versions['alertmanager']}"
    assert tags["kafka"] == tags["topics"] == versions["kafka"]
    # Their modules are numbered apart: Prometheus v0.308.0 is 3.8.0, Jaeger 1.76.0 is 2.13.0.
    assert versions["prometheus"] == "0.308.0"
    assert tags["prometheus"] == "v3.8.0"
    assert versions["jaeger"] == "1.76.0"
    assert tags["jaeger"] == "2.13.0"


def test_no_service_is_root_and_only_volumes_can_be_written():
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
    listed = re.search(r"for each in (.*?); do", script("setup"), re.DOTALL)
    assert listed
    owners = dict(re.findall(r"([\w-]+):(\d+)\b", listed[1]))
    for name, service in SERVICES.items():
        for source, mode in mounts(service).values():
            if source in owners and name != "setup":
                assert source == name, "two servers in one folder"
                assert mode == "rw"
                assert service["user"] == f"{owners[source]}:{owners[source]}"
    assert owners.keys() == COMPOSE["volumes"].keys() - {"secrets"}
    assert {source for source, _ in mounts(SERVICES["setup"]).values()} == COMPOSE["volumes"].keys()


@pytest.mark.parametrize("name", COLLECTORS)
def test_a_collectors_memory_limits_agree(name: str):
    file = CONFIGURED["scale"][name][0]
    limiter = yaml.safe_load((FILES / file).read_text("utf-8"))["processors"]["memory_limiter"]
    limit = int(SERVICES[name]["mem_limit"].removesuffix("m"))
    share = limit * limiter["limit_percentage"] // 100

    assert SERVICES[name]["environment"]["GOMEMLIMIT"] == f"{share}MiB"
    assert variables(file)["OTELCOL_MEMORY_MIB"] == "0"  # else the share does not hold


def test_kafkas_heap_leaves_room_for_what_is_not_heap():
    (heap,) = re.findall(r"-Xmx(\d+)m", SERVICES["kafka"]["environment"]["KAFKA_HEAP_OPTS"])

    assert int(heap) <= int(SERVICES["kafka"]["mem_limit"].removesuffix("m")) / 2


def test_what_runs_on_is_limited_and_can_be_asked_whether_it_is_well():
    for name, service in SERVICES.items():
        if service.get("restart") is None:
            continue  # ends by itself
        assert "mem_limit" in service, name
        if name not in {*COLLECTORS, "demo"}:  # those are checked below; the demo is not waited for
            assert service["healthcheck"]["test"][0] == "CMD", name


@pytest.mark.parametrize("profile", PROFILES)
def test_every_collector_that_is_started_is_asked_whether_it_is_ready(profile: str):
    asked = {
        name
        for ready in ("otelcol-ready", "gateways-ready")
        if ready in STARTED[profile]
        for name in STARTED[profile][ready]["environment"]["COLLECTORS"].split()
        if name in STARTED[profile][ready]["depends_on"]
    }

    assert asked == STARTED[profile].keys() & COLLECTORS
    for name in asked:
        port = variables(*CONFIGURED[profile][name])["OTELCOL_HEALTH_PORT"]
        assert f"http://$name:{port}/ready" in script("otelcol-ready")
    assert script("gateways-ready") == script("otelcol-ready")


@pytest.mark.parametrize("profile", PROFILES)
def test_who_waits_for_health_waits_for_one_that_says_it(profile: str):
    started = STARTED[profile]
    for name, service in started.items():
        for other, wanted in service.get("depends_on", {}).items():
            what = (name, other)
            if other not in started:
                assert other in SERVICES, what
                assert wanted.get("required") is False, f"{what}: it is not always there"
                continue
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in started[other], what
            if wanted["condition"] == "service_completed_successfully":
                assert "restart" not in started[other], what


# --- Profiles ------------------------------------------------------------------------------------


def test_the_documents_name_profiles_that_there_are():
    for path in (FILE, README):
        named = re.findall(r"COMPOSE_PROFILES=(\S+) docker compose", path.read_text("utf-8"))
        assert {*named} == {*PROFILES} - {""}, path.name


def test_no_profile_changes_what_is_started_without_one():
    """But the collector's second file, and the name under which Prometheus has the gateways."""
    without = STARTED[""]
    for profile in PROFILES[1:]:
        changed = {name for name in without if STARTED[profile][name] != without[name]}
        assert changed == {"setup", "otelcol", "prometheus"}
        for name in changed:
            text = str(STARTED[profile][name])
            assert text.replace(profile, "none") == str(without[name]).replace(profile, "none")


@pytest.mark.parametrize("service", ["jaeger", *GATEWAYS, "kafka"])
def test_a_profile_by_the_option_is_refused_before_anything_of_it_starts(service: str):
    """Interpolation does not see `--profile`: the collector would send there nothing."""
    ran = subprocess.run(
        ["sh", "-euc", script("profile-is-set")],
        env={**SERVICES["profile-is-set"]["environment"], "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )

    assert "profile-is-set" in SERVICES[service]["depends_on"]
    assert ran.returncode == 1
    assert "COMPOSE_PROFILES=scale docker compose up" in ran.stderr


@pytest.mark.parametrize("profile", PROFILES[1:])
def test_a_profile_by_the_variable_is_not_refused(profile: str):
    checked = STARTED[profile]["profile-is-set"]

    subprocess.run(
        ["sh", "-euc", script("profile-is-set")],
        env={**checked["environment"], "PATH": os.environ["PATH"]},
        check=True,
    )


def test_without_a_profile_gateways_have_nothing_to_run_with():
    """Started past the check, they end: no configuration that reads what is never written."""
    for name in GATEWAYS:
        *_, second = SERVICES[name]["command"]
        assert second.partition("=")[2] not in mounts(SERVICES[name])


def test_kafka_takes_what_is_written_to_it():
    kafka = SERVICES["kafka"]["environment"]
    writing = yaml.safe_load((FILES / "kafka.yaml").read_text("utf-8"))["exporters"]
    topics = {variables("kafka.yaml")[f"KAFKA_{name}_TOPIC"] for name in ("SPANS", "AUDIT")}
    made = re.search(r"for topic in (.*); do", script("topics"))
    partitions = re.search(r"--partitions (\d+)\n", script("topics"))

    assert {str(each["producer"]["max_message_bytes"]) for each in writing.values()} == {
        kafka["KAFKA_MESSAGE_MAX_BYTES"]
    }
    assert made
    assert {*made[1].split()} == topics
    assert partitions
    assert int(partitions[1]) == PARTITIONS >= len(GATEWAYS)
    assert kafka["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"  # one with a single partition
    assert variables("kafka.yaml")["KAFKA_BROKERS"] == "[kafka:9092]"
    assert kafka["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://kafka:9092"
    assert mounts(SERVICES["kafka"])[kafka["KAFKA_LOG_DIRS"]] == ("kafka", "rw")


# --- What runs in them ---------------------------------------------------------------------------


def set_up(folder: Path, tmp_path: Path, profile: str = "none") -> subprocess.CompletedProcess[str]:
    """Run the setup's script there; not as root, owners are written to a file instead."""
    programs = tmp_path / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "chown").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/owners\n')
    (programs / "chown").chmod(0o755)
    return subprocess.run(
        ["sh", "-euc", script("setup")],
        cwd=folder,
        env={"PROFILE": profile, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("profile", ["scales", "kafka,scale", "*"])
def test_the_setup_refuses_a_profile_that_the_collector_does_not_know(profile: str, tmp_path: Path):
    folder = tmp_path / "volumes"
    folder.mkdir()
    refused = set_up(folder, tmp_path, profile)

    assert refused.returncode == 1
    assert f"not {profile}" in refused.stderr
    assert not [*folder.iterdir()]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_setup_takes_every_profile(profile: str, tmp_path: Path):
    folder = tmp_path / "volumes"
    for name in COMPOSE["volumes"]:
        (folder / name).mkdir(parents=True)

    ran = set_up(folder, tmp_path, STARTED[profile]["setup"]["environment"]["PROFILE"])

    assert ran.returncode == 0, ran.stderr


def wait_for(collectors: str, ready: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run the script that waits, with collectors that answer and others that do not."""
    programs = tmp_path / "programs"
    programs.mkdir()
    asked = f'case "$url" in http://{ready}:13133/ready) ;; *) exit 1 ;; esac'
    for name, text in {"wget": f"for url; do :; done\n{asked}", "sleep": ""}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    return subprocess.run(
        ["sh", "-euc", script("gateways-ready")],
        env={"COLLECTORS": collectors, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )


def test_who_waits_for_collectors_goes_on_when_all_are_ready(tmp_path: Path):
    waited = wait_for("gateway-1 gateway-2", "gateway-*", tmp_path)

    assert (waited.returncode, waited.stderr) == (0, "")


def test_who_waits_for_collectors_names_the_one_that_is_not_ready(tmp_path: Path):
    waited = wait_for("gateway-1 gateway-2", "gateway-1", tmp_path)

    assert waited.returncode == 1
    assert waited.stderr == (
        "gateway-2 was not ready within a minute: docker compose logs gateway-2\n"
    )


def test_the_setup_makes_secrets_once_for_their_readers_only(tmp_path: Path):
    folder = tmp_path / "volumes"
    for name in COMPOSE["volumes"]:
        (folder / name).mkdir(parents=True)
    own = folder / "secrets" / "webhook_token"
    own.write_text("mine")

    assert set_up(folder, tmp_path).returncode == 0
    first = {path.name: path.read_text() for path in (folder / "secrets").iterdir()}
    assert set_up(folder, tmp_path).returncode == 0
    second = {path.name: path.read_text() for path in (folder / "secrets").iterdir()}

    assert first == second
    assert first["webhook_token"] == "mine"
    assert re.fullmatch(r"[\w-]{43}", first["otlp_token"])
    assert first["otlp_token"] != first["grafana_password"]
    assert first["otlp_token"] != first["gateway_token"]
    for path in (folder / "secrets").iterdir():
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode in {0o400, 0o440}, (path.name, oct(mode))
    owners = dict(
        reversed(line.split()[-2:]) for line in (tmp_path / "owners").read_text().splitlines()
    )
    assert owners["secrets/otlp_token"] == SERVICES["otelcol"]["user"]
    assert SERVICES["demo"]["user"].partition(":")[2] == owners["secrets/otlp_token"].split(":")[1]
    # The demo's group reads the one token, only collectors the other.
    assert owners["secrets/gateway_token"] == SERVICES["gateway-1"]["user"]
    assert stat.S_IMODE((folder / "secrets" / "gateway_token").stat().st_mode) == 0o400
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
