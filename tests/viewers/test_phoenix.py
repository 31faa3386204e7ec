"""What Phoenix shows of a run, read from its pages in a browser."""

from __future__ import annotations

import base64
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")
if importlib.util.find_spec("phoenix") is None:
    pytest.skip("Phoenix needs Python 3.11", allow_module_level=True)

from playwright.sync_api import Page, expect

from tests.ports import free_ports

PROJECT = base64.b64encode(b"Project:1").decode()
SHOWS_MS = 60_000


@pytest.fixture(scope="module")
def phoenix(pictures: Path, serve: Any) -> Iterator[str]:
    """Start a Phoenix that has the program's run; its address."""
    port, grpc = free_ports(2)
    own = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_WORKING_DIR": str(pictures / "data"),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    address = f"http://127.0.0.1:{port}"
    with serve(address, [sys.executable, "-m", "phoenix.server.main", "serve"], own):
        yield address


@pytest.fixture
def shown(page: Page, phoenix: str) -> Callable[[str], Page]:
    """Open a page of the project."""

    def opened(name: str) -> Page:
        page.goto(f"{phoenix}/projects/{PROJECT}/{name}")
        return page

    return opened


def see(page: Page, *texts: str) -> None:
    for text in texts:
        expect(page.get_by_text(text).first).to_be_visible(timeout=SHOWS_MS)


def row(page: Page, text: str) -> Any:
    return page.get_by_role("row").filter(has_text=text).first


def test_the_list_shows_what_a_run_was_given_and_what_it_answered(shown: Any) -> None:
    found = row(shown("spans"), "invoke_agent ops")
    expect(found).to_contain_text("Clean up.", timeout=SHOWS_MS)
    expect(found).to_contain_text("All is listed.")


def test_the_list_of_sessions_shows_the_conversation_and_its_user(shown: Any) -> None:
    found = row(shown("sessions"), "conversation-7")
    expect(found).to_contain_text("u-1", timeout=SHOWS_MS)
    expect(found).to_contain_text("Clean up.")
    expect(found).to_contain_text("All is listed.")


def test_the_tree_has_each_call_and_the_deny(shown: Any) -> None:
    page = shown("spans")
    page.get_by_text("invoke_agent ops").first.click()
    see(page, "chat scripted", "execute_tool run_command")
    text = page.inner_text("body")
    for name, times in (("chat scripted", 3), ("execute_tool run_command", 2)):
        assert text.count(name) >= times
    page.get_by_text("execute_tool run_command").first.click()
    see(page, "Deleting files is not allowed here; list them instead.")


def test_a_model_call_shows_messages_tools_and_tokens(shown: Any) -> None:
    page = shown("spans")
    page.get_by_text("invoke_agent ops").first.click()
    page.get_by_text("chat scripted").last.click()
    see(page, "You clean up.", "Clean up.", "All is listed.", "ran: ls", "run_command")
