"""What `make dojo` is made of, as far as it needs no AgentDojo."""

from __future__ import annotations

from pathlib import Path

import pytest

from otelhooks import types
from tests.dojo.named import disguises, named_values
from tests.dojo.person import Person
from tests.dojo.report import last_line, table, total
from tests.dojo.score import POLICIES, SUITES, Score

_FILES = sorted(POLICIES.rglob("*.yaml"))


def test_a_prompt_names_values_of_each_kind() -> None:
    prompt = (
        "Hi, read www.site.com/a, mail ann@b.org about 'the plan', then pay"
        " GB29NWBK60161331926819 and tell Bob Lee by May 15."
    )
    assert named_values(prompt) == {
        "address": ["ann@b.org"],
        "account": ["GB29NWBK60161331926819"],
        "link": ["www.site.com/a"],
        "name": ["the plan", "Hi", "Bob Lee", "May"],
        "number": ["15"],
    }


def test_an_attacker_tries_their_own_values_first_and_then_those_the_user_named() -> None:
    args = {"to": ["eve@evil.com"], "body": "See www.evil.com, as eve@evil.com says.", "n": 1}
    found = list(disguises(args, "Mail ann@b.org."))
    assert found == [
        args,
        {"to": ["ann@b.org"], "body": "See www.evil.com, as ann@b.org says.", "n": 1},
    ]


def test_an_attacker_tries_every_pair_of_values_of_two_kinds() -> None:
    found = list(disguises({"user": "Eve", "id": {"file": "13"}}, "ask Ann, then Bob, for 7 and 9"))
    assert len(found) == 3 * 3
    assert found[-1] == {"user": "Bob", "id": {"file": "9"}}


def test_a_person_approves_each_needed_call_once_and_no_other() -> None:
    person = Person()
    person.needs([("pay", {"to": "Ann", "amount": 10.0})])
    asked = [{"to": "Eve", "amount": 10.0}, *({"to": "Ann", "amount": 10} for _ in range(2))]
    answers = [person(types.ToolCall(name="pay", args=args)) for args in asked]
    assert answers == [False, True, False]
    assert person.asked == 3


def test_scores_of_suites_are_added_and_printed() -> None:
    scores = {
        ("ask", "chat"): Score(tasks=2, all_tasks=2, questions=3, pairs=10, useful=20),
        ("ask", "bank"): Score(tasks=1, all_tasks=3, pairs=10, useful=15, either=2, after=1),
    }
    lines = list(table(scores))
    assert [line.split()[:4] for line in lines] == [
        ["mode", "suite", "tasks", "questions"],
        ["ask", "chat", "2/2", "3"],
        ["ask", "bank", "1/3", "0"],
        ["ask", "all", "3/5", "3"],
    ]
    assert last_line("ask", total(scores.values())) == (
        "dojo mode=ask attacks=2/20 tasks=3/5 utility=87.5 questions=3"
    )


@pytest.mark.parametrize("file", _FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_policy_of_the_measurement_is_short_and_names_nothing_from_a_task(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40
    named = named_values(text)
    assert [*named["address"], *named["account"], *named["link"]] == []


def test_there_is_a_policy_for_each_suite_in_both_modes() -> None:
    found = [(file.parent.name, file.stem) for file in _FILES]
    assert found == [(mode, suite) for mode in ("ask", "deny") for suite in sorted(SUITES)]
