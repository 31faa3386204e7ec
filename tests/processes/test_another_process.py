"""What another process finds: the same ids of rules, the labels in the store, and no rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from otelhooks import policy
from otelhooks.store.labels import LabelBook


def run(code: str, *arguments: str) -> str:
    """Return what a program prints."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_it_finds_the_labels(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "store.db"
    script = (
        "import sys, pathlib\n"
        "from otelhooks.store.labels import LabelBook\n"
        "book = LabelBook(pathlib.Path(sys.argv[1]))\n"
        "book.open('c'); book.add('c', 'untrusted'); book.add('c', 'untrusted')\n"
    )
    run(script, str(path))
    assert LabelBook(path).open("c") == (True, frozenset({"untrusted"}))


def test_an_id_is_the_same_in_another_process() -> None:
    code = (
        "from otelhooks import policy; from otelhooks.policy.rules import identity\n"
        "p = lambda words: lambda args: any(w in args['c'] for w in words) or {} == {1, 2, 3}\n"
        "print(identity(policy.deny('a', when=p({'x', 'y', 'z'}))))"
    )
    assert len({run(code) for _ in range(2)}) == 1


def test_a_spawned_child_is_another_program(governed: Any) -> None:
    governed(policies=[policy.deny("t")])
    assert run("import otelhooks; print(otelhooks.current_context())") == "None"
