"""A call waits in one process, and a person at another terminal answers it."""

from __future__ import annotations

import json
import random
import re
import signal
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from otelhooks.approvals.questions import Answer, Question
from otelhooks.approvals.store_questions import StoreQuestions
from otelhooks.errors import ConfigError
from otelhooks.records import semconv
from otelhooks.store.reader import Store
from tests.processes.at_terminal import at_terminal
from tests.programs import Start, starting

AGENT = """
import sys
import otelhooks
from otelhooks import policy

otelhooks.instrument(
    policies=[policy.ask_user("send_email", reason="Mail leaves the house.")],
    approvals="otelhooks.approvals:Queue",
    approval_timeout=60,
)

@otelhooks.tool
def send_email(to):
    print("sent to", to, flush=True)

for to in sys.argv[1:]:
    try:
        send_email(to)
    except otelhooks.errors.Denied as denied:
        print("denied", denied, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The store that `OTELHOOKS_STORE` names in tests."""
    return tmp_path / "store.db"


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Start]:
    """Starts programs that ask."""
    with starting(tmp_path, AGENT) as start:
        yield start


def waiting(path: Path) -> Question:
    questions, until = StoreQuestions(path), time.monotonic() + 30
    while time.monotonic() < until:
        if found := [one for one in questions.all() if one.status == "pending"]:
            return found[-1]
        time.sleep(0.02)
    raise AssertionError("nothing was asked")


def code_in(screen: str) -> str:
    return re.findall(r"Type (\d{4}) to approve", screen)[-1]


def test_who_types_the_code_at_a_terminal_approves(
    agents: Start, path: Path, tmp_path: Path
) -> None:
    agent = agents("ada@example.com")
    question = waiting(path)
    code, screen = at_terminal(
        ["approvals", "approve", question.id, "--as", "u-17"],
        *("a\n", lambda screen: code_in(screen) + "\n"),
        cwd=tmp_path,
    )
    assert code == 0, screen
    assert "to approve `send_email` (rule `ask:send_email`), a shows all" in screen
    assert "reason: Mail leaves the house." in screen
    assert 'to = "ada@example.com"' in screen
    assert "approved send_email" in screen
    assert "sent to ada@example.com" in agent.communicate(timeout=30)[0]


def test_an_edit_is_shown_and_runs(agents: Start, path: Path, tmp_path: Path) -> None:
    agent = agents("all@example.com")
    command = ["approvals", "approve", waiting(path).id, "--edit", '{"to": "ada@example.com"}']
    code, screen = at_terminal(command, lambda screen: code_in(screen) + "\n", cwd=tmp_path)
    assert code == 0, screen
    assert 'to = "ada@example.com"' in screen
    assert "all@example.com" not in screen
    assert "sent to ada@example.com" in agent.communicate(timeout=30)[0]


def test_an_argument_that_the_call_does_not_have_is_warned_of(path: Path, tmp_path: Path) -> None:
    now, questions = time.time(), StoreQuestions(path)
    facts = dict.fromkeys(("server", "agent", "rule", "reason", "trace", "program"), "")
    about = json.dumps({**facts, "args": {"to": "ada"}, "pid": 1})
    questions.put(Question("12345678", now, now + 60, "pending", "send_email", about))
    command = ["approvals", "approve", "12345678", "--edit", '{"tp": "x"}']
    code, screen = at_terminal(command, lambda screen: "\n", cwd=tmp_path)
    assert code == 1
    assert "Warning: the call does not have `tp`; it has `to`" in screen


def test_no_process_is_waited_for_that_takes_the_answer_about_a_parked_call(
    path: Path, tmp_path: Path
) -> None:
    now, questions = time.time(), StoreQuestions(path)
    facts = dict.fromkeys(("server", "agent", "rule", "reason", "trace", "program"), "")
    about = json.dumps({**facts, "args": {"to": "ada"}, "pid": 1})
    asked = Question("12345678", now, now + 60, "pending", "send_email", about, parked="key")
    questions.put(asked)
    command = ["approvals", "approve", asked.id, "--as", "u-17"]
    code, screen = at_terminal(command, lambda screen: code_in(screen) + "\n", cwd=tmp_path)
    assert code == 0, screen
    assert "approved send_email; its run takes the answer when it is resumed" in screen
    assert questions.find(asked.id).about == about


def test_roles_are_shown_before_the_code_and_wrong_answers_are_refused_there(
    path: Path, tmp_path: Path
) -> None:
    now, questions = time.time(), StoreQuestions(path)
    facts = dict.fromkeys(("server", "agent", "rule", "reason", "trace", "program"), "")
    about = json.dumps({**facts, "args": {}, "pid": 1, "roles": ["finance", "security"]})
    questions.put(Question("12345678", now, now + 60, "pending", "send_email", about, needs=2))
    ada = ["approvals", "approve", "12345678", "--as", "ada", "--role", "finance"]
    for command, problem in (
        ([*ada, "--edit", '{"to": "x"}'], "needs 2 approvers of the same call"),
        ([*ada[:-1], "sales"], "waits for the approval of finance and security"),
    ):
        code, screen = at_terminal(command, cwd=tmp_path)
        assert (code, problem in screen, "Type" in screen) == (2, True, False), screen
    code, screen = at_terminal(ada, lambda screen: code_in(screen) + "\n", cwd=tmp_path)
    assert code == 0, screen
    assert screen.index("Approvers: finance and security must approve") < screen.index("Type ")
    assert "approved by ada (finance); security must approve" in screen


@pytest.mark.parametrize("typed", ["\n", "y\n", "yes\n", "\x04"])
def test_anything_else_leaves_the_call_waiting(
    agents: Start, path: Path, tmp_path: Path, typed: str
) -> None:
    agents("a")
    question = waiting(path)
    code, screen = at_terminal(["approvals", "approve", question.id], typed, cwd=tmp_path)
    assert code == 1
    assert "not approved; the call still waits" in screen
    assert StoreQuestions(path).find(question.id).status == "pending"


@pytest.mark.parametrize("edit", ["{", "[1]"])
def test_an_edit_that_is_no_object_is_an_error(path: Path, tmp_path: Path, edit: str) -> None:
    StoreQuestions(path).prepare()
    code, screen = at_terminal(["approvals", "approve", "1", "--edit", edit], cwd=tmp_path)
    assert code == 2
    assert "--edit is not" in screen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_a_signal_that_ends_the_program_withdraws_the_question(
    agents: Start, path: Path, number: signal.Signals
) -> None:
    agent = agents("a")
    question = waiting(path)
    agent.send_signal(number)
    agent.wait(30)
    assert StoreQuestions(path).find(question.id).status == "withdrawn"
    [summary] = Store(path).traces()
    found = Store(path).trace(summary.trace_id)
    assert found is not None
    [wait] = [span for span in found.spans if span.name == "otelhooks.approval.wait send_email"]
    assert wait.attributes[semconv.APPROVAL_STATUS] == "withdrawn"


SETUP, CALLS = AGENT.split("for to in")
FORKING = f"""
import multiprocessing, os, signal, threading, time
{SETUP}
ending = sys.argv.pop()

def ask():
{textwrap.indent("for to in" + CALLS, "    ")}

thread = threading.Thread(target=ask)
thread.start()
while not os.path.exists("go"):
    time.sleep(0.01)
if ending == "multiprocessing":
    child = multiprocessing.get_context("fork").Process(target=int)
    child.start()
    child.join()
elif (child := os.fork()) == 0:
    if ending == "signal":
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
    sys.exit(0)
else:
    os.waitpid(child, 0)
print("the child has ended", flush=True)
thread.join()
"""


@pytest.mark.parametrize("ending", ["exit", "signal", "multiprocessing"])
def test_a_forked_child_that_ends_leaves_its_parents_question_open(
    tmp_path: Path, path: Path, ending: str
) -> None:
    with starting(tmp_path, FORKING) as start:
        agent = start("a", ending)
        question = waiting(path)
        assert agent.stdout is not None
        (tmp_path / "go").touch()
        assert agent.stdout.readline() == "the child has ended\n"
        assert StoreQuestions(path).find(question.id).status == "pending"
        StoreQuestions(path).answer(question, Answer("approved", "ada"))
        assert agent.stdout.readline() == "sent to a\n"


def test_of_killed_programs_no_other_takes_the_answer(agents: Start, path: Path) -> None:
    """Kill programs before or after the answer: it is for one call, and once."""
    choose = random.Random(7)
    questions = StoreQuestions(path)
    for to in map(str, range(8)):
        is_approved, killed = choose.random() < 0.5, choose.choice(["before", "after", "never"])
        agent = agents(to)
        question = waiting(path)
        assert question.facts["args"] == {"to": to}
        if killed == "before":
            agent.kill()
        questions.answer(question, Answer("approved" if is_approved else "rejected", "u"))
        with pytest.raises(ConfigError, match="is already"):
            questions.answer(question, Answer("approved", "u"))
        if killed == "after":
            time.sleep(choose.random() * 0.2)
            agent.kill()
        said = agent.communicate(timeout=30)[0]
        assert "sent to" not in said or (is_approved and f"sent to {to}" in said)
        if killed == "never":
            assert ("sent to" if is_approved else "denied") in said
