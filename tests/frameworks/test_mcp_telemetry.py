"""MCP: spans, metrics, trace context, and the forms of results."""
# ruff: noqa: F811  # fixtures are imported by name

from __future__ import annotations

import contextlib
from typing import Any

import anyio
import pytest
from opentelemetry import baggage
from opentelemetry.context import attach, detach

pytest.importorskip("mcp")

from mcp import types as wire

from otelhooks import policy
from otelhooks.frameworks.kit import contents
from otelhooks.records import semconv
from tests import conformance
from tests.frameworks.contract import World
from tests.frameworks.mcp_fixtures import on, ran  # noqa: F401  # fixtures
from tests.frameworks.mcp_world import (
    IS_2,
    connected,
    make_lowlevel,
    make_server,
    no_tools,
    run_once,
    session_of,
    spans_of,
    stdio,
    text_of,
)

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed .MemoryObject:ResourceWarning")


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

    def test_how_long_sessions_last_is_told_on_both_sides(self, on, metrics_reader):
        from mcp import ClientSession
        from mcp.shared.memory import create_client_server_memory_streams

        server = make_server(World())
        low = getattr(server, "_mcp_server", None) or server._lowlevel_server
        on(policy.deny("something_else"))

        async def run(fails: bool) -> None:
            async with create_client_server_memory_streams() as (ours, theirs):
                async with anyio.create_task_group() as group:
                    group.start_soon(low.run, *theirs, low.create_initialization_options())
                    with contextlib.suppress(Exception):  # in a group of them
                        async with ClientSession(*ours) as session:
                            await session.initialize()
                            await session.call_tool("safe", {"x": 1})
                            if fails:
                                raise KeyError("of the application")
                    for end in ours:
                        await end.aclose()

        anyio.run(run, False)
        anyio.run(run, True)
        clients = points(metrics_reader, semconv.METRIC_MCP_CLIENT_SESSION_DURATION)
        failed = {p.attributes.get(semconv.ERROR_TYPE): p.count for p in clients}
        assert failed == {None: 1, "KeyError": 1}
        served = points(metrics_reader, semconv.METRIC_MCP_SERVER_SESSION_DURATION)
        assert sum(point.count for point in served) == 2
        conformance.check_all([], metrics_reader.get_metrics_data())

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


def result(structured: Any = None, text: str = "a secret") -> Any:
    fields = {"structuredContent": structured} if structured is not None else {}
    return wire.CallToolResult.model_validate(
        {"content": [{"type": "text", "text": text}], **fields}
    )


def replaced(raw: Any, value: Any, *, keeps_schema: bool) -> Any:
    fields = contents.replaced(raw, value, keeps_schema=keeps_schema)
    return wire.CallToolResult.model_validate(fields)


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
        found = replaced(result(structured), value, keeps_schema=True)
        assert contents.field(found, "structured_content") == expected
        assert contents.field(found, "is_error") is is_error
        assert "secret" not in text_of(found)

    def test_on_a_client_nothing_checks_the_form_any_more(self):
        found = replaced(result({"name": "a"}), "hidden", keeps_schema=False)
        assert contents.field(found, "structured_content") is None
        assert contents.field(found, "is_error") is False

    def test_content_that_is_not_all_text_is_shown_and_replaced_as_blocks(self):
        image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        raw = wire.CallToolResult.model_validate({"content": [image]})
        shown = contents.value_of(raw)
        assert shown == [image]
        again = replaced(raw, shown, keeps_schema=True)
        assert contents.value_of(again) == [image]

    def test_a_result_without_content_is_its_structured_content(self):
        raw = wire.CallToolResult.model_validate({"content": [], "structuredContent": {"a": 1}})
        assert contents.value_of(raw) == {"a": 1}
