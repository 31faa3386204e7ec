"""The first verdict of a program is one line on stderr, unless the program logs."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

START = """
import logging, multiprocessing, os, sys
import otelhooks
from otelhooks import policy

@otelhooks.tool
def search(q): return q

def start(**settings):
    rule = policy.deny("drop", id="no-drop")
    return otelhooks.instrument(policies=[rule], frameworks=[], **settings)

@otelhooks.tool
def drop(): ...
"""


@pytest.fixture
def stderr(tmp_path):
    """Run a program, and return the lines that it writes to stderr."""

    def run(text, **variables):
        path = tmp_path / "program.py"
        path.write_text(START + textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, str(path)],
            env={"OTELHOOKS_STORE": str(tmp_path / "store.db"), "HOME": str(tmp_path), **variables},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stderr.splitlines()

    return run


def test_it_is_said_once_with_where_to_look(stderr):
    (line,) = stderr("start(); search(1); search(2)")
    assert line == (
        "otelhooks: first verdict: allow search; `otelhooks trace show` shows it;"
        " OTELHOOKS_ANNOUNCE=false leaves this line out"
    )


def test_a_name_that_no_code_of_the_program_has_is_not_repeated(stderr):
    line, *_ = stderr(
        """
        from otelhooks.hooks.verdict import Verdict
        from otelhooks.records.semconv import TOOL_NAME_OTHER
        from otelhooks.pipeline import runtime
        start()
        verdict = Verdict("pre_tool_call", "allow")
        runtime.active().verdicts.count(verdict, TOOL_NAME_OTHER, "", None)
        """
    )
    assert "first verdict: allow a tool that only the model or a server names;" in line


WOULD = "otelhooks: monitor mode would {} (rule {} of code); `otelhooks trace show` shows it;"


def test_in_monitor_mode_it_is_what_would_be_denied(stderr):
    (line,) = stderr("start(mode='monitor'); drop(); drop(); search(1)")
    assert line.startswith(WOULD.format("deny drop", "no-drop"))


def test_a_deny_that_holds_goes_before_one_that_is_observed(stderr):
    (line,) = stderr(
        """
        rules = [policy.deny("drop", id="b", mode="monitor"), policy.deny("*", id="a")]
        otelhooks.instrument(policies=rules, frameworks=[])
        try:
            drop()
        except otelhooks.errors.Denied:
            pass
        """
    )
    assert "first verdict: deny drop (rule a of code);" in line


@pytest.mark.parametrize(
    ("rules", "setting", "line"),
    [
        ("[policy.deny('search', when='args[\"q\"] > 1', id='r')]", "monitor", "deny search"),
        (
            "[policy.ask_user('search', when='args[\"q\"] > 1', id='r')]",
            "monitor",
            "ask about search",
        ),
        ("[policy.deny('drop', id='r', mode='monitor')]", "enforce", "deny drop"),
    ],
)
def test_after_an_allow_the_first_call_that_monitor_mode_would_stop_is_a_line_too(
    stderr, rules, setting, line
):
    allowed, observed = stderr(
        f"otelhooks.instrument(policies={rules}, mode={setting!r}, frameworks=[]);"
        "search(1); search(2); drop(); drop(); search(2)"
    )
    assert "first verdict: allow search;" in allowed
    assert observed.startswith(WOULD.format(line, "r"))


def test_where_a_collector_is_set_that_is_named(stderr):
    lines = stderr(
        "start(exit_timeout=0); search(1)", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9"
    )
    assert "allow search; traces, metrics and events to otlp http/protobuf http" in lines[0]


def test_a_deny_names_its_rule(stderr):
    (line,) = stderr(
        """
        start()
        try:
            drop()
        except otelhooks.errors.Denied:
            search(1)
        """
    )
    assert line.startswith("otelhooks: first verdict: deny drop (rule no-drop of code); ")


@pytest.mark.parametrize(
    "text",
    [
        "logging.basicConfig(level=logging.ERROR)",
        "logging.getLogger('otelhooks').addHandler(logging.NullHandler())",
        "logging.getLogger('otelhooks').setLevel(logging.ERROR)",
        "logging.disable(logging.CRITICAL)",
        "os.environ['OTELHOOKS_ANNOUNCE'] = 'false'",
        "sys.stderr = None",
    ],
)
def test_a_program_that_logs_or_switches_it_off_is_not_written_to(stderr, text):
    assert stderr(f"{text}\nstart(); search(1)") == []


def test_a_program_that_logs_has_it_in_its_log(stderr):
    lines = stderr("logging.basicConfig(level=logging.INFO); start(); search(1); search(2)")
    assert [line for line in lines if "first verdict" in line] == [
        line
        for line in lines
        if line.startswith("INFO:otelhooks.setup:first verdict: allow search")
    ]
    assert sum("first verdict" in line for line in lines) == 1


@pytest.mark.skipif(os.name == "nt", reason="forks")
def test_workers_of_one_program_do_not_say_it_again(stderr):
    lines = stderr(
        """
        start(); search(1)
        context = multiprocessing.get_context("fork")
        work = [context.Process(target=search, args=(n,)) for n in (1, 2)]
        [one.start() for one in work]; [one.join() for one in work]
        """
    )
    assert sum("first verdict" in line for line in lines) == 1
