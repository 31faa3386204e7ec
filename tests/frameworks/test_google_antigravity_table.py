"""The checker's table of names is that of the real package."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version

import pytest
from packaging.version import Version

from otelhooks_migrate.google_antigravity import JUDGEMENT
from otelhooks_migrate.upstream import Upstream
from tests.upstream import surface


def test_the_table_is_what_the_installed_package_offers() -> None:
    """If not: `python tests/upstream/surface.py google-antigravity` prints the new table."""
    recorded = Upstream(JUDGEMENT).recorded
    if Version(version(JUDGEMENT.distribution)) < Version(recorded["version"]):
        pytest.skip(f"the table is of {recorded['version']}")

    # In a process of its own: a record of this one has its signature once it was used.
    command = [sys.executable, surface.__file__, JUDGEMENT.distribution]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == recorded
