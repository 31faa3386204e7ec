"""What rules say about tools whose calls pass no seat."""

from __future__ import annotations

from typing import Any

import pytest

from otelhooks import policy, types
from otelhooks.hooks.calls import Call
from otelhooks.pipeline.hosted_tools import Hosted, rule_against

SEARCH = Hosted((Call("web_search", {}, canonical=("search_web",), kind="net"),))
SERVER = Hosted((Call("hosted_mcp", {}, kind="net"),), "github")


def against(tool: Hosted, *rules: Any, branch: str = "main", **settings: Any) -> str | None:
    rule = rule_against(policy.PolicySet(rules, channel=True, **settings), tool, branch)
    return rule and rule.label


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([policy.deny("web_search")], "web_search"),
        ([policy.ask_user("kind:net")], "kind:net"),
        ([policy.deny("web_search", when=lambda args: False)], "web_search"),
        ([policy.deny("search_web", when=lambda args: False)], None),
        ([policy.deny("*", when=lambda args: True)], None),
        ([policy.deny("web_search", when_labels=["secret"])], "web_search"),
        ([policy.deny("web_search", mode="monitor")], None),
        ([policy.deny("web_search", agent="other")], None),
        ([policy.deny("web_search", agent="main")], "web_search"),
        ([policy.allow("web_search"), policy.deny_all()], None),
        ([policy.allow("web_search", when=lambda args: True), policy.deny_all()], "deny_all"),
    ],
)
def test_what_no_call_can_be_judged_by_counts_where_it_names_the_tool(rules, expected) -> None:
    assert against(SEARCH, *rules) == expected


def test_a_server_whose_tools_are_not_listed_may_have_each_that_a_rule_speaks_of() -> None:
    assert against(SERVER) is None
    assert against(SERVER, policy.deny("gitlab/delete_repo"), policy.deny("delete_repo")) is None
    assert against(SERVER, policy.deny("github/delete_repo")) == "github/delete_repo"
    assert against(SERVER, policy.deny("*/delete_*")) == "*/delete_*"
    assert (
        against(SERVER, policy.allow("github/*"), policy.allow("hosted_mcp"), default="deny")
        is None
    )
    only = [policy.allow("github/read_file"), policy.allow("hosted_mcp")]
    assert against(SERVER, *only, default="deny") == "default"


@pytest.mark.parametrize("lists", [{"enabled_tools": ["read"]}, {"disabled_tools": ["delete"]}])
def test_lists_of_a_servers_configuration_count(lists: dict[str, Any]) -> None:
    config = types.McpStdioServer(name="github", command="server", **lists)
    assert against(SERVER, mcp_servers=[config]) is not None
    assert against(Hosted(SERVER.calls, "gitlab"), mcp_servers=[config]) is None
