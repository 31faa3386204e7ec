"""The examples on FastMCP: through a client, and at the server."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("fastmcp")

from fastmcp import Client as FastMcpClient
from fastmcp.exceptions import ToolError

from otelhooks.frameworks.fastmcp.scripted import caller, client, server_of
from tests.examples.performance import Examples
from tests.examples.stage import Actor, Difference, Host, Run
from tests.frameworks.scenarios import Scenarios

IS_4 = importlib.metadata.version("fastmcp") >= "4"
UNNAMED = "nobody named the server of a connection in memory: no rule allows its tools"
NO_TURNS = "the protocol has no turns: the host's loop has them"
NO_MODELS = "the protocol has no models: the host calls them"
NO_RUNS = "the protocol has no runs"


class Client(Host):
    """A client that plays the model, and a server with the tools."""

    framework = "fastmcp"
    also = ("mcp",)
    layers = ("session", "tool")
    lacks: ClassVar = {
        "turn": NO_TURNS,
        "stop": NO_TURNS,
        "model": NO_MODELS,
        "messages": NO_MODELS,
        "delegate": "the protocol has no agents",
        "own tools": "what presets allow by a bare name is never a server's tool",
        "server": UNNAMED,
        "named tools": UNNAMED,
        "output function": NO_RUNS,
        "history only": NO_RUNS,
        "history of others": NO_RUNS,
        "history joins runs": NO_RUNS,
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
        async with FastMcpClient(served(actor)) as session:
            yield functools.partial(actor.script.aplay, client(session))

    @contextlib.contextmanager
    def own_spans(self, provider: Any) -> Iterator[None]:
        import fastmcp.client.telemetry as of_clients
        import fastmcp.server.telemetry as of_servers

        with pytest.MonkeyPatch.context() as patch:
            for module in (of_clients, of_servers):
                patch.setattr(module, "get_tracer", lambda *_: provider.get_tracer("fastmcp"))
            yield


class Server(Client):
    """A program that asks its own server object, whose name it knows."""

    lacks: ClassVar = {
        **{need: why for need, why in Client.lacks.items() if need != "named tools"},
        "server": "a server object is not the process that is configured under its name",
        **({"own spans": "otelhooks' replace them"} if IS_4 else {}),
    }
    differences = (
        Difference(r"\[RateError\]$", "[ToolError]", "a tool's failure is FastMCP's own exception"),
    )

    def selector(self, tool: str) -> str:
        return f"tools/{tool}"

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        call = caller(served(actor).call_tool)
        yield functools.partial(actor.script.aplay, call)


def served(actor: Actor) -> Any:
    return server_of(
        actor.server or "tools", **{body.__name__: as_tool(body) for body in actor.tools}
    )


def as_tool(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return a body whose failures the client is to know the text of."""

    @functools.wraps(body)
    def tool(**args: Any) -> Any:
        try:
            return body(**args)
        except Exception as error:
            raise ToolError(str(error)) from error

    return tool


class TestClientExamples(Examples):
    """The examples of five systems, through a client."""

    host = Client()


class TestServerExamples(Examples):
    """The same, at the server."""

    host = Server()


class TestClientScenarios(Scenarios):
    """Those that need a host, through a client."""

    host = Client()


class TestServerScenarios(Scenarios):
    """The same, at the server."""

    host = Server()
    test_the_page_says_what_is_not_there = None  # it is about clients
