"""Programs that go on beside a test, such as agents that wait for an answer."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

__all__ = ["Start", "starting"]

Start = Callable[..., "subprocess.Popen[str]"]


@contextlib.contextmanager
def starting(folder: Path, source: str, *, env: Mapping[str, str] | None = None) -> Iterator[Start]:
    """Yield a function that starts a program with arguments; those that go on end with the block.

    Args:
        folder: Where it runs, as ``agent.py``.
        source: The program.
        env: Its environment; None for that of the test.
    """
    (folder / "agent.py").write_text(source)
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "agent.py", *arguments],
            cwd=folder,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.communicate()
