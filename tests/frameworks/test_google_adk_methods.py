"""Ways in which a tool of Google ADK can have its method."""

from __future__ import annotations

import asyncio
import copy
import functools
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("google.adk")

import wrapt
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.base_tool import BaseTool
from google.adk.workflow import Workflow
from google.genai import types

import otelhooks
from otelhooks import policy
from otelhooks.frameworks.google_adk.scripted import APP, converse, runner_of, text_of
from tests.frameworks.contract import ANSWER, REASON, Ask, World
from tests.frameworks.test_google_adk import agent_of
from tests.frameworks.test_google_adk import pytestmark as ignored
from tests.frameworks.test_google_adk_seats import on as instrument
from tests.frameworks.test_google_adk_seats import verdicts

pytestmark = ignored
on = instrument  # a fixture

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


class Tool(BaseTool):
    """Notes that it ran."""

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration(name=self.name)

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        ran.append(self.name)
        return {"done": True}


async def body(tool: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
    ran.append(tool.name)
    return {"done": True}


class Plain(Tool):
    def run_async(self, **given: Any) -> Any:
        return body(self, **given)


class Partial(Tool):
    run_async = functools.partialmethod(body)  # type: ignore[assignment]


class Bound:
    def __get__(self, tool: Any, owner: Any = None) -> Any:
        return functools.partial(body, tool)


class Descriptor(Tool):
    run_async = Bound()  # type: ignore[assignment]


class Property(Tool):
    @property
    def run_async(self) -> Any:
        return functools.partial(body, self)


class Silent:
    def __init_subclass__(cls) -> None:
        """Tell no class above."""


class Unheard(Silent, Tool):
    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        return await body(self, args=args, tool_context=tool_context)


KINDS = [Tool, Plain, Partial, Descriptor, Property, Unheard]


def play(*tools: Any) -> World:
    where = {"path": "/tmp"}
    world = World((Ask("danger", where),), (Ask("safe", where),), ANSWER)
    events = asyncio.run(converse(runner_of(agent_of(world, tools=list(tools))), "begin"))
    assert text_of(events) == ANSWER
    return world


def both(kind: Any) -> list[Any]:
    return [kind(name=name, description="A tool.") for name in ("danger", "safe")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_method_of_any_kind_is_judged_where_an_agent_calls_it(
    on: Any, exporter: Any, kind: Any
) -> None:
    on(policy.deny("danger", reason=REASON))
    world = play(*both(kind))
    if kind is Property:  # it cannot be guarded, so it does not run
        assert ran == []
    else:
        assert ran == ["safe"]
        assert REASON in world.told
        assert verdicts(exporter) == [("danger", "deny"), ("safe", "allow")]


@pytest.mark.parametrize("kind", [Tool, Plain, Partial])
def test_a_method_of_a_class_is_judged_where_a_workflow_or_a_program_calls_it(
    on: Any, kind: Any
) -> None:
    on(policy.deny("danger", reason=REASON))
    tool, _ = both(kind)
    workflow = Workflow(name="flow", edges=[("START", tool)])
    runner = Runner(app_name=APP, node=workflow, session_service=InMemorySessionService())
    events = asyncio.run(converse(runner, ""))
    assert asyncio.run(tool.run_async(args={}, tool_context=None)) == {"error": REASON}
    assert ran == []
    assert REASON in str(events)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("place", ["object", "class"])
def test_a_method_that_is_set_round_another_is_one_call(
    on: Any, exporter: Any, when: str, place: str
) -> None:
    class Kind(Tool):
        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
            return await body(self, args=args, tool_context=tool_context)

    tools = both(Kind)

    def wrap() -> None:
        for owner in tools if place == "object" else [Kind]:
            before = owner.run_async

            async def timed(*args: Any, before: Any = before, **given: Any) -> Any:
                return await before(*args, **given)

            owner.run_async = timed

    if when == "before":
        wrap()
    on(policy.deny("danger", reason=REASON), policy.RateLimit(tool_calls=2))
    if when == "after":
        wrap()
    world = play(*tools)
    assert ran == ["safe"]
    assert REASON in world.told
    assert Counter(verdicts(exporter)) == {("danger", "deny"): 1, ("safe", "allow"): 1}


def test_a_method_that_calls_the_one_it_replaces_with_other_arguments_is_judged_again(
    on: Any, exporter: Any
) -> None:
    on(policy.deny("safe", when=lambda args: args.get("path") == "/", reason=REASON))
    tools = both(Tool)
    for tool in tools:
        before = tool.run_async

        async def other(*, args: Any, tool_context: Any, before: Any = before) -> Any:
            return await before(args={"path": "/"}, tool_context=tool_context)

        tool.run_async = other  # type: ignore[method-assign]
    world = play(*tools)
    assert ran == ["danger"]
    assert REASON in world.told


@pytest.mark.parametrize("place", ["class", "object"])
def test_a_method_that_calls_itself_is_judged_each_time(on: Any, exporter: Any, place: str) -> None:
    class Again(Tool):
        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
            if len(ran) > 9:
                return await super().run_async(args=args, tool_context=tool_context)
            ran.append("safe")
            return await self.run_async(args=args, tool_context=tool_context)

    on(policy.RateLimit(tool_calls=2))
    tool = (Again if place == "class" else Tool)(name="safe", description="A tool.")
    if place == "object":
        tool.run_async = functools.partial(Again.run_async.__wrapped__, tool)  # type: ignore[attr-defined]
    world = World((Ask("safe", {}),), ANSWER)
    asyncio.run(converse(runner_of(agent_of(world, tools=[tool])), "begin"))
    assert ran == ["safe", "safe"]
    assert Counter(verdicts(exporter)) == {("safe", "allow"): 2, ("safe", "deny"): 1}


def test_a_tool_that_was_guarded_late_runs_as_before_without_rules(on: Any, exporter: Any) -> None:
    on(policy.deny("danger", reason=REASON))
    tools = both(Descriptor)
    play(*tools)
    otelhooks.uninstrument()
    exporter.clear()
    play(*tools)
    assert ran == ["safe", "danger", "safe"]
    assert exporter.get_finished_spans() == ()


def test_a_copy_of_a_guarded_tool_is_judged_by_its_own_name(on: Any) -> None:
    on(policy.deny("danger", reason=REASON))
    _, safe = both(Tool)
    safe.run_async = functools.partial(body, safe)
    world = World((Ask("safe", {}),), ANSWER)
    asyncio.run(converse(runner_of(agent_of(world, tools=[safe])), "begin"))
    danger = copy.copy(safe)
    danger.name = "danger"
    world = play(danger, safe)
    assert ran == ["safe", "safe"]
    assert REASON in world.told


def test_a_tool_behind_a_proxy_is_one_call(on: Any, exporter: Any) -> None:
    on(policy.deny("danger", reason=REASON))
    world = play(*map(wrapt.ObjectProxy, both(Tool)))
    assert ran == ["safe"]
    assert REASON in world.told
    assert verdicts(exporter) == [("danger", "deny"), ("safe", "allow")]
