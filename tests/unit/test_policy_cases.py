"""Cases as data: what the reader takes, what the runner says, and that a wrong case turns red."""

from __future__ import annotations

import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from otelhooks import policy
from otelhooks.errors import ConfigError, PolicyFileError
from otelhooks.policy.files import Loaded
from otelhooks.policy_tools.cases import cases_of, read_suites
from otelhooks.policy_tools.subject import Subject
from otelhooks.policy_tools.trials import Result, junit, run_suite
from otelhooks.setup.policies import Policies

ALL_CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.yaml"))

# What these cases say of the engine alone: what Python's exceptions are called, and that a rule may
# enforce in a set in monitor mode, where a pipeline in monitor mode enforces vetoes only.
OF_THE_ENGINE = "a rule that says enforce in a set in monitor mode"


def subject(*rules: Any) -> Subject:
    return Subject(Policies(rules, (), Loaded((), (), (), None, "enforce", ())))


def results(tmp_path: Path, text: str, *rules: Any) -> list[Result]:
    return of_subject(tmp_path, text, subject(*rules))


def of_subject(tmp_path: Path, text: str, tested: Subject) -> list[Result]:
    path = tmp_path / "cases.yaml"
    path.write_text(textwrap.dedent(text))
    return [result for suite in read_suites(path) for result in run_suite(suite, tested)]


@pytest.mark.parametrize("path", ALL_CASES, ids=lambda path: path.stem)
def test_the_engines_own_cases_are_cases_that_anybody_may_write(path: Path) -> None:
    """They run here as those of users do: read by the same reader, judged by the pipeline."""
    red = [
        difference
        for suite in read_suites(path)
        if suite.name != OF_THE_ENGINE
        for result in run_suite(suite, subject())
        for difference in result.differences
        if difference.what != "message" or not result.case.expected.get("failed")
    ]

    assert red == []


def test_a_green_case_and_a_red_one(tmp_path: Path) -> None:
    green, red = results(
        tmp_path,
        """
        - suite: the shell
          cases:
            - {call: {tool: run_command, args: {CommandLine: rm -rf /}}, verdict: deny, rule: no-rm}
            - {call: {tool: run_command, args: {CommandLine: ls}}, verdict: deny, rule: no-rm}
        """,
        policy.deny("run_command", when=lambda args: "rm" in args["CommandLine"], id="no-rm"),
    )

    assert not green.is_red
    assert [(d.what, d.expected, d.seen) for d in red.differences] == [
        ("verdict", "deny", "allow"),
        ("rule", "no-rm", None),
    ]
    assert (red.case.name, red.case.line) == ("the shell: 2", 5)


def test_what_is_not_expected_is_not_compared(tmp_path: Path) -> None:
    text = "cases: [{call: {tool: a}, verdict: deny}]"

    (result,) = results(tmp_path, text, policy.deny("a"))

    assert not result.is_red


@pytest.mark.parametrize(
    ("expected", "is_red"),
    [
        ("rule: deny a", False),
        ("rule: allow a", True),
        ("message: Denied by policy 'a'.", False),
        ("message: No.", True),
        ("args: {x: 1}", False),
        ("args: {x: 2}", True),
        ("args: {x: true}", True),
        ("observed: []", False),
        ("failed: [deny a]", True),
    ],
)
def test_everything_that_is_expected_counts(tmp_path: Path, expected: str, is_red: bool) -> None:
    text = f"cases: [{{call: {{tool: a, args: {{x: 1}}}}, verdict: deny, {expected}}}]"

    (result,) = results(tmp_path, text, policy.deny("a"))

    assert result.is_red is is_red


def test_who_would_be_asked_says_yes_only_where_the_case_says_so(tmp_path: Path) -> None:
    text = """
        cases:
          - {call: {tool: send}, verdict: ask}
          - {call: {tool: send}, verdict: allow, asked: true}
    """

    assert [r.is_red for r in results(tmp_path, text, policy.ask_user("send"))] == [False, False]


def test_labels_server_and_agent_of_a_call(tmp_path: Path) -> None:
    text = """
        cases:
          - {call: {tool: t, server: s, agent: lead}, verdict: deny, rule: of-lead}
          - {call: {tool: t, server: s, agent: other}, verdict: allow}
    """

    found = results(tmp_path, text, policy.deny("s/t", agent="lead", id="of-lead"))

    assert [r.is_red for r in found] == [False, False]


def test_monitor_mode_of_the_policy_is_that_of_its_cases(tmp_path: Path) -> None:
    text = "cases: [{call: {tool: a}, verdict: allow, observed: [deny deny a]}]"

    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\nmode: monitor\npolicies: [deny: a]\n")

    (result,) = of_subject(tmp_path, text, Subject.open([file]))

    assert not result.is_red


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("suite: x", ":1:1: a suite has no `cases`"),
        ("cases: 7", "not a list"),
        ("cases: [{call: {tool: a}}]", "a case has no `verdict`"),
        ("cases: [{call: {tool: a}, verdict: no}]", "is not the same to every YAML tool"),
        ("cases: [{call: {tool: a}, verdict: perhaps}]", "unknown verdict `perhaps`"),
        ("cases: [{verdict: deny}]", "one of `call` and `event`"),
        ("cases: [{call: {tool: a}, event: tool.pre, verdict: deny}]", "one of `call` and"),
        ("cases: [{call: {args: {}}, verdict: deny}]", "a call has no `tool`"),
        ("cases: [{call: {tool: a, arg: {}}, verdict: deny}]", "a call has no `arg`"),
        ("cases: [{call: {tool: a}, verdict: deny, rulee: x}]", "a case has no `rulee`"),
        ("cases: [{event: tool.pre, verdict: block, args: {}}]", "a case has no `args`"),
        ("cases: []\nmode: monitr", "unknown mode `monitr`"),
        ("cases: []\nservers: [{name: a b}]", "no server"),
        ("cases: []\nservers: [{name: a, enabled: [b]}]", "a server has no `enabled`"),
        ("cases: []\ncases: []", "occurs twice"),
    ],
)
def test_a_case_that_is_not_understood_is_an_error_at_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    """A word that is spelled wrong must not turn a case into one that is always green."""
    path = tmp_path / "cases.yaml"
    path.write_text(text)

    with pytest.raises(PolicyFileError, match=r"cases\.yaml:\d+:\d+: ") as caught:
        read_suites(path)

    assert said in str(caught.value)


def test_where_the_cases_of_a_policy_are(tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    for name in ("prod", "other"):
        (tmp_path / "cases" / f"{name}.yaml").write_text("cases: []")
    prod = tmp_path / "prod.yaml"

    assert cases_of(prod) == [tmp_path / "cases" / "prod.yaml"]
    assert [path.stem for path in cases_of(tmp_path)] == ["other", "prod"]
    assert cases_of(tmp_path / "new.yaml") == []


def test_junit_says_what_differs(tmp_path: Path) -> None:
    text = """
        suite: odd & <ends>
        cases:
          - {call: {tool: a}, verdict: deny}
          - {call: {tool: b, args: {x: 1}}, verdict: deny, args: {x: "a\\ab"}}
    """

    root = ElementTree.fromstring(junit(results(tmp_path, text, policy.deny("a"))))

    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    assert [suite.get("name") for suite in root] == ["odd & <ends>"]
    (failure,) = root.iter("failure")
    assert failure.get("message") == "verdict: expected deny, seen allow"
    assert failure.text is not None
    assert r'args: expected {"x": "a\u0007b"}' in failure.text


def test_a_file_without_cases_is_not_success(tmp_path: Path) -> None:
    from otelhooks.policy_tools import trials

    rules, cases = tmp_path / "p.yaml", tmp_path / "cases.yaml"
    rules.write_text("policies: [{deny: rm}]")
    cases.write_text("cases: []")
    with pytest.raises(ConfigError, match="there are no cases"):
        list(trials.run([str(rules)], [cases]))


def test_no_cases_is_not_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from otelhooks.policy_tools import trials

    monkeypatch.setattr(Subject, "open", lambda names: subject())

    with pytest.raises(ConfigError, match="there are no cases"):
        list(trials.run([str(tmp_path)]))
