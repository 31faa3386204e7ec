"""The checker's table of names is that of the real package."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from packaging.version import Version

from otelhooks_migrate.hedera_agent_kit import JUDGEMENT
from otelhooks_migrate.upstream import Upstream
from tests.upstream.surface import surface


@pytest.mark.filterwarnings("ignore")  # of the packages that this one imports
def test_the_table_is_what_the_installed_package_offers() -> None:
    """If not: `python tests/upstream/surface.py hedera-agent-kit` prints the new table."""
    recorded = Upstream(JUDGEMENT).recorded
    if Version(version(JUDGEMENT.distribution)) < Version(recorded["version"]):
        pytest.skip(f"the table is of {recorded['version']}")

    assert surface(JUDGEMENT.distribution) == recorded
