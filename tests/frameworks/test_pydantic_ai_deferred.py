"""Pydantic AI: calls that the application makes, toolsets of its own, and what models read later.

The class: a way to a body that passes no verdict, or a text that a hook did not see or took back.
"""

# ruff: noqa: F811  # the fixture is imported by name

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from fastmcp.client.transports import StdioTransport
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import BinaryContent, ToolReturn
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, Tool, ToolDefinition
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset, WrapperToolset

from otelhooks import hooks, policy, types
from otelhooks.frameworks import pydantic_ai as adapter
from otelhooks.records import semconv
from tests.frameworks.test_pydantic_ai_seats import (
    Script,
    agent_of,
    instrument,  # noqa: F401  # a fixture
    tool_spans,
)

# -- calls that the application makes ----------------------------------------------------------

MALLORY, BOB = {"to": "mallory"}, {"to": "bob"}


def external(*names: str) -> Any:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    return ExternalToolset([ToolDefinition(name=n, parameters_json_schema=schema) for n in names])


def paying(*steps: Any, **settings: Any) -> tuple[Script, Any]:
    script, output = Script(*steps), [str, DeferredToolRequests]
    tools = [external("pay", "look")]
    return script, agent_of(script, toolsets=tools, output_type=output, **settings)


def decisions(exporter: Any) -> list[Any]:
    spans = [span for span in tool_spans(exporter) if span.name.startswith("execute_tool")]
    return [span.attributes.get(semconv.POLICY_DECISION) for span in spans]


def test_the_application_is_not_told_of_a_denied_call(instrument: Any, exporter: Any) -> None:
    script, agent = paying(("pay", MALLORY), "done")
    instrument(policy.deny("pay", reason="Not that."))
    assert asyncio.run(agent.run("begin")).output == "done"
    assert "Not that." in script.shown[-1]
    assert decisions(exporter) == ["deny"]


def test_a_capability_that_makes_calls_is_not_told_of_a_denied_one(instrument: Any) -> None:
    made: list[str] = []

    def make(context: Any, requests: Any) -> Any:
        made.extend(call.tool_name for call in requests.calls)
        return DeferredToolResults(calls={call.tool_call_id: "made" for call in requests.calls})

    capabilities = [HandleDeferredToolCalls(make)]
    script, agent = paying(("pay", MALLORY), ("look", BOB), "done", capabilities=capabilities)
    instrument(policy.deny("pay", reason="Not that."))
    assert asyncio.run(agent.run("begin")).output == "done"
    assert made == ["look"]
    assert "Not that." in script.shown[-1]


@pytest.mark.parametrize("approves", [True, False])
def test_a_person_is_asked_before_the_application_makes_a_call(
    instrument: Any, exporter: Any, approves: bool
) -> None:
    asked: list[Any] = []

    def approve(call: types.ToolCall) -> bool:
        asked.append(dict(call.args))
        return approves

    _, agent = paying(("pay", BOB), "done")
    instrument(policy.ask_user("pay", handler=approve))

    async def both() -> Any:
        result = await agent.run("begin")
        if not approves:
            return result
        (call,) = result.output.calls
        made = DeferredToolResults(calls={call.tool_call_id: "paid"})
        return await agent.run(message_history=result.all_messages(), deferred_tool_results=made)

    assert asyncio.run(both()).output == "done"
    assert asked == [BOB]
    assert decisions(exporter) == ["ask"]


def test_the_application_makes_a_call_with_the_arguments_that_hooks_wrote(
    instrument: Any,
) -> None:
    @hooks.pre_tool_call_decide
    def change(call: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args=BOB)

    _, agent = paying(("pay", MALLORY), "done")
    instrument(hooks=[change])
    (call,) = asyncio.run(agent.run("begin")).output.calls
    assert call.args_as_dict() == BOB


def test_a_call_that_cannot_be_read_runs_where_nothing_decides(
    instrument: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError("unreadable")

    monkeypatch.setattr(adapter.ExternalCall, "of", fail)
    _, agent = paying(("pay", BOB), "done")
    instrument()
    (call,) = asyncio.run(agent.run("begin")).output.calls
    assert call.args_as_dict() == BOB


def test_a_tool_that_puts_its_own_call_off_is_judged_once(instrument: Any, exporter: Any) -> None:
    from pydantic_ai.exceptions import CallDeferred

    def pay(to: str) -> str:
        raise CallDeferred

    instrument(policy.allow("pay"))
    script, output = Script(("pay", BOB), "done"), [str, DeferredToolRequests]
    agent = agent_of(script, Tool(pay), output_type=output)
    assert len(asyncio.run(agent.run("begin")).output.calls) == 1
    assert decisions(exporter) == ["allow"]


# -- toolsets that override a call -------------------------------------------------------------


class Changing(WrapperToolset):
    """Passes a call on twice, the second time with other arguments."""

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        await self.wrapped.call_tool(name, tool_args, ctx, tool)
        return await self.wrapped.call_tool(name, MALLORY, ctx, tool)


class Passing(FunctionToolset):
    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        return await super().call_tool(name, tool_args, ctx, tool)


class Replacing(FunctionToolset):
    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        return await super().call_tool(name, MALLORY, ctx, tool)


@pytest.mark.parametrize(
    ("make", "runs", "verdicts"),
    [
        (lambda tools: Changing(FunctionToolset(tools)), ["bob"], 2),
        (Passing, ["bob"], 1),
        (Replacing, [], 2),
    ],
    ids=["a wrapper that changes", "a subclass that passes on", "a subclass that changes"],
)
def test_what_a_toolset_makes_of_a_call_is_judged_once_if_it_is_the_same(
    instrument: Any, exporter: Any, make: Any, runs: list[str], verdicts: int
) -> None:
    ran: list[str] = []

    def pay(to: str) -> str:
        ran.append(to)
        return "paid"

    instrument(policy.deny("pay", when=lambda args: args["to"] == "mallory", reason="No."))
    script = Script(("pay", BOB), "done")
    asyncio.run(agent_of(script, toolsets=[make([pay])]).run("begin"))
    assert ran == runs
    assert len(decisions(exporter)) == verdicts


# -- what models read --------------------------------------------------------------------------


@hooks.post_tool_call_transform
def redact(result: types.ToolResult) -> Any:
    text = str(result.result)
    return text.replace("secret", "[redacted]") if "secret" in text else None


@hooks.post_tool_call_transform
def withhold(result: types.ToolResult) -> types.HookResult:
    return types.HookResult(allow=False, message="not for you")


@pytest.mark.parametrize("hook", [redact, withhold])
@pytest.mark.parametrize(
    "content",
    ["secret", ["other", "secret"], ["secret", BinaryContent(b"0", media_type="image/png")]],
    ids=["a text", "texts", "a text and an image"],
)
def test_hooks_see_what_a_tool_says_beside_its_value(
    instrument: Any, hook: Any, content: Any
) -> None:
    instrument(hooks=[hook])
    script = Script(("fetch", {}), "done")
    tool = Tool(lambda: ToolReturn("fine", content=content), name="fetch")
    asyncio.run(agent_of(script, tool).run("begin"))
    assert "secret" not in script.shown[-1]
    assert "image/png" not in script.shown[-1]


@pytest.mark.parametrize("is_withheld", [True, False])
@pytest.mark.parametrize("of_tool", [True, False])
@pytest.mark.parametrize("how", ["run", "iter"])
def test_an_answer_that_was_replaced_is_in_no_history(
    instrument: Any, is_withheld: bool, of_tool: bool, how: str
) -> None:
    """The next run that goes on from the history would read it."""
    from pydantic_ai.output import ToolOutput

    @hooks.post_agent_transform
    def replace(response: Any) -> Any:
        return types.HookResult(allow=False, message="nothing") if is_withheld else "nothing"

    def make(text: str) -> str:
        return text

    instrument(hooks=[replace])
    if of_tool:
        script = Script(("make", {"text": "the secret"}))
        agent = agent_of(script, output_type=ToolOutput(make, name="make"))
    else:
        agent = agent_of(Script("the secret"))

    async def run() -> Any:
        if how == "run":
            return await agent.run("begin"), None
        async with agent.iter("begin") as opened:
            async for _ in opened:
                pass
        return opened.result, opened

    result, opened = asyncio.run(run())
    assert result.output == "nothing"
    for of in filter(None, (result, opened)):
        assert "secret" not in repr(of.all_messages())
        assert "secret" not in repr(of.new_messages())
    assert of_tool or "nothing" in repr(result.all_messages())


# -- servers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["files", "fs"])
@pytest.mark.parametrize("also", [[], ["mcp"]])
def test_rules_know_a_server_by_its_configured_name_too(
    with_rules: Any, tmp_path: Path, name: str, also: list[str]
) -> None:
    """``mcp_servers=`` names it by what it connects to, whatever the toolset's id is."""
    from tests.frameworks.mcp_world import SERVER

    ran = tmp_path / "ran"
    ran.write_text("")
    command: Any = {"command": sys.executable, "args": [SERVER, "anything", str(ran)]}
    server = types.McpStdioServer(name="files", **command)
    rules = policy.deny(f"{name}/danger", reason="No."), policy.allow("files/safe")
    all_of = [*rules, policy.deny_all()]
    with_rules(*all_of, frameworks=["pydantic_ai", *also], mcp_servers=[server])
    toolset: Any = MCPToolset(StdioTransport(**command), id="fs")
    script = Script(("danger", {"path": "/etc"}), ("safe", {"x": 1}), "done")
    asyncio.run(agent_of(script, toolsets=[toolset]).run("begin"))
    assert "No." in script.shown[1]
    assert ran.read_text() == "safe\n"
