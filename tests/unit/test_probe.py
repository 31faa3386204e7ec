"""``otelhooks doctor --telemetry``: a test verdict is followed to the hop that it does not pass."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otelhooks.cli import cli
from otelhooks.records import semconv

REFUSED = "http://127.0.0.1:1"


class Server:
    """Collector, trace store and the collector's metrics in one, as far as a test says."""

    def __init__(self) -> None:
        self.received: dict[str, bytes] = {}
        self.answers: dict[str, int] = {}
        self.has_trace = True
        self.metrics = ""
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = server.answers.get(self.path, 200)
                if status == 200:
                    server.received[self.path] = body
                self._answer(status)

            def do_GET(self) -> None:
                if self.path == "/metrics":
                    self._answer(200, server.metrics)
                else:
                    self._answer(server.answers.get("GET", 200 if server.has_trace else 404))

            def _answer(self, status: int, text: str = "") -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args: Any) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def doctor(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
    monkeypatch.setattr("otelhooks.telemetry.probe.WAIT_S", 0.0)

    def doctor(*arguments: str) -> Any:
        return CliRunner().invoke(cli, ["doctor", "--telemetry", *arguments])

    return doctor


def test_span_event_and_metric_of_the_verdict_arrive_together(doctor, server):
    result = doctor("--trace-store", server.url)

    assert result.exit_code == 0, result.output
    (span,) = (
        ExportTraceServiceRequest.FromString(server.received["/v1/traces"])
        .resource_spans[0]
        .scope_spans[0]
        .spans
    )
    (event,) = (
        ExportLogsServiceRequest.FromString(server.received["/v1/logs"])
        .resource_logs[0]
        .scope_logs[0]
        .log_records
    )
    metrics = ExportMetricsServiceRequest.FromString(server.received["/v1/metrics"])
    (metric,) = metrics.resource_metrics[0].scope_metrics[0].metrics
    attributes = {each.key: each.value.string_value for each in span.attributes}
    assert attributes[semconv.POLICY_DECISION] == semconv.DECISION_DENY
    assert event.event_name == semconv.EVENT_POLICY_DECISION
    assert (event.trace_id, event.span_id) == (span.trace_id, span.span_id)
    assert metric.name == semconv.METRIC_POLICY_DECISIONS
    assert [line.split()[:3] for line in result.output.splitlines()] == [
        ["this", "process", "ok"],
        ["collector:", "traces", "ok"],
        ["collector:", "events", "ok"],
        ["collector:", "metrics", "ok"],
        ["trace", "store", "ok"],
    ]
    assert f"/api/traces/{span.trace_id.hex()}" in result.output


def test_the_verdict_is_one_that_no_alert_counts(doctor, server):
    doctor()

    metrics = ExportMetricsServiceRequest.FromString(server.received["/v1/metrics"])
    (point,) = metrics.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points
    attributes = {each.key: each.value.string_value for each in point.attributes}
    assert attributes[semconv.POLICY_MODE] == semconv.MODE_MONITOR
    assert attributes[semconv.POLICY_ENFORCEMENT] == semconv.ENFORCEMENT_OBSERVED
    assert semconv.POLICY_SEVERITY not in attributes


def test_a_ratio_sampler_does_not_drop_it(doctor, server, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")

    assert doctor("--trace-store", server.url).exit_code == 0


def test_without_an_exporter_it_stays_in_this_process(doctor, monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")

    result = doctor()

    assert result.exit_code == 1
    assert result.output == (
        "this process          NOT REACHED  no exporter is configured, telemetry stays in the "
        "local store\n"
        "  hint: set OTEL_EXPORTER_OTLP_ENDPOINT to the address of the collector\n"
    )


def test_a_sampler_that_drops_denies_is_named(doctor, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")

    result = doctor()

    assert result.exit_code == 1
    assert "hint: unset OTEL_TRACES_SAMPLER" in result.output


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20TOKEN"),
        (404, "not an OTLP receiver"),
    ],
)
def test_a_collector_that_refuses_is_told_with_its_answer(doctor, server, status, hint):
    server.answers["/v1/traces"] = status

    result = doctor("--trace-store", server.url)

    assert result.exit_code == 1
    last = result.output.splitlines()[-2:]
    assert last[0].startswith("collector: traces     NOT REACHED")
    assert str(status) in last[0]
    assert hint in last[1]


def test_an_address_without_a_listener(doctor, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", REFUSED)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")

    result = doctor()

    assert result.exit_code == 1
    assert "refused" in result.output
    assert "check OTEL_EXPORTER_OTLP_ENDPOINT" in result.output


def test_each_signal_is_told_by_itself(doctor, server):
    server.answers["/v1/logs"] = 404

    result = doctor("--trace-store", server.url)

    assert result.exit_code == 1
    states = [line.split() for line in result.output.splitlines() if not line.startswith("  ")]
    assert [words[2] for words in states] == ["ok", "ok", "NOT", "ok", "ok"]


def test_a_store_that_does_not_have_it_and_what_the_collector_holds(doctor, server):
    server.has_trace = False
    server.metrics = (
        'otelcol_exporter_queue_size{data_type="traces",exporter="otlp_grpc/traces"} 3\n'
        'otelcol_exporter_queue_size{data_type="metrics",exporter="otlp_http/prometheus"} 0\n'
    )

    result = doctor("--trace-store", server.url, "--collector-metrics", f"{server.url}/metrics")

    assert result.exit_code == 1
    assert "3 waiting in the queue of `otlp_grpc/traces`\n" in result.output
    assert "prometheus" not in result.output


def test_a_store_that_cannot_be_asked(doctor):
    result = doctor("--trace-store", REFUSED)

    assert result.exit_code == 1
    assert f"{REFUSED} cannot be asked: [Errno 111] Connection refused" in result.output


def test_a_store_that_is_something_else(doctor, server):
    server.answers["GET"] = 500

    result = doctor("--trace-store", server.url)

    assert result.exit_code == 1
    assert "answers 500" in result.output


def test_without_a_store_it_is_said_that_none_was_asked(doctor):
    result = doctor()

    assert result.exit_code == 0
    assert result.output.splitlines()[-1].split()[:4] == ["trace", "store", "not", "asked"]


def test_as_json(doctor, server):
    result = doctor("--json", "--trace-store", server.url)

    hops = json.loads(result.stdout)["telemetry"]
    assert [hop["name"] for hop in hops] == [
        "this process",
        "collector: traces",
        "collector: events",
        "collector: metrics",
        "trace store",
    ]
    assert all(hop["is_reached"] for hop in hops)
