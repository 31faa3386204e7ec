"""The sender of records for a topic: how many are under way, and what it does when that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from otelhooks.audit import Audit, hcs_sender
from otelhooks.audit.hcs_client import Clients
from otelhooks.audit.hcs_outbox import Outbox
from otelhooks.audit.hcs_sender import Sender
from otelhooks.audit.hcs_topic import Unsent

PASSED = 10.0
"""Seconds after which a test that waits has failed."""


class Topic:
    """A topic that takes a message when it may, or raises what comes next."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.errors: list[Exception] = []
        self.refused = b"none"
        self.under_way = self.most = self.tries = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.changed = threading.Condition()

    def submit(self, message: bytes, last: Any, note: Callable[..., None]) -> None:
        with self.changed:
            self.tries += 1
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            error = self.errors.pop() if self.errors else None
            if self.refused in message:
                error = Unsent("BUSY", is_passing=True)
            self.changed.notify_all()
        self.may_go_on.wait(PASSED)
        with self.changed:
            self.under_way -= 1
            self.changed.notify_all()
            if error is not None:
                raise error
            self.messages.append(message)
            self.changed.notify_all()

    def wait_for(self, is_true: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(is_true, PASSED)


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[Audit]:
    with Audit(tmp_path) as made:
        yield made


@pytest.fixture
def sender(topic: Topic, trail: Audit) -> Iterator[Sender]:
    outbox = Outbox(trail.folder)
    outbox.own = trail.chain
    given: Any = topic
    made = Sender(outbox, given, "0.0.5", 3)
    yield made
    topic.may_go_on.set()
    assert made.end(PASSED)
    outbox.close()


def record(trail: Audit, count: int = 1) -> int:
    tickets = [trail.write({"name": str(number)}) for number in range(count)]
    assert all(ticket.wait() for ticket in tickets)
    return tickets[-1].seq


def test_so_many_are_under_way_at_once_and_not_more(sender, topic, trail):
    topic.may_go_on.clear()
    record(trail, 7)
    sender.start()
    topic.wait_for(lambda: topic.under_way == 3)
    topic.may_go_on.set()
    assert sender.flush(PASSED)
    assert len(topic.messages) == 8
    assert topic.most == 3


def test_after_a_failure_one_is_tried_before_the_others(sender, topic, trail, monkeypatch):
    monkeypatch.setattr(hcs_sender, "PASSING", (1.0, 1.0))
    topic.errors = [Unsent("BUSY", is_passing=True) for _ in range(3)]
    record(trail, 7)
    topic.may_go_on.clear()
    sender.start()
    topic.wait_for(lambda: topic.under_way == 3)
    topic.may_go_on.set()
    topic.wait_for(lambda: not topic.under_way)
    topic.may_go_on.clear()
    topic.wait_for(lambda: topic.under_way == 1)
    time.sleep(0.2)
    assert topic.under_way == 1
    topic.may_go_on.set()
    assert sender.flush(PASSED)
    assert len(topic.messages) == 8


def test_an_error_that_the_topic_does_not_know_loses_no_record(sender, topic, trail, monkeypatch):
    monkeypatch.setattr(hcs_sender, "PASSING", (0.01, 0.01))
    topic.errors = [RuntimeError("a bug")]
    record(trail)
    sender.start()
    assert sender.flush(PASSED)
    assert len(topic.messages) == 2
    assert sender.failed == 1


def test_a_message_that_always_fails_keeps_back_no_other(sender, topic, trail, monkeypatch):
    monkeypatch.setattr(hcs_sender, "PASSING", (0.01, 0.01))
    topic.refused = b'"seq":1,'
    record(trail, 2)
    sender.start()
    topic.wait_for(lambda: topic.tries > 5)
    record(trail, 2)
    sender.start()
    topic.wait_for(lambda: len(topic.messages) == 4)
    topic.refused = b"none"
    assert sender.flush(PASSED)
    assert len(topic.messages) == 5


def test_an_interpreter_that_starts_no_thread_any_more_still_sends(
    sender, topic, trail, monkeypatch
):
    sender.start()
    assert sender.flush(PASSED)
    record(trail, 5)

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert sender.flush(PASSED)
    assert len(topic.messages) == 6


def test_a_wait_for_a_record_ends_when_it_is_sent_and_at_once_where_it_is_refused(
    sender, topic, trail
):
    first = record(trail)
    sender.start()
    assert sender.wait_for(first, PASSED)
    topic.errors = [Unsent("INVALID_TOPIC_ID", is_passing=False)]
    second = record(trail)
    sender.start()
    started = time.monotonic()
    assert not sender.wait_for(second, PASSED)
    assert time.monotonic() - started < PASSED
    assert not sender.flush(PASSED)


def test_a_function_for_the_client_is_asked_rather_than_the_client_of_a_call():
    class Client:
        operator_account_id = "0.0.2"

    own, offered = Client(), Client()
    clients = Clients(lambda: own)
    clients.offer(offered)
    assert clients.get() is own
    clients = Clients(None)
    clients.offer(offered)
    assert clients.get() is offered
