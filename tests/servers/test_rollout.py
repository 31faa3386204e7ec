"""A rollout: real servers are stopped, and nothing that their workers recorded is lost."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otelhooks.audit import check
from otelhooks.records import semconv
from tests.ports import free_ports

pytest.importorskip("uvicorn_worker", reason="the servers of tests/locks/rollout.txt are not here")
pytestmark = pytest.mark.timeout(180)

HERE = Path(__file__).parent
WITHIN_S = 60
ENDED = (0, -signal.SIGTERM, -signal.SIGQUIT)

UVICORN = ("uvicorn", "rolled_out:asgi", "--host", "127.0.0.1", "--port", "{port}")
GUNICORN = ("gunicorn", "--bind", "127.0.0.1:{port}", "--no-control-socket")
SERVERS = {
    # name: (workers, command)
    "uvicorn": (1, UVICORN),
    "uvicorn-asyncio": (1, (*UVICORN, "--loop", "asyncio")),
    "uvicorn-workers": (2, (*UVICORN, "--workers", "2")),
    "gunicorn-sync": (2, (*GUNICORN, "rolled_out:wsgi", "--workers", "2")),
    "gunicorn-preload": (2, (*GUNICORN, "rolled_out:wsgi", "--workers", "2", "--preload")),
    "gunicorn-gthread": (1, (*GUNICORN, "rolled_out:wsgi", "--threads", "2")),
    "gunicorn-asgi": (1, (*GUNICORN, "rolled_out:asgi", "--worker-class", "asgi")),
    "gunicorn-uvicorn": (
        2,
        (
            *(*GUNICORN, "rolled_out:asgi", "--workers", "2"),
            *("--worker-class", "uvicorn_worker.UvicornWorker"),
        ),
    ),
    "hypercorn": (1, ("hypercorn", "rolled_out:asgi", "--bind", "127.0.0.1:{port}")),
    "hypercorn-workers": (
        2,
        ("hypercorn", "rolled_out:asgi", "--bind", "127.0.0.1:{port}", "--workers", "2"),
    ),
}


class Sink:
    """Takes OTLP, and counts denies by process: spans, events, and what the counter said last."""

    def __init__(self) -> None:
        self.spans: collections.Counter[str] = collections.Counter()
        self.events: collections.Counter[str] = collections.Counter()
        self.metrics: dict[str, int] = {}
        take = {"/v1/traces": self._spans, "/v1/logs": self._events, "/v1/metrics": self._metrics}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                take[self.path](self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def _spans(self, body: bytes) -> None:
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in group.scope_spans:
                self.spans[_instance(group)] += sum(map(_is_deny, scope.spans))

    def _events(self, body: bytes) -> None:
        for group in ExportLogsServiceRequest.FromString(body).resource_logs:
            for scope in group.scope_logs:
                self.events[_instance(group)] += sum(map(_is_deny, scope.log_records))

    def _metrics(self, body: bytes) -> None:
        for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in (metric for scope in group.scope_metrics for metric in scope.metrics):
                if metric.name == semconv.METRIC_POLICY_DECISIONS:
                    counts = [p.as_int for p in metric.sum.data_points if _is_deny(p)]
                    self.metrics[_instance(group)] = sum(counts)


def _instance(group: Any) -> str:
    return _attributes(group.resource)["service.instance.id"]


def _attributes(message: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in message.attributes}


def _is_deny(message: Any) -> bool:
    return _attributes(message).get(semconv.POLICY_DECISION) == semconv.DECISION_DENY


@pytest.fixture
def sink() -> Iterator[Sink]:
    sink = Sink()
    yield sink
    sink.http.shutdown()
    sink.http.server_close()


@contextlib.contextmanager
def _server(command: tuple[str, ...], port: int, folder: Path, sink: Sink) -> Iterator[Any]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE),
        "APPLICATION_FOLDER": str(folder),
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{sink.http.server_port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        # No timer sends anything meanwhile.
        "OTEL_BSP_SCHEDULE_DELAY": "600000",
        "OTEL_BLRP_SCHEDULE_DELAY": "600000",
        "OTEL_METRIC_EXPORT_INTERVAL": "600000",
    }
    module, *arguments = [part.format(port=port) for part in command]
    log = (folder / "server.log").open("w")
    with (
        log,
        subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # workers too


def _ask(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as response:
        return json.load(response)


def _ask_all(process: Any, port: int, workers: int, log: Path) -> collections.Counter[int]:
    """Ask until each worker has answered; return how often each has, by process id."""
    answered: collections.Counter[int] = collections.Counter()
    deadline = time.monotonic() + WITHIN_S
    with concurrent.futures.ThreadPoolExecutor(2 * workers) as pool:
        while len(answered) < workers:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            asked = [pool.submit(_ask, port) for _ in range(4 * workers)]
            for answer in asked:
                with contextlib.suppress(urllib.error.URLError, ConnectionError):
                    answered[answer.result()] += 1
            time.sleep(0.05)  # between looks at a server that is not up yet
    return answered


# Without SIGQUIT for uvicorn's worker, which ignores it until gunicorn kills it, also without us.
STOPS = [
    pytest.param(name, number, id=f"{name}-{number.name}")
    for name, (_, command) in SERVERS.items()
    for number in (signal.SIGTERM, signal.SIGQUIT)
    if number == signal.SIGTERM or (command[0] == "gunicorn" and name != "gunicorn-uvicorn")
]


@pytest.mark.parametrize(("name", "number"), STOPS)
def test_nothing_is_lost_when_a_server_is_told_to_stop(name, number, sink, tmp_path):
    workers, command = SERVERS[name]
    log = tmp_path / "server.log"
    (port,) = free_ports(1)
    with _server(command, port, tmp_path, sink) as process:
        denied = _ask_all(process, port, workers, log)
        assert not sink.spans + sink.events
        process.send_signal(number)
        code = process.wait(30)
    ended = [json.loads(file.read_text()) for file in tmp_path.glob("*.shutdown")]
    denied.update(ended)
    if "rolled_out:asgi" in command and number == signal.SIGTERM:
        assert sorted(ended) == sorted(denied)

    report = check(tmp_path / "audit")
    assert report.findings == [], log.read_text()
    files = (tmp_path / "audit").glob("*.jsonl")
    records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sum(record.get("decision") == "deny" for record in records) == denied.total()
    expected = sorted(denied.values())
    assert sorted(sink.spans.values()) == expected, log.read_text()
    assert sorted(sink.events.values()) == expected
    assert sorted(filter(None, sink.metrics.values())) == expected
    assert code in ENDED
