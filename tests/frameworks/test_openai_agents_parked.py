"""OpenAI Agents SDK: runs that pause until people have answered, and go on in any process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("agents")

import agents
from agents.tool_context import ToolContext

from otelhooks.approvals.questions import Answer
from otelhooks.frameworks.openai_agents.scripted import ScriptedModel
from tests.frameworks.parking import PAUSED, Parking, World, main


async def aplay(world: World, said: str) -> str:
    steps: list[Any] = ["done"]
    is_new = not world.state.exists()
    if is_new:
        steps.insert(0, [("pay", {"amount": world.amount})])
    model, tool = ScriptedModel(lambda shown: steps.pop(0)), agents.function_tool(world.pay)
    if said == "cannot pause":  # the application calls it itself
        about = {"tool_name": "pay", "tool_call_id": "call_1", "tool_arguments": ""}
        context = ToolContext(context=None, **about)
        return str(await tool.on_invoke_tool(context, json.dumps({"amount": world.amount})))
    agent = agents.Agent(name="worker", model=model, tools=[tool])
    given: Any = "begin"
    if not is_new:
        given = await agents.RunState.from_json(agent, json.loads(world.state.read_text()))
        [item] = given.get_interruptions()
        {"yes": given.approve, "no": given.reject, "nothing": id}[said](item)
    config = agents.RunConfig(tracing_disabled=True)
    result = await agents.Runner.run(agent, given, run_config=config)
    if not result.interruptions:
        return str(result.final_output)
    world.state.write_text(json.dumps(result.to_state().to_json()))
    return PAUSED


def play(world: World, said: str) -> str:
    return asyncio.run(aplay(world, said))


class TestParking(Parking):
    play = staticmethod(play)
    module = __name__


# -- the SDK's own ways to pause and to go on -----------------------------------------------------

CONFIG = agents.RunConfig(tracing_disabled=True)


def agent_of(world: World, *calls: Any, **options: Any) -> Any:
    """Return an agent whose model makes calls in one message, and is done."""
    steps: list[Any] = [[("pay", args) for args in calls], "done"]
    tool = agents.function_tool(world.pay, **options)
    model = ScriptedModel(lambda shown: steps.pop(0))
    return agents.Agent(name="worker", model=model, tools=[tool])


def run(agent: Any, given: Any = "begin") -> Any:
    return asyncio.run(agents.Runner.run(agent, given, run_config=CONFIG))


def resumed(agent: Any, paused: Any, *, always: bool = False) -> Any:
    """Go on with a run after the application has approved everything."""
    state = paused.to_state()
    for item in state.get_interruptions():
        state.approve(item, always_approve=always)
    return run(agent, state)


class TestSDK:
    world, on = Parking.world, Parking.on

    def test_of_two_calls_each_waits_for_its_own_answer(self, on: Any, world: World) -> None:
        agent = agent_of(world, {"amount": 1}, {"amount": 2})
        on()
        paused = run(agent)
        assert len(paused.interruptions) == len(world.asked()) == 2
        [question] = [one for one in world.asked() if one.facts["args"] == {"amount": 2}]
        world.questions.answer(question, Answer("approved", "u"))
        paused = resumed(agent, paused)
        assert (len(paused.interruptions), world.paid) == (1, [2])
        world.answer("rejected")
        assert resumed(agent, paused).final_output == "done"
        assert world.paid == [2]

    def test_an_approval_for_always_is_not_the_queues(self, on: Any, world: World) -> None:
        agent = agent_of(world, {"amount": 5})
        on()
        paused = resumed(agent, run(agent), always=True)
        assert paused.interruptions
        world.answer()
        assert resumed(agent, paused).final_output == "done"
        assert world.paid == [5]

    def test_the_applications_own_approvals_come_first(self, on: Any, world: World) -> None:
        agent = agent_of(world, {"amount": 5}, needs_approval=True)
        on()
        paused = run(agent)
        assert world.questions.all() == []
        paused = resumed(agent, paused)
        assert (len(paused.interruptions), len(world.asked())) == (1, 1)
        world.answer()
        assert resumed(agent, paused).final_output == "done"
        assert world.paid == [5]

    @pytest.mark.skipif(not hasattr(agents, "tool_namespace"), reason="there are no namespaces")
    def test_a_tool_in_a_namespace_goes_on_as_any_other(self, on: Any, world: World) -> None:
        class Model(ScriptedModel):
            def answer(self, shown: Any) -> Any:
                made = super().answer(shown)
                for asked in made.output:
                    if asked.type == "function_call":
                        asked.namespace = "bank"
                return made

        steps: list[Any] = [[("pay", {"amount": 5})], "done"]
        bank = {"name": "bank", "description": "A bank."}
        tools = agents.tool_namespace(**bank, tools=[agents.function_tool(world.pay)])
        agent = agents.Agent(name="a", model=Model(lambda shown: steps.pop(0)), tools=tools)
        on()
        paused = run(agent)
        assert [item.tool_namespace for item in paused.interruptions] == ["bank"]
        world.answer()
        assert resumed(agent, paused).final_output == "done"
        assert world.paid == [5]

    def test_a_streamed_run_pauses_as_well(self, on: Any, world: World) -> None:
        async def streamed(given: Any) -> Any:
            result = agents.Runner.run_streamed(agent, given, run_config=CONFIG)
            async for _ in result.stream_events():
                pass
            return result

        async def both() -> Any:
            paused = await streamed("begin")
            assert len(paused.interruptions) == 1
            world.answer()
            state = paused.to_state()
            state.approve(paused.interruptions[0])
            return await streamed(state)

        agent = agent_of(world, {"amount": 5})
        on()
        assert asyncio.run(both()).final_output == "done"
        assert world.paid == [5]

    def test_an_agent_that_is_a_tool_pauses_the_outer_run(self, on: Any, world: World) -> None:
        inner = agent_of(world, {"amount": 5}).as_tool("ask_inner", "Ask.")
        steps: list[Any] = [[("ask_inner", {"input": "go"})], "outer done"]
        model = ScriptedModel(lambda shown: steps.pop(0))
        outer = agents.Agent(name="outer", model=model, tools=[inner])
        on()
        paused = run(outer)
        assert len(paused.interruptions) == len(world.asked()) == 1
        world.answer()
        assert resumed(outer, paused).final_output == "outer done"
        assert world.paid == [5]

    def test_a_tool_that_a_tool_calls_waits(self, on: Any, world: World) -> None:
        """Its exception would end in the outer tool's own code."""
        pay = agents.function_tool(world.pay)

        async def outer(context: ToolContext[Any]) -> str:
            """Pay through another tool."""
            return str(await pay.on_invoke_tool(context, '{"amount": 5}'))

        steps: list[Any] = [[("outer", {})], "done"]
        model = ScriptedModel(lambda shown: steps.pop(0))
        agent = agents.Agent(name="a", model=model, tools=[agents.function_tool(outer)])
        on(approval_timeout=0.3)
        assert run(agent).final_output == "done"
        [question] = world.questions.all()
        assert (question.parked, world.paid) == ("", [])

    def test_changed_arguments_do_not_run(self, on: Any, world: World) -> None:
        agent = agent_of(world, {"amount": 5})
        on()
        paused = run(agent)
        world.answer()
        text = json.dumps(paused.to_state().to_json())
        changed = text.replace('\\"amount\\": 5', '\\"amount\\": 500')
        assert changed != text

        async def go_on() -> Any:
            state = await agents.RunState.from_json(agent, json.loads(changed))
            state.approve(state.get_interruptions()[0])
            return await agents.Runner.run(agent, state, run_config=CONFIG)

        try:
            assert asyncio.run(go_on()).interruptions
        except agents.exceptions.AgentsException:
            pass  # newer releases find out themselves
        assert world.paid == []

    def test_without_parking_the_run_does_not_pause(self, on: Any, world: World) -> None:
        on(approvals=lambda call: True)
        assert run(agent_of(world, {"amount": 5})).final_output == "done"
        assert world.paid == [5]


if __name__ == "__main__":
    main(play)
