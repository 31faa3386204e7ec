"""A process that has rules and exits without one of them being asked says so, once."""

import os
import subprocess
import sys
import textwrap
from types import ModuleType

import pytest

import otelhooks
from otelhooks import hooks, policy
from otelhooks.setup import instrument, unasked

SAID = "otelhooks: 0 of 2 rules were ever asked"
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
    (tmp_path / "crewai.py").write_text("")
    assert "and nothing guards `crewai`" in stderr("import crewai")


@pytest.fixture
def at_exit(governed, caplog, monkeypatch):
    """Instrument, do something, and return what is said when the process exits."""
    monkeypatch.setattr(unasked, "is_one_of_several", lambda: False)  # tests before may have been

    def run(act=lambda handle: None, **settings):
        handle = governed(**settings)
        act(handle)
        instrument._say_unasked(handle)
        return caplog.text

    return run


@pytest.mark.parametrize(
    "act",
    [
        lambda handle: otelhooks.tool(lambda: 1, name="other")(),
        lambda handle: otelhooks.model_call(model="m")(lambda messages: "Done.")([]),
        lambda handle: otelhooks.agent("a")(lambda message: "Done.")("Hello."),
        lambda handle: handle.replace(policies=[]),
    ],
    ids=["a tool", "a model call", "a turn", "no rules any more"],
)
def test_nothing_is_said_where_anything_was_guarded_or_no_rules_are_left(at_exit, act):
    assert at_exit(act, policies=[policy.deny("a")]) == ""


def test_a_hook_that_can_deny_counts_too(at_exit):
    decide = hooks.pre_tool_call_decide(lambda call: None)
    assert "otelhooks: no hook was ever asked" in at_exit(hooks=[decide])


def test_rules_that_guard_policy_files_do_not_count(at_exit, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("policies: [{deny: run_command}]\n")
    assert "otelhooks: 0 of 1 rules were" in at_exit(policies=[str(path)])


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
    (tmp_path / "crewai.py").write_text("")
    assert SAID in stderr("import crewai", OTELHOOKS_RUN_PID="1")


def test_the_gauge_counts_rules_that_calls_have_met_and_those_that_none_has(governed, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("policies: [{deny: run_command}, {deny: send_email}]\n")
    governed(policies=[str(path), policy.allow("view")])

    def counts():
        points = governed.points("otelhooks.policy.rules")
        return {
            dict(point.attributes)["otelhooks.policy.rule.asked"]: point.value for point in points
        }

    assert counts() == {True: 0, False: 3}
    otelhooks.tool(lambda: 1, name="view")()
    assert counts() == {True: 1, False: 2}


def test_without_rules_the_gauge_is_silent(governed):
    governed()
    assert governed.points("otelhooks.policy.rules") == []


def test_a_worker_of_gunicorn_is_one_of_several(monkeypatch):
    monkeypatch.setitem(sys.modules, "gunicorn.arbiter", ModuleType("gunicorn.arbiter"))
    assert unasked.is_one_of_several()
