"""A browser, and a viewer that has the run of `conversation.py`.

Each page is also kept as a picture, in the folder of pytest's temporary files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import Page, sync_playwright

PROGRAM = Path(__file__).with_name("conversation.py")
STARTS_S, SHOWS_MS = 300, 60_000

Serve = Callable[..., contextlib.AbstractContextManager[None]]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def serve(pictures: Path) -> Serve:
    """Start a viewer at an address, and run the program that sends its spans there."""

    @contextlib.contextmanager
    def serving(
        address: str, command: Sequence[str], own: Mapping[str, str], **exported: str
    ) -> Iterator[None]:
        with (pictures / "server.log").open("w") as log:
            server = subprocess.Popen(
                command,
                env=os.environ | own,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _wait(address, server)
            variables = {
                "OTEL_EXPORTER_OTLP_ENDPOINT": address,
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_LOGS_EXPORTER": "none",
                "OTEL_METRICS_EXPORTER": "none",
                "OTELHOOKS_EXIT_TIMEOUT": "60",
                "OTELHOOKS_STORE": str(pictures / "store.db"),
                **exported,
            }
            subprocess.run([sys.executable, PROGRAM], env=os.environ | variables, check=True)
            yield
        finally:
            os.killpg(server.pid, signal.SIGKILL)  # it may have workers
            server.wait()

    return serving


def _wait(address: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTS_S
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            assert server.poll() is None, "the viewer has ended"
            assert time.monotonic() < until, "the viewer does not answer"
            time.sleep(0.5)
        else:
            return


@pytest.fixture(scope="module")
def browser_page() -> Iterator[Page]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "this test needs Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        found = browser.new_page(viewport={"width": 1500, "height": 1000})
        found.set_default_timeout(SHOWS_MS)
        yield found
        browser.close()


@pytest.fixture
def page(browser_page: Page, pictures: Path, request: Any) -> Iterator[Page]:
    """The browser's page, which is kept as a picture when the test has ended."""
    yield browser_page
    browser_page.screenshot(path=pictures / f"{request.node.name}.png")
