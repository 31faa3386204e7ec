"""Rules that load and never decide, and names that match nothing."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from otelhooks import policy, types
from otelhooks.policy.selectors import Selector
from otelhooks.policy_tools.check import Finding, KnownTools, covers, lint_rules
from otelhooks.policy_tools.subject import Subject

GITHUB = types.McpStdioServer(name="github", command="x", enabled_tools=["search", "create_pr"])


def found(*rules: Any, known: KnownTools | None = None) -> list[Finding]:
    table = Subject.of(rules).table()
    return list(lint_rules(table, known or KnownTools()))


def problems(*rules: Any, known: KnownTools | None = None) -> list[str]:
    return [finding.problem for finding in found(*rules, known=known)]


@pytest.mark.parametrize(
    ("wide", "narrow", "is_covered"),
    [
        ("*", "a", True),
        ("*", "s/t", True),
        ("*", "kind:shell", True),
        ("a", "a", True),
        ("a*", "ab", True),
        ("a*", "ab*", True),
        ("a*", "a?", True),
        ("*_all", "drop_*", False),
        ("a*b", "a*", False),
        ("a?", "a*", False),
        ("a?", "ab", True),
        ("a*", "*", False),
        ("s/*", "s/t", True),
        ("*/*", "s/*", True),
        ("*/delete_*", "github/delete_repo", True),
        ("s/*", "t", False),
        ("t*", "s/t", False),
        ("s*/x", "s1/*", False),
        ("[!a]*", "?b", False),
        ("[ab]", "a", True),
        ("[ab]*", "[a]*", False),
        ("kind:shell", "run_command", False),
        ("run_command", "kind:shell", False),
        ("kind:shell", "kind:shell", True),
    ],
)
def test_what_one_selector_certainly_covers(wide: str, narrow: str, is_covered: bool) -> None:
    """A doubt is a no: a rule is called unreachable only if it is."""
    assert covers(Selector(wide), Selector(narrow)) is is_covered


def test_rules_that_go_together_are_fine() -> None:
    assert (
        found(
            policy.deny("run_command", when=lambda args: "rm" in args["c"]),
            policy.allow("run_command"),
            policy.deny("github/*"),
            policy.allow("github/search"),
            policy.deny("*/delete_*"),
            policy.deny_all(),
        )
        == []
    )


def test_an_allow_beside_a_deny_of_the_same_tool_contradicts_it() -> None:
    assert problems(policy.allow("a"), policy.deny("a")) == [
        "`allow: a` contradicts `deny: a` (code), which decides"
    ]


def test_an_id_twice() -> None:
    assert problems(policy.deny("a", id="x"), policy.deny("b", id="x")) == [
        "`deny: b` has the id of `deny: a` (code): `x`"
    ]


def test_the_same_rule_twice() -> None:
    assert problems(policy.deny("a"), policy.deny("a", id="x")) == [
        "`deny: a` says what `deny: a` (code) says already"
    ]


def test_a_rule_behind_a_wider_one_of_its_level_or_a_stricter_one() -> None:
    assert problems(policy.deny("*/*"), policy.allow("github/create_*")) == [
        "`allow: github/create_*` is never reached: `deny: */*` (code) decides before it"
    ]
    assert problems(policy.veto("db_*"), policy.deny("db_drop", when=lambda args: True)) == [
        "`deny: db_drop` is never reached: `veto: db_*` (code) decides before it"
    ]


def test_the_same_condition_is_the_same() -> None:
    def when(args: dict[str, Any]) -> bool:
        return bool(args)

    assert problems(policy.deny("a", when=when), policy.allow("a", when=when))
    assert not problems(policy.deny("a", when=when), policy.allow("a", when=lambda args: True))


@pytest.mark.parametrize(
    "first",
    [
        policy.deny("a", agent="lead"),
        policy.deny("a", when_labels={"untrusted"}),
        policy.deny("a", mode="monitor"),
        policy.deny("a", when=lambda args: True),
    ],
    ids=["agent", "labels", "monitor", "when"],
)
def test_a_rule_that_does_not_always_decide_hides_nothing(first: policy.Policy) -> None:
    assert found(first, policy.allow("a")) == []


def test_a_bare_name_allows_no_servers_tool() -> None:
    known = KnownTools(servers=[GITHUB])

    (finding,) = found(policy.allow("create_pr"), known=known)

    assert finding.severity == "warning"
    assert "never matches: `create_pr` is a tool of server `github`" in finding.problem
    assert finding.hint == "write `github/create_pr` or `*/create_pr`"
    assert found(policy.allow("create_pr")) == []
    assert found(policy.deny("create_pr"), known=known) == []


def test_a_local_tool_of_that_name_clears_a_bare_name() -> None:
    known = KnownTools(servers=[GITHUB])
    known.local.add("search")

    assert found(policy.allow("search"), known=known) == []


def test_a_tool_that_a_server_does_not_have() -> None:
    known = KnownTools(servers=[GITHUB])

    assert found(policy.deny("github/create_*"), known=known) == []
    (finding,) = found(policy.deny("github/creat_pr"), known=known)
    assert "has no such tool" in finding.problem
    assert finding.hint == "its tools: create_pr, search"


def test_a_server_that_is_only_known_from_calls_may_have_more_tools() -> None:
    known = KnownTools(servers=[types.McpStdioServer(name="github", command="x")])

    assert found(policy.deny("github/unseen"), known=known) == []


def test_a_workspace_of_shells_that_does_not_exist(tmp_path: pathlib.Path) -> None:
    there, nowhere = tmp_path, tmp_path / "nowhere"
    assert problems(*policy.shell_only([there])) == []
    [finding] = found(*policy.shell_only([there, nowhere]))
    assert finding.severity == "warning"
    assert finding.problem == f"`shell_only`: the directory `{nowhere}` does not exist"
    (tmp_path / "file").write_text("")
    assert len(found(*policy.shell_only([tmp_path / "file"]))) == 1
