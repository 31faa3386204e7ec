"""Recorders: whole records of verdicts before a call goes on, and of how it ended."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.errors import Denied
from otelhooks.hooks.calls import Call
from otelhooks.hooks.recorders import Recorder
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import Split, Unrun
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.records import semconv


class Kept:
    def __init__(self, answer: bool = True) -> None:
        self.answer = answer

    def wait(self) -> bool:
        return self.answer


class Memory(Recorder):
    """Keeps records in a list, and says how many threads waited."""

    def __init__(self, *, required: bool = False, answer: bool = True, ends: bool = False) -> None:
        self.required = required
        self.records: list[dict[str, Any]] = []
        self.contexts: list[Any] = []
        self._receipt = Kept(answer)
        self._ends = ends

    async def run(self, context: Any, data: Any) -> None:
        """Listen to nothing."""

    def wants(self, call: Any) -> bool:
        return call.name != "other"

    def wants_end(self, is_failed: bool) -> bool:
        return self._ends or is_failed

    def write(self, record: Any, context: Any) -> Kept:
        self.records.append(dict(record))
        self.contexts.append(context)
        return self._receipt

    @property
    def spooled(self) -> int:
        return len(self.records)

    def told(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(record.get(name) for name in names) for record in self.records]


@pytest.fixture
def instrument(providers: dict[str, Any]) -> Any:
    return functools.partial(otelhooks.instrument, frameworks=(), **providers)


@otelhooks.tool
def send(to: str, password: str = "") -> str:
    return f"sent to {to}"


@otelhooks.tool
def other() -> str:
    return "done"


@otelhooks.tool
def fails() -> str:
    raise KeyError("no such account")


def test_an_allowed_call_is_recorded_with_masked_arguments_and_their_hash(instrument):
    memory = Memory()
    instrument(hooks=[memory])
    with otelhooks.session("s-1"), otelhooks.turn("go"):
        send("ann", password="hunter2")
    (record,) = memory.records
    assert record["decision"] == "allow"
    assert record["tool_name"] == "send"
    assert record["arguments"] == {"to": "ann", "password": "[MASKED]"}
    assert len(record["arguments_hash"]) == 64
    assert record["session_id"] == "s-1"
    assert record["turn"] == 1
    assert len(record["trace_id"]) == 32


def test_a_denied_call_is_recorded_with_policy_and_rule(instrument):
    memory = Memory()
    instrument(policies=[policy.deny("send", id="no-mail")], hooks=[memory])
    with pytest.raises(Denied):
        send("ann")
    assert memory.told("decision", "policy_id", "rule_id", "enforcement") == [
        ("deny", "code", "no-mail", "blocked")
    ]


def test_a_call_that_a_hook_denies_is_recorded_too(instrument):
    @hooks.pre_tool_call_decide(rule_id="guard")
    def guard(call):
        return types.HookResult(allow=False, message="no")

    memory = Memory()
    instrument(hooks=[guard, memory])
    with pytest.raises(Denied):
        send("ann")
    assert memory.told("decision", "rule_id") == [("deny", "guard")]


def test_a_failed_call_is_recorded_before_and_after(instrument):
    memory = Memory()
    instrument(hooks=[memory])
    with pytest.raises(KeyError):
        fails()
    assert memory.told("decision", "outcome", "error_type") == [
        ("allow", None, None),
        ("allow", "failed", "KeyError"),
    ]
    assert memory.contexts[0] is memory.contexts[1]
    assert memory.records[0]["decision_id"] == memory.records[1]["decision_id"]


def test_how_a_call_ended_is_recorded_where_it_is_wanted(instrument):
    memory = Memory(ends=True)
    instrument(hooks=[memory])
    send("ann")
    assert memory.told("outcome") == [(None,), ("ok",)]
    assert 0 <= memory.records[1]["duration_s"] < 60


def test_calls_that_one_rule_allows_have_decision_ids_of_their_own(instrument):
    memory = Memory()
    instrument(policies=[policy.allow("send", id="mail")], hooks=[memory])
    for _ in range(3):
        send("ann")
    assert len(set(memory.told("rule_id", "decision_id"))) == 3


def test_an_approved_call_that_the_framework_did_not_run_has_no_end(instrument):
    memory = Memory(ends=True)
    instrument(hooks=[memory])
    rt = runtime.active()
    assert rt is not None
    split = Split(tool(rt, ToolSeat(), Call("t", {}))).begin()
    split.finish(Unrun("it changed its mind", is_refused=False))
    assert memory.told("decision", "outcome") == [("allow", None)]


def test_a_result_that_is_withheld_is_a_verdict_of_its_own(instrument):
    @hooks.post_tool_call_transform
    def hide(result):
        return types.HookResult(allow=False, message="secret")

    memory = Memory()
    instrument(hooks=[hide, memory])
    assert send("ann") == "secret"
    assert memory.told("point", "decision")[1] == ("post_tool_call", "deny")


def test_tools_that_a_recorder_does_not_want_are_not_recorded(instrument):
    memory = Memory()
    instrument(hooks=[memory])
    other()
    assert memory.records == []


def test_a_record_that_is_not_kept_denies_where_it_is_required(instrument):
    ran = []

    @otelhooks.tool
    def act() -> None:
        ran.append("act")

    instrument(hooks=[Memory(required=True, answer=False)])
    with pytest.raises(Denied, match="could not be recorded"):
        act()
    assert ran == []


def test_a_call_that_is_not_run_for_want_of_a_record_is_recorded_as_such(instrument):
    memory, broken = Memory(), Memory(required=True, answer=False)
    instrument(hooks=[memory, broken])
    with pytest.raises(Denied):
        send("ann")
    for recorder in (memory, broken):
        assert recorder.told("decision", "outcome") == [("allow", None), ("allow", "not_run")]


def test_a_record_that_is_not_kept_denies_nothing_where_it_is_not_required(instrument):
    instrument(hooks=[Memory(answer=False)])
    assert send("ann") == "sent to ann"


def test_one_recorder_that_fails_denies_although_another_has_the_record(instrument):
    memory = Memory(required=True)
    instrument(hooks=[memory, Memory(required=True, answer=False), Memory(required=True)])
    with pytest.raises(Denied):
        send("ann")
    assert memory.told("outcome") == [(None,), ("not_run",)]


def test_a_recorder_that_raises_denies_where_it_is_required_only(instrument):
    class Broken(Memory):
        def write(self, record: Any, context: Any) -> Kept:
            raise OSError("no disk")

    handle = instrument(hooks=[Broken()])
    assert send("ann") == "sent to ann"
    handle.register(Broken(required=True))
    with pytest.raises(Denied):
        send("ann")


def test_waiting_is_done_off_the_event_loop(instrument):
    threads = []

    class Slow(Memory):
        def write(self, record: Any, context: Any) -> Any:
            class Receipt:
                def wait(self) -> bool:
                    threads.append(threading.current_thread())
                    return True

            return Receipt()

    @otelhooks.tool
    async def act() -> str:
        return "done"

    instrument(hooks=[Slow()])
    assert asyncio.run(act()) == "done"
    assert threads
    assert threads[0] is not threading.main_thread()


def test_a_recorder_in_a_scope_records_what_runs_there(instrument):
    memory = Memory()
    instrument()
    with otelhooks.scope(hooks=[memory]):
        send("ann")
    send("bob")
    assert memory.told("tool_name") == [("send",)]


def test_a_cancelled_call_is_recorded_as_failed(instrument):
    memory = Memory()
    started = asyncio.Event()

    @otelhooks.tool
    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(hang())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    instrument(hooks=[memory])
    asyncio.run(main())
    assert memory.told("outcome") == [(None,), ("failed",)]
    assert memory.records[1]["error_type"].endswith("CancelledError")


def test_a_question_that_no_call_waits_for_any_more_is_recorded(instrument):
    memory = Memory()
    asked = asyncio.Event()

    async def ask(call: types.ToolCall) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    @otelhooks.tool
    async def act() -> None:
        """Do nothing."""

    async def main() -> None:
        task = asyncio.create_task(act())
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    instrument(policies=[policy.ask_user("act", ask)], hooks=[memory])
    asyncio.run(main())
    assert memory.told("decision", "approval_status") == [("ask", "withdrawn")]


def test_records_that_wait_are_on_the_gauge(instrument, metrics_reader):
    instrument(hooks=[Memory()])
    send("ann")
    data = metrics_reader.get_metrics_data()
    points = {
        metric.name: metric.data.data_points
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
    }
    assert points[semconv.METRIC_AUDIT_SPOOLED][0].value == 1


def test_force_flush_waits_for_recorders(instrument):
    asked = []

    class Late(Memory):
        def flush(self, timeout: float | None = None) -> bool:
            asked.append(timeout)
            return False

    handle = instrument(hooks=[Late()])
    assert handle.force_flush(3.0) is False
    assert asked == [3.0]


def test_a_recorder_that_says_nothing_else_records_verdicts_and_failures(instrument):
    class Plain(Recorder):
        def __init__(self) -> None:
            self.records: list[dict[str, Any]] = []

        async def run(self, context: Any, data: Any) -> None:
            """Listen to nothing."""

        def wants(self, call: Any) -> bool:
            return True

        def write(self, record: Any, context: Any) -> Kept:
            self.records.append(dict(record))
            return Kept()

    plain = Plain()
    handle = instrument(hooks=[plain])
    send("ann")
    with pytest.raises(KeyError):
        fails()
    assert [record.get("outcome") for record in plain.records] == [None, None, "failed"]
    assert plain.spooled == 0
    assert handle.force_flush()
