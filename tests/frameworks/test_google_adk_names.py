"""Google ADK: rules for a tool that a toolset shows to the model under a prefix."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from otelhooks import policy
from otelhooks.frameworks.google_adk.scripted import converse, runner_of, scripted_model
from otelhooks.records import semconv
from tests.frameworks.contract import World
from tests.frameworks.test_google_adk import agent_of
from tests.frameworks.test_google_adk import pytestmark as ignored
from tests.frameworks.test_google_adk_seats import on  # noqa: F401  # fixture

pytestmark = ignored


class Named(BaseTool):
    """A tool that is not a function."""

    def __init__(self, ran: list[Any]) -> None:
        super().__init__(name="kill", description="Kill x.")
        self.ran = ran

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
        return types.FunctionDeclaration(name=self.name, parameters_json_schema=schema)

    async def run_async(self, *, args: Any, tool_context: Any) -> str:
        self.ran.append(args["x"])
        return "killed"


def function(ran: list[Any]) -> Any:
    def kill(x: int) -> str:
        """Kill x."""
        ran.append(x)
        return "killed"

    return FunctionTool(kill)


class Toolset(BaseToolset):
    """A toolset of a tool, or of the tools of another one."""

    def __init__(self, prefix: str, *tools: Any) -> None:
        super().__init__(tool_name_prefix=prefix)
        self.tools = tools

    async def get_tools(self, readonly_context: Any = None) -> Any:
        found: list[Any] = []
        for one in self.tools:
            is_set = isinstance(one, BaseToolset)
            found += await one.get_tools_with_prefix(readonly_context) if is_set else [one]
        return found

    async def close(self) -> None:
        """Release nothing."""


NAMES: list[Any] = [
    ("p_kill", lambda tool: Toolset("p", tool)),
    ("p_q_kill", lambda tool: Toolset("p", Toolset("q", tool))),
]


@pytest.fixture(params=[Named, function])
def play(request: Any) -> Any:
    """Return what runs a tool through an agent, under a name, and returns what ran."""

    def played(shown: str, make: Any) -> list[Any]:
        ran: list[Any] = []
        steps: list[Any] = [[(shown, {"x": 1})], "done"]
        agent = agent_of(World(), tools=[make(request.param(ran))])
        agent.model = scripted_model(lambda _: steps.pop(0))
        asyncio.run(converse(runner_of(agent), "begin"))
        return ran

    return played


@pytest.mark.parametrize(("shown", "make"), NAMES)
def test_a_deny_holds_for_the_name_that_a_tool_has_without_its_prefix(on, play, shown, make):  # noqa: F811
    on(policy.allow(shown), policy.deny("kill"))
    assert play(shown, make) == []


@pytest.mark.parametrize(("shown", "make"), NAMES)
def test_rules_for_the_name_with_the_prefix_hold(on, play, shown, make):  # noqa: F811
    handle = on(policy.deny(shown))
    assert play(shown, make) == []
    handle.replace(policies=[policy.deny_all(), policy.allow(shown)])
    assert play(shown, make) == [1]


@pytest.mark.parametrize("closed", ["*", "p_*"])
@pytest.mark.parametrize(("shown", "make"), NAMES)
def test_an_allow_for_the_name_without_the_prefix_opens_nothing(on, play, shown, make, closed):  # noqa: F811
    on(policy.deny(closed), policy.allow("kill"))
    assert play(shown, make) == []


def test_a_span_has_every_name_of_a_tool(on, play, exporter):  # noqa: F811
    on()
    play(*NAMES[1])
    found = [span.attributes.get(semconv.TOOL_CANONICAL) for span in exporter.get_finished_spans()]
    assert [set(names) for names in found if names] == [{"p_q_kill", "q_kill", "kill"}]
