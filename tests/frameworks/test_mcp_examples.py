"""The examples on MCP: through a client, and at the server."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("mcp")

from tests.examples.performance import Examples
from tests.examples.stage import Actor, Difference, Host, Run
from tests.frameworks.mcp_world import (
    IS_2,
    connected,
    direct_path_of,
    make_server,
    text_of,
    tool_error_class,
)
from tests.frameworks.scenarios import Scenarios

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed .MemoryObject:ResourceWarning")


UNNAMED = "nobody named the server of a connection in memory: no rule allows its tools"


class Client(Host):
    """A client that plays the model, and a server with the tools."""

    framework = "mcp"
    layers = ("session", "tool")
    lacks: ClassVar = {
        "turn": "the protocol has no turns: the host's loop has them",
        "stop": "the protocol has no turns: the host's loop has them",
        "model": "the protocol has no models: the host calls them",
        "messages": "the protocol has no models: the host calls them",
        "delegate": "the protocol has no agents",
        "own tools": "what presets allow by a bare name is never a server's tool",
        "server": UNNAMED,
        "named tools": UNNAMED,
        "output function": "the protocol has no runs",
        "history only": "the protocol has no runs",
        "history of others": "the protocol has no runs",
        "history joins runs": "the protocol has no runs",
        **({} if IS_2 else {"own spans": "1.x has none"}),
    }
    differences = (
        Difference(
            r"\[RateError\]$", "[tool_error]", "a client sees that a tool failed, not of what class"
        ),
    )

    def selector(self, tool: str) -> str:
        return f"*/{tool}"

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        async with connected(server_of(actor)) as client:

            async def call(name: str, args: dict[str, Any]) -> str:
                return text_of(await client.call_tool(name, args))

            yield functools.partial(actor.script.aplay, call)

    @contextlib.contextmanager
    def own_spans(self, provider: Any) -> Iterator[None]:
        import mcp.shared._otel as native

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "_tracer", provider.get_tracer("mcp-python-sdk"))
            yield


class Server(Client):
    """A program that asks its own server object, whose name it knows."""

    lacks: ClassVar = {
        **{need: why for need, why in Client.lacks.items() if need != "named tools"},
        "own spans": "it makes them for requests",
        "server": "a server object is not the process that is configured under its name",
    }
    differences = (
        Difference(r"\[RateError\]$", "[ToolError]", "a tool's failure is the SDK's own exception"),
    )

    def selector(self, tool: str) -> str:
        return f"tools/{tool}"

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        call = direct_path_of(server_of(actor))
        yield functools.partial(actor.script.aplay, call)


def server_of(actor: Actor) -> Any:
    server = make_server(object(), actor.server or "tools")
    for body in actor.tools:
        server.add_tool(as_tool(body), name=body.__name__)
    return server


def as_tool(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return a body whose failures the client is to know the text of."""

    @functools.wraps(body)
    def tool(**args: Any) -> Any:
        try:
            return body(**args)
        except Exception as error:
            raise tool_error_class()(str(error)) from error

    return tool


class TestClientExamples(Examples):
    host = Client()


class TestServerExamples(Examples):
    host = Server()


class TestClientScenarios(Scenarios):
    host = Client()


class TestServerScenarios(Scenarios):
    host = Server()
    test_the_page_says_what_is_not_there = None  # it is about clients
