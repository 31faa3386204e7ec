"""The pictures of README and docs show what a run shows today."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import pictures

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"


def test_each_is_drawn_from_a_run_and_again_only_if_it_shows_something_else(tmp_path: Path) -> None:
    pytest.importorskip("agents")
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    assert pictures.draw(tmp_path) == []
    drawn = tmp_path / "trace.svg"
    drawn.write_text(drawn.read_text().replace("deny", "allow"))
    assert pictures.draw(tmp_path) == [drawn]


def test_the_pipeline_is_drawn_from_its_text(tmp_path: Path) -> None:
    target = FOLDER / "pipeline.svg"
    assert pictures.description(target) == pictures.PIPELINE
    for line in pictures.PIPELINE.splitlines():
        words = line.split()
        assert all(word in target.read_text() for word in words if word.isalpha())
