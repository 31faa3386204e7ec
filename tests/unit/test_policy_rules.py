"""What users write: builders, presets, and the errors of what is not understood."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pathlib
import pickle
import re
from typing import Any

import pytest

import otelhooks
from otelhooks import policy, types
from otelhooks.errors import ConfigError, Denied
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.hooks.verdict import Approval
from otelhooks.policy import Decision
from otelhooks.policy.fingerprints import describe
from otelhooks.policy.rules import identity

MATH = types.McpStdioServer(name="math", command="x")


def always(args: Any) -> bool:
    return True


class TestBuilders:
    @pytest.mark.parametrize(
        ("builder", "unknown"),
        [
            *((builder, "wen") for builder in ("allow", "deny", "ask_user", "veto", "hide")),
            *(("allow", "veto"), ("deny", "handler"), ("deny", "hide"), ("veto", "mode")),
            *(("hide", "when"), ("hide", "when_labels"), ("ask_user", "ask_user")),
        ],
    )
    def test_an_unknown_keyword_is_pythons_own_error(self, builder: str, unknown: str) -> None:
        message = rf"^{builder}\(\) got an unexpected keyword argument '{unknown}'"
        with pytest.raises(TypeError, match=message):
            getattr(policy, builder)("x", **{unknown: None})

    @pytest.mark.parametrize("builder", ["allow", "deny", "ask_user", "veto", "hide"])
    def test_help_spells_the_keywords_out(self, builder: str) -> None:
        shown = inspect.signature(getattr(policy, builder)).parameters.values()
        assert {each.kind.name for each in shown} == {"POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"}
        assert {"tool", "mcp_tools", "name", "reason", "id"} <= {each.name for each in shown}

    def test_a_rule_keeps_what_it_was_given(self) -> None:
        rule = policy.deny(
            "run_command",
            when=always,
            name="n",
            reason="r",
            id="i",
            severity="high",
            mode="monitor",
            agent="a/*",
        )
        assert dataclasses.asdict(rule) == {
            "tool": "run_command",
            "decision": Decision.DENY,
            "when": always,
            "ask_user": None,
            "name": "n",
            "reason": "r",
            "id": "i",
            "severity": "high",
            "mode": "monitor",
            "agent": "a/*",
            "veto": False,
            "when_labels": None,
            "when_annotations": None,
            "unless_user_said": None,
            "when_user": None,
            "when_argument_from": None,
            "place": "",
            "hide": False,
        }

    def test_decisions(self) -> None:
        assert policy.allow("a").decision is Decision.APPROVE
        assert policy.deny("a").decision is Decision.DENY
        assert policy.ask_user("a").decision is Decision.ASK_USER
        assert policy.veto("a").veto
        assert policy.hide("a").hide
        assert [d.value for d in Decision] == [d.name for d in Decision]

    def test_a_handler_may_be_second_or_by_name(self) -> None:
        assert policy.ask_user("a", always).ask_user is always
        assert policy.ask_user("a", handler=always).ask_user is always
        assert policy.ask_user(MATH, always)[0].ask_user is always
        assert policy.ask_user(MATH, ["t"], handler=always)[0].ask_user is always

    def test_two_handlers_are_an_error(self) -> None:
        with pytest.raises(ConfigError, match="two handlers"):
            policy.ask_user("a", always, handler=always)

    def test_names_of_a_servers_rules(self) -> None:
        rules = [
            *policy.allow(MATH),
            *policy.deny(MATH, ["add", "sub"]),
            *policy.ask_user(MATH, ["t"]),
            *policy.allow(MATH, ["t"], name="mine", id="x"),
            *policy.deny(MATH, name="whole"),
            *policy.veto(MATH, ["t"]),
            *policy.hide(MATH, ["t"]),
        ]
        assert [(rule.tool, rule.name, rule.id) for rule in rules] == [
            ("math/*", "approve_math_all", None),
            ("math/add", "deny_math_add", None),
            ("math/sub", "deny_math_sub", None),
            ("math/t", "ask_user_math_t", None),
            ("math/t", "mine_t", "x_t"),
            ("math/*", "whole", None),
            ("math/t", "deny_math_t", None),
            ("math/t", "deny_math_t", None),
        ]

    def test_no_tools_of_a_server_make_no_rules(self) -> None:
        assert policy.deny(MATH, []) == []

    def test_aliases(self) -> None:
        assert policy.allow_mcp is policy.allow
        assert policy.deny_mcp is policy.deny
        assert policy.ask_user_mcp is policy.ask_user

    def test_tools_beside_a_tool_name_are_an_error(self) -> None:
        text = "mcp_tools cannot be specified when tool is a string."
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            policy.allow("a", ["t"])  # type: ignore[call-overload]

    def test_one_string_as_tools_is_an_error(self) -> None:
        text = "mcp_tools must be a sequence of strings (e.g., ['calc']), not a single string."
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            policy.allow(MATH, "calc")

    def test_a_list_of_tools_is_a_rule_for_each(self) -> None:
        found = policy.hide(("a", "b"), name="n")
        assert [(rule.tool, rule.name, rule.hide) for rule in found] == [
            ("a", "n_a", True),
            ("b", "n_b", True),
        ]
        asked = policy.ask_user(["a", "b"], print)
        assert [rule.ask_user for rule in asked] == [print, print]
        with pytest.raises(ConfigError, match="the list of tools is empty"):
            policy.deny([])
        with pytest.raises(ConfigError, match="mcp_tools cannot be specified when tool is a list"):
            policy.deny(["a"], ["b"])  # type: ignore[call-overload]
        with pytest.raises(ConfigError, match="is not a tool name"):
            policy.deny(["a", 3])  # type: ignore[list-item]

    def test_a_condition_as_text_is_that_of_a_policy_file(self, governed: Any) -> None:
        @otelhooks.tool
        def transfer(amount: int) -> str:
            return "sent"

        governed(policies=[policy.deny("transfer", when='args["amount"] > 100')])
        assert transfer(100) == "sent"
        with pytest.raises(Denied):
            transfer(101)
        with pytest.raises(Denied, match="Policy evaluation failed"):
            transfer("many")  # type: ignore[arg-type]  # what fails denies

    def test_tools_that_are_not_strings_are_an_error(self) -> None:
        with pytest.raises(ConfigError, match="sequence of strings, not of <class 'int'>"):
            policy.allow(MATH, [1])  # type: ignore[list-item]

    def test_an_enum_member_becomes_its_text(self) -> None:
        rule = policy.deny(types.BuiltinTools.RUN_COMMAND)
        assert type(rule.tool) is str
        assert rule.tool == "run_command"

    def test_start_subagent_is_invoke_subagent_but_not_of_a_server(self) -> None:
        assert policy.deny("start_subagent").tool == "invoke_subagent"
        assert policy.deny(MATH, ["start_subagent"])[0].tool == "math/start_subagent"


class TestPresets:
    def test_confirm_run_command_denies_it_and_allows_the_rest(self) -> None:
        rules = policy.confirm_run_command()
        assert [(r.tool, r.decision, r.name) for r in rules] == [
            ("run_command", Decision.DENY, "confirm_run_command"),
            ("*", Decision.APPROVE, "confirm_run_command"),
        ]

    def test_confirm_run_command_with_a_handler_asks(self) -> None:
        rule = policy.confirm_run_command(always)[0]
        assert (rule.decision, rule.ask_user) == (Decision.ASK_USER, always)

    def test_safe_defaults_allows_reading_and_asks_for_the_rest(self) -> None:
        rules = policy.safe_defaults(always)
        assert [rule.tool for rule in rules] == [
            "view_file",
            "read_url_content",
            "schedule",
            "finish",
            "list_directory",
            "search_directory",
            "find_file",
            "*",
        ]
        assert {rule.decision for rule in rules[:-1]} == {Decision.APPROVE}
        assert (rules[-1].decision, rules[-1].ask_user) == (Decision.ASK_USER, always)

    def test_allow_all_and_deny_all(self) -> None:
        assert (policy.allow_all().tool, policy.allow_all().label) == ("*", "allow_all")
        assert (policy.deny_all().tool, policy.deny_all().label) == ("*", "deny_all")

    def test_auto_denies_what_was_not_assessed(self) -> None:
        rule = policy.auto(model="m")
        assert (rule.auto, rule.tool, rule.decision) == (True, "*", Decision.DENY)
        assert (rule.name, rule.model) == ("auto", "m")
        assert not policy.deny("a", name="auto").auto

    def test_auto_with_a_handler_asks(self) -> None:
        rule = policy.auto(name="mine", handler=always)
        assert (rule.decision, rule.ask_user, rule.name) == (Decision.ASK_USER, always, "mine")

    def test_auto_is_a_wildcard_rule(self) -> None:
        rule = policy.PolicySet([policy.auto(), policy.allow("a")]).rules[0]
        assert (rule.level, rule.decision) == (6, "deny")


class TestErrors:
    @pytest.mark.parametrize(
        ("tool", "text"),
        [
            ("", "is not a tool name"),
            (" a", "is not a tool name"),
            ("a\n", "is not a tool name"),
            ("a\0b", "is not a tool name"),
            ("/a", "a server or a tool is missing"),
            ("a/", "a server or a tool is missing"),
            ("a, b", "has a `,`"),
            ("[!a,]*,b", "has a `,`"),
            ("run;ls", "has a `;`"),
            ("run|ls", "has a `|`"),
            ("danger(*)", r"`danger\(\*\)` has arguments\nhint: name the tool, `danger`"),
            ("Bash(rm:*)", "hint: name the tool, `Bash`"),
            ("srv/danger()", "hint: name the tool, `srv/danger`"),
            ("!safe", "`!safe` excludes a tool\nhint: deny `\\*` and allow `safe`"),
            ("kind:unknown", "unknown kind `kind:unknown`"),
            ("Kind:shell", "unknown kind `Kind:shell`"),
            ("kind :shell", "unknown kind `kind :shell`"),
            ("kind: shell", "unknown kind `kind: shell`"),
            ("kind:", "unknown kind"),
            ("a[b", "without its other half"),
            ("a]b", "without its other half"),
            ("**", r"`\*\*` is not known"),
            ("a/**", r"`\*\*` is not known"),
            (3, "is not a tool name"),
            (None, "is not a tool name"),
        ],
    )
    def test_a_tool_that_is_not_understood(self, tool: Any, text: str) -> None:
        with pytest.raises(ConfigError, match=text) as caught:
            policy.deny(tool)
        assert "\nhint: " in str(caught.value)

    @pytest.mark.parametrize("tool", ["Search (web)", "danger[(]*)", "srv:danger", "[!a]*"])
    def test_a_name_that_a_tool_may_have(self, tool: str) -> None:
        assert policy.deny(tool).tool == tool

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"severity": "hgih"}, "unknown severity `hgih`\nhint: use one of low, medium, high"),
            ({"mode": "observe"}, "rule `a`: unknown mode `observe`"),
            ({"when": 3}, "rule `a`: `when` is not callable"),
            (
                {"when": "args['"},
                r"^rule `a`: when:1:\d: no Starlark: unterminated string literal\n",
            ),
            ({"when": "x", "id": "no"}, "^rule `no`: when:1:2: "),
            ({"when": "x"}, "when:1:2: Variable `x` not found"),
            ({"when": "1 +"}, "when:1:2: no Starlark: invalid syntax"),
            ({"when": " "}, "when:1:2: an empty expression"),
            ({"name": 3}, "name is not text: 3"),
            ({"reason": None}, "reason is not text: None"),
            ({"id": 3}, "id is not text: 3"),
            ({"agent": 3}, "agent is not text: 3"),
            ({"agent": "a["}, "without its other half"),
        ],
    )
    def test_a_field_that_is_not_understood(self, fields: dict[str, Any], text: str) -> None:
        with pytest.raises(ConfigError, match=text):
            policy.deny("a", **fields)

    def test_a_decision_or_handler_that_is_not_understood(self) -> None:
        with pytest.raises(ConfigError, match="unknown decision `deny`"):
            policy.Policy("a", "deny")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="`ask_user` is not callable"):
            policy.Policy("a", Decision.ASK_USER, ask_user="me")  # type: ignore[arg-type]

    def test_only_a_deny_can_be_a_veto_or_hide(self) -> None:
        with pytest.raises(ConfigError, match="only a deny"):
            policy.Policy("a", Decision.APPROVE, veto=True)
        with pytest.raises(ConfigError, match="only a deny"):
            policy.Policy("a", Decision.ASK_USER, hide=True)

    def test_a_veto_has_no_mode(self) -> None:
        with pytest.raises(ConfigError, match="a veto holds in any mode"):
            policy.Policy("a", Decision.DENY, veto=True, mode="monitor")


class TestOnlyWhen:
    def test_it_returns_a_copy(self) -> None:
        rule = policy.deny("a", id="x")
        narrowed = rule.only_when(always)
        assert rule.when is None
        assert narrowed.when is always
        assert narrowed == dataclasses.replace(rule, when=always)

    def test_what_was_there_must_hold_too(self) -> None:
        rule = policy.deny("a", when=lambda args: args["x"]).only_when(lambda args: args["y"])
        call = types.ToolCall(name="a", args={"x": 1, "y": 0})
        assert rule.when is not None
        assert rule.when(call) is False
        call.args["y"] = 1
        assert rule.when(call) is True

    @pytest.mark.parametrize("waiting", range(3))
    def test_each_of_several_is_tested_once_in_order_whichever_waits(self, waiting: int) -> None:
        tested: list[int] = []

        def condition(number: int) -> Any:
            def test(args: Any) -> bool:
                tested.append(number)
                return number != args["fails"]

            async def later(args: Any) -> bool:
                return test(args)

            return later if number == waiting else test

        rule = policy.deny("a", when=condition(0))
        for number in (1, 2):
            rule = rule.only_when(condition(number))
        rules = policy.PolicySet([rule])
        for fails in range(4):
            tested.clear()
            ruling = drive(rules.evaluate(Call("a", {"fails": fails})))
            assert ruling.decision == ("deny" if fails == 3 else "allow")
            assert tested == list(range(3))[: fails + 1]

    def test_two_of_the_same_predicates_are_equal(self) -> None:
        one, two = (policy.deny("a", when=always).only_when(always) for _ in range(2))
        assert one == two
        assert hash(one) == hash(two)
        assert one != policy.deny("a", when=always)


class TestFlatten:
    def test_lists_are_taken_apart(self) -> None:
        a, b, c = policy.deny("a"), policy.deny("b"), policy.deny("c")
        assert policy.flatten_policies([a, [b, c]]) == [a, b, c]

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            ([["x"]], "Expected Policy, got <class 'str'>"),
            ([123], "Expected Policy or Sequence of Policies, got <class 'int'>"),
            (["x"], "Expected Policy or Sequence of Policies, got <class 'str'>"),
            ([b"x"], "Expected Policy or Sequence of Policies, got <class 'bytes'>"),
        ],
    )
    def test_what_is_not_a_rule_is_an_error(self, given: Any, text: str) -> None:
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            policy.flatten_policies(given)

    def test_one_rule_alone_is_an_error(self) -> None:
        with pytest.raises(ConfigError, match="a list of rules is wanted"):
            policy.flatten_policies(policy.deny("a"))  # type: ignore[arg-type]


def ids_of(*rules: policy.Policy) -> list[str]:
    return [rule.id for rule in policy.PolicySet(rules, channel=True).rules]


class TestIds:
    def test_a_given_id_is_kept(self) -> None:
        assert ids_of(policy.deny("a", id="mine"), policy.deny("a", id="")) == ["mine", ""]

    def test_an_id_names_decision_and_rule(self) -> None:
        assert ids_of(
            policy.deny("a"),
            policy.veto("a"),
            policy.hide("a"),
            policy.ask_user("a"),
            policy.allow("a"),
            policy.deny("b", name="no b", agent="x", when=lambda args: True),
        ) == ["deny:a", "veto:a", "hide:a", "ask:a", "allow:a", "deny:no b"]

    def test_alike_ones_get_a_hash_whatever_their_order(self) -> None:
        rules = [
            policy.deny("a"),
            policy.deny("a", agent="x"),
            policy.deny("a", when=lambda args: "rm" in args["c"]),
            policy.deny("a", when=lambda args: "mv" in args["c"]),
        ]
        ids = ids_of(*rules)
        assert len(set(ids)) == 4
        assert all(re.fullmatch("deny:a:[0-9a-f]{8}", id) for id in ids)
        assert ids_of(*reversed(rules)) == ids[::-1]

    def test_a_given_id_is_never_taken(self) -> None:
        made, given = ids_of(policy.deny("a"), policy.deny("b", id="deny:a"))
        assert given == "deny:a" != made

    def test_sources_do_not_count_one_another(self) -> None:
        rules = policy.PolicySet([policy.deny("a")]).with_rules([policy.deny("a")], source="file")
        assert [rule.id for rule in rules.rules] == ["deny:a", "deny:a"]

    def test_an_identity_tells_rules_apart_and_not_wording_severity_and_mode(self) -> None:
        plain = identity(policy.deny("a"))
        assert plain == identity(policy.deny("a", reason="r", severity="low", mode="monitor"))
        assert plain != identity(policy.deny("a", when=lambda args: True))
        assert identity(policy.deny("a", id="mine")) == "mine"

    def test_an_approval_is_not_for_another_rule_that_people_see_under_the_same_id(self) -> None:
        def load(amount: int) -> Any:
            when = functools.partial(lambda limit, args: args["amount"] > limit, amount)
            [rule] = policy.PolicySet([policy.ask_user("pay", when=when)], channel=True).rules
            return rule

        asked, again, later = load(10), load(10), load(100)
        assert asked.id == later.id == "ask:pay"
        approval = Approval("approved")
        approval.rules, approval.args = (asked,), {"amount": 500}
        assert approval.covers(again, {"amount": 500})
        assert not approval.covers(later, {"amount": 500})

    def test_rules_that_only_their_code_tells_apart_get_a_number(self) -> None:
        rules = [policy.deny("a", when=lambda args: args["n"] > 1) for _ in range(2)]
        first, second = policy.PolicySet(rules).rules
        assert second.id == f"{first.id}-2"
        assert second.identity == f"{first.identity}-2"

    def test_a_given_id_may_be_given_twice(self) -> None:
        rules = policy.PolicySet([policy.deny("a", id="x"), policy.deny("b", id="x")]).rules
        assert [rule.id for rule in rules] == ["x", "x"]

    def test_the_version_follows_the_code(self) -> None:
        def version(when: Any, **fields: Any) -> str:
            return policy.PolicySet([policy.deny("a", when=when, **fields)]).version

        more = version(lambda args: args["n"] > 1)
        assert more == version(lambda args: args["n"] > 1)
        assert more != version(lambda args: args["n"] < 1)
        assert more != version(lambda args: args["n"] > 1, reason="r")
        assert re.fullmatch("[0-9a-f]{12}", more)


class TestDescribe:
    def test_values_are_described_without_addresses(self) -> None:
        class Callable:
            def method(self) -> None: ...

        @dataclasses.dataclass
        class Limit:
            top: int
            within: list[int]

        for value, expected in [
            (1, "1"),
            ("a", "'a'"),
            (None, "None"),
            ([1, (2,)], "[1, [2]]"),
            ({2, 1}, "{1, 2}"),
            ({"b": 1, "a": [2]}, "{'a': [2], 'b': 1}"),
            (re.compile("x"), "re.compile('x')"),
            (Decision.DENY, "Decision.DENY"),
            (dict, "builtins.dict"),
            (len, "builtins.len"),
        ]:
            assert describe(value, code=False) == expected
        assert describe(pathlib.PurePosixPath("/a"), code=False) == "PurePosixPath('/a')"
        assert describe(Limit(1, [2]), code=False).endswith("Limit {'top': 1, 'within': [2]}")
        assert describe(Callable(), code=False).endswith("<locals>.Callable")
        method = describe(Callable().method, code=False)
        assert "Callable.method" in method
        assert "0x" not in method
        assert "partial" in describe(functools.partial(always, 1, x=2), code=False)
        assert describe(policy.deny("a", when=always).only_when(always).when, code=True)

    def test_what_a_predicate_captured_counts(self) -> None:
        def make(word: str) -> Any:
            return lambda args: word in args

        assert describe(make("a"), code=False) != describe(make("b"), code=False)

    def test_a_loop_ends(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        assert describe(loop, code=False) == "[...]"

    def test_a_name_that_is_not_assigned_yet_is_not_an_error(self) -> None:
        def early() -> Any:
            return later

        text = describe(early, code=False)
        later = 1
        assert text.endswith("?")
        assert later


class TestText:
    def test_a_rule_says_the_same_wherever_it_is_written(self) -> None:
        rule = policy.deny("a", id="r")
        assert repr(dataclasses.replace(rule, place="rules.yaml:3:5")) == repr(rule)


class TestCopies:
    def test_a_rule_can_be_copied_and_pickled(self) -> None:
        rule = policy.deny("a*/b", when=always)
        assert copy.deepcopy(rule) == rule
        again = pickle.loads(pickle.dumps(policy.deny("a*/b")))
        assert again == policy.deny("a*/b")
        assert again.selector.fits("ax", "b")

    def test_a_rule_cannot_be_changed(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            policy.deny("a").tool = "b"  # type: ignore[misc]
