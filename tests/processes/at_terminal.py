"""A person at a terminal who runs `otelhooks`, and answers what it asks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="there are no such terminals")


def at_terminal(
    command: Sequence[str], *answers: str | Callable[[str], str], cwd: Path
) -> tuple[int, str]:
    """Return exit code and screen of a command.

    Args:
        command: Arguments of `otelhooks`.
        answers: A line for each prompt, or a function of the screen so far that returns it.
        cwd: The folder in which it runs.
    """
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "otelhooks", *command],
        **{"cwd": cwd, "stdin": slave, "stdout": slave, "stderr": slave, "close_fds": True},
    ) as process:
        os.close(slave)
        shown = ""
        try:
            for answer in answers:
                before = len(shown)
                until = time.monotonic() + 60
                while not shown[before:].rstrip("\r\n").endswith((": ", ":")):
                    assert time.monotonic() < until, shown
                    shown += os.read(master, 4096).decode()
                line = answer if isinstance(answer, str) else answer(shown)
                os.write(master, line.encode())
            while True:
                shown += os.read(master, 4096).decode()
        except OSError:
            pass  # the other end is closed
        finally:
            os.close(master)
        return process.wait(60), shown
