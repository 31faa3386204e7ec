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
import itertools
import json
import os
import queue
import random
import re
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
ENOUGH_S = 60
"""Of the tests that run a line, the quickest are tried, as many as take this together."""
FIRST = 30
"""So many tests are run on their own first: most mutants are noticed by one of them."""

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
    "otelhooks/policy/commands/named.py",
    "otelhooks/policy/paths.py",
    "otelhooks/policy/commands/programs.py",
    "otelhooks/policy/commands/shell.py",
    "otelhooks/policy/commands/shell_flow.py",
    "otelhooks/policy/commands/shell_variables.py",
    "otelhooks/policy/commands/shell_words.py",
    "otelhooks/policy/files/leads.py",
    "otelhooks/policy/workspace.py",
    "otelhooks/policy/files/protection.py",
    "otelhooks/policy/limits/limit.py",
    "otelhooks/policy/limits/quotas.py",
    "otelhooks/policy/limits/budgets.py",
    "otelhooks/policy/limits/counters.py",
    "otelhooks/pipeline/permits.py",
    "otelhooks/pipeline/tool_call.py",
    "otelhooks/pipeline/execution.py",
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
        durations: How long each test takes, in seconds, by its id.
        tests: Ids of tests, by module and line.
    """

    def __init__(self, durations: dict[str, float], tests: dict[str, dict[int, list[str]]]) -> None:
        self._durations = durations
        self._tests = tests

    @classmethod
    def measure(cls, folder: Path, paths: list[str]) -> Selection:
        """Run the tests once.

        Args:
            folder: A copy.
            paths: Modules of interest.
        """
        data, durations, settings = (folder / n for n in ("contexts", "durations", "settings"))
        included = "\n".join(f"    {folder / path}" for path in paths)
        settings.write_text(f"[run]\ninclude =\n{included}\n")
        left_out = [f"--ignore=tests/processes/{name}" for name in LEFT_OUT]
        done = run(
            folder,
            *("-m", "coverage", "run", f"--data-file={data}", f"--rcfile={settings}"),
            *("-m", "pytest", "-q", "-p", "tests.mutants.contexts", *left_out),
            *("tests/unit", "tests/processes", "tests/test_public_api.py"),
            **{DURATIONS: str(durations)},
        )
        if done.returncode != 0:
            sys.exit(f"the tests are not green without any mutant\n{done.stdout[-4000:]}")
        measured = coverage.CoverageData(str(data))
        measured.read()
        tests = {path: measured.contexts_by_lineno(str(folder / path)) for path in paths}
        return cls(json.loads(durations.read_text()), tests)

    @classmethod
    def load(cls, file: Path) -> Selection:
        """Read what `save` wrote."""
        durations, by_path = json.loads(file.read_text(encoding="utf-8"))
        tests = {
            path: {int(line): ids for line, ids in lines.items()} for path, lines in by_path.items()
        }
        return cls(durations, tests)

    def save(self, file: Path) -> None:
        """Write all of it, as JSON."""
        file.write_text(json.dumps([self._durations, self._tests]), encoding="utf-8")

    def tests_of(self, path: str, line: int) -> list[str]:
        """Return ids of tests; those of the whole module for what runs at its import.

        As many as take `ENOUGH_S` together: a mutant counts as living sooner than as dead.

        Args:
            path: The module.
            line: Of the change; a statement is found by its first line.
        """
        lines = self._tests[path]
        while line > 0 and line not in lines:
            line -= 1
        found = set(filter(_is_lasting, lines.get(line, ())))
        found = found or {*filter(_is_lasting, itertools.chain(*lines.values()))}
        quickest = sorted(found, key=lambda test: self._durations.get(test, 0.0))
        taken = itertools.accumulate(self._durations.get(test, 0.0) for test in quickest)
        return [test for test, so_far in zip(quickest, taken, strict=True) if so_far < ENOUGH_S]


def _is_lasting(test: str) -> bool:
    """Return whether a test has an id, and the same one in the next run: no address is in it."""
    return bool(test) and " at 0x" not in test


def failing(folder: Path, tests: list[str]) -> str | None:
    """Run tests in a copy, up to the first that fails.

    Args:
        folder: The copy.
        tests: Their ids.

    Returns:
        The id of the test that fails, a word for what is wrong where there is none, None if all
        pass.
    """
    listed = folder / "tests.txt"
    listed.write_text("\n".join(tests))
    options = ("--exitfirst", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "--timeout", "300")
    try:
        done = run(folder, "-m", "pytest", *options, f"@{listed}", PYTHONDONTWRITEBYTECODE="1")
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode == 0:
        return None
    if "ERROR: not found: " in done.stderr:
        return None  # no test ran: counts as living
    found = re.search(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return found[1] if found else "breaks"


def noticed(mutant: Mutant, folder: Path, tests: list[str]) -> str | None:
    """Return what notices a mutant, as `failing` does.

    Args:
        mutant: The mutant.
        folder: A copy that nothing else uses meanwhile.
        tests: What is run; to collect them all takes longer than to run the first ones.
    """
    file = folder / mutant.path
    source = file.read_text(encoding="utf-8")
    file.write_text(mutant.change.apply(source), encoding="utf-8")
    try:
        return failing(folder, tests[:FIRST]) or (tests[FIRST:] and failing(folder, tests)) or None
    finally:
        file.write_text(source, encoding="utf-8")


def equivalent() -> dict[tuple[str, str, str], str]:
    """Return why mutants are equivalent to the original, by module, line and changed line."""
    entries = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {(each["path"], each["before"], each["after"]): each["why"] for each in entries}


def main() -> int:
    """Draw mutants, try each, print those that live and the share that died."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("paths", nargs="*", metavar="MODULE", help="all subjects by default")
    parser.add_argument("--sample", type=int, default=200, help="how many; 0 for every one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    text = "keep here which tests run which line; delete it when code or tests have changed"
    parser.add_argument("--selection", type=Path, metavar="FILE", help=text)
    asked = parser.parse_args()
    paths = asked.paths or list(SUBJECTS)
    known = equivalent()
    every = [m for m in mutants(paths) if (m.path, m.before, m.after) not in known]
    drawn = random.Random(asked.seed).sample(every, min(asked.sample or len(every), len(every)))
    print(f"{len(drawn)} of {len(every)} mutants, seed {asked.seed}", flush=True)
    drawn_of = collections.Counter(mutant.path for mutant in drawn)
    living: list[Mutant] = []
    by: set[str] = set()
    with tempfile.TemporaryDirectory() as name:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(asked.workers):
            copies.put(copy_to(Path(name, str(number))))
        kept: Path | None = asked.selection
        if kept is not None and kept.exists():
            selection = Selection.load(kept)
        else:
            selection = Selection.measure(copy_to(Path(name, "measured")), list(SUBJECTS))
            if kept is not None:
                selection.save(kept)

        def tried_out(mutant: Mutant) -> str | None:
            folder = copies.get()
            try:
                tests = selection.tests_of(mutant.path, mutant.change.line)
                return noticed(mutant, folder, tests) if tests else None
            finally:
                copies.put(folder)

        with concurrent.futures.ThreadPoolExecutor(asked.workers) as pool:
            for mutant, found in zip(drawn, pool.map(tried_out, drawn), strict=True):
                if found is None:
                    living.append(mutant)
                    print(f"lives: {mutant}", flush=True)
                else:
                    print(f"dies: {mutant.path}:{mutant.change.line} by {found}", flush=True)
                    by |= {found} if "::" in found else set()
        # A test that fails without any mutant has noticed none.
        broken = failing(copies.get(), sorted(by)) if by else None
    if broken is not None:
        sys.exit(f"`{broken}` fails, now and then or where few tests run, without any mutant")
    print(f"\n{'module':<44} {'drawn':>5} {'lived':>5}")
    lived_of = collections.Counter(mutant.path for mutant in living)
    for path, count in sorted(drawn_of.items()):
        print(f"{path:<44} {count:>5} {lived_of[path]:>5}")
    share = 1 - len(living) / len(drawn) if drawn else 1.0
    print(f"\n{share:.1%} died, at least {AT_LEAST:.0%} should")
    return share < AT_LEAST


if __name__ == "__main__":
    sys.exit(main())
