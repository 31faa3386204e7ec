"""MCP: whose tool it is, and servers whose client is elsewhere."""
# ruff: noqa: F811  # fixtures are imported by name

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

from mcp import ClientSession, stdio_client  # copies, made before anything is instrumented

from otelhooks import hooks, policy, types
from otelhooks.records import semconv
from tests.frameworks.contract import World
from tests.frameworks.mcp_fixtures import http_server, on, ran  # noqa: F401  # fixtures
from tests.frameworks.mcp_world import (
    IS_2,
    SERVER,
    VERSION,
    config,
    connected,
    direct_path_of,
    make_server,
    run_once,
    spans_of,
    stdio,
    text_of,
)

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed .MemoryObject:ResourceWarning")


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

    def test_two_names_for_one_command_and_environment_are_not_a_name(self, on, ran):
        params = stdio("anything", ran)
        configs = [config(params, "one"), config(params, "two")]
        on(policy.allow("two/*"), policy.deny_all(), mcp_servers=configs)
        assert "Denied" in run_once(params)
        assert ran.read_text() == ""

    def test_streams_that_were_mixed_are_not_a_connection(self, on, ran):
        from otelhooks.frameworks.mcp.connections import peer_of

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
