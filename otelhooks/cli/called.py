"""How to call the commands that the output suggests."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

__all__ = ["command", "python"]


def command() -> str:
    """Return how a shell in this folder calls this very ``otelhooks``."""
    beside = Path(sys.executable).with_name("otelhooks")
    if _is_first("otelhooks", beside.parent):
        return "otelhooks"
    return _quoted(beside) if beside.is_file() else f"{python()} -m otelhooks"


def python() -> str:
    """Return how a shell in this folder calls this very Python."""
    executable = Path(sys.executable)
    return "python" if _is_first("python", executable.parent) else _quoted(executable)


def _is_first(name: str, folder: Path) -> bool:
    """Return whether a shell finds the program of this name in this folder."""
    found = shutil.which(name)
    return found is not None and Path(found).absolute().parent == folder


def _quoted(path: Path) -> str:
    here = f"{Path.cwd()}{os.sep}"
    return shlex.quote(str(path).removeprefix(here))
