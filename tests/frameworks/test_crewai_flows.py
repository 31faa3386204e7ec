"""Flows of CrewAI, which hold the runs of their crews, and feedback of a person on a task."""

from __future__ import annotations

import asyncio
import builtins
from typing import Any

import pytest

pytest.importorskip("crewai")

from crewai import Crew, Task
from crewai.flow.async_feedback import HumanFeedbackPending
from crewai.flow.flow import Flow, listen, start
from crewai.flow.human_feedback import human_feedback
from crewai.flow.persistence import SQLiteFlowPersistence
from crewai.tools import tool

from otelhooks import errors, hooks, policy, types
from otelhooks.frameworks.crewai.scripted import agent_of, scripted_model
from otelhooks.records import semconv

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
    if way in ("kickoff", "resume"):
        return getattr(flow, way)(**given)
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


class Waits:
    """Someone who answers a flow later, perhaps to another process."""

    def request_feedback(self, context: Any, flow: Any) -> str:
        raise HumanFeedbackPending(context=context)


def reviewed(crew: Crew, provider: Any = None) -> type[Any]:
    """Return a flow whose first step a person reviews, and whose second step runs a crew."""

    class Reviewing(Flow):
        @start()
        @human_feedback(message="Is it good?", provider=provider)
        def first(self) -> str:
            return "a plan"

        @listen(first)
        def second(self, result: Any) -> str:
            return f"{crew.kickoff().raw} {result.feedback}"

    return Reviewing


@pytest.mark.parametrize("way", ["resume", "resume_async"])
def test_what_follows_a_pause_is_a_run_of_the_flow(way, with_rules, exporter, tmp_path):
    crew, ran, shown = crew_of([("danger", {"path": "/"})], "done")
    kept = SQLiteFlowPersistence(str(tmp_path / "flows.db"))
    cls = reviewed(crew, Waits())
    with_rules(policy.deny("danger", reason=REASON), frameworks=["crewai"])
    paused = cls(persistence=kept).kickoff(inputs={"id": "flow-7"})
    assert isinstance(paused, HumanFeedbackPending)
    flow = cls.from_pending("flow-7", kept)
    assert run(flow, way, feedback="Go on.") == "done Go on."
    assert ran == []
    assert REASON in shown[-1]
    first, second = (s for s in exporter.get_finished_spans() if s.name.endswith(" Reviewing"))
    assert [s.attributes["gen_ai.conversation.id"] for s in (first, second)] == ["flow-7"] * 2
    [link] = second.links
    assert link.context.span_id == first.context.span_id
    [crews] = [s for s in exporter.get_finished_spans() if s.name == "invoke_workflow cleaners"]
    assert crews.parent.span_id == second.context.span_id


def test_a_flow_that_pauses_again_has_not_failed(with_rules, exporter, tmp_path):
    class Twice(Flow):
        @start()
        @human_feedback(message="And?", provider=Waits())
        def first(self) -> str:
            return "one"

        @listen(first)
        @human_feedback(message="And now?", provider=Waits())
        def second(self, result: Any) -> str:
            return "two"

    kept = SQLiteFlowPersistence(str(tmp_path / "flows.db"))
    with_rules(frameworks=["crewai"])
    Twice(persistence=kept).kickoff(inputs={"id": "flow-8"})
    again = Twice.from_pending("flow-8", kept).resume("Yes.")
    assert isinstance(again, HumanFeedbackPending)
    assert [span.status.is_ok for span in exporter.get_finished_spans()] == [True, True]


def test_a_review_of_the_console_is_a_question_that_a_hook_may_answer(with_rules, monkeypatch):
    taken = asked(monkeypatch)
    questions: list[str] = []

    @hooks.on_interaction
    def answer(spec: Any) -> Any:
        questions.append(spec.questions[0].question)
        return types.QuestionHookResult(
            responses=[types.QuestionResponse(freeform_response="Fine.")]
        )

    crew, _, _ = crew_of("done")
    with_rules(hooks=[answer], frameworks=["crewai"])
    assert reviewed(crew)().kickoff() == "done Fine."
    assert (questions, taken) == (["Is it good?\n\na plan"], [])


def test_without_such_a_hook_the_console_asks(with_rules, monkeypatch):
    taken = asked(monkeypatch, "Fine.")
    crew, _, _ = crew_of("done")
    with_rules(frameworks=["crewai"])
    assert reviewed(crew)().kickoff() == "done Fine."
    assert taken == ["Fine."]


def test_a_declined_review_fails_the_flow(with_rules, monkeypatch):
    asked(monkeypatch)

    @hooks.on_interaction
    def decline(spec: Any) -> Any:
        return types.QuestionHookResult(cancelled=True)

    crew, _, shown = crew_of("done")
    with_rules(hooks=[decline], frameworks=["crewai"])
    with pytest.raises(errors.Denied, match="declined"):
        reviewed(crew)().kickoff()
    assert shown == []


def test_a_crew_that_runs_again_from_a_task_is_a_run(with_rules, exporter):
    crew, ran, shown = crew_of("first", [("danger", {"path": "/"})], "second")
    with_rules(policy.deny("danger", reason=REASON), frameworks=["crewai"])
    assert crew.kickoff().raw == "first"
    assert crew.replay(str(crew.tasks[0].id)).raw == "second"
    assert ran == []
    assert REASON in shown[-1]
    runs = [s for s in exporter.get_finished_spans() if s.name == "invoke_workflow cleaners"]
    assert [run.parent for run in runs] == [None, None]
    assert exporter.get_finished_spans()[-1] is runs[-1]


def test_a_refused_repetition_runs_nothing(with_rules):
    seen: list[Any] = []

    @hooks.pre_turn
    def once(prompt: Any) -> types.HookResult:
        seen.append(prompt)
        return types.HookResult(allow=len(seen) == 1, message=REASON)

    crew, _, shown = crew_of("first", "second")
    with_rules(hooks=[once], frameworks=["crewai"])
    crew.kickoff(inputs={"topic": "dust"})
    assert crew.replay(str(crew.tasks[0].id), {"topic": "dust"}).raw == REASON
    assert seen == ["dust", "dust"]
    assert len(shown) == 1
