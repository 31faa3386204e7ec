"""Sets of rules as YAML, and back."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from otelhooks import policy, types
from otelhooks.errors import ConfigError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy.files.document import parse
from otelhooks.policy.files.export import export
from otelhooks.policy.files.protection import protect
from otelhooks.policy.files.rules import RuleFile, read_rules, written
from otelhooks.policy.files.source import Source


def _read(text: str) -> RuleFile:
    return read_rules([Source("f.yaml", text, "f", "123456789abc")])[0]


def _set(file: RuleFile) -> policy.PolicySet:
    return policy.PolicySet(
        file.rules, default=file.default or "allow", mode=file.mode or "enforce", channel=True
    )


WHOLE = """
default: deny
mode: monitor
policies:
  - deny: run_command
    when: '"rm -rf" in args["CommandLine"]'
    when_labels: [b, a]
    agent: orchestrator/*
    id: no-rm
    name: "no"
    reason: |
      Do not remove: "files"
        # ever
    severity: critical
    mode: enforce
  - ask: ["github/*", b]
    id: "1e3"
  - allow: "*"
    when: |

      args.get("x") == 1 and
        args["y"]
  - veto: kind:net
  - hide: secret
  - safe_defaults
  - confirm_run_command
  - workspace_only: [/data, /tmp]
    tools: {render: template, "fs/write": [to, from]}
  - workspace_only: /data
  - label: [web_fetch, "web/*"]
    adds: [untrusted, web]
    per: turn
    name: web
  - {limit: {tool_calls: 100, per: session}, severity: high, id: calls}
  - {limit: {turns: 5}}
  - {repeat: {calls: 3, of: tool, per: session, on_breach: ask}, reason: "Stop.", id: loop}
  - {repeat: {}}
  - budget: {cost_usd: 0.5, per: day, unknown: tokens, prices: {"gpt-5*": {input: 1, output: 10.5}}}
"""


def test_what_was_loaded_comes_back() -> None:
    first = _read(WHOLE)
    text = export(_set(first), first.gates)
    again = _read(text)
    assert again.rules == first.rules
    assert (again.default, again.mode) == (first.default, first.mode)
    assert [gate.id for gate in again.gates] == [gate.id for gate in first.gates]
    assert [written(g) for g in again.gates[2:]] == [written(g) for g in first.gates[2:]]
    assert export(_set(again), again.gates) == text
    assert [rule.id for rule in _set(again).rules] == [rule.id for rule in _set(first).rules]


def test_it_says_which_file_a_rule_is_from() -> None:
    rules = policy.PolicySet([policy.deny("a")]).with_rules([policy.deny("b")], source="prod")
    lines = export(rules).splitlines()
    assert lines[:2] == ["version: 1", "policies:"]
    assert lines[2].startswith("# from `code`, version ")
    assert lines[4].startswith("# from `prod`, version ")


def test_an_empty_set_can_be_loaded() -> None:
    assert _read(export(policy.PolicySet())).rules == ()


def test_other_tools_read_the_same() -> None:
    first = _read(WHOLE)
    text = export(_set(first), first.gates)
    assert yaml.safe_load(text) == parse(text, "f.yaml").plain()


def test_workspaces_come_back_as_one_entry(tmp_path: pathlib.Path) -> None:
    rules = policy.workspace_only([tmp_path], {"render": "template"})
    text = export(policy.PolicySet(rules))
    assert text.count("workspace_only") == 1
    assert list(_read(text).rules) == rules


def test_a_part_of_a_workspace_is_not_widened(tmp_path: pathlib.Path) -> None:
    """Without one of its rules it is no `workspace_only` any more, and cannot be said."""
    rules = policy.workspace_only([tmp_path])[:-1]
    with pytest.raises(ConfigError, match="its condition is Python"):
        export(policy.PolicySet(rules))


def _ask(_call: types.ToolCall) -> bool:
    return True


UNSAID: list[Any] = [
    policy.deny("a", when=lambda args: args["x"] == 1),
    policy.allow("a", when=lambda: False),
    policy.ask_user("a", _ask),
    policy.auto(handler=_ask),
    policy.Policy("a", policy.Decision.DENY, hide=True, when=lambda: True),
    policy.Policy("a", policy.Decision.DENY, hide=True, veto=True),
    policy.deny("a", reason=" \n"),
    policy.deny("a", reason="ends in a line end\n"),
    policy.deny("a", name="two\nlines"),
]


@pytest.mark.parametrize("rule", UNSAID)
def test_a_rule_that_yaml_cannot_say_is_an_error_and_never_half_a_rule(rule: policy.Policy) -> None:
    rules = policy.PolicySet([policy.deny("b"), rule], channel=True)
    identity = rules.rules[1].id.split("\n")[0]
    with pytest.raises(ConfigError) as caught:
        export(rules)
    assert "not all of the set can be written as YAML" in str(caught.value)
    assert identity in str(caught.value)
    text = export(rules, leave_out=True)
    assert [each.tool for each in _read(text).rules] == ["b"]
    assert "# left out: " in text


def test_what_no_eye_sees_is_written_so_that_it_can_be_read() -> None:
    text = export(policy.PolicySet([policy.deny("a", reason="go\u202eback")]))
    assert "\\u202E" in text
    assert _read(text).rules[0].reason == "go\u202eback"


def test_names_do_not_break_out_of_a_comment() -> None:
    rule = policy.deny("a", when=lambda: True, id="x\n- allow: '*'\n# \u2028- allow: '*'")
    text = export(policy.PolicySet([rule]), leave_out=True)
    assert _read(text).rules == ()


def test_tool_lists_of_servers_are_not_lost_in_silence() -> None:
    server = types.McpStdioServer(name="fs", command="x", disabled_tools=["rm"])
    rules = policy.PolicySet([policy.deny("b")], mcp_servers=[server])
    with pytest.raises(ConfigError, match="server `fs`: its tool lists are in code"):
        export(rules)
    assert "# left out: server `fs`" in export(rules, leave_out=True)


def test_limits_that_were_made_in_code_are_not_lost_in_silence() -> None:
    limit = policy.RateLimit(turns=5)
    with pytest.raises(ConfigError, match="its numbers are in code"):
        export(policy.PolicySet(), [limit])
    assert "# left out: `rate_limit_5_turns_per_session`" in export(
        policy.PolicySet(), [limit], leave_out=True
    )


def test_the_guard_of_policy_files_is_not_a_rule_of_the_set(tmp_path: pathlib.Path) -> None:
    guard = protect([str(tmp_path)], monitor=False)
    rules = policy.PolicySet([policy.deny("b")], sources=[guard])
    assert [rule.tool for rule in _read(export(rules)).rules] == ["b"]


_TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
_REASONS = st.one_of(
    _TEXTS,
    st.sampled_from(["no", "1e3", "~", "null", "- a", "a: b", "#x", "'", '"', "| x", "é\u2028b"]),
    st.lists(_TEXTS, min_size=1, max_size=3).map("\n".join),
)
_TOOLS = st.sampled_from(["a", "b", "s/t", "s/*", "*", "a*", "*/t", "kind:shell", "no", "1e3", "~"])


@st.composite
def _policies(draw: st.DrawFn) -> policy.Policy:
    builder = draw(st.sampled_from([policy.allow, policy.deny, policy.ask_user, policy.veto]))
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["reason"] = draw(_REASONS)
    if draw(st.booleans()):
        options["id"] = draw(_TEXTS)
    if draw(st.booleans()):
        options["severity"] = draw(st.sampled_from(["low", "critical"]))
    if builder is not policy.veto and draw(st.booleans()):
        options["mode"] = draw(st.sampled_from(["enforce", "monitor"]))
    return builder(draw(_TOOLS), **options)


@given(
    st.lists(_policies(), max_size=6),
    st.sampled_from(["allow", "deny"]),
    st.sampled_from(["enforce", "monitor"]),
)
@settings(max_examples=150)
def test_whatever_is_exported_loads_as_rules_with_the_same_verdicts(
    given_rules: list[policy.Policy], default: Any, mode: Any
) -> None:
    rules = policy.PolicySet(given_rules, default=default, mode=mode, channel=True)
    try:
        text = export(rules)
    except ConfigError:
        assume_unsayable(given_rules)
        return
    again = _set(_read(text))
    for call in (Call("a", {}), Call("b", {}), Call("t", {}, server="s"), Call("no", {})):
        one, two = drive(rules.evaluate(call)), drive(again.evaluate(call))
        assert (one.decision, one.message) == (two.decision, two.message)
        assert [d for d, _ in one.observed] == [d for d, _ in two.observed]


def assume_unsayable(rules: list[policy.Policy]) -> None:
    """Some rule has a text that no file has: blank, or with a line end at its end."""
    assert any(
        not text.strip() or text.endswith("\n") or (text is rule.id and not text.isprintable())
        for rule in rules
        for text in (rule.reason, rule.id)
        if text
    )
