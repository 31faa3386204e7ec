"""Calls whose run pauses while a queue has their question: its answer is for one of them, once."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import otelhooks
from otelhooks import approvals, hooks, policy, types
from otelhooks.approvals.questions import Answer, Question
from otelhooks.approvals.store_questions import StoreQuestions
from otelhooks.cli import cli
from otelhooks.errors import ConfigError
from otelhooks.records import semconv
from tests.unit import test_kit
from tests.unit.test_kit import Tool, guarded

framework = test_kit.framework
ASK = policy.ask_user("safe", reason="Money leaves.")


class Paused(Exception):
    """What the framework raises to pause."""


class Pausing(Tool):
    pauses = (f"{__name__}:Paused",)
    id: str | None

    def read(self, tool: Any, /, x: Any, **further: Any) -> Any:
        super().read(tool, x, **further)
        self.id, self.is_approved = tool.id, True  # whatever the framework says

    def puts_off(self, reason: str) -> Any:
        return None if self.id == "cannot pause" else Paused(reason)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "questions.db"


@pytest.fixture
def questions(path: Path) -> StoreQuestions:
    return StoreQuestions(path)


@pytest.fixture
def process(framework: Any, path: Path) -> Callable[..., Any]:
    """Makes one call as a new process does, which knows nothing of earlier ones."""

    def call(
        x: Any = 1,
        rules: Any = (ASK,),
        id: str | None = "call_1",
        session: str = "",
        **settings: Any,
    ) -> Any:
        queue = approvals.Queue(path, park=True, **settings.pop("queue", {}))
        settings.setdefault("approvals", queue)
        program = type("Framework", (framework,), {"plain": framework.plain})
        tool = program()
        tool.id = id
        with guarded(program, "plain", Pausing, *rules, **settings), otelhooks.session(session):
            try:
                return tool.plain(x)
            except Paused as paused:
                assert tool.ran == []
                return paused

    return call


def answer(questions: StoreQuestions, status: str = "approved", **further: Any) -> None:
    [question] = [one for one in questions.all() if one.status == "pending"]
    questions.answer(question, Answer(status, "u-17", **further))


def test_the_run_pauses_and_goes_on_when_it_is_answered(process: Any, questions: Any) -> None:
    assert str(process()) == "Money leaves."
    assert type(process()) is Paused
    assert len(questions.all()) == 1
    answer(questions)
    assert process() == "got 1"
    [question] = questions.all()
    assert (question.taken, question.about) == (True, "")


def test_traces_show_that_a_question_is_pending_until_it_is_answered_there(
    process: Any, questions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(*command: str) -> str:
        return CliRunner().invoke(cli, ["trace", *command]).output

    monkeypatch.setenv("OTELHOOKS_STORE", str(tmp_path / "traces.db"))
    process()
    assert "  1 pending\n" in shown("list")
    assert " · 1 pending\n" in shown("show")
    [summary] = json.loads(shown("list", "--json"))
    assert summary["pending"] == 1
    trace_id = summary["trace_id"]
    answer(questions)
    process()
    assert " · 1 approved\n" in shown("show", "last")
    listed = {one["trace_id"]: one for one in json.loads(shown("list", "--json"))}
    assert listed[trace_id]["pending"] == (0 if len(listed) == 1 else 1)


def test_a_queue_that_does_not_park_waits(process: Any, path: Path) -> None:
    waiting = approvals.Queue(path)
    assert process(approvals=waiting, approval_timeout=0.3).startswith("denied: ")


def test_an_answer_is_for_one_call(process: Any, questions: Any) -> None:
    process()
    answer(questions)
    assert process() == "got 1"
    assert type(process()) is Paused
    assert len(questions.all()) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"x": 2},
        {"id": "call_2"},
        {"session": "two"},
        {"rules": (policy.ask_user("safe", id="another"),)},
    ],
    ids=["arguments", "id", "conversation", "rule"],
)
def test_another_call_is_another_question(process: Any, questions: Any, other: Any) -> None:
    process(session="one")
    answer(questions)
    assert type(process(**{"session": "one", **other})) is Paused
    assert len(questions.all()) == 2


def test_an_agent_does_not_take_the_answer_of_another(process: Any, questions: Any) -> None:
    with hooks.agent_scope("one"):
        process()
    answer(questions)
    with hooks.agent_scope("two"):
        assert type(process()) is Paused


def test_a_call_without_an_id_waits(process: Any) -> None:
    assert process(id=None, approval_timeout=0.3).startswith("denied: ")


def test_where_the_framework_cannot_pause_the_call_waits(process: Any) -> None:
    assert process(id="cannot pause", approval_timeout=0.3).startswith("denied: ")


def test_the_frameworks_own_answer_is_not_asked_for(process: Any, monkeypatch: Any) -> None:
    def ask(call: Any, reason: str) -> Any:
        raise AssertionError("the queue is asked")

    monkeypatch.setattr(Pausing, "asks_framework", ask)
    assert process(id="cannot pause", approval_timeout=0.3).startswith("denied: ")
    assert type(process()) is Paused


def test_a_call_that_a_tool_makes_waits(process: Any, framework: Any, questions: Any) -> None:
    """The body of the tool would get the exception, and run twice."""

    def plain(self: Any, x: Any) -> str:
        if x == "outer":
            return str(self.plain(1))
        self.ran.append(x)
        return f"got {x}"

    framework.plain = plain
    when = policy.ask_user("safe", when=lambda args: args["x"] == 1)
    assert "denied: " in process("outer", rules=(when,), approval_timeout=0.3)
    [question] = questions.all()
    assert question.parked == ""


def test_a_rule_with_a_handler_asks_that(process: Any) -> None:
    assert process(rules=(policy.ask_user("safe", handler=lambda call: True),)) == "got 1"


@pytest.mark.parametrize("is_given", [True, False])
def test_a_refusal_denies_once(process: Any, questions: Any, is_given: bool) -> None:
    process(approval_timeout=60 if is_given else 0.001)
    if is_given:
        answer(questions, "rejected")
    late = "" if is_given else "Tool 'safe' was not approved in time: "
    assert process() == f"denied: {late}Money leaves."
    assert type(process()) is Paused


def test_an_answer_in_time_counts_later(process: Any, questions: Any, monkeypatch: Any) -> None:
    process(approval_timeout=60)
    answer(questions)
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 3600)
    assert process() == "got 1"


def test_an_edit_is_judged_and_runs(process: Any, questions: Any) -> None:
    rules = (ASK, policy.deny("safe", when=lambda args: args["x"] == 3, reason="Not 3."))
    process(rules=rules)
    answer(questions, edit={"x": 2})
    assert process(rules=rules) == "got 2"
    process(2, id="call_2", rules=rules)
    answer(questions, edit={"x": 3})
    assert process(2, id="call_2", rules=rules) == "denied: Not 3."


def test_a_rule_that_asks_about_the_edit_has_a_question_of_its_own(
    process: Any, questions: Any
) -> None:
    late = policy.ask_user("safe", when=lambda args: args["x"] == 2, id="late")
    rules, edit = (policy.ask_user("*", id="first"), late), {"x": 2}
    process(rules=rules)
    answer(questions, edit=edit)
    assert type(process(rules=rules)) is Paused
    answer(questions)
    assert type(process(rules=rules)) is Paused  # the first answer was used
    answer(questions, edit=edit)
    assert process(rules=rules) == "got 2"


def test_two_must_approve(process: Any, questions: Any) -> None:
    process(queue={"needs": 2})
    answer(questions)
    assert type(process(queue={"needs": 2})) is Paused
    [question] = questions.all()
    questions.answer(question, Answer("approved", "u-18"))
    assert process(queue={"needs": 2}) == "got 1"


def test_who_asks_more_people_by_now_does_not_take_the_answer_of_one(
    process: Any, questions: Any
) -> None:
    process()
    answer(questions)
    assert process(queue={"needs": 2}).startswith("denied: ")


def test_a_question_that_was_changed_denies(process: Any, questions: Any) -> None:
    """What the approver saw is not what waits."""
    process()
    [question] = questions.all()
    shown = question.about.replace('{"x": 1}', '{"x": 2}')
    questions.change(question.id, {}, {"about": shown})
    answer(questions)
    assert process().startswith("denied: ")
    [question] = questions.all()
    assert question.taken


def test_an_answer_to_another_question_denies(process: Any, questions: Any) -> None:
    process()
    answer(questions)
    [question] = questions.all()
    questions.change(question.id, {}, {"seen": "0" * 64})
    assert process().startswith("denied: ")


@pytest.mark.parametrize("field", ["args", "server", "agent", "rule", "tool"])
def test_an_answer_that_was_moved_to_another_call_denies(
    process: Any, questions: Any, path: Path, field: str
) -> None:
    """Who writes to the store gives the key of this call to an answer for another."""
    process()
    [question] = questions.all()
    facts = {**question.facts, field: {"x": 2} if field == "args" else "another"}
    changed = {"about": json.dumps(facts)} if field != "tool" else {"tool": "another"}
    questions.change(question.id, {}, changed)
    answer(questions)
    assert process().startswith("denied: ")


def test_hooks_that_rewrite_are_part_of_the_call(process: Any, questions: Any) -> None:
    wanted = [5]

    @hooks.pre_tool_call_decide
    def rewrite(data: types.ToolCall) -> types.HookResult:
        return types.HookResult(modified_args={"x": wanted[0]})

    process(hooks=[rewrite])
    answer(questions)
    wanted[0] = 6
    assert type(process(hooks=[rewrite])) is Paused
    wanted[0] = 5
    assert process(hooks=[rewrite]) == "got 5"


def test_a_deny_that_holds_by_now_denies(process: Any, questions: Any) -> None:
    process()
    answer(questions)
    assert process(rules=(ASK, policy.deny("safe", reason="No more."))) == "denied: No more."


def test_the_decision_is_the_one_that_was_asked_under(
    process: Any, questions: Any, providers: Any, exporter: Any
) -> None:
    process(**providers)
    answer(questions)
    process(**providers)
    asked, waited, call = [s for s in exporter.get_finished_spans() if "safe" in s.name]
    ids = {span.attributes[semconv.DECISION_ID] for span in (asked, waited, call)}
    assert len(ids) == 1
    assert call.attributes[semconv.APPROVAL_APPROVER_ID] == "u-17"
    assert call.attributes[semconv.APPROVAL_WAIT_DURATION] > 0


def test_people_are_notified_of_a_question_once(process: Any) -> None:
    told: list[Question] = []
    queue = {"notify": told.append}
    process(queue=queue)
    process(queue=queue)
    assert [one.tool for one in told] == ["safe"]


def test_no_process_could_remind_people(path: Path) -> None:
    with pytest.raises(ConfigError, match="to remind people"):
        approvals.Queue(path, park=True, notify={0: print, 60: print})


def test_two_that_ask_at_once_ask_one_question(questions: Any) -> None:
    def made(id: str) -> Question:
        return Question(id, 1.0, 9e9, "pending", "t", '{"args": {}}', parked="key")

    assert questions.put(made("00000001"))
    assert not questions.put(made("00000002"))
    assert questions.parked("key").id == "00000001"


def test_a_place_that_fails_denies(process: Any, questions: Any, monkeypatch: Any) -> None:
    def fail(*given: Any) -> Any:
        raise ConfigError("no place")

    monkeypatch.setattr(StoreQuestions, "put", fail)
    assert process().startswith("denied: ")


def test_commands_answer_it_as_any_other(process: Any, path: Path, questions: Any) -> None:
    process()
    [question] = questions.all()

    def run(*arguments: str) -> str:
        found = CliRunner().invoke(cli, ["approvals", *arguments, "--store", str(path)])
        assert found.exit_code == 0, found.output
        return found.output

    assert f"{question.id}  4 min left  safe" in run("list")
    assert "(parked)" in run("list")
    assert "x" in run("show", question.id)
    told = run("deny", question.id, "--as", "u")
    assert told == "rejected safe; its run takes the answer when it is resumed\n"
    assert process() == "denied: Money leaves."


def test_the_log_says_how_to_answer(process: Any, questions: Any, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "otelhooks.approvals"):
        process()
    [question] = questions.all()
    assert f"otelhooks approvals approve {question.id}" in caplog.text
