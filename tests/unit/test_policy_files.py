"""Policy files in `instrument()`: loaded, put on spans, read again, and kept from agents."""

from __future__ import annotations

import logging
import os
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import ConfigError, Denied, PolicyFileError
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.policy import RateLimit
from otelhooks.policy.files import reload, source
from otelhooks.records import semconv

HOOK = """\
---
event: tool.pre
script: |
  def handle(event, payload):
      if payload["name"] == "act" and payload["args"].get("x") == 13:
          return block("thirteen")
      return allow()
---
"""


@otelhooks.tool
def act(x: int = 1) -> int:
    return x


@otelhooks.tool
def other() -> str:
    return "done"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder of policy files, with a first rule."""
    place = tmp_path / "policies"
    place.mkdir()
    (place / "base.yaml").write_text("policies:\n  - {deny: act, id: no-act, reason: first}\n")
    return place


def _reason(tool: Callable[..., Any], *args: Any) -> str:
    try:
        tool(*args)
    except Denied as error:
        return str(error)
    return ""


class TestLoading:
    def test_a_denied_call_names_file_rule_and_version(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        governed(policies=str(folder))
        assert _reason(act) == "first"
        found = governed.attributes("execute_tool act")
        assert found[semconv.POLICY_ID] == "base"
        assert found[semconv.POLICY_RULE_ID] == "no-act"
        version = source.read(str(folder / "base.yaml")).version
        assert found[semconv.POLICY_VERSION] == version
        [event] = governed.event("otelhooks.policy.decision")
        assert event[semconv.POLICY_VERSION] == version

    def test_rules_files_and_folders_go_together(
        self, governed: Any, folder: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        one = tmp_path / "one.yaml"
        one.write_text("policies: [{deny: other, reason: of a file}]\n")
        handle = governed(policies=[policy.deny("third"), folder, str(one)])
        assert _reason(act) == "first"
        assert _reason(other) == "of a file"
        assert len(handle.config.policies) == 3

    def test_the_variable_names_files(
        self, governed: Any, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTELHOOKS_POLICIES", str(folder))
        governed()
        assert _reason(act) == "first"

    def test_hook_files_decide_beside_rules(self, governed: Any, folder: pathlib.Path) -> None:
        (folder / "base.yaml").write_text("policies: [{deny: other, reason: rule}]\n")
        (folder / "guard.md").write_text(HOOK)
        governed(policies=folder)
        assert act(12) == 12
        assert "thirteen" in _reason(act, 13)
        assert _reason(other) == "rule"

    def test_limits_of_a_file_count(self, governed: Any, folder: pathlib.Path) -> None:
        (folder / "base.yaml").write_text("policies: [{limit: {tool_calls: 2}}]\n")
        governed(policies=folder)
        with otelhooks.session("c"), otelhooks.turn("go"):
            assert [act(1), act(2)] == [1, 2]
            assert "Rate limit exceeded" in _reason(act, 3)

    def test_labels_of_a_file_are_read_by_its_rules(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        (folder / "base.yaml").write_text(
            "policies:\n"
            "  - {label: other, adds: untrusted}\n"
            "  - {deny: act, when_labels: untrusted, reason: tainted}\n"
        )
        governed(policies=folder)
        with otelhooks.session("c"), otelhooks.turn("go"):
            assert act(1) == 1
            assert other() == "done"
            assert _reason(act) == "tainted"

    def test_a_pack_is_named_without_a_path(
        self, governed: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "governed").mkdir()  # as an agent may have made it
        handle = governed(policies="governed")
        assert len(handle._file_hooks) >= 7

    def test_the_same_files_give_the_same_handle(self, governed: Any, folder: pathlib.Path) -> None:
        (folder / "base.yaml").write_text("mode: monitor\npolicies: [{deny: act}]\n")
        handle = governed(policies=folder)
        (folder / "base.yaml").write_text("policies: []\n")
        assert governed(policies=folder) is handle

    def test_a_wrong_file_is_an_error_and_nothing_is_instrumented(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        (folder / "wrong.yaml").write_text("policies:\n  - {dney: act}\n")
        with pytest.raises(PolicyFileError, match=r"wrong\.yaml:2:6: unknown key `dney`"):
            governed(policies=folder)
        assert act(1) == 1

    def test_a_rule_that_asks_needs_an_approver(self, governed: Any, folder: pathlib.Path) -> None:
        (folder / "base.yaml").write_text("policies:\n  - ask: act\n")
        with pytest.raises(PolicyFileError, match=r"base\.yaml:2:5: rule `act` asks.*\nhint: give"):
            governed(policies=folder)
        asked: list[str] = []

        def channel(call: types.ToolCall) -> bool:
            asked.append(str(call.name))
            return True

        governed(policies=folder, approvals=channel)
        assert act(1) == 1
        assert asked == ["act"]

    def test_monitor_mode_asks_no_one_and_needs_no_approver(
        self, governed: Any, folder: pathlib.Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = folder / "base.yaml"
        file.write_text("mode: monitor\npolicies:\n  - ask: act\n")
        handle = governed(policies=folder)
        assert act(1) == 1
        file.write_text("mode: enforce\npolicies:\n  - ask: act\n")
        with pytest.raises(PolicyFileError, match="there is no approval channel"):
            handle.replace(policies=[folder])
        file.write_text("mode: monitor\npolicies:\n  - {ask: act, mode: enforce}\n")
        with pytest.raises(PolicyFileError, match="there is no approval channel"):
            handle.replace(policies=[folder])

    def test_settings_of_files_need_files(self, governed: Any) -> None:
        for setting in ({"reload": True}, {"http_allow": ["a"]}, {"hook_tools": ["b"]}):
            with pytest.raises(ConfigError, match="is about policy files, and there are none"):
                governed(policies=[policy.deny("x")], **setting)

    def test_a_session_takes_no_files(self, governed: Any, folder: pathlib.Path) -> None:
        governed()
        with pytest.raises(ConfigError, match="Expected Policy"):
            with otelhooks.session("c", policies=[str(folder)]):
                pass

    def test_default_deny_of_a_file_holds_for_all(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        (folder / "base.yaml").write_text("default: deny\npolicies: [{allow: act}]\n")
        (folder / "more.yaml").write_text("default: allow\npolicies: []\n")
        governed(policies=folder)
        assert act(1) == 1
        assert _reason(other) == "Denied by policy 'default'."
        found = governed.attributes("execute_tool other")
        assert (found[semconv.POLICY_ID], found[semconv.POLICY_RULE_ID]) == ("base", "default")
        assert found[semconv.POLICY_VERSION] == source.read(str(folder / "base.yaml")).version

    def test_an_included_file_with_the_name_of_a_hook_file_is_an_error(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        (folder / "guard.md").write_text(HOOK)
        (folder / "parts").mkdir()
        (folder / "parts/guard.yaml").write_text("policies: []\n")
        (folder / "base.yaml").write_text("include: parts/guard.yaml\n")
        with pytest.raises(PolicyFileError, match="is called `guard` as well"):
            governed(policies=folder)


class TestMode:
    MONITOR = "mode: monitor\npolicies: [{deny: act, reason: watched}]\n"

    def test_a_file_may_say_monitor(self, governed: Any, folder: pathlib.Path) -> None:
        (folder / "base.yaml").write_text(self.MONITOR)
        handle = governed(policies=folder)
        assert act(1) == 1
        assert handle.config.mode == "monitor"
        assert handle.config.sources["mode"] == "policy file"
        found = governed.attributes("execute_tool act")
        assert found[semconv.POLICY_MODE] == "monitor"
        assert found[semconv.POLICY_ENFORCEMENT] == "observed"
        scope = governed.span("execute_tool act").instrumentation_scope
        assert scope.attributes[semconv.POLICY_MODE] == "monitor"

    def test_a_setting_goes_before_the_file(self, governed: Any, folder: pathlib.Path) -> None:
        (folder / "base.yaml").write_text(self.MONITOR)
        governed(policies=folder, mode="enforce")
        assert _reason(act) == "watched"

    def test_one_file_alone_does_not_switch_the_others_off(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        (folder / "more.yaml").write_text("mode: monitor\npolicies: []\n")
        governed(policies=folder)
        assert _reason(act) == "first"

    @pytest.mark.parametrize("given", ["rule", "hook"])
    def test_a_file_in_monitor_mode_switches_nothing_off_that_the_program_gives(
        self, governed: Any, folder: pathlib.Path, given: str
    ) -> None:
        (folder / "base.yaml").write_text("mode: monitor\npolicies: [{deny: watch}]\n")

        @hooks.pre_tool_call_decide
        def stop(data: types.ToolCall) -> types.HookResult:
            return types.HookResult(allow=data.name != "act", message="stopped")

        @otelhooks.tool
        def act() -> None:
            raise AssertionError("it ran")

        @otelhooks.tool
        def watch() -> str:
            return "ran"

        of_code: Any = policy.deny("act") if given == "rule" else stop
        governed(policies=[of_code, folder])
        with pytest.raises(Denied):
            act()
        assert watch() == "ran"

    def test_a_veto_of_a_file_holds_in_monitor_mode(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        (folder / "base.yaml").write_text("mode: monitor\npolicies: [{veto: act, reason: never}]\n")
        governed(policies=folder)
        assert _reason(act) == "never"


class TestHandle:
    def test_rules_come_and_go_beside_files(self, governed: Any, folder: pathlib.Path) -> None:
        handle = governed(policies=folder)
        rule = policy.deny("other", reason="added")
        handle.register(rule)
        assert (_reason(act), _reason(other)) == ("first", "added")
        handle.unregister(rule)
        assert (_reason(act), _reason(other)) == ("first", "")

    def test_a_rule_of_a_file_is_not_unregistered(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        handle = governed(policies=folder)
        with pytest.raises(ConfigError, match="rules of files are changed there"):
            handle.unregister(policy.deny("act", id="no-act", reason="first"))
        assert _reason(act) == "first"

    def test_replace_takes_files_and_takes_those_before_away(
        self, governed: Any, folder: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        (folder / "guard.md").write_text(HOOK)
        handle = governed(policies=folder)
        new = tmp_path / "new.yaml"
        new.write_text("policies: [{deny: other, reason: new}]\n")
        handle.replace(policies=[str(new)])
        assert (_reason(act, 13), _reason(other)) == ("", "new")

    def test_replace_with_a_wrong_file_changes_nothing(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        handle = governed(policies=folder)
        (folder / "base.yaml").write_text("policies: [{deny: }]\n")
        with pytest.raises(PolicyFileError):
            handle.replace(policies=folder)
        assert _reason(act) == "first"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "INTERVAL_S", 0.03)


def _until(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 15
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _replace(path: pathlib.Path, text: str) -> None:
    """Write a file in one step, as editors and deployments do."""
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


@pytest.mark.usefixtures("quick")
class TestReload:
    def test_it_is_off_unless_asked_for(self, governed: Any, folder: pathlib.Path) -> None:
        governed(policies=folder)
        assert not [each for each in threading.enumerate() if each.name == "otelhooks-reload"]
        _replace(folder / "base.yaml", "policies: []\n")
        time.sleep(0.2)
        assert _reason(act) == "first"

    def test_a_changed_file_holds_for_later_calls_and_spans_tell_its_version(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        governed(policies=folder, reload=True)
        assert _reason(act) == "first"
        _replace(folder / "base.yaml", "policies: [{deny: act, reason: second}]\n")
        assert _until(lambda: _reason(act) == "second")
        spans = [s for s in governed.spans if s.name == "execute_tool act"]
        before, after = spans[0], spans[-1]
        assert before.attributes[semconv.POLICY_VERSION] != after.attributes[semconv.POLICY_VERSION]
        scopes = [s.instrumentation_scope.attributes for s in (before, after)]
        assert scopes[0][semconv.POLICY_VERSION] != scopes[1][semconv.POLICY_VERSION]

    def test_new_and_deleted_files_count(self, governed: Any, folder: pathlib.Path) -> None:
        governed(policies=folder, reload=True)
        _replace(folder / "more.yaml", "policies: [{deny: other, reason: more}]\n")
        assert _until(lambda: _reason(other) == "more")
        (folder / "base.yaml").unlink()
        assert _until(lambda: _reason(act) == "")
        assert _reason(other) == "more"

    def test_an_included_file_is_looked_at(self, governed: Any, folder: pathlib.Path) -> None:
        (folder / "base.yaml").write_text("include: parts/deep.yaml\n")
        (folder / "parts").mkdir()
        (folder / "parts/deep.yaml").write_text("policies: [{deny: act, reason: deep}]\n")
        governed(policies=folder / "base.yaml", reload=True)
        assert _reason(act) == "deep"
        _replace(folder / "parts/deep.yaml", "policies: [{deny: act, reason: deeper}]\n")
        assert _until(lambda: _reason(act) == "deeper")

    @pytest.mark.parametrize("text", ["policies: [{dney: act}]\n", "", "version: 1\n", "\tx: ["])
    def test_a_wrong_file_changes_nothing_and_says_so_once(
        self, governed: Any, folder: pathlib.Path, text: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        governed(policies=folder, reload=True)
        with caplog.at_level(logging.ERROR, "otelhooks"):
            _replace(folder / "base.yaml", text)
            assert _until(lambda: "could not be loaded again" in caplog.text)
            time.sleep(0.3)
        assert caplog.text.count("could not be loaded again; the old ones hold: ") == 1
        assert "base.yaml:1:" in caplog.text
        assert _reason(act) == "first"
        _replace(folder / "base.yaml", "policies: [{deny: act, reason: repaired}]\n")
        assert _until(lambda: _reason(act) == "repaired")

    @pytest.mark.parametrize(
        "text", ["policies: []\n", "mode: monitor\npolicies: [{deny: act, reason: never}]\n"]
    )
    def test_one_after_which_nothing_is_stopped_is_warned_about(
        self, governed: Any, tmp_path: pathlib.Path, text: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "rules.yaml"
        file.write_text("policies: [{deny: act, reason: never}]\n")
        governed(policies=file, reload=True)
        with caplog.at_level(logging.WARNING, "otelhooks"):
            _replace(file, text)
            assert _until(lambda: "no rule stops a call any more" in caplog.text)

    def test_one_with_fewer_rules_that_stop_is_warned_about(
        self, governed: Any, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "rules.yaml"
        file.write_text("policies: [{deny: act}, {deny: rm}, {deny: mv}, {allow: ls}]\n")
        governed(policies=file, reload=True)
        with caplog.at_level(logging.WARNING, "otelhooks"):
            _replace(file, "policies: [{deny: act}, {allow: ls}, {allow: mv}]\n")
            assert _until(lambda: "loaded again, and 2 rules fewer can stop calls" in caplog.text)

    def test_a_folder_that_vanishes_changes_nothing(
        self, governed: Any, folder: pathlib.Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        governed(policies=folder, reload=True)
        folder.rename(folder.with_name("moved"))
        assert _until(lambda: "could not be loaded again" in caplog.text)
        assert _reason(act) == "first"

    def test_files_that_become_unsafe_are_not_loaded(
        self, governed: Any, folder: pathlib.Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        governed(policies=folder, reload=True)
        (folder / "base.yaml").write_text("policies: []\n")
        (folder / "base.yaml").chmod(0o666)
        assert _until(lambda: "every user may write" in caplog.text)
        assert _reason(act) == "first"

    def test_a_file_that_is_still_being_written_is_not_loaded(
        self, governed: Any, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Cut after any line it would be another policy, and one that loads."""
        monkeypatch.setattr(reload, "INTERVAL_S", 0.5)
        governed(policies=folder, reload=True)
        seen: set[str] = set()
        with open(folder / "base.yaml", "w") as file:
            for line in ("policies:\n", "  - {allow: other}\n", *["  # more to come\n"] * 60):
                file.write(line)
                file.flush()
                seen.add(_reason(act))
                time.sleep(0.02)
            file.write("  - {deny: act, reason: whole}\n")
        assert seen == {"first"}
        assert _until(lambda: _reason(act) == "whole")

    def test_another_working_directory_does_not_change_what_is_read(
        self,
        governed: Any,
        folder: pathlib.Path,
        tmp_path: pathlib.Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        governed(policies="policies", reload=True)
        evil = tmp_path / "evil"
        (evil / "policies").mkdir(parents=True)
        (evil / "policies/base.yaml").write_text("policies: []\n")
        monkeypatch.chdir(evil)
        _replace(folder / "more.yaml", "policies: [{deny: other, reason: more}]\n")
        assert _until(lambda: _reason(other) == "more")
        assert _reason(act) == "first"

    def test_a_call_ends_under_the_rules_it_started_with(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        (folder / "base.yaml").write_text("policies: [{allow: slow}]\n")
        handle = governed(policies=folder, reload=True)
        started, go_on = threading.Event(), threading.Event()
        version = handle._rules.version

        @otelhooks.tool
        def slow() -> str:
            started.set()
            go_on.wait(20)
            return "ran"

        results: list[str] = []
        thread = threading.Thread(target=lambda: results.append(slow()))
        thread.start()
        assert started.wait(10)
        _replace(folder / "base.yaml", "policies: [{deny: slow, reason: no more}]\n")
        assert _until(lambda: handle._rules.version != version)
        go_on.set()
        thread.join(10)
        assert results == ["ran"]
        assert _reason(slow) == "no more"
        first = governed.spans[0]
        assert first.attributes[semconv.POLICY_DECISION] == "allow"
        assert first.instrumentation_scope.attributes[semconv.POLICY_VERSION] == version

    def test_registered_rules_and_hooks_stay(self, governed: Any, folder: pathlib.Path) -> None:
        handle = governed(policies=folder, reload=True)
        handle.register(policy.deny("other", reason="added"))
        _replace(folder / "base.yaml", "policies: [{deny: act, reason: second}]\n")
        assert _until(lambda: _reason(act) == "second")
        assert _reason(other) == "added"

    def test_limits_that_did_not_change_keep_their_counts(
        self, governed: Any, folder: pathlib.Path
    ) -> None:
        text = "policies:\n  - limit: {tool_calls: 2}\n"
        (folder / "base.yaml").write_text(text)
        handle = governed(policies=folder, reload=True)
        with otelhooks.session("c"), otelhooks.turn("go"):
            assert act(1) == 1
            version = handle._rules.version
            _replace(folder / "base.yaml", text + "  - {deny: other, reason: new}\n")
            assert _until(lambda: handle._rules.version != version)
            assert act(2) == 2
            assert "Rate limit exceeded" in _reason(act, 3)

    def test_the_thread_ends_with_uninstrument(self, governed: Any, folder: pathlib.Path) -> None:
        governed(policies=folder, reload=True)
        assert [each for each in threading.enumerate() if each.name == "otelhooks-reload"]
        otelhooks.uninstrument()
        assert not [each for each in threading.enumerate() if each.name == "otelhooks-reload"]


class TestWatch:
    def test_what_the_function_raises_does_not_end_it(self, tmp_path: pathlib.Path) -> None:
        calls: list[int] = []

        def changed() -> None:
            calls.append(1)
            raise RuntimeError("in the function")

        watch = reload.Watch(lambda: [str(tmp_path)], changed, interval_s=0.02)
        try:
            assert _until(lambda: len(calls) == 1)
            (tmp_path / "new").write_text("x")
            assert _until(lambda: len(calls) == 2)
        finally:
            watch.stop()

    def test_the_function_may_end_it(self, tmp_path: pathlib.Path) -> None:
        calls: list[int] = []

        def changed() -> None:
            watch.stop()
            calls.append(1)

        watch = reload.Watch(lambda: [str(tmp_path)], changed, interval_s=0.02)
        assert _until(lambda: len(calls) == 1)
        assert _until(lambda: not watch._thread.is_alive())

    def test_a_change_of_the_same_size_with_the_old_time_is_seen(
        self, tmp_path: pathlib.Path
    ) -> None:
        path = tmp_path / "a.yaml"
        path.write_text("one")
        before = path.stat()
        calls: list[int] = []
        watch = reload.Watch(lambda: [str(path)], lambda: calls.append(1), interval_s=0.02)
        try:
            assert _until(lambda: len(calls) == 1)
            path.write_text("two")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            assert _until(lambda: len(calls) == 2)
        finally:
            watch.stop()


def test_the_memory_of_limits_is_not_shared_between_loads(folder: pathlib.Path) -> None:
    """Two sets of one file, such as a candidate beside the live one, count for themselves."""
    from otelhooks.policy.files import load

    (folder / "base.yaml").write_text("policies: [{limit: {tool_calls: 2}}]\n")
    one, two = load([folder]).hooks[0], load([folder]).hooks[0]
    assert isinstance(one, RateLimit)
    assert one is not two


def test_limits_that_did_not_change_are_kept_when_files_are_read_again(
    folder: pathlib.Path,
) -> None:
    from otelhooks.policy.files import load
    from otelhooks.policy.files.rules import keep_counts

    text = "policies:\n  - limit: {tool_calls: 2}\n  - {limit: {turns: %d}, id: turns}\n"
    (folder / "base.yaml").write_text(text % 5)
    old = load([folder]).hooks
    (folder / "base.yaml").write_text(text % 6)
    new = load([folder]).hooks
    kept = keep_counts(new, old)
    assert kept[0] is old[0]
    assert kept[1] is new[1]
    assert kept[0].policy_version == new[0].policy_version


def test_no_policy_file_means_no_yaml_and_no_starlark(governed: Any) -> None:
    """Said in full by the tests of what is imported; here: the guard is not there either."""
    handle = governed(policies=[policy.deny("x")])
    assert [rule.policy_id for rule in handle._rules.rules] == ["code"]


def test_the_engine_decides_by_rules_of_files(folder: pathlib.Path) -> None:
    from otelhooks.policy.files import load

    rules = policy.PolicySet([rule for rule, _ in load([folder]).rules])
    assert drive(rules.evaluate(Call("act", {}))).decision == "deny"
