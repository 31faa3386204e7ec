"""The manifest of docs/guide/kubernetes.md: a ConfigMap as Kubernetes mounts it, and changes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from otelhooks import config
from otelhooks.policy.files import source
from tests.test_docs import DOCS, blocks

CHANGES_WITHIN_S = 60

PROGRAM = """
import sys, time
import otelhooks

@otelhooks.tool
def run_command(command): return "ran"

otelhooks.instrument()
last = ""
while True:
    try:
        verdict = run_command("rm -rf build")
    except otelhooks.errors.Denied as denied:
        verdict = str(denied)
    if verdict != last:
        print(verdict, flush=True)
    last = verdict
    time.sleep(0.05)
"""


def _has_own_mounts() -> bool:
    command = ["unshare", "--map-root-user", "--mount", "true"]
    return bool(shutil.which("unshare")) and not subprocess.run(command, check=False).returncode


own_mounts = pytest.mark.skipif(not _has_own_mounts(), reason="needs mounts of its own (unshare)")


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    """The page's objects, by kind."""
    (text,) = [b.code for b in blocks(DOCS / "guide" / "kubernetes.md") if b.title == "agent.yaml"]
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


@pytest.fixture
def container(manifest: dict[str, Any]) -> dict[str, Any]:
    (found,) = manifest["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found


def project(folder: Path, data: dict[str, str], version: str) -> None:
    """Write a ConfigMap into the folder of its volume, as the kubelet does, in one step."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    (folder / f"..{version}").mkdir(mode=0o755)
    for name, text in data.items():
        (folder / f"..{version}" / name).write_text(text)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..data_tmp").symlink_to(f"..{version}")
    (folder / "..data_tmp").rename(folder / "..data")


def test_the_settings_and_the_mount_of_the_page_fit(
    manifest: dict[str, Any], container: dict[str, Any], tmp_path: Path
) -> None:
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert {name for name in variables if name.startswith(config.PREFIX)} <= set(config.VARIABLES)
    (mount,) = container["volumeMounts"]
    assert (mount["mountPath"], mount["readOnly"]) == (variables["OTELHOOKS_POLICIES"], True)
    (volume,) = manifest["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert mount["name"] == volume["name"]
    assert volume["configMap"]["name"] == manifest["ConfigMap"]["metadata"]["name"]
    for name, text in manifest["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(text)
    assert source.read_all([tmp_path])


@pytest.fixture
def mounted(container: dict[str, Any], tmp_path: Path) -> Iterator[Any]:
    """Start the program where a folder is mounted read-only; what it prints, line by line."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "mount").mkdir()
    given = {each["name"]: each["value"] for each in container["env"]}
    variables = {name: value for name, value in given.items() if name.startswith(config.PREFIX)}
    own = {"OTELHOOKS_POLICIES": str(tmp_path / "mount"), "OTELHOOKS_ANNOUNCE": "false"}
    script = 'mount --bind volume mount && mount -o remount,bind,ro mount && exec "$0" program.py'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, sys.executable]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | variables | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        yield process.stdout
        process.kill()


@own_mounts
def test_a_file_that_every_user_may_write_is_refused_on_such_a_mount(
    manifest: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Another mount of the same file may be writable."""
    project(tmp_path / "volume", manifest["ConfigMap"]["data"], "2026_11_26_10_00_00.1")
    for name in manifest["ConfigMap"]["data"]:
        (tmp_path / "volume" / name).resolve().chmod(0o666)
    assert "every user may write" in request.getfixturevalue("mounted").read()


@own_mounts
@pytest.mark.timeout(300)
def test_a_changed_configmap_changes_the_verdict_without_a_restart(
    manifest: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    data = manifest["ConfigMap"]["data"]
    project(tmp_path / "volume", data, "2026_11_26_10_00_00.1")
    lines = request.getfixturevalue("mounted")
    assert lines.readline() == "Deleting files is not allowed here; list them instead.\n"
    changed = {name: text.replace("deny:", "allow:") for name, text in data.items()}
    assert changed != data
    until = time.monotonic() + CHANGES_WITHIN_S
    project(tmp_path / "volume", changed, "2026_11_26_10_01_00.2")
    assert lines.readline() == "ran\n"
    assert time.monotonic() < until
