"""Names that are imported on first use, from anywhere."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pytest

import otelhooks
from otelhooks import audit, hooks, policy, types
from otelhooks.process.forks import held_over_forks
from otelhooks.process.late import late_names

PACKAGES = [otelhooks, audit, hooks, policy, types]


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A module that takes a moment to import, and a package that has a name of it."""
    (tmp_path / "slow_home.py").write_text("import time\ntime.sleep(0.3)\nthing = object()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    namespace: dict[str, Any] = {"__name__": "shop"}
    find, names = late_names(namespace, {"slow_home": "thing"})
    yield namespace, find, names
    sys.modules.pop("slow_home", None)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_is_there_and_listed(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_name_that_is_not_there_is_an_error_that_names_it(package):
    with pytest.raises(AttributeError, match=rf"'{package.__name__}' has no attribute 'Tool'"):
        package.Tool  # noqa: B018


def test_a_name_is_looked_up_once_and_kept(slow):
    namespace, find, names = slow
    assert "thing" not in namespace
    assert "thing" in names()
    assert find("thing") is namespace["thing"]


def test_threads_that_ask_at_once_get_the_same_thing(slow):
    _, find, _ = slow
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(find("thing"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_during_the_import_can_import(slow):
    _, find, _ = slow
    thread = threading.Thread(target=find, args=("thing",))
    thread.start()
    while "slow_home" not in sys.modules:  # from the beginning of its import on
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        ended = threading.Thread(target=lambda: os._exit(0 if find("thing") else 1))
        ended.start()
        ended.join(5)
        os._exit(2)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_the_lock_is_free_in_parent_and_child_after_a_fork():
    lock = held_over_forks()
    with lock:  # the forking thread itself may hold it
        child = os.fork() if hasattr(os, "fork") else None
        if child == 0:
            lock.release()
            free = threading.Thread(target=lambda: os._exit(0 if lock.acquire(timeout=2) else 1))
            free.start()
            free.join(5)
            os._exit(2)
    if child is not None:
        assert os.waitpid(child, 0)[1] == 0
    assert lock.acquire(blocking=False)
    lock.release()


@pytest.mark.parametrize(
    "record",
    [
        types.ToolCall(name="t", args={"x": 1}),
        types.HookResult(allow=False, message="no"),
        types.McpStdioServer(name="s", command="c"),
        types.StopArgs(response_text="done"),
        types.Image(data=b"1", mime_type="image/png"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_can_be_unpickled_before_its_class_was_used(record):
    script = "import pickle, sys; print(repr(pickle.load(sys.stdin.buffer)))"
    run = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(record), capture_output=True, check=True
    )
    assert run.stdout.decode().strip() == repr(record)


def test_a_name_can_be_asked_for_while_the_interpreter_exits():
    script = """
        import atexit, otelhooks
        atexit.register(lambda: print(otelhooks.types.HookResult(allow=False).action.value))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("deny\n", "")
