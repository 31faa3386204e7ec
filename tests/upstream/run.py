"""Run google-antigravity's own tests against otelhooks: `python tests/upstream/run.py`.

The tests come out of the package's wheel, which is downloaded by name into the user's cache; none
of its files lie in this repository. Imports are rewritten, modules that exist only there are empty
stand-ins, and README.md beside this file says by name which tests cannot apply, and why. Exit code
1 if another test fails, or if one of those passes.
"""

from __future__ import annotations

import collections
import contextlib
import fnmatch
import importlib.abc
import importlib.machinery
import importlib.util
import io
import pathlib
import re
import subprocess
import sys
import types
import unittest
import zipfile

import platformdirs

import otelhooks.hooks  # noqa: F401  # the stand-ins become attributes of it

VERSION = "0.1.22"
PACKAGE = "google/antigravity"
TESTS = ("hooks/hooks", "hooks/hook_runner", "hooks/policy", "utils/interactive", "utils/state")
HERE = pathlib.Path(__file__).parent
CACHE = platformdirs.user_cache_path("otelhooks") / "upstream" / VERSION


class StandIn(types.ModuleType):
    """A module of google-antigravity that has no counterpart: using it is an AttributeError."""

    __path__ = ()

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"{self.__name__} has no counterpart in otelhooks")


STAND_INS = (
    "otelhooks.agent",
    "otelhooks.connections",
    "otelhooks.connections.local",
    "otelhooks.conversation",
    "otelhooks.conversation.conversation",
    "otelhooks.proto",
    "otelhooks.proto.localharness_pb2",
)


class Attribute:
    """Any attribute of a stand-in, for decorators that are evaluated when a test is imported."""

    def __getattr__(self, name: str) -> Attribute:
        return self


def stand_in() -> None:
    """Put the stand-ins, and the little that is used of absl, in place."""
    for name in STAND_INS:
        module = StandIn(name)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        setattr(sys.modules[parent], child, module)
    sys.modules["otelhooks.conversation.conversation"].Conversation = Attribute()

    class TestCase(unittest.TestCase):
        def assertLen(self, container, length):
            self.assertEqual(len(container), length)

        def assertEmpty(self, container):
            self.assertEqual(len(container), 0)

    absl, testing = types.ModuleType("absl"), types.ModuleType("absl.testing")
    testing.absltest = types.ModuleType("absl.testing.absltest")
    testing.absltest.TestCase = TestCase
    sys.modules.update(
        {"absl": absl, "absl.testing": testing, "absl.testing.absltest": testing.absltest}
    )


def wheel() -> pathlib.Path:
    """Return the wheel, downloaded if the cache does not have it."""
    found = list(CACHE.glob("*.whl"))
    if not found:
        CACHE.mkdir(parents=True, exist_ok=True)
        print(f"downloading google-antigravity {VERSION} to {CACHE}", file=sys.stderr)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--platform", "manylinux_2_17_x86_64"]
        command += ["--dest", str(CACHE), f"google-antigravity=={VERSION}"]
        subprocess.run(command, check=True)
        found = list(CACHE.glob("*.whl"))
    return found[0]


class Source(importlib.abc.SourceLoader):
    """A test module whose text is rewritten and kept in memory."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    def get_filename(self, fullname: str) -> str:
        return self.path

    def get_data(self, path: str) -> bytes:
        return self.text.encode()


def load(archive: zipfile.ZipFile, test: str) -> types.ModuleType:
    """Import one test module with otelhooks in the place of google-antigravity."""
    path = f"{PACKAGE}/{test}_test.py"
    text = archive.read(path).decode().replace("google.antigravity", "otelhooks")
    name = "upstream_" + test.replace("/", "_")
    loader = Source(path, text)
    spec = importlib.machinery.ModuleSpec(name, loader, origin=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def cannot_apply() -> dict[str, str]:
    """Return the table of README.md: pattern of test names to the reason."""
    rows = re.findall(r"^\| `([\w./*]+)` \| (.+?) \|$", (HERE / "README.md").read_text(), re.M)
    return dict(rows)


class Result(unittest.TestResult):
    """Keeps what came of each test."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: set[str] = set()

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.passed.add(test.id())


def main() -> int:
    """Run everything and print one line a test that did not pass, and a table."""
    stand_in()
    reasons = cannot_apply()
    used: set[str] = set()
    unexpected = 0
    counts: dict[str, collections.Counter[str]] = {}
    with zipfile.ZipFile(wheel()) as archive:
        for test in TESTS:
            module = load(archive, test)
            suite = unittest.defaultTestLoader.loadTestsFromModule(module)
            result = Result()
            with contextlib.redirect_stdout(io.StringIO()):  # what the terminal prompt prints
                suite.run(result)
            count = counts[test] = collections.Counter(passed=len(result.passed))
            broken = {case.id(): text for case, text in (*result.failures, *result.errors)}
            for full, text in sorted(broken.items()):
                name = f"{test}/{full.split('.', 1)[1]}"
                pattern = next((p for p in reasons if fnmatch.fnmatchcase(name, p)), None)
                if pattern is None:
                    unexpected += 1
                    count["failed"] += 1
                    print(f"FAILED        {name}\n{text}")
                else:
                    used.add(pattern)
                    count["cannot apply"] += 1
                    print(f"cannot apply  {name}: {reasons[pattern]}")
            for full in sorted(result.passed):
                name = f"{test}/{full.split('.', 1)[1]}"
                print(f"passed        {name}")
    for pattern in sorted(set(reasons) - used):
        unexpected += 1
        print(f"FAILED        {pattern} is listed as not applying, but nothing fails there")
    print()
    for test, count in counts.items():
        print(test, *(f"{number} {word}" for word, number in count.items()), sep="  ")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
