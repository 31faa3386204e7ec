"""The MCP adapter: contract on every path, server identity, attacks, questions, telemetry."""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import json
import pathlib
import socket
import sys
import threading
import time
import warnings
from types import SimpleNamespace
from typing import Any

import anyio
import pydantic
import pytest
from opentelemetry import baggage
from opentelemetry.context import attach, detach

pytest.importorskip("mcp")

from mcp import ClientSession, stdio_client  # copies, made before anything is instrumented
from mcp import types as wire

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.hooks.calls import Call
from otelhooks.instrumentation import _mcp_wire as records
from otelhooks.instrumentation import _runtime
from otelhooks.instrumentation._drive import adrive
from otelhooks.instrumentation._mcp_questions import Elicitation
from otelhooks.instrumentation._permit import Handoff
from otelhooks.instrumentation._tool import ToolSeat, tool
from otelhooks.telemetry import semconv
from tests import conformance
from tests.frameworks.contract import Contract, Path, World

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed .MemoryObject:ResourceWarning")

VERSION = tuple(int(part) for part in importlib.metadata.version("mcp").split(".")[:2])
IS_2 = VERSION >= (2, 0)
NAME = "files"


def text_of(result: Any) -> str:
    """Return what a model would be shown of a result."""
    return "\n".join(block.text for block in result.content)


# -- servers and clients of both majors -------------------------------------------------------


def make_server(world: Any, name: str = NAME) -> Any:
    """Return a server whose tools are the world's, in the high-level form."""
    if IS_2:
        from mcp.server.mcpserver import MCPServer as HighLevel
    else:
        from mcp.server.fastmcp import FastMCP as HighLevel
    server = HighLevel(name)
    for body in ("danger", "safe", "broken", "slow"):
        if hasattr(world, body):
            server.add_tool(getattr(world, body), name=body)
    return server


async def call_body(world: Any, name: str, arguments: Any) -> Any:
    """Call a body of the world as a low-level handler does."""
    returned = getattr(world, name)(**(arguments or {}))
    return await returned if hasattr(returned, "__await__") else returned


async def no_tools(context: Any, params: Any) -> Any:
    """List nothing, as a handler of 2.x."""
    return wire.ListToolsResult(tools=[])


def make_lowlevel(world: Any, name: str = NAME) -> Any:
    """Return a server whose tools are the world's, in the low-level form."""
    from mcp.server.lowlevel import Server

    if IS_2:

        async def on_call(context: Any, params: Any) -> Any:
            try:
                text = await call_body(world, params.name, params.arguments)
            except Exception as error:
                return wire.CallToolResult.model_validate(
                    {"content": [{"type": "text", "text": str(error)}], "isError": True}
                )
            return wire.CallToolResult.model_validate({"content": [{"type": "text", "text": text}]})

        return Server(name, on_call_tool=on_call, on_list_tools=no_tools)

    server = Server(name)

    @server.call_tool(validate_input=False)
    async def handle(name: str, arguments: Any) -> Any:
        return [wire.TextContent(type="text", text=await call_body(world, name, arguments))]

    @server.list_tools()
    async def listed() -> Any:
        return []

    return server


@contextlib.asynccontextmanager
async def connected(server: Any, **settings: Any) -> Any:
    """Connect to a server in this process; give what has ``call_tool``."""
    if IS_2:
        from mcp import Client

        async with Client(server, **settings) as client:
            yield client
    else:
        from mcp.shared.memory import create_connected_server_and_client_session

        settings.pop("mode", None)
        async with create_connected_server_and_client_session(
            getattr(server, "_mcp_server", server), **settings
        ) as session:
            yield session


def session_of(client: Any) -> Any:
    """Return the session of a client of either major."""
    return client.session if IS_2 else client


# -- paths ------------------------------------------------------------------------------------


def client_path(make: Any, **settings: Any) -> Any:
    """Build a host that calls tools through a client in the same process."""

    def build(world: World) -> Any:
        server = make(world)

        async def run(prompt: str) -> str:
            async with connected(server, **settings) as client:

                async def call(name: str, args: dict[str, Any]) -> str:
                    return text_of(await client.call_tool(name, args))

                return await world.aplay(call, prompt)

        return run

    return build


def raw_path(world: World) -> Any:
    """Build a host that sends requests without `call_tool`."""
    server = make_server(world)

    async def run(prompt: str) -> str:
        async with connected(server) as client:

            async def call(name: str, args: dict[str, Any]) -> str:
                params = wire.CallToolRequestParams(name=name, arguments=args)
                request = wire.CallToolRequest(method="tools/call", params=params)
                sent = request if IS_2 else wire.ClientRequest(request)
                return text_of(await session_of(client).send_request(sent, wire.CallToolResult))

            return await world.aplay(call, prompt)

    return run


def group_path(world: World) -> Any:
    """Build a host that calls tools through a group, which renames them by a prefix."""
    from mcp import ClientSessionGroup

    server = make_server(world)

    async def run(prompt: str) -> str:
        async with connected(server, **({"mode": "legacy"} if IS_2 else {})) as client:
            info = wire.Implementation(name=NAME, version="1")
            group = ClientSessionGroup(component_name_hook=lambda name, _: f"other_{name}")
            await group.connect_with_session(info, session_of(client))

            async def call(name: str, args: dict[str, Any]) -> str:
                return text_of(await group.call_tool(f"other_{name}", args))

            return await world.aplay(call, prompt)

    return run


def tool_error_class() -> Any:
    if IS_2:
        from mcp.server.mcpserver.exceptions import ToolError
    else:
        from mcp.server.fastmcp.exceptions import ToolError
    return ToolError


def direct_path(world: World) -> Any:
    """Build a host that asks the server object itself, without a request."""
    server = make_server(world)

    async def run(prompt: str) -> str:
        async def call(name: str, args: dict[str, Any]) -> str:
            try:
                found = await server.call_tool(name, args)
            except tool_error_class() as error:
                return str(error.__cause__ or error)
            blocks = found[0] if isinstance(found, tuple) else getattr(found, "content", found)
            return "\n".join(block.text for block in blocks)

        return await world.aplay(call, prompt)

    return run


def tool_path(world: World) -> Any:
    """Build a host that runs the server's tool objects."""
    server = make_server(world)
    tools = {tool.name: tool for tool in server._tool_manager.list_tools()}

    async def run(prompt: str) -> str:
        async def call(name: str, args: dict[str, Any]) -> str:
            try:
                return str(await tools[name].run(args, None))
            except tool_error_class() as error:
                return str(error.__cause__ or error)

        return await world.aplay(call, prompt)

    return run


def of_any(name: str) -> str:
    return f"*/{name}"


def of_files(name: str) -> str:
    return f"{NAME}/{name}"


ESCAPES = {
    "exception_that_escapes": "it ends the server's task; the client sees a cancelled scope only"
}


def client_paths() -> tuple[Path, ...]:
    shared = {"selector": of_any, "has_run": False, "has_model": False}
    only_2 = "" if IS_2 else "1.x has one way to connect in memory"
    no_structure = {**ESCAPES}
    return (
        Path("memory", client_path(make_server), **shared, lacks=ESCAPES),
        Path("memory_trio", client_path(make_server), backend="trio", **shared, lacks=ESCAPES),
        Path(
            "legacy", client_path(make_server, mode="legacy"), skip=only_2, **shared, lacks=ESCAPES
        ),
        Path("lowlevel", client_path(make_lowlevel), **shared, lacks=no_structure),
        Path("raw_request", raw_path, **shared, lacks=ESCAPES),
        Path("session_group", group_path, **shared, lacks=ESCAPES),
    )


def server_paths() -> tuple[Path, ...]:
    shared = {"has_run": False, "has_model": False}
    return (
        Path("server_call_tool", direct_path, selector=of_files, **shared),
        Path("server_call_tool_trio", direct_path, selector=of_files, backend="trio", **shared),
        Path("tool_run", tool_path, selector=of_any, **shared),
    )


class TestContract(Contract):
    """What every adapter must do, on each path."""

    framework = "mcp"
    paths = (*client_paths(), *server_paths())


# -- server identity --------------------------------------------------------------------------

SERVER = str(pathlib.Path(__file__).with_name("mcp_server.py"))


def stdio(name: str, ran: pathlib.Path) -> Any:
    from mcp import StdioServerParameters

    return StdioServerParameters(command=sys.executable, args=[SERVER, name, str(ran)])


def config(params: Any, name: str = "trusted") -> types.McpStdioServer:
    return types.McpStdioServer(name=name, command=params.command, args=list(params.args))


@contextlib.asynccontextmanager
async def started(params: Any) -> Any:
    """Start a server of its own process and give a session with it."""
    async with stdio_client(params) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


def run_once(params: Any, tool: str = "danger", **args: Any) -> str:
    """Call one tool of a server of its own process."""

    async def run() -> str:
        async with started(params) as session:
            return text_of(await session.call_tool(tool, args or {"path": "/etc"}))

    return anyio.run(run)


@pytest.fixture
def ran(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where servers of their own process note which bodies ran."""
    file = tmp_path / "ran"
    file.write_text("")
    return file


@pytest.fixture
def on(tracer_provider: Any, meter_provider: Any, logger_provider: Any) -> Any:
    """Instrument MCP alone, with rules."""

    def instrument(*rules: Any, **settings: Any) -> otelhooks.Handle:
        return otelhooks.instrument(
            policies=rules,
            frameworks=["mcp"],
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            logger_provider=logger_provider,
            **settings,
        )

    return instrument


def spans_of(exporter: Any) -> list[Any]:
    return list(exporter.get_finished_spans())


class TestServerIdentity:
    """Whose tool it is: what the application wrote down, never what a server says."""

    ONLY_TRUSTED = (policy.allow("trusted/*"), policy.deny_all())

    def test_a_server_is_known_by_the_command_that_the_application_wrote_down(self, on, ran):
        params = stdio("anything", ran)
        on(*self.ONLY_TRUSTED, mcp_servers=[config(params)])
        assert run_once(params) == "removed /etc"
        assert ran.read_text() == "danger\n"

    def test_a_server_that_calls_itself_by_a_trusted_name_is_not_that_server(self, on, ran):
        trusted = config(stdio("anything", ran))
        on(*self.ONLY_TRUSTED, mcp_servers=[trusted])
        assert "Denied by policy" in run_once(stdio("trusted", ran))
        assert ran.read_text() == ""

    def test_a_server_in_this_process_with_a_trusted_name_is_not_that_server(self, on, ran):
        trusted = config(stdio("anything", ran))
        world = World()
        server = make_server(world, "trusted")
        on(*self.ONLY_TRUSTED, mcp_servers=[trusted])

        async def run() -> Any:
            async with connected(server) as client:
                return await client.call_tool("danger", {"path": "/etc"})

        assert "Denied by policy" in text_of(anyio.run(run))
        assert world.ran == []

    def test_a_name_that_a_server_gives_itself_matches_deny_rules(self, on, ran):
        params = stdio("evil", ran)
        on(policy.deny("evil/*", reason="not that one"), mcp_servers=[])
        assert run_once(params) == "not that one"
        assert ran.read_text() == ""

    def test_rules_of_a_server_deny_when_the_connection_lost_its_name(self, on, ran):
        params = stdio("anything", ran)
        other = stdio("anything", ran).model_copy(update={"args": [SERVER, "x", str(ran), "y"]})
        on(policy.deny("trusted/*", reason="closed"), mcp_servers=[config(other)])
        assert run_once(params) == "closed"
        assert ran.read_text() == ""

    def test_two_names_for_one_command_are_told_apart_by_the_environment(self, on, ran):
        params = stdio("anything", ran).model_copy(update={"env": {"WHO": "b"}})
        configs = [
            config(params, name).model_copy(update={"env": {"WHO": who}})
            for name, who in (("one", "a"), ("two", "b"))
        ]
        on(policy.allow("two/*"), policy.deny_all(), mcp_servers=configs)
        assert run_once(params) == "removed /etc"

    def test_two_names_for_one_command_and_environment_are_no_name(self, on, ran):
        params = stdio("anything", ran)
        configs = [config(params, "one"), config(params, "two")]
        on(policy.allow("two/*"), policy.deny_all(), mcp_servers=configs)
        assert "Denied" in run_once(params)
        assert ran.read_text() == ""

    def test_streams_that_were_mixed_are_no_connection(self, on, ran):
        from otelhooks.instrumentation._mcp_connections import peer_of

        params = stdio("anything", ran)
        on(policy.allow("trusted/*"), mcp_servers=[config(params)])

        async def run() -> Any:
            async with stdio_client(params) as one, stdio_client(params) as two:
                mixed = ClientSession(one[0], two[1])
                whole = ClientSession(*one)
                return peer_of(mixed).connection, peer_of(whole).connection

        mixed, whole = anyio.run(run)
        assert mixed is None
        assert whole is not None

    def test_a_group_connects_under_the_name_that_the_application_wrote_down(self, on, ran):
        from mcp import ClientSessionGroup

        params = stdio("anything", ran)
        on(policy.deny("trusted/danger", reason="closed"), mcp_servers=[config(params)])

        async def run() -> list[str]:
            async with ClientSessionGroup(
                component_name_hook=lambda name, info: f"renamed_{name}"
            ) as group:
                await group.connect_to_server(params)
                danger = await group.call_tool("renamed_danger", {"path": "/etc"})
                safe = await group.call_tool("renamed_safe", {"x": 1})
                return [text_of(danger), text_of(safe)]

        assert anyio.run(run) == ["closed", "number 1"]
        assert ran.read_text() == "safe\n"

    @pytest.mark.skipif(VERSION < (2, 1), reason="`Client` takes no command in this version")
    def test_a_client_made_of_parameters_is_known_by_them(self, on, ran):
        from mcp import Client

        params = stdio("anything", ran)
        on(*self.ONLY_TRUSTED, mcp_servers=[config(params)])

        async def run() -> str:
            async with Client(params) as client:
                return text_of(await client.call_tool("danger", {"path": "/etc"}))

        assert anyio.run(run) == "removed /etc"

    @pytest.mark.parametrize("who", ["trusted", "nobody"])
    def test_a_server_is_known_by_its_address(self, on, ran, http_server, who):
        url = http_server.url if who == "trusted" else "http://127.0.0.1:1/mcp"
        configs = [types.McpStreamableHttpServer(name="trusted", url=url)]
        own = policy.allow("files/*")  # the server, in this process too, judges by its own name
        on(own, *self.ONLY_TRUSTED, mcp_servers=configs)
        text = anyio.run(http_server.call, "danger", {"path": "/etc"})
        assert text.startswith("removed" if who == "trusted" else "Denied by policy")

    def test_a_tool_server_in_its_own_process_has_the_name_its_code_gave_it(self, on):
        world = World()
        server = make_server(world)
        on(policy.allow("files/safe"), policy.deny_all(), mcp_servers=[])

        async def run() -> str:
            return await direct_path_of(server)("safe", {"x": 1})

        assert "number 1" in anyio.run(run)
        assert world.bodies == ["safe"]


class HttpServer:
    """A server of this process behind a real port, in a thread of its own."""

    def __init__(self, server: Any, port: int) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{port}/mcp"

    async def call(self, name: str, args: dict[str, Any]) -> str:
        from mcp.client import streamable_http

        connect = (
            getattr(streamable_http, "streamable_http_client", None)
            or streamable_http.streamablehttp_client
        )
        async with connect(self.url) as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            return text_of(await session.call_tool(name, args))


@pytest.fixture
def http_server() -> Any:
    import uvicorn

    with contextlib.suppress(ImportError):  # 2.x needs it no more; old ones keep an event loop
        from sse_starlette.sse import AppStatus

        AppStatus.should_exit_event = None
    world = World()
    server = make_server(world)
    app = server.streamable_http_app()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", ws="none"))
    thread = threading.Thread(target=run.run, daemon=True)
    thread.start()
    while not run.started:
        time.sleep(0.01)
    found = HttpServer(server, port)
    found.world = world
    yield found
    run.should_exit = True
    thread.join(10)
    with warnings.catch_warnings():  # streams that the package itself forgets to close
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def direct_path_of(server: Any) -> Any:
    """Return a function that asks a server object itself."""

    async def call(name: str, args: dict[str, Any]) -> str:
        try:
            found = await server.call_tool(name, args)
        except tool_error_class() as error:
            return str(error)
        blocks = found[0] if isinstance(found, tuple) else getattr(found, "content", found)
        return "\n".join(block.text for block in blocks)

    return call


# -- attacks ----------------------------------------------------------------------------------


class Fetching:
    """An agent's tool `fetch`, whose body calls an MCP tool of the same name."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    async def fetch(self, url: str) -> str:
        """Fetch an address."""
        self.ran.append(("inner", url))
        return url


def evil(args: dict[str, Any]) -> bool:
    return args["url"] == "http://evil"


class TestAttacks:
    """Ways round a seat; each is judged."""

    def test_an_allowed_tool_calls_an_mcp_tool_of_its_name_with_other_arguments(self, on, exporter):
        inner = Fetching()
        server = make_named(inner.fetch, "fetch")
        on(policy.deny("*/fetch", when=evil, reason="not there"), policy.allow("fetch"))

        async def run() -> str:
            async with connected(server) as client:

                @otelhooks.tool
                async def fetch(url: str) -> str:
                    return text_of(await client.call_tool("fetch", {"url": "http://evil"}))

                return await fetch("http://good")

        assert anyio.run(run) == "not there"
        assert inner.ran == []
        decisions = [s.attributes[semconv.POLICY_DECISION] for s in spans_of(exporter)]
        assert decisions == ["deny", "allow"]

    def test_an_allowed_tool_calls_an_mcp_tool_of_its_name_with_the_same_arguments(self, on):
        """No permit lies about before a plain tool's own body."""
        inner = Fetching()
        server = make_named(inner.fetch, "fetch")
        on(policy.deny("*/fetch", reason="no servers"), policy.allow("fetch"))

        async def run() -> str:
            async with connected(server) as client:

                @otelhooks.tool
                async def fetch(url: str) -> str:
                    return text_of(await client.call_tool("fetch", {"url": url}))

                return await fetch("http://good")

        assert anyio.run(run) == "no servers"
        assert inner.ran == []

    @pytest.mark.parametrize("again", [1, 2])
    def test_a_tool_nested_in_itself_is_judged_each_time(self, on, exporter, again):
        """With other arguments, and with the very same."""
        judged: list[int] = []
        ran: list[int] = []

        @hooks.pre_tool_call_decide
        def count(call: types.ToolCall) -> types.HookResult:
            judged.append(call.args["x"])
            return types.HookResult(allow=len(judged) < 3, message="too deep")

        async def dig(x: int) -> str:
            """Dig."""
            ran.append(x)
            async with connected(server) as client:
                return text_of(await client.call_tool("dig", {"x": again}))

        server = make_named(dig, "dig")
        on(hooks=[count])

        async def run() -> str:
            async with connected(server) as client:
                return text_of(await client.call_tool("dig", {"x": 1}))

        assert "too deep" in anyio.run(run)
        assert judged == [1, again, again]
        assert ran == [1, again]
        assert len(spans_of(exporter)) == 3
        assert len({span.context.trace_id for span in spans_of(exporter)}) == 1

    def test_a_tool_runs_itself_as_an_object(self, on):
        """The body of a tool that was approved as a request holds no permit for `Tool.run`."""
        judged: list[int] = []

        def deny_second(args: dict[str, Any]) -> bool:
            judged.append(args["x"])
            return len(judged) > 1

        async def dig(x: int) -> str:
            """Dig."""
            try:
                return str(await server._tool_manager.list_tools()[0].run({"x": x}, None))
            except tool_error_class() as error:
                return str(error)

        server = make_named(dig, "dig")
        on(policy.deny("*/dig", when=deny_second, reason="once only"))

        async def run() -> str:
            async with connected(server) as client:
                return text_of(await client.call_tool("dig", {"x": 1}))

        assert "once only" in anyio.run(run)

    def test_a_subclass_that_overrides_run_is_judged_once(self, on, exporter):
        world = World()
        server = make_server(world)
        tool = next(t for t in server._tool_manager.list_tools() if t.name == "safe")

        class Louder(type(tool)):
            async def run(self, arguments: Any, context: Any = None, **rest: Any) -> Any:
                return str(await super().run(arguments, context, **rest)).upper()

        louder = Louder(**{name: getattr(tool, name) for name in type(tool).model_fields})
        on(policy.deny("*/danger"))
        assert "NUMBER 1" in anyio.run(louder.run, {"x": 1}, None)
        assert [span.name for span in spans_of(exporter)] == ["execute_tool safe"]
        otelhooks.uninstrument()
        on(policy.deny("*/safe", reason="no"))
        with pytest.raises(tool_error_class(), match="no"):
            anyio.run(louder.run, {"x": 1}, None)

    def test_servers_and_sessions_made_before_instrumenting_are_guarded(self, on):
        world = World()
        server = make_lowlevel(world)

        async def run() -> str:
            async with connected(server) as client:
                on(policy.deny("*/danger", reason="late but sure"), mcp_servers=[])
                return text_of(await client.call_tool("danger", {"path": "/etc"}))

        assert anyio.run(run) == "late but sure"
        assert world.ran == []


def make_named(function: Any, name: str, server_name: str = "tools") -> Any:
    """Return a server with one tool."""
    world = type("Tools", (), {})()
    server = make_server(world, server_name)
    server.add_tool(function, name=name)
    return server


# -- the server's side ------------------------------------------------------------------------


class TestServerSide:
    """A server whose client is not instrumented, or lies elsewhere."""

    def test_a_handler_denies_what_an_uninstrumented_client_sends(self, on, http_server, exporter):
        """The client's seats are passed by; only the server's process has a policy."""
        on(policy.deny("files/danger", reason="not here"), mcp_servers=[])
        result = anyio.run(raw_http_call, http_server.url, "danger", {"path": "/etc"})
        assert result["isError"] is True
        assert result["content"][0]["text"] == "not here"
        result = anyio.run(raw_http_call, http_server.url, "safe", {"x": 1})
        assert result["content"][0]["text"] == "number 1 is 4711"
        assert http_server.world.bodies == ["safe"]
        assert [s.name for s in spans_of(exporter)] == ["execute_tool danger", "execute_tool safe"]

    def test_a_redacted_result_still_fits_the_tools_schema(self, on, http_server):
        @hooks.post_tool_call_transform
        def redact(result: types.ToolResult) -> Any:
            return str(result.result).replace("4711", "****")

        on(hooks=[redact])
        result = anyio.run(raw_http_call, http_server.url, "safe", {"x": 1})
        assert result["content"][0]["text"] == "number 1 is ****"
        assert result["structuredContent"] == {"result": "number 1 is ****"}
        assert not result.get("isError")

    def test_the_trace_of_a_client_goes_on_in_the_server(self, on, http_server, exporter):
        on(policy.deny("something_else"))
        trace_id, span_id = "ab" * 16, "cd" * 8
        meta = {"traceparent": f"00-{trace_id}-{span_id}-01"}
        anyio.run(raw_http_call, http_server.url, "safe", {"x": 1}, meta)
        (span,) = spans_of(exporter)
        assert f"{span.context.trace_id:032x}" == trace_id
        assert f"{span.parent.span_id:016x}" == span_id
        assert span.attributes[semconv.MCP_METHOD_NAME] == "tools/call"
        assert span.attributes[semconv.MCP_PROTOCOL_VERSION]

    @pytest.mark.skipif(not IS_2, reason="1.x has no spans of its own")
    def test_the_packages_own_server_span_carries_the_verdict(
        self, on, http_server, tracer_provider, exporter, monkeypatch
    ):
        import mcp.shared._otel as native

        monkeypatch.setattr(native, "_tracer", tracer_provider.get_tracer("mcp-python-sdk"))
        on(policy.deny("files/danger", reason="not here"), mcp_servers=[])
        anyio.run(raw_http_call, http_server.url, "danger", {"path": "/etc"})
        spans = [s for s in spans_of(exporter) if semconv.POLICY_DECISION in s.attributes]
        (span,) = spans
        assert span.name == "tools/call danger"
        assert span.kind.name == "SERVER"
        assert span.attributes[semconv.POLICY_DECISION] == "deny"
        assert not [s for s in spans_of(exporter) if s.name.startswith("execute_tool")]


async def raw_http_call(
    url: str, name: str, args: dict[str, Any], meta: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Call a tool as a client that is not this package: one stateful session, by hand."""
    import urllib.request

    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def post(body: dict[str, Any]) -> tuple[Any, str]:
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=20) as response:
            text = response.read().decode()
            return response.headers, text

    def talk() -> dict[str, Any]:
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "by hand", "version": "1"},
        }
        sent = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        found, _ = post(sent)
        if found.get("mcp-session-id"):
            headers["mcp-session-id"] = found["mcp-session-id"]
        post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        params: dict[str, Any] = {"name": name, "arguments": args}
        if meta is not None:
            params["_meta"] = meta
        _, text = post({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
        data = [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]
        return json.loads(data[-1])["result"]

    return await anyio.to_thread.run_sync(talk)


# -- telemetry --------------------------------------------------------------------------------


def points(reader: Any, name: str) -> list[Any]:
    data = reader.get_metrics_data()
    return [
        point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
        for point in metric.data.data_points
    ]


class TestTelemetry:
    """Attributes, durations, trace context."""

    def test_one_span_a_call_with_mcp_attributes_and_both_durations(
        self, on, exporter, metrics_reader
    ):
        world = World()
        server = make_server(world)
        on(policy.deny("something_else"))

        async def run() -> None:
            async with connected(server) as client:
                await client.call_tool("safe", {"x": 1})
                await client.call_tool("broken", {"x": 2})

        anyio.run(run)
        spans = {span.name: span for span in spans_of(exporter)}
        assert len(spans_of(exporter)) == 2
        safe, broken = spans["execute_tool safe"], spans["execute_tool broken"]
        assert safe.attributes[semconv.MCP_METHOD_NAME] == "tools/call"
        assert safe.attributes[semconv.MCP_PROTOCOL_VERSION]
        assert broken.attributes[semconv.ERROR_TYPE] == "tool_error"
        if not IS_2:
            assert safe.attributes[semconv.JSONRPC_REQUEST_ID] == "1"
        for side in (
            semconv.METRIC_MCP_CLIENT_OPERATION_DURATION,
            semconv.METRIC_MCP_SERVER_OPERATION_DURATION,
        ):
            found = points(metrics_reader, side)
            assert sum(point.count for point in found) == 2
            assert {p.attributes.get(semconv.ERROR_TYPE) for p in found} == {None, "tool_error"}

    def test_the_network_of_a_known_connection_is_on_span_and_metric(
        self, on, ran, exporter, metrics_reader
    ):
        on(policy.deny("something_else"))
        assert run_once(stdio("anything", ran)) == "removed /etc"
        (span,) = [s for s in spans_of(exporter) if s.name == "execute_tool danger"]
        assert span.attributes[semconv.NETWORK_TRANSPORT] == "pipe"
        (point,) = points(metrics_reader, semconv.METRIC_MCP_CLIENT_OPERATION_DURATION)
        assert point.attributes[semconv.NETWORK_TRANSPORT] == "pipe"
        assert not points(metrics_reader, semconv.METRIC_MCP_SERVER_OPERATION_DURATION)
        conformance.check_all([span], metrics_reader.get_metrics_data())

    def test_a_jsonrpc_error_is_the_type_of_the_error(self, on, exporter, metrics_reader):
        server = make_lowlevel(World())
        on(policy.deny("something_else"))

        async def run() -> None:
            async with connected(server) as client:
                params = wire.CallToolRequestParams(name="x", arguments={})
                session = session_of(client)
                request = wire.CallToolRequest(method="tools/call", params=params)
                sent = request if IS_2 else wire.ClientRequest(request)
                await session.send_request(sent, wire.CallToolResult)

        if IS_2:
            from mcp.shared.exceptions import MCPError

            async def on_call(context: Any, params: Any) -> Any:
                raise MCPError(-32001, "gone")

            from mcp.server.lowlevel import Server

            server = Server("x", on_call_tool=on_call, on_list_tools=no_tools)
            error: Any = MCPError
        else:
            from mcp.shared.exceptions import McpError

            async def handle(request: Any) -> Any:
                raise McpError(wire.ErrorData(code=-32001, message="gone"))

            server.request_handlers[wire.CallToolRequest] = handle
            error = McpError
        with pytest.raises(BaseException) as raised:  # noqa: PT011  # in a group, or not
            anyio.run(run)
        found = raised.value
        while isinstance(getattr(found, "exceptions", None), tuple):
            found = found.exceptions[0]
        assert isinstance(found, error)
        span = spans_of(exporter)[-1]
        assert span.attributes[semconv.ERROR_TYPE] == "-32001"
        assert span.attributes[semconv.RPC_RESPONSE_STATUS_CODE] == "-32001"

    def test_the_trace_of_a_call_travels_in_meta_without_baggage(self, on, exporter, monkeypatch):
        seen: list[dict[str, Any]] = []
        server = make_lowlevel(World())
        if IS_2:

            async def on_call(context: Any, params: Any) -> Any:
                seen.append(dict(context.meta or {}))
                return wire.CallToolResult(content=[])

            from mcp.server.lowlevel import Server

            server = Server("x", on_call_tool=on_call, on_list_tools=no_tools)
        else:

            async def handle(request: Any) -> Any:
                seen.append(dict(request.params.meta.model_extra or {}))
                return wire.ServerResult(wire.CallToolResult(content=[]))

            server.request_handlers[wire.CallToolRequest] = handle
        on(policy.deny("something_else"))

        async def run() -> None:
            token = attach(baggage.set_baggage("secret", "1"))
            async with connected(server, mode="legacy") as client:
                await session_of(client).call_tool("x", {}, meta={"mine": "kept"})
            detach(token)

        anyio.run(run)
        (meta,) = seen
        (span,) = spans_of(exporter)
        assert meta["mine"] == "kept"
        if not IS_2:  # 2.x sends what its own propagation says
            assert "baggage" not in meta
            assert (
                f"{span.context.trace_id:032x}-{span.context.span_id:016x}" in meta["traceparent"]
            )


# -- questions --------------------------------------------------------------------------------


def make_asking(answers: list[Any]) -> Any:
    """Return a server whose tool asks the user, and notes the answer."""
    if IS_2:
        from mcp.server.mcpserver import Context
    else:
        from mcp.server.fastmcp import Context

    class Form(pydantic.BaseModel):
        sure: bool
        count: int = 1

    async def ask(ctx: Context) -> str:  # type: ignore[valid-type]
        """Ask."""
        answer = await ctx.elicit("Are you sure?", Form)
        answers.append(answer)
        return answer.action

    ask.__annotations__["ctx"] = Context
    return make_named(ask, "ask")


def call_ask(server: Any, **callbacks: Any) -> str:
    async def run() -> str:
        async with connected(server, mode="legacy", **callbacks) as client:
            return text_of(await client.call_tool("ask", {}))

    return anyio.run(run)


class TestElicitation:
    """A server asks the user: hooks answer, else the application does."""

    def test_a_hook_answers_for_the_user(self, on, exporter, log_exporter):
        answers: list[Any] = []
        questions: list[str] = []

        @hooks.on_interaction
        def answer(spec: types.AskQuestionInteractionSpec) -> types.QuestionHookResult:
            questions.extend(entry.question for entry in spec.questions)
            sure = types.QuestionResponse(selected_option_ids=["true"])
            count = types.QuestionResponse(freeform_response="3")
            return types.QuestionHookResult(responses=[sure, count])

        async def callback(context: Any, params: Any) -> Any:
            raise AssertionError("the application is not asked")

        server = make_asking(answers)
        on(hooks=[answer])
        assert call_ask(server, elicitation_callback=callback) == "accept"
        assert answers[0].data.sure is True
        assert answers[0].data.count == 3
        assert [text.partition("?")[0] for text in questions] == ["Are you sure", "Are you sure"]
        events = [r.log_record for r in log_exporter.get_finished_logs()]
        (event,) = [e for e in events if e.event_name == semconv.EVENT_INTERACTION]
        assert event.trace_id in {span.context.trace_id for span in spans_of(exporter)}

    def test_without_an_answer_the_application_is_asked(self, on):
        answers: list[Any] = []

        @hooks.on_interaction
        def nothing(spec: Any) -> None:
            return None

        async def callback(context: Any, params: Any) -> Any:
            return wire.ElicitResult(action="accept", content={"sure": False, "count": 2})

        server = make_asking(answers)
        on(hooks=[nothing])
        assert call_ask(server, elicitation_callback=callback) == "accept"
        assert answers[0].data.count == 2

    @pytest.mark.parametrize(
        "result",
        [
            ValueError("the answerer is down"),
            "yes",
            types.QuestionHookResult(responses=[]),
            types.QuestionHookResult(
                responses=[
                    types.QuestionResponse(freeform_response="perhaps"),
                    types.QuestionResponse(skipped=True),
                ]
            ),
            types.QuestionHookResult(
                responses=[types.QuestionResponse(skipped=True) for _ in range(2)]
            ),
        ],
        ids=["raises", "no answer", "too few", "not of the type", "required one skipped"],
    )
    def test_a_hook_that_fails_declines(self, on, result, caplog):
        @hooks.on_interaction
        def answer(spec: Any) -> Any:
            if isinstance(result, Exception):
                raise result
            return result

        async def callback(context: Any, params: Any) -> Any:
            raise AssertionError("the application is not asked")

        server = make_asking([])
        on(hooks=[answer])
        assert call_ask(server, elicitation_callback=callback) == "decline"

    def test_a_hook_can_cancel(self, on):
        @hooks.on_interaction
        def answer(spec: Any) -> Any:
            return types.QuestionHookResult(responses=[], cancelled=True)

        async def callback(context: Any, params: Any) -> Any:
            raise AssertionError("the application is not asked")

        on(hooks=[answer])
        assert call_ask(make_asking([]), elicitation_callback=callback) == "cancel"

    @pytest.mark.skipif(not IS_2, reason="rounds came with 2.x")
    def test_rounds_are_judged_each_on_one_span(self, on, exporter):
        """The server's answer "I need input" ends a request, and not the call."""
        from mcp import Client
        from mcp.server.lowlevel import Server

        judged: list[dict[str, Any]] = []
        decided: list[str] = []
        ran: list[Any] = []

        async def on_call(context: Any, params: Any) -> Any:
            ran.append(params.arguments)
            if params.request_state is None:
                ask = wire.ElicitRequest(
                    params=wire.ElicitRequestFormParams(
                        message="Sure?", requested_schema={"type": "object", "properties": {}}
                    )
                )
                return wire.InputRequiredResult(input_requests={"q": ask}, request_state="s")
            return wire.CallToolResult(content=[wire.TextContent(type="text", text="done")])

        @hooks.pre_tool_call_decide
        def decide(call: types.ToolCall) -> types.HookResult:
            decided.append(call.name)
            return types.HookResult()

        def seen(args: dict[str, Any]) -> bool:
            judged.append(args)
            return False

        async def callback(context: Any, params: Any) -> Any:
            return wire.ElicitResult(action="accept", content={})

        server = Server("x", on_call_tool=on_call, on_list_tools=no_tools)
        on(policy.deny("*/t", when=seen), hooks=[decide])

        async def run() -> str:
            async with Client(server, elicitation_callback=callback) as client:
                return text_of(await client.call_tool("t", {"x": 1}))

        assert anyio.run(run) == "done"
        assert ran == [{"x": 1}, {"x": 1}]
        assert decided == ["t"]
        assert judged == [{"x": 1}, {"x": 1}]
        assert [span.name for span in spans_of(exporter)] == ["execute_tool t"]

        forged: list[Any] = []

        async def forge() -> None:
            async with Client(server) as client:
                forged.append(await client.session.call_tool("t", {"x": 2}, request_state="s"))

        anyio.run(forge)
        assert decided == ["t", "t"]


# -- sampling ---------------------------------------------------------------------------------


def make_sampling(said: list[Any]) -> Any:
    """Return a server whose tool asks the client for a model call."""
    if IS_2:
        from mcp.server.mcpserver import Context
    else:
        from mcp.server.fastmcp import Context

    async def ask(ctx: Context) -> str:  # type: ignore[valid-type]
        """Ask."""
        message = wire.SamplingMessage(
            role="user", content=wire.TextContent(type="text", text="say hello")
        )
        try:
            answer = await ctx.session.create_message([message], max_tokens=7)
        except Exception as error:
            said.append(error)
            return f"refused: {error}"
        said.append(answer)
        return answer.content.text

    ask.__annotations__["ctx"] = Context
    return make_named(ask, "ask")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*deprecated.*")
class TestSampling:
    """A model call that a server asks its client for."""

    async def model(self, context: Any, params: Any) -> Any:
        self.asked = params
        return wire.CreateMessageResult(
            role="assistant",
            content=wire.TextContent(type="text", text="hello"),
            model="scripted",
        )

    def test_a_model_call_is_a_span_below_the_tool(self, on, exporter):
        on(policy.deny("something_else"))
        assert call_ask(make_sampling([]), sampling_callback=self.model) == "hello"
        chat, tool = (span for span in spans_of(exporter) if span.name.split()[0] != "tools/call")
        assert chat.name == "chat"
        assert chat.attributes[semconv.GEN_AI_RESPONSE_MODEL] == "scripted"
        assert chat.attributes[semconv.MCP_METHOD_NAME] == "sampling/createMessage"
        assert chat.parent.span_id == tool.context.span_id

    def test_a_denied_model_call_is_not_made(self, on):
        @hooks.pre_model_call
        def refuse(call: types.ModelCall) -> types.HookResult:
            return types.HookResult(allow=False, message="no models for servers")

        said: list[Any] = []
        self.asked = None
        on(hooks=[refuse])
        text = call_ask(make_sampling(said), sampling_callback=self.model)
        assert "no models for servers" in text
        assert self.asked is None

    def test_messages_and_answer_can_be_rewritten(self, on):
        @hooks.pre_model_call
        def rewrite(call: types.ModelCall) -> types.HookResult:
            changed = call.messages[0].model_copy(
                update={"content": wire.TextContent(type="text", text="be kind")}
            )
            return types.HookResult(modified_messages=[changed])

        @hooks.post_model_call_transform
        def shout(response: types.ModelResponse) -> Any:
            return response.text.upper()

        on(hooks=[rewrite, shout])
        assert call_ask(make_sampling([]), sampling_callback=self.model) == "HELLO"
        assert self.asked.messages[0].content.text == "be kind"

    def test_an_error_of_the_client_goes_to_the_server_as_it_was(self, on, exporter):
        async def broken(context: Any, params: Any) -> Any:
            return wire.ErrorData(code=-32000, message="the model is gone")

        said: list[Any] = []
        on(policy.deny("something_else"))
        assert "the model is gone" in call_ask(make_sampling(said), sampling_callback=broken)
        assert said[0].error.code == -32000
        chat = next(span for span in spans_of(exporter) if span.name == "chat")
        assert chat.status.status_code.name == "ERROR"


# -- proof ------------------------------------------------------------------------------------


def test_the_proof_holds_while_otelhooks_is_on_and_only_then(on):
    from otelhooks.instrumentation.prove_mcp import prove

    on()
    proof = prove()
    assert proof.proved, proof.paths
    assert len(proof.paths) == 6
    otelhooks.uninstrument()
    assert not prove().proved


# -- below an agent framework -----------------------------------------------------------------


class FrameworkSeat(ToolSeat):
    """The seat of a framework that hands its tools to MCP sessions."""

    def denied(self, call: Call, reason: str) -> Any:
        return reason

    def handoff(self, call: Call) -> Handoff:
        return Handoff("mcp.client", call.name, "github")


def call_below(server: Any, args: dict[str, Any], sent: dict[str, Any] | None = None) -> Any:
    """Call `danger` as a framework that knows the server as `github`."""

    async def run() -> Any:
        async with connected(server) as client:
            rt = _runtime.active()
            assert rt is not None
            operation = tool(rt, FrameworkSeat(), Call("danger", args, server="github"))
            return await adrive(operation, lambda args: client.call_tool("danger", sent or args))

    return anyio.run(run)


class TestBelowFramework:
    """A call that a framework's seat approved, and hands on."""

    def test_it_is_one_call_under_the_frameworks_name_of_the_server(self, on, exporter):
        world = World()
        server = make_server(world)
        on(policy.allow("github/*"), policy.deny_all(), mcp_servers=[])
        result = call_below(server, {"path": "/x"})
        assert text_of(result) == "removed /x"
        (span,) = spans_of(exporter)
        assert span.attributes[semconv.MCP_METHOD_NAME] == "tools/call"
        assert span.attributes[semconv.POLICY_DECISION] == "allow"

    def test_other_arguments_are_judged_anew_as_those_of_a_server_without_a_name(self, on):
        world = World()
        server = make_server(world)
        on(policy.allow("github/*"), policy.deny_all(), mcp_servers=[])
        result = call_below(server, {"path": "/x"}, {"path": "/etc"})
        assert "Denied by policy" in text_of(result)
        assert world.ran == []

    def test_what_the_server_calls_itself_can_still_deny(self, on, exporter):
        world = World()
        server = make_server(world)
        on(policy.allow("github/*"), policy.deny("files/danger", reason="no"), mcp_servers=[])
        assert text_of(call_below(server, {"path": "/x"})) == "no"
        assert world.ran == []
        assert [s.attributes[semconv.POLICY_DECISION] for s in spans_of(exporter)] == ["deny"]


# -- forms ------------------------------------------------------------------------------------


def form(**fields: Any) -> Elicitation:
    schema = {"type": "object", "properties": fields}
    return Elicitation(SimpleNamespace(message="Which?", requested_schema=schema))


class TestForms:
    """Questions of a form, and answers put into it."""

    def test_choices_are_options(self):
        shapes = {
            "enum": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
            "titled": {"type": "string", "oneOf": [{"const": "c", "title": "C"}]},
            "many": {"type": "array", "items": {"enum": ["d"]}, "description": "take some"},
            "flag": {"type": "boolean"},
            "text": {"type": "string", "title": "Words"},
        }
        entries = form(**shapes).spec().questions
        assert [[(o.id, o.text) for o in entry.options] for entry in entries] == [
            [("a", "A"), ("b", "B")],
            [("c", "C")],
            [("d", "d")],
            [("true", "yes"), ("false", "no")],
            [],
        ]
        assert [entry.is_multi_select for entry in entries] == [False, False, True, False, False]
        assert entries[2].question == "Which? many: take some"
        assert entries[4].question == "Which? Words"

    def test_answers_get_the_types_of_the_form(self):
        shapes = {
            "many": {"type": "array", "items": {"enum": ["d", "e"]}},
            "share": {"type": "number"},
            "text": {"type": "string"},
        }
        answers = [
            types.QuestionResponse(selected_option_ids=["d", "e"]),
            types.QuestionResponse(freeform_response="0.5"),
            types.QuestionResponse(freeform_response="hello"),
        ]
        found = form(**shapes).answered(types.QuestionHookResult(responses=answers))
        assert found.action == "accept"
        assert found.content == {"many": ["d", "e"], "share": 0.5, "text": "hello"}

    def test_a_form_can_be_filled_in_by_a_dict_or_the_packages_own_result(self):
        assert form(a={"type": "string"}).answered({"a": "b"}).content == {"a": "b"}
        own = wire.ElicitResult(action="cancel")
        assert form().answered(own) is own

    @pytest.mark.parametrize(("chosen", "action"), [("accept", "accept"), ("decline", "decline")])
    def test_an_address_is_accepted_or_not(self, chosen, action):
        params = SimpleNamespace(message="Log in", url="https://example.com")
        question = Elicitation(params)
        assert question.spec().questions[0].question == "Log in (https://example.com)"
        answer = types.QuestionResponse(selected_option_ids=[chosen])
        result = question.answered(types.QuestionHookResult(responses=[answer]))
        assert result.action == action


# -- results ----------------------------------------------------------------------------------


def result(structured: Any = None, text: str = "a secret") -> Any:
    fields = {"structuredContent": structured} if structured is not None else {}
    return wire.CallToolResult.model_validate(
        {"content": [{"type": "text", "text": text}], **fields}
    )


class TestReplacedResults:
    """Both parts of a result are replaced, or the result is an error."""

    @pytest.mark.parametrize(
        ("structured", "value", "expected", "is_error"),
        [
            (None, "hidden", None, False),
            ({"result": "a secret"}, "hidden", {"result": "hidden"}, False),
            ({"result": 4711}, "0", {"result": 0}, False),
            ({"result": 4711}, "hidden", None, True),
            ({"name": "a", "key": "b"}, '{"name": "a"}', {"name": "a"}, False),
            ({"name": "a", "key": "b"}, {"name": "a"}, {"name": "a"}, False),
            ({"name": "a", "key": "b"}, "hidden", None, True),
        ],
    )
    def test_on_a_server(self, structured, value, expected, is_error):
        found = records.replaced(result(structured), value, keeps_schema=True)
        assert records.field(found, "structured_content", "structuredContent") == expected
        assert records.field(found, "is_error", "isError") is is_error
        assert "secret" not in text_of(found)

    def test_on_a_client_nothing_checks_the_form_any_more(self):
        found = records.replaced(result({"name": "a"}), "hidden", keeps_schema=False)
        assert records.field(found, "structured_content", "structuredContent") is None
        assert records.field(found, "is_error", "isError") is False

    def test_content_that_is_not_all_text_is_shown_and_replaced_as_blocks(self):
        image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        raw = wire.CallToolResult.model_validate({"content": [image]})
        shown = records.value_of(raw)
        assert shown == [image]
        again = records.replaced(raw, shown, keeps_schema=True)
        assert records.value_of(again) == [image]

    def test_a_result_without_content_is_its_structured_content(self):
        raw = wire.CallToolResult.model_validate({"content": [], "structuredContent": {"a": 1}})
        assert records.value_of(raw) == {"a": 1}
