"""An agent in one terminal, the console in another: ``python -m tests.console_session FOLDER``.

A person watches a deny arrive, opens the call that waits on a phone, edits an argument, approves
it, and the agent goes on. Each step is a picture in the folder; both terminals are printed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.console_pictures import beside

__all__ = ["play"]

AGENT = """
import time
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
def send_email(to, subject): return f"sent to {to}"

@otelhooks.agent
def assistant():
    calls = [
        (look_up, dict(name="ada")),
        (run_command, dict(command="git status")),
        (run_command, dict(command="rm -rf build")),
        (send_email, dict(to="all@example.org", subject="Release 1.2")),
        (look_up, dict(name="grace")),
    ]
    for tool, arguments in calls:
        print(tool.__name__, arguments, flush=True)
        try:
            print("  ->", tool(**arguments), flush=True)
        except otelhooks.errors.Denied as denied:
            print("  -> denied:", denied, flush=True)
        time.sleep(1)

assistant()
"""
PHONE: Any = {"width": 390, "height": 844}


def play(folder: Path) -> str:
    """Play the session; return what the agent printed.

    Args:
        folder: Takes the pictures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with beside(AGENT) as (start, address, browser):
        expect.set_options(timeout=120_000)  # on a machine with other work
        agent = start()
        _watch(browser, address, folder)
        said = agent.communicate(timeout=60)[0]
    print(f"$ otelhooks ui\n{address.partition('?')[0]}?token=...\n")
    print(f"$ python agent.py\n{said}\npictures: {folder}")
    return said


def _watch(browser: Browser, address: str, folder: Path) -> None:
    """Do what the person does, at a desk and on a phone."""
    desk = browser.new_page(viewport={"width": 1000, "height": 600}, color_scheme="light")
    desk.goto(address)
    while desk.get_by_text("Nothing is stored yet").is_visible():
        desk.reload()
    denied = desk.get_by_role("row", name="execute_tool run_command").filter(has_text="no-removal")
    expect(denied).to_have_class("bad")
    expect(denied).to_contain_text("policy/no-removal")
    expect(desk.get_by_role("row", name="ask send_email")).to_contain_text("pending")
    expect(desk.locator("#count")).to_have_text("1")
    desk.screenshot(path=folder / "1-deny-and-a-call-that-waits.png")

    phone = browser.new_context(viewport=PHONE, color_scheme="dark", has_touch=True).new_page()
    phone.goto(address)
    phone.get_by_role("link", name="Approvals").tap()
    expect(phone.get_by_role("link", name="send_email")).to_be_visible()
    phone.screenshot(path=folder / "2-inbox-on-a-phone.png")
    phone.get_by_role("link", name="send_email").tap()
    arguments = phone.get_by_label("Arguments")
    arguments.fill(arguments.input_value().replace("all@", "ada@"))
    _fits(phone)
    phone.screenshot(path=folder / "3-edited.png", full_page=True)
    phone.get_by_role("button", name="Approve").tap()
    expect(phone.get_by_text("approved by ada, with other arguments")).to_be_visible()
    expect(phone.get_by_text("No process has taken")).to_be_hidden()
    phone.screenshot(path=folder / "4-approved.png")

    expect(desk.get_by_role("row", name="execute_tool send_email")).to_contain_text("approved")
    expect(desk.get_by_role("row", name="execute_tool look_up")).to_have_count(2)
    desk.screenshot(path=folder / "5-the-agent-goes-on.png")


def _fits(page: Page) -> None:
    too_wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(too_wide) == 0, "the page is wider than the phone"


if __name__ == "__main__":
    play(Path(sys.argv[1]))
