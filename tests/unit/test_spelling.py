"""Rules that name a tool almost as it is called: logged once, as soon as the tool appears."""

from __future__ import annotations

import pytest

import otelhooks
from otelhooks import policy, types
from otelhooks.hooks.calls import Call
from otelhooks.pipeline.offered_tools import DECORATED
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.spelling import Spelling

EVENT = "otelhooks.policy.rule.unmatched"


@pytest.fixture(autouse=True)
def no_tools_of_other_tests(monkeypatch):
    for each in list(DECORATED):
        monkeypatch.delitem(DECORATED, each)


def meet(rules, *tools):
    spelling = Spelling(PolicySet(rules))
    calls = [Call(name, {}, server=server or None) for server, _, name in map(split, tools)]
    return [(found.rule.selector.text, found.tool) for found in spelling.meet(calls)]


def split(tool):
    return tool.rpartition("/") if "/" in tool else ("", "", tool)


class TestNames:
    @pytest.mark.parametrize(
        ("rule", "tool"),
        [
            ("run_command", "run_comand"),
            ("run_comand", "run_command"),
            ("run_command", "run_cammand"),
            ("run_command", "run_commnad"),
            ("run_command", "runCommand"),
            ("run_command", "run-command"),
            ("delete_page", "delete_pages"),
            ("github/create_pr", "github/create_pull"[:-2]),
            ("guthub/create_pr", "github/create_pr"),
            ("github:create_pr", "github/create_pr"),
        ],
    )
    def test_one_letter_or_another_spelling_is_found(self, rule, tool):
        """The class: a rule that no call will ever meet, since it names no tool."""
        assert meet([policy.deny(rule)], tool) == [(rule, tool)]

    @pytest.mark.parametrize(
        ("rule", "tool"),
        [
            ("run_command", "run_commands_now"),
            ("run_command", "list_pages"),
            ("ls", "cd"),
            ("get", "set"),
            ("run_comm*", "run_coman"),
            ("*", "run_comand"),
        ],
    )
    def test_other_names_and_patterns_are_not(self, rule, tool):
        assert meet([policy.deny(rule)], tool) == []

    def test_a_rule_that_a_tool_has_met_is_none(self):
        assert meet([policy.deny("run_command")], "run_command", "run_commands") == []

    def test_a_tool_that_another_rule_names_is_not_meant(self):
        rules = [policy.deny("delete_page"), policy.allow("delete_pages")]
        assert meet(rules, "delete_pages") == []

    @pytest.mark.parametrize(
        "rule",
        [
            policy.ask_user("delete_page", lambda call: True),
            policy.veto("delete_page"),
            policy.hide("delete_page"),
            policy.deny("delete_page", when=lambda args: True),
        ],
    )
    def test_every_rule_that_denies_or_asks_counts(self, rule):
        assert meet([rule], "delete_pages") == [("delete_page", "delete_pages")]

    def test_rules_that_allow_and_those_that_are_made_for_many_tools_do_not(self, tmp_path):
        rules = [policy.allow("delete_page"), *policy.workspace_only([tmp_path])]
        assert meet(rules, "delete_pages", "view_files", "create_files") == []

    def test_the_guards_of_policy_files_are_made_for_many_tools_too(self):
        rules = policy.PolicySet([policy.deny("view_file")], source="policy_files").rules
        assert [rule.is_built_in for rule in rules] == [True]
        assert not policy.PolicySet([policy.deny("view_file")]).rules[0].is_built_in

    def test_a_tool_is_compared_once_and_a_name_without_end_never(self):
        spelling = Spelling(PolicySet([policy.deny("delete_page")]))
        assert spelling.meet([Call("x" * 10_000, {})]) == []
        assert len(spelling.meet([Call("delete_pages", {})])) == 1
        assert spelling.is_done
        assert spelling.meet([Call("delete_pages", {})]) == []


class TestPrograms:
    @pytest.fixture
    def said(self, caplog):
        return lambda: [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]

    @pytest.fixture
    def ask(self):
        @otelhooks.model_call(model="m")
        def ask(messages, tools):
            return types.ModelResponse(text="Done.")

        return ask

    def test_tools_that_a_model_is_offered_are_compared_once(self, governed, said, ask):
        governed(policies=[policy.deny("run_comand", id="no-run"), policy.deny("other")])
        for _ in range(3):
            ask([], [{"name": "run_command"}, {"function": {"name": "view"}}])
        [warning] = said()
        assert warning == (
            "rule `run_comand` of policy `code` matches no tool so far\n"
            "hint: there is a tool `run_command`: did you mean it? `otelhooks policy explain` shows"
            " which rules apply to a call"
        )
        [event] = governed.event(EVENT)
        assert event == {
            "otelhooks.policy.id": "code",
            "otelhooks.policy.rule.id": "no-run",
            "otelhooks.policy.rule.tool": "run_comand",
            "gen_ai.tool.name": "run_command",
        }

    def test_tools_that_are_called_are_compared_too(self, governed, said):
        governed(policies=[policy.deny("run_comand", when=lambda args: True)])
        run = otelhooks.tool(lambda: "ran", name="run_command")
        assert [run(), run()] == ["ran", "ran"]
        assert len(said()) == len(governed.event(EVENT)) == 1

    @pytest.mark.parametrize("server", [None, "shop", "https://ada:pw@shop.test/mcp?key=1"])
    def test_a_rule_for_a_decorated_tool_that_was_not_called_yet_is_right(
        self, governed, said, ask, server
    ):
        prefix = {None: "", "shop": "shop/"}.get(server, "https://shop.test/mcp/")

        @otelhooks.tool(server=server)
        def delete_order(n):
            return n

        @otelhooks.tool(server=server)
        def delete_orders(n):
            raise AssertionError

        near = policy.deny(f"{prefix}delete_orders"), policy.ask_user("delete_ordrs")
        governed(policies=near, approvals=lambda call: True)
        assert delete_order(1) == 1
        assert [line.partition(" of ")[0] for line in said()] == (
            ["rule `delete_ordrs`"] if server is None else []
        )

    def test_rules_that_are_loaded_again_are_not_told_again(self, governed, said, ask):
        handle = governed(policies=[policy.deny("run_comand")])
        ask([], [{"name": "run_command"}])
        handle.replace(policies=[policy.deny("run_comand")])
        ask([], [{"name": "run_command"}])
        assert len(said()) == 1

    def test_a_name_that_forges_a_line_of_the_log_is_spelled_out(self, governed, said, ask):
        governed(policies=[policy.deny("run_command")])
        ask([], [{"name": "run_com\nmand"}])
        assert "`run_com\\nmand`" in said()[0]

    def test_nothing_is_looked_at_any_more_when_every_rule_has_met_a_tool(self, governed, ask):
        handle = governed(policies=[policy.deny("run_command")])
        ask([], [{"name": "run_command"}])
        assert handle._runtime.see_tools is None

    def test_definitions_that_cannot_be_read_cost_no_call(self, governed, caplog, monkeypatch):
        governed(policies=[policy.deny("run_command")])

        @otelhooks.model_call(model="m")
        def ask(messages, tools):
            return "Done."

        class Unreadable:
            @property
            def name(self):
                raise ValueError("secret")

        assert ask([], [Unreadable()]) == "Done."
        assert "secret" not in caplog.text
