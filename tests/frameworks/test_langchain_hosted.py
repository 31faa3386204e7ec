"""Tools that run at the model's provider: no call of them passes here, so rules take them out."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain", reason="langchain is not installed")

import otelhooks
from otelhooks import policy
from tests.frameworks.agents_langchain import ScriptedModel, World

FUNCTION = {"type": "function", "function": {"name": "safe", "parameters": {}}}
HOSTED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "OpenAI search": ({"type": "web_search_preview"}, ["search_web", "web_search", "kind:net"]),
    "OpenAI dated": ({"type": "web_search_preview_2025_03_11"}, ["web_search"]),
    "OpenAI code": ({"type": "code_interpreter"}, ["code_execution", "kind:shell", "kind:net"]),
    "OpenAI files": ({"type": "file_search", "vector_store_ids": []}, ["file_search", "kind:net"]),
    "OpenAI server": (
        {"type": "mcp", "server_label": "github"},
        ["github/*", "github/delete_repo", "*/delete_*", "kind:net"],
    ),
    "OpenAI container": (
        {"type": "shell", "environment": {"type": "container_auto"}},
        ["run_command", "kind:shell", "kind:net"],
    ),
    "Anthropic search": (
        {"type": "web_search_20250305", "name": "web_search"},
        ["search_web", "web_search", "kind:net"],
    ),
    "Anthropic page": ({"type": "web_fetch_20250910", "name": "web_fetch"}, ["read_url_content"]),
    "Anthropic code": ({"type": "code_execution_20250825", "name": "x"}, ["kind:shell", "x"]),
    "Anthropic server": ({"type": "mcp_toolset", "mcp_server_name": "github"}, ["github/*"]),
    "Google search": ({"google_search": {}}, ["search_web", "google_search"]),
    "Google several": (
        {"url_context": {}, "googleSearch": {}},
        ["search_web", "read_url_content", "kind:net"],
    ),
    "Google code": ({"codeExecution": {}}, ["code_execution", "kind:shell"]),
    "Google pages": ({"url_context": {}}, ["read_url_content"]),
    "nobody knows": ({"type": "teleport_20300101", "name": "teleport"}, ["teleport", "kind:net"]),
}
HERE = (
    {"type": "bash_20250124", "name": "bash"},
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
    {"type": "computer_use_preview"},
    {"type": "shell", "environment": {"type": "local"}},
    {"type": "local_shell"},
    {"name": "mine", "input_schema": {}},
    {"function_declarations": [{"name": "mine"}]},
    {"toolSpec": {"name": "mine"}},
)


def offered(*definitions: Any) -> list[Any]:
    """Return the definitions that a model is called with."""
    shown: list[Any] = []

    class Looking(ScriptedModel):
        def _generate(self, messages: Any, stop: Any = None, **kwargs: Any) -> Any:
            shown.extend(kwargs.get("tools", []))
            return super()._generate(messages, stop)

    Looking(world=World("Done.")).invoke("begin", tools=list(definitions))
    return shown


@pytest.mark.parametrize(
    ("definition", "rule"),
    [
        pytest.param(definition, rule, id=f"{name}-{rule}")
        for name, (definition, rules) in HOSTED.items()
        for rule in rules
    ],
)
@pytest.mark.parametrize("decision", [policy.deny, policy.veto, policy.ask_user])
def test_one_that_a_rule_is_against_is_not_offered(
    definition: Any, rule: str, decision: Any, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"handler": lambda call: True} if decision is policy.ask_user else {}
    otelhooks.instrument(policies=[decision(rule, **given)], frameworks=["langchain"])
    assert offered(FUNCTION, definition) == [FUNCTION]
    assert "is not offered to models: rule" in caplog.text


@pytest.mark.parametrize("name", HOSTED)
def test_one_that_no_rule_is_against_is_offered(name: str) -> None:
    definition, _ = HOSTED[name]
    otelhooks.instrument(policies=[policy.deny("other")], frameworks=["langchain"])
    assert offered(FUNCTION, definition) == [FUNCTION, definition]


@pytest.mark.parametrize("definition", HERE, ids=str)
def test_a_tool_whose_calls_come_back_is_offered_under_any_rule(definition: Any) -> None:
    rules = [policy.deny(kind) for kind in ("kind:net", "kind:shell", "*")]
    otelhooks.instrument(policies=rules, frameworks=["langchain"])
    assert offered(definition) == [definition]


def test_of_a_server_only_the_tools_count_that_are_listed() -> None:
    listed = {"type": "mcp", "server_label": "github", "allowed_tools": ["list_repos"]}
    otelhooks.instrument(policies=[policy.deny("github/delete_repo")], frameworks=["langchain"])
    assert offered(listed) == [listed]
