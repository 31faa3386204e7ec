"""Who is asked when a rule says ask."""

from __future__ import annotations

import functools
import io
import sqlite3
import sys
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import otelhooks
from otelhooks import policy, types
from otelhooks.approvals import Approval, Queue, Terminal, Unavailable, first_of
from otelhooks.errors import Denied
from otelhooks.records import semconv
from otelhooks.store import connection
from otelhooks.utils.interactive import ask_user_handler

CALL = types.ToolCall(name="t", args={"x": 1})


class Keyboard(io.StringIO):
    """Standard input with a user at it."""

    def isatty(self) -> bool:
        return True


class TestTerminal:
    @pytest.mark.anyio
    @pytest.mark.parametrize("stdin", [None, io.StringIO("y\n")])
    async def test_it_refuses_where_there_is_none(
        self, monkeypatch: pytest.MonkeyPatch, stdin: Any
    ) -> None:
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(Unavailable, match="not a terminal"):
            await Terminal()(CALL)

    @pytest.mark.anyio
    @pytest.mark.parametrize(("answer", "approves"), [("y\n", True), ("n\n", False), ("", False)])
    async def test_it_asks_the_user_at_the_terminal(
        self, monkeypatch: pytest.MonkeyPatch, answer: str, approves: bool
    ) -> None:
        monkeypatch.setattr(sys, "stdin", Keyboard(answer))
        assert await Terminal()(CALL, "why") is approves

    def test_a_rule_without_anybody_at_the_terminal_denies(
        self, governed: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ran: list[int] = []

        @otelhooks.tool
        def t() -> None:
            ran.append(1)

        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        governed(policies=[policy.ask_user("t", name="p")], approvals=Terminal())
        with pytest.raises(Denied, match=r"No one could be asked about tool 't' \(policy 'p'\)\."):
            t()
        assert ran == []


class TestFirstOf:
    @staticmethod
    def unavailable(call: types.ToolCall, reason: str) -> bool:
        raise Unavailable("nobody")

    @staticmethod
    async def approves(call: types.ToolCall, reason: str) -> Any:
        return Approval("approved", approver_id="ann")

    @staticmethod
    def rejects(call: types.ToolCall, reason: str) -> bool:
        return False

    @pytest.mark.anyio
    async def test_the_first_that_is_available_is_asked(self) -> None:
        answer = await first_of([self.unavailable, self.approves, self.rejects])(CALL, "")
        assert answer.approver_id == "ann"
        assert await first_of([self.unavailable, self.rejects])(CALL, "") is False
        assert await first_of([self.rejects, self.approves])(CALL, "") is False
        assert (await first_of([self.unavailable, self.approves])(CALL, "")).approved

    @pytest.mark.anyio
    async def test_a_missing_user_is_an_error(self) -> None:
        with pytest.raises(Unavailable):
            await first_of([self.unavailable, self.unavailable])(CALL, "")

    @pytest.mark.anyio
    async def test_a_plain_channel_in_a_list_does_not_hold_up_the_event_loop(self) -> None:
        answered = threading.Event()

        def waits(call: types.ToolCall, reason: str) -> bool:
            return answered.wait(10)

        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await first_of([waits])(CALL, ""))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.lowlevel.checkpoint()
            answered.set()
        assert answers == [True]

    def test_several_channels_may_be_given(self, governed: Any) -> None:
        @otelhooks.tool
        def t() -> str:
            return "ran"

        governed(policies=[policy.ask_user("t")], approvals=[self.unavailable, self.approves])
        assert t() == "ran"
        otelhooks.uninstrument()
        governed(policies=[policy.ask_user("t")], approvals=[self.unavailable, self.rejects])
        with pytest.raises(Denied, match="User denied"):
            t()

    @pytest.mark.parametrize("capture", ["NO_CONTENT", "SPAN_AND_EVENT"])
    def test_an_approver_that_failed_is_logged(
        self, governed: Any, caplog: pytest.LogCaptureFixture, capture: str
    ) -> None:
        def ask(call: types.ToolCall) -> bool:
            raise OSError("the chat is down")

        @otelhooks.tool
        def t() -> None: ...

        governed(policies=[policy.ask_user("t")], approvals=ask, capture_content=capture)
        with pytest.raises(Denied):
            t()
        assert "approver of rule `t` could not be asked" in caplog.text
        assert ("the chat is down" in caplog.text) is (capture != "NO_CONTENT")

    def test_a_channel_that_reaches_nobody_says_why_in_one_line(
        self, governed: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @otelhooks.tool
        def t() -> None: ...

        monkeypatch.setattr("sys.stdin", io.StringIO())
        governed(policies=[policy.ask_user("t")], approvals=Terminal())
        with pytest.raises(Denied):
            t()
        (said,) = (m for m in caplog.messages if "could not be asked" in m)
        assert "standard input is not a terminal" in said
        assert "`approvals=approvals.Queue()`" in said

    def test_a_queue_on_a_full_disk_says_what_to_do_on_a_line_of_its_own(
        self, governed: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        @otelhooks.tool
        def t() -> None: ...

        governed(policies=[policy.ask_user("t")], approvals=Queue())
        monkeypatch.setattr(connection.Database, "_transaction", full)
        with pytest.raises(Denied):
            t()
        (said,) = (m for m in caplog.messages if "could not be asked" in m)
        assert "\\n" not in said
        assert "\nhint: free some space on that disk" in said

    def test_no_human_is_reported_where_none_was_asked(self, governed: Any) -> None:
        @otelhooks.tool
        def t() -> None: ...

        governed(policies=[policy.ask_user("t")], approvals=self.unavailable)
        with pytest.raises(Denied):
            t()
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.APPROVAL_STATUS] == "error"
        assert semconv.APPROVAL_APPROVER_TYPE not in attributes

    def test_no_human_is_reported_where_a_handler_ends_without_an_answer(
        self, governed: Any
    ) -> None:
        @otelhooks.tool
        def t() -> None: ...

        governed(policies=[policy.ask_user("t")], approvals=lambda call: None)
        with pytest.raises(Denied, match="denied tool 't'"):
            t()
        for span in ("execute_tool t", "otelhooks.approval.wait t"):
            attributes = governed.attributes(span)
            assert attributes[semconv.APPROVAL_STATUS] == "rejected"
            assert semconv.APPROVAL_APPROVER_TYPE not in attributes


def approve(call: types.ToolCall) -> bool:
    """Approve: a function of the application's."""
    return True


class TestWhoAnswered:
    """The class: a record names a person only where a person was asked."""

    @pytest.mark.parametrize("where", ["handler", "channel", "second channel"])
    @pytest.mark.parametrize(
        ("approver", "name"),
        [
            (approve, "approve"),
            (functools.partial(approve), "approve"),
            (lambda call, reason: Approval("approved"), None),
            (lambda call, **kw: Approval("approved", approver_id="bot"), "bot"),
        ],
        ids=["function", "partial", "approval", "named approval"],
    )
    def test_a_function_is_a_service_of_that_name(
        self, governed: Any, where: str, approver: Any, name: str | None
    ) -> None:
        @otelhooks.tool
        def t() -> None: ...

        given: dict[str, Any] = {
            "handler": {"policies": [policy.ask_user("t", handler=approver)]},
            "channel": {"policies": [policy.ask_user("t")], "approvals": approver},
            "second channel": {
                "policies": [policy.ask_user("t")],
                "approvals": [TestFirstOf.unavailable, approver],
            },
        }[where]
        governed(**given)
        t()
        for span in ("execute_tool t", "otelhooks.approval.wait t"):
            attributes = governed.attributes(span)
            assert attributes[semconv.APPROVAL_APPROVER_TYPE] == "service"
            found = attributes[semconv.APPROVAL_APPROVER_ID]
            assert found == name or (name is None and found.endswith("<lambda>"))

    @pytest.mark.parametrize("where", ["handler", "channel", "second channel"])
    def test_someone_at_the_terminal_is_a_person(
        self, governed: Any, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        @otelhooks.tool
        def t() -> None: ...

        monkeypatch.setattr(sys, "stdin", Keyboard("y\n"))
        rule = policy.ask_user("t", handler=ask_user_handler if where == "handler" else None)
        channels = [TestFirstOf.unavailable] if where == "second channel" else []
        governed(policies=[rule], approvals=[*channels, Terminal()])
        t()
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.APPROVAL_APPROVER_TYPE] == "human"
        assert semconv.APPROVAL_APPROVER_ID not in attributes

    def test_a_channel_may_say_that_it_was_a_person(self, governed: Any) -> None:
        @otelhooks.tool
        def t() -> None: ...

        answer = Approval("rejected", approver_type="human", approver_id="ann")
        governed(policies=[policy.ask_user("t")], approvals=lambda call: answer)
        with pytest.raises(Denied):
            t()
        attributes = governed.attributes("execute_tool t")
        assert attributes[semconv.APPROVAL_APPROVER_TYPE] == "human"
        assert attributes[semconv.APPROVAL_APPROVER_ID] == "ann"

    def test_a_second_channel_that_gives_no_answer_is_not_named(self, governed: Any) -> None:
        @otelhooks.tool
        def t() -> None: ...

        channels = [TestFirstOf.unavailable, lambda call: None]
        governed(policies=[policy.ask_user("t")], approvals=channels)
        with pytest.raises(Denied):
            t()
        attributes = governed.attributes("execute_tool t")
        assert semconv.APPROVAL_APPROVER_TYPE not in attributes
        assert semconv.APPROVAL_APPROVER_ID not in attributes


def test_an_approval_for_one_rule_covers_no_other() -> None:
    asked, other = (policy.RateLimit(tool_calls=most) for most in (1, 2))
    approval = Approval("approved")
    approval.rules, approval.args = (asked,), {}
    assert approval.covers(asked, {})
    assert not approval.covers(other, {})
