"""What the kit has for protocols: tables of functions, calls over several seats, own metrics."""

from __future__ import annotations

import asyncio
import functools
import sys
import types as python_types
from typing import Any

import pytest
from opentelemetry import context as otel_context

import otelhooks
from otelhooks import policy, types
from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.telemetry import record, semconv
from otelhooks.patching import patches, versions
from otelhooks.pipeline import leads
from otelhooks.pipeline.permits import NextSeat

NEXT, KEY = "fake.next", "key"
DENY = policy.deny("danger", reason="Not that.")


class Asked:
    """Under which a server keeps its function for calls."""


class Other:
    """Under which it keeps another."""


class Server:
    """Keeps functions by classes."""

    def __init__(self, handler: Any) -> None:
        self.handlers = {Asked: handler, Other: handler}

    async def next(self, name: str) -> Any:
        return name


class Handled(kit.ToolCall):
    framework = "fake"

    def read(self, server: Any, name: str) -> None:
        self.name, self.args = name, {}
        self.runs_in(otel_context.set_value(KEY, "theirs"))

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(self.name)

    def denied(self, reason: str) -> Any:
        return f"denied: {reason}"

    def next_seat(self) -> Any:
        return self.at(NEXT)

    def finished(self, seconds: float, failure: Any, span: Any) -> None:
        record("mcp.server.operation.duration", seconds, {"mcp.method.name": self.name}, span)


class Next(Handled):
    group = NEXT

    def read(self, server: Any, name: str) -> None:
        self.name, self.args = name, {}
        self.is_expected = self.is_on_its_way(NEXT)

    async def call(self, wrapped: Any, args: Any) -> Any:
        self.note({"jsonrpc.request.id": "7"})
        return self.is_expected, otel_context.get_value(KEY), await wrapped(self.name)

    def next_seat(self) -> Any:
        return self.at_seat_of(self.function)

    def stages(self) -> Any:
        return self.stages_of(self.function)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, governed: Any) -> Any:
    """Install an adapter of a fake protocol; returns its module."""
    module: Any = python_types.ModuleType("fake")
    module.Server = type("Server", (Server,), {"__module__": "fake", "__qualname__": "Server"})
    monkeypatch.setitem(sys.modules, "fake", module)
    monkeypatch.setattr(versions, "installed", lambda names, module: (names[0], "1.0"))

    def install(*seats: Any, **settings: Any) -> Any:
        governed(**settings)
        package = kit.Package("fake", ">=1", module="fake")
        patches.install(kit.Adapter("fake", package, seats=seats), strict=True)
        return module

    yield install
    patches.uninstall("fake")
    otelhooks.uninstrument()


def table() -> Any:
    return kit.seat("fake:Server.handlers", Handled, kind="coroutine", item="Asked")


async def echo(name: str) -> str:
    return name


@pytest.mark.parametrize("get", [lambda table, key: table[key], lambda table, key: table.get(key)])
def test_one_function_of_a_table_is_guarded_and_the_others_are_not(fake, get) -> None:
    server = fake(table(), policies=[DENY]).Server(echo)
    assert asyncio.run(get(server.handlers, Asked)("danger")) == "denied: Not that."
    assert asyncio.run(get(server.handlers, Asked)("safe")) == "safe"
    assert get(server.handlers, Other) is echo
    assert server.handlers.get(Server, "none") == "none"
    patches.uninstall("fake")
    assert server.handlers[Asked] is echo


def test_a_call_runs_in_the_context_it_came_from_and_its_caller_keeps_its_own(fake) -> None:
    async def look(name: str) -> Any:
        return otel_context.get_value(KEY)

    server = fake(table(), policies=[DENY]).Server(look)

    async def both() -> Any:
        return await server.handlers[Asked]("safe"), otel_context.get_value(KEY)

    assert asyncio.run(both()) == ("theirs", None)


def test_a_call_that_a_seat_let_through_is_expected_at_the_next(fake, exporter) -> None:
    module = fake(table(), kit.seat("fake:Server.next", Next), policies=[DENY])
    server = module.Server(lambda name: server.next(name))
    assert asyncio.run(server.handlers[Asked]("safe")) == (True, "theirs", "safe")
    assert asyncio.run(server.next("safe")) == (False, None, "safe")
    spans = exporter.get_finished_spans()
    assert [span.attributes["jsonrpc.request.id"] for span in spans] == ["7", "7"]


def served_by(name: str | None) -> tuple[Any, ...]:
    call: Any = Handled()
    call.is_served_by(name)
    return call.server, call.claimed_server, call.server_says


def test_outside_of_any_call_there_is_no_span_to_note_on_and_no_server_configured() -> None:
    kit.ToolCall.note({"jsonrpc.request.id": "7"})
    assert served_by("files") == ("files", False, None)


def test_a_server_here_has_its_own_name_unless_the_application_gave_that_to_another(fake) -> None:
    config = types.McpStdioServer(name="files", command="serve")
    fake(table(), mcp_servers=[config])
    assert served_by("files") == (None, True, "files")
    assert served_by("others") == ("others", False, None)
    assert served_by(None) == (None, True, None)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ({"command": "serve", "args": ("a",)}, "files"),
        ({"command": "serve", "args": ()}, None),
        ({"url": "https://x.example/mcp"}, "far"),
        ({"url": "https://y.example/mcp"}, None),
        ({"command": "twice"}, None),
        ({"command": "twice", "env": {"AS": "root"}}, "root"),
        ({}, None),
    ],
)
def test_a_server_is_known_by_command_or_address_and_two_by_their_environment(
    fake, place: Any, name: str | None
) -> None:
    known = [
        types.McpStdioServer(name="files", command="serve", args=["a"]),
        types.McpStreamableHttpServer(name="far", url="https://x.example/mcp"),
        types.McpStdioServer(name="one", command="twice", env={"AS": "one"}),
        types.McpStdioServer(name="root", command="twice", env={"AS": "root"}),
    ]
    fake(table(), mcp_servers=known)
    whole = {"url": "", "command": "", "args": (), "env": None, **place}
    for given in (place, whole):
        assert kit.ToolCall().server_at(python_types.SimpleNamespace(**given)) == name


@pytest.mark.parametrize(
    ("place", "attributes"),
    [
        ({"command": "serve"}, {"network.transport": "pipe"}),
        (
            {"url": "https://x.example:8443/mcp"},
            {
                "network.transport": "tcp",
                "server.address": "x.example",
                "server.port": 8443,
            },
        ),
        ({"url": "https://x.example:port/"}, {"network.transport": "tcp"}),
        (None, {}),
    ],
)
def test_a_place_tells_the_network_to_it(place: Any, attributes: Any) -> None:
    given = None if place is None else {"url": "", "command": "", **place}
    found = None if given is None else python_types.SimpleNamespace(**given)
    assert kit.ToolCall.network_of(found) == attributes


def test_a_function_that_another_adapter_knows_leads_to_its_seat(monkeypatch) -> None:
    monkeypatch.setattr(leads, "_leads", {})
    call = Next()
    call.name, call.function = "safe", echo
    assert (call.next_seat(), call.stages()) == (None, None)
    leads.register(__name__, "", leads.Lead("deep", lambda tool, name: ("stages of", name)))
    assert call.next_seat() == NextSeat("deep", "safe")
    assert call.stages() == ("stages of", "safe")


def test_a_duration_is_recorded_while_otelhooks_is_on(fake, governed) -> None:
    server = fake(table(), policies=[DENY]).Server(echo)
    asyncio.run(server.handlers[Asked]("safe"))
    name = semconv.METRIC_MCP_SERVER_OPERATION_DURATION
    [point] = governed.points(name)
    assert dict(point.attributes) == {"mcp.method.name": "safe"}
    otelhooks.uninstrument()
    record(name, 1.0, {})


def test_a_copied_name_is_listened_to(fake, monkeypatch) -> None:
    holder: Any = python_types.ModuleType("holder")
    monkeypatch.setitem(sys.modules, "holder", holder)
    sys.modules["fake"].enter = holder.enter = functools.partial(str, "entered")  # type: ignore[attr-defined]
    heard = kit.listen("fake:enter", lambda wrapped, owner: f"heard {wrapped()}", copies=True)
    fake(heard)
    assert holder.enter() == "heard entered"
