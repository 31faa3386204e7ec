"""The console as a process: what it streams, and what it learns from other processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
httpx2 = pytest.importorskip("httpx2")

PROGRAM = """
import otelhooks
from otelhooks import policy

otelhooks.instrument(policies=[policy.deny("drop")])
try:
    otelhooks.call_tool("drop", {}, lambda: None)
except otelhooks.errors.Denied:
    pass
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"OTELHOOKS_STORE": str(tmp_path / "store.db")}


def run_program(env: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], env=env, check=True, capture_output=True)


@pytest.fixture
def process(env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "otelhooks", "ui", "--port", "0"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as started:
        yield started
        started.terminate()


@pytest.fixture
def console(process: subprocess.Popen[str]) -> Iterator[httpx2.Client]:
    """A client that was given the address."""
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    with httpx2.Client(base_url=address.partition("?")[0], timeout=60) as client:
        client.get(address)
        yield client


def events(console: httpx2.Client, number: int, seen: str) -> list[dict[str, Any]]:
    """Return the first events after an id, each with its fields."""
    found: list[dict[str, Any]] = []
    fields: dict[str, Any] = {}
    with console.stream("GET", "/events", headers={"last-event-id": seen}) as stream:
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
                continue
            if "data" in fields:
                found.append({**fields, "data": json.loads(fields["data"])})
                if len(found) == number:
                    return found
            fields = {}
    raise AssertionError("the stream has ended")


@pytest.mark.timeout(120)  # as above
def test_coverage_is_what_doctor_reports(console: httpx2.Client) -> None:
    page = console.get("/coverage")
    assert page.status_code == 200
    assert "otelhooks doctor --prove" in page.text


@pytest.mark.timeout(120)  # as above
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_an_open_stream_does_not_hold_up_the_end(
    console: httpx2.Client, process: subprocess.Popen[str], number: signal.Signals
) -> None:
    with console.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": otelhooks"
        process.send_signal(number)
        assert not [line for line in lines if line]
    assert process.wait(30) == (0 if number == signal.SIGINT else -number)
