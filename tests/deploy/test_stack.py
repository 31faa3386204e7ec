"""The runner behind `make stack`: building, keeping, starting, stopping, laying out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.e2e.stack import build as building
from tests.e2e.stack.build import KAFKA, RECIPES, BuildError, Recipe, build, built
from tests.e2e.stack.process import Process, StartError
from tests.e2e.stack.stack import FILES, Stack
from tests.e2e.stack.webhook import Webhook
from tests.ports import free_ports

# --- Building ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setattr(building, "CACHE", tmp_path / "servers")


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """Put a tool on the path that is a shell script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def tool(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return tool


@pytest.fixture
def go(tool):
    """Put a `go` on the path that is this shell script."""
    return partial(tool, "go")


DEMO = Recipe("demo", "example.org/demo", "v1.0.0", ("served", "tool"))

MAKES = """
if [ "$1" = mod ]; then mkdir -p module/cmd; echo "{\\"Dir\\": \\"$PWD/module\\"}"; exit; fi
echo "go $*" >> "$(dirname "$0")/calls"
for last; do :; done
while [ "$1" != -o ]; do shift; done
touch "$2served" "$2tool"
"""


def test_a_server_is_built_once(go, tmp_path):
    go(MAKES)

    first, second = build(DEMO), build(DEMO)

    assert first == second == built(DEMO)
    assert first["tool"] == DEMO.folder / "tool"
    assert len((tmp_path / "bin" / "calls").read_text().splitlines()) == 1
    assert (DEMO.folder / "build.log").exists()


def test_another_version_or_manifest_is_another_folder(tmp_path):
    manifest = tmp_path / "builder.yaml"
    manifest.write_text("a: 1")
    recipe = replace(DEMO, manifest=manifest)
    before = recipe.folder

    manifest.write_text("a: 2")

    assert len({DEMO.folder, replace(DEMO, version="v1.0.1").folder, before, recipe.folder}) == 4
    assert DEMO.folder.name.startswith("demo-")


def test_without_go_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(BuildError, match=r"demo cannot be built: there is no `go`.*\nhint: "):
        build(DEMO)


def test_a_module_that_cannot_be_had_is_named(go):
    go("""echo '{"Error": "example.org/demo@v1.0.0: not found"}'; exit 1""")

    with pytest.raises(BuildError, match=r"demo cannot be built: .*demo@v1\.0\.0: not found"):
        build(DEMO)


def test_what_go_said_last_is_in_the_error_and_nothing_half_built_is_kept(go):
    go(MAKES.replace("touch", "echo 'undefined: x' >&2; exit 2; touch"))

    with pytest.raises(BuildError, match=r"(?s)`go build .*` failed:.*undefined: x"):
        build(DEMO)

    assert built(DEMO) is None
    assert [path.name for path in building.CACHE.iterdir() if path.is_dir()] == []


def test_make_stack_goes_on_with_the_rest(go, monkeypatch, capsys):
    from tests.e2e.stack import __main__ as command

    go(MAKES)
    broken = replace(DEMO, name="broken", binaries=("never",))
    monkeypatch.setattr(command, "RECIPES", (broken, DEMO))
    monkeypatch.setattr(command, "build", lambda recipe: fail(recipe) or build(recipe))

    binaries, failures = command.build_all()

    assert (set(binaries), failures) == ({"served", "tool"}, 1)
    assert "error: broken cannot be built: because" in capsys.readouterr().err


def fail(recipe: Recipe) -> None:
    if recipe.name == "broken":
        raise BuildError(recipe.name, "because")


@pytest.mark.skipif(not FILES.exists(), reason="the configurations are not here")
def test_the_manifest_and_the_recipe_say_the_same_version():
    (recipe,) = (each for each in RECIPES if each.manifest)
    manifest = yaml.safe_load(recipe.manifest.read_text())

    assert f"v{manifest['dist']['version']}" == recipe.version
    for kind in ("extensions", "receivers", "processors", "connectors", "exporters"):
        assert {each["gomod"].split()[1] for each in manifest[kind]} == {recipe.version}


SAYS_17 = """echo 'openjdk version "17.0.15" 2025-04-15' >&2"""
COPIES = """
cp pom.xml "$(dirname "$0")/asked.xml"
for each; do case "$each" in -DoutputDirectory=*) mkdir -p "${each#*=}"; esac; done
"""


def test_archives_of_a_java_server_come_from_maven(tool, tmp_path):
    tool("java", SAYS_17)
    tool("mvn", COPIES)

    assert build(KAFKA) == built(KAFKA) == {"archives": KAFKA.folder / "archives"}

    asked = (tmp_path / "bin" / "asked.xml").read_text()
    for group, name, version in (
        ("org.apache.kafka", "kafka_2.13", KAFKA.version),
        ("org.apache.kafka", "kafka-tools", KAFKA.version),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ):
        artifact = f"<artifactId>{name}</artifactId><version>{version}</version>"
        assert f"<groupId>{group}</groupId>{artifact}" in asked


def test_other_artifacts_are_another_folder():
    fewer = replace(KAFKA, artifacts=KAFKA.artifacts[:1])

    assert fewer.folder != KAFKA.folder
    assert replace(KAFKA, version="4.3.0").folder != KAFKA.folder


def test_the_stack_does_not_need_kafka():
    assert KAFKA not in RECIPES
    assert not any(recipe.artifacts for recipe in RECIPES)


@pytest.mark.parametrize(("there", "missing"), [((), "java"), (("java",), "mvn")])
def test_without_java_or_maven_it_says_what_to_do(there, missing, tool, monkeypatch, tmp_path):
    for name in there:
        tool(name, SAYS_17)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    with pytest.raises(BuildError, match=f"kafka cannot .* no `{missing}`.*\nhint: .*Java 17"):
        build(KAFKA)


@pytest.mark.parametrize("said", ['openjdk version "11.0.2"', "no runtime present"])
def test_a_java_that_is_too_old_is_told(said, tool):
    tool("java", f"echo '{said}' >&2")
    tool("mvn", "exit 1")

    with pytest.raises(BuildError, match="kafka .* Java 17 or newer, .* says `" + said):
        build(KAFKA)


def test_what_maven_said_last_is_in_the_error(tool):
    tool("java", SAYS_17)
    tool("mvn", "echo 'Could not find artifact'; exit 1")

    with pytest.raises(BuildError, match=r"(?s)`mvn .*` failed:.*Could not find artifact"):
        build(KAFKA)

    assert built(KAFKA) is None


# --- Processes -----------------------------------------------------------------------------------

SERVES = """
import http.server, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("serving", flush=True)
http.server.HTTPServer(("127.0.0.1", {port}), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@pytest.fixture
def process(tmp_path):
    made = []

    def process(script: str = SERVES) -> Process:
        (port,) = free_ports(1)
        command = (sys.executable, "-c", script.replace("{port}", str(port)))
        url = f"http://127.0.0.1:{port}/"
        log = tmp_path / "server.log"
        made.append(Process("server", command, dict(os.environ), tmp_path, log, url))
        return made[-1]

    yield process
    for each in made:
        each.kill()


def test_a_started_process_is_ready_and_a_stopped_one_is_gone(process):
    server = process()

    server.start()
    pid = server.pid
    assert server.is_running
    server.stop()

    assert not server.is_running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_killed_process_can_be_started_again_and_its_log_goes_on(process):
    server = process()
    server.start()

    server.kill()
    server.start()

    assert server.log.read_text().splitlines().count("serving") == 2


def test_one_that_ends_at_its_start_is_told_with_its_last_words(process):
    server = process("import sys; sys.exit('config.yaml:7: unknown key')")

    with pytest.raises(StartError, match=r"ended at its start:\nconfig\.yaml:7: unknown"):
        server.start()


def test_one_that_is_not_ready_in_time_is_ended(process):
    server = process("import time; print('thinking', flush=True); time.sleep(60)")

    with pytest.raises(StartError, match="server was not ready after 3 s"):
        server.start(3)

    assert not server.is_running


def test_one_that_does_not_end_is_made_to(process):
    server = process(SERVES.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN"))
    server.start()

    server.stop(timeout_s=0.1)

    assert not server.is_running


@pytest.mark.skipif(sys.platform != "linux", reason="setpriv is Linux's")
def test_it_dies_with_the_process_that_started_it(process, tmp_path):
    server = process()
    script = f"""
import os, signal
from pathlib import Path
from tests.e2e.stack.process import Process
Process("server", {server.command!r}, dict(os.environ), Path("."), Path({str(server.log)!r}),
        {server._ready_url!r}).start()
os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).parents[2]
    ended = subprocess.run((sys.executable, "-c", script), cwd=root, timeout=30)

    assert ended.returncode == -signal.SIGKILL
    while answers(server._ready_url):
        pass


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


def test_free_ports_are_all_different():
    assert len(set(free_ports(20))) == 20


# --- Layout and webhook --------------------------------------------------------------------------


@pytest.fixture
def webhook():
    webhook = Webhook()
    yield webhook
    webhook.close()


@pytest.mark.skipif(not FILES.exists(), reason="the configurations are not here")
def test_servers_get_the_shipped_files_themselves(tmp_path, webhook):
    names = ("otelcol", "jaeger", "prometheus", "alertmanager")
    stack = Stack(tmp_path / "stack", {name: Path(name) for name in names}, webhook)

    given = [
        Path(argument.partition("=")[2]).resolve()
        for process in stack.processes.values()
        for argument in process.command
        if argument.startswith(("--config=", "--config.file="))
    ]

    assert sorted(path.name for path in given) == [
        "alertmanager.yaml",
        "jaeger.yaml",
        "prometheus.yaml",
        "single.yaml",
    ]
    assert {path.parent for path in given} == {FILES}
    assert (stack.folder / "prometheus" / "rules.yaml").resolve() == FILES / "rules.yaml"


@pytest.mark.skipif(not FILES.exists(), reason="the configurations are not here")
def test_secrets_are_read_by_their_owner_only_and_not_on_command_lines(tmp_path, webhook):
    stack = Stack(tmp_path / "stack", {"otelcol": Path("otelcol")}, webhook)

    secrets = [stack.token_file, *(stack.folder / "alertmanager/secrets").iterdir()]

    assert {path.stat().st_mode & 0o777 for path in secrets} == {0o600}
    (collector,) = stack.processes.values()
    said = json.dumps([*collector.command, *collector.environment.values()])
    assert stack.token not in said
    assert webhook.token not in said


@pytest.mark.skipif(not FILES.exists(), reason="the configurations are not here")
def test_a_server_without_a_program_is_left_out(tmp_path, webhook):
    stack = Stack(tmp_path / "stack", {"otelcol": Path("otelcol")}, webhook)

    assert tuple(stack.processes) == ("otelcol",)
    assert stack.left_out == ("jaeger", "alertmanager", "prometheus")


def test_the_webhook_takes_what_shows_its_token(webhook):
    def post(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{webhook.url}/oncall", b'{"alerts": []}', headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    assert (post("wrong"), post(webhook.token)) == (401, 200)
    (notification,) = webhook.notifications
    assert (notification.kind, notification.body) == ("oncall", {"alerts": []})
    assert webhook.refused == 1
