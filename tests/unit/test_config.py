"""Precedence of argument, variable and default; every wrong value is a clear error."""

from __future__ import annotations

import logging
import os
import sys
import types
from pathlib import Path

import pytest

import otelhooks
from otelhooks import config
from otelhooks.config import UNSET, Config, load
from otelhooks.config.capture import CaptureMode
from otelhooks.errors import ConfigError
from otelhooks.policy import packs
from otelhooks.setup import catalogue

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("OTEL", "OTELHOOKS")):
            monkeypatch.delenv(name)


@pytest.fixture
def module(monkeypatch):
    """An importable module of the user with a few objects."""
    made = types.ModuleType("my_guards")
    made.one = object()
    made.many = [object(), object()]
    made.inner = types.SimpleNamespace(deep=object())
    monkeypatch.setitem(sys.modules, "my_guards", made)
    return made


class TestPrecedence:
    def test_defaults_are_those_of_the_documented_signature(self):
        found = load()
        assert found == Config()
        assert (found.mode, found.stream, found.spans) == ("enforce", "buffer", "auto")
        assert (found.max_continuations, found.denied_span_status) == (2, "error")
        assert found.capture_content is CaptureMode.NO_CONTENT
        assert found.strict is None
        assert set(found.sources.values()) == {"default"}

    def test_an_argument_wins_over_a_variable_over_the_default(self, monkeypatch):
        assert load().mode == "enforce"
        monkeypatch.setenv("OTELHOOKS_MODE", "monitor")
        assert (load().mode, load().sources["mode"]) == ("monitor", "OTELHOOKS_MODE")
        found = load(mode="enforce")
        assert (found.mode, found.sources["mode"]) == ("enforce", "argument")

    def test_unset_is_not_given_but_none_is(self, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_STRICT", "true")
        assert load(strict=UNSET).strict is True
        assert load(strict=None).strict is None

    def test_an_empty_variable_is_not_given(self, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_MODE", " ")
        assert load().mode == "enforce"

    def test_capture_of_otelhooks_wins_over_that_of_opentelemetry(self, monkeypatch):
        monkeypatch.setenv(CAPTURE, "span_only")
        assert load().capture_content is CaptureMode.SPAN_ONLY
        assert load(capture_content=None).capture_content is CaptureMode.SPAN_ONLY
        assert load().sources["capture_content"] == CAPTURE
        monkeypatch.setenv("OTELHOOKS_CAPTURE_CONTENT", "EVENT_ONLY")
        assert load().capture_content is CaptureMode.EVENT_ONLY
        assert load(capture_content=None).capture_content is CaptureMode.EVENT_ONLY
        assert load(capture_content="NO_CONTENT").capture_content is CaptureMode.NO_CONTENT

    def test_the_configuration_is_frozen(self):
        with pytest.raises(AttributeError):
            load().mode = "monitor"

    def test_every_setting_has_a_variable_except_providers(self):
        assert "OTELHOOKS_POLICIES" in config.VARIABLES
        assert "OTELHOOKS_TOKEN_HISTOGRAM" in config.VARIABLES
        assert not [name for name in config.VARIABLES if name.endswith("PROVIDER")]


class TestValues:
    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("reload", "1", True),
            ("record_allows", "Yes", True),
            ("raise_on_deny", "off", False),
            ("stream", "PASS", "pass"),
            ("spans", "own", "own"),
            ("http_allow", "a.example, b.example,", ("a.example", "b.example")),
            ("hook_tools", "t", ("t",)),
            ("max_continuations", "0", 0),
            ("approval_timeout", "1.5", 1.5),
            ("denied_span_status", "unset", "unset"),
            ("user_attribute", "user.id", "user.id"),
            ("strict", "false", False),
            ("token_histogram", "1", True),
            ("chunk_histogram", "1", True),
            ("tool_histogram", "1", True),
            ("announce", "false", False),
            ("keep_unsent", "false", False),
            ("allow_policy_writes", "1", True),
            ("redact", "false", False),
            ("frameworks", "openai_agents, mcp=off", {"openai_agents": "on", "mcp": "off"}),
        ],
    )
    def test_a_variable_is_read(self, monkeypatch, name, text, value):
        monkeypatch.setenv(f"OTELHOOKS_{name.upper()}", text)
        assert getattr(load(), name) == value

    def test_paths_are_read_and_the_home_directory_is_found(self, monkeypatch, tmp_path):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("OTELHOOKS_STORE", "~/store.db")
        monkeypatch.setenv("OTELHOOKS_AUDIT", str(tmp_path / "audit"))
        assert load().store == tmp_path / "store.db"
        assert load().audit == tmp_path / "audit"

    @pytest.mark.parametrize(
        ("given", "value"),
        [
            (None, None),
            (["mcp"], ("mcp",)),
            ("mcp", ("mcp",)),
            ([], ()),
            ("", None),
            ({"mcp": "off", "x": {"spans": "own"}}, {"mcp": "off", "x": {"spans": "own"}}),
        ],
    )
    def test_frameworks_are_names_or_a_mapping(self, given, value):
        assert load(frameworks=given).frameworks == value

    def test_names_leave_all_other_frameworks_alone(self):
        _, off = catalogue.wanted(load(frameworks=["mcp"]).frameworks)
        assert off == set(catalogue.ADAPTERS) - {"mcp"}

    def test_objects_are_taken_as_they_are(self, module):
        found = load(
            policies=[module.one, *module.many],
            hooks=module.one,
            approvals=module.one,
            audit=module.one,
            tracer_provider=module.one,
            mcp_servers=[module.one],
        )
        assert found.policies == (module.one, *module.many)
        assert found.hooks == found.approvals == found.mcp_servers == (module.one,)
        assert found.audit is found.tracer_provider is module.one

    def test_a_variable_can_name_a_trail(self, monkeypatch, module):
        monkeypatch.setenv("OTELHOOKS_AUDIT", f"{module.__name__}:one")
        assert load().audit is module.one

    @pytest.mark.parametrize("name", ["hooks", "approvals", "policies", "candidate", "mcp_servers"])
    def test_references_in_a_variable_are_imported_and_lists_spread(
        self, monkeypatch, module, name
    ):
        monkeypatch.setenv(f"OTELHOOKS_{name.upper()}", "my_guards:one, my_guards:many")
        monkeypatch.setenv("OTELHOOKS_REDACT", "my_guards:inner.deep")
        found = load()
        assert getattr(found, name) == (module.one, *module.many)
        assert found.redact is module.inner.deep

    def test_a_class_of_approvers_stands_for_the_same_object_each_time(self, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_APPROVALS", "otelhooks.approvals:Terminal")
        (channel,) = load().approvals

        assert type(channel) is otelhooks.approvals.Terminal
        assert load().approvals == (channel,)

    def test_a_class_that_needs_arguments_is_no_approver(self, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_APPROVALS", "pathlib:Path, types:ModuleType")
        with pytest.raises(ConfigError, match="cannot be the class `module`"):
            load()

    def test_references_work_as_arguments_too(self, module):
        assert load(policies=["my_guards:one"]).policies == (module.one,)

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"mode": "observe"}, ["mode cannot be `observe`", "enforce or monitor"]),
            ({"mode": None}, ["mode cannot be `None`"]),
            ({"reload": "maybe"}, ["reload cannot be `maybe`", "true or false"]),
            ({"strict": 3}, ["strict cannot be `3`"]),
            ({"max_continuations": -1}, ["max_continuations cannot be `-1`", "whole number"]),
            *(
                ({"approval_timeout": value}, ["approval_timeout cannot be", "seconds above 0"])
                for value in (0, -1, "soon", True, None, float("inf"), float("nan"), 1e300)
            ),
            ({"max_continuations": True}, ["max_continuations cannot be `True`"]),
            ({"max_continuations": "two"}, ["`two`"]),
            ({"http_allow": 5}, ["http_allow cannot be `5`"]),
            ({"capture_content": "all"}, ["capture_content cannot be `all`", "SPAN_ONLY"]),
            ({"capture_content": "span-only"}, ["`span-only`", "did you mean `SPAN_ONLY`?"]),
            ({"store": 5}, ["store cannot be `5`"]),
            ({"frameworks": {"mcp": "maybe"}}, ["frameworks of `mcp` cannot be `maybe`"]),
            ({"frameworks": {"mcp": {"colour": 1}}}, ["frameworks of `mcp`"]),
            ({"frameworks": {"mcp": {"spans": "many"}}}, ["cannot be `many`"]),
            ({"hooks": ["not a reference"]}, ["hooks cannot be `not a reference`", "module:attr"]),
            ({"hooks": ["no_such_module:x"]}, ["hooks names `no_such_module:x`", "imported"]),
            ({"hooks": ["logging:no_such"]}, ["module `logging` has no `no_such`"]),
            ({"redact": "maybe"}, ["redact cannot be `maybe`"]),
            ({"moed": "monitor"}, ["unknown setting `moed`", "mode"]),
        ],
    )
    def test_a_wrong_argument_is_named_with_what_is_allowed(self, arguments, said):
        with pytest.raises(ConfigError) as caught:
            load(**arguments)
        text = str(caught.value)
        assert "\nhint: " in text
        for words in said:
            assert words in text

    def test_a_wrong_variable_is_named(self, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_MODE", "observe")
        with pytest.raises(ConfigError, match="OTELHOOKS_MODE cannot be `observe`"):
            load()

    def test_a_module_that_fails_while_it_is_imported_is_said(self, monkeypatch, tmp_path):
        (tmp_path / "broken_guards.py").write_text("raise RuntimeError('boom')")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(ConfigError, match="boom") as caught:
            load(hooks=["broken_guards:x"])
        assert isinstance(caught.value.__cause__, RuntimeError)


class TestPolicyPaths:
    def test_a_path_that_is_not_there_is_an_error_that_says_what_to_do(self, tmp_path):
        path = tmp_path / "none.yaml"
        with pytest.raises(ConfigError, match=r"none\.yaml`, which cannot be read") as caught:
            load(policies=[path])
        assert "hint: give an existing" in str(caught.value)

    def test_paths_come_out_absolute_and_in_order(self, tmp_path, monkeypatch, module):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "prod.yaml").write_text("version: 1")
        found = load(policies=["prod.yaml", module.one, tmp_path]).policies
        assert found == (tmp_path / "prod.yaml", module.one, tmp_path)
        assert load(candidate=str(tmp_path)).candidate == (tmp_path,)

    def test_a_text_with_commas_is_several(self, tmp_path, monkeypatch):
        for name in ("a.yaml", "b.yaml"):
            (tmp_path / name).write_text("version: 1")
        monkeypatch.setenv("OTELHOOKS_POLICIES", f"{tmp_path / 'a.yaml'}, {tmp_path / 'b.yaml'}")
        assert load().policies == (tmp_path / "a.yaml", tmp_path / "b.yaml")

    def test_the_name_of_a_pack_is_the_pack_whatever_lies_in_the_folder(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "governed").mkdir()
        assert load(policies="governed").policies == (packs.folder("governed"),)
        assert load(policies="./governed").policies == (tmp_path / "governed",)

    def test_a_path_in_the_variable_is_never_skipped(self, monkeypatch):
        monkeypatch.setenv("OTELHOOKS_POLICIES", "./policies")
        with pytest.raises(ConfigError, match=r"OTELHOOKS_POLICIES names `\./policies`"):
            load()


class TestOpenTelemetry:
    @pytest.mark.parametrize(
        "name",
        [
            "OTEL_TRACES_EXPORTER",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
            "OTEL_METRICS_EXPORTER",
        ],
    )
    def test_any_exporter_variable_counts_as_configured(self, monkeypatch, name):
        assert not load().exporters_configured
        monkeypatch.setenv(name, "x")
        assert load().exporters_configured

    @pytest.mark.parametrize(
        ("text", "value"), [("true", True), ("TRUE ", True), ("1", False), ("", False)]
    )
    def test_the_sdk_can_be_disabled(self, monkeypatch, text, value):
        """Only `true` disables, as the specification says."""
        monkeypatch.setenv("OTEL_SDK_DISABLED", text)
        assert load().sdk_disabled is value

    def test_other_variables_are_read(self, monkeypatch):
        monkeypatch.setenv("OTEL_CONFIG_FILE", "otel.yaml")
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT", "true")
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK", "upload")
        monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental,http")
        found = load()
        assert found.config_file == "otel.yaml"
        assert found.emit_event is True
        assert found.completion_hook == "upload"
        assert found.otel["OTEL_CONFIG_FILE"] == "otel.yaml"

    @pytest.mark.parametrize(
        ("text", "flags"),
        [
            ("gen_ai_latest_experimental,http", set()),
            ("http/dup,gen_ai_latest_experimental/dup", {"old_model_metrics"}),
            (" gen_ai_tool_call_decision ,,http", {"decision_event"}),
            ("GEN_AI_TOOL_CALL_DECISION,gen_ai/dup", set()),
            (
                "gen_ai_latest_experimental,gen_ai_latest_experimental/dup,gen_ai_tool_call_decision",
                {"old_model_metrics", "decision_event"},
            ),
        ],
    )
    def test_words_of_the_shared_list_of_conventions(self, monkeypatch, text, flags):
        variable = "OTEL_SEMCONV_STABILITY_OPT_IN"
        monkeypatch.setenv(variable, text)
        found = load()
        for flag in ("old_model_metrics", "decision_event"):
            assert getattr(found, flag) is (flag in flags)
            assert found.sources[flag] == (variable if flag in flags else "default")

    @pytest.mark.parametrize(
        ("name", "text"), [(CAPTURE, "all"), ("OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT", "maybe")]
    )
    def test_a_wrong_value_of_opentelemetry_warns_and_is_off(self, monkeypatch, caplog, name, text):
        monkeypatch.setenv(name, text)
        found = load()
        assert found.capture_content is CaptureMode.NO_CONTENT
        assert found.emit_event is False
        assert [record.levelno for record in caplog.records] == [logging.WARNING]

    def test_secrets_in_variables_are_not_shown(self, monkeypatch):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=abc123")
        assert "abc123" not in repr(load())


class TestDifferences:
    def test_the_same_arguments_do_not_differ(self, module):
        assert load(policies=[module.one]).differences(load(policies=[module.one])) == ()

    def test_settings_that_differ_are_named(self, module):
        found = load(mode="monitor", hooks=[module.one]).differences(load(hooks=module.many))
        assert found == ("hooks", "mode")

    def test_where_a_value_came_from_is_not_a_difference(self, monkeypatch):
        given = load(mode="monitor")
        monkeypatch.setenv("OTELHOOKS_MODE", "monitor")
        assert given.differences(load()) == ()

    def test_objects_that_cannot_be_compared_differ(self):
        class Odd:
            def __eq__(self, other):
                raise RuntimeError("boom")

            __hash__ = None

        assert load(audit=Odd()).differences(load(audit=Odd())) == ("audit",)


def test_unset_shows_its_name():
    assert repr(UNSET) == "UNSET"


def test_no_other_module_reads_the_environment():
    """The commands are left out: they prepare the environment of the program they start."""
    root = Path(otelhooks.__file__).parent
    found = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] not in ("config", "cli")
        if any(words in path.read_text() for words in ("os.environ", "getenv"))
    ]
    assert found == ["process/environment.py"]
