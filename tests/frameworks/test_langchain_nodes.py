"""Nodes of a graph and tasks of the functional API are spans inside that of the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langgraph")

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from otelhooks import policy
from tests.frameworks.agents_langchain import ScriptedModel, begin
from tests.frameworks.contract import Ask, World


class State(TypedDict):
    n: int


@tool
def add(n: int) -> int:
    """Add one."""
    return n + 1


def plan(state: State) -> Any:
    return {"n": add.invoke({"n": state["n"]})}


async def write(state: State) -> Any:
    await asyncio.sleep(0)
    return {"n": add.invoke({"n": state["n"]})}


def graph(*nodes: Any, **settings: Any) -> Any:
    builder = StateGraph(State)
    before = START
    for each in nodes:
        name, run = each if isinstance(each, tuple) else (each.__name__, each)
        builder.add_node(name, run).add_edge(before, name)
        before = name
    return builder.compile(name="flow", **settings)


@pytest.fixture
def tree(exporter: Any) -> Any:
    """Return each finished span's name with its parent's."""

    def named() -> set[tuple[str, str]]:
        spans = exporter.get_finished_spans()
        by_id = {span.context.span_id: span.name for span in spans}
        return {(s.name, by_id.get(s.parent.span_id, "") if s.parent else "") for s in spans}

    return named


def test_a_node_is_a_span_and_what_it_calls_is_below_it(with_rules: Any, tree: Any) -> None:
    with_rules(policy.deny("other"))
    assert asyncio.run(graph(plan, write).ainvoke({"n": 1})) == {"n": 3}
    assert tree() == {
        ("invoke_workflow flow", ""),
        ("node plan", "invoke_workflow flow"),
        ("execute_tool add", "node plan"),
        ("node write", "invoke_workflow flow"),
        ("execute_tool add", "node write"),
    }


def test_a_graph_in_a_graph_is_one_span(with_rules: Any, tree: Any) -> None:
    with_rules(policy.deny("other"))
    graph(("inner", graph(plan))).invoke({"n": 1})
    assert ("node inner", "invoke_workflow flow") not in tree()
    assert ("node plan", "invoke_workflow flow") in tree()


def test_nodes_that_only_call_the_model_or_tools_are_none(with_rules: Any, tree: Any) -> None:
    with_rules(policy.deny("other"))
    model = ScriptedModel(world=World((Ask("add", {"n": 1}),), "done"))
    create_agent(model, [add]).invoke(begin("go"))
    assert not [name for name, _ in tree() if name.startswith("node ")]
    assert [name for name, _ in tree() if name == "execute_tool add"]


def test_a_node_of_ones_own_is_a_span_whatever_its_name(with_rules: Any, tree: Any) -> None:
    with_rules(policy.deny("other"))
    graph(("agent", plan), ("model", plan)).invoke({"n": 1})
    assert {name for name, _ in tree()} >= {"node agent", "node model"}


def test_a_task_is_a_span_in_that_of_its_entrypoint(with_rules: Any, tree: Any) -> None:
    @task
    def double(n: int) -> int:
        return 2 * n

    @entrypoint()
    def flow(n: int) -> int:
        return double(n).result() + 1

    with_rules(policy.deny("other"))
    assert flow.invoke(3) == 7
    assert ("node double", "node flow") in tree()


@pytest.mark.parametrize("capture", ["NO_CONTENT", "SPAN_ONLY"])
def test_it_carries_what_went_in_and_came_out_where_content_is_on(
    with_rules: Any, exporter: Any, capture: str
) -> None:
    with_rules(policy.deny("other"), capture_content=capture)
    graph(plan).invoke({"n": 1})
    (span,) = (s for s in exporter.get_finished_spans() if s.name == "node plan")
    assert span.attributes["otelhooks.node.name"] == "plan"
    shown = {key: span.attributes.get(key) for key in ("input.value", "output.value")}
    is_on = capture == "SPAN_ONLY"
    assert shown == (
        {"input.value": '{"n":1}', "output.value": '{"n":2}'} if is_on else dict.fromkeys(shown)
    )


def test_a_failure_is_on_its_span_and_a_pause_is_none(with_rules: Any, exporter: Any) -> None:
    def bad(state: State) -> Any:
        raise ValueError("a secret")

    def ask(state: State) -> Any:
        return {"n": interrupt("how many?")}

    with_rules(policy.deny("other"))
    with pytest.raises(ValueError, match="a secret"):
        graph(bad).invoke({"n": 1})
    place: Any = {"configurable": {"thread_id": "1"}}
    graph(ask, checkpointer=InMemorySaver()).invoke({"n": 1}, place)
    found = {s.name: s for s in exporter.get_finished_spans()}
    assert found["node bad"].attributes["error.type"] == "ValueError"
    assert "secret" not in str(found["node bad"].status.description)
    assert found["node ask"].status.is_unset


@pytest.mark.parametrize("spans", ["off", "annotate"])
def test_there_is_none_where_spans_are_not_ours(with_rules: Any, tree: Any, spans: str) -> None:
    with_rules(policy.deny("other"), spans=spans)
    graph(plan).invoke({"n": 1})
    assert not tree()


def test_telemetry_that_fails_leaves_the_node_alone(
    with_rules: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from otelhooks.frameworks.kit import telemetry

    def broken(*given: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(telemetry, "_open_part", telemetry.fails_open(broken))
    with_rules(policy.deny("other"))
    assert graph(plan).invoke({"n": 1}) == {"n": 2}
