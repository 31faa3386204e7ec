"""Calls that wait on a real Redis server until someone on any host answers."""

from __future__ import annotations

import concurrent.futures
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

import otelhooks
from otelhooks import approvals, policy
from otelhooks.approvals.places import questions_at
from otelhooks.approvals.questions import Answer, Question, Questions
from otelhooks.cli import cli
from otelhooks.errors import ConfigError, Denied
from tests.servers.redis_server import NEEDS_REDIS, Server
from tests.unit.test_kit import Framework, Tool, guarded

pytestmark = [NEEDS_REDIS, pytest.mark.usefixtures("dropped_connections")]


@pytest.fixture
def mail(server: Server, providers: dict[str, Any]) -> Iterator[Callable[..., str]]:
    """A tool that a person must approve."""

    @otelhooks.tool
    def send_email(to: str) -> str:
        return f"sent to {to}"

    otelhooks.instrument(
        policies=[policy.ask_user("send_email", id="mail")],
        approvals=approvals.Queue(server.address),
        approval_timeout=20,
        frameworks=(),
        **providers,
    )
    yield send_email
    otelhooks.uninstrument()


@pytest.fixture
def background() -> Iterator[concurrent.futures.Executor]:
    with concurrent.futures.ThreadPoolExecutor() as executor:
        yield executor


def waiting(questions: Questions) -> Question:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if found := [one for one in questions.all() if one.status == "pending"]:
            return found[0]
        time.sleep(0.02)
    raise AssertionError("nothing was asked")


def run(server: Server, *arguments: str) -> Result:
    command, *rest = arguments
    return CliRunner().invoke(cli, ["approvals", command, "--store", server.address, *rest])


def test_an_answer_on_another_host_lets_the_call_run(mail, server, background) -> None:
    called = background.submit(mail, "ada@example.com")
    questions = questions_at(server.address)
    question = waiting(questions)
    assert question.facts["args"] == {"to": "ada@example.com"}
    questions.answer(question, Answer("approved", "u", {"to": "eve@example.com"}))
    assert called.result(10) == "sent to eve@example.com"
    with pytest.raises(ConfigError, match="already approved by u"):
        questions.answer(question, Answer("approved", "u"))
    assert questions.find(question.id).about == ""


def test_an_answer_for_another_call_denies(mail, server, background) -> None:
    called = background.submit(mail, "all@example.com")
    questions = questions_at(server.address)
    question = waiting(questions)
    about = question.about.replace("all@", "ada@")
    questions.change(question.id, {"status": "pending"}, {"about": about})
    questions.answer(questions.find(question.id), Answer("approved", "u"))
    assert isinstance(called.exception(10), Denied)


def test_two_must_approve(server) -> None:
    questions, now = questions_at(server.address), time.time()
    asked = Question("12345678", now, now + 30, "pending", "t", '{"args": {}}', needs=2)
    questions.put(asked)
    assert questions.answer(asked, Answer("approved", "a")) == "pending"
    with pytest.raises(ConfigError, match="a has approved question 12345678 already"):
        questions.answer(asked, Answer("approved", "a"))
    assert questions.answer_of(asked) is None
    assert questions.answer(asked, Answer("approved", "b")) == "approved"
    assert questions.answer_of(asked) == Answer("approved", "a, b")


def test_a_server_that_was_away_for_a_moment_loses_nothing(mail, server, background) -> None:
    called = background.submit(mail, "ada@example.com")
    questions = questions_at(server.address)
    question = waiting(questions)
    server.stop()
    time.sleep(0.5)
    assert not called.done()
    server.start()
    questions.answer(question, Answer("approved", "u"))
    assert called.result(10) == "sent to ada@example.com"


def test_without_the_server_the_next_channel_is_asked(server, providers) -> None:
    @otelhooks.tool
    def send_email() -> str:
        return "sent"

    queue = approvals.Queue(server.address)
    server.stop()
    otelhooks.instrument(
        policies=[policy.ask_user("send_email")],
        approvals=[queue, lambda call: True],
        frameworks=(),
        **providers,
    )
    try:
        assert send_email() == "sent"
    finally:
        otelhooks.uninstrument()


def test_a_killed_programs_question_expires(server) -> None:
    questions, now = questions_at(server.address), time.time()
    questions.put(Question("12345678", now - 60, now - 30, "pending", "t", '{"args": {}}'))
    questions.put(Question("23456789", now, now + 30, "pending", "t", '{"args": {}}'))
    assert {one.id: one.status for one in questions.all()} == {
        "12345678": "expired",
        "23456789": "pending",
    }
    assert questions.find("12345678").about == ""


def test_the_answer_about_a_parked_call_is_taken_once(server) -> None:
    questions, now = questions_at(server.address), time.time()

    def made(id: str, key: str = "key") -> Question:
        about = '{"args": {"x": 1}}'
        return Question(id, now, now + 30, "pending", "t", about, parked=key)

    assert questions.put(made("00000001"))
    assert not questions.put(made("00000002"))
    assert questions.put(made("00000003", "another"))
    question = questions.parked("key")
    assert question is not None
    questions.answer(question, Answer("approved", "u"))
    answered = questions.parked("key")
    assert answered is not None
    with concurrent.futures.ThreadPoolExecutor() as executor:
        taken = [executor.submit(questions.take, answered, answered) for _ in range(8)]
    assert [each.result() for each in taken if each.result()] == [Answer("approved", "u")]
    assert questions.parked("key") is None
    assert questions.find("00000001").about == ""
    assert questions.put(made("00000004"))
    assert [one.id for one in questions.all()] == ["00000001", "00000003", "00000004"]


def test_a_parked_call_goes_on_elsewhere(server, providers) -> None:
    class Paused(Exception):
        pass

    class Pausing(Tool):
        def read(self, tool: Any, /, x: Any, **further: Any) -> None:
            super().read(tool, x, **further)
            self.id = "call_1"

        def puts_off(self, reason: str) -> Any:
            return Paused()

    def call() -> Any:
        program = type("Program", (Framework,), {"plain": Framework.plain})
        queue = approvals.Queue(server.address, park=True)
        with guarded(program, "plain", Pausing, policy.ask_user("safe"), approvals=queue):
            return program().plain(1)

    with pytest.raises(Paused):
        call()
    questions = questions_at(server.address)
    questions.answer(waiting(questions), Answer("approved", "u"))
    assert call() == "got 1"


def test_commands_read_the_server(mail, server, background) -> None:
    called = background.submit(mail, "ada@example.com")
    question = waiting(questions_at(server.address))
    [record] = map(json.loads, run(server, "list", "--json").stdout.splitlines())
    assert record["id"] == question.id
    assert run(server, "deny", question.id, "--as", "u").exit_code == 0
    assert isinstance(called.exception(10), Denied)
    assert "rejected by u" in run(server, "list", "--all").output


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("redis://:s3cret@127.0.0.1:1/0", "cannot be reached: ConnectionError"),
        ("redis://:s3cret@host:port/0", "cannot be read"),
    ],
)
def test_an_address_that_cannot_be_used_is_an_error_without_its_password(address, problem) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        approvals.Queue(address)
    assert "s3cret" not in str(raised.value)
