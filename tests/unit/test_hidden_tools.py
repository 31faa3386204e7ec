"""Tools that a rule or a server's configuration hides from the model."""

import pytest

import otelhooks
from otelhooks import policy, types

TOOLS = [{"name": "search"}, {"type": "function", "function": {"name": "run_command"}}]


def _names(tools):
    return [tool.get("name") or tool["function"]["name"] for tool in tools]


@pytest.fixture
def offered():
    seen = []

    @otelhooks.model_call(model="scripted")
    def ask(messages, tools):
        seen.append(_names(tools))
        return "done"

    def call(**arguments):
        otelhooks.instrument(frameworks=[], **arguments)
        ask([{"role": "user", "content": "hello"}], tools=list(TOOLS))
        return seen[-1]

    yield call
    otelhooks.uninstrument()


def test_a_hidden_tool_is_not_offered_to_the_model(offered):
    assert offered(policies=[policy.hide("run_command")]) == ["search"]


def test_a_denied_tool_is_offered(offered):
    assert offered(policies=[policy.deny("run_command")]) == ["search", "run_command"]


def test_a_call_of_a_hidden_tool_is_denied_all_the_same():
    otelhooks.instrument(frameworks=[], policies=[policy.hide("run_command")])

    @otelhooks.tool
    def run_command():
        raise AssertionError("the body ran")

    with pytest.raises(otelhooks.errors.Denied):
        run_command()


def test_a_servers_disabled_tools_are_denied_without_any_rule():
    server = types.McpStdioServer(name="docs", command="docs", disabled_tools=["delete_page"])
    otelhooks.instrument(frameworks=[], mcp_servers=[server])

    @otelhooks.tool(server="docs")
    def delete_page():
        raise AssertionError("the body ran")

    with pytest.raises(otelhooks.errors.Denied):
        delete_page()
