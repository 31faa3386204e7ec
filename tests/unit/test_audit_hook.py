"""The hook that puts verdicts into a sink."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from otelhooks import audit
from otelhooks.audit import Audit, AuditTrailHook
from otelhooks.hooks.registry import registrations
from otelhooks.types import HookEvent

DENIED = HookEvent(type="pre_tool_use", tool_name="run_command", decision="deny", rule_id="r1")
ALLOWED = HookEvent(type="pre_tool_use", tool_name="view_file", decision="allow")
RAN = HookEvent(type="post_tool_use", tool_name="view_file", output="text")
FAILED = HookEvent(type="post_tool_use", tool_name="view_file", is_error=True, error="gone")
MESSAGE = HookEvent(type="user_message")
ALL = [DENIED, ALLOWED, RAN, FAILED, MESSAGE]


class Sink:
    def __init__(self) -> None:
        self.records: list[dict] = []

    def write(self, record):
        self.records.append(dict(record))


def feed(hook: AuditTrailHook, *events: HookEvent) -> None:
    async def main() -> None:
        for event in events:
            await hook.run(None, event)

    asyncio.run(main())


def test_every_verdict_and_failure_is_written_and_nothing_else():
    sink = Sink()
    feed(AuditTrailHook(sink), *ALL)
    assert sink.records == [
        {"type": "pre_tool_use", "tool_name": "run_command", "decision": "deny", "rule_id": "r1"},
        {"type": "pre_tool_use", "tool_name": "view_file", "decision": "allow"},
        {"type": "post_tool_use", "tool_name": "view_file", "is_error": True, "error": "gone"},
    ]


def test_executed_only_writes_calls_that_ran():
    sink = Sink()
    feed(AuditTrailHook(sink, executed_only=True), *ALL)
    assert sink.records == [{"type": "post_tool_use", "tool_name": "view_file", "output": "text"}]


def test_executed_only_comes_from_the_sink_unless_given(tmp_path):
    with Audit(tmp_path, executed_only=True) as trail:
        assert AuditTrailHook(trail).executed_only
        assert not AuditTrailHook(trail, executed_only=False).executed_only
    assert not AuditTrailHook(Sink()).executed_only


def test_a_record_is_on_disk_when_the_hook_returns(tmp_path):
    with Audit(tmp_path) as trail:
        feed(AuditTrailHook(trail), DENIED)
        assert trail.segment is not None
        record = json.loads(trail.segment.read_text().splitlines()[-1])
        assert (record["decision"], record["rule_id"]) == ("deny", "r1")


def test_a_sink_that_raises_is_logged_once_and_the_call_goes_on(caplog):
    class Broken:
        def write(self, record):
            raise RuntimeError("no topic")

    feed(AuditTrailHook(Broken()), DENIED, DENIED)
    [record] = caplog.records
    assert record.getMessage().startswith("audit record not stored: the sink raised RuntimeError")
    assert "no topic" not in caplog.text


def test_the_wait_for_the_disk_is_off_the_event_loop():
    from otelhooks.hooks.drive import Run, arun

    threads = []

    class Receipt:
        def wait(self):
            threads.append(threading.current_thread())

    class Waiting:
        def write(self, record):
            return Receipt()

    (registration,) = registrations(AuditTrailHook(Waiting()))
    assert registration.point == "event"
    asyncio.run(arun(Run(registration.call, None, DENIED, blocking=registration.blocking)))
    assert threads[0] is not threading.main_thread()


def test_without_an_event_loop_the_hook_runs_in_place():
    from otelhooks.hooks.drive import Run, run

    sink = Sink()
    (registration,) = registrations(AuditTrailHook(sink))
    assert run(Run(registration.call, None, DENIED, blocking=registration.blocking)) is None
    assert len(sink.records) == 1


def test_unknown_names_of_the_package_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = audit.Nothing
    assert sorted(audit.__all__) == audit.__all__
    assert all(hasattr(audit, name) for name in audit.__all__)
