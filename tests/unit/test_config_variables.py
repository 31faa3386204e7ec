"""Variables that were meant for otelhooks and that nothing reads: no program starts unguarded."""

import sys

import pytest
from click.testing import CliRunner

import otelhooks
from otelhooks.cli import cli
from otelhooks.config import load
from otelhooks.config import variables as config_variables
from otelhooks.errors import ConfigError


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(config_variables, "_said", set())


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("OTELHOOKS_POLICY", "OTELHOOKS_POLICIES"),
        ("OTELHOOKS_POLICES", "OTELHOOKS_POLICIES"),
        ("OTELHOOKS_PLICIES", "OTELHOOKS_POLICIES"),
        ("OTELHOOKS_POLICY_FILES", "OTELHOOKS_POLICIES"),
        ("OTELHOOKS_RULES", "OTELHOOKS_POLICIES"),
        ("OTELHOOKS_HOOK", "OTELHOOKS_HOOKS"),
        ("OTELHOOKS_MCP_SERVER", "OTELHOOKS_MCP_SERVERS"),
        ("OTELHOOKS_AUDIT_DIR", "OTELHOOKS_AUDIT"),
        ("OTELHOOKS_STRICKT", "OTELHOOKS_STRICT"),
        ("OTELHOOK_POLICIES", "OTELHOOKS_POLICIES"),
        ("OTEL_HOOKS_POLICIES", "OTELHOOKS_POLICIES"),
        ("otelhooks_policies", "OTELHOOKS_POLICIES"),
        ("Otelhooks_Policy", "OTELHOOKS_POLICIES"),
    ],
)
def test_a_misspelt_variable_that_could_name_rules_is_an_error_at_start(monkeypatch, name, meant):
    """The class: a program that was given rules, and would start without them."""
    monkeypatch.setenv(name, "rules.yaml")
    with pytest.raises(ConfigError) as caught:
        otelhooks.instrument()
    assert str(caught.value).startswith(f"variable `{name}` is not known")
    assert f"\nhint: did you mean `{meant}`?" in str(caught.value)


@pytest.mark.parametrize("name", ["OTELHOOKS_MODES", "OTELHOOKS_STORED", "OTELHOOKS_COLOUR"])
def test_any_other_unknown_variable_is_warned_about_once(monkeypatch, caplog, name):
    monkeypatch.setenv(name, "1")
    load()
    load()
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert f"variable `{name}` is not known" in record.getMessage()


@pytest.mark.parametrize(
    "name",
    [
        "OTELHOOKS_ALLOW_UNSAFE_POLICY_FILES",
        "OTELHOOKS_TRACE_STORE",
        "OTELHOOKS_SECRETS",
        "OTELHOOKS_POLICIES_SERVICE_HOST",
        "OTELHOOKS_POLICIES_PORT_4317_TCP_ADDR",
        "OTELHOOKS_RULES_PORT",
        "POLICIES",
        "MY_OTELHOOKS_POLICY",
    ],
)
def test_variables_of_ours_of_kubernetes_and_of_others_are_not_mistakes(monkeypatch, caplog, name):
    monkeypatch.setenv(name, "1")
    load()
    assert caplog.text == ""


def test_an_empty_variable_names_nothing(monkeypatch, caplog):
    monkeypatch.setenv("OTELHOOKS_POLICY", " ")
    load()
    assert caplog.text == ""


@pytest.mark.parametrize("command", [["doctor"], ["run", "--", sys.executable, "-c", ""]])
def test_commands_refuse_it_too(monkeypatch, command):
    monkeypatch.setenv("OTELHOOKS_POLICY", "rules.yaml")
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 2
    assert "did you mean `OTELHOOKS_POLICIES`?" in result.stderr


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        (True, "SPAN_AND_EVENT"),
        ("true", "SPAN_AND_EVENT"),
        ("1", "SPAN_AND_EVENT"),
        (False, "NO_CONTENT"),
        ("off", "NO_CONTENT"),
    ],
)
def test_content_that_is_just_switched_on_is_all_content(monkeypatch, value, mode):
    assert load(capture_content=value).capture_content == mode
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", str(value))
    assert load().capture_content == mode


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_variable_that_would_guard_is_said_once(monkeypatch, caplog, text):
    monkeypatch.setenv("OTELHOOKS_POLICIES", text)
    monkeypatch.setenv("OTELHOOKS_MODE", text)
    assert load().policies == load().policies == ()
    assert caplog.messages == ["variable `OTELHOOKS_POLICIES` is empty, which counts as not set"]


@pytest.mark.parametrize("text", [",", " , "])
def test_policies_that_name_nothing_are_refused(monkeypatch, text):
    monkeypatch.setenv("OTELHOOKS_POLICIES", text)
    with pytest.raises(ConfigError, match=r"OTELHOOKS_POLICIES cannot be ` ?, ?`"):
        load()
