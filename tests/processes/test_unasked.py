"""A program that has rules and exits without one of them being asked says so, once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

SAID = "otelhooks: warning: 0 of 2 rules were ever asked"


START = """
import otelhooks, os, sys
from otelhooks import policy
handle = otelhooks.instrument(policies=[policy.deny("a"), policy.ask_user("b", lambda call: True)])
"""


@pytest.fixture
def stderr(tmp_path):
    """Run a program that begins with two rules, and return what it says on stderr."""

    def run(text="", **variables):
        path = tmp_path / "program.py"
        path.write_text(START + textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, str(path)],
            env={"OTELHOOKS_STORE": str(tmp_path / "store.db"), **variables},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stderr

    return run


def test_a_program_whose_loop_nobody_guards_is_told_when_it_exits(stderr):
    """The class: a program that looks governed, and in which nothing passes the rules."""
    said = stderr("print([f() for f in (lambda: 'a tool of its own',)])")
    assert said.count(SAID) == 1
    assert "no guarded agent, model or tool ran in this process" in said
    assert "hint: `otelhooks doctor`" in said


def test_it_names_what_is_imported_and_not_guarded(stderr, tmp_path):
    (tmp_path / "griptape.py").write_text("")
    assert "and nothing guards `griptape`" in stderr("import griptape")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_neither_a_forked_child_nor_who_forked_it_says_it(stderr):
    text = """
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    sys.exit(0)
    """
    assert "ever asked" not in stderr(text)


def test_a_helper_that_a_program_under_run_starts_is_passed_over(stderr, tmp_path):
    assert "ever asked" not in stderr(OTELHOOKS_RUN_PID="1")
    (tmp_path / "griptape.py").write_text("")
    assert SAID in stderr("import griptape", OTELHOOKS_RUN_PID="1")
