"""The console as a process: what it streams, and what it learns from other processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from otelhooks import types
from tests.ports import free_ports

pytest.importorskip("starlette")
httpx2 = pytest.importorskip("httpx2")

TOKEN = "a-token-for-listeners"

PROGRAM = """
import otelhooks
from otelhooks import hooks, policy

rules = [policy.deny("drop", reason="Kept."), policy.allow("*")]
listener = hooks.observing_hooks(lambda event: print(event.model_dump_json()))
otelhooks.instrument(policies=rules, hooks=[listener], capture_content=True)
for name in ("drop", "look"):
    try:
        otelhooks.call_tool(name, {"at": "a"}, lambda at: {"found": at})
    except otelhooks.errors.Denied:
        pass
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"OTELHOOKS_STORE": str(tmp_path / "store.db")}


def run_program(env: dict[str, str]) -> list[types.HookEvent]:
    """Return what its own listener got."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    return [types.HookEvent.model_validate_json(line) for line in done.stdout.splitlines()]


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


def events(console: httpx2.Client, number: int, seen: str) -> Iterator[tuple[str, types.HookEvent]]:
    """Yield the first events after an id, each with its own."""
    id = ""
    with console.stream("GET", "/events", headers={"last-event-id": seen}) as stream:
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                id = value
            if name == "data":
                yield id, types.HookEvent.model_validate_json(value)
                number -= 1
            if not number:
                return


@pytest.mark.timeout(120)  # another process starts
def test_the_stream_has_the_events_that_listeners_get(
    console: httpx2.Client, env: dict[str, str]
) -> None:
    live = [one for one in run_program(env) if one.type.endswith("_use")]
    streamed = [one for _, one in events(console, 3, "0-0")]
    refused = next(one for one in live if one.decision == "deny")
    ended = next(one for one in live if one.type == "post_tool_use")
    at_once, stored = (one for one in streamed if one.type == "pre_tool_use")
    done = next(one for one in streamed if one.type == "post_tool_use")
    loose = {"timestamp", "duration"}
    assert stored.model_dump(exclude=loose) == refused.model_dump(exclude=loose)
    assert at_once.model_dump(exclude={*loose, "input"}) == refused.model_dump(
        exclude={*loose, "input"}
    )
    assert done.model_dump(exclude={*loose, "input", "rule_id"}) == ended.model_dump(
        exclude={*loose, "input", "rule_id"}
    )
    assert done.input == {"at": "a"}
    assert done.rule_id == "allow:*"
    assert done.duration


@pytest.mark.timeout(120)  # as above
def test_a_program_listens_as_the_documentation_says(env: dict[str, str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    [code] = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    names: dict[str, Any] = {}
    exec(code, names)
    (port,) = free_ports(1)
    heard = names["listen"](f"http://127.0.0.1:{port}/events", TOKEN, "0-0")
    for _ in range(2):
        command = [sys.executable, "-m", "otelhooks", "ui", "--port", str(port)]
        with subprocess.Popen(command, env=env | {"OTELHOOKS_EVENTS_TOKEN": TOKEN}) as console:
            run_program(env)
            assert {next(heard).tool_name for _ in range(3)} == {"drop", "look"}
            console.terminate()


@pytest.mark.timeout(120)  # as above
def test_a_stream_goes_on_after_any_event_of_it(
    console: httpx2.Client, env: dict[str, str]
) -> None:
    run_program(env)
    run_program(env)
    whole = list(events(console, 6, "0-0"))
    for number, (id, _) in enumerate(whole[:-1], 1):
        assert list(events(console, 6 - number, id)) == whole[number:]


@pytest.mark.timeout(120)  # as above
def test_coverage_is_what_doctor_reports(console: httpx2.Client) -> None:
    page = console.get("/coverage")
    assert page.status_code == 200
    assert "otelhooks doctor --prove" in page.text
    assert 'scope="col">Framework</th>' in console.get("/coverage/report").text


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
