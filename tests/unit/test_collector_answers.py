"""A collector that takes a batch may refuse a part of it: that is lost, and said so."""

from __future__ import annotations

import concurrent.futures
import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace.export import SpanExportResult

from otelhooks.telemetry.exporters import exporters
from tests.unit.test_spill import spans

HTTP = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
GRPC = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}


def partial(count: int, why: str = "too old") -> bytes:
    answer = trace_service_pb2.ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = count
    answer.partial_success.error_message = why
    return answer.SerializeToString()


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """Start something that answers 200 with a body, and return the paths that it gets."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(body: bytes, kind: str = "application/x-protobuf") -> list[str]:
        received: list[str] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                received.append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{servers[-1].server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        return received

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def export(caplog: pytest.LogCaptureFixture, otel: dict[str, str] = HTTP, times: int = 1) -> str:
    [exporter] = exporters("traces", otel, {})
    for _ in range(times):
        assert exporter.export(spans("a", "b")) is SpanExportResult.SUCCESS
    exporter.shutdown()
    return caplog.text


def test_what_a_collector_refuses_is_counted_and_not_sent_again(
    answering: Any, caplog: pytest.LogCaptureFixture
) -> None:
    received = answering(partial(1))
    said = export(caplog, times=5)
    assert "the collector refuses a part of what it gets: too old; 1 span lost so far" in said
    assert "2 spans lost so far" in said
    assert "4 spans lost so far" in said
    assert said.count("too old") == 3
    assert len(received) == 5


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (partial(0, "use fewer attributes"), "", "the collector warns: use fewer attributes"),
        (partial(2, ""), "", "refuses a part of what it gets: it does not say why; 2 spans"),
        (b'{"partialSuccess": {"rejectedSpans": "2"}}', "application/json", "2 spans lost so far"),
        (b"<html>Log in</html>", "text/html", "the batch, it answers: <html>Log in"),
        (b"{", "application/json", "another program than a collector"),
        (b"OK", "text/plain", "the batch, it answers: OK"),
    ],
)
def test_any_other_answer_is_logged(
    answering: Any, caplog: pytest.LogCaptureFixture, body: bytes, kind: str, said: str
) -> None:
    answering(body, kind)
    assert export(caplog).count(said) == 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"", ""), (partial(0, ""), ""), (b"{}", "application/json; charset=utf-8")],
)
def test_one_that_takes_everything_is_not(
    answering: Any, caplog: pytest.LogCaptureFixture, body: bytes, kind: str
) -> None:
    answering(body, kind)
    assert export(caplog) == ""


def test_what_loses_nothing_more_is_logged_once(
    answering: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answering(b"<html>", "text/html")
    assert export(caplog, times=3).count("another program") == 1


def test_events_are_counted_as_well(answering: Any, caplog: pytest.LogCaptureFixture) -> None:
    answer = logs_service_pb2.ExportLogsServiceResponse()
    answer.partial_success.rejected_log_records = 3
    answering(answer.SerializeToString())
    [exporter] = exporters("logs", {**HTTP, "OTEL_LOGS_EXPORTER": "otlp"}, {})
    exporter.export([])
    exporter.shutdown()
    assert "3 events lost so far" in caplog.text


def test_a_collector_over_grpc(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Service(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:
            return trace_service_pb2.ExportTraceServiceResponse.FromString(partial(1))

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    [exporter] = exporters("traces", GRPC, {})
    assert exporter.export(spans("a")) is SpanExportResult.SUCCESS
    exporter._client = exporter._stub(exporter._channel)  # as after a broken connection
    assert exporter.export(spans("a")) is SpanExportResult.SUCCESS
    exporter.shutdown()
    server.stop(None)
    assert "too old; 1 span lost so far" in caplog.text
    assert "too old; 2 spans lost so far" in caplog.text
