"""A person at a terminal stops programs that run, and lets them continue."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.at_terminal import at_terminal
from tests.programs import Start, starting

LOOP = """
import os, sys, time
import otelhooks

otelhooks.instrument()

@otelhooks.tool
def beat():
    pass

if "fork" in sys.argv:
    os.fork()
parent, was = os.getppid(), None
while os.getppid() == parent:  # a child ends with the program
    try:
        beat()
        now = "runs"
    except otelhooks.errors.Denied as denied:
        now = str(denied)
    if now != was:
        os.write(1, f"{now}\\n".encode())
        was = now
    time.sleep(0.02)
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setenv("OTELHOOKS_STOPS", str(tmp_path / "stops"))
    with starting(tmp_path, LOOP) as start:
        yield start


def code_in(screen: str) -> str:
    return screen.partition("Type ")[2][:4] + "\n"


@pytest.mark.timeout(120)  # against a hang; interpreters start, on a machine with other work
def test_three_programs_stop_within_a_second_and_continue(programs: Start, tmp_path: Path) -> None:
    running = [programs() for _ in range(3)]
    outputs = [one.stdout for one in running if one.stdout is not None]
    assert [one.readline() for one in outputs] == ["runs\n"] * 3
    code, _ = at_terminal(["stop", "--all", "--why", "Fire."], cwd=tmp_path)
    stopped = time.monotonic()
    assert code == 0
    assert {one.readline().partition(" by ")[0] for one in outputs} == {"Stopped"}
    assert time.monotonic() - stopped < 5  # half a second, but for other work on the machine

    code, screen = at_terminal(["go", "--all"], "1\n", cwd=tmp_path)
    assert code == 1
    assert "not lifted" in screen
    code, screen = at_terminal(["go", "--all"], code_in, cwd=tmp_path)
    assert code == 0, screen
    assert [one.readline() for one in outputs] == ["runs\n"] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.timeout(120)  # as above
def test_so_do_children_that_a_program_forked(programs: Start, tmp_path: Path) -> None:
    program = programs("fork")
    assert program.stdout is not None
    assert [program.stdout.readline() for _ in range(2)] == ["runs\n"] * 2
    assert at_terminal(["stop", "--all"], cwd=tmp_path)[0] == 0
    assert all(program.stdout.readline().startswith("Stopped") for _ in range(2))
