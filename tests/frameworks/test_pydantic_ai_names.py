"""Pydantic AI: rules for a tool whose toolset shows it to the model under another name."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import CombinedToolset, FunctionToolset

import otelhooks
from otelhooks import policy, types
from otelhooks.frameworks.pydantic_ai.scripted import scripted_model
from otelhooks.records import semconv

Make = Callable[[Any], Any]

NAMES: list[tuple[str, Make]] = [
    ("p_kill", lambda tools: FunctionToolset(tools).prefixed("p")),
    ("p_q_kill", lambda tools: FunctionToolset(tools).prefixed("q").prefixed("p")),
    ("zap", lambda tools: FunctionToolset(tools).renamed({"zap": "kill"})),
    ("p_zap", lambda tools: FunctionToolset(tools).renamed({"zap": "kill"}).prefixed("p")),
    ("p_kill", lambda tools: CombinedToolset([FunctionToolset(tools).prefixed("p")])),
    (
        "zap",
        lambda tools: FunctionToolset(
            [Tool(one, prepare=_called_zap) for one in tools if one.__name__ == "kill"]
        ),
    ),
]


async def _called_zap(context: Any, definition: Any) -> Any:
    return dataclasses.replace(definition, name="zap")


@pytest.fixture
def instrument(tracer_provider: Any, meter_provider: Any) -> Any:
    def start(*rules: Any, **settings: Any) -> Any:
        return otelhooks.instrument(
            policies=rules,
            frameworks=["pydantic_ai"],
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            **settings,
        )

    return start


def play(shown: str, make: Make) -> tuple[list[int], str]:
    """Return what ran when a model called the tool by a name, and all that it read."""
    ran: list[int] = []
    read: list[str] = []
    steps: list[Any] = [[(shown, {"x": 1})], "done"]

    def kill(x: int) -> str:
        """Kill x."""
        ran.append(x)
        return "killed"

    def step(said: str) -> Any:
        read.append(said)
        return steps.pop(0)

    agent = Agent(scripted_model(step), name="worker", toolsets=[make([kill])])
    asyncio.run(agent.run("begin"))
    return ran, read[-1]


@pytest.mark.parametrize(("shown", "make"), NAMES)
def test_a_deny_holds_for_the_name_that_a_tool_was_defined_with(
    shown: str, make: Make, instrument: Any
) -> None:
    instrument(policy.allow(shown), policy.deny("kill", reason="No."))
    ran, read = play(shown, make)
    assert (ran, "No." in read) == ([], True)


@pytest.mark.parametrize(("shown", "make"), NAMES)
def test_a_question_about_the_name_that_a_tool_was_defined_with_is_put(
    shown: str, make: Make, instrument: Any
) -> None:
    asked: list[str] = []

    def handler(call: types.ToolCall) -> bool:
        asked.append(call.name)
        return False

    instrument(policy.ask_user("kill", handler))
    assert (play(shown, make)[0], asked) == ([], [shown])


@pytest.mark.parametrize(("shown", "make"), NAMES)
def test_rules_for_the_name_that_the_model_sees_hold(
    shown: str, make: Make, instrument: Any
) -> None:
    instrument(policy.deny(shown))
    assert play(shown, make)[0] == []
    otelhooks.uninstrument()
    instrument(policy.deny_all(), policy.allow(shown))
    assert play(shown, make)[0] == [1]


@pytest.mark.parametrize(("shown", "make"), NAMES)
@pytest.mark.parametrize("closed", ["*", "[pz]*"])
def test_an_allow_for_the_name_that_a_tool_was_defined_with_opens_nothing(
    closed: str, shown: str, make: Make, instrument: Any
) -> None:
    instrument(policy.deny(closed), policy.allow("kill"))
    assert play(shown, make)[0] == []


def test_a_name_between_that_of_the_tool_and_that_of_the_model_counts(instrument: Any) -> None:
    instrument(policy.deny("zap"))
    assert play(*NAMES[3])[0] == []


def test_a_tool_is_hidden_by_the_name_that_it_was_defined_with(
    instrument: Any, exporter: Any
) -> None:
    offered: list[list[str]] = []

    def kill(x: int) -> str:
        raise AssertionError

    model = scripted_model(lambda said: "done")
    answer = model.function

    def note(messages: Any, info: Any) -> Any:
        offered.append([tool.name for tool in info.function_tools])
        return answer(messages, info)  # type: ignore[misc]

    model.function = note
    instrument(policy.hide("kill"))
    asyncio.run(Agent(model, toolsets=[FunctionToolset([kill]).prefixed("p")]).run("begin"))
    assert offered == [[]]


def test_a_span_has_every_name_of_a_tool(instrument: Any, exporter: Any) -> None:
    instrument()
    play(*NAMES[3])
    (span,) = [s for s in exporter.get_finished_spans() if semconv.GEN_AI_TOOL_NAME in s.attributes]
    assert span.attributes[semconv.GEN_AI_TOOL_NAME] == "p_zap"
    assert set(span.attributes[semconv.TOOL_CANONICAL]) == {"p_zap", "zap", "kill"}


def test_a_tool_under_its_own_name_has_no_other(instrument: Any, exporter: Any) -> None:
    instrument()
    play("kill", FunctionToolset)
    (span,) = [s for s in exporter.get_finished_spans() if semconv.GEN_AI_TOOL_NAME in s.attributes]
    assert semconv.TOOL_CANONICAL not in span.attributes
