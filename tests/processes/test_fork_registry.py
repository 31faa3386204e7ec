"""What is done when the process forks, and in which order."""

from __future__ import annotations

import logging
import os
import re
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from otelhooks.process import forks
from otelhooks.process.forks import Step

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

PACKAGE = Path(forks.__file__).parents[1]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_around", list(forks._around))
    monkeypatch.setattr(forks, "_in_child", list(forks._in_child))


def in_child(said: Any) -> str:
    """Fork; return what a function returns in the child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, str(said()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    try:
        return os.read(reader, 10_000).decode()
    finally:
        os.close(reader)


def test_a_child_starts_afresh_step_by_step_whatever_was_registered_first():
    seen: list[str] = []
    for step in (Step.RUNTIME, Step.SENDERS, Step.TRAILS, Step.THREADS):
        for name in "ab":
            forks.in_child(lambda step=step, name=name: seen.append(f"{name}{step}"), step)
    assert in_child(lambda: " ".join(seen)) == "a1 b1 a2 b2 a3 b3 a4 b4"
    assert seen == []


def test_what_is_held_last_is_released_first_in_parent_and_child():
    seen: list[str] = []
    for name in "ab":
        forks.around(lambda name=name: seen.append(name), lambda name=name: seen.append(f"-{name}"))
    forks.before(lambda: seen.append("first"))
    forks.in_child(lambda: seen.append("child"), Step.THREADS)
    assert in_child(lambda: " ".join(seen)) == "first b a -a -b child"
    assert seen == ["first", "b", "a", "-a", "-b"]


def test_an_error_in_one_is_logged_and_stops_no_other(caplog):
    def fail() -> None:
        raise OSError("secret")

    seen: list[str] = []
    forks.in_child(fail, Step.THREADS)
    forks.in_child(lambda: seen.append("called"), Step.THREADS)
    forks.before(fail)
    with caplog.at_level(logging.ERROR, "otelhooks"):
        assert in_child(lambda: seen) == "['called']"
    assert "something failed after a fork: OSError" in caplog.text
    assert "secret" not in caplog.text


def test_a_method_is_called_as_long_as_its_object_lives():
    class Kept:
        def __init__(self, seen: list[str], name: str) -> None:
            self.seen, self.name = seen, name
            forks.in_child(self.start, Step.THREADS)

        def start(self) -> None:
            self.seen.append(self.name)

    seen: list[str] = []
    kept, dropped = Kept(seen, "kept"), Kept(seen, "dropped")
    before = len(forks._in_child)
    reference = weakref.ref(dropped)
    del dropped
    assert reference() is None
    further = Kept(seen, "further")
    assert len(forks._in_child) == before
    assert in_child(lambda: [*seen, kept.name, further.name]) == str(["kept", "further"] * 2)


def test_threads_that_fork_at_once_release_what_each_holds():
    lock = forks.held_over_forks()
    children: list[int] = []

    def fork() -> None:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                os._exit(0 if lock.acquire(blocking=False) else 1)
            children.append(child)

    threads = [threading.Thread(target=fork) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 30
    assert lock.acquire(timeout=5)
    lock.release()


def test_a_thread_may_register_while_another_waits_with_its_fork_for_a_lock_of_that_thread():
    lock, waits, done = forks.held_over_forks(), threading.Event(), threading.Event()

    def import_something() -> None:
        with lock:
            waits.set()
            done.wait(0.2)  # by then the fork waits for the lock
            forks.in_child(str, Step.THREADS)

    thread = threading.Thread(target=import_something)
    thread.start()
    assert waits.wait(5)
    assert in_child(lambda: "forked") == "forked"
    thread.join(5)
    assert not thread.is_alive()


def test_a_child_of_a_program_that_says_nothing_before_it_forks_starts_afresh_too():
    seen: list[str] = []
    forks._in_child.clear()
    forks.in_child(lambda: seen.append("called"), Step.THREADS)
    forks._after_in_child()
    assert seen == ["called"]


def test_nothing_else_of_otelhooks_registers_at_fork():
    sources = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    found = [path for path, text in sources.items() if re.search(r"os\.register_at_fork\(", text)]
    assert found == [PACKAGE / "process" / "forks.py"]
