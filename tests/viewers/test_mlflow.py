"""What MLflow shows of a run, read from its pages in a browser."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")
pytest.importorskip("mlflow")

from playwright.sync_api import Page, expect

from tests.ports import free_ports

SHOWS_MS = 60_000


@pytest.fixture(scope="module")
def mlflow(pictures: Path, serve: Any) -> Iterator[str]:
    """Start an MLflow that has the program's run; its address."""
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)),
        *("--backend-store-uri", f"sqlite:///{pictures}/runs.db", "--workers", "1"),
        *("--default-artifact-root", str(pictures / "artifacts")),
    ]
    # MLflow has no default for the experiment of spans.
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "x-mlflow-experiment-id=0"}
    with serve(address, command, {"MLFLOW_DISABLE_TELEMETRY": "true"}, **headers):
        yield address


@pytest.fixture
def traces(page: Page, mlflow: str) -> Page:
    """The list of traces."""
    page.goto(f"{mlflow}/#/experiments/0/traces")
    expect(page.get_by_text("conversation-7").first).to_be_visible(timeout=SHOWS_MS)
    if (hint := page.get_by_role("button", name="Got it")).count():
        hint.click()
    return page


@pytest.fixture
def trace(traces: Page) -> Page:
    """The one trace."""
    traces.get_by_text("Clean up.").first.click()
    expect(traces.get_by_text("invoke_agent ops").first).to_be_visible(timeout=SHOWS_MS)
    return traces


def see(page: Page, *texts: str) -> None:
    for text in texts:
        expect(page.get_by_text(re.compile(re.escape(text))).first).to_be_visible(timeout=SHOWS_MS)


def test_the_list_shows_what_a_run_was_given_its_answer_conversation_and_tokens(
    traces: Page,
) -> None:
    found = traces.locator("tr, [role=row]").filter(has_text="conversation-7").first
    for text in ("Clean up.", "All is listed.", "OK", "420"):
        expect(found).to_contain_text(text)


def test_the_tree_has_each_call(trace: Page) -> None:
    for name, times in (("chat scripted", 3), ("execute_tool run_command", 2)):
        assert trace.get_by_text(name, exact=True).count() == times


def test_a_denied_call_shows_the_reason(trace: Page) -> None:
    trace.get_by_text("execute_tool run_command").first.click()
    trace.get_by_text("Attributes", exact=True).first.click()
    see(trace, "otelhooks.policy.reason", "Deleting files is not allowed here")


def test_a_model_call_shows_messages_and_tools(trace: Page) -> None:
    trace.get_by_text("chat scripted").last.click()
    see(trace, "Clean up.", "All is listed.", "ran: ls")
    trace.get_by_text("Attributes", exact=True).first.click()
    see(trace, "gen_ai.tool.definitions", "Run a command in a shell.")
