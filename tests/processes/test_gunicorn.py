"""gunicorn's prefork, with the application loaded before and after the fork."""

import collections
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from otelhooks.audit import check
from otelhooks.store.reader import Store
from tests.ports import free_ports

HERE = Path(__file__).parent
WORKERS = 2
STARTS_WITHIN_S = 60


def _get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
        return json.load(response)


def _wait_until_up(process, port):
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        try:
            return _get(port, "/count")
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("gunicorn did not come up")


@pytest.fixture(params=[["--preload"], []], ids=["preload", "prefork"])
def server(request, tmp_path):
    (port,) = free_ports(1)
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE),
        "AUDIT_FOLDER": str(tmp_path / "audit"),
        "OTELHOOKS_STORE": str(tmp_path / "store.db"),
    }
    command = [
        *(sys.executable, "-m", "gunicorn", "preforked:app", *request.param),
        *("--workers", str(WORKERS), "--bind", f"127.0.0.1:{port}"),
    ]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        _wait_until_up(process, port)
        yield port, tmp_path
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


@pytest.mark.timeout(180)
def test_every_worker_denies_records_and_traces_on_its_own(server):
    port, folder = server
    seen = collections.Counter()
    deadline = time.monotonic() + STARTS_WITHIN_S
    # Several at once, until each worker, however late it came up, has had its share.
    with concurrent.futures.ThreadPoolExecutor(2 * WORKERS) as pool:
        while len(seen) < WORKERS or min(seen.values()) < 2:
            assert time.monotonic() < deadline, f"answered by {dict(seen)} only"
            for answer in pool.map(_get, [port] * 8, ["/drop"] * 8):
                assert answer["answer"] == "denied: no tables are dropped here"
                seen[answer["pid"]] += 1

    report = check(folder / "audit")
    assert [f for f in report.findings if f.severity == "error"] == []
    denied = seen.total()
    records = [
        json.loads(line)
        for file in (folder / "audit").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert sum(record.get("decision") == "deny" for record in records) == denied

    spans, _ = _spans(folder / "store.db")
    refused = [s for s in spans if s.attributes.get("otelhooks.policy.decision") == "deny"]
    assert len(refused) == denied
    instances = {s.origin.resource["service.instance.id"] for s in refused}
    assert len(instances) == WORKERS


def _spans(path):
    store = Store(path)
    traces = [store.trace(summary.trace_id) for summary in store.traces(1000)]
    return [span for trace in traces for span in trace.spans], traces
