"""Run the Hedera Agent Kit's own tests of policies against otelhooks.

They are in its repository only: `python -m tests.upstream.run_kit FOLDER` takes a copy of that,
with the kit installed. Imports are changed as the checker changes them.
"""

from __future__ import annotations

import importlib.metadata
import sys
import tempfile
from pathlib import Path

import pytest

from otelhooks_migrate.check import UPSTREAMS, rewritten
from otelhooks_migrate.findings import find
from otelhooks_migrate.source import read
from tests.upstream.verdicts import Verdicts

TESTS = ("policy/max_recipients_policy", "policy/reject_tool_policy")


class Results:
    """Takes what pytest says of each test."""

    def __init__(self, verdicts: Verdicts) -> None:
        """Take the verdicts to tell."""
        self.verdicts = verdicts

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the result of one phase of a test."""
        file, _, test = report.nodeid.partition("::")
        subject, name = f"policy/{file.removesuffix('_test.py')}", test.replace("::", ".")
        if report.failed:
            self.verdicts.failed(subject, name.partition("[")[0], report.longreprtext)
        elif report.when == "call":
            self.verdicts.passed(subject, name)


def main(checkout: Path) -> int:
    """Run the tests of a copy of the repository, and print a line a test and a table."""
    verdicts = Verdicts(*TESTS)
    with tempfile.TemporaryDirectory() as folder:
        for test in TESTS:
            source = read(str(checkout / "python" / "test" / "unit" / f"{test}_test.py"))
            text = rewritten(source, find(source.tree, UPSTREAMS))
            # The plugin of anyio is here, that of asyncio is not.
            text = text.replace("pytest.mark.asyncio", "pytest.mark.anyio")
            Path(folder, Path(source.path).name).write_text(text, encoding="utf-8")
        options = ("-c", "/dev/null", "--rootdir", folder, "-W", "ignore")
        unused = ("-p", "no:cacheprovider", "-p", "no:terminal")
        pytest.main([*options, *unused, folder], [Results(verdicts)])
    return verdicts.done(f"hedera-agent-kit {importlib.metadata.version('hedera-agent-kit')}")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
