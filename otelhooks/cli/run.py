"""``otelhooks run``: a program, and its Python children, with otelhooks switched on."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otelhooks.config import check_variables
from otelhooks.errors import ConfigError

if TYPE_CHECKING:
    from types import FrameType

AUTOSTART = Path(__file__).parent / "autostart"

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?(\.exe)?", re.IGNORECASE)
_ISOLATING = {"I": "isolates it", "E": "makes it ignore PYTHONPATH", "S": "skips `site`"}


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def run(command: tuple[str, ...]) -> None:
    """Run a program with otelhooks switched on.

    COMMAND is a Python interpreter or a program written in Python, with its arguments:

      otelhooks run -- python app.py

      otelhooks run -- gunicorn app:main

    You do not change the program: `otelhooks.instrument()` runs when Python starts, in child
    processes as well. Settings come from OTELHOOKS_ and OTEL_ variables, and the telemetry
    providers are set globally. If otelhooks cannot start, the program does not run (exit code 2).
    Otherwise exit code and signals are the program's own.
    """
    check_variables(warns=False)  # the program warns
    program = _find(command[0])
    _check_flags(program, command[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":
        raise SystemExit(spawn(program, command, environment()))
    try:
        os.execve(program, command, environment())
    except OSError as error:
        raise _cannot_run(command[0], error.strerror or str(error)) from error


def environment() -> dict[str, str]:
    """Return this process's environment, changed so that Pythons in it switch otelhooks on.

    ``OTELHOOKS_RUN`` makes otelhooks set providers globally; ``OTELHOOKS_RUN_PID`` is the process
    whose Python must have otelhooks (on POSIX ours, since it is replaced).
    """
    env = dict(os.environ)
    rest = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    rest = [entry for entry in rest if Path(entry) != AUTOSTART]
    env["PYTHONPATH"] = os.pathsep.join([str(AUTOSTART), *rest])
    env["OTELHOOKS_RUN"] = "1"
    env["OTELHOOKS_RUN_PID"] = str(os.getpid())
    return env


def spawn(program: str, command: tuple[str, ...], env: dict[str, str]) -> int:
    """Run a program as a child, if a process cannot be replaced (Windows).

    Returns:
        Its exit code; 128 + the number of the signal that ended it.
    """
    # The child gets an interrupt too, and decides. An exception might come just when the child's
    # exit code has been read, and lose it. Unlike `SIG_IGN`, a handler is not inherited.
    before = signal.signal(signal.SIGINT, _do_nothing)
    try:
        with subprocess.Popen(command, executable=program, env=env) as child:
            code = child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _do_nothing(signum: int, frame: FrameType | None) -> None:
    """Ignore a signal that the child handles."""


def _find(name: str) -> str:
    found = shutil.which(name)
    if found is not None:
        return found
    if not Path(name).exists():
        problem = f"program not found: `{name}`"
        raise ConfigError(problem, hint="name a program on the PATH, or the path of one")
    raise _cannot_run(name, "it is a folder" if Path(name).is_dir() else "it is not executable")


def _cannot_run(name: str, cause: str) -> ConfigError:
    return ConfigError(
        f"program cannot be run: `{name}`: {cause}",
        hint=f"for a Python file use `otelhooks run -- python {name}`",
    )


def _check_flags(program: str, arguments: tuple[str, ...]) -> None:
    """Refuse flags of Python with which it would silently start without otelhooks."""
    if not _PYTHON.fullmatch(Path(program).name):
        return
    takes_next = False
    for argument in arguments:
        if takes_next:
            takes_next = False
            continue
        if not argument.startswith("-") or argument == "-":
            return
        if argument.startswith("--"):
            takes_next = argument == "--check-hash-based-pycs"
            continue
        for index, flag in enumerate(argument[1:], start=2):
            if flag in _ISOLATING:
                problem = f"Python would run without otelhooks: `-{flag}` {_ISOLATING[flag]}"
                raise ConfigError(problem, hint=f"leave `-{flag}` out")
            if flag in "cm":
                return
            if flag in "WX":
                takes_next = index == len(argument)
                break
