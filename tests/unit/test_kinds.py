"""Rules for a kind that no tool of the loaded frameworks has are reported."""

from __future__ import annotations

import importlib
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import otelhooks
from otelhooks import policy
from otelhooks.patching.builtin import BuiltIn
from otelhooks.patching.patches import Adapter, Package, Seat
from otelhooks.setup import catalogue
from otelhooks.setup.kinds import kinds_of, unmatched

FAKES = Path(__file__).parent / "fake_frameworks"
SHELL = {"fakefw.tools:Bash": BuiltIn("bash", ("run_command",), "shell")}
HOSTED = {"fakefw.tools:Draw": BuiltIn("draw", (), None, is_hosted=True)}


def adapter(built_in: Any) -> Adapter:
    seats = (Seat("fakefw.tools", "helper"),)
    return Adapter("fake", (Package(("fake-fw",), ">=1", "fakefw", seats),), built_in=built_in)


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Say what tools the one framework has that there is; it can be imported."""
    info = tmp_path / "fake_fw-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-fw\nVersion: 1.4\n")
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()

    def make(built_in: Any) -> None:
        module: Any = ModuleType("otelhooks.frameworks.fake")
        module.ADAPTER = adapter(built_in)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(catalogue, "ADAPTERS", {"fake": ("fakefw",)})

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "fakefw"]:
        del sys.modules[name]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def test_only_strict_rules_about_kinds_that_nothing_has_are_unmatched() -> None:
    rules = [
        policy.deny("kind:net"),
        policy.veto("kind:shell"),
        policy.ask_user("kind:file_read", lambda call: True),
        policy.allow("kind:file_write"),
        policy.deny("fetch"),
    ]
    assert kinds_of(adapter(SHELL)) == {"shell"}
    assert kinds_of(adapter(HOSTED)) == {"net"}
    assert unmatched(rules, []) == ()
    found = unmatched(rules, [adapter(SHELL)])
    assert [rule.tool for rule in found] == ["kind:net", "kind:file_read"]
    assert [rule.tool for rule in unmatched(rules, [adapter(HOSTED)])] == [
        "kind:shell",
        "kind:file_read",
    ]


def test_a_framework_that_is_imported_before_or_later_is_told_of_once(
    framework, caplog, providers
) -> None:
    framework(SHELL)
    for _ in range(2):
        handle = otelhooks.instrument(
            policies=[policy.veto("kind:net"), policy.deny("kind:shell")], **providers
        )
        assert bool(told(caplog)) == ("fakefw" in sys.modules)
        importlib.import_module("fakefw.tools")
        handle.register(policy.deny("other"))
        (text,) = told(caplog)
        assert text == (
            "rule `kind:net` matches nothing: no tool of fake is of kind `net`\n"
            "hint: name the tools, such as `fetch` or `server/*`: "
            "only tools that ship with a framework have a kind"
        )
        otelhooks.uninstrument()
        caplog.clear()


def test_a_rule_that_comes_later_is_told_of_too(framework, caplog, providers) -> None:
    framework(SHELL)
    importlib.import_module("fakefw.tools")
    handle = otelhooks.instrument(**providers)
    handle.register(policy.deny("kind:net"))
    assert len(told(caplog)) == 1


def test_a_framework_that_is_turned_off_has_no_say(framework, caplog, providers) -> None:
    framework({})
    importlib.import_module("fakefw.tools")
    otelhooks.instrument(policies=[policy.deny("kind:net")], frameworks=[], **providers)
    assert told(caplog) == []


def test_the_guard_of_policy_files_is_not_reported(framework, caplog, providers, tmp_path) -> None:
    framework({})
    importlib.import_module("fakefw.tools")
    file = tmp_path / "rules.yaml"
    file.write_text("version: 1\npolicies:\n  - deny: kind:net\n")
    otelhooks.instrument(policies=[file], **providers)
    assert [text.partition(":")[0] for text in told(caplog)] == ["rule `kind"]
