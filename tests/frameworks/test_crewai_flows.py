"""Flows of CrewAI, which hold the runs of their crews, and feedback of a person on a task."""

from __future__ import annotations

import asyncio
import builtins
from typing import Any

import pytest

pytest.importorskip("crewai")

from crewai import Crew, Task
from crewai.flow.flow import Flow, listen, start
from crewai.tools import tool

from otelhooks import errors, hooks, policy, types
from otelhooks.frameworks.crewai.scripted import agent_of, scripted_model
from otelhooks.telemetry import semconv

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(120),  # importing the framework takes long on a busy machine
]
REASON = "Not that one."


def crew_of(*steps: Any, **settings: Any) -> tuple[Crew, list[str], list[str]]:
    """Return a crew of one agent with a tool, what its tool did, and what its model was shown."""
    ran: list[str] = []
    shown: list[str] = []
    left = iter(steps)

    @tool
    def danger(path: str) -> str:
        """Delete a path."""
        ran.append(path)
        return "deleted"

    def next_step(text: str) -> Any:
        shown.append(text)
        return next(left)

    agent = agent_of(scripted_model(next_step), [danger])
    task = Task(description="Tidy up.", expected_output="A word.", agent=agent, **settings)
    return Crew(agents=[agent], tasks=[task], name="cleaners"), ran, shown


def flow_of(crew: Crew) -> Any:
    class Tidying(Flow):
        @start()
        def first(self) -> str:
            return crew.kickoff().raw

        @listen(first)
        def second(self, result: str) -> str:
            return f"{result}!"

    return Tidying()


def run(flow: Any, way: str, **given: Any) -> Any:
    if way == "kickoff":
        return flow.kickoff(**given)
    return asyncio.run(getattr(flow, way)(**given))


WAYS = pytest.mark.parametrize("way", ["kickoff", "kickoff_async", "akickoff"])


@WAYS
def test_a_flow_is_one_tree_that_holds_its_crews(way, with_rules, exporter):
    crew, ran, shown = crew_of([("danger", {"path": "/"})], "done")
    with_rules(policy.deny("danger", reason=REASON), frameworks=["crewai"])
    assert run(flow_of(crew), way) == "done!"
    assert ran == []
    assert REASON in shown[-1]
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert len({span.context.trace_id for span in spans.values()}) == 1
    [root] = [span for span in spans.values() if span.parent is None]
    assert root.name == "invoke_workflow Tidying"
    assert spans["invoke_workflow cleaners"].parent.span_id == root.context.span_id
    assert spans["execute_tool danger"].attributes[semconv.POLICY_DECISION] == "deny"


@WAYS
def test_the_conversation_of_a_flow_is_its_id(way, with_rules, exporter):
    crew, _, _ = crew_of("done")
    with_rules(frameworks=["crewai"])
    run(flow_of(crew), way, inputs={"id": "flow-7"})
    found = {one.attributes.get("gen_ai.conversation.id") for one in exporter.get_finished_spans()}
    assert found == {"flow-7"}


@WAYS
def test_a_refused_flow_raises_and_runs_nothing(way, with_rules):
    @hooks.pre_turn
    def refuse(prompt: Any) -> types.HookResult:
        return types.HookResult(allow=False, message=REASON)

    crew, _, shown = crew_of("done")
    with_rules(hooks=[refuse], frameworks=["crewai"])
    with pytest.raises(errors.Denied, match=REASON):
        run(flow_of(crew), way)
    assert shown == []


def asked(monkeypatch: pytest.MonkeyPatch, *lines: str) -> list[str]:
    """Have the console answer with lines; return those that were asked for."""
    left, taken = iter(lines), []

    def read(*args: Any) -> str:
        taken.append(next(left))
        return taken[-1]

    monkeypatch.setattr(builtins, "input", read)
    return taken


def test_feedback_of_the_console_goes_to_a_model_that_rules_still_hold(with_rules, monkeypatch):
    taken = asked(monkeypatch, "Use the tool.", "")
    steps = ("first", [("danger", {"path": "/"})], "second")
    crew, ran, shown = crew_of(*steps, human_input=True)
    with_rules(policy.deny("danger", reason=REASON), frameworks=["crewai"])
    assert crew.kickoff().raw == "second"
    assert taken == ["Use the tool.", ""]
    assert any("Use the tool." in text for text in shown)
    assert REASON in shown[-1]
    assert ran == []


def test_a_hook_gives_the_feedback(with_rules, monkeypatch):
    taken = asked(monkeypatch)
    questions: list[str] = []
    left = iter(["Shorter.", ""])

    @hooks.on_interaction
    def answer(spec: Any) -> Any:
        questions.append(spec.questions[0].question)
        return types.QuestionHookResult(
            responses=[types.QuestionResponse(freeform_response=next(left))]
        )

    crew, _, shown = crew_of("first", "second", human_input=True)
    with_rules(hooks=[answer], frameworks=["crewai"])
    assert crew.kickoff().raw == "second"
    assert taken == []
    assert len(questions) == 2
    assert "Shorter." in shown[-1]
