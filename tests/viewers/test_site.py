"""The documentation's site in a browser, opened from the file system, on a wide screen and a phone.

Each page is also kept as a picture, in the folder of pytest's temporary files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import Page, expect, sync_playwright

SITE = Path(os.environ.get("SITE_FOLDER", ""))
SCREENS = {"wide": (1500, 1000), "phone": (390, 844)}
PAGES = (
    *("index", "guide/ten-minutes", "guide/kubernetes", "policies", "tracing", "terms", "cli"),
    *("frameworks/langchain", "coming-from/google-antigravity", "repository/index"),
)


@pytest.fixture(scope="module", params=SCREENS)
def page(request: pytest.FixtureRequest) -> Iterator[Page]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "this test needs Chromium: apt-get install chromium"
    width, height = SCREENS[request.param]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": width, "height": height})
        browser.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_the_screen_and_asks_for_nothing_from_elsewhere(
    page: Page, name: str, tmp_path: Path
) -> None:
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((SITE / f"{name}.html").as_uri(), wait_until="networkidle")
    page.screenshot(path=tmp_path / f"{name.replace('/', '-')}.png")

    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []
    assert said == []
    too_wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(too_wide) == 0


def test_the_search_works_without_a_server(page: Page) -> None:
    page.goto((SITE / "guide" / "celery.html").as_uri())
    page.keyboard.press("s")  # the shortcut for the search
    page.locator("input.md-search__input").press_sequentially("annotate", delay=30)

    expect(page.locator(".md-search-result__meta")).to_contain_text("matching documents")
    expect(page.locator(".md-search-result__item").first).to_contain_text("Spans of others")
