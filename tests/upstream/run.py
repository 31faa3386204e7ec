"""Run google-antigravity's own tests against otelhooks: `make upstream`.

They come with the installed package; none of its files lie in this repository. Imports are
rewritten, modules that exist only there are empty stand-ins, and README.md beside this file says by
name which tests cannot apply, and why. Exit code 1 if another test fails, or one of those passes.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import io
import logging
import pathlib
import sys
import types
import unittest
import warnings

import otelhooks.hooks  # noqa: F401  # the stand-ins become attributes of it
from tests.upstream import stand_ins
from tests.upstream.verdicts import Verdicts

PACKAGE = "google.antigravity"
TESTS = (
    *("hooks/hooks", "hooks/hook_runner", "hooks/policy"),
    *("utils/interactive", "utils/state", "types"),
)


class Source(importlib.abc.SourceLoader):
    """A test module whose text is rewritten and kept in memory."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    def get_filename(self, fullname: str) -> str:
        return self.path

    def get_data(self, path: str) -> bytes:
        return self.text.encode()


def folder() -> pathlib.Path:
    """Return where the installed package lies, without importing it."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        sys.exit("google-antigravity is not installed here: `make upstream` has an environment")
    return pathlib.Path(spec.submodule_search_locations[0])


def load(test: str) -> types.ModuleType:
    """Import one test module with otelhooks in place of google-antigravity."""
    file = folder() / f"{test}_test.py"
    text = file.read_text(encoding="utf-8").replace(PACKAGE, "otelhooks")
    name = "upstream_" + test.replace("/", "_")
    loader = Source(str(file), text)
    spec = importlib.machinery.ModuleSpec(name, loader, origin=str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


class Result(unittest.TestResult):
    """Keeps the result of each test."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: set[str] = set()

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.passed.add(test.id())


def main() -> int:
    """Run everything, and print a line a test and a table."""
    stand_ins.put_in_place()
    logging.disable()  # what a test makes fail on purpose
    warnings.simplefilter("ignore")
    verdicts = Verdicts(*TESTS)
    for test in TESTS:
        suite = unittest.defaultTestLoader.loadTestsFromModule(load(test))
        result = Result()
        with contextlib.redirect_stdout(io.StringIO()):  # what the terminal prompt prints
            suite.run(result)
        broken = {case.id(): text for case, text in (*result.failures, *result.errors)}
        for name in sorted(broken.keys() | result.passed):
            plain = name.partition(".")[2]
            if name in broken:
                verdicts.failed(test, plain, broken[name])
            else:
                verdicts.passed(test, plain)
    return verdicts.done(f"google-antigravity {importlib.metadata.version('google-antigravity')}")


if __name__ == "__main__":
    sys.exit(main())
