"""Two policies side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from otelhooks import hooks, policy, types
from otelhooks.policy.files import Loaded
from otelhooks.policy_tools.diff import diff
from otelhooks.policy_tools.subject import Subject
from otelhooks.setup.policies import Policies


def subject(*rules: Any, hooks: tuple[Any, ...] = (), default: str = "allow") -> Subject:
    said = Loaded((), (), (), default, None, ())
    return Subject(Policies(rules, (), said), hooks)


def said(old: Subject, new: Subject) -> list[tuple[str, str, dict[str, Any]]]:
    return [(note.change, note.entry.name, note.fields) for note in diff(old, new)]


def test_the_same_policy_has_no_differences() -> None:
    rules = policy.deny("a", id="x"), policy.allow("b"), policy.ask_user("c", severity="low")

    assert said(subject(*rules), subject(*rules)) == []


def test_rules_that_came_and_went() -> None:
    old = subject(policy.deny("a", id="x"))
    new = subject(policy.deny("b", id="y"))

    assert said(old, new) == [("removed", "code/x", {}), ("added", "code/y", {})]


def test_one_of_two_rules_with_the_same_id_is_not_lost() -> None:
    old = subject(policy.deny("a", id="x"), policy.deny("b", id="x"))

    assert said(old, subject(policy.deny("a", id="x"))) == [("removed", "code/x", {})]


def test_a_rule_with_an_id_keeps_it_through_a_change() -> None:
    old = subject(policy.deny("a", id="x", severity="low"))
    new = subject(policy.ask_user("a", id="x", reason="Ask."))

    assert said(old, new) == [
        (
            "changed",
            "code/x",
            {"decision": ("deny", "ask"), "severity": ("low", ""), "reason": ("", "Ask.")},
        )
    ]


def test_a_rule_without_an_id_is_known_by_decision_and_tool() -> None:
    old = subject(policy.deny("a", when=lambda args: args["n"] > 1))
    new = subject(policy.deny("a", when=lambda args: args["n"] > 2))

    ((change, _, fields),) = said(old, new)

    assert (change, list(fields)) == ("changed", ["when"])


def test_several_rules_without_ids_are_not_guessed_at() -> None:
    old = subject(policy.deny("a", agent="x"), policy.deny("a", agent="y"))
    new = subject(policy.deny("a", agent="z"))

    assert [change for change, _, _ in said(old, new)] == ["removed", "removed", "added"]


def test_what_a_limit_of_a_file_says_counts(tmp_path: Path) -> None:
    before, after = tmp_path / "a" / "base.yaml", tmp_path / "b" / "base.yaml"
    for path, on_breach in ((before, "deny"), (after, "ask")):
        path.parent.mkdir()
        path.write_text(f"policies: [{{repeat: {{calls: 3, on_breach: {on_breach}}}, id: loop}}]\n")

    ((change, name, fields),) = said(Subject.open([before]), Subject.open([after]))

    assert (change, name, list(fields)) == ("changed", "base/loop", ["entry"])
    assert fields["entry"][1] == '{"repeat": {"calls": 3, "on_breach": "ask"}, "id": "loop"}'


def test_the_default_counts() -> None:
    assert said(subject(), subject(default="deny")) == [
        ("changed", "default and mode", {"default": ("allow", "deny")})
    ]


def test_labels_of_a_rule_count() -> None:
    old = subject(policy.deny("a", id="x", when_labels={"untrusted"}))
    new = subject(policy.deny("a", id="x", when_labels={"untrusted", "secret"}))

    ((_, _, fields),) = said(old, new)

    assert fields == {"when_labels": ("untrusted", "[secret, untrusted]")}


def test_what_a_rule_selects_by_and_what_a_label_adds_are_shown_as_files_have_them(
    tmp_path: Path,
) -> None:
    file = tmp_path / "pay.yaml"
    file.write_text(
        "policies:\n- {label: fetch, adds: web}\n- deny: pay\n  unless_user_said: [to]\n"
        "  when_argument_from: {to: web}\n  agent: lead\n"
    )
    fields: dict[str, str] = {}
    for note in diff(subject(), Subject.open([file])):
        fields |= note.entry.fields
    assert fields["unless_user_said"] == "to"
    assert fields["when_argument_from"] == "{to: web}"
    assert fields["agent"] == "lead"
    assert fields["entry"] == '{"label": "fetch", "adds": "web"}'
    assert "says" not in fields


def test_hooks_count() -> None:
    class Guard(hooks.PreToolCallDecideHook):
        async def run(self, context: Any, data: Any) -> types.HookResult:
            return types.HookResult()

    early, late = Guard(), Guard()
    early.priority = 1

    assert said(subject(hooks=(late,)), subject()) == [("removed", Guard.__qualname__, {})]
    ((_, _, fields),) = said(subject(hooks=(late,)), subject(hooks=(early,)))
    assert fields == {"priority": ("100", "1")}
