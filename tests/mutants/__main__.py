"""Change the code that decides and records, and see the tests notice: `python -m tests.mutants`.

A mutant is one small change (`tests/mutants/changes.py`). It dies when a test fails that runs the
changed line; which tests these are is measured first, with contexts of coverage.py. Mutants are
drawn at random from all of them, the same ones for the same seed. One that lives needs a test, or,
if no test can tell it from the original, an entry with the reason in `equivalent.json`.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import coverage

from tests.mutants.changes import Change, tried
from tests.mutants.contexts import DURATIONS

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.json")
AT_LEAST = 0.95
LONGEST_S = 600
"""For all tests of one mutant; one that hangs them has been noticed."""

SUBJECTS = (
    "otelhooks/hooks/points.py",
    "otelhooks/hooks/chain.py",
    "otelhooks/hooks/tool_chain.py",
    "otelhooks/hooks/answers.py",
    "otelhooks/policy/evaluate.py",
    "otelhooks/policy/index.py",
    "otelhooks/policy/rules.py",
    "otelhooks/policy/selectors.py",
    "otelhooks/policy/predicates.py",
    "otelhooks/policy/named.py",
    "otelhooks/policy/paths.py",
    "otelhooks/policy/shell.py",
    "otelhooks/policy/workspace.py",
    "otelhooks/policy/files/protection.py",
    "otelhooks/policy/quotas.py",
    "otelhooks/policy/counters.py",
    "otelhooks/instrumentation/_permit.py",
    "otelhooks/instrumentation/_tool.py",
    "otelhooks/instrumentation/_execution.py",
    "otelhooks/audit/chain.py",
    "otelhooks/audit/trail.py",
    "otelhooks/audit/checking.py",
    "otelhooks/audit/filecheck.py",
)
"""Points, chains, policy engine, permits, tool calls, guards of paths, quotas, audit chain."""

PARTS = ("otelhooks", "tests", "docs", "collector", "dashboards", ".ci")
# They start servers and children, which run the original.
LEFT_OUT = ("test_celery.py", "test_gunicorn.py", "test_multiprocessing.py", "test_signals.py")


class Mutant(NamedTuple):
    """One change to one module.

    Attributes:
        path: The module, from the root of the repository.
        change: What is changed.
        before: The line as it is.
        after: The line as it becomes.
    """

    path: str
    change: Change
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.change.line}\n  - {self.before}\n  + {self.after}"


def mutants(paths: list[str]) -> list[Mutant]:
    """Return every mutant of some modules."""
    found: list[Mutant] = []
    for path in paths:
        source = (ROOT / path).read_text(encoding="utf-8")
        found += [Mutant(path, change, *change.shown(source)) for change in tried(source)]
    return found


def copy_to(folder: Path) -> Path:
    """Copy what the fast tests need, for a worker to change."""
    for name in PARTS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    return folder


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a Python command in a copy."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / ".hypothesis"),
        **variables,
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST_S if "--exitfirst" in arguments else None,
    )


class Selection:
    """Which tests run a line, the quick ones first.

    Args:
        folder: A copy, of which the tests are run once.
        paths: Modules of interest.
    """

    def __init__(self, folder: Path, paths: list[str]) -> None:
        data, durations = folder / "contexts.db", folder / "durations.json"
        left_out = [f"--ignore=tests/unit/{name}" for name in LEFT_OUT]
        done = run(
            folder,
            *("-m", "coverage", "run", f"--data-file={data}", f"--include={','.join(paths)}"),
            *("-m", "pytest", "-q", "-p", "tests.mutants.contexts", *left_out),
            *("tests/unit", "tests/test_public_api.py"),
            **{DURATIONS: str(durations)},
        )
        if done.returncode != 0:
            sys.exit(f"the tests are not green without any mutant\n{done.stdout[-4000:]}")
        self._durations: dict[str, float] = json.loads(durations.read_text())
        measured = coverage.CoverageData(str(data))
        measured.read()
        self._tests = {path: measured.contexts_by_lineno(str(folder / path)) for path in paths}

    def tests_of(self, path: str, line: int) -> list[str]:
        """Return ids of tests; those of the whole module for what runs at its import.

        Args:
            path: The module.
            line: Of the change; a statement is found by its first line.
        """
        lines = self._tests[path]
        while line > 0 and line not in lines:
            line -= 1
        found = {test for test in lines.get(line, ()) if test}
        found = found or {test for tests in lines.values() for test in tests if test}
        return sorted(found, key=lambda test: self._durations.get(test, 0.0))


def is_noticed(mutant: Mutant, folder: Path, tests: list[str]) -> bool:
    """Return whether a test fails with a mutant.

    Args:
        mutant: The mutant.
        folder: A copy that nothing else uses meanwhile.
        tests: What is run.
    """
    file = folder / mutant.path
    source = file.read_text(encoding="utf-8")
    file.write_text(mutant.change.apply(source), encoding="utf-8")
    listed = folder / "tests.txt"
    listed.write_text("\n".join(tests))
    options = ("--exitfirst", "-q", "-p", "no:cacheprovider", "--timeout", "60")
    try:
        done = run(folder, "-m", "pytest", *options, f"@{listed}", PYTHONDONTWRITEBYTECODE="1")
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(source, encoding="utf-8")
    return done.returncode != 0


def equivalent() -> dict[tuple[str, str, str], str]:
    """Return why mutants cannot be told from the original, by module, line and changed line."""
    entries = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {(each["path"], each["before"], each["after"]): each["why"] for each in entries}


def main() -> int:
    """Draw mutants, try each, print those that live and the share that died."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("paths", nargs="*", metavar="MODULE", help="all subjects by default")
    parser.add_argument("--sample", type=int, default=200, help="how many; 0 for every one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    paths = asked.paths or list(SUBJECTS)
    known = equivalent()
    every = [m for m in mutants(paths) if (m.path, m.before, m.after) not in known]
    drawn = random.Random(asked.seed).sample(every, min(asked.sample or len(every), len(every)))
    print(f"{len(drawn)} of {len(every)} mutants, seed {asked.seed}", flush=True)
    drawn_of = collections.Counter(mutant.path for mutant in drawn)
    living: list[Mutant] = []
    with tempfile.TemporaryDirectory() as name:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(asked.workers):
            copies.put(copy_to(Path(name, str(number))))
        selection = Selection(copy_to(Path(name, "measured")), paths)

        def lives(mutant: Mutant) -> bool:
            folder = copies.get()
            try:
                tests = selection.tests_of(mutant.path, mutant.change.line)
                return not tests or not is_noticed(mutant, folder, tests)
            finally:
                copies.put(folder)

        with concurrent.futures.ThreadPoolExecutor(asked.workers) as pool:
            for mutant, is_living in zip(drawn, pool.map(lives, drawn), strict=True):
                if is_living:
                    living.append(mutant)
                    print(f"lives: {mutant}", flush=True)
    print(f"\n{'module':<44} {'drawn':>5} {'lived':>5}")
    lived_of = collections.Counter(mutant.path for mutant in living)
    for path, count in sorted(drawn_of.items()):
        print(f"{path:<44} {count:>5} {lived_of[path]:>5}")
    share = 1 - len(living) / len(drawn) if drawn else 1.0
    print(f"\n{share:.1%} died, at least {AT_LEAST:.0%} should")
    return share < AT_LEAST


if __name__ == "__main__":
    sys.exit(main())
