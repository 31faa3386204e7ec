"""The replay itself, with AgentDojo: `make dojo` runs this before it measures."""

from __future__ import annotations

import fnmatch
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

import otelhooks
from otelhooks import policy
from tests.dojo.attacks import BY_HAND
from tests.dojo.person import Person
from tests.dojo.replay import AFTER, FIRST, Player
from tests.dojo.score import POLICIES, SUITES
from tests.dojo.suites import Bench


@pytest.fixture(scope="module", params=SUITES)
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


def player(bench: Bench, *policies: Any) -> Player:
    person = Person()
    otelhooks.instrument(policies=policies, approvals=person, frameworks={"cohere": "off"})
    return Player(bench, person)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str):
        yield value


def test_without_a_policy_each_task_is_done_with_the_suites_parameters(bench: Bench) -> None:
    playing = player(bench)
    tasks = bench.suite.user_tasks.values()
    assert [task.ID for task in tasks if not playing.play(task).task] == []


def test_rules_see_the_parameters_that_a_model_would_pass(bench: Bench) -> None:
    for function in bench.suite.tools:
        given = inspect.signature(bench.tools[function.name]).parameters
        assert list(given) == list(function.parameters.model_fields)


def test_each_attack_works_without_a_policy_those_by_hand_too(bench: Bench) -> None:
    playing = player(bench)
    first = next(iter(bench.suite.user_tasks.values()))
    for attack in bench.suite.injection_tasks.values():
        by_hand = (bench.suite.name, attack.ID) in BY_HAND
        assert by_hand == (not attack.ground_truth(bench.fresh()))
        assert playing.play(first, attack).attack, attack.ID


def test_what_is_denied_is_not_executed(bench: Bench) -> None:
    playing = player(bench, policy.deny("*"))
    for order in (AFTER, FIRST):
        for attack in bench.suite.injection_tasks.values():
            run = playing.play(next(iter(bench.suite.user_tasks.values())), attack, order)
            # One attack only wants the agent to say something: no rule about calls can stop it.
            assert (run.task, run.attack) == (False, bool(attack.GROUND_TRUTH_OUTPUT))


def test_rules_name_tools_of_the_suite_and_nothing_out_of_its_tasks(bench: Bench) -> None:
    tasks = (*bench.suite.user_tasks.values(), *bench.suite.injection_tasks.values())
    values = {
        text
        for task in tasks
        for call in task.ground_truth(bench.fresh())
        for text in strings(dict(call.args))
        if len(text) > 3
    }
    for mode in ("ask", "deny"):
        file = POLICIES / mode / f"{bench.suite.name}.yaml"
        text = file.read_text(encoding="utf-8")
        words = (rf"(?<!\w){re.escape(value)}(?!\w)" for value in values)
        assert [word for word in words if re.search(word, text)] == []
        for entry in yaml.safe_load(text)["policies"]:
            for name in strings([entry.get(key) for key in ("label", "ask", "deny")]):
                assert fnmatch.filter(bench.tools, name), name
