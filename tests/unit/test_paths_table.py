"""The table of what the contract was played on, and the README's rows that come from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks import paths

TITLE = "[MCP](docs/frameworks/mcp.md), client and server"
ROW = f"| {TITLE} | mcp `>=1.22,<3` | no | yes | no | yes | no | yes |"


def played(features: list[str], failed: int = 0, **lacks: int) -> dict[str, Any]:
    return {"features": features, "passed": 20, "failed": failed, "lacks": lacks}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "README", tmp_path / "README.md")
    paths.README.write_text(f"{ROW}\n", encoding="utf-8")
    return tmp_path


def report(folder: Path, lock: str, **of: Any) -> None:
    (folder / f"{lock}.json").write_text(json.dumps({"mcp": of}), encoding="utf-8")


def test_it_shows_each_path_of_each_version(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(folder, "mcp2-latest", memory=played(["MCP", "async", "parallel"], no_stream=2))
    report(folder, "mcp2-oldest", tool=played(["sync"]))
    assert paths.main(str(folder)) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines() if line]
    cells = [[cell.strip() for cell in line if cell] for line in lines]
    assert cells[0] == ["mcp", "mcp2-latest", "mcp2-oldest"]
    assert ["memory", "20 passed, 2 lacking", "-"] in cells
    assert ["tool", "-", "20 passed"] in cells
    assert ["lacking, mcp2-latest: no_stream: memory"] in cells


def test_a_row_that_says_otherwise_is_found_and_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(folder, "mcp2-latest", memory=played(["MCP", "async", "parallel", "stream"]))
    assert paths.main(str(folder)) == 1
    assert "error: rows of the table in README.md" in capsys.readouterr().out
    assert paths.main(str(folder), "--write") == 0
    assert paths.README.read_text(encoding="utf-8") == (
        f"| {TITLE} | mcp `>=1.22,<3` | no | yes | yes | yes | no | yes |\n"
    )
    assert paths.main(str(folder)) == 0


def test_only_the_newest_version_makes_the_row(folder: Path) -> None:
    report(folder, "mcp2-oldest", memory=played(["sync"]))
    assert paths.main(str(folder)) == 0


def test_a_failed_path_and_an_empty_report_fail(folder: Path) -> None:
    report(folder, "mcp2-oldest", memory=played(["async"], failed=1))
    assert paths.main(str(folder), "--write") == 1
    report(folder, "mcp2-oldest")
    assert paths.main(str(folder)) == 1


def test_a_framework_without_a_row_is_named(folder: Path) -> None:
    paths.README.write_text("no table\n", encoding="utf-8")
    report(folder, "mcp2-latest", memory=played(["async"]))
    with pytest.raises(SystemExit, match=r"no row that links to docs/frameworks/mcp\.md"):
        paths.main(str(folder))
