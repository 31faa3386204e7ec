"""`make adapter`: what it lays out passes the linter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import new_adapter


def test_what_it_lays_out_is_clean(tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    new_adapter.lay_out("shop", "shop-agents", tmp_path)
    config = new_adapter.ROOT / "pyproject.toml"
    for command in (("check",), ("format", "--check")):
        ruff = (sys.executable, "-m", "ruff", *command, "--config", config, "--no-cache", tmp_path)
        done = subprocess.run(ruff, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
