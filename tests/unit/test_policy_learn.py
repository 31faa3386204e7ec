"""Drafts from recorded calls: what is allowed, what is left out, and who tries to get in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from otelhooks.errors import ConfigError
from otelhooks.policy.files.rules import read_rules
from otelhooks.policy.files.source import Source
from otelhooks.policy_tools.cases import read_suites
from otelhooks.policy_tools.learn import Draft, learn
from otelhooks.policy_tools.recorded import RecordedCall, read_call
from otelhooks.policy_tools.subject import Subject
from otelhooks.policy_tools.trials import run_suite
from otelhooks.records import semconv


def call(tool: str, failed: bool = False, args: Any = None, **attributes: Any) -> RecordedCall:
    found = {
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
        semconv.GEN_AI_TOOL_NAME: tool,
        semconv.GEN_AI_TOOL_CALL_ARGUMENTS: None if args is None else json.dumps(args),
        **{getattr(semconv, name.upper()): value for name, value in attributes.items()},
    }
    made = read_call(found, trace_id="a" * 32, span_id="b" * 16, at=10**18, has_failed=failed)
    assert made is not None
    return made


DENIED = {"policy_decision": "deny", "policy_enforcement": "blocked"}
APPROVED = {"policy_decision": "ask", "policy_enforcement": "approved"}
REFUSED = {"policy_decision": "ask", "policy_enforcement": "rejected"}


def rules_of(draft: Draft) -> list[tuple[str, str]]:
    """Return what the draft says once it is loaded as a policy file."""
    (file,) = read_rules([Source("draft.yaml", draft.policy(), "draft", "")])
    assert file.default == "deny"
    return [(rule.decision.value, rule.tool) for rule in file.rules]


def test_what_worked_is_allowed_most_used_first() -> None:
    draft = learn([call("view_file"), call("search"), call("search", gen_ai_agent_name="lead")])

    assert rules_of(draft) == [("APPROVE", "search"), ("APPROVE", "view_file")]
    assert '{allow: "search"}     # 2 worked; by "lead"' in draft.policy()


def test_what_was_asked_is_asked_again() -> None:
    draft = learn([call("send", **APPROVED), call("send", **REFUSED)])

    assert rules_of(draft) == [("ASK_USER", "send")]


def test_what_was_denied_once_is_left_out_even_if_it_ran_as_well() -> None:
    """A rule without a condition would let run what was denied."""
    draft = learn([call("run_command"), call("run_command", failed=True, **DENIED)])

    assert rules_of(draft) == []
    assert '#   "run_command" was denied (1 denied, 1 worked)' in draft.policy()


@pytest.mark.parametrize(
    ("policy_id", "rule_id", "word"),
    [("stop", "stop-1a2b", "stopped"), ("audit", "record_required", "not recorded")],
)
def test_what_no_policy_denied_says_nothing_about_the_tool(
    policy_id: str, rule_id: str, word: str
) -> None:
    refused = call("send", failed=True, **DENIED, policy_id=policy_id, policy_rule_id=rule_id)
    draft = learn([call("send"), refused])

    assert rules_of(draft) == [("APPROVE", "send")]
    assert f'{{allow: "send"}}  # 1 {word}, 1 worked' in draft.policy()
    assert rules_of(learn([refused])) == []


@pytest.mark.parametrize("policy_id", ["stop", "audit"])
def test_a_policy_file_with_the_name_of_a_stop_or_the_trail_denies(policy_id: str) -> None:
    denied = call("send", **DENIED, policy_id=policy_id, policy_rule_id="deny:send")

    assert rules_of(learn([call("send"), denied])) == []


def test_what_monitor_mode_would_have_denied_is_left_out() -> None:
    observed = {"policy_decision": "deny", "policy_enforcement": "observed"}

    assert rules_of(learn([call("drop", **observed)])) == []
    both = learn([call("drop", **observed), call("drop", **DENIED)])
    assert '"drop" was denied (1 denied, 1 would be denied)' in both.policy()


def test_a_name_under_which_nothing_ever_worked_is_left_out() -> None:
    """Models invent names, and a server answers an error for them."""
    draft = learn([call("delete_all", failed=True), call("rejected", **REFUSED)])

    assert rules_of(draft) == []
    assert "never worked: the name may be invented" in draft.policy()
    assert "never ran" in draft.policy()


def test_a_tool_of_a_server_is_allowed_on_that_server_only() -> None:
    draft = learn([call("find", tool_server="docs"), call("find", mcp_method_name="tools/call")])

    assert rules_of(draft) == [("APPROVE", "docs/find")]
    assert "[unnamed server]/find" in draft.policy()


@pytest.mark.parametrize(
    "name",
    [
        "*",
        "delete_*",
        "get_?",
        "log[0-9]",
        "kind:shell",
        "github/create_pr",
        "",
        " run",
        "a\nb",
        "x}\n  - {allow: '*'}",
        "# comment",
        'quote"}\n',
        "\u2028line",
        "emoji\U0001f600",
        "half\ud83d",
    ],
)
def test_a_name_cannot_widen_the_draft(name: str) -> None:
    """A server, or a model, may call its tool anything."""
    calls = [call("view_file")]
    if name:
        calls.append(call(name))

    rules = rules_of(learn(calls))

    assert ("APPROVE", "view_file") in rules
    assert set(rules) <= {
        ("APPROVE", "view_file"),
        ("APPROVE", name.encode("utf-8", "replace").decode()),
    }
    assert all(tool not in ("*", "kind:shell") and "[" not in tool for _, tool in rules)


@pytest.mark.parametrize("server", ["*", "a/b", "prod-?"])
def test_a_server_cannot_widen_the_draft(server: str) -> None:
    assert rules_of(learn([call("t", tool_server=server)])) == []


def test_an_agents_name_cannot_end_a_comment() -> None:
    draft = learn([call("a", gen_ai_agent_name="x\npolicies: [{allow: '*'}]")])

    assert rules_of(draft) == [("APPROVE", "a")]


def test_the_draft_lets_run_what_it_was_learned_from(tmp_path: Path) -> None:
    """`learn`, then `test`: the loop is closed."""
    calls = [
        call("view_file", args={"path": "a.txt", "deep": {"n": [1, 2.5, None, True, "\u2028x"]}}),
        call("view_file", args={"path": "b.txt", "big": 1e22}),
        call("login", args={"password": "[MASKED]"}),
        call("find", tool_server="docs", args={"q": "no: yes\n- x"}),
        call("send", args={"to": "\U0001f600"}, **APPROVED),
        call("drop", **DENIED),
    ]
    draft = learn(calls)
    policy_file, cases = tmp_path / "p.yaml", tmp_path / "c.yaml"
    policy_file.write_text(draft.policy(), encoding="utf-8")
    cases.write_text(draft.suite(), encoding="utf-8")
    subject = Subject.open([policy_file])

    (suite,) = read_suites(cases)
    results = list(run_suite(suite, subject))

    assert [r.case.call.name for r in results if r.case.call] == [
        "view_file",
        "view_file",
        "login",
        "find",
        "send",
    ]
    assert [r for r in results if r.is_red] == []
    assert results[0].case.call is not None
    assert results[0].case.call.args == calls[0].args
    assert "[MASKED]" not in draft.suite()


def test_there_must_be_something_to_learn_from() -> None:
    with pytest.raises(ConfigError, match="no tool calls"):
        learn([])


def test_a_draft_of_nothing_usable_loads_and_denies() -> None:
    draft = learn([call("drop", **DENIED)])

    assert yaml.safe_load(draft.policy()) == {"version": 1, "default": "deny", "policies": []}
    assert yaml.safe_load(draft.suite())["cases"] == []
