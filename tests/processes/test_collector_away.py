"""A program whose collector is away ends soon, and the next one sends what it has kept."""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PROGRAM = """
import otelhooks, sys, time

@otelhooks.tool
def search(q): return q

otelhooks.instrument(frameworks=[])
for number in range(int(sys.argv[1])):
    search(number)
end = time.monotonic()
otelhooks.uninstrument()
print(time.monotonic() - end)
"""


def run(folder: Path, calls: int, endpoint: str, **variables: str) -> float:
    """Run a program; return how long its end took, in seconds."""
    environment = {
        **os.environ,
        "OTELHOOKS_STORE": str(folder / "store.db"),
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        **variables,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(calls)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "already shutdown" not in done.stderr
    return float(done.stdout)


@pytest.fixture
def collector():
    """A collector that counts the spans that it gets; return the counts and its address."""
    counts: list[int] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path.endswith("/v1/traces"):
                request = ExportTraceServiceRequest.FromString(body)
                scopes = [s for r in request.resource_spans for s in r.scope_spans]
                counts.append(sum(len(scope.spans) for scope in scopes))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield counts, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "http://127.0.0.1:4317"])
def test_it_ends_soon_and_the_next_program_sends_what_it_kept(tmp_path, collector, endpoint):
    counts, address = collector
    patient = {"OTELHOOKS_EXIT_TIMEOUT": "40", "OTEL_EXPORTER_OTLP_TIMEOUT": "40000"}
    assert run(tmp_path, 3, endpoint, **patient) < 20
    assert list((tmp_path / "store-unsent").glob("traces-*.db"))
    run(tmp_path, 1, address)
    assert counts == [1, 3]
    assert not list((tmp_path / "store-unsent").glob("traces-*"))


def test_ctrl_c_still_ends_the_program(tmp_path):
    """By the signal, as shells and supervisors see it, and not with a status of its own."""
    interrupt = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background has none
signal.raise_signal(signal.SIGINT)
"""
    interrupted = PROGRAM.partition("end =")[0] + interrupt
    variables = {"OTELHOOKS_STORE": str(tmp_path / "store.db"), "OTELHOOKS_EXIT_TIMEOUT": "10"}
    done = subprocess.run(
        [sys.executable, "-c", interrupted, "1"],
        env={**os.environ, **variables, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGINT
    assert list((tmp_path / "store-unsent").glob("traces-*.db"))


def test_without_keeping_nothing_is_written(tmp_path):
    started = time.monotonic()
    run(
        tmp_path, 1, "http://127.0.0.1:9", OTELHOOKS_KEEP_UNSENT="false", OTELHOOKS_EXIT_TIMEOUT="1"
    )
    assert time.monotonic() - started < 30
    assert not (tmp_path / "store-unsent").exists()
