"""The contract on langchain, langgraph and langchain-core, and what is particular to them."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain_core")

from tests.frameworks.agents_langchain import PATHS
from tests.frameworks.contract import Contract


class TestLangchain(Contract):
    framework = "langchain"
    paths = PATHS
