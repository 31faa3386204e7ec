"""Pydantic AI: runs that pause until people have answered, and go on in any process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, Tool, ToolApproved

from otelhooks import approvals
from otelhooks.approvals.questions import Answer
from otelhooks.frameworks.pydantic_ai.scripted import scripted_model
from tests.frameworks.parking import PAUSED, Parking, World, main


def play(world: World, said: str) -> str:
    steps: list[Any] = ["done"]
    is_new = not world.state.exists()
    if is_new:
        steps.insert(0, [("pay", {"amount": world.amount})])
    output = str if said == "cannot pause" else [str, DeferredToolRequests]
    model = scripted_model(lambda shown: steps.pop(0))
    agent: Any = Agent(model, name="worker", tools=[Tool(world.pay)], output_type=output)
    if is_new:
        result = asyncio.run(agent.run("begin"))
    else:
        history = ModelMessagesTypeAdapter.validate_json(world.state.read_bytes())
        [asked] = history[-1].parts
        told = DeferredToolResults(approvals={asked.tool_call_id: said == "yes"})
        result = asyncio.run(agent.run(message_history=history, deferred_tool_results=told))
    if isinstance(result.output, str):
        return result.output
    world.state.write_bytes(result.all_messages_json())
    return PAUSED


class TestParking(Parking):
    play = staticmethod(play)
    module = __name__


# -- the framework's own ways to pause and to go on -----------------------------------------------


def agent_of(world: World, *calls: Any, **options: Any) -> Any:
    """Return an agent whose model makes calls in one message, and is done."""
    steps: list[Any] = [[("pay", args) for args in calls], "done"]
    model = scripted_model(lambda shown: steps.pop(0))
    tools, output = [Tool(world.pay, **options)], [str, DeferredToolRequests]
    return Agent(model, name="worker", tools=tools, output_type=output)


def run(agent: Any, before: Any = None, said: Any = True) -> Any:
    """Begin a run, or go on with one after the application has said the same of all its calls."""
    if before is None:
        return asyncio.run(agent.run("begin"))
    told = {part.tool_call_id: said for part in before.output.approvals}
    return asyncio.run(
        agent.run(
            message_history=before.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals=told),
        )
    )


class TestPydanticAi:
    world, on = Parking.world, Parking.on

    def test_of_two_calls_each_waits_for_its_own_answer(self, on: Any, world: World) -> None:
        agent = agent_of(world, {"amount": 1}, {"amount": 2})
        on()
        paused = run(agent)
        assert len(paused.output.approvals) == len(world.asked()) == 2
        [question] = [one for one in world.asked() if one.facts["args"] == {"amount": 2}]
        world.questions.answer(question, Answer("approved", "u"))
        paused = run(agent, paused)
        assert (len(paused.output.approvals), world.paid) == (1, [2])
        world.answer("rejected")
        assert run(agent, paused).output == "done"
        assert world.paid == [2]

    def test_changed_arguments_are_another_question(self, on: Any, world: World) -> None:
        agent = agent_of(world, {"amount": 5})
        on()
        paused = run(agent)
        world.answer()
        paused = run(agent, paused, ToolApproved(override_args={"amount": 500}))
        assert isinstance(paused.output, DeferredToolRequests)
        assert [one.facts["args"] for one in world.asked()] == [{"amount": 500}]
        assert world.paid == []

    def test_the_applications_own_approvals_come_first(self, on: Any, world: World) -> None:
        agent = agent_of(world, {"amount": 5}, requires_approval=True)
        on()
        paused = run(agent)
        assert world.questions.all() == []
        paused = run(agent, paused)
        assert (len(paused.output.approvals), len(world.asked())) == (1, 1)
        world.answer()
        assert run(agent, paused).output == "done"
        assert world.paid == [5]

    def test_people_can_be_asked_in_place(self, on: Any, world: World) -> None:
        on(frameworks={"pydantic_ai": {"approvals": "in_place"}}, approval_timeout=0.3)
        assert run(agent_of(world, {"amount": 5})).output == "done"
        [question] = world.questions.all()
        assert (question.parked, world.paid) == ("", [])

    def test_without_parking_the_frameworks_users_answer(self, on: Any, world: World) -> None:
        agent = agent_of(world, {"amount": 5})
        on(approvals=approvals.Queue(world.folder / "questions.db"))
        assert run(agent, run(agent)).output == "done"
        assert (world.questions.all(), world.paid) == ([], [5])


if __name__ == "__main__":
    main(play)
