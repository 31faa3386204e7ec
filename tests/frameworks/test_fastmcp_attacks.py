"""FastMCP: ways round a seat, and calls that pass several."""

from __future__ import annotations

import functools
from typing import Any

import anyio
import pytest

pytest.importorskip("fastmcp")

from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server import create_proxy
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers import LocalProvider
from fastmcp.server.transforms import Namespace, ToolTransform
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ToolTransformConfig

from otelhooks import hooks, policy, types
from otelhooks.frameworks.fastmcp.scripted import caller, client, server_of, tool_objects
from otelhooks.records import semconv
from tests.frameworks.contract import REASON, World
from tests.frameworks.mcp_pinned import (  # noqa: F401  # fixtures
    CHANGED,
    EVIL,
    WRITE,
    changing,
    changing_process,
)
from tests.frameworks.test_fastmcp import served


@pytest.fixture
def on(with_rules: Any) -> Any:
    """Guard FastMCP and the package below it, with rules."""
    return functools.partial(with_rules, frameworks=["fastmcp", "mcp"])


def play(call: Any, name: str = "danger", **args: Any) -> str:
    return anyio.run(call, name, args or {"path": "/"})


def through_client(server: Any) -> Any:
    async def call(name: str, args: Any) -> str:
        async with Client(server) as session:
            return await client(session)(name, args)

    return call


def tool_spans(exporter: Any) -> list[Any]:
    return [
        (span.attributes[semconv.GEN_AI_TOOL_NAME], span.attributes[semconv.POLICY_DECISION])
        for span in exporter.get_finished_spans()
        if semconv.POLICY_DECISION in (span.attributes or {})
    ]


def mounted(world: World) -> Any:
    parent = FastMCP("parent")
    parent.mount(served(world), namespace="child")
    return parent


def proxied(world: World) -> Any:
    server = FastMCP("parent")
    server.mount(create_proxy(served(world)), namespace="child")
    return server


def transformed(world: World) -> Any:
    server = FastMCP("parent")
    inner = Tool.from_function(world.danger, name="danger")
    server.add_tool(Tool.from_tool(inner, name="child_danger"))
    return server


def namespaced(world: World) -> Any:
    server = served(world)
    server.add_transform(Namespace("child"))
    return server


def renamed(world: World) -> Any:
    server = served(world)
    server.add_transform(ToolTransform({"danger": ToolTransformConfig(name="child_danger")}))
    return server


def provided(world: World) -> Any:
    provider = LocalProvider()
    provider.add_tool(Tool.from_function(world.danger, name="danger"))
    provider.add_transform(Namespace("child"))
    return FastMCP("parent", providers=[provider])


@pytest.mark.parametrize("make", [mounted, proxied, transformed, namespaced, renamed, provided])
@pytest.mark.parametrize("reach", [through_client, lambda server: caller(server.call_tool)])
@pytest.mark.parametrize("name", ["danger", "child_danger"])
def test_a_renamed_tool_is_denied_under_either_name(on, make, reach, name):
    world = World()
    on(policy.deny(f"*/{name}", reason=REASON))
    assert REASON in play(reach(make(world)), "child_danger", path="/")
    assert world.bodies == []


@pytest.mark.parametrize("make", [namespaced, provided])
def test_an_allow_for_a_name_without_its_namespace_opens_nothing(on, make):
    world = World()
    handle = on(policy.deny("*/child_*", reason=REASON), policy.allow("*/danger"))
    assert REASON in play(through_client(make(world)), "child_danger", path="/")
    handle.replace(policies=[policy.deny("*", reason=REASON), policy.allow("*/danger")])
    assert REASON in play(through_client(make(world)), "child_danger", path="/")
    assert world.bodies == []


@pytest.mark.parametrize("name", ["danger", "child_danger", "deep_child_danger"])
def test_a_listed_tool_that_a_program_runs_is_denied_under_each_name(on, name):
    world = World()
    server = namespaced(world)
    server.add_transform(Namespace("deep"))
    on(policy.deny(name, reason=REASON))

    async def run(shown: str, args: Any) -> str:
        (tool,) = [one for one in await server.list_tools() if one.name == shown]
        with pytest.raises(ToolError) as caught:
            await tool.run(args)
        return str(caught.value)

    assert REASON in play(run, "deep_child_danger", path="/")
    assert world.bodies == []


def test_a_mounted_server_is_denied_under_its_own_name(on):
    world = World()
    on(policy.deny("files/danger", reason=REASON))
    parent = FastMCP("parent")
    parent.mount(served(world))
    assert REASON in play(caller(parent.call_tool))
    assert REASON in play(through_client(parent))
    assert world.bodies == []


class Rewriting(Middleware):
    """Calls another tool than the client asked for."""

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        changed = {"name": "danger", "arguments": {"path": "/etc"}}
        message = context.message.model_copy(update=changed)
        return await call_next(context.copy(message=message))


class Running(Middleware):
    """Runs a tool object instead of going on."""

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        tool = await context.fastmcp_context.fastmcp.get_tool("danger")
        return await tool.run({"path": "/etc"})


@pytest.mark.parametrize("middleware", [Rewriting, Running])
@pytest.mark.parametrize("reach", [through_client, lambda server: caller(server.call_tool)])
def test_middleware_that_calls_another_tool_is_denied(on, middleware, reach):
    world = World()
    server = served(world)
    server.add_middleware(middleware())
    on(policy.deny("files/danger", reason=REASON))
    assert REASON in play(reach(server), "safe", x=1)
    assert world.bodies == []


class Retrying(Middleware):
    """Calls a tool twice."""

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        await call_next(context)
        return await call_next(context)


def test_middleware_that_calls_a_tool_twice_is_limited_to_one_run(on):
    world = World()
    server = served(world)
    server.add_middleware(Retrying())
    on(policy.RateLimit(tool_calls=1))
    play(caller(server.call_tool))
    assert world.bodies == ["danger"]


def test_a_tool_that_calls_another_one_is_judged_there(on, exporter):
    world = World()
    server = served(world)

    async def shell(path: str) -> str:
        return str(await server.call_tool("danger", {"path": path}))

    async def same(path: str) -> str:
        """Call the tool of its own name on another server."""
        return str(await other.call_tool("same", {"path": path}))

    other = server_of("other", same=world.danger)
    server.tool(shell, name="shell")
    server.tool(same, name="same")
    on(policy.deny("files/danger", reason=REASON), policy.deny("other/same", reason=REASON))
    for reach in (through_client(server), caller(server.call_tool), tool_objects(server)):
        assert REASON in play(reach, "shell", path="/")
        assert REASON in play(reach, "same", path="/")
    assert world.bodies == []


def test_a_class_of_tools_of_your_own_is_judged(on):
    ran: list[Any] = []

    class Own(Tool):
        async def run(self, arguments: dict[str, Any]) -> Any:
            ran.append(arguments)
            return self.convert_result("done")

    on(policy.deny("*/danger", reason=REASON))

    class Later(Own):
        async def run(self, arguments: dict[str, Any]) -> Any:
            return await super().run(arguments)

    for cls in (Own, Later):
        tool = cls(name="danger", parameters={"type": "object"})
        server = FastMCP("files")
        server.add_tool(tool)
        assert REASON in play(caller(server.call_tool))
        assert REASON in play(through_client(server))
        with pytest.raises(ToolError, match=REASON):
            anyio.run(tool.run, {})
    assert ran == []


@pytest.mark.parametrize("reach", [through_client, lambda s: caller(s.call_tool), tool_objects])
def test_a_call_has_one_span_and_is_counted_once(on, exporter, reach):
    world = World()
    on(policy.RateLimit(tool_calls=1))
    play(reach(served(world)))
    assert world.bodies == ["danger"]
    assert tool_spans(exporter) == [("danger", "allow")]


@pytest.mark.parametrize("reach", [through_client, lambda s: caller(s.call_tool), tool_objects])
def test_a_tool_that_calls_itself_with_the_same_arguments_is_counted_again(on, reach):
    ran: list[str] = []

    async def danger(path: str) -> str:
        ran.append(path)
        return str(await server.call_tool("danger", {"path": path}))

    server = server_of("files", danger=danger)
    on(policy.RateLimit(tool_calls=2))
    assert "2 of 2 tool calls used" in play(reach(server))
    assert ran == ["/", "/"]


def test_a_tool_that_only_pretends_to_be_made_of_another_one_is_counted_again(on):
    ran: list[str] = []

    async def again(path: str) -> str:
        ran.append(path)
        return str(await server.call_tool("danger", {"path": path}))

    inner = Tool.from_function(World().danger, name="danger")
    server = FastMCP("files")
    server.add_tool(Tool.from_tool(inner, transform_fn=again))
    on(policy.RateLimit(tool_calls=2))
    assert "2 of 2 tool calls used" in play(caller(server.call_tool))
    assert ran == ["/", "/"]


def test_a_server_denies_without_the_adapter_of_mcp(with_rules):
    world = World()
    with_rules(policy.deny("files/danger", reason=REASON), frameworks=["fastmcp"])
    assert REASON in play(through_client(served(world)))
    assert world.bodies == []


def test_a_tool_of_a_borrowed_model_call_is_judged(on, exporter):
    pytest.importorskip("fastmcp.server.sampling", reason="4.x has none", exc_type=ImportError)
    from fastmcp.server.sampling import SamplingTool

    world = World()
    on(policy.deny("danger", reason=REASON))
    danger, safe = (SamplingTool.from_function(each) for each in (world.danger, world.safe))
    with pytest.raises(ToolError, match=REASON):
        anyio.run(danger.run, {"path": "/"})
    anyio.run(safe.run, {"x": 1})
    assert world.bodies == ["safe"]
    assert tool_spans(exporter) == [("danger", "deny"), ("safe", "allow")]


def test_a_server_that_masks_errors_tells_the_reason(on):
    world = World()
    server = FastMCP("files", mask_error_details=True)
    server.tool(world.danger, name="danger")
    on(policy.deny("files/danger", reason=REASON))
    assert REASON in play(caller(server.call_tool))


def test_a_redacted_result_is_not_in_its_structured_form(on):
    @hooks.post_tool_call_transform
    async def redact(result):
        return "***"

    world = World()
    on(hooks=[redact])
    server = served(world)

    async def call() -> Any:
        return await server.call_tool("safe", {"x": 1})

    assert "4711" not in str(anyio.run(call))


@pytest.mark.parametrize("by_server", [True, False])
@pytest.mark.parametrize("said", [{"x": "SECRET"}, {"content": "SECRET"}, "SECRET"])
def test_what_a_tools_own_run_returns_in_no_form_of_the_package_is_withheld(
    on: Any, said: Any, by_server: bool
) -> None:
    shown: list[Any] = []

    @hooks.post_tool_call_transform
    def withhold(result: types.ToolResult) -> types.HookResult:
        shown.append(result.result)
        return types.HookResult(allow=False, message="WITHHELD")

    class Own(Tool):
        async def run(self, arguments: Any) -> Any:
            return said

    server = FastMCP("files")
    tool = server.add_tool(Own(name="own", parameters={"type": "object", "properties": {}}))
    on(hooks=[withhold])

    async def call() -> Any:
        return await (server.call_tool("own", {}) if by_server else tool.run({}))

    returned = anyio.run(call)
    assert shown == [said]
    assert [block.text for block in returned.content] == ["WITHHELD"]


def test_a_definition_that_changes_is_hidden_and_denied(with_rules: Any, changing: Any) -> None:  # noqa: F811
    with_rules(mcp_pins=changing.pins, mcp_servers=[changing.config])

    async def run() -> tuple[list[str], str]:
        async with Client(changing.config.url) as found:
            assert [one.name for one in await found.list_tools()] == ["read", "write"]
            await found.call_tool("read", {"path": "a"})
            changing.lists_now([EVIL, WRITE])
            names = [one.name for one in await found.list_tools()]
            with pytest.raises(ToolError) as denied:
                await found.call_tool("read", {"path": "a"})
            return names, str(denied.value)

    assert anyio.run(run) == (["write"], CHANGED)
    assert changing.ran.read_text() == "read\n"
