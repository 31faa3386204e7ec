"""The tables of `docs/coming-from` name what there is, on both sides."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from otelhooks_migrate.check import UPSTREAMS

PAGES = sorted((Path(__file__).parents[2] / "docs" / "coming-from").glob("*.md"))
SHORT = {"hooks", "policy", "types"}

_NAME = re.compile(r"(?P<name>[a-z_]\w*(?:\.\w+)+)(?:\((?P<arguments>.*)\))?\Z")


def rows(page: Path) -> list[list[str]]:
    """Return the cells of each row of the page's tables whose second column is ours."""
    found: list[list[str]] = []
    is_ours = False
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            is_ours = False
        elif len(cells) > 1 and cells[1] == "otelhooks":
            is_ours = True
        elif is_ours and not line.startswith("|--"):
            found.append(cells)
    return found


def names(cell: str, *roots: str) -> list[tuple[str, list[str]]]:
    """Return the dotted names in a cell's backticks that start so, with the keywords they show."""
    found: list[tuple[str, list[str]]] = []
    for code in re.findall(r"`([^`]+)`", cell):
        match = _NAME.match(code)
        if match and match["name"].startswith(roots):
            found.append((match["name"], re.findall(r"(\w+)=", match["arguments"] or "")))
    return found


ours = [
    pytest.param(name, keywords, id=f"{page.stem}-{name}")
    for page in PAGES
    for row in rows(page)
    for name, keywords in names(" ".join(row[1:]), "otelhooks.", "hooks.", "policy.", "types.")
]
theirs = [
    pytest.param(name, keywords, id=f"{page.stem}-{name}")
    for page in PAGES
    for row in rows(page)
    for name, keywords in names(row[0], *(each.judgement.root for each in UPSTREAMS))
]


@pytest.mark.parametrize(("name", "keywords"), ours)
def test_new_names_exist_and_take_what_is_shown(name: str, keywords: list[str]) -> None:
    first, *rest = name.removeprefix("otelhooks.").split(".")
    found: Any = importlib.import_module(f"otelhooks.{first}") if first in SHORT else None
    if found is None:
        found, rest = importlib.import_module("otelhooks"), [first, *rest]
    for part in rest:
        fields = getattr(found, "model_fields", {})
        if part in fields:
            return
        if not hasattr(found, part) and inspect.ismodule(found):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    if keywords:
        assert set(keywords) <= inspect.signature(found).parameters.keys()


@pytest.mark.parametrize(("name", "keywords"), theirs)
def test_old_names_exist_and_take_what_is_shown(name: str, keywords: list[str]) -> None:
    upstream = next(each for each in UPSTREAMS if each.has_module(name))
    module, _, last = name.rpartition(".")
    if upstream.is_recorded(name) or not upstream.is_recorded(module):
        owner, _, cls = module.rpartition(".")
        home = upstream.home(owner, cls) if upstream.is_recorded(owner) else None
        is_member = last in upstream.fact(home or "").get("members", {})
        assert upstream.is_recorded(name) or is_member or upstream.remark(name), name
        taken = upstream.fact(home or "").get("members", {}).get(last) or ""
    else:
        home = upstream.home(module, last)
        assert home is not None, name
        taken = upstream.fact(home).get("takes") or ""
    if taken:
        known = taken.removeprefix("await ").replace("=", "").split(", ")
        assert set(keywords) <= set(known)


def test_every_page_of_a_system_has_a_table_and_an_example() -> None:
    for page in PAGES:
        if page.stem != "checker":
            assert len(rows(page)) > 8, page.stem
            assert "```python" in page.read_text(encoding="utf-8"), page.stem
