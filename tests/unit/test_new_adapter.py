"""`make adapter`: what it lays out is complete, imported, and clean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otelhooks.patching.adapters import Adapter
from tests import new_adapter


def test_it_lays_out_package_model_test_locks_and_page(tmp_path: Path) -> None:
    written = new_adapter.lay_out("shop_agents", "shop-agents", tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in written] == [
        "otelhooks/frameworks/shop_agents/__init__.py",
        "otelhooks/frameworks/shop_agents/scripted.py",
        "tests/frameworks/test_shop_agents.py",
        "tests/frameworks/test_shop_agents_examples.py",
        "tests/locks/shop_agents-latest.in",
        "tests/locks/shop_agents-oldest.in",
        "docs/frameworks/shop_agents.md",
    ]
    for path in written:
        text = path.read_text()
        assert not any(word in text for word in ("NAME", "DISTRIBUTION", "TITLE"))
    for lock in written[4:6]:
        assert lock.read_text().endswith('\nshop-agents>=1,<2 ; python_version >= "3.10"\n')


def test_it_prints_the_lines_to_add_by_hand(capsys: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(new_adapter, "ROOT", tmp_path)
    monkeypatch.setattr(new_adapter.lay_out, "__defaults__", (tmp_path,))
    new_adapter.main(["shop"])
    said = capsys.readouterr().out
    assert '    "shop-latest": ("--group", "test", *CERTIFI),\n' in said
    assert "NOT_AT_IMPORT" in said


def test_the_adapter_that_it_lays_out_is_one(tmp_path: Path) -> None:
    written = new_adapter.lay_out("shop", "shop-agents", tmp_path)
    names: dict[str, Any] = {"__name__": "otelhooks.frameworks.shop", "__file__": str(written[0])}
    exec(compile(written[0].read_text(), written[0], "exec", dont_inherit=True), names)
    adapter = names["ADAPTER"]
    assert isinstance(adapter, Adapter)
    assert adapter.packages[0].distributions == ("shop-agents",)
    assert names["Tool"].framework == "shop"


@pytest.mark.parametrize("name", ["", "Shop", "shop-agents", "1shop", "shop.agents"])
def test_a_name_that_is_not_a_module_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a module"):
        new_adapter.lay_out(name, "shop", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_there_are_kept(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "frameworks" / "shop.md"
    page.parent.mkdir(parents=True)
    page.write_text("mine")
    with pytest.raises(FileExistsError):
        new_adapter.lay_out("shop", "shop", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [page]
    assert page.read_text() == "mine"


@pytest.mark.parametrize("arguments", [[], [""]])
def test_without_a_name_it_says_how_to_call_it(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="usage: make adapter NAME="):
        new_adapter.main(arguments)
