"""The built site: `make site`. Its links lead somewhere, and it loads nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
SITE = Path(os.environ.get("SITE_FOLDER", ""))

LOADED = {"img": "src", "script": "src", "iframe": "src", "link": "href", "source": "src"}


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loaded.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    """Every page of the site, by its file, but the one for addresses that do not exist."""
    found = {file: Page(file) for file in SITE.rglob("*.html") if file.name != "404.html"}
    assert SITE / "index.html" in found
    return found


def _local(target: str) -> bool:
    return not urlsplit(target).scheme and not target.startswith("//")


def test_every_link_leads_to_a_page_and_an_anchor_of_it(pages: dict[Path, Page]) -> None:
    """Those of README, which is a page of the site too, among them."""
    assert SITE / "repository" / "index.html" in pages
    broken: list[str] = []
    for file, page in pages.items():
        for link in filter(_local, page.links):
            path, _, anchor = link.partition("#")
            target = (file.parent / unquote(path)).resolve() if path else file
            is_there = target.is_file() and (
                not anchor or target not in pages or unquote(anchor) in pages[target].anchors
            )
            if not is_there:
                broken.append(f"{file.relative_to(SITE)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Page]) -> None:
    for file, page in pages.items():
        for target in page.loaded:
            assert _local(target), f"{file.relative_to(SITE)} loads {target}"
            assert (file.parent / urlsplit(target).path).is_file(), target
    for sheet in SITE.rglob("*.css"):
        for target in re.findall(r"url\(['\"]?([^'\")]+)", sheet.read_text(encoding="utf-8")):
            assert _local(target) or target.startswith("data:"), f"{sheet.name} loads {target}"


def test_every_page_of_docs_is_built_and_found_by_the_search(pages: dict[Path, Page]) -> None:
    index = json.loads((SITE / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    for file in (ROOT / "docs").rglob("*.md"):
        name = file.relative_to(ROOT / "docs").with_suffix(".html")
        if "checker" in name.parts[:-1]:
            continue  # a package beside the pages, with a README of its own
        assert SITE / name in pages
        assert name.as_posix() in found
