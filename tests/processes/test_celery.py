"""Celery's prefork pool: its children exit by `os._exit`, and nothing they recorded is lost."""

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.children import assert_all_told, work_of

celery = pytest.importorskip("celery")
pytest.importorskip("celery.app.defaults")

HERE = Path(__file__).parent
CHILDREN = 2
STARTS_WITHIN_S = 120

SPAWNS = pytest.mark.skipif(
    "pool_start_method" not in celery.app.defaults.NAMESPACES["worker"],
    reason="this Celery forks only",
)
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the prefork pool needs fork"),
    pytest.mark.timeout(300),
]


def _wait_for(condition):
    deadline = time.monotonic() + STARTS_WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def start_method():
    return "fork"


@pytest.fixture
def client(tmp_path, start_method):
    """Sends tasks; it knows their names only, and governs nothing. Queue and results are files."""
    for name in ("outbox", "queue", "control", "results"):
        (tmp_path / name).mkdir()
    transport = {
        "data_folder_in": str(tmp_path / "queue"),
        "data_folder_out": str(tmp_path / "queue"),
        "control_folder": str(tmp_path / "control"),
        "polling_interval": 0.05,
    }
    settings = {
        "broker_url": "filesystem://",
        "broker_transport_options": transport,
        "worker_pool_start_method": start_method,
        "worker_timer_precision": 0.05,
        "result_backend": (tmp_path / "results").as_uri(),
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    app = celery.Celery("client", set_as_current=False)
    app.conf.update(settings)
    app.conf.broker_transport_options = transport | {"data_folder_out": str(tmp_path / "outbox")}
    with app:
        yield app


@contextlib.contextmanager
def _worker(folder, *arguments, number=signal.SIGTERM):
    """Run a worker as long as the block; SIGTERM is a warm shutdown, SIGQUIT a cold one."""
    environment = {**os.environ, "PYTHONPATH": str(HERE), "WORK_FOLDER": str(folder)}
    command = [
        *(sys.executable, "-m", "celery", "--app", "celery_tasks", "worker", "--pool", "prefork"),
        *("--without-gossip", "--without-mingle", "--loglevel", "INFO"),
        *("--concurrency", str(CHILDREN), *arguments),
    ]
    log = folder / "worker.log"
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process,
    ):
        try:
            _wait_for(lambda: process.poll() is not None or " ready." in log.read_text())
            assert process.poll() is None, log.read_text()
            yield
            process.send_signal(number)
            assert process.wait(STARTS_WITHIN_S) == 0, log.read_text()
        finally:
            process.kill()


def _send(client, folder, seconds):
    """Have the work done once for each of these times that it is to take, all sent at once.

    Kombu writes a message where the worker reads, which may find half of it: so it is moved there.
    """
    sent = [client.send_task("work", args=[length]) for length in seconds]
    for message in (folder / "outbox").iterdir():
        message.rename(folder / "queue" / message.name)
    return sent


def _answers(client, folder, seconds):
    sent = _send(client, folder, seconds)
    return [result.get(timeout=STARTS_WITHIN_S, interval=0.05) for result in sent]


@pytest.mark.parametrize("start_method", ["fork", pytest.param("spawn", marks=SPAWNS)])
def test_each_child_denies_records_and_traces_on_its_own(client, tmp_path):
    worked = collections.Counter()
    deadline = time.monotonic() + STARTS_WITHIN_S
    with _worker(tmp_path):
        while len(worked) < CHILDREN or min(worked.values()) < 2:
            assert time.monotonic() < deadline, f"answered by {dict(worked)} only"
            # It takes a while, so that the next message goes to the other child.
            worked += work_of(_answers(client, tmp_path, [0.02] * 8))
    assert_all_told(tmp_path, worked)


def test_a_call_that_is_in_progress_at_a_warm_shutdown_is_not_lost(client, tmp_path):
    with _worker(tmp_path):
        sent = _send(client, tmp_path, [1] * CHILDREN)
        _wait_for(lambda: len(list(tmp_path.glob("*.begun"))) == CHILDREN)
    worked = work_of([result.get(timeout=1) for result in sent])
    assert list(worked.values()) == [1] * CHILDREN
    assert_all_told(tmp_path, worked)


def test_a_cold_shutdown_loses_nothing_of_the_calls_that_have_ended(client, tmp_path):
    with _worker(tmp_path, number=signal.SIGQUIT):
        worked = work_of(_answers(client, tmp_path, [0.02] * 4))
    assert_all_told(tmp_path, worked)


def test_the_last_call_of_a_child_that_is_replaced_is_not_lost(client, tmp_path):
    with _worker(tmp_path, "--max-tasks-per-child", "1"):
        worked = work_of(_answers(client, tmp_path, [0] * 4))
    assert list(worked.values()) == [1] * 4
    assert_all_told(tmp_path, worked)


def test_a_child_that_has_told_of_its_end_exits_by_itself():
    """Its parent's SIGTERM could hit it while it holds the lock of the queue, in any thread."""
    end = """
import os, signal, threading, time
import celery.signals, otelhooks
otelhooks.instrument(frameworks=[])
celery.signals.worker_process_shutdown.send(sender=None, pid=os.getpid(), exitcode=0)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.1)
os._exit(7)
"""
    ended = subprocess.run([sys.executable, "-c", end], timeout=STARTS_WITHIN_S, check=False)
    assert ended.returncode == 7
