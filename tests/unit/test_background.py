"""Inspectors that no operation waits for."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from otelhooks import hooks, types
from otelhooks.hooks import background, results
from otelhooks.hooks.context import SessionContext
from otelhooks.hooks.drive import drive
from otelhooks.hooks.registry import HookSet, registrations
from otelhooks.hooks.watch import Watch

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="")


@pytest.fixture(autouse=True)
def idle() -> Iterator[None]:
    yield
    assert background.flush()


class Heard(Watch):
    def __init__(self) -> None:
        self.failed: list[str] = []
        self.dropped: list[str] = []

    def hook_failed(self, registration: Any, error: BaseException) -> None:
        self.failed.append(str(error))

    def hook_dropped(self, registration: Any) -> None:
        self.dropped.append(registration.source)
        super().hook_dropped(registration)


def put(function: Any, *data: Any, watch: Watch | None = None) -> None:
    found = HookSet(registrations(hooks.on_event(background=True)(function))).at("event")
    for value in data:
        drive(results.inspect_point(found, SessionContext(), value, watch or Watch()))


def test_they_run_in_order_on_a_thread_of_their_own_in_the_callers_context() -> None:
    seen: list[Any] = []

    async def hook(data: Any) -> None:
        seen.append((data, threading.current_thread().name, VARIABLE.get()))

    token = VARIABLE.set("mine")
    put(hook, *range(20))
    VARIABLE.reset(token)
    assert background.flush()
    assert [value for value, _, _ in seen] == list(range(20))
    assert {name for _, name, _ in seen} == {"otelhooks-background"}
    assert {variable for _, _, variable in seen} == {"mine"}


def test_the_operation_does_not_wait() -> None:
    release = threading.Event()
    put(lambda data: release.wait(10), 1)
    assert not background.flush(0.01)
    release.set()


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit("x")])
def test_what_they_raise_is_told_and_the_next_one_runs(error: BaseException) -> None:
    heard, seen = Heard(), list[Any]()

    def fail(data: Any) -> None:
        raise error

    put(fail, 1, watch=heard)
    put(seen.append, 2)
    assert background.flush()
    assert heard.failed == ["x"]
    assert seen == [2]


def test_a_deny_that_has_no_effect_is_told() -> None:
    heard = Heard()
    put(lambda data: types.HookResult(allow=False), 1, watch=heard)
    assert background.flush()
    assert "it only inspects" in heard.failed[0]


def test_a_full_queue_drops_the_oldest_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "CAPACITY", 3)
    monkeypatch.setattr(background, "_waiting", background._Queue())
    started, release = threading.Event(), threading.Event()
    heard, seen = Heard(), list[Any]()

    def hook(data: Any) -> None:
        started.set()
        release.wait(10)
        seen.append(data)

    put(hook, 0)
    started.wait(10)
    put(hook, 1, 2, 3, 4, 5, watch=heard)
    waiter = threading.Thread(target=background.flush)
    release.set()
    waiter.start()
    assert background.flush()
    waiter.join(10)
    assert len(heard.dropped) == 2
    assert seen == [0, 3, 4, 5]


def test_who_waits_is_never_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "CAPACITY", 1)
    monkeypatch.setattr(background, "_waiting", background._Queue())
    started, release = threading.Event(), threading.Event()
    seen: list[Any] = []

    def hook(data: Any) -> None:
        started.set()
        release.wait(10)
        seen.append(data)

    put(hook, 0)
    started.wait(10)
    done = threading.Event()
    waiter = threading.Thread(target=lambda: background.flush() and done.set())
    waiter.start()
    while not background._waiting._waiting:
        pass
    put(hook, 1)
    assert not done.wait(0.05)
    release.set()
    waiter.join(10)
    assert done.is_set()
    assert background.flush()
    assert seen == [0, 1]


def test_a_hook_may_end_what_waits_for_hooks() -> None:
    seen: list[bool] = []
    put(lambda data: seen.append(background.flush()), 1)
    assert background.flush()
    assert seen == [True]


def test_nothing_queued_is_flushed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_waiting", background._Queue())
    assert background.flush()


def test_after_a_fork_the_queue_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    before = background._waiting
    monkeypatch.setattr(background, "_waiting", before)
    background._after_fork()
    assert background._waiting is not before
