"""Ways round the seats of the kit, and calls that pass several of them."""
# ruff: noqa: F811  # fixtures are imported by name

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
from typing import Any

import pytest

pytest.importorskip("hedera_agent_kit")

import wrapt
from hedera_agent_kit import HederaAgentAPI, Tool
from hedera_agent_kit.langchain.tool import HederaAgentKitTool
from hedera_agent_kit.shared.configuration import Context
from hedera_agent_kit.shared.models import ToolResponse

import otelhooks
from otelhooks import policy
from otelhooks.errors import SeatError
from otelhooks.patching import versions
from otelhooks.records import semconv
from tests.frameworks.contract import REASON, Seen
from tests.frameworks.hedera_fixtures import on, seen  # noqa: F401  # fixtures
from tests.frameworks.hedera_world import (
    HAS_MCP,
    HAS_PHASES,
    OLD,
    Client,
    NumberParameters,
    OneStep,
    PathParameters,
    Phased,
    configured,
)

phased = pytest.mark.skipif(not HAS_PHASES, reason=OLD)
with_mcp = pytest.mark.skipif(not HAS_MCP, reason="no server for MCP before 3.2")

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def danger(path: str) -> str:
    """Remove a path."""
    ran.append(path)
    return f"removed {path}"


def call(tool: Any, **params: Any) -> Any:
    return asyncio.run(tool.execute(Client(), Context(), params))


def call_api(tool: Any, **params: Any) -> Any:
    return asyncio.run(HederaAgentAPI(Client(), Context(), [tool]).run(tool.method, params))


DENY = policy.deny("danger", reason=REASON)
NOT_ETC = policy.deny("danger", when=lambda args: args.get("path") == "/etc", reason=REASON)


# -- objects and classes --------------------------------------------------------------------------


def test_objects_and_classes_of_before_are_guarded(on: Any) -> None:
    tool = OneStep(danger)
    api = HederaAgentAPI(Client(), Context(), [tool])
    on(DENY)
    assert call(tool, path="/").error == REASON
    assert asyncio.run(api.run("danger", {"path": "/"})).error == REASON
    assert ran == []


def test_classes_of_later_are_guarded_at_any_depth(on: Any) -> None:
    on(DENY)

    class Later(OneStep):
        async def execute(self, client: Any, context: Any, params: Any) -> ToolResponse:
            return ToolResponse(human_message=self.body(**params))

    class Deeper(Later):
        pass

    assert call(Later(danger), path="/").error == REASON
    assert call(Deeper(danger), path="/").error == REASON
    assert ran == []


def test_an_object_with_an_execute_of_its_own_is_guarded_by_the_api(on: Any, seen: Seen) -> None:
    tool = OneStep(danger)

    async def own(client: Any, context: Any, params: Any) -> ToolResponse:
        return ToolResponse(human_message=danger(**params))

    tool.execute = own  # type: ignore[method-assign]
    on(NOT_ETC)
    assert call_api(tool, path="/etc").error == REASON
    assert call_api(tool, path="/tmp").error is None
    assert ran == ["/tmp"]
    assert len(seen.spans) == 2


def test_an_object_that_is_not_a_tool_of_the_kit_is_guarded_by_the_api(on: Any) -> None:
    class Alike:
        method = "danger"

        async def execute(self, client: Any, context: Any, params: Any) -> Any:
            return danger(**params)

    on(DENY)
    assert call_api(Alike(), path="/").error == REASON
    assert ran == []


def test_a_function_that_a_class_gets_later_is_guarded_by_the_api(on: Any) -> None:
    class Late(OneStep):
        pass

    async def execute(self: Any, client: Any, context: Any, params: Any) -> Any:
        return ToolResponse(human_message=danger(**params))

    on(DENY)
    Late.execute = execute  # type: ignore[method-assign]
    assert call_api(Late(danger), path="/").error == REASON
    assert ran == []


def test_wrappers_of_others_change_nothing(on: Any, seen: Seen) -> None:
    """On the class, above and below ours; a call is still judged once."""

    class Wrapped(OneStep):
        @functools.lru_cache  # noqa: B019  # a wrapper that is no function
        def kept(self) -> None: ...

        async def execute(self, client: Any, context: Any, params: Any) -> ToolResponse:
            return await super().execute(client, context, params)

    def foreign(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(Wrapped, "execute", foreign)
    on(NOT_ETC)
    wrapt.wrap_function_wrapper(Wrapped, "execute", foreign)
    for ask in (call, call_api):
        assert ask(Wrapped(danger), path="/etc").error == REASON
        assert ask(Wrapped(danger), path="/tmp").error is None
    assert ran == ["/tmp", "/tmp"]
    assert [span.attributes[semconv.POLICY_DECISION] for span in seen.spans] == [
        "deny",
        "allow",
    ] * 2
    otelhooks.uninstrument()
    assert call(Wrapped(danger), path="/etc").error is None  # ours, below the other, lets pass
    otelhooks.instrument(policies=[DENY], frameworks=["hedera_agent_kit"])
    assert call(Wrapped(danger), path="/").error == REASON


def test_instrumenting_twice_judges_once(on: Any, seen: Seen) -> None:
    rule = policy.deny("danger", when=lambda args: False)
    assert on(rule) is on(rule)
    assert call(OneStep(danger), path="/").error is None
    assert len(seen.spans) == 1


# -- overriding -----------------------------------------------------------------------------------


class Diverting(OneStep):
    """An ``execute`` that hands on something else than it was given."""

    async def execute(self, client: Any, context: Any, params: Any) -> ToolResponse:
        return await super().execute(client, context, {"path": "/etc"})


def test_what_an_override_hands_on_is_judged_if_it_is_something_else(on: Any, seen: Seen) -> None:
    on(NOT_ETC)
    assert call(Diverting(danger), path="/tmp").error == REASON
    assert ran == []
    inner, outer = seen.spans
    assert inner.parent.span_id == outer.context.span_id
    assert inner.attributes[semconv.POLICY_DECISION] == "deny"


def test_an_api_of_ones_own_judges_once_and_what_it_changes_again(on: Any, seen: Seen) -> None:
    class Own(HederaAgentAPI):
        async def run(self, method: str, arg: Any) -> Any:
            return await super().run(method, {"path": "/etc"} if arg["path"] == "/var" else arg)

    on(NOT_ETC)
    api = Own(Client(), Context(), [OneStep(danger)])
    assert asyncio.run(api.run("danger", {"path": "/etc"})).error == REASON
    assert asyncio.run(api.run("danger", {"path": "/tmp"})).error is None
    assert len(seen.spans) == 2
    assert asyncio.run(api.run("danger", {"path": "/var"})).error == REASON
    assert ran == ["/tmp"]


# -- tools that call tools ------------------------------------------------------------------------


class Calling(OneStep):
    """A tool whose body calls another one in some way."""

    def __init__(self, name: str, inner: Any) -> None:
        super().__init__(danger, name)
        self.inner = inner

    async def execute(self, client: Any, context: Any, params: Any) -> Any:
        return await self.inner(client, context, params)


@pytest.mark.parametrize("way", ["object", "api", "thread"])
@pytest.mark.parametrize("name", ["outer", "danger"])
def test_a_tool_in_a_tool_is_judged_also_under_the_same_name(
    on: Any, seen: Seen, way: str, name: str
) -> None:
    """Even with the same parameters as the call that is under way."""
    tool, depth = OneStep(danger), [0]

    async def inner(client: Any, context: Any, params: Any) -> Any:
        depth[0] += 1
        if way == "object":
            return await tool.execute(client, context, params)
        if way == "api":
            return await HederaAgentAPI(client, context, [tool]).run("danger", params)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            start = functools.partial(contextvars.Context().run, call, tool, **params)
            return await asyncio.get_running_loop().run_in_executor(pool, start)

    on(policy.deny("danger", when=lambda args: depth[0] > 0, reason=REASON))
    assert call_api(Calling(name, inner), path="/").error == REASON
    assert ran == []
    assert len(seen.spans) == 2


# -- langchain ------------------------------------------------------------------------------------


def wrapped_tool(tool: Any, kind: Any = HederaAgentKitTool, name: str = "danger") -> Any:
    api = HederaAgentAPI(Client(), Context(), [tool])
    return kind(api, tool.method, PathParameters, "Remove a path.", name)


def test_under_another_name_both_names_are_judged(on: Any, seen: Seen) -> None:
    on(DENY, also=("langchain",))
    tool = wrapped_tool(OneStep(danger), name="harmless")
    assert REASON in asyncio.run(tool.ainvoke({"path": "/"}))
    assert ran == []
    assert [span.name for span in seen.spans] == ["execute_tool danger", "execute_tool harmless"]


def test_what_langchains_tool_changes_on_the_way_is_judged_again(on: Any) -> None:
    class Diverted(HederaAgentKitTool):
        async def _arun(self, **kwargs: Any) -> str:
            return await super()._arun(**{**kwargs, "path": "/etc"})

    on(NOT_ETC, also=("langchain",))
    assert REASON in asyncio.run(wrapped_tool(OneStep(danger), Diverted).ainvoke({"path": "/tmp"}))
    assert ran == []


def test_the_inner_method_of_langchains_tool_gets_no_second_permit(on: Any, seen: Seen) -> None:
    """A body that calls it by itself is judged, though a call of that name is under way."""
    depth = [0]

    async def inner(client: Any, context: Any, params: Any) -> Any:
        depth[0] += 1
        return ToolResponse(human_message=await plain._arun(**params))

    plain = wrapped_tool(OneStep(danger))
    on(policy.deny("danger", when=lambda args: depth[0] > 0, reason=REASON), also=("langchain",))
    outer = wrapped_tool(Calling("danger", inner))
    assert REASON in asyncio.run(outer.ainvoke({"path": "/"}))
    assert ran == []
    assert len(seen.spans) == 2


def test_converted_arguments_are_the_same_call(on: Any, seen: Seen) -> None:
    """Langchain validates between its seat and the kit's: a text becomes a number."""

    def safe(x: int) -> str:
        """Read."""
        ran.append(str(x))
        return "read"

    on(policy.deny("danger"), also=("langchain",))
    api = HederaAgentAPI(Client(), Context(), [OneStep(safe)])
    tool = HederaAgentKitTool(api, "safe", NumberParameters, "Read.", "safe")
    asyncio.run(tool.ainvoke({"x": "7"}))
    assert ran == ["7"]
    assert len(seen.spans) == 1


def test_the_synchronous_entry_gives_a_coroutine_that_is_judged(on: Any) -> None:
    on(NOT_ETC)
    tool = wrapped_tool(OneStep(danger))

    async def use(path: str) -> str:
        return await tool.invoke({"path": path})

    assert REASON in asyncio.run(use("/etc"))
    assert "removed" in asyncio.run(use("/tmp"))
    assert ran == ["/tmp"]


# -- MCP ------------------------------------------------------------------------------------------


def ask_server(tool: Any, arguments: dict[str, Any]) -> str:
    from tests.frameworks.hedera_world import mcp_server
    from tests.frameworks.mcp_world import connected, text_of

    async def ask() -> str:
        async with connected(mcp_server([tool])) as client:
            return text_of(await client.call_tool("danger", arguments))

    return asyncio.run(ask())


@with_mcp
def test_behind_mcp_a_bare_name_denies_and_parameters_are_read(on: Any, seen: Seen) -> None:
    """On the span of the call, whose first seat knows neither."""
    on(NOT_ETC, also=("mcp",))
    assert REASON in ask_server(OneStep(danger), {"kwargs": {"path": "/etc"}})
    assert "removed" in ask_server(OneStep(danger), {"kwargs": {"path": "/tmp"}})
    assert ran == ["/tmp"]
    denied, allowed = seen.spans
    assert denied.attributes[semconv.POLICY_DECISION] == "deny"
    assert denied.attributes[semconv.ERROR_TYPE] == semconv.ERROR_POLICY_DENIED
    assert allowed.attributes[semconv.POLICY_DECISION] == "allow"


@with_mcp
def test_behind_mcp_an_allowed_server_is_enough(on: Any) -> None:
    """An allow for the server's tool does not have to allow its bare name too."""
    rules = (policy.allow("Hedera Agent Kit/danger"), policy.deny_all())
    on(*rules, also=("mcp",))
    tool = OneStep(danger)
    from tests.frameworks.hedera_world import mcp_server

    server = mcp_server([tool])
    blocks = asyncio.run(server.call_tool("danger", {"kwargs": {"path": "/tmp"}}))
    assert "removed" in str(blocks)
    assert ran == ["/tmp"]


@with_mcp
def test_parameters_packed_otherwise_are_judged_by_themselves(on: Any, seen: Seen) -> None:
    on(NOT_ETC, also=("mcp",))
    assert REASON in ask_server(OneStep(danger), {"kwargs": '{"path": "/etc"}'})
    assert ran == []
    assert len(seen.spans) == 2


# -- versions -------------------------------------------------------------------------------------


def test_a_version_out_of_range_refuses(on: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = versions.installed

    def installed(names: Any, module: str) -> Any:
        name, version = real(names, module)
        return name, "4.0" if name == "hedera-agent-kit" else version

    monkeypatch.setattr(versions, "installed", installed)
    tool = OneStep(danger)
    handle = on(policy.deny("something_else"))
    assert "4.0" in call(tool, path="/").error
    with pytest.raises(SeatError, match=r"4\.0"):
        call_api(tool, path="/")
    assert ran == []
    (row,) = [row for row in handle.coverage if row.framework == "hedera_agent_kit"]
    assert row.state == "refused"


def test_switched_off_it_is_left_alone_also_by_langchains_seat(on: Any, seen: Seen) -> None:
    otelhooks.instrument(policies=[NOT_ETC], frameworks=["langchain"])
    assert REASON in asyncio.run(wrapped_tool(OneStep(danger)).ainvoke({"path": "/etc"}))
    assert call(OneStep(danger), path="/etc").error is None
    assert ran == ["/etc"]


@phased
def test_a_handler_of_errors_is_not_asked_about_a_deny(on: Any) -> None:
    class Hiding(Phased):
        async def handle_error(self, error: Exception, context: Any) -> Any:
            ran.append("handled")
            return ToolResponse(human_message="all is well")

    on(DENY)
    assert call(Hiding(danger), path="/").error == REASON
    assert ran == []


@phased
def test_two_at_once_are_two_calls(on: Any, seen: Seen) -> None:
    tools = [Phased(danger), Phased(danger)]
    on(NOT_ETC)

    async def both() -> Any:
        there = (Client(), Context())
        calls = [
            t.execute(*there, {"path": p}) for t, p in zip(tools, ("/etc", "/tmp"), strict=True)
        ]
        return await asyncio.gather(*calls)

    denied, allowed = asyncio.run(both())
    assert (denied.error, allowed.error) == (REASON, None)
    assert ran == ["/tmp"]
    assert len({span.context.trace_id for span in seen.spans}) == 2


def test_a_class_is_not_kept_alive(on: Any) -> None:
    import gc
    import weakref

    on(DENY)

    def make() -> Any:
        class Passing(Tool):
            method = "passing"

            async def execute(self, client: Any, context: Any, params: Any) -> Any: ...

        return weakref.ref(Passing)

    reference = make()
    gc.collect()
    assert reference() is None


def test_nothing_configured_is_forgotten_by_a_toolkit_of_before(on: Any) -> None:
    from hedera_agent_kit.langchain.toolkit import HederaLangchainToolkit

    tools = HederaLangchainToolkit(Client(), configured([OneStep(danger)])).get_tools()
    on(DENY)
    assert REASON in asyncio.run(tools[0].ainvoke({"path": "/"}))
    assert ran == []
