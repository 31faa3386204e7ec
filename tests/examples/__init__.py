"""The examples of five systems, each written once and played in every framework."""

import pytest

_CHECKING = ("ai_harness", "antigravity_python", "antigravity_rust", "go_agent", "performance")
pytest.register_assert_rewrite(*(f"tests.examples.{name}" for name in _CHECKING))
