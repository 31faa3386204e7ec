"""Commands as programs: their words, their exit codes, and no start without the rules."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import otelhooks

GUARD = """\
from google.antigravity.hooks import policy, pre_tool_call_decide
from google.antigravity.types import HookResult, ToolCall


@pre_tool_call_decide
async def guard(data: ToolCall) -> HookResult:
    return HookResult(allow="rm" not in data.args["CommandLine"])


rules = [policy.deny("run_command"), policy.allow_all()]
"""


def test_the_module_runs_as_the_command() -> None:
    command = [sys.executable, "-m", "otelhooks", "version"]

    output = subprocess.run(command, capture_output=True, text=True)

    assert (output.stdout, output.stderr) == (f"{otelhooks.__version__}\n", "")


@pytest.mark.skipif(os.name == "nt", reason="there are no such pipes")
@pytest.mark.parametrize(
    "command",
    [
        ["trace", "list"],
        ["trace", "show"],
        ["trace", "tail", "--all"],
        ["trace", "export", "--file", "-"],
        ["trace", "list", "--json"],
        ["policy", "schema"],
        ["policy", "check", "governed"],
        ["audit", "show"],
        ["version"],
    ],
    ids=" ".join,
)
def test_a_reader_that_leaves_is_not_an_error(command: list[str], tmp_path: Path) -> None:
    variables = {
        "OTELHOOKS_STORE": str(tmp_path / "store.db"),
        "OTELHOOKS_AUDIT": str(tmp_path / "audit"),
    }
    work = (
        "import otelhooks\notelhooks.instrument(policies=[otelhooks.policy.deny('t')])\n"
        "try: otelhooks.call_tool('t', {}, lambda: 1)\n"
        "except otelhooks.errors.Denied: pass\n"
    )
    subprocess.run([sys.executable, "-c", work], env={**os.environ, **variables}, check=True)
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [sys.executable, "-m", "otelhooks", *command],
        env={**os.environ, **variables},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )

    os.close(writer)
    assert done.returncode == (0 if command[:2] == ["policy", "check"] else 141), done.stderr
    assert "error" not in done.stderr.replace("0 errors", "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            ["opentelemetry-instrument", sys.executable, "-c", "print('ran')"],
            marks=pytest.mark.skipif(
                importlib.util.find_spec("opentelemetry.instrumentation") is None,
                reason="opentelemetry-instrument is not there",
            ),
        ),
        [sys.executable, "-c", "import otelhooks; otelhooks.instrument(); print('ran')"],
    ],
)
def test_no_way_to_start_goes_on_without_the_rules(command: list[str], tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    command = [str(folder / command[0]) if "/" not in command[0] else command[0], *command[1:]]
    variables = {"OTELHOOKS_POLICY": "rules.yaml", "OTELHOOKS_STORE": str(tmp_path / "store.db")}
    done = subprocess.run(
        command,
        env={**variables, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "ran" not in done.stdout
    assert "did you mean `OTELHOOKS_POLICIES`?" in done.stderr


class TestRunWithPolicyFiles:
    """`otelhooks run`, with files that a variable names."""

    CODE = """
import otelhooks
@otelhooks.tool
def act(): print("it ran")
try: act()
except otelhooks.errors.Denied as error: print("denied:", error)
"""

    def _run(self, folder: Path, rules: str) -> subprocess.CompletedProcess[str]:
        (folder / "policies").mkdir()
        (folder / "policies" / "base.yaml").write_text(rules)
        environment = {
            **os.environ,
            "OTELHOOKS_POLICIES": "policies",
            "OTELHOOKS_STORE": str(folder / "store.db"),
            "PYTHONPATH": str(Path(otelhooks.__file__).parent.parent),
        }
        command = [sys.executable, "-m", "otelhooks", "run", "--", sys.executable, "-c", self.CODE]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
        )

    def test_the_program_is_governed_without_a_line_of_code(self, tmp_path: Path) -> None:
        rules = "policies:\n  - {deny: act, id: no-act, reason: first}\n"
        result = self._run(tmp_path, rules)
        assert (result.returncode, result.stdout) == (0, "denied: first\n"), result.stderr

    def test_with_a_wrong_file_the_program_does_not_run(self, tmp_path: Path) -> None:
        result = self._run(tmp_path, "policies:\n  - {dney: act}\n")
        assert (result.returncode, result.stdout) == (2, "")
        assert "base.yaml:2:6: unknown key `dney`" in result.stderr
        assert "hint: did you mean `deny`?" in result.stderr


def test_the_migration_checker_runs_as_a_module_and_never_runs_the_file(tmp_path: Path) -> None:
    file = tmp_path / "given.py"
    file.write_text(f"{GUARD}\nraise SystemExit('ran')\n", encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "otelhooks.hooks.compat.check", file],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "ran" not in done.stdout + done.stderr
