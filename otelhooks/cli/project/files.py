"""The Python files below a folder, parsed, with bounds on how much is read."""

from __future__ import annotations

import ast
import os
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

__all__ = ["Module", "Sources", "read"]

MAX_FILES, MAX_FOLDERS = 2_000, 5_000
MAX_FILE_BYTES, MAX_BYTES = 200_000, 20_000_000

_STACK_BYTES = 512 * 2**20

_SKIPPED = frozenset(
    ("__pycache__", "build", "dist", "env", "node_modules", "site-packages", "venv")
)


class Module(NamedTuple):
    """A parsed file.

    Args:
        path: Relative to the folder, with slashes.
        tree: Its syntax.
    """

    path: str
    tree: ast.Module


class Sources(NamedTuple):
    """What was read.

    Args:
        modules: Parsed files, those nearest to the top first.
        unread: Path and reason of each notebook, and of each file that could not be parsed.
        is_cut: Whether a bound was reached, so that there may be more.
    """

    modules: tuple[Module, ...]
    unread: tuple[tuple[str, str], ...]
    is_cut: bool


def read(folder: Path) -> Sources:
    """Parse the Python files below a folder.

    Links are not followed. Hidden folders, virtual environments, ``node_modules`` and what builds
    leave behind are skipped.

    Args:
        folder: An existing folder.
    """
    if sys.version_info >= (3, 11):
        return _read(folder)
    # The parser of Python 3.10 does not count how deep it is: a file with enough brackets or dots
    # ends the process, unless the stack is large enough for what a file may have.
    before = threading.stack_size(_STACK_BYTES)
    try:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(_read, folder).result()
    finally:
        threading.stack_size(before)


def _read(folder: Path) -> Sources:
    modules: list[Module] = []
    unread: list[tuple[str, str]] = []
    size = 0
    for path in _files(folder):
        if path is None or len(modules) + len(unread) >= MAX_FILES or size > MAX_BYTES:
            return Sources(tuple(modules), tuple(unread), True)
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".ipynb":
            unread.append((name, "notebooks are not read; name their tools yourself"))
            continue
        try:
            with path.open("rb") as file:
                text = file.read(MAX_FILE_BYTES + 1)
            size += len(text)
            if len(text) > MAX_FILE_BYTES:
                unread.append((name, f"it has more than {MAX_FILE_BYTES:,} bytes"))
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about escapes in the texts of the project
                modules.append(Module(name, ast.parse(text)))
        except OSError as error:
            unread.append((name, error.strerror or type(error).__name__))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            unread.append((name, f"it is not Python that can be parsed{_at(line)}"))
    return Sources(tuple(modules), tuple(unread), False)


def _at(line: int | None) -> str:
    return f" (line {line})" if line else ""


def _files(folder: Path) -> Iterator[Path | None]:
    """Yield Python files and notebooks, level by level; None if there are too many folders."""
    folders, seen = deque([folder]), 0
    while folders:
        seen += 1
        if seen > MAX_FOLDERS:
            yield None
            return
        try:
            with os.scandir(folders.popleft()) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue  # a folder that this user may not list
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED and not entry.name.startswith("."):
                    folders.append(Path(entry.path))
            elif entry.name.endswith((".py", ".ipynb")) and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
