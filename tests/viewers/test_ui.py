"""The console in a browser, with programs that ask: on a wide screen and on a phone.

Each page is also kept as a picture, in the folder of pytest's temporary files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")
pytest.importorskip("starlette")
pytest.importorskip("axe_playwright_python")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from tests import console_pictures, console_session
from tests.programs import Start, starting

AGENT = """
import otelhooks
from otelhooks import policy

otelhooks.instrument(
    policies=[
        policy.ask_user("send_email", id="mail", reason="Mail leaves the house."),
        policy.deny("remove", id="no-removal", reason="Nothing is removed here."),
    ],
    approvals="otelhooks.approvals:Queue",
    approval_timeout=60,
    audit="audit",
)

@otelhooks.tool
def look_up(name): return name

@otelhooks.tool
def remove(path): print("removed")

@otelhooks.tool
def send_email(to, body): print("sent to", to)

@otelhooks.agent
def helper():
    look_up("ada")
    for call in (lambda: remove("/"), lambda: send_email("all@example.org", "<b>Hello</b>")):
        try:
            call()
        except otelhooks.errors.Denied as denied:
            print("denied:", denied)

helper()
"""
POLICY = """
version: 1
policies:
  - {deny: remove, id: no-removal, reason: Nothing is removed here.}
  - {deny: never_called, id: idle}
"""
expect.set_options(timeout=30_000)  # `doctor` imports frameworks, on a machine with other work
SCREENS = {"wide": (1500, 1000, "light"), "phone": (390, 844, "dark")}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"OTELHOOKS_STORE": str(tmp_path / "store.db")}


@pytest.fixture
def agent(tmp_path: Path, env: dict[str, str]) -> Iterator[Start]:
    """Starts a program that asks."""
    with starting(tmp_path, AGENT, env=env) as start:
        yield start


@pytest.fixture
def console(env: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "policy.yaml").write_text(POLICY)
    command = [sys.executable, "-m", "otelhooks", "ui", "--port", "0", "--as", "u-17"]
    command += ["--policy", str(tmp_path / "policy.yaml"), "--audit", str(tmp_path / "audit")]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.terminate()


@pytest.fixture
def address(console: subprocess.Popen[str]) -> str:
    """What `otelhooks ui` prints first."""
    assert console.stdout is not None
    return console.stdout.readline().strip()


@pytest.fixture(params=SCREENS)
def screen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Page]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "this test needs Chromium: apt-get install chromium"
    width, height, scheme = SCREENS[request.param]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        size: Any = {"width": width, "height": height}
        found = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
        yield found
        found.screenshot(path=tmp_path / "last.png")
        browser.close()


@pytest.fixture
def page(screen: Page) -> Iterator[Page]:
    """A screen on which no page says anything to its console."""
    said: list[str] = []
    screen.on("console", lambda message: said.append(message.text))
    screen.on("pageerror", lambda error: said.append(str(error)))
    yield screen
    assert said == []


def suits(page: Page) -> None:
    """Check that a page fits the screen, and that axe finds nothing that keeps a person out."""
    page.wait_for_load_state("load")
    too_wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(too_wide) == 0
    found = Axe().run(page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []


def test_a_person_watches_calls_and_approves_one_that_waits(
    page: Page, address: str, agent: Start, tmp_path: Path
) -> None:
    page.goto(address)
    assert "token" not in page.url
    expect(page.get_by_text("Nothing is stored yet")).to_be_visible()

    asking = agent()
    page.get_by_role("link", name="Approvals").click()
    page.get_by_role("link", name="send_email").click()  # appears without a reload
    expect(page.get_by_role("heading", name="send_email")).to_be_visible()
    expect(page.get_by_text("Mail leaves the house.")).to_be_visible()
    suits(page)
    page.screenshot(path=tmp_path / "approval.png")

    arguments = page.get_by_label("Arguments")
    assert "<b>Hello</b>" in arguments.input_value()
    arguments.fill(arguments.input_value().replace("all@example.org", "ada@example.org"))
    page.get_by_role("button", name="Approve").click()
    assert asking.communicate(timeout=30)[0].splitlines() == [
        "denied: Nothing is removed here.",
        "sent to ada@example.org",
    ]
    expect(page.get_by_text("approved by u-17")).to_be_visible()
    suits(page)
    page.screenshot(path=tmp_path / "approvals.png")

    page.get_by_role("link", name="Live").click()
    denied = page.get_by_role("row", name="execute_tool remove")
    expect(denied).to_contain_text("code/no-removal")
    expect(denied).to_have_class("bad")
    suits(page)
    page.screenshot(path=tmp_path / "live.png")

    denied.get_by_role("link").first.click()
    expect(page.get_by_text("Nothing is removed here.")).to_be_visible()
    suits(page)
    page.screenshot(path=tmp_path / "run.png")


def test_a_deny_leads_to_its_rule_and_what_else_it_decided(
    page: Page, address: str, agent: Start, tmp_path: Path
) -> None:
    asking = agent()
    page.goto(address)
    page.get_by_role("link", name="Approvals").click()
    page.get_by_role("link", name="send_email").click()
    page.get_by_role("button", name="Deny").click()
    asking.communicate(timeout=30)

    page.get_by_role("link", name="Live").click()
    page.get_by_label("Text").fill("Nothing is removed")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name="code/no-removal").click()
    expect(page.get_by_role("heading", name="remove")).to_be_visible()
    expect(page.get_by_text("exact tool deny")).to_be_visible()
    suits(page)
    page.screenshot(path=tmp_path / "call.png")

    seen = {
        "Decisions": "code/no-removal",
        "Policy": "policy/idle",
        "Coverage": "Framework",
        "Audit": "No findings.",
        "Approvals": "rejected by u-17",
    }
    for name, text in seen.items():
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_text(text).first).to_be_visible()
        suits(page)
        page.screenshot(path=tmp_path / f"{name.lower()}.png")

    page.get_by_role("link", name="Runs").click()
    page.get_by_role("row").nth(1).get_by_role("link").click()
    page.get_by_role("link", name="Over time").click()
    expect(page.get_by_role("row", name="execute_tool remove")).to_have_class("bad")
    suits(page)
    page.screenshot(path=tmp_path / "time.png")


def test_calls_appear_as_they_happen(page: Page, address: str, agent: Start) -> None:
    agent()
    page.goto(address)
    while page.get_by_text("Nothing is stored yet").is_visible():
        page.reload()
    expect(page.get_by_role("row", name="ask send_email")).to_contain_text("pending")
    agent()
    expect(page.get_by_role("row", name="execute_tool remove")).to_have_count(2)


def test_by_keyboard_alone_a_call_is_denied(page: Page, address: str, agent: Start) -> None:
    asking = agent()
    page.goto(address)
    page.get_by_role("link", name="Approvals").focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="send_email").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Arguments").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Deny")).to_be_focused()
    page.keyboard.press("Enter")
    assert "denied: Mail leaves the house." in asking.communicate(timeout=30)[0]


def test_what_is_read_again_keeps_the_focus_and_says_when_it_cannot_be_read(
    screen: Page, address: str, agent: Any, console: subprocess.Popen[str]
) -> None:
    agent()
    screen.goto(address)
    screen.get_by_role("link", name="Approvals").click()
    expect(screen.get_by_role("link", name="send_email")).to_be_visible()
    screen.reload()
    screen.get_by_role("link", name="send_email").focus()
    screen.wait_for_timeout(3_000)
    expect(screen).to_have_title("(1) Approvals · otelhooks")
    expect(screen.get_by_role("link", name="send_email")).to_be_focused()
    console.kill()
    expect(screen.get_by_role("alert")).to_contain_text("Not connected since")


def test_the_session_from_a_deny_to_an_edited_call_can_be_played(tmp_path: Path) -> None:
    said = console_session.play(tmp_path)
    assert "denied: Do not delete.\n" in said
    assert "-> sent to ada@example.org\nlook_up {'name': 'grace'}\n" in said
    assert len(list(tmp_path.glob("*.png"))) == 5


def test_the_pictures_of_the_docs_show_the_console_of_today(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[2] / "docs" / "pictures", tmp_path / "pictures")
    assert console_pictures.take(tmp_path / "pictures") == []


BUSY = """
import time
import otelhooks

otelhooks.instrument()

@otelhooks.tool
def look_up(number): return number

begun = time.monotonic()
for number in range(5_000):  # 10,000 spans a minute, for half a minute
    look_up(number)
    time.sleep(max(0.0, begun + number * 60 / 10_000 - time.monotonic()))
"""
FRAMES = """() => new Promise(done => {
    const gaps = []; let last = performance.now();
    const next = now => {
        gaps.push(now - last); last = now;
        gaps.length < 120 ? requestAnimationFrame(next) : done(gaps.sort((a, b) => a - b));
    };
    requestAnimationFrame(next);
})"""


def test_ten_thousand_calls_a_minute_leave_the_page_usable(
    page: Page, address: str, tmp_path: Path, env: dict[str, str]
) -> None:
    page.goto(address)
    with starting(tmp_path, BUSY, env=env) as start:
        busy = start()
        newest = page.get_by_role("row", name="execute_tool look_up").first
        expect(newest).to_be_visible()
        frames = page.evaluate(FRAMES)
        print(f"frames: median {frames[60]:.0f} ms, longest {frames[-1]:.0f} ms")
        page.get_by_label("Text").fill("nothing like it")
        page.get_by_role("button", name="Filter").click()
        expect(newest).to_have_count(0)
        page.get_by_role("link", name="Live").click()
        expect(newest).to_be_visible()
        assert busy.poll() is None
        assert page.get_by_role("row").count() < 200
        busy.terminate()
