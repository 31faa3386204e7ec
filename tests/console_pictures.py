"""Pictures of the console, taken of real pages: ``python -m tests.console_pictures FOLDER``.

Each is an SVG around a picture of Chromium's, with the page's text as its ``<desc>``, and is taken
again only if the page says something else, times and ids aside.
"""

from __future__ import annotations

import base64
import contextlib
import html
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.pictures import description
from tests.programs import Start, starting

__all__ = ["beside", "take"]

POLICY = """
version: 1
policies:
  - {ask: send_email, id: mail, reason: Mail leaves the house.}
  - {deny: run_command, id: no-removal, when: '"rm " in args["command"]', reason: Do not delete.}
  - {allow: look_up, id: directory}
  - {deny: transfer_money, id: no-money}
"""
AGENT = """
import otelhooks

otelhooks.instrument(
    policies=["policy.yaml"],
    approvals="otelhooks.approvals:Queue",
    approval_timeout=600,
    capture_content="SPAN_ONLY",
)

@otelhooks.tool
def look_up(name): return f"{name}@example.org"

@otelhooks.tool
def run_command(command): return "ok"

@otelhooks.tool
def send_email(to, subject, body): return "sent"

@otelhooks.agent
def assistant():
    for command in ("ls", "rm -rf build", "git status"):
        try:
            run_command(command=command)
        except otelhooks.errors.Denied:
            pass
    look_up("ada")
    send_email(
        to=["ada@example.org", "all@example.org"],
        subject="Release 1.2",
        body="Jürgen und ich möchten Dir danken.",
    )

assistant()
"""
_CHANGING = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d(\.\d+)?|[\d.]+ m?s\b|\b[0-9a-f]{8}\b|\s+")


@contextlib.contextmanager
def beside(agent: str) -> Iterator[tuple[Start, str, Browser]]:
    """Start a console under `POLICY`.

    Yields:
        What starts the agent, the console's address, and a browser.
    """
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "the console is looked at with Chromium: apt-get install chromium"
    command = [sys.executable, "-m", "otelhooks", "ui", "--port", "0", "--as", "ada"]
    command += ["--policy", "policy.yaml"]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "policy.yaml").write_text(POLICY, encoding="utf-8")
        env = {**os.environ, "OTELHOOKS_STORE": str(place / "store.db")}
        with (
            subprocess.Popen(command, cwd=place, env=env, **pipes) as console,
            starting(place, agent, env=env) as start,
            sync_playwright() as playwright,
        ):
            try:
                assert console.stdout is not None
                address = console.stdout.readline().strip()
                browser = playwright.chromium.launch(
                    executable_path=chromium, args=["--no-sandbox"]
                )
                yield start, address, browser
                browser.close()
            finally:
                console.terminate()


def take(folder: Path) -> list[Path]:
    """Take the pictures that differ from what pages say, and return their paths.

    Args:
        folder: Holds them, or will.
    """
    with beside(AGENT) as (start, address, browser):
        start()
        found = dict(_pages(browser, address))
    drawn: list[Path] = []
    for name, (picture, said) in found.items():
        target = folder / f"console-{name}.svg"
        if not target.is_file() or _same(description(target)) != _same(said):
            target.write_text(_svg(picture, said), encoding="utf-8")
            drawn.append(target)
    return drawn


def _pages(browser: Browser, address: str) -> Iterator[tuple[str, tuple[bytes, str]]]:
    page = browser.new_page(viewport={"width": 1000, "height": 500}, color_scheme="light")
    expect.set_options(timeout=30_000)
    page.goto(address)
    while page.get_by_text("Nothing is stored yet").is_visible():
        page.reload()
    expect(page.get_by_role("row", name="ask send_email")).to_be_visible()
    expect(page.locator("#count")).to_have_text("1")
    yield "live", _picture(page)
    page.get_by_role("link", name="policy/no-removal").click()
    expect(page.get_by_text("Let this call through")).to_be_visible()
    yield "why", _picture(page)
    page.get_by_role("link", name="Approvals").click()
    page.get_by_role("link", name="send_email").click()
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    yield "approval", _picture(page)


def _picture(page: Page) -> tuple[bytes, str]:
    expect(page.locator("#count")).to_have_text("1")
    texts = [page.locator("body").inner_text()]
    texts += [area.input_value() for area in page.get_by_role("textbox").all()]
    return page.screenshot(full_page=True), "\n".join(filter(None, texts))


def _svg(picture: bytes, said: str) -> str:
    width, height = struct.unpack(">II", picture[16:24])  # where each PNG has its size
    size = f'width="{width}" height="{height}"'
    data = base64.b64encode(picture).decode()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n'
        f"<desc>{html.escape(said, quote=False)}</desc>\n"
        f'<image {size} href="data:image/png;base64,{data}"/>\n</svg>\n'
    )


def _same(said: str) -> str:
    return _CHANGING.sub(" ", said)


if __name__ == "__main__":
    drawn = take(Path(sys.argv[1]))
    print("\n".join(f"took {path}" for path in drawn) or "no page says anything else")
