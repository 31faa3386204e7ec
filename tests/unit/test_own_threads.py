"""Threads of their own for what waits long."""

from __future__ import annotations

import concurrent.futures
import contextvars
import threading
from typing import Any

import anyio
import pytest
import trio

from otelhooks.hooks import own_threads
from otelhooks.hooks.drive import Run

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_values_and_errors_come_back_on_either_backend(backend: str) -> None:
    async def main() -> None:
        assert await own_threads.awaited(own_threads.start(lambda: 3)) == 3
        with pytest.raises(ZeroDivisionError):
            await own_threads.awaited(own_threads.start(lambda: 1 / 0))

    anyio.run(main, backend=backend)


def test_a_thread_has_the_callers_context_and_keeps_no_process_alive() -> None:
    def look() -> tuple[str, bool]:
        return VARIABLE.get(), threading.current_thread().daemon

    token = VARIABLE.set("mine")
    try:
        assert own_threads.start(look).result(10) == ("mine", True)
    finally:
        VARIABLE.reset(token)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_answer_after_the_loop_has_ended_is_dropped(
    backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    kept: list[concurrent.futures.Future[Any]] = []

    async def main() -> None:
        kept.append(own_threads.start(release.wait, 10))
        with anyio.move_on_after(0):
            await own_threads.awaited(kept[0])

    anyio.run(main, backend=backend)
    release.set()
    assert kept[0].result(10) is True
    assert caplog.text == ""


def test_trio_that_is_imported_and_does_not_run_changes_nothing() -> None:
    assert trio is not None
    assert anyio.run(own_threads.awaited, own_threads.start(lambda: 4), backend="asyncio") == 4


def test_a_place_is_given_back_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = threading.BoundedSemaphore(1)
    monkeypatch.setattr(own_threads, "_slots", slots)
    for _ in range(3):
        assert own_threads.start(lambda: 1).result(10) == 1
        with pytest.raises(SystemExit):
            own_threads.start(exit).result(10)

    class NoMore(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading, "Thread", NoMore)
        with pytest.raises(RuntimeError, match="can't start"):
            own_threads.start(lambda: 1)
    assert own_threads.start(lambda: 2).result(10) == 2


def test_questions_of_the_parent_take_no_place_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_threads, "MAX_WAITING", 1)
    monkeypatch.setattr(own_threads, "_slots", threading.BoundedSemaphore(1))
    release = threading.Event()
    waiting = own_threads.start(release.wait, 10)
    with pytest.raises(RuntimeError, match="1 questions wait for an answer already"):
        own_threads.start(lambda: 5)
    own_threads._forget()  # what a fork does
    assert own_threads.start(lambda: 5).result(10) == 5
    release.set()
    assert waiting.result(10) is True


def test_an_interrupted_caller_takes_the_question_back() -> None:
    """Ctrl-C while a coroutine asks: it is cancelled, so it holds nothing any more."""
    asked, cancelled = threading.Event(), threading.Event()

    async def asks() -> None:
        asked.set()
        try:
            await anyio.sleep(30)
        finally:
            cancelled.set()

    class Interrupted(concurrent.futures.Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            asked.wait(10)
            raise KeyboardInterrupt

    from otelhooks.hooks import drive

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concurrent.futures, "Future", Interrupted)
        patch.setattr(own_threads, "start", lambda fn, *args: _Done(fn(*args)))
        with pytest.raises(KeyboardInterrupt):
            drive.run(Run(asks, is_question=True, timeout=5))
    assert cancelled.wait(10)


class _Done:
    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self, timeout: float | None) -> Any:
        return self._value
