"""Tests that start processes, fork, or send signals: `make processes`, not `make test`."""

from __future__ import annotations

import pytest

from tests.unit.conftest import governed, no_adapters

__all__ = ["governed", "no_adapters"]

pytest.register_assert_rewrite("tests.children")
