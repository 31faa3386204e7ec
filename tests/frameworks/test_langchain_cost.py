"""Gates on counts: what the langchain adapter may do for a tool call, whatever the machine's speed.

Times are in `make bench`. A run here is as many tool calls as asked for, each asked for by a model
call of its own, so that each model call gets a longer history than the one before.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("langchain_core")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.frameworks.kit import models
from otelhooks.frameworks.langchain.fields import field

OURS = str(Path(otelhooks.__file__).parent)
ADAPTER = "frameworks/langchain/"


class Asking(BaseChatModel):
    """Asks for one tool call after the other, then answers."""

    calls: int
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "asking"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[{"name": "search"}])

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        message = AIMessage("done")
        if self.asked < self.calls:
            call: Any = {"name": "search", "args": {"query": "x"}, "id": f"call_{self.asked}"}
            message = AIMessage("", tool_calls=[call])
        self.asked += 1
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def search(query: str, limit: int = 5) -> str:
    """Search the web."""
    return query


def run(calls: int) -> None:
    graph = create_agent(Asking(calls=calls), [search])
    result = graph.invoke({"messages": [("user", "hello")]}, {"recursion_limit": 3 * calls + 10})
    assert result["messages"][-1].content == "done"


@pytest.fixture
def governed() -> Iterator[None]:
    otelhooks.instrument(
        policies=[policy.deny("run_command"), policy.allow("search")], frameworks=("langchain",)
    )
    yield
    otelhooks.uninstrument()


def counted(work: Callable[[], None]) -> Counter[str]:
    """Return how often our code called what: functions of ours, and built-in ones from ours."""
    found: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_filename.startswith(OURS) and event in ("call", "c_call"):
            name = code.co_name if event == "call" else argument.__name__
            found[f"{code.co_filename.removeprefix(OURS)} {name}"] += 1
        elif event == "call" and code.co_name == "__getattr__" and "pydantic" in code.co_filename:
            asking: Any = frame.f_back
            if asking.f_code.co_filename.startswith(OURS):
                found[f"pydantic {frame.f_locals.get('item')}"] += 1

    threading.setprofile(note)  # tools run in threads of their own
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # as documented
    return found


def of_adapter(found: Counter[str]) -> int:
    return sum(count for name, count in found.items() if ADAPTER in name)


def test_what_a_tool_call_costs_does_not_grow_with_the_history(governed: None) -> None:
    run(2)  # what is read once
    few, more, most = (of_adapter(counted(lambda n=n: run(n))) for n in (5, 10, 30))
    early, late = (more - few) / 5, (most - more) / 20
    assert late <= early + 1


def test_a_tool_call_keeps_to_its_number_of_calls_in_the_adapter(governed: None) -> None:
    run(2)
    few, more = (of_adapter(counted(lambda n=n: run(n))) for n in (5, 15))
    assert (more - few) / 10 <= 128  # of Python functions and built-in ones together


def test_nothing_is_converted_without_hooks(
    governed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def note(name: str) -> Any:
        return lambda *args, **kwargs: looked.append(name)

    monkeypatch.setattr(models, "as_messages", note("messages"))
    for record in ("ModelCall", "ModelResponse", "ToolCall", "ToolResult"):
        monkeypatch.setattr(types, record, note(record))
    run(5)
    assert looked == ["messages"]  # once a conversation: does it come with a history?


def test_no_attribute_is_looked_for_that_a_pydantic_model_does_not_have(governed: None) -> None:
    run(2)
    found = counted(lambda: run(5))
    missed = {name: count for name, count in found.items() if name.startswith("pydantic ")}
    # Once a conversation all of them are read: does it come with a history?
    assert all(count <= 1 for count in missed.values()), (
        "pydantic raises there, which is slower than all else that a seat reads"
    )


class Refusing(AgentMiddleware):
    """Ends a run at its last tool call, which the model sees as refused."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.last = last

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        call = state["messages"][-1].tool_calls[0]
        if call["id"] != f"call_{self.last}":
            return None
        message = ToolMessage("no", tool_call_id=call["id"], status="error")
        return {"messages": [message], "jump_to": "end"}


def test_calls_that_the_graph_refused_are_found_without_reading_each_state(
    governed: None, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(calls: int) -> None:
        middleware = [Refusing(calls - 1)]
        graph = create_agent(Asking(calls=calls), [search], middleware=middleware)
        result = graph.invoke({"messages": [("user", "hello")]}, {"recursion_limit": 5 * calls})
        assert result["messages"][-1].content == "no"

    refused(2)
    few, more, most = (of_adapter(counted(lambda n=n: refused(n))) for n in (5, 10, 30))
    assert (most - more) / 20 <= (more - few) / 5 + 5  # the last state is read, once
    assert "coverage" not in caplog.text


class Said(BaseModel):
    """A model with what `field` has to find."""

    model_config: ClassVar[Any] = {"extra": "allow"}
    known: int = 1


class Strict(BaseModel):
    known: int = 1
    shared: ClassVar[str] = "class"

    @property
    def made(self) -> bool:
        return True


class Odd(BaseModel):
    def __getattr__(self, name: str) -> Any:
        return name


@pytest.mark.parametrize(
    ("thing", "name", "expected"),
    [
        (Strict(), "known", 1),
        (Strict(), "shared", "class"),
        (Strict(), "made", True),
        (Strict(), "missing", None),
        (Said(further=2), "further", 2),
        (Said(), "missing", None),
        (Odd(), "anything", "anything"),
    ],
)
def test_an_attribute_is_found_wherever_it_lies(thing: Any, name: str, expected: Any) -> None:
    assert field(thing, name) == expected


class Interrupts(TypedDict):
    interrupts: list[str]


def test_a_state_with_interrupts_of_its_own_is_not_a_pause() -> None:
    told: list[Any] = []

    class Watch(hooks.PostAgentTransformHook):
        async def run(self, context: Any, data: Any) -> Any:
            told.append(data)

    builder = StateGraph(Interrupts)
    builder.add_node("note", lambda state: {"interrupts": ["doorbell"]})
    builder.add_edge(START, "note")
    builder.add_edge("note", END)
    graph = builder.compile()
    otelhooks.instrument(hooks=[Watch()], frameworks=("langchain",))
    try:
        list(graph.stream({"interrupts": ["phone"]}, stream_mode="values"))
    finally:
        otelhooks.uninstrument()
    assert told == [{"interrupts": ["doorbell"]}]
