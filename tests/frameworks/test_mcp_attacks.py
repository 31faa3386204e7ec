"""MCP: ways round a seat, and calls that a framework hands on."""
# ruff: noqa: F811  # fixtures are imported by name

from __future__ import annotations

from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

from mcp import types as wire

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.frameworks.kit import contents
from otelhooks.hooks.calls import Call
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import adrive
from otelhooks.pipeline.permits import NextSeat
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.records import semconv
from tests.frameworks.contract import World
from tests.frameworks.mcp_fixtures import on  # noqa: F401  # fixtures
from tests.frameworks.mcp_world import (
    connected,
    make_lowlevel,
    make_named,
    make_server,
    spans_of,
    text_of,
    tool_error_class,
)

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed .MemoryObject:ResourceWarning")


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


class FrameworkSeat(ToolSeat):
    """The seat of a framework that hands its tools to MCP sessions."""

    def denied(self, call: Call, reason: str) -> Any:
        return reason

    def next_seat(self, call: Call) -> NextSeat:
        return NextSeat("mcp.client", call.name, "github")


def call_below(server: Any, args: dict[str, Any], sent: dict[str, Any] | None = None) -> Any:
    """Call `danger` as a framework that knows the server as `github`."""

    async def run() -> Any:
        async with connected(server) as client:
            rt = runtime.active()
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

    def test_other_arguments_are_judged_again_as_those_of_a_server_without_a_name(self, on):
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
        assert call_below(server, {"path": "/x"}) == "no", "as the framework's seat tells a deny"
        assert world.ran == []
        assert [s.attributes[semconv.POLICY_DECISION] for s in spans_of(exporter)] == ["deny"]


class TestToolOutput:
    """The pack `tool-output` on results as MCP has them: content, structured content, errors."""

    TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

    def answer(self, on: Any, function: Any) -> Any:
        on("tool-output")
        server = make_named(function, "look_up")

        async def run() -> Any:
            async with connected(server) as client:
                return await client.call_tool("look_up", {})

        return anyio.run(run)

    def test_a_structured_result_with_a_secret_is_withheld(self, on):
        def look_up() -> dict[str, list[str]]:
            return {"keys": [self.TOKEN]}

        result = self.answer(on, look_up)

        assert 'blocked by hook "secrets_in_results"' in text_of(result)
        assert "ghp_" not in str(result.model_dump())

    def test_a_secret_that_only_the_structured_content_has_is_withheld(self, on):
        def look_up() -> wire.CallToolResult:
            return two_values("1 key", {"keys": [self.TOKEN]})

        result = self.answer(on, look_up)

        assert 'blocked by hook "secrets_in_results"' in text_of(result)
        assert "ghp_" not in str(result.model_dump())

    def test_an_error_with_a_secret_is_withheld(self, on):
        def look_up() -> str:
            raise ValueError(f"401 for {self.TOKEN}")

        assert "ghp_" not in str(self.answer(on, look_up).model_dump())

    def test_an_ordinary_result_passes_as_it_is(self, on):
        def look_up() -> dict[str, list[str]]:
            return {"keys": ["a"]}

        assert '"a"' in text_of(self.answer(on, look_up))


def two_values(text: str, structured: Any) -> Any:
    """Return a result whose structured content says something else than its text."""
    fields = {"content": [{"type": "text", "text": text}], "structuredContent": structured}
    return wire.CallToolResult.model_validate(fields)


@pytest.mark.parametrize("is_direct", [False, True], ids=["client", "server"])
def test_a_hook_changes_the_text_and_the_structured_content(on, is_direct):
    def look_up() -> wire.CallToolResult:
        return two_values("1 key", {"keys": ["a"], "owner": "Ann"})

    @hooks.post_tool_call_transform
    def no_keys(result: types.ToolResult) -> Any:
        shown = {**result.result["structuredContent"], "keys": []}
        return {"content": "no key", "structuredContent": shown}

    server = make_named(look_up, "look_up")
    on(hooks=[no_keys])

    async def run() -> Any:
        if is_direct:
            return await server.call_tool("look_up", {})
        async with connected(server) as client:
            return await client.call_tool("look_up", {})

    found = anyio.run(run)
    assert text_of(found) == "no key"
    assert contents.field(found, "structured_content") == {"keys": [], "owner": "Ann"}


def test_a_value_from_structured_content_is_known_to_come_from_there(on):
    def look_up() -> wire.CallToolResult:
        return two_values("1 account", {"iban": "DE02120300000000202051"})

    def pay(iban: str) -> str:
        return "paid"

    server = make_named(look_up, "look_up")
    server.add_tool(pay, name="pay")
    on(
        policy.label("look_up", adds="untrusted"),
        policy.deny("pay", when_argument_from={"iban": "untrusted"}, reason="no"),
        policy.allow("*/*"),
    )

    async def run() -> Any:
        async with connected(server) as client:
            await client.call_tool("look_up", {})
            return [
                text_of(await client.call_tool("pay", {"iban": one}))
                for one in ("DE02120300000000202051", "DE02500105170137075030")
            ]

    with otelhooks.session():
        assert anyio.run(run) == ["no", "paid"]
