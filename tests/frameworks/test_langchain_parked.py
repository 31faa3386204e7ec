"""langgraph: runs that pause until people have answered, and go on in any process."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

pytest.importorskip("langgraph")

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from otelhooks.approvals.questions import Answer
from otelhooks.frameworks.langchain.scripted import ScriptedModel
from tests.frameworks.parking import PAUSED, Parking, World, main

THREAD: Any = {"configurable": {"thread_id": "t-1"}}


def saved(world: World) -> InMemorySaver:
    """Return a saver with what the file has; langgraph's own with a file are further packages."""
    saver = InMemorySaver()
    if world.state.exists():
        storage, saver.writes_, blobs = pickle.loads(world.state.read_bytes())
        for thread, spaces in storage.items():
            for space, kept in spaces.items():
                saver.storage[thread][space].update(kept)
        for key, kept in saver.writes_.items():
            saver.writes[key].update(kept)
        saver.blobs.update(blobs)
    return saver


def keep(world: World, saver: InMemorySaver) -> None:
    storage = {thread: {**spaces} for thread, spaces in saver.storage.items()}
    kept = (storage, {**saver.writes}, {**saver.blobs})
    world.state.write_bytes(pickle.dumps(kept))


def play(world: World, said: str) -> str:
    steps: list[Any] = ["done"]
    is_new = not world.state.exists()
    if is_new:
        steps.insert(0, [("pay", {"amount": world.amount})])
    saver = saved(world) if said != "cannot pause" else None
    tool = StructuredTool.from_function(world.pay)
    model = ScriptedModel(next_step=lambda shown: steps.pop(0))
    graph = create_agent(model, [tool], checkpointer=saver)
    given: Any = {"messages": [("user", "begin")]}
    if not is_new:
        given = None if said == "nothing" else Command(resume=said == "yes")
    state = graph.invoke(given, THREAD)
    if saver is not None:
        keep(world, saver)
    return PAUSED if "__interrupt__" in state else str(state["messages"][-1].content)


class TestParking(Parking):
    play = staticmethod(play)
    module = __name__
    can_refuse = False


# -- langgraph's own ways to pause and to go on ---------------------------------------------------


def answer_of(state: Any) -> str:
    return PAUSED if "__interrupt__" in state else str(state["messages"][-1].content)


def agent(tool: Any, *calls: Any, name: str = "pay") -> Any:
    """Return an agent whose model makes calls in one message, and is done."""
    steps: list[Any] = [[(name, args) for args in calls], "done"]
    model = ScriptedModel(next_step=lambda shown: steps.pop(0))
    return create_agent(model, [StructuredTool.from_function(tool)], checkpointer=InMemorySaver())


BEGIN: Any = {"messages": [("user", "begin")]}


class TestLanggraph:
    world, on = Parking.world, Parking.on

    @pytest.mark.parametrize("by_id", [False, True])
    @pytest.mark.parametrize("early", [0, 2])
    def test_a_tools_own_interrupt_gets_no_value_of_another_pause(
        self, on: Any, world: World, by_id: bool, early: int
    ) -> None:
        """What the application says to our question does not answer the tool's."""
        said: list[Any] = []

        def pay(amount: int) -> str:
            """Pay."""
            said.append(interrupt("really?"))
            return world.pay(amount)

        def resume(value: str) -> Any:
            [pause] = state["__interrupt__"]
            return graph.invoke(Command(resume={pause.id: value} if by_id else value), THREAD)

        graph = agent(pay, {"amount": 5})
        on()
        state = graph.invoke(BEGIN, THREAD)
        for _ in range(early):
            state = resume("too early")
        world.answer()
        state = resume("ours")
        assert [each.value for each in state["__interrupt__"]] == ["really?"]
        assert said == []
        while answer_of(state) == PAUSED:
            state = resume("the tool's")
        assert (said, world.paid) == (["the tool's"], [5])
        assert len(world.questions.all()) == 1

    def test_an_interrupt_before_the_call_keeps_its_value(self, on: Any, world: World) -> None:
        said: list[Any] = []

        def node(state: Any) -> Any:
            said.append(interrupt("may I?"))
            call = {"name": "pay", "args": {"amount": 5}, "id": "call_1", "type": "tool_call"}
            return {"messages": [StructuredTool.from_function(world.pay).invoke(call)]}

        made = StateGraph(MessagesState).add_node(node).add_edge(START, "node")
        graph = made.compile(checkpointer=InMemorySaver())
        on()
        graph.invoke(BEGIN, THREAD)
        for by_id in (False, True):
            [pause] = graph.invoke(Command(resume="you may"), THREAD)["__interrupt__"]
            assert pause.value["otelhooks"]["tool"] == "pay"
            resume = {pause.id: "go"} if by_id else "go"
            state = graph.invoke(Command(resume=resume), THREAD)
            assert answer_of(state) == PAUSED
        world.answer()
        assert answer_of(graph.invoke(Command(resume="go"), THREAD)) == "paid 5"
        assert {*said} == {"you may"}
        assert world.paid == [5]

    def test_of_two_calls_each_waits_for_its_own_answer(self, on: Any, world: World) -> None:
        graph = agent(world.pay, {"amount": 1}, {"amount": 2})
        on()
        state = graph.invoke(BEGIN, THREAD)
        pauses = state["__interrupt__"]
        assert len(pauses) == len(world.asked()) == 2
        [question] = [one for one in world.asked() if one.facts["args"] == {"amount": 2}]
        world.questions.answer(question, Answer("approved", "u"))
        yes = Command(resume={pause.id: True for pause in pauses})
        assert answer_of(graph.invoke(yes, THREAD)) == PAUSED
        assert world.paid == [2]
        world.answer("rejected")
        assert answer_of(graph.invoke(yes, THREAD)) == "done"
        assert world.paid == [2]

    def test_changed_arguments_are_another_question(self, on: Any, world: World) -> None:
        graph = agent(world.pay, {"amount": 5})
        on()
        graph.invoke(BEGIN, THREAD)
        world.answer()
        last = graph.get_state(THREAD).values["messages"][-1]
        calls = [{**last.tool_calls[0], "args": {"amount": 500}}]
        changed = {"messages": [last.model_copy(update={"tool_calls": calls})]}
        graph.update_state(THREAD, changed, as_node="model")
        assert answer_of(graph.invoke(None, THREAD)) == PAUSED
        assert [one.facts["args"] for one in world.asked()] == [{"amount": 500}]
        assert world.paid == []

    def test_another_thread_does_not_take_the_answer(self, on: Any, world: World) -> None:
        def begun(thread: str) -> str:
            call: Any = {"name": "pay", "args": {"amount": 5}, "id": "call_1", "type": "tool_call"}
            made = StateGraph(MessagesState).add_node("node", lambda state: tool.invoke(call))
            graph = made.add_edge(START, "node").compile(checkpointer=InMemorySaver())
            return answer_of(graph.invoke(BEGIN, {"configurable": {"thread_id": thread}}))

        tool = StructuredTool.from_function(world.pay)
        on()
        assert begun("one") == PAUSED
        world.answer()
        assert begun("two") == PAUSED
        assert world.paid == []

    def test_an_agent_inside_a_tool_pauses_the_outer_graph(self, on: Any, world: World) -> None:
        inner_steps: list[Any] = [[("pay", {"amount": 5})], "inner done"]
        pay = StructuredTool.from_function(world.pay)
        inner = create_agent(ScriptedModel(next_step=lambda _: inner_steps.pop(0)), [pay])

        def ask_inner() -> str:
            """Ask an agent."""
            return answer_of(inner.invoke(BEGIN))

        steps: list[Any] = [[("ask_inner", {})], "done"]
        tool = StructuredTool.from_function(ask_inner)
        model = ScriptedModel(next_step=lambda _: steps.pop(0))
        outer = create_agent(model, [tool], checkpointer=InMemorySaver())
        on()
        assert answer_of(outer.invoke(BEGIN, THREAD)) == PAUSED
        assert answer_of(outer.invoke(Command(resume=True), THREAD)) == PAUSED
        world.answer()
        state = outer.invoke(Command(resume=True), THREAD)
        assert (answer_of(state), world.paid) == ("done", [5])
        assert "inner done" in [str(message.content) for message in state["messages"]]

    def test_coroutines_and_streams_pause_as_well(self, on: Any, world: World) -> None:
        async def pay(amount: int) -> str:
            """Pay."""
            return world.pay(amount)

        steps: list[Any] = [[("pay", {"amount": 5})], "done"]
        tool = StructuredTool.from_function(coroutine=pay)
        model = ScriptedModel(next_step=lambda shown: steps.pop(0))
        graph = create_agent(model, [tool], checkpointer=InMemorySaver())

        async def last(given: Any) -> Any:
            modes = ["values", "updates"]
            found = [part async for part in graph.astream(given, THREAD, stream_mode=modes)]
            return [part for mode, part in found if mode == "values"][-1]

        on()
        state = asyncio.run(last(BEGIN))
        assert graph.get_state(THREAD).next
        world.answer()
        state = asyncio.run(last(Command(resume=True)))
        assert (answer_of(state), world.paid) == ("done", [5])

    def test_without_parking_the_graph_is_not_paused(self, on: Any, world: World) -> None:
        graph = agent(world.pay, {"amount": 5})
        on(approvals=lambda call: True)
        assert answer_of(graph.invoke(BEGIN, THREAD)) == "done"
        assert world.paid == [5]


if __name__ == "__main__":
    main(play)
