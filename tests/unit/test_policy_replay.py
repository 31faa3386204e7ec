"""Recorded calls judged again: what flips, what cannot be judged, and that nothing happens."""

from __future__ import annotations

from typing import Any

import pytest

from otelhooks import policy, types
from otelhooks.hooks import pre_tool_call_decide
from otelhooks.policy_tools.recorded import RecordedCall, read_call
from otelhooks.policy_tools.replay import Replay, replay
from otelhooks.policy_tools.subject import Subject
from otelhooks.records import semconv


def call(tool: str, args: str | None = "{}", **attributes: Any) -> RecordedCall:
    found = {
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
        semconv.GEN_AI_TOOL_NAME: tool,
        semconv.GEN_AI_TOOL_CALL_ARGUMENTS: args,
        **{getattr(semconv, name.upper()): value for name, value in attributes.items()},
    }
    made = read_call(found, trace_id="a" * 32, span_id="b" * 16, at=1, has_failed=False)
    assert made is not None
    return made


def under(*rules: Any, hooks: tuple[Any, ...] = ()) -> Any:
    return Subject.of([*rules, *hooks]).dry_run()


def words(result: Replay) -> list[tuple[str, str, str]]:
    return [(c.recorded.name, c.words, c.rule) for c in result.changes]


def test_what_flips_is_named_with_its_rule_and_what_does_not_is_not() -> None:
    calls = [
        call("run_command", '{"CommandLine": "ls"}'),
        call("run_command", '{"CommandLine": "rm -rf x"}', policy_decision="deny"),
        call("view_file", '{"path": "a"}'),
        call("send", policy_decision="deny", policy_id="old", policy_rule_id="no-send"),
    ]

    result = replay(calls, under(policy.deny("run_command", id="no-shell")))

    assert words(result) == [
        ("run_command", "allow -> deny", "code/no-shell"),
        ("send", "deny -> allow", "old/no-send, gone"),
    ]
    assert (result.calls, result.judged) == (4, 4)
    assert result.by_tool()["run_command", "allow -> deny"] == 1


def test_a_call_without_arguments_is_judged_where_none_are_needed() -> None:
    when = policy.deny("a", when=lambda args: args["x"] > 1)
    calls = [call("a", None), call("a", '{"x": 2}'), call("b", None)]

    result = replay(calls, under(when, policy.deny("b", id="no-b")))

    assert words(result) == [
        ("a", "allow -> deny", f"code/{under(when).rules.rules[0].id}"),
        ("b", "allow -> deny", "code/no-b"),
    ]
    assert result.gaps == {"arguments not captured": 1}
    assert result.gap_tools == {"a": 1}


def test_masked_arguments_do_not_count_as_the_arguments() -> None:
    """Else a rule about the masked part would silently not match."""
    rule = policy.deny("login", when=lambda args: args["password"] == "hunter2")

    result = replay([call("login", '{"password": "[MASKED]"}')], under(rule))

    assert result.gaps == {"arguments masked or shortened": 1}
    assert not result.changes


def test_a_hook_may_look_at_anything() -> None:
    @pre_tool_call_decide
    def decide(given: types.ToolCall) -> types.HookResult:
        return types.HookResult(allow="x" not in given.args)

    hooks = (decide,)

    result = replay([call("a", None), call("a", '{"x": 1}')], under(hooks=hooks))

    assert result.gaps == {"arguments not captured": 1}
    assert [c.after for c in result.changes] == ["deny"]


def test_monitor_mode_is_told_apart_from_a_deny() -> None:
    denied = call("a", policy_decision="deny", policy_enforcement="blocked")
    observed = call("a", policy_decision="deny", policy_enforcement="observed")

    now = replay([denied, observed], under(policy.deny("a", id="r", mode="monitor")))
    then = replay([denied, observed], under(policy.deny("a", id="r")))

    assert [c.words for c in now.changes] == ["deny -> deny, observed"]
    assert [c.words for c in then.changes] == ["deny, observed -> deny"]


def test_no_person_is_asked() -> None:
    asked: list[Any] = []
    rule = policy.ask_user("send", asked.append)

    result = replay([call("send"), call("send", policy_decision="ask")], under(rule))

    assert [c.words for c in result.changes] == ["allow -> ask"]
    assert asked == []


def test_a_rewrite_that_took_place_is_not_a_change() -> None:
    """The span has the arguments that ran, so there is nothing left to rewrite."""
    recorded = call("search", '{"limit": 10}', policy_decision="modify")

    @pre_tool_call_decide
    def cap(given: types.ToolCall) -> types.HookResult:
        if given.args["limit"] > 10:
            return types.HookResult(modified_args={"limit": 10})
        return types.HookResult()

    result = replay([recorded, call("search", '{"limit": 50}')], under(hooks=(cap,)))

    assert [c.words for c in result.changes] == ["allow -> modify"]
    assert result.changes[0].judgement.call.args == {"limit": 10}


def test_labels_of_a_call_are_those_of_the_dry_run_only() -> None:
    """What one call was made under is not carried to the next."""
    policy_run = under(policy.deny("send", when_labels={"untrusted"}))
    marked, plain = call("send", labels=["untrusted"]), call("send")

    assert len(replay([marked, plain, plain], policy_run).changes) == 1


def test_servers_count_with_and_without_a_name() -> None:
    named = call("drop", tool_server="github")
    unnamed = call("drop", mcp_method_name="tools/call")
    rules = policy.deny_all(), policy.allow("github/drop")

    result = replay([named, unnamed], under(*rules))

    assert [c.recorded.name for c in result.changes] == ["(unnamed server)/drop"]
    assert result.unnamed == 1


def test_labels_of_the_recording_are_in_force() -> None:
    rule = policy.deny("send", when_labels={"untrusted"}, id="leak")

    result = replay([call("send"), call("send", labels=["untrusted"])], under(rule))

    assert len(result.changes) == 1
    assert result.changes[0].recorded.labels == ("untrusted",)


def test_a_rule_for_an_agent_is_asked_as_that_agent() -> None:
    rule = policy.deny("a", agent="lead/*")
    calls = [call("a", agent_branch="lead/helper"), call("a", agent_branch="lead")]

    result = replay(calls, under(rule))

    assert [c.recorded.branch for c in result.changes] == ["lead/helper"]


def test_an_agent_without_a_caller_is_recorded_by_its_name_alone() -> None:
    result = replay([call("a", gen_ai_agent_name="lead")], under(policy.deny("a", agent="lead")))

    assert [c.recorded.branch for c in result.changes] == ["lead"]


def test_canonical_names_of_the_recording_match() -> None:
    local_shell = call("local_shell", tool_canonical=["run_command"], tool_kind="shell")

    assert replay([local_shell], under(policy.deny("run_command"))).changes
    assert replay([local_shell], under(policy.deny("kind:shell"))).changes


@pytest.mark.parametrize("first", [True, False])
def test_another_instrumentations_span_of_the_same_call_is_left_out(first: bool) -> None:
    ours = call("a", gen_ai_tool_call_id="c1", policy_decision="allow")
    theirs = call("a", gen_ai_tool_call_id="c1")
    calls = [theirs, ours] if first else [ours, theirs]

    assert replay(calls, under()).calls == 1


def test_two_calls_that_share_an_id_both_count() -> None:
    """Scripted models and careless servers give ids twice."""
    twice = [call("a", gen_ai_tool_call_id="c1", policy_decision="allow")] * 2

    assert replay(twice, under(policy.deny("a"))).by_tool()["a", "allow -> deny"] == 2


def test_limits_neither_count_nor_refuse() -> None:
    limit = policy.RateLimit(tool_calls=1)

    result = replay([call("a"), call("a"), call("a")], under(hooks=(limit,)))

    assert result.changes == []


@pytest.mark.parametrize(
    ("policy_id", "rule_id"),
    [
        ("old", "cap"),
        ("stop", "stop-1a2b"),
        ("mcp_pins", "changed"),
        ("policy_files", "guard:rm"),
        ("audit", "record_required"),
    ],
)
def test_what_decided_beside_the_rules_is_left_out(policy_id: str, rule_id: str) -> None:
    """Else the policy that recorded a call would seem to let it through now."""
    about = {"policy_id": policy_id, "policy_rule_id": rule_id}
    calls = [call("a"), call("a", policy_decision="deny", **about)]
    gates = policy.RateLimit(tool_calls=1, id="cap"), policy.label("b", adds="seen")

    result = replay(calls, under(hooks=gates))

    assert result.changes == []
    assert result.left_out == {f"{policy_id}/{rule_id}": 1}
    assert (result.calls, result.judged) == (2, 1)


def test_a_limit_that_the_policy_lacks_is_gone() -> None:
    denied = call("a", policy_decision="deny", policy_id="old", policy_rule_id="cap")

    assert words(replay([denied], under())) == [("a", "deny -> allow", "old/cap, gone")]
