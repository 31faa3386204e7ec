"""Stops on a real Redis server, for programs on several hosts."""

from __future__ import annotations

import time

import pytest
from click.testing import CliRunner

import otelhooks
from otelhooks.cli import cli
from otelhooks.errors import Denied
from otelhooks.setup import stop_places
from tests.servers.redis_server import NEEDS_REDIS, Server

pytestmark = NEEDS_REDIS


@otelhooks.tool
def beat() -> bool:
    return True


def runs() -> bool:
    try:
        return beat()
    except Denied:
        return False


def until_it(does: bool) -> None:
    deadline = time.monotonic() + 10
    while runs() is not does:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_programs_stop_continue_and_stay_stopped_while_the_server_is_away(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTELHOOKS_STOPS", server.address)
    otelhooks.instrument(frameworks=())
    assert runs()
    CliRunner().invoke(cli, ["stop", "--tool", "beat"])
    until_it(False)
    place = stop_places.place_of(server.address)
    assert place is not None
    [stop] = place.kept()
    assert stop.tool == "beat"
    assert place.lift(stop.id)
    assert not place.lift(stop.id)
    until_it(True)

    CliRunner().invoke(cli, ["stop", "--all"])
    until_it(False)
    server.stop()
    deadline = time.monotonic() + 20
    while "the last ones hold" not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not runs()
