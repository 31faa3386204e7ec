"""`otelhooks demo` as a user calls it: what it prints, and that the commands at its end work."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from otelhooks.cli import cli

pytest.importorskip("mcp")

ROOT = Path(__file__).parents[2]


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as it was printed, with data of its own."""
    env = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
    return subprocess.run(
        command, shell=True, cwd=ROOT, env=env, capture_output=True, text=True, timeout=110
    )


@pytest.mark.parametrize("store", ["", "a store's.db"], ids=["data folder", "named"])
def test_the_three_commands_at_the_end_work_when_they_are_pasted(
    tmp_path: Path, store: str
) -> None:
    named = f" --store {shlex.quote(str(tmp_path / store))}" if store else ""
    python = shlex.quote(sys.executable)
    done = shell(f"{python} -m otelhooks demo --framework mcp{named}", tmp_path)
    assert (done.returncode, "✗ deny" in done.stdout) == (0, True), done.stderr

    listed, shown, proved = (
        shell(line, tmp_path) for line in done.stdout.partition("Look further:\n")[2].splitlines()
    )

    assert (listed.returncode, "3 refused" in listed.stdout) == (0, True), listed
    assert (shown.returncode, "invoke_agent mcp-host" in shown.stdout) == (0, True), shown
    assert [file.name for file in tmp_path.rglob("*.db")] == [store or "store-demo.db"]
    assert (proved.returncode, "proved" in proved.stdout) == (0, True), proved


def test_the_scripted_model_of_langchain_needs_nothing_but_langchain(tmp_path: Path) -> None:
    pytest.importorskip("langchain")
    code = (
        "import sys; sys.modules['mcp'] = None; from otelhooks.demo import scripted_model;"
        " scripted_model('langchain', ['Done.'])"
    )
    done = shell(f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}", tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_story_of_langchain_says_that_it_calls_a_server_of_mcp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("langchain")
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "mcp" else real(name)
    )
    result = CliRunner().invoke(cli, ["demo", "--framework", "langchain"])

    assert result.exit_code == 1
    assert "langchain: not installed (pip install langchain mcp)" in result.stderr
