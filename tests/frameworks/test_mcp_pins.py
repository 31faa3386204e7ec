"""MCP: definitions that people have approved, against real servers whose definitions change."""
# ruff: noqa: F811  # fixtures are imported by name

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

from mcp import types as wire

import otelhooks
from otelhooks import policy, types
from otelhooks.cli.mcp_servers import definitions
from otelhooks.errors import ConfigError
from otelhooks.policy.mcp.definitions import fields_of
from otelhooks.records import semconv
from tests.frameworks.mcp_fixtures import on  # noqa: F401  # fixture
from tests.frameworks.mcp_pinned import (  # noqa: F401  # fixtures are among them
    CHANGED,
    EVIL,
    READ,
    WRITE,
    Server,
    changing,
    changing_process,
    tool,
)
from tests.frameworks.mcp_world import IS_2, connected, make_named, spans_of, text_of

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed .MemoryObject:ResourceWarning")


@pytest.fixture
def server(changing: Server) -> Server:
    return changing


@pytest.fixture(params=["stdio", "http"])
def either(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Server:
    """The server over stdio, and over streamable HTTP."""
    if request.param == "http":
        return request.getfixturevalue("server")
    server = Server(tmp_path)
    server.begin()
    return server


async def names(session: Any, cursor: str | None = None) -> list[str]:
    """Return the names in the list that the client reads, page by page."""
    params = wire.PaginatedRequestParams(cursor=cursor) if cursor else None
    page = await (session.list_tools(params=params) if params else session.list_tools())
    found = [one.name for one in page.tools]
    further = getattr(page, "next_cursor", None) or getattr(page, "nextCursor", None)
    return found + (await names(session, further) if further else [])


async def call(session: Any, name: str = "read") -> str:
    return text_of(await session.call_tool(name, {"path": "a"}))


def events(exporter: Any) -> list[Any]:
    """Return the events about tools that are not approved."""
    records = [each.log_record for each in exporter.get_finished_logs()]
    return [one for one in records if one.event_name == semconv.EVENT_MCP_TOOL_UNAPPROVED]


@pytest.fixture
def pinned(on: Any) -> Callable[..., Any]:
    """Instrument with the server's pins."""

    def instrument(server: Server, *rules: Any, mode: str = "enforce", **more: Any) -> Any:
        more = {"mcp_servers": [server.config], **more}
        return on(*rules, mcp_pins=f"{mode}:{server.pins}", **more)

    return instrument


class TestRugPull:
    """A definition changes after it was approved."""

    def test_it_is_denied_within_one_list(self, either, pinned, exporter, log_exporter):
        pinned(either)

        async def run() -> tuple[Any, ...]:
            async with either.session() as session:
                first = await names(session), await call(session)
                either.lists_now([EVIL, WRITE])
                still = await call(session)
                return *first, still, await names(session), await call(session)

        assert anyio.run(run) == (["read", "write"], "done", "done", ["write"], CHANGED)
        assert either.ran.read_text() == "read\nread\n"
        denied = spans_of(exporter)[-1].attributes
        assert denied[semconv.POLICY_DECISION] == "deny"
        assert denied[semconv.POLICY_ID] == "mcp_pins"
        assert denied[semconv.POLICY_RULE_ID] == "changed"
        assert denied[semconv.POLICY_REASON] == CHANGED
        [event] = events(log_exporter)
        assert event.attributes[semconv.TOOL_SERVER] == "notes"
        assert event.attributes[semconv.GEN_AI_TOOL_NAME] == "read"
        assert event.attributes[semconv.MCP_TOOL_CHANGE] == "changed"
        assert event.attributes[semconv.MCP_TOOL_HASH].startswith("sha256:")

    def test_a_definition_that_is_approved_again_may_be_called_again(self, server, pinned):
        pinned(server)

        async def run() -> tuple[Any, ...]:
            async with server.session() as session:
                server.lists_now([EVIL])
                hidden = await names(session), await call(session)
                server.lists_now([READ])
                return *hidden, await names(session), await call(session)

        assert anyio.run(run) == ([], CHANGED, ["read"], "done")

    def test_a_definition_that_changes_while_a_person_is_asked(self, server, pinned):
        asked = policy.ask_user("*", lambda call: changes())

        async def changes() -> bool:
            server.lists_now([EVIL])
            await names(sessions[0])
            return True

        sessions: list[Any] = []
        pinned(server, asked)

        async def run() -> str:
            async with server.session() as session, server.session() as other:
                sessions.append(other)
                await names(session)
                return await call(session)

        assert anyio.run(run) == CHANGED
        assert server.ran.read_text() == ""

    def test_a_list_that_another_session_read_counts_for_every_session(self, server, pinned):
        pinned(server)

        async def run() -> tuple[str, str]:
            async with server.session() as old, server.session() as new:
                await names(old)
                before = await call(new)
                server.lists_now([EVIL])
                await names(new)
                return before, await call(old)

        assert anyio.run(run) == ("done", CHANGED)

    def test_a_notice_of_a_change_is_followed_by_a_list_like_any_other(self, server, pinned):
        announce = tool("announce")
        server.lists_now([READ, announce])
        server.approve(READ, announce)
        pinned(server)
        told = anyio.Event()

        async def noticed(message: Any) -> None:
            if "tools/list_changed" in repr(message):
                told.set()

        async def run() -> tuple[Any, ...]:
            async with server.session(message_handler=noticed) as session:
                await names(session)
                server.lists_now([EVIL, announce])
                await call(session, "announce")
                with anyio.fail_after(10):
                    await told.wait()
                return await call(session), await names(session), await call(session)

        # Until it is listed again, every model has read the approved definition.
        assert anyio.run(run) == ("done", ["announce"], CHANGED)

    def test_the_audit_trail_has_the_deny(self, server, pinned, tmp_path):
        server.lists_now([EVIL])
        handle = pinned(server, audit=tmp_path / "audit")

        async def run() -> None:
            async with server.session() as session:
                await names(session)
                await call(session)

        anyio.run(run)
        handle.force_flush()
        files = sorted((tmp_path / "audit").glob("*.jsonl"))
        records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        [record] = [one for one in records if "decision" in one]
        assert (record["decision"], record["policy_id"]) == ("deny", "mcp_pins")
        assert (record["rule_id"], record["reason"]) == ("changed", CHANGED)
        assert record["server"] == "notes"


class TestLists:
    """What a client may read of a list, and call."""

    def test_a_new_tool_is_hidden_and_denied(self, server, pinned):
        server.lists_now([READ, WRITE, tool("grab")])
        pinned(server)

        async def run() -> tuple[Any, ...]:
            async with server.session() as session:
                return await names(session), await call(session, "grab")

        assert anyio.run(run) == (["read", "write"], "This tool has not been approved.")

    def test_a_call_before_any_list_is_denied(self, either, pinned, exporter):
        pinned(either)

        async def run() -> str:
            async with either.session() as session:
                return await call(session)

        assert "not in any list" in anyio.run(run)
        assert either.ran.read_text() == ""
        assert spans_of(exporter)[-1].attributes[semconv.POLICY_RULE_ID] == "unlisted"

    def test_each_page_of_a_list_counts(self, server, pinned):
        server.lists_now([READ, tool("a")], [WRITE, EVIL | {"name": "b"}], [EVIL])
        pinned(server)

        async def run() -> tuple[Any, ...]:
            async with server.session() as session:
                return await names(session), await call(session), await call(session, "write")

        assert anyio.run(run) == (["read", "write"], CHANGED, "done")

    @pytest.mark.parametrize("order", [(READ, EVIL), (EVIL, READ)])
    def test_a_tool_that_is_in_a_list_twice_needs_both_approved(self, server, pinned, order):
        server.lists_now([*order, WRITE])
        pinned(server)

        async def run() -> tuple[Any, ...]:
            async with server.session() as session:
                return await names(session), await call(session)

        assert anyio.run(run) == (["write"], CHANGED)

    def test_requests_without_the_methods_of_a_session(self, server, pinned):
        server.lists_now([EVIL, WRITE])
        pinned(server)

        async def run() -> tuple[Any, ...]:
            async with server.session() as session:
                lists = wire.ListToolsRequest(params=None)
                calls = wire.CallToolRequest(
                    params=wire.CallToolRequestParams(name="read", arguments={"path": "a"})
                )
                if not IS_2:
                    lists, calls = wire.ClientRequest(lists), wire.ClientRequest(calls)
                page = await session.send_request(lists, wire.ListToolsResult)
                result = await session.send_request(calls, wire.CallToolResult)
                return [one.name for one in page.tools], text_of(result)

        assert anyio.run(run) == (["write"], CHANGED)

    @pytest.mark.parametrize("name", ["re\u0430d", "read\u200b", "READ", "read "])
    def test_a_look_alike_of_an_approved_tool(self, server, pinned, name):
        server.lists_now([READ | {"name": name}])
        pinned(server)

        async def run() -> tuple[Any, ...]:
            async with server.session() as session:
                return await names(session), await call(session, name)

        assert anyio.run(run) == ([], "This tool has not been approved.")

    @pytest.mark.parametrize(
        "more",
        [
            {"_meta": {"at": 1}},
            {"icons": [{"src": "https://notes/x.png"}]},
        ],
    )
    def test_fields_that_no_model_reads_do_not_count(self, server, pinned, more):
        server.lists_now([READ | more])
        pinned(server)

        async def run() -> list[str]:
            async with server.session() as session:
                return await names(session)

        assert anyio.run(run) == ["read"]

    def test_monitor_only_reports(self, server, pinned, exporter, log_exporter, metrics_reader):
        server.lists_now([EVIL, WRITE])
        pinned(server, mode="monitor")

        async def run() -> tuple[Any, ...]:
            async with server.session() as session:
                return await names(session), await call(session)

        assert anyio.run(run) == (["read", "write"], "done")
        span = spans_of(exporter)[-1].attributes
        assert (span[semconv.POLICY_DECISION], span[semconv.POLICY_ENFORCEMENT]) == (
            "deny",
            "observed",
        )
        assert span[semconv.POLICY_RULE_ID] == "changed"
        assert len(events(log_exporter)) == 1
        assert unapproved(metrics_reader) == {("changed", "monitor"): 1}

    def test_monitor_mode_of_all_rules_enforces_no_pins(self, server, on):
        server.lists_now([EVIL])
        on(mcp_pins=server.pins, mcp_servers=[server.config], **{"mode": "monitor"})

        async def run() -> tuple[Any, ...]:
            async with server.session() as session:
                return await names(session), await call(session)

        assert anyio.run(run) == (["read"], "done")


def unapproved(reader: Any) -> dict[tuple[str, str], int]:
    """Return how many tools were not approved, by change and mode; without zeros."""
    found = {}
    for resource in reader.get_metrics_data().resource_metrics:
        for metric in (m for scope in resource.scope_metrics for m in scope.metrics):
            if metric.name == semconv.METRIC_MCP_TOOLS_UNAPPROVED:
                for point in metric.data.data_points:
                    about = point.attributes
                    if point.value:
                        key = about[semconv.MCP_TOOL_CHANGE], about[semconv.POLICY_MODE]
                        found[key] = point.value
    return found


class TestWhoseToolsTheyAre:
    """Definitions are approved by the name that the application gave to the server."""

    UNNAMED = "has no name here"

    def test_another_server_with_the_same_definitions(self, server, pinned):
        """Shadowing: it calls itself `notes`, and lists exactly what was approved of `notes`."""
        other = types.McpStdioServer(name="notes", command="elsewhere")
        server.approve(READ, server="claims")
        pinned(server, mcp_servers=[other])

        async def run() -> tuple[Any, ...]:
            async with server.session() as session:
                return await names(session), await call(session)

        listed, said = anyio.run(run)
        assert listed == []
        assert self.UNNAMED in said

    def test_a_tool_that_was_approved_of_another_server(self, server, pinned):
        server.approve(READ, server="mail")
        pinned(server)

        async def run() -> tuple[Any, ...]:
            async with server.session() as session:
                return await names(session), await call(session)

        assert anyio.run(run) == ([], "This tool has not been approved.")

    def test_a_server_of_this_process_has_the_name_that_its_code_gives_it(self, server, on):
        def read(path: str) -> str:
            return path

        made = make_named(read, "read", "inner")
        seen: list[Any] = []

        async def run() -> tuple[Any, ...]:
            async with connected(made) as client:
                page = await client.list_tools()
                seen.extend(one.model_dump(by_alias=True, mode="json") for one in page.tools)
                return [one.name for one in page.tools], text_of(
                    await client.call_tool("read", {"path": "a"})
                )

        on(mcp_pins=f"monitor:{server.pins}")
        anyio.run(run)
        otelhooks.uninstrument()
        server.approve(*seen, server="inner")
        on(mcp_pins=server.pins)
        assert anyio.run(run) == (["read"], "a")
        otelhooks.uninstrument()
        on(mcp_pins=server.pins, mcp_servers=[types.McpStdioServer(name="inner", command="x")])
        listed, said = anyio.run(run)
        assert (listed, self.UNNAMED in said) == ([], True)

    def test_an_agent_framework_that_passes_its_call_on(self, server, pinned, exporter):
        """Its seat allowed the call by the name; the client's knows the definition."""
        server.lists_now([EVIL])
        pinned(server, policy.allow("*"))

        async def run() -> str:
            async with server.session() as session:
                await names(session)

                @otelhooks.tool(server="notes")
                async def read(path: str) -> str:
                    return text_of(await session.call_tool("read", {"path": path}))

                return await read("a")

        assert anyio.run(run) == CHANGED
        assert server.ran.read_text() == ""


class TestAnnotations:
    """What a server says of its tools selects asks and denies, and never allows."""

    RULE = policy.deny(
        "*", when_annotations={"destructiveHint": True}, reason="destroys", id="destroys"
    )

    def test_a_rule_is_for_tools_that_are_annotated_like_it(self, server, on):
        gentle = READ | {"annotations": {"readOnlyHint": True}}
        server.lists_now([gentle, WRITE, tool("plain")])
        on(self.RULE, mcp_servers=[server.config])

        async def run() -> list[str]:
            async with server.session() as session:
                before = await call(session)
                await names(session)
                return [before, *[await call(session, one) for one in ("read", "write", "plain")]]

        # Before the list, and without a word, the protocol's default holds: it may destroy.
        assert anyio.run(run) == ["destroys", "done", "destroys", "destroys"]

    def test_a_server_without_a_name_is_believed_for_its_own_session(self, server, on):
        server.lists_now([READ | {"annotations": {"readOnlyHint": True}}])
        on(self.RULE)

        async def run() -> tuple[str, str]:
            async with server.session() as one, server.session() as other:
                await names(one)
                return await call(one), await call(other)

        assert anyio.run(run) == ("done", "destroys")

    def test_a_rule_of_a_scope_reads_lists_too(self, server, on):
        server.lists_now([READ | {"annotations": {"readOnlyHint": True}}])
        on(mcp_servers=[server.config])

        async def run() -> str:
            with otelhooks.scope(policies=[self.RULE]):
                async with server.session() as session:
                    await names(session)
                    return await call(session)

        assert anyio.run(run) == "done"


class TestCommand:
    """`otelhooks mcp` reads the lists itself."""

    def test_it_reads_each_page_over_either_transport(self, either):
        either.lists_now([READ], [WRITE | {"_meta": {"x": 1}, "icons": []}])
        expected = {"notes": {"read": fields_of(READ), "write": fields_of(WRITE)}}
        assert definitions([either.config]) == expected

    def test_a_list_with_two_tools_of_one_name_is_an_error(self, server):
        server.lists_now([READ, EVIL])
        with pytest.raises(ConfigError, match="server `notes` lists 'read' twice"):
            definitions([server.config])

    def test_a_server_that_does_not_answer_is_an_error(self):
        gone = types.McpStreamableHttpServer(name="gone", url="http://127.0.0.1:9/mcp")
        with pytest.raises(ConfigError, match="server `gone` cannot be read"):
            definitions([gone])

    def test_two_servers_with_one_name_are_an_error(self, server):
        with pytest.raises(ConfigError, match="two servers are called `notes`"):
            definitions([server.config, server.config])
