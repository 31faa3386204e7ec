"""Log lines on stderr say whose they are, unless the program has set up logging."""

from __future__ import annotations

import subprocess
import sys

import pytest

WARN = """
import logging
import otelhooks
{}
log = logging.getLogger("otelhooks.policy")
log.info("nothing new")
log.warning("a rule never decides")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("a hook failed")
"""


def stderr_of(setup: str) -> str:
    code = WARN.format(setup)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr


def test_without_logging_lines_have_a_name_and_a_level() -> None:
    first, second, *trace = stderr_of("").splitlines()
    assert first == "otelhooks: warning: a rule never decides"
    assert second == "otelhooks: error: a hook failed"
    assert (trace[0], trace[-1]) == (
        "Traceback (most recent call last):",
        "ZeroDivisionError: division by zero",
    )


@pytest.mark.parametrize(
    "setup",
    [
        "logging.basicConfig(format='%(name)s says %(message)s')",
        "logging.getLogger('otelhooks').addHandler(logging.StreamHandler())",
        "logging.getLogger('otelhooks.policy').addHandler(logging.StreamHandler())",
    ],
)
def test_a_handler_of_the_program_goes_before_it(setup: str) -> None:
    said = stderr_of(setup)
    assert said.count("a rule never decides") == 1
    assert "otelhooks: warning" not in said


@pytest.mark.parametrize(
    "setup",
    [
        "logging.getLogger('otelhooks').addHandler(logging.NullHandler())",
        "logging.getLogger('otelhooks').setLevel(logging.CRITICAL)",
        "logging.lastResort = None",
    ],
)
def test_a_program_can_switch_it_off(setup: str) -> None:
    assert stderr_of(setup) == ""
