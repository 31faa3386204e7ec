"""Calls that wait in the local store until another process answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pydantic
import pytest
from click.testing import CliRunner, Result

import otelhooks
from otelhooks import approvals, policy, types
from otelhooks.approvals import store_questions
from otelhooks.approvals.questions import Answer, Question, check, doubts
from otelhooks.approvals.store_questions import StoreQuestions
from otelhooks.cli import cli
from otelhooks.errors import ConfigError, Denied
from otelhooks.records import semconv
from otelhooks.store import schema


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "own" / "questions.db"


@pytest.fixture
def mail(governed: Any, path: Path) -> Callable[..., str]:
    """A tool that a person must approve."""

    @otelhooks.tool
    def send_email(to: str) -> str:
        return f"sent to {to}"

    rule = policy.ask_user("send_email", id="mail", reason="Mail leaves the house.")
    governed(policies=[rule], approvals=approvals.Queue(path), approval_timeout=20)
    return send_email


@pytest.fixture
def background() -> Iterator[concurrent.futures.Executor]:
    with concurrent.futures.ThreadPoolExecutor() as executor:
        yield executor


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        cli, ["approvals", arguments[0], "--store", str(path), *arguments[1:]]
    )


def waiting(path: Path) -> Question:
    """Return the one question that waits."""
    questions, deadline = StoreQuestions(path), time.monotonic() + 10
    while time.monotonic() < deadline:
        if found := [one for one in questions.all() if one.status == "pending"]:
            [question] = found
            return question
        time.sleep(0.02)
    raise AssertionError("nothing was asked")


LATER = ("kind", "needs", "parked", "roles")
"""Columns that the first tables of questions did not have."""


def question_of(id: str, left: float = 60) -> Question:
    now = time.time()
    about = json.dumps({"args": {}, "program": "app.py", "pid": 1, "reason": "", "rule": ""})
    return Question(id, now - 60, now + left, "pending", "send_email", about)


@contextlib.contextmanager
def changed(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the store as someone does who changes it by hand."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        yield database


def row_of(path: Path, id: str) -> dict[str, Any]:
    with changed(path) as database:
        database.row_factory = sqlite3.Row
        return dict(database.execute("SELECT * FROM questions WHERE id = ?", (id,)).fetchone())


@pytest.mark.parametrize(
    ("edit", "warning"),
    [
        (None, ""),
        ({"n": 5.5, "all": False, "none": 1}, ""),
        ({"n": "5"}, "`n` is a number in the call, and a text in the edit"),
        ({"all": 1}, "`all` is a boolean in the call, and a number in the edit"),
        ({"none": [], "x": 1}, "the call does not have `x`; it has `n`, `all`, `none`"),
        (
            {"n": {}, "x": 1},
            (
                "the call does not have `x`; it has `n`, `all`, `none`; "
                "`n` is a number in the call, and an object in the edit"
            ),
        ),
    ],
)
def test_an_approver_is_warned_of_names_and_types_that_the_call_does_not_have(
    edit: Any, warning: str
) -> None:
    args = {"n": 500, "all": True, "none": None}
    question = dataclasses.replace(question_of("1"), about=json.dumps({"args": args}))
    assert doubts(question, edit) == warning


class TestAnswers:
    def test_an_approved_call_runs(self, mail, path, background, governed) -> None:
        called = background.submit(mail, "ada@example.com")
        question = waiting(path)
        StoreQuestions(path).answer(question, Answer("approved", "u-17"))
        assert called.result(10) == "sent to ada@example.com"
        attributes = governed.attributes("execute_tool send_email")
        assert attributes[semconv.APPROVAL_STATUS] == "approved"
        assert attributes[semconv.APPROVAL_APPROVER_TYPE] == "human"
        assert attributes[semconv.APPROVAL_APPROVER_ID] == "u-17"

    def test_a_refused_call_does_not(self, mail, path, background) -> None:
        called = background.submit(mail, "ada@example.com")
        StoreQuestions(path).answer(waiting(path), Answer("rejected", "u-17"))
        with pytest.raises(Denied, match="Mail leaves the house"):
            called.result(10)

    def test_an_edit_is_what_runs(self, mail, path, background) -> None:
        called = background.submit(mail, "all@example.com")
        StoreQuestions(path).answer(
            waiting(path), Answer("approved", "u", {"to": "ada@example.com"})
        )
        assert called.result(10) == "sent to ada@example.com"

    def test_each_call_takes_its_own(self, mail, path, background) -> None:
        calls = [background.submit(mail, to) for to in "ab"]
        questions = StoreQuestions(path)
        while len(questions.all()) < 2:
            time.sleep(0.02)
        for question in questions.all():
            is_a = question.facts["args"] == {"to": "a"}
            questions.answer(question, Answer("approved" if is_a else "rejected", "u"))
        assert calls[0].result(10) == "sent to a"
        assert isinstance(calls[1].exception(10), Denied)

    @pytest.mark.parametrize("framework", ["asyncio", "trio"])
    def test_others_go_on_meanwhile(self, governed, path, framework, background) -> None:
        @otelhooks.tool
        async def send() -> str:
            return "sent"

        governed(policies=[policy.ask_user("send")], approvals=approvals.Queue(path))
        ticks: list[int] = []

        async def main() -> None:
            async def tick() -> None:
                while True:
                    ticks.append(1)
                    await anyio.sleep(0.01)

            async with anyio.create_task_group() as group:
                group.start_soon(tick)
                assert await send() == "sent"
                group.cancel_scope.cancel()

        def person() -> None:
            question = waiting(path)
            time.sleep(0.2)
            StoreQuestions(path).answer(question, Answer("approved", "u"))

        answering = background.submit(person)
        anyio.run(main, backend=framework)
        answering.result()
        assert len(ticks) > 5

    def test_no_answer_in_time_denies(self, governed, path) -> None:
        @otelhooks.tool
        def send() -> None: ...

        queue = approvals.Queue(path)
        governed(policies=[policy.ask_user("send")], approvals=queue, approval_timeout=0.3)
        with pytest.raises(Denied):
            send()
        [question] = StoreQuestions(path).all()
        assert question.status == "expired"
        with pytest.raises(ConfigError, match="already expired"):
            StoreQuestions(path).answer(question, Answer("approved", "u"))

    def test_a_cancelled_run_withdraws_its_question(self, governed, path) -> None:
        @otelhooks.tool
        async def send() -> None: ...

        governed(policies=[policy.ask_user("send")], approvals=approvals.Queue(path))

        async def main() -> None:
            run = asyncio.create_task(send())
            await asyncio.to_thread(waiting, path)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert [one.status for one in StoreQuestions(path).all()] == ["withdrawn"]

        asyncio.run(main())

    def test_a_question_is_answered_once(self, mail, path, background) -> None:
        called = background.submit(mail, "a")
        question = waiting(path)
        at_once = threading.Barrier(8)

        def person(number: int) -> str:
            own = StoreQuestions(path)
            at_once.wait()
            try:
                own.answer(question, Answer("approved", f"u-{number}"))
            except ConfigError as error:
                return str(error)
            return "answered"

        with concurrent.futures.ThreadPoolExecutor(8) as people:
            said = sorted(people.map(person, range(8)))
        assert said[0] == "answered"
        assert all("is already approved by u-" in each for each in said[1:])
        assert called.result(10) == "sent to a"

    def test_it_is_announced(self, mail, path, background, caplog) -> None:
        with caplog.at_level(logging.WARNING):
            called = background.submit(mail, "a")
            question = waiting(path)
            StoreQuestions(path).answer(question, Answer("rejected", "u"))
            called.exception(10)
        said = f"`send_email` waits for an answer: otelhooks approvals approve {question.id}"
        assert f"{said} --store {path}" in caplog.text

    def test_an_edit_is_kept_no_longer_either(self, mail, path, background) -> None:
        called = background.submit(mail, "all")
        question = waiting(path)
        StoreQuestions(path).answer(question, Answer("approved", "u", {"to": "ada"}))
        assert row_of(path, question.id)["about"] == ""
        called.result(10)
        assert row_of(path, question.id)["edit"] == "{}"

    def test_what_was_erased_is_in_no_file(self, mail, path, background) -> None:
        called = background.submit(mail, "old-" + "x" * 300)
        question = waiting(path)
        assert any(b"old-xxx" in file.read_bytes() for file in path.parent.iterdir())
        StoreQuestions(path).answer(question, Answer("approved", "u", {"to": "new-" + "y" * 300}))
        called.result(10)
        for file in path.parent.iterdir():
            assert b"old-xxx" not in file.read_bytes()
            assert b"new-yyy" not in file.read_bytes()

    def test_the_model_does_not_read_what_is_wrong_with_the_queue(
        self, mail, path, background
    ) -> None:
        called = background.submit(mail, "a")
        question = waiting(path)
        with changed(path) as database:
            database.execute("DELETE FROM questions")
        with pytest.raises(Denied) as denied:
            called.result(10)
        assert str(denied.value) == "Policy evaluation failed for policy 'send_email'."
        assert question.id not in str(denied.value)

    def test_arguments_are_kept_only_while_it_waits(self, mail, path, background) -> None:
        called = background.submit(mail, "a secret")
        question = waiting(path)
        assert "a secret" in row_of(path, question.id)["about"]
        StoreQuestions(path).answer(question, Answer("rejected", "u"))
        called.exception(10)
        assert "a secret" not in str(row_of(path, question.id))


class TestWhatIsShown:
    def test_a_field_that_repr_leaves_out_is_shown(self, governed, path, background) -> None:
        @dataclasses.dataclass
        class Mail:
            to: str
            bcc: str = dataclasses.field(repr=False)

        class Login(pydantic.BaseModel):
            name: str
            password: pydantic.SecretStr
            host: str = pydantic.Field(repr=False)

        @otelhooks.tool
        def send(mail: Mail, login: Login) -> None: ...

        governed(
            policies=[policy.ask_user("send")], approvals=approvals.Queue(path), approval_timeout=20
        )
        login = Login(name="n", password=pydantic.SecretStr("s3cret"), host="h")
        call = background.submit(send, Mail("ada", "eve"), login)
        question = waiting(path)
        assert question.facts["args"] == {
            "mail": {"to": "ada", "bcc": "eve"},
            "login": {"name": "n", "password": {"secret": "s3cret"}, "host": "h"},
        }
        StoreQuestions(path).answer(question, Answer("rejected", "u"))
        with pytest.raises(Denied):
            call.result(10)

    def test_arguments_that_json_cannot_tell_apart_are_denied(self, governed, path) -> None:
        @otelhooks.tool
        def run(commands: object) -> None: ...

        governed(
            policies=[policy.ask_user("run")], approvals=approvals.Queue(path), approval_timeout=20
        )
        with pytest.raises(Denied):
            run({1: "rm -rf ~", "1": "ls"})
        assert StoreQuestions(path).all() == []


class TestPlaces:
    def test_who_only_looks_writes_nothing(self, path) -> None:
        assert StoreQuestions(path).all() == []
        assert not path.parent.exists()

    def test_an_expired_question_is_shown_so_by_a_reader_without_rights(self, path) -> None:
        StoreQuestions(path).put(old := question_of("12345678", left=-1))
        path.chmod(0o400)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            [shown] = StoreQuestions(path).all()
        assert (shown.status, shown.about) == ("expired", "")
        assert row_of(path, old.id)["status"] == "pending"

    def test_the_next_question_erases_what_a_killed_program_asked(self, path) -> None:
        questions = StoreQuestions(path)
        questions.put(question_of("12345678", left=-1))
        questions.put(question_of("87654321"))
        assert row_of(path, "12345678")["about"] == ""

    def test_questions_of_an_earlier_version_that_wait_are_read_and_answered(self, path) -> None:
        questions = StoreQuestions(path)
        questions.put(question_of("a" * 32))
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            for column in LATER:
                database.execute(f"ALTER TABLE questions DROP COLUMN {column}")
        assert "send_email" in run(path, "list").output
        run(path, "deny", "a" * 32)
        assert questions.get("a" * 32).status == "rejected"

    def test_a_table_of_an_earlier_version_is_brought_up_to_date(self, path) -> None:
        StoreQuestions(path).prepare()
        with changed(path) as database:
            for column in LATER:
                database.execute(f"ALTER TABLE questions DROP COLUMN {column}")
        approvals.Queue(path)
        question = question_of("12345678")
        StoreQuestions(path).put(question)
        assert StoreQuestions(path).all() == [question]

    def test_of_many_that_have_ended_the_last_are_listed(self, path, monkeypatch) -> None:
        monkeypatch.setattr(store_questions, "_LISTED", 2)
        questions = StoreQuestions(path)
        for number, status in enumerate(("pending", *["rejected"] * 4)):
            asked = question_of(f"{number}")
            questions.put(dataclasses.replace(asked, asked_at=number, status=status))
        assert [one.id for one in questions.all()] == ["0", "3", "4"]

    def test_a_store_that_is_locked_when_the_answer_comes_delays_the_call(
        self, mail, path, background, monkeypatch
    ) -> None:
        monkeypatch.setattr(store_questions, "_BUSY_S", 0.5)
        called = background.submit(mail, "ada")
        question = waiting(path)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            row = "status = 'approved', approver = 'u', kind = 'human', seen = ?"
            other.execute(f"UPDATE questions SET {row}", (question.digest,))
            other.execute("COMMIT")
            other.execute("BEGIN IMMEDIATE")
            time.sleep(1)  # longer than the queue waits for a lock
            assert not called.done()
            other.execute("ROLLBACK")
        assert called.result(10) == "sent to ada"

    def test_an_answer_in_the_last_moment_is_taken_or_refused(self, governed, path) -> None:
        """A question expires a little earlier than its call."""

        @otelhooks.tool
        def send_email(to: str) -> str:
            return f"sent to {to}"

        governed(
            policies=[policy.ask_user("send_email")],
            approvals=approvals.Queue(path),
            approval_timeout=2,
        )
        with concurrent.futures.ThreadPoolExecutor() as background:
            called = background.submit(send_email, "ada")
            question = waiting(path)
            assert question.expires_at - question.asked_at == pytest.approx(1.8)
            while time.time() < question.expires_at - 0.02:
                time.sleep(0.005)
            with contextlib.suppress(ConfigError):
                StoreQuestions(path).answer(question, Answer("approved", "u"))
            is_approved = StoreQuestions(path).find(question.id).status == "approved"
            if is_approved:
                assert called.result(10) == "sent to ada"
            else:
                with pytest.raises(Denied):
                    called.result(10)


class TestSeveralApprovers:
    @pytest.fixture
    def called(self, governed, path, background) -> concurrent.futures.Future[str]:
        @otelhooks.tool
        def send_email() -> str:
            return "sent"

        queue = approvals.Queue(path, needs=2)
        governed(policies=[policy.ask_user("send_email")], approvals=queue, approval_timeout=20)
        return background.submit(send_email)

    def test_all_of_them_approve(self, called, path, governed) -> None:
        questions, question = StoreQuestions(path), waiting(path)
        assert questions.answer(question, Answer("approved", "a")) == "pending"
        assert f"{question.id}  " in run(path, "list").output
        assert ", approved by a" in run(path, "list").output
        with pytest.raises(ConfigError, match="a has approved question"):
            questions.answer(question, Answer("approved", "a"))
        time.sleep(0.3)
        assert not called.done()
        assert questions.answer(question, Answer("approved", "b")) == "approved"
        assert called.result(10) == "sent"
        attributes = governed.attributes("execute_tool send_email")
        assert attributes[semconv.APPROVAL_APPROVER_ID] == "a, b"

    def test_one_refuses(self, called, path) -> None:
        questions, question = StoreQuestions(path), waiting(path)
        questions.answer(question, Answer("approved", "a"))
        assert run(path, "deny", question.id, "--as", "b").exit_code == 0
        assert isinstance(called.exception(10), Denied)

    def test_who_refuses_is_named_alone(self, called, path, governed) -> None:
        questions, question = StoreQuestions(path), waiting(path)
        questions.answer(question, Answer("approved", "ada"))
        questions.answer(question, Answer("rejected", "bob"))
        called.exception(10)
        attributes = governed.attributes("execute_tool send_email")
        assert attributes[semconv.APPROVAL_APPROVER_ID] == "bob"

    def test_a_service_among_them_is_told(self, called, path, governed) -> None:
        questions, question = StoreQuestions(path), waiting(path)
        questions.answer(question, Answer("approved", "bot", kind="service"))
        questions.answer(question, Answer("approved", "ada"))
        called.result(10)
        attributes = governed.attributes("execute_tool send_email")
        assert attributes[semconv.APPROVAL_APPROVER_TYPE] == "service"

    def test_blanks_within_a_name_do_not_make_two_approvers_of_it(self) -> None:
        question = dataclasses.replace(question_of("12345678"), needs=2, approver="ada l")
        with pytest.raises(ConfigError, match="has approved question"):
            check(question, Answer("approved", "Ada  L"))

    @pytest.mark.parametrize(
        "name", ["ada", " ada ", "ADA", "\uff41da", "ada\u200b", "\x1b[31mada"]
    )
    def test_one_name_in_two_forms_is_one_approver(self, called, path, name) -> None:
        questions, question = StoreQuestions(path), waiting(path)
        questions.answer(question, Answer("approved", "ada"))
        with pytest.raises(ConfigError, match=r"has approved question|is not the name of one"):
            questions.answer(question, Answer("approved", name))
        questions.answer(question, Answer("rejected", "bob"))
        called.exception(10)

    def test_none_changes_what_others_approve(self, called, path) -> None:
        questions, question = StoreQuestions(path), waiting(path)
        with pytest.raises(ConfigError, match="needs 2 approvers of the same call"):
            questions.answer(question, Answer("approved", "a", {"x": 1}))
        questions.answer(question, Answer("rejected", "a"))
        called.exception(10)

    def test_one_does_not_pass_for_two(self, called, path) -> None:
        questions, question = StoreQuestions(path), waiting(path)
        with pytest.raises(ConfigError, match="`a, b` is not the name of one approver"):
            questions.answer(question, Answer("approved", "a, b"))
        with changed(path) as database:
            database.execute("UPDATE questions SET needs = 1")
        questions.answer(question, Answer("approved", "a"))
        with pytest.raises(Denied, match="Policy evaluation failed"):
            called.result(10)

    def test_they_approve_the_same_call(self, called, path) -> None:
        questions, question = StoreQuestions(path), waiting(path)
        questions.answer(question, Answer("approved", "a"))
        with changed(path) as database:
            database.execute("UPDATE questions SET about = replace(about, '{}', '{\"x\": 1}')")
        with pytest.raises(ConfigError, match="is for another call"):
            questions.answer(questions.find(question.id), Answer("approved", "b"))
        questions.answer(question, Answer("rejected", "c"))
        called.exception(10)

    def test_no_one_is_an_error(self, path) -> None:
        with pytest.raises(ConfigError, match="no one would have to approve"):
            approvals.Queue(path, needs=0)


@pytest.fixture
def logged(monkeypatch):
    """What is logged from now on, between the phases of a test too, where `caplog` gets nothing."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    monkeypatch.setattr(logging.getLogger("otelhooks"), "handlers", [handler])
    return messages


class TestRoles:
    @pytest.fixture
    def called(self, governed, path, background) -> concurrent.futures.Future[str]:
        @otelhooks.tool
        def send_email() -> str:
            return "sent"

        queue = approvals.Queue(path, needs=["finance", "security"])
        governed(policies=[policy.ask_user("send_email")], approvals=queue, approval_timeout=20)
        return background.submit(send_email)

    def test_one_of_each_must_approve(self, called, path, governed) -> None:
        questions, question = StoreQuestions(path), waiting(path)
        assert "finance and security must approve" in run(path, "show", question.id).output
        for roles in ((), ("sales",), ("Finance",)):
            with pytest.raises(ConfigError, match="the approval of finance and security"):
                questions.answer(question, Answer("approved", "eve", roles=roles))
        ada = Answer("approved", "ada", roles=("finance", "security"))
        assert questions.answer(question, ada) == "pending"
        assert "approved by ada (finance)" in run(path, "list").output
        with pytest.raises(ConfigError, match="has approved question"):
            questions.answer(question, ada)
        with pytest.raises(ConfigError, match="waits for the approval of security"):
            questions.answer(question, Answer("approved", "eve", roles=("finance",)))
        bob = Answer("approved", "bob", roles=("security",))
        assert questions.answer(question, bob) == "approved"
        assert called.result(10) == "sent"
        attributes = governed.attributes("execute_tool send_email")
        assert attributes[semconv.APPROVAL_APPROVER_ID] == "ada (finance), bob (security)"

    def test_the_log_says_that_a_role_is_needed(self, logged, called, path) -> None:
        id = waiting(path).id
        run(path, "deny", id)
        called.exception(10)
        said = next(m for m in logged if id[:8] in m and "waits for an answer" in m)
        assert said.endswith(" --role ROLE (finance and security must approve)")

    def test_anyone_may_refuse(self, called, path, governed) -> None:
        questions, question = StoreQuestions(path), waiting(path)
        questions.answer(question, Answer("approved", "ada", roles=("finance",)))
        assert run(path, "deny", question.id, "--as", "eve").exit_code == 0
        assert isinstance(called.exception(10), Denied)
        attributes = governed.attributes("execute_tool send_email")
        assert attributes[semconv.APPROVAL_APPROVER_ID] == "eve"

    @pytest.mark.parametrize("roles", ["", "finance", "finance, finance", "finance, x", "a, b, c"])
    def test_an_answer_that_was_written_without_them_denies(self, called, path, roles) -> None:
        question = waiting(path)
        fields = {"status": "approved", "approver": "a, b", "seen": question.digest}
        StoreQuestions(path).change(question.id, {}, fields | {"roles": roles})
        with pytest.raises(Denied, match="Policy evaluation failed"):
            called.result(10)

    @pytest.mark.parametrize(
        ("needs", "problem"),
        [
            ("finance", r"give `needs=\['finance'\]`"),
            ([], "no one would have to approve"),
            (["a, b"], "is not a role"),
            ([" "], "is not a role"),
            (["\u202e"], "is not a role"),
        ],
    )
    def test_roles_that_cannot_be_told_apart_are_errors(self, path, needs, problem) -> None:
        with pytest.raises(ConfigError, match=problem):
            approvals.Queue(path, needs=needs)


class TestNotify:
    def test_people_are_reminded_and_others_asked(self, governed, path, background) -> None:
        @otelhooks.tool
        def send_email() -> None: ...

        said: list[tuple[str, Question]] = []
        notify = {
            0.4: lambda question: said.append(("boss", question)),
            0: lambda question: said.append(("desk", question)),
            0.2: lambda question: said.append(("desk", question)),
            60: lambda question: said.append(("never", question)),
        }
        queue = approvals.Queue(path, notify=notify)
        governed(policies=[policy.ask_user("send_email")], approvals=queue)
        called = background.submit(send_email)
        question = waiting(path)
        until = time.monotonic() + 10
        while len(said) < 3 and time.monotonic() < until:
            time.sleep(0.02)
        StoreQuestions(path).answer(question, Answer("rejected", "u"))
        called.exception(10)
        assert [who for who, _ in said] == ["desk", "desk", "boss"]
        assert {each.id for _, each in said} == {question.id}


class TestForgery:
    def test_an_answer_to_another_question_than_was_asked_denies(
        self, mail, path, background
    ) -> None:
        """Whoever writes to the store shows the approver other arguments than will run."""
        called = background.submit(mail, "all@example.com")
        question = waiting(path)
        harmless = question.about.replace("all@", "ada@")
        with changed(path) as database:
            database.execute("UPDATE questions SET about = ?", (harmless,))
        shown = StoreQuestions(path).find(question.id)
        StoreQuestions(path).answer(shown, Answer("approved", "u"))
        with pytest.raises(Denied, match="Policy evaluation failed"):
            called.result(10)

    def test_an_answer_to_another_call_does_not_count(self, mail, path, background) -> None:
        called = background.submit(mail, "a")
        question = waiting(path)
        with changed(path) as database:
            database.execute(
                "UPDATE questions SET status = 'approved', approver = 'u', seen = 'other'"
            )
        with pytest.raises(Denied, match="Policy evaluation failed"):
            called.result(10)
        assert StoreQuestions(path).find(question.id).status == "approved"

    def test_a_question_that_was_removed_denies(self, mail, path, background) -> None:
        called = background.submit(mail, "a")
        waiting(path)
        with changed(path) as database:
            database.execute("DELETE FROM questions")
        with pytest.raises(Denied, match="Policy evaluation failed"):
            called.result(10)

    @pytest.mark.parametrize(("place", "mode"), [("", 0o620), ("", 0o602), ("..", 0o777)])
    def test_a_store_that_others_may_write_is_refused(self, path, place, mode) -> None:
        StoreQuestions(path).prepare()
        os.chmod(path / place if place == "" else path.parent, mode)
        with pytest.raises(ConfigError, match="other users may write"):
            approvals.Queue(path)

    def test_nor_is_one_of_another_user(self, path, monkeypatch) -> None:
        StoreQuestions(path).prepare()
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        os.chown(path, 12345, -1) if os.getuid() == 0 else None
        with pytest.raises(ConfigError, match="belongs to another user"):
            approvals.Queue(path)

    def test_nor_is_one_below_a_folder_that_others_may_write(self, path) -> None:
        StoreQuestions(path).prepare()
        path.parent.parent.chmod(0o770)
        approvals.Queue(path)
        path.parent.parent.chmod(0o777)
        with pytest.raises(ConfigError, match="other users may write"):
            approvals.Queue(path)

    @pytest.mark.parametrize(
        "place", ["http://x", "REDIS://x", "unix:///s", "redis+sentinel://x", "localhost:6379/0"]
    )
    def test_an_address_is_not_taken_for_a_file(self, tmp_path, monkeypatch, place) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ConfigError, match="looks like an address"):
            approvals.Queue(place)
        assert list(tmp_path.iterdir()) == []

    def test_a_file_that_is_no_store_is_an_error_at_the_start(self, tmp_path) -> None:
        place = tmp_path / "text"
        place.write_text("a note")
        with pytest.raises(ConfigError, match="is not an otelhooks store"):
            approvals.Queue(place)

    @pytest.mark.parametrize("problem", ["database or disk is full", "database is locked"])
    def test_a_store_without_room_at_the_start_denies_until_it_has_some(
        self, governed, path, background, monkeypatch, caplog, problem
    ) -> None:
        def refuse(*_: object) -> None:
            raise sqlite3.OperationalError(problem)

        @otelhooks.tool
        def act() -> str:
            return "done"

        monkeypatch.setattr(store_questions, "_BUSY_S", 0.0)
        with monkeypatch.context() as patched:
            patched.setattr(schema, "open_for_writing", refuse)
            governed(policies=[policy.ask_user("act")], approvals=approvals.Queue(path))
            assert "questions cannot be written down yet, so what needs an answer" in caplog.text
            with pytest.raises(Denied, match="No one could be asked"):
                act()
        assert caplog.text.count(f"{problem}\nhint: ") == 2
        called = background.submit(act)
        waiting(path)
        assert run(path, "deny", waiting(path).id).exit_code == 0
        assert isinstance(called.exception(10), Denied)

    @pytest.mark.parametrize("park", [False, True])
    def test_a_store_that_others_may_write_is_refused_also_once_it_has_room(
        self, path, monkeypatch, park
    ) -> None:
        """Class of the fault: a check that only the start makes, skipped by what failed there."""

        def refuse(*_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(schema, "open_for_writing", refuse)
            queue = approvals.Queue(path, park=park)
        StoreQuestions(path).prepare()
        path.chmod(0o666)
        call = types.ToolCall(name="act", args={})
        with pytest.raises((ConfigError, approvals.Unavailable), match="other users may write"):
            queue.parked("key", "id")(call) if park else asyncio.run(queue(call))
        assert queue._questions.kept() == []

    def test_a_script_cannot_approve(self, mail, path, background, governed) -> None:
        called = background.submit(mail, "a")
        question = waiting(path)
        result = run(path, "approve", question.id)
        assert result.exit_code == 2
        assert "approving needs a terminal" in result.output
        assert run(path, "deny", question.id).exit_code == 0
        assert isinstance(called.exception(10), Denied)
        attributes = governed.attributes("execute_tool send_email")
        assert attributes[semconv.APPROVAL_APPROVER_TYPE] == "service"


class TestCommands:
    @pytest.mark.parametrize(
        ("parked", "why"),
        [("", "the program may have ended"), ("key", "its run waits to be resumed")],
    )
    def test_list_says_that_no_process_has_taken_an_approval(self, path, parked, why) -> None:
        questions = StoreQuestions(path)
        question = dataclasses.replace(question_of("12345678"), parked=parked)
        questions.put(question)
        questions.answer(question, Answer("approved", "u-17"))
        said = f", but no process has taken the answer: {why}  send_email"
        assert f"12345678  approved by u-17{said}" in run(path, "list", "--all").output
        assert '"taken": false' in run(path, "list", "--all", "--json").output
        questions.answer_of(question)
        assert "12345678  approved by u-17  send_email" in run(path, "list", "--all").output

    def test_list_shows_what_waits(self, mail, path, background) -> None:
        called = background.submit(mail, "a")
        question = waiting(path)
        result = run(path, "list")
        assert result.output.startswith(f"{question.id}  20 s left  send_email  ") or (
            result.output.startswith(f"{question.id}  19 s left  send_email  ")
        )
        [record] = [json.loads(line) for line in run(path, "list", "--json").stdout.splitlines()]
        assert record["args"] == {"to": "a"}
        assert record["rule"] == "mail"
        assert run(path, "deny", question.id, "--as", "u-17").exit_code == 0
        called.exception(10)
        assert run(path, "list").output == f"no call waits for an answer in `{path}`\n"
        assert "rejected by u-17" in run(path, "list", "--all").output

    def test_show_has_the_whole_call(self, mail, path, background) -> None:
        called = background.submit(mail, "a" * 500 + "\x1b[2J")
        question = waiting(path)
        shown = run(path, "show", question.id).output
        assert shown.count("a") > 500
        assert "\x1b" not in shown
        assert "rule: mail" in shown
        assert "reason: Mail leaves the house." in shown
        assert json.loads(run(path, "show", question.id, "--json").stdout)["tool"] == "send_email"
        run(path, "deny", question.id)
        called.exception(10)
        assert "were erased when the question ended" in run(path, "show", question.id).output

    @pytest.mark.parametrize("command", ["show", "deny"])
    def test_an_unknown_id_is_an_error(self, path, command) -> None:
        StoreQuestions(path).prepare()
        result = run(path, command, "12345678")
        assert result.exit_code == 2
        assert "there is no question `12345678`" in result.output

    def test_an_answer_that_no_one_takes_is_told(self, path) -> None:
        about = json.dumps({"args": {}, "program": "app.py", "pid": 1, "reason": "", "rule": ""})
        now = time.time()
        StoreQuestions(path).put(Question("12345678", now, now + 60, "pending", "t", about))
        result = run(path, "deny", "12345678")
        assert result.exit_code == 1
        assert (
            "app.py (pid 1) has not taken the answer in 2 s\nhint: if it has ended" in result.output
        )

    def test_the_first_digits_of_an_id_are_enough(self, path) -> None:
        for id in ("12345678", "12999999"):
            StoreQuestions(path).put(question_of(id))
        assert "12345678" in run(path, "show", "123").output
        assert "several questions start with `12`" in run(path, "show", "12").output
        assert "there is no question `13`" in run(path, "show", "13").output
        assert run(path, "show", "").exit_code == 2

    def test_a_missing_store_is_an_error_and_stays_missing(self, path) -> None:
        assert run(path, "list").exit_code == 2
        assert not path.exists()

    def test_what_has_ended_is_forgotten_after_a_week(self, path) -> None:
        now = time.time()
        questions = StoreQuestions(path)
        for id, age in (("a", 8 * 86_400), ("b", 60)):
            questions.put(Question(id, now - age, now - age + 30, "pending", "t", "{}"))
        questions.put(Question("c", now, now + 30, "pending", "t", "{}"))
        assert {one.id: one.status for one in questions.all()} == {"b": "expired", "c": "pending"}
