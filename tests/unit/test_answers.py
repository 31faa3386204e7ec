"""Calls that a model's answer asked for, and their permits."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from otelhooks.hooks.calls import Call
from otelhooks.hooks.verdict import Verdict
from otelhooks.pipeline import answers as module
from otelhooks.pipeline.answers import Answers, Asked, Owner
from otelhooks.pipeline.sessions import Session

SESSION = Session()
OWNER = Owner(weakref.ref(SESSION), "", 0)


def asked(id: str, name: str = "read", reason: str | None = None, **args: object) -> Asked:
    made = Asked(id, name, args)
    made.reason, made.owner = reason, OWNER
    made.verdict = Verdict("pre_tool_call")
    return made


def take(answers: Answers, call: Call, given: Any, owner: Owner = OWNER) -> Any:
    return answers.take(owner, "", call, given)


@pytest.fixture
def answers() -> Answers:
    return Answers()


class TestPermits:
    def test_one_is_taken_once_by_id_name_and_arguments(self, answers):
        answers.book(call := asked("c1", x=1))
        assert take(answers, Call("read", {"x": 1}, "c1"), {"x": 1}) is call.verdict
        assert take(answers, Call("read", {"x": 1}, "c1"), {"x": 1}) is None

    @pytest.mark.parametrize(
        ("name", "given"), [("write", {"x": 1}), ("read", {"x": 2}), ("read", {"x": True})]
    )
    def test_another_name_or_other_arguments_take_none(self, answers, name, given):
        answers.book(asked("c1", x=1))
        assert take(answers, Call(name, given, "c1"), given) is None

    def test_a_denied_call_leaves_none(self, answers):
        answers.book(asked("c1", reason="No.", x=1))
        assert take(answers, Call("read", {"x": 1}, "c1"), {"x": 1}) is None

    def test_a_call_without_an_id_takes_the_oldest_that_fits(self, answers):
        first, second = asked("c1", x=1), asked("c2", x=1)
        answers.book(first)
        answers.book(second)
        call = Call("read", {"x": 1})
        assert take(answers, call, {"x": 1}) is first.verdict
        assert call.id == "c1"

    def test_an_id_that_is_asked_for_again_forgets_the_call_before(self, answers):
        answers.book(asked("c1", x=1))
        answers.book(asked("c1", "write", reason="No.", x=1))
        assert take(answers, Call("read", {"x": 1}), {"x": 1}) is None

    def test_whole_floats_are_integers(self, answers):
        answers.book(call := asked("c1", x=[1.0, {"y": 2.0}]))
        given = {"x": [1, {"y": 2}]}
        assert take(answers, Call("read", given, "c1"), given) is call.verdict

    @pytest.mark.parametrize(
        "owner", [OWNER._replace(branch="a"), OWNER._replace(trace_id=7), OWNER._replace(run=None)]
    )
    @pytest.mark.parametrize("id", ["c1", None])
    def test_another_owner_takes_none(self, answers, owner, id):
        answers.book(call := asked("c1", x=1))
        assert take(answers, Call("read", {"x": 1}, id), {"x": 1}, owner) is None
        assert take(answers, Call("read", {"x": 1}, id), {"x": 1}) is call.verdict

    def test_it_ends_with_its_owner(self, answers):
        session = Session()
        owner = Owner(weakref.ref(session), "", 0)
        answers.book(call := asked("c1", x=1))
        call.owner = owner
        del session
        later = Owner(weakref.ref(Session()), "", 0)
        assert take(answers, Call("read", {"x": 1}, "c1"), {"x": 1}, later) is None

    def test_arguments_are_not_kept_once_they_are_used(self, answers):
        answers.book(call := asked("c1", text="long"))
        take(answers, Call("read", {"text": "long"}, "c1"), {"text": "long"})
        assert call.args == {}

    def test_what_the_caller_changes_later_does_not_count(self, answers):
        args = {"x": [1]}
        answers.book(call := Asked("c1", "read", args))
        call.owner = OWNER
        args["x"].append(2)
        assert take(answers, Call("read", args, "c1"), args) is None
        assert call.args == {"x": [1]}


def test_two_calls_of_one_id_are_both_known(answers):
    first, second = asked("c1", x=1), asked("c1", x=2)
    for call in (first, second):
        answers.book(call)
    assert answers.find("", "c1", first.digest) is first
    assert answers.find("", "c1", second.digest) is second
    assert answers.find("", "c1") is second


def test_one_that_is_repeated_with_other_arguments_is_the_newest_of_its_id_and_name(answers):
    answers.book(call := asked("c1", x=1))
    assert answers.find("", "c1", module.digest_of("read", {})) is call
    assert answers.find("", "c1", module.digest_of("write", {})) is None
    assert answers.find("other", "c1", module.digest_of("read", {})) is None


def test_the_oldest_are_forgotten(answers, monkeypatch):
    monkeypatch.setattr(module, "_MOST", 3)
    for number in range(5):
        answers.book(asked(f"c{number}", x=number))
    assert [answers.find("", f"c{number}") is not None for number in range(5)] == [
        *(False, False),
        *(True, True, True),
    ]
    assert take(answers, Call("read", {"x": 0}), {"x": 0}) is None
