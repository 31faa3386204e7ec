"""Stops: what a person does about running programs, and what lifts it."""

from __future__ import annotations

import concurrent.futures
import errno
import getpass
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

import otelhooks
from otelhooks import hooks, policy
from otelhooks.cli import cli
from otelhooks.errors import ConfigError, Denied
from otelhooks.pipeline.runtime import active
from otelhooks.policy import stops
from otelhooks.process import environment
from otelhooks.records import semconv
from otelhooks.setup import stop_places
from otelhooks.types import HookResult


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stops, "INTERVAL_S", 0.02)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("OTELHOOKS_STOPS", str(tmp_path / "stops"))
    return tmp_path / "stops"


@pytest.fixture(params=["default", "folder"])
def place(request: pytest.FixtureRequest) -> None:
    """The user's state folder, or one that a variable names."""
    if request.param == "folder":
        request.getfixturevalue("folder")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def until(wanted: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not wanted():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@otelhooks.tool
def look_up(name: str = "ada") -> str:
    return name


@otelhooks.tool(name="send", server="mail")
def send() -> str:
    return "sent"


def denied(work: Callable[[], object]) -> bool:
    try:
        work()
    except Denied:
        return True
    return False


def test_a_running_program_stops_and_continues(place: None) -> None:
    otelhooks.instrument()
    assert look_up() == "ada"
    stopped = run("stop", "--all", "--why", "The desk is on fire.", "--as", "u-17")
    assert stopped.exit_code == 0
    until(lambda: denied(look_up))
    with pytest.raises(Denied, match="Stopped by u-17: The desk is on fire"):
        send()
    assert "every tool  by u-17" in run("stop").output
    kept = stop_places.place_of(environment.stops())
    assert kept is not None
    assert all(kept.lift(one.id) for one in kept.kept())
    until(lambda: not denied(look_up))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tool", "send"], "stopped by `otelhooks stop`: `send`, by u-17"),
        (
            ["--agent", "mailer", "--why", "Fire."],
            "stopped by `otelhooks stop`: every tool of agent `mailer`, by u-17: Fire.",
        ),
    ],
)
def test_the_log_says_what_is_stopped_and_when_that_is_lifted(
    folder: Path, caplog: pytest.LogCaptureFixture, words: list[str], said: str
) -> None:
    otelhooks.instrument()
    run("stop", *words, "--as", "u-17")
    until(lambda: said in caplog.messages)
    kept = stop_places.place_of(environment.stops())
    assert kept is not None
    assert all(kept.lift(one.id) for one in kept.kept())
    until(lambda: "every stop of `otelhooks stop` is lifted" in caplog.messages)


def test_the_log_says_that_a_stop_cannot_be_read(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    otelhooks.instrument()
    folder.mkdir()
    (folder / "0000abcd.json").write_text("{")
    until(lambda: "every tool: a stop cannot be read" in caplog.text)
    listed = run("stop").stdout
    assert listed == (
        "0000abcd  every tool  a stop cannot be read, so that every call is stopped\n"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_among_the_stops_stops_every_call_and_makes_no_program_wait(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "0000abcd.json")

    otelhooks.instrument()

    assert denied(look_up)
    assert "a stop cannot be read" in run("stop").stdout


def test_one_that_starts_later_is_stopped_too(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run("stop", "--all", "--as", "u-17")
    otelhooks.instrument()
    assert denied(look_up)
    assert caplog.messages.count("stopped by `otelhooks stop`: every tool, by u-17") == 1


def test_it_goes_before_every_rule_and_monitor_mode(folder: Path) -> None:
    run("stop", "--tool", "look_up")
    otelhooks.instrument(policies=[policy.allow("look_up")], mode="monitor")
    assert denied(look_up)
    assert send() == "sent"


def test_rules_that_are_replaced_meanwhile_do_not_lift_it(folder: Path) -> None:
    handle = otelhooks.instrument()
    run("stop", "--all")
    until(lambda: denied(look_up))
    handle.replace(policies=[policy.allow("*")])
    handle.register(policy.allow("look_up"))
    assert denied(look_up)
    otelhooks.instrument(policies=[policy.allow("look_up")], replace=True)
    assert denied(look_up)


@pytest.mark.parametrize(("tool", "stopped"), [("mail/*", [send]), ("look_*", [look_up])])
def test_tools_are_named_as_in_rules(folder: Path, tool: str, stopped: list[Any]) -> None:
    run("stop", "--tool", tool)
    otelhooks.instrument()
    assert [one for one in (look_up, send) if denied(one)] == stopped


def test_an_agent_is_stopped_with_the_agents_that_it_calls(folder: Path) -> None:
    run("stop", "--agent", "lead")
    otelhooks.instrument()
    found: dict[str, bool] = {}

    @otelhooks.agent(name="worker")
    def worker(who: str) -> None:
        found[f"{who}/worker"] = denied(look_up)

    def lead(who: str) -> None:
        found[who] = denied(look_up)
        worker(who)

    for who in ("lead", "other"):
        otelhooks.agent(name=who)(lead)(who)
    otelhooks.agent(name="boss")(lambda: otelhooks.agent(name="lead")(lead)("boss/lead"))()
    assert found == {
        **{"lead": True, "lead/worker": True},
        **{"other": False, "other/worker": False},
        **{"boss/lead": True, "boss/lead/worker": True},
    }


@pytest.mark.parametrize("waits_in", ["an approver", "a hook"])
def test_a_call_that_waits_for_a_person_is_stopped_after_the_answer(
    governed: Any, folder: Path, waits_in: str
) -> None:
    answered, asked = threading.Event(), threading.Event()

    def approve(call: Any) -> bool:
        asked.set()
        return answered.wait(20)

    @hooks.pre_tool_call_decide
    def ask(call: Any) -> HookResult:
        return HookResult(allow=approve(call))

    rule = policy.ask_user("look_up", handler=approve)
    governed(**({"hooks": [ask]} if waits_in == "a hook" else {"policies": [rule]}))
    with concurrent.futures.ThreadPoolExecutor() as background:
        waiting = background.submit(look_up)
        assert asked.wait(10)
        run("stop", "--tool", "look_up", "--why", "Fire.", "--as", "u-17")
        until(lambda: active().stopped is not None)
        answered.set()
        with pytest.raises(Denied, match="Stopped by u-17: Fire"):
            waiting.result(10)
    attributes = governed.attributes("execute_tool look_up")
    assert attributes[semconv.POLICY_DECISION] == "deny"
    assert attributes[semconv.POLICY_ID] == "stop"
    if waits_in == "an approver":
        assert attributes[semconv.APPROVAL_STATUS] == "approved"


def test_a_call_that_waits_is_not_stopped_with_others(folder: Path) -> None:
    answered, asked = threading.Event(), threading.Event()

    def approve(call: Any) -> bool:
        asked.set()
        return answered.wait(20)

    otelhooks.instrument(policies=[policy.ask_user("look_up", handler=approve)])
    with concurrent.futures.ThreadPoolExecutor() as background:
        waiting = background.submit(look_up)
        assert asked.wait(10)
        run("stop", "--tool", "mail/*")
        until(lambda: denied(send))
        answered.set()
        assert waiting.result(10) == "ada"


def test_trace_and_audit_name_it(governed: Any, folder: Path, tmp_path: Path) -> None:
    run("stop", "--all", "--why", "Enough.", "--as", "u-17")
    [stop] = stop_places.place_of(str(folder)).kept()  # type: ignore[union-attr]
    governed(audit=tmp_path / "audit")
    assert denied(look_up)
    attributes = governed.attributes("execute_tool look_up")
    assert attributes[semconv.POLICY_ID] == "stop"
    assert attributes[semconv.POLICY_RULE_ID] == f"stop-{stop.id}"
    assert attributes[semconv.POLICY_REASON] == "Stopped by u-17: Enough."
    otelhooks.uninstrument()
    [segment] = (tmp_path / "audit").glob("*.jsonl")
    assert f"stop-{stop.id}" in segment.read_text()


def test_a_watch_tells_changes_alone_and_ends(folder: Path) -> None:
    looks: list[int] = []
    told: list[Any] = []

    class Place:
        def kept(self) -> Any:
            looks.append(1)
            return ()

    watch = stops.Watch(Place(), (), told.append)  # type: ignore[arg-type]
    until(lambda: len(looks) > 3)
    watch.stop()
    watch._begin()  # as in a child that is forked later
    time.sleep(0.1)
    looks.clear()
    time.sleep(0.1)
    assert (told, looks) == ([], [])


class TestFailsClosed:
    @pytest.mark.parametrize(
        "text",
        [
            *("", "{", "[]", "{}", '{"tool": "look_up"}', "\xff"),
            json.dumps({"tool": "a, b", "agent": "", "why": "", "by": "", "at": 1}),
            *(
                json.dumps({"tool": "look_up", "agent": "", "why": "", "by": "", "at": at})
                for at in (-1, 1e300, 10**400, float("nan"))
            ),
            "[" * 100_000,
        ],
    )
    def test_a_stop_that_cannot_be_read_stops_every_call(self, folder: Path, text: str) -> None:
        folder.mkdir()
        (folder / "x.json").write_bytes(text.encode("latin-1"))
        otelhooks.instrument()
        with pytest.raises(Denied, match=r"^Stopped: a stop cannot be read"):  # by no person
            send()

    @pytest.mark.parametrize("id", ["../other", "/tmp/other", "a/b", ""])
    def test_lifting_removes_no_other_file(self, folder: Path, id: str, tmp_path: Path) -> None:
        other = tmp_path / "other.json"
        other.write_text("{}")
        run("stop", "--all")
        place = stop_places.place_of(str(folder))
        assert place is not None
        assert not place.lift(id.replace("/tmp", str(tmp_path)))
        assert other.exists()
        assert len(place.kept()) == 1

    def test_a_place_that_cannot_be_read_keeps_the_last_stops(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        run("stop", "--all")
        otelhooks.instrument()

        def fail(self: Any) -> Any:
            raise ConfigError("it is away")

        monkeypatch.setattr(stop_places._Folder, "kept", fail)
        until(lambda: "the last ones hold: it is away" in caplog.text)
        time.sleep(0.1)
        assert denied(look_up)
        assert caplog.text.count("it is away") == 1

    @pytest.mark.parametrize("how", ["moved", "removed", "moved while it is read"])
    def test_a_folder_that_is_gone_keeps_the_last_stops(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        how: str,
    ) -> None:
        run("stop", "--all")
        otelhooks.instrument()
        away, read = folder.with_name("away"), stop_places._Folder._stop

        def move_and_read(self: Any, name: str) -> Any:
            folder.rename(away)
            return read(self, name)

        if how == "moved while it is read":
            monkeypatch.setattr(stop_places._Folder, "_stop", move_and_read)
        elif how == "moved":
            folder.rename(away)
        else:
            shutil.rmtree(folder)
        until(lambda: "the last ones hold" in caplog.text)
        time.sleep(0.1)
        assert denied(look_up)
        assert caplog.text.count("the last ones hold") == 1
        assert "hint: put the folder back, or make it again" in caplog.text

    def test_it_can_be_put_back_or_made_again_to_lift_them(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        run("stop", "--all")
        watch: Any = otelhooks.instrument()._stop_watch
        away = folder.with_name("away")
        folder.rename(away)
        until(lambda: "the last ones hold" in caplog.text)
        away.rename(folder)
        until(lambda: not watch._is_told)
        assert denied(look_up)

        caplog.clear()
        shutil.rmtree(folder)
        until(lambda: "the last ones hold" in caplog.text)
        monkeypatch.setattr("otelhooks.cli.stop.confirm", lambda *_: None)
        lifted = run("go", "--all")
        assert lifted.exit_code == 0
        assert "no stop is kept here" in lifted.output
        until(lambda: not denied(look_up))

    def test_a_folder_that_is_gone_when_nothing_was_stopped_stops_nothing(
        self, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder.mkdir()
        otelhooks.instrument()
        folder.rmdir()
        time.sleep(0.1)
        assert look_up() == "ada"
        assert "the last ones hold" not in caplog.text

    def test_lifting_the_last_stop_leaves_the_folder(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run("stop", "--all")
        monkeypatch.setattr("otelhooks.cli.stop.confirm", lambda *_: None)
        assert run("go", "--all").exit_code == 0
        assert list(folder.iterdir()) == []

    def test_a_folder_that_may_not_be_read_stops_every_call(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        otelhooks.instrument()
        listed = os.listdir

        def refuse(path: Any) -> Any:
            if Path(path) == folder:
                raise PermissionError(errno.EACCES, "Permission denied")
            return listed(path)

        monkeypatch.setattr(os, "listdir", refuse)
        time.sleep(0.1)
        assert look_up() == "ada"  # it does not exist, or is behind another that may not be read
        folder.mkdir()
        until(lambda: denied(look_up))
        with pytest.raises(Denied, match=r"^Stopped: a stop cannot be read"):
            look_up()
        time.sleep(0.1)
        assert caplog.text.count("cannot be read: Permission denied") == 1
        folder.rmdir()
        time.sleep(0.1)
        assert denied(look_up)

        folder.mkdir()
        monkeypatch.setattr(os, "listdir", listed)
        until(lambda: not denied(look_up))

    def test_a_file_in_its_place_is_an_error_at_the_start(self, folder: Path) -> None:
        folder.write_text("a note")
        with pytest.raises(ConfigError, match="where stops are kept, cannot be read"):
            otelhooks.instrument()

    @pytest.mark.parametrize(
        ("address", "problem"),
        [
            ("http://u:s3cret@x", "not Redis's"),
            ("redis://:s3cret@127.0.0.1:1/0", "cannot be reached"),
        ],
    )
    def test_so_is_an_address_that_leads_nowhere(
        self, monkeypatch: pytest.MonkeyPatch, address: str, problem: str
    ) -> None:
        pytest.importorskip("redis")
        monkeypatch.setenv("OTELHOOKS_STOPS", address)
        with pytest.raises(ConfigError, match=problem) as raised:
            otelhooks.instrument()
        assert "s3cret" not in str(raised.value)


class TestCommands:
    def test_nothing_is_stopped_at_first(self, folder: Path) -> None:
        listed = run("stop")
        assert listed.exit_code == 1
        assert listed.stderr == f"no stop is kept in `{folder}`\n"
        assert not folder.exists()

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (["stop", "--all", "--tool", "x"], "--all stops every tool"),
            (["stop", "--tool", "a, b"], "a, b"),
            (["stop", "--tool", ""], "--tool is empty"),
            (["stop", "--agent", " "], "--agent is empty"),
            (["stop", "--tool", "x", "--agent", ""], "--agent is empty"),
            (["stop", "--all", "--tool", ""], "--tool is empty"),
            (["stop", "--why", "Fire."], "it is not said what to stop"),
            (["stop", "--why", ""], "it is not said what to stop"),
            (["stop", "--as", "u-17"], "it is not said what to stop"),
            (["go"], "no stop is named"),
            (["go", "12345678"], "there is no stop `12345678`"),
        ],
    )
    def test_what_cannot_be_meant_is_an_error(
        self, folder: Path, arguments: list[str], problem: str
    ) -> None:
        result = run(*arguments)
        assert result.exit_code == 2
        assert problem in result.output
        assert not folder.exists()

    def test_a_script_cannot_lift_one(self, folder: Path) -> None:
        run("stop", "--all")
        result = run("go", "--all")
        assert result.exit_code == 2
        assert "lifting a stop needs a terminal" in result.output
        assert len(list(folder.iterdir())) == 1

    @pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no user ids")
    @pytest.mark.parametrize("error", [KeyError("uid not found"), OSError("No username set")])
    def test_a_user_without_a_name_stops_programs_as_well(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        def unknown() -> str:
            raise error

        monkeypatch.setattr(getpass, "getuser", unknown)
        assert run("stop", "--all").exit_code == 0
        assert f"by uid {os.getuid()}" in run("stop").stdout

    def test_it_says_where_programs_see_the_stop(self, folder: Path) -> None:
        stopped = run("stop", "--all")
        assert f"for programs that look in `{folder}`" in stopped.stderr

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can act as others"
    )
    def test_root_stops_programs_of_the_user_whose_home_it_has(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with tempfile.TemporaryDirectory() as home:
            os.chown(home, 12345, 12346)
            folder = Path(home, "state", "stops")
            monkeypatch.setenv("OTELHOOKS_STOPS", str(folder))
            stopped = run("stop", "--all")
            assert stopped.exit_code == 0, stopped.output
            assert f"`{folder}`, as uid 12345" in stopped.stderr
            [kept] = folder.iterdir()
            for made in (folder.parent, folder, kept):
                found = made.stat()
                assert (found.st_uid, found.st_gid) == (12345, 12346)
            assert (os.geteuid(), os.getegid()) == (0, 0)

    @pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no user ids")
    def test_root_that_may_not_act_as_that_user_stops_nothing(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(uid: int) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        found = folder.parent.stat()
        owned = SimpleNamespace(st_uid=12345, st_gid=found.st_gid)
        monkeypatch.setattr(stop_places, "_owner", lambda path: owned)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(os, "setegid", lambda gid: None)
        monkeypatch.setattr(os, "seteuid", refuse)
        stopped = run("stop", "--all")
        assert stopped.exit_code == 2
        assert "Operation not permitted" in stopped.stderr
        assert "hint: run the command as uid 12345" in stopped.stderr
        assert not folder.exists()

    def test_they_can_be_switched_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTELHOOKS_STOPS", "off")
        otelhooks.instrument()
        assert look_up() == "ada"
        assert "OTELHOOKS_STOPS is `off`" in run("stop", "--all").output
