"""Limits that several processes share through a real Redis server, and what holds without it."""

from __future__ import annotations

import functools
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import otelhooks
from otelhooks import policy, types
from otelhooks.errors import Denied
from otelhooks.policy.limits.counters import Counter
from otelhooks.records import semconv
from tests.servers.redis_server import NEEDS_REDIS, Server

pytestmark = [NEEDS_REDIS, pytest.mark.usefixtures("dropped_connections")]


@pytest.fixture
def instrument(providers: dict[str, Any]) -> Iterator[Any]:
    yield functools.partial(otelhooks.instrument, frameworks=(), **providers)
    otelhooks.uninstrument()


class Tool:
    """A tool that counts how often it ran."""

    def __init__(self) -> None:
        self.ran = 0

        @otelhooks.tool
        def t() -> str:
            self.ran += 1
            return "done"

        self.t = t

    def told(self) -> str:
        try:
            return self.t()
        except Denied as denied:
            return str(denied)


# Calls a tool until it is stopped, and prints how often the tool ran.
WORKER = """
import sys
import otelhooks
from otelhooks import policy

ran = 0

@otelhooks.tool
def t():
    global ran
    ran += 1

address, session = sys.argv[1:]
otelhooks.instrument(frameworks=(), policies=[policy.RateLimit(tool_calls=50, storage=address)])
print("ready", flush=True)
sys.stdin.readline()
with otelhooks.session(session):
    for _ in range(50):
        try:
            t()
        except otelhooks.errors.Denied as denied:
            assert str(denied) == "Rate limit exceeded: 50 of 50 tool calls used", denied
            break
print(ran)
"""


def test_processes_share_one_limit(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER, encoding="utf-8")
    workers = [
        subprocess.Popen(
            [sys.executable, str(script), server.address, "conversation"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    ran = [int(worker.communicate("go\n", timeout=30)[0]) for worker in workers]
    assert sum(ran) == 50


def test_the_server_gone_denies_and_says_so(server: Server, instrument: Any, exporter: Any) -> None:
    tool = Tool()
    instrument(policies=[policy.RateLimit(tool_calls=2, storage=server.address, id="r")])
    with otelhooks.session("c"):
        assert tool.told() == "done"
        server.stop()
        started = time.perf_counter()
        assert tool.told() == "Rate limit could not be checked."
        assert time.perf_counter() - started < 5
        server.start()
        assert tool.told() == "done"
    assert tool.ran == 2
    attributes = exporter.get_finished_spans()[1].attributes
    assert attributes[semconv.POLICY_DECISION] == "deny"
    assert attributes[semconv.POLICY_RULE_ID] == "r"
    assert attributes[semconv.POLICY_REASON] == "r: ConnectionError"
    assert attributes[semconv.ERROR_TYPE] == "policy_error"


def test_or_allows_and_says_so(server: Server, instrument: Any, exporter: Any) -> None:
    tool = Tool()
    limit = policy.RateLimit(tool_calls=1, storage=server.address, on_error="allow")
    instrument(policies=[limit])
    with otelhooks.session("c"):
        server.stop()
        assert tool.told() == "done"
        server.start()
        assert tool.told() == "done"
        assert tool.told() == "Rate limit exceeded: 1 of 1 tool calls used"
    attributes = exporter.get_finished_spans()[0].attributes
    assert attributes[semconv.POLICY_ENFORCEMENT] == "observed"
    expected = "Rate limit could not be checked. (ConnectionError)"
    assert attributes[semconv.POLICY_REASON] == expected


def test_a_moving_window_is_shared(server: Server) -> None:
    one, two = (Counter(3, 60, server.address, is_moving=True) for _ in range(2))
    assert [one.take("a"), two.take("a"), one.take("a"), two.take("a")] == [True, True, True, False]
    assert one.read("a") == 3
    assert two.read("b") == 0
    one.add(2, "b")  # people have let these pass
    assert [two.take("b"), one.take("b")] == [True, False]


def test_processes_share_what_was_called_again(server: Server, instrument: Any) -> None:
    for expected in (["done", "done"], ["denied", "denied"]):
        instrument(policies=[policy.Repeat(calls=3, per="session", storage=server.address)])
        with otelhooks.session("c"):
            tool = Tool()
            told = [tool.told() for _ in range(2)]
        otelhooks.uninstrument()
        assert ["denied" if "has run 2 times" in each else each for each in told] == expected


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_coroutines_wait_for_the_server_beside_the_loop(
    server: Server, instrument: Any, anyio_backend: str
) -> None:
    import anyio

    ran: list[int] = []

    @otelhooks.tool
    async def t(number: int) -> None:
        ran.append(number)

    async def call(number: int) -> None:
        try:
            await t(number)
        except Denied:
            pass

    instrument(policies=[policy.RateLimit(tool_calls=5, storage=server.address)])
    with otelhooks.session("c"):
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(call, number)
    assert len(ran) == 5


def test_budgets_are_shared_and_paid_later_where_the_server_is_gone(
    server: Server, instrument: Any
) -> None:
    @otelhooks.model_call(model="m")
    def ask(messages: Any) -> types.ModelResponse:
        server.stop()
        return types.ModelResponse(text="answer", usage=types.Usage(input_tokens=6))

    instrument(policies=[policy.Budget(tokens=10, storage=server.address)])
    with otelhooks.session("c"):
        assert ask("hello").text == "answer"
        with pytest.raises(Denied, match=r"Budget could not be checked\."):
            ask("hello")
        server.start()
        assert ask("hello").text == "answer"
        server.start()
        with pytest.raises(Denied, match="12 of 10 tokens"):
            ask("hello")
    other = policy.Budget(tokens=10, storage=server.address)
    assert other.id == "budget_10_tokens_per_session"


def test_what_the_server_keeps_names_no_conversation(server: Server, instrument: Any) -> None:
    import redis

    instrument(policies=[policy.RateLimit(tool_calls=5, storage=server.address)])
    with otelhooks.session("alice@example.com"):
        Tool().t()
    client = redis.Redis(port=server.port)
    try:
        keys = [key.decode() for key in client.keys()]
        assert len(keys) == 1
        assert "alice" not in keys[0]
        assert 0 < client.ttl(keys[0]) <= 366 * 86_400
    finally:
        client.close()
