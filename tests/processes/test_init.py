"""`otelhooks init` at a real terminal, and the program that takes the line which it names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.processes.at_terminal import at_terminal

PROGRAM = """\
import agents

LINE


@otelhooks.tool
def delete_order() -> None:
    print("it ran")


@otelhooks.tool
def look_up() -> None:
    print("looked up")


look_up()
delete_order()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(
        PROGRAM.replace("import agents", "import otelhooks").replace("LINE", "")
    )
    return tmp_path


def answered(project: Path, *lines: str) -> tuple[int, str]:
    """Return exit code and screen of `otelhooks init`, whose questions get these lines."""
    return at_terminal(["init"], *lines, cwd=project)


def test_three_questions_with_enter_for_each_write_the_suggested_policy(project: Path) -> None:
    code, shown = answered(project, "\n", "\n", "\n")

    assert code == 0, shown
    assert "[deny delete_order]" in shown
    found = yaml.safe_load((project / "policies/agents.yaml").read_text())
    assert found["mode"] == "monitor"
    assert [rule["deny"] for rule in found["policies"]] == ["delete_order"]


@pytest.mark.parametrize("word", ["y", "YES"])
def test_yes_takes_the_suggested_rules(project: Path, word: str) -> None:
    code, shown = answered(project, f"{word}\n", "\n", "\n")

    assert code == 0, shown
    found = yaml.safe_load((project / "policies/agents.yaml").read_text())
    assert [rule["deny"] for rule in found["policies"]] == ["delete_order"]


def test_answers_in_words_are_understood_and_misspelt_tools_corrected(project: Path) -> None:
    code, shown = answered(
        project,
        "stop it all\n",
        "deny delete_order ask send_mail plain\n",
        "deny delete_ordr, look_upp and ask send_mail\n",
        "y\n",
        "n\n",
        "loca\n",
        "none\n",
        "enforce\n",
    )

    assert code == 0, shown
    assert "`stop` is neither `deny` nor `ask`" in shown
    assert "`delete_order ask send_mail plain` is not one tool" in shown
    assert "No file defines `delete_ordr`. Take `delete_order` instead? [Y/n]" in shown
    assert "Did you mean 'local'?" in shown
    found = yaml.safe_load((project / "policies/agents.yaml").read_text())
    assert [next(iter(rule.items())) for rule in found["policies"]] == [
        ("deny", "delete_order"),
        ("deny", "look_upp"),
        ("ask", "send_mail"),
    ]
    assert found["mode"] == "enforce"


def test_a_user_who_leaves_at_a_question_leaves_nothing_behind(project: Path) -> None:
    code, shown = answered(project, "\n", "\x04")

    assert code == 1, shown
    assert "Traceback" not in shown
    assert [path.name for path in project.iterdir()] == ["app.py"]


@pytest.mark.parametrize("run", ["", f"{sys.executable} -m otelhooks run -- "])
@pytest.mark.parametrize("mode", ["monitor", "enforce"])
def test_the_line_makes_the_program_record_or_deny_and_the_commands_work(
    project: Path, mode: str, run: str
) -> None:
    (project / "app.py").write_text("import agents\n\n@agents.tool\ndef delete_order(): ...\n")
    env = {**os.environ, "OTELHOOKS_STORE": str(project / "store.db")}

    def shell(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, shell=True, cwd=project, env=env, capture_output=True, text=True, timeout=60
        )

    said = shell(f"{sys.executable} -m otelhooks init --yes --mode {mode}").stdout.splitlines()
    at = said.index("Then:")
    line = said[at - 2].strip()
    (project / "app.py").write_text(
        PROGRAM.replace("LINE", line).replace("import agents", "import sys")
    )
    test, start, show = (text.strip() for text in said[at + 2 : at + 5])
    tested, ran, shown = map(shell, (test, run + start, show))

    assert (tested.returncode, "0 red" in tested.stderr) == (0, True), tested
    assert ran.stdout == "looked up\n" + ("it ran\n" if mode == "monitor" else "")
    assert ("This tool is not allowed here." in ran.stderr) is (mode == "enforce")
    assert (shown.returncode, "delete_order" in shown.stdout) == (0, True), shown
    assert "deny:delete_order" in shown.stdout
