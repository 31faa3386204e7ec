"""`instrument()`, the handle, and `uninstrument()`."""

from __future__ import annotations

import logging
import os
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.audit import Audit
from otelhooks.errors import ConfigError, Denied
from otelhooks.pipeline import runtime
from otelhooks.records import semconv
from otelhooks.setup import guarded

Result = types.HookResult


@otelhooks.tool
def t(x: int = 1) -> int:
    return x


class TestTwice:
    def test_the_same_arguments_give_the_same_handle(self, governed: Any) -> None:
        rules = [policy.deny("x")]
        assert governed(policies=rules) is governed(policies=rules)

    def test_other_arguments_are_an_error_that_names_them_and_the_way_out(
        self, governed: Any
    ) -> None:
        governed(policies=[policy.deny("x")])
        with pytest.raises(ConfigError) as caught:
            governed(policies=[policy.deny("y")], mode="monitor")
        assert "`mode`" in str(caught.value)
        assert "`policies`" in str(caught.value)
        assert "handle.replace" in str(caught.value)

    def test_a_program_adds_what_variables_left_out(
        self, governed: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`otelhooks run` calls it first."""
        monkeypatch.setenv("OTELHOOKS_CAPTURE_CONTENT", "SPAN_ONLY")
        rule = policy.deny("t")
        first = otelhooks.instrument()
        assert otelhooks.instrument(policies=[rule], approvals=lambda call: True) is first
        with pytest.raises(Denied):
            t()
        with pytest.raises(ConfigError, match="other values of `policies`"):
            otelhooks.instrument(policies=[])

    def test_it_does_not_replace_what_variables_or_the_handle_set(
        self, governed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "no.yaml").write_text("version: 1\npolicies: [{deny: t}]")
        monkeypatch.setenv("OTELHOOKS_POLICIES", str(tmp_path / "no.yaml"))
        monkeypatch.setenv("OTELHOOKS_RUN", "1")
        otelhooks.instrument().register(policy.deny("u"))
        for given in ({"policies": []}, {"approvals": print}, {"mode": "monitor"}):
            with pytest.raises(ConfigError, match="start the program without `otelhooks run`"):
                otelhooks.instrument(**given)

    def test_a_cell_that_runs_again_replaces_what_it_gave(self, governed: Any) -> None:
        def cell(limit: int) -> otelhooks.Handle:
            return governed(
                policies=[
                    policy.deny("t", when=lambda args: args["x"] > limit),
                    policy.ask_user("t", when=lambda args: args["x"] < 0),
                ],
                hooks=[hooks.pre_tool_call_decide(lambda data: Result(allow=True))],
                approvals=lambda call: limit == 5,
                replace=True,
            )

        first = cell(5)
        first.register(policy.deny("*", id="registered since"))
        second = cell(1)
        assert second is first
        assert (t(1), first.config.sources["approvals"]) == (1, "argument")
        with pytest.raises(Denied, match="User denied"):
            t(-1)
        with pytest.raises(Denied, match="Denied by policy 't'"):
            t(2)

    def test_what_cannot_replace_leaves_the_rules_in_force(self, governed: Any) -> None:
        rules = [policy.deny("t")]
        handle = governed(policies=rules)
        for given, words in {
            "mode": "replace=True does not change `mode`",
            "policies": "missing an ask_user handler",
        }.items():
            wrong: Any = {"mode": "monitor", "policies": [policy.ask_user("t")]}[given]
            with pytest.raises(ConfigError, match=words):
                governed(**{"policies": [], given: wrong}, replace=True)
            with pytest.raises(Denied, match="Denied by policy 't'"):
                t()
        assert governed(policies=rules) is handle

    def test_no_call_slips_through_while_rules_are_replaced(self, governed: Any) -> None:
        def cell() -> None:
            governed(policies=[policy.deny("t", when=lambda: True)], replace=True)

        cell()
        ran, is_over = [], threading.Event()

        def call() -> None:
            while not is_over.is_set():
                try:
                    ran.append(t())
                except Denied:
                    continue

        thread = threading.Thread(target=call)
        thread.start()
        for _ in range(30):
            cell()
        is_over.set()
        thread.join()
        assert ran == []

    def test_after_uninstrument_it_starts_afresh(self, governed: Any) -> None:
        first = governed()
        otelhooks.uninstrument()
        assert governed() is not first


class TestBadInput:
    @pytest.mark.parametrize("servers", [[{"name": "files"}], {"files": {"command": "x"}}])
    def test_what_is_no_server_is_an_error(self, servers: Any) -> None:
        with pytest.raises(ConfigError, match=r"`mcp_servers\[0\]` is of type dict") as caught:
            otelhooks.instrument(mcp_servers=servers)
        assert "types.McpStdioServer(name=" in caught.value.hint

    def test_an_unknown_mode(self, governed: Any) -> None:
        with pytest.raises(ConfigError, match="mode"):
            governed(mode="lenient")
        assert runtime.active() is None

    def test_an_unknown_framework(self, governed: Any) -> None:
        with pytest.raises(ConfigError, match="unknown framework `lnagchain`"):
            governed(frameworks=["lnagchain"])
        assert runtime.active() is None

    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("policy", "; did you mean `policies`?"),
            ("hook", "; did you mean `hooks`?"),
            ("framework", "; did you mean `frameworks`?"),
            ("approval", "; did you mean `approvals`?"),
            ("temperature", ""),
        ],
    )
    def test_an_unknown_parameter(self, name: str, meant: str) -> None:
        given: Any = {name: []}
        with pytest.raises(TypeError) as caught:
            otelhooks.instrument(**given)
        assert str(caught.value) == (
            f"instrument() got an unexpected keyword argument '{name}'{meant}"
        )
        assert runtime.active() is None

    def test_an_object_that_is_neither_rule_nor_hook(self, governed: Any) -> None:
        for setting in ("hooks", "policies"):
            with pytest.raises((ValueError, ConfigError)):
                governed(**{setting: [object()]})
        with pytest.raises(ValueError, match="Unknown hook type"):
            governed(policies=[lambda data: None])

    def test_the_traceback_of_a_wrong_setting_ends_at_the_call(
        self, governed: Any, tmp_path: Any
    ) -> None:
        file = tmp_path / "prod.yaml"
        file.write_text("policies: [{deny: t, when: args.c}]")
        for wrong in (file, tmp_path / "none.yaml"):
            with pytest.raises(ConfigError) as caught:
                governed(policies=wrong)
            ours = [entry.name for entry in caught.traceback][2:]
            assert ours == ["checked"]
            assert "".join(traceback.format_exception(caught.value)).count("Traceback") == 1

    def test_an_ask_without_anybody_to_ask(self, governed: Any) -> None:
        with pytest.raises(ConfigError, match="missing an ask_user handler"):
            governed(policies=[policy.ask_user("t")])

    def test_what_fails_half_way_leaves_nothing_behind(
        self, governed: Any, monkeypatch: pytest.MonkeyPatch, tracer_provider: Any
    ) -> None:
        def fail(*args: Any, **kwargs: Any) -> None:
            raise RuntimeError("half way")

        threads = set(threading.enumerate())
        with monkeypatch.context() as patch:
            patch.setattr(guarded, "install", fail)
            with pytest.raises(RuntimeError, match="half way"):
                governed(policies=[policy.deny("t")])
        assert runtime.active() is None
        assert t() == 1
        assert set(threading.enumerate()) <= threads
        governed(policies=[policy.deny("t")])
        with pytest.raises(Denied):
            t()


class TestHandle:
    def test_rules_and_hooks_come_and_go_in_one_step(self, governed: Any) -> None:
        handle = governed()
        rule = policy.deny("t")
        hook = hooks.pre_tool_call_decide(lambda data: Result(allow=False, message="hook"))
        handle.register(rule)
        with pytest.raises(Denied, match="Denied by policy 't'"):
            t()
        handle.unregister(rule)
        handle.register(hook)
        with pytest.raises(Denied, match="hook"):
            t()
        handle.unregister(hook)
        assert t() == 1

    def test_it_says_what_is_in_force(self, governed: Any) -> None:
        handle = governed(policies=[policy.deny("t")], mode="monitor")
        assert repr(handle).startswith("<otelhooks.Handle: mode monitor, 1 rule, 0 hooks; ")
        otelhooks.uninstrument()
        assert repr(handle) == "<otelhooks.Handle: not in force>"
        assert handle._repr_html_() == "<div><b>otelhooks</b>: not in force<ul></ul></div>"

    def test_a_notebook_shows_it_as_html_in_which_nothing_is_markup(
        self, governed: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        handle = governed()
        monkeypatch.setattr(handle._providers, "describe", lambda: "to <b>&</b>")
        assert "<li>to &lt;b&gt;&amp;&lt;/b&gt;</li></ul></div>" in handle._repr_html_()

    def test_what_is_not_registered_cannot_go(self, governed: Any) -> None:
        handle = governed()
        with pytest.raises(ConfigError, match="not registered"):
            handle.unregister(hooks.on_event(lambda event: None))
        with pytest.raises(ConfigError, match="no rule `x` is loaded"):
            handle.unregister(policy.deny("x"))

    def test_rules_are_replaced_and_hooks_stay(self, governed: Any) -> None:
        log: list[int] = []
        hook = hooks.on_event(lambda event: log.append(1))
        handle = governed(policies=[policy.deny("t")], hooks=[hook])
        handle.replace(policies=[policy.deny("other")])
        assert t() == 1
        assert log
        with pytest.raises(ConfigError):
            handle.replace(policies=["nonsense"])
        assert t() == 1

    def test_policies_that_are_objects_are_replaced_like_rules(self, governed: Any) -> None:
        handle = governed(policies=[policy.RejectToolPolicy(["t"])])
        with pytest.raises(Denied):
            t()
        handle.replace(policies=[policy.RateLimit(tool_calls=1, per="day")])
        assert t() == 1
        with pytest.raises(Denied):
            t()
        with pytest.raises(TypeError, match="relevant_tools"):
            handle.replace(policies=[policy.RejectToolPolicy("t")])
        with pytest.raises(Denied):
            t()
        handle.replace(policies=[])
        assert t() == 1

    def test_a_policy_that_is_an_object_can_be_unregistered(self, governed: Any) -> None:
        reject = policy.RejectToolPolicy(["t"])
        handle = governed(policies=[reject])
        handle.unregister(reject)
        assert t() == 1

    def test_a_call_uses_the_set_it_started_with(self, governed: Any) -> None:
        @otelhooks.tool
        def swaps() -> str:
            handle.replace(policies=[])
            handle.register(hooks.post_tool_call_transform(lambda data: "changed"))
            return "as it was"

        handle = governed(policies=[policy.allow("swaps")])
        assert swaps() == "as it was"

    def test_a_reload_is_on_the_scope_of_later_spans(self, governed: Any) -> None:
        handle = governed(policies=[policy.allow("t")])
        t()
        handle.register(policy.deny("other"))
        t()
        first, second = governed.spans
        version = semconv.POLICY_VERSION
        assert (
            first.instrumentation_scope.attributes[version]
            != second.instrumentation_scope.attributes[version]
        )

    def test_counters_of_denies_start_at_zero(self, governed: Any) -> None:
        governed(policies=[policy.deny("x", id="r1", severity="high"), policy.allow("y")])
        [point] = governed.points(semconv.METRIC_POLICY_DENIES)
        assert point.value == 0
        assert point.attributes[semconv.POLICY_RULE_ID] == "r1"

    def test_only_the_severest_of_very_many_start_at_zero(
        self, governed: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        from otelhooks.setup import handle as handles

        monkeypatch.setattr(handles, "MAX_ZERO_COUNTERS", 1)
        governed(
            policies=[policy.deny("x", id="r1"), policy.deny("y", id="r2", severity="critical")]
        )
        [point] = governed.points(semconv.METRIC_POLICY_DENIES)
        assert point.attributes[semconv.POLICY_RULE_ID] == "r2"
        assert "2 rules can deny" in caplog.text

    def test_a_trail_of_calls_that_ran_is_not_a_trail_of_verdicts(
        self, governed: Any, tmp_path: Path
    ) -> None:
        with Audit(tmp_path / "audit", executed_only=True) as trail:
            with pytest.raises(ConfigError, match="records every verdict"):
                governed(audit=trail)

    def test_all_that_is_queued_can_be_sent_on(self, governed: Any, tmp_path: Path) -> None:
        handle = governed(audit=tmp_path / "audit")
        t()
        assert handle.force_flush()

    def test_its_settings_and_coverage_can_be_read(self, governed: Any) -> None:
        handle = governed(mode="monitor")
        assert handle.config.mode == "monitor"
        assert handle.coverage == ()

    def test_rules_in_hooks_and_hooks_in_policies_are_welcome(self, governed: Any) -> None:
        log: list[int] = []
        hook = hooks.pre_tool_call_decide(lambda data: log.append(1) or Result())
        governed(policies=[hook, policy.enforce([policy.deny("x")])])
        t()
        assert log == [1]


class TestStrict:
    def test_it_is_on_as_soon_as_anything_can_deny(
        self, governed: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[bool] = []
        monkeypatch.setattr(guarded, "set_strict", seen.append)
        handle = governed()
        handle.register(policy.allow("x"))
        assert seen[-1] is False
        handle.register(policy.deny("x"))
        assert seen[-1] is True

    def test_a_scope_that_can_deny_counts(
        self, governed: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[bool] = []
        monkeypatch.setattr(guarded, "set_strict", seen.append)
        governed()
        with otelhooks.scope(policies=[policy.allow("x")]):
            assert seen == [False]
        with otelhooks.scope(policies=[policy.deny("x")]):
            assert seen == [False, True]

    def test_what_is_given_holds(self, governed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[bool] = []
        monkeypatch.setattr(guarded, "set_strict", seen.append)
        governed(policies=[policy.deny("x")], strict=False)
        with otelhooks.scope(policies=[policy.deny("y")]):
            assert set(seen) == {False}


class TestLogging:
    def test_one_line_at_the_start_says_what_holds(
        self, governed: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, "otelhooks"):
            governed(policies=[policy.deny("secret_tool", reason="secret reason")])
        lines = [r.getMessage() for r in caplog.records if "instrumented" in r.getMessage()]
        assert len(lines) == 1
        assert "mode enforce; 1 rule " in lines[0]
        assert "secret" not in lines[0]

    def test_the_line_names_the_folders_of_stops_and_audit(
        self,
        governed: Any,
        caplog: pytest.LogCaptureFixture,
        tmp_path: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        with caplog.at_level(logging.INFO, "otelhooks"):
            monkeypatch.setenv("OTELHOOKS_STOPS", str(tmp_path / "stops"))
            governed(audit=tmp_path / "trail")
            otelhooks.uninstrument()
            monkeypatch.setenv("OTELHOOKS_STOPS", "off")
            governed()
        first, second = [m for m in caplog.messages if m.startswith("instrumented")]
        assert first.endswith(
            f"; audit trail in `{tmp_path / 'trail'}`; stops in `{tmp_path / 'stops'}`"
        )
        assert "audit" not in second
        assert "stops" not in second


class TestUninstrument:
    def test_twice_is_once_and_never_is_nothing(self, governed: Any) -> None:
        otelhooks.uninstrument()
        governed(policies=[policy.deny("t")])
        otelhooks.uninstrument()
        otelhooks.uninstrument()
        assert t() == 1

    def test_it_ends_sessions_and_runs_what_waits_in_the_background(self, governed: Any) -> None:
        log: list[str] = []

        @otelhooks.agent("a")
        def run(message: str) -> str:
            return "x"

        governed(
            hooks=[
                hooks.on_session_end(lambda: log.append("end")),
                hooks.post_turn(background=True)(lambda data: log.append("background")),
            ]
        )
        rt = runtime.active()
        assert rt is not None
        session = rt.sessions.get("c")
        session.started_in = os.getpid()
        run("x")
        otelhooks.uninstrument()
        assert log.count("end") == 2
        assert "background" in log


class TestSessions:
    def test_the_least_recently_used_conversation_ends_when_there_are_too_many(
        self, governed: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from otelhooks.pipeline import sessions

        ended: list[str] = []
        monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)

        @hooks.on_session_end
        def end(context: hooks.SessionContext) -> None:
            ended.append(context.get("session_id"))

        governed(hooks=[end])
        rt = runtime.active()
        assert rt is not None
        for id in ("a", "b", "a", "c"):
            rt.sessions.get(id).started_in = os.getpid()
        assert ended == ["b"]
