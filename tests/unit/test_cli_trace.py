"""``otelhooks trace`` on real stores, and its export against a receiver that decodes protobuf."""

from __future__ import annotations

import gzip
import http.server
import io
import json
import sqlite3
import sys
import threading
import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from opentelemetry import trace as trace_api
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState
from rich.cells import cell_len

from otelhooks.cli.trace import trace
from otelhooks.records import semconv
from otelhooks.store.totals import add_up
from otelhooks.store.writer import SqliteLogExporter, SqliteSpanExporter
from tests.logs import InMemoryLogRecordExporter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DENY = {
    semconv.POLICY_DECISION: semconv.DECISION_DENY,
    semconv.POLICY_ENFORCEMENT: semconv.ENFORCEMENT_BLOCKED,
    semconv.POLICY_RULE_ID: "no-rm",
    semconv.POLICY_REASON: "destructive",
    semconv.DECISION_ID: "d-1",
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(trace, arguments)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The store that `OTELHOOKS_STORE` names in tests."""
    return tmp_path / "store.db"


class Recorded:
    """Two processes' worth of spans and log records, in the store and in memory."""

    def __init__(self, path: Path) -> None:
        self.spans, self.logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
        self.trace_ids: list[str] = []
        for process in ("one", "two"):
            self.record(path, Resource({"service.name": process, "n": [1, 2]}, "https://e.org/r"))

    def record(self, path: Path, resource: Resource) -> None:
        tracers = TracerProvider(
            resource=resource,
            span_limits=SpanLimits(max_span_attributes=9, max_events=1, max_links=1),
            shutdown_on_exit=False,
        )
        loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
        for exporter in (SqliteSpanExporter(path), self.spans):
            tracers.add_span_processor(SimpleSpanProcessor(exporter))
        for exporter in (SqliteLogExporter(path), self.logs):
            loggers.add_log_record_processor(SimpleLogRecordProcessor(exporter))
        tracer = tracers.get_tracer("otelhooks", "1", schema_url="https://e.org/s")
        logger = loggers.get_logger("otelhooks", "1")
        remote = SpanContext(
            7, 8, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "b")])
        )
        with tracer.start_as_current_span(
            "invoke_agent ops", links=[Link(remote, {"x": 1})]
        ) as turn:
            self.trace_ids.append(f"{turn.get_span_context().trace_id:032x}")
            with tracer.start_as_current_span(
                "execute_tool rm", kind=SpanKind.CLIENT, attributes={"early": 1, **DENY}
            ) as span:
                span.set_attributes({"i": 1, "d": 2.0, "l": ["x"], "t": True})
                span.add_event("first")
                span.add_event("second", {"k": "v"})
                span.set_status(Status(StatusCode.ERROR, "denied"))
                logger.emit(
                    event_name=semconv.EVENT_POLICY_DECISION,
                    severity_number=SeverityNumber.WARN,
                    severity_text="WARN",
                    body={"deep": [1, 2.5, None, {"raw": b"\x01"}]},
                    attributes=DENY,
                )
        with tracer.start_as_current_span(
            "from afar", trace_api.set_span_in_context(trace_api.NonRecordingSpan(remote))
        ):
            pass
        logger.emit(body="outside of any trace")


@pytest.fixture
def recorded(path: Path) -> Recorded:
    return Recorded(path)


class Receiver:
    """An OTLP/HTTP receiver that keeps what it is sent."""

    def __init__(self, status: int = 200) -> None:
        self.requests: list[Any] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                kinds = {
                    "/v1/traces": ExportTraceServiceRequest,
                    "/v1/logs": ExportLogsServiceRequest,
                }
                receiver.requests.append(kinds[self.path].FromString(body))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def each_span(requests: list[Any]) -> list[str]:
    """Return every span with its resource and scope as text, in an order of its own."""
    return sorted(
        f"{of_resource.resource}{of_resource.schema_url}{of_scope.scope}{of_scope.schema_url}{span}"
        for request in requests
        if isinstance(request, ExportTraceServiceRequest)
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    )


def each_log(requests: list[Any]) -> list[str]:
    return sorted(
        f"{of_resource.resource}{of_resource.schema_url}{of_scope.scope}{of_scope.schema_url}{log}"
        for request in requests
        if isinstance(request, ExportLogsServiceRequest)
        for of_resource in request.resource_logs
        for of_scope in of_resource.scope_logs
        for log in of_scope.log_records
    )


class TestExport:
    def test_a_receiver_gets_every_span_and_record_as_the_program_would_have_sent_it(
        self, recorded: Recorded, receiver: Receiver
    ) -> None:
        result = run("export", "--otlp", receiver.url)
        assert result.exit_code == 0, result.stderr
        assert result.stdout == ""
        assert result.stderr == f"sent 6 spans and 4 log records to {receiver.url}\n"
        spans = each_span([encode_spans(recorded.spans.get_finished_spans())])
        assert each_span(receiver.requests) == spans
        assert len(spans) == 6
        logs = each_log([encode_logs(recorded.logs.get_finished_logs())])
        assert each_log(receiver.requests) == logs
        assert len(logs) == 4
        assert any("dropped_attributes_count" in span for span in spans), "the sample is hard"

    def test_only_the_traces_named_are_sent(self, recorded: Recorded, receiver: Receiver) -> None:
        url = f"{receiver.url}/v1/traces"
        result = run("export", "--otlp", url, recorded.trace_ids[1])
        assert result.exit_code == 0, result.stderr
        assert result.stderr.startswith("sent 2 spans and 1 log record to")
        found = {
            span.trace_id.hex()
            for request in receiver.requests
            if isinstance(request, ExportTraceServiceRequest)
            for span in request.resource_spans[0].scope_spans[0].spans
        }
        assert found == {recorded.trace_ids[1]}

    def test_a_refusing_receiver_is_an_error_that_says_why(self, recorded: Recorded) -> None:
        receiver = Receiver(status=400)
        try:
            result = run("export", "--otlp", receiver.url)
        finally:
            receiver.close()
        assert result.exit_code == 1
        assert "sent 0 spans and 0 log records" in result.stderr
        assert f"error: not everything was sent to `{receiver.url}`: Failed" in result.stderr
        assert "hint: check that a receiver listens there" in result.stderr

    def test_a_file_holds_otlp_json_with_ids_in_hex(
        self, recorded: Recorded, tmp_path: Path
    ) -> None:
        file = tmp_path / "out.json"
        result = run("export", "--file", str(file))
        assert result.exit_code == 0, result.stderr
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        spans = [
            span
            for line in lines
            for of_resource in line.get("resourceSpans", [])
            for of_scope in of_resource["scopeSpans"]
            for span in of_scope["spans"]
        ]
        logs = [line for line in lines if "resourceLogs" in line]
        assert len(spans) == 6
        assert len(logs) == 1
        (denied, _) = [span for span in spans if span["name"] == "execute_tool rm"]
        assert denied["traceId"] in recorded.trace_ids
        assert len(denied["spanId"]) == len(denied["parentSpanId"]) == 16
        assert denied["kind"] == 3, "an enum is a number in OTLP JSON"
        assert denied["status"] == {"code": 2, "message": "denied"}

    def test_stdout_takes_the_lines_and_stderr_the_count(self, recorded: Recorded) -> None:
        result = run("export", "--file", "-", "last")
        assert result.exit_code == 0, result.stderr
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert [list(line) for line in lines] == [["resourceSpans"]]
        assert result.stderr.startswith("sent ")

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ((), "error: one of --otlp and --file is needed\nhint: "),
            (("--otlp", "http://x", "--file", "y"), "error: one of --otlp and --file"),
            (("--otlp", "localhost:4317"), "`localhost:4317` is not the address"),
            (("--file", "/nowhere/at/all"), "/nowhere/at/all"),
        ],
    )
    def test_a_wrong_command_line_exits_with_2(
        self, recorded: Recorded, arguments: tuple[str, ...], words: str
    ) -> None:
        result = run("export", *arguments)
        assert result.exit_code == 2
        assert words in result.stderr


def add(path: Path, name: str, trace_id: int, **attributes: Any) -> None:
    """Store one span of a trace."""
    tracers = TracerProvider(resource=Resource({}), shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(SqliteSpanExporter(path)))
    within = trace_api.NonRecordingSpan(SpanContext(trace_id, 1, False, TraceFlags(1)))
    tracers.get_tracer("x").start_span(
        name, trace_api.set_span_in_context(within), attributes=attributes
    ).end()


@pytest.fixture
def busy(path: Path) -> Path:
    """A store with a trace of two agents, and one of another program."""
    tracers = TracerProvider(
        resource=Resource({semconv.SERVICE_NAME: "billing"}), shutdown_on_exit=False
    )
    tracers.add_span_processor(SimpleSpanProcessor(SqliteSpanExporter(path)))
    tracer = tracers.get_tracer("otelhooks")

    def agent(name: str) -> dict[str, Any]:
        return {
            semconv.GEN_AI_OPERATION_NAME: semconv.OP_INVOKE_AGENT,
            semconv.GEN_AI_AGENT_NAME: name,
            semconv.COST_USD: 0.5,
            semconv.COST_UNKNOWN: 1,
            semconv.GEN_AI_USAGE_INPUT_TOKENS: 700,
        }

    def chat(read: int, written: int) -> None:
        tracer.start_span(
            "chat m",
            attributes={
                semconv.GEN_AI_USAGE_INPUT_TOKENS: read,
                semconv.GEN_AI_USAGE_OUTPUT_TOKENS: written,
                semconv.COST_USD: 0.25,
            },
        ).end()

    with tracer.start_as_current_span("invoke_agent lead", attributes=agent("lead")):
        chat(500, 4)
        with tracer.start_as_current_span("invoke_agent writer", attributes=agent("writer")):
            chat(700, 30)
            denied = {**DENY, semconv.POLICY_RULE_ID: "no-mail", semconv.DECISION_ID: "d-9"}
            name = {semconv.GEN_AI_TOOL_NAME: "send_email"}
            tracer.start_span("execute_tool send_email", attributes={**denied, **name}).end()
    add(path, "something", 7 << 96)
    return path


class TestList:
    def test_traces_are_lines_with_verdicts(self, recorded: Recorded) -> None:
        result = run("list")
        assert result.exit_code == 0, result.stderr
        header, *lines = result.stdout.splitlines()
        assert header.split() == ["TRACE", "STARTED", "SERVICE", "AGENT", "DURATION", "VERDICTS"]
        assert len(lines) == 3
        assert sum("  invoke_agent ops  " in line for line in lines) == 2
        (line,) = [line for line in lines if line.startswith(recorded.trace_ids[0][:8])]
        assert line.endswith("  1 refused")
        assert "  one  " in line
        assert result.stderr == ""

    def test_verdicts_that_continue_on_a_second_line_are_indented(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = {semconv.POLICY_DECISION: "ask", semconv.POLICY_ENFORCEMENT: "approved"}
        for attributes in (asked, {semconv.POLICY_DECISION: "modify"}, DENY):
            add(path, "execute_tool send_email", 9 << 96, **attributes)
        monkeypatch.setattr("otelhooks.cli.trace._width", lambda: 50)
        assert "\n  1 refused, 1 approved, 1 other\n" in run("list").stdout

    def test_approved_calls_are_not_among_the_others(self, path: Path) -> None:
        asked = {semconv.POLICY_DECISION: "ask", semconv.POLICY_ENFORCEMENT: "approved"}
        add(path, "execute_tool send_email", 9 << 96, **asked)
        add(path, "execute_tool send_email", 9 << 96, **asked)
        add(path, "execute_tool search", 9 << 96, **{semconv.POLICY_DECISION: "modify"})
        assert run("list").stdout.endswith("  2 approved, 1 other\n")

    @pytest.mark.parametrize(
        ("note", "what"), [('{"span": 2}\n{"event": 1}\n', "2 spans and 1 event"), ("", "spans or")]
    )
    def test_a_store_that_lacks_spans_says_so(self, path: Path, note: str, what: str) -> None:
        add(path, "execute_tool rm", 9 << 96, **DENY)
        path.with_name(f"{path.name}-lost").write_text(note)
        result = run("list")
        assert result.exit_code == 0
        assert f"otelhooks: warning: {what}" in result.stderr
        assert "could not be stored, the last at " in result.stderr

    @pytest.mark.parametrize(
        "words", [(), ("--service", "other"), ("--since", "1h"), ("--denied",)], ids=str
    )
    def test_what_the_collector_did_not_take_is_told_whatever_is_listed(
        self, path: Path, words: tuple[str, ...]
    ) -> None:
        add(path, "execute_tool rm", 9 << 96)
        folder = path.with_name("store-unsent")
        folder.mkdir()
        (folder / "traces-1-2.db").touch()
        (folder / "traces-1-2.db-lost").write_text('{"span": 2}')
        result = run("list", *words)
        assert f"hint: the collector was away: what it did not take is in `{folder}`" in (
            result.stderr
        )
        assert "otelhooks: warning: 2 spans could not be stored" in result.stderr
        assert "traces-1-2.db-lost` once you know" in result.stderr

    @pytest.mark.parametrize("has_call", [True, False])
    def test_withdrawn_questions_are_counted_alike_in_list_and_show(
        self, path: Path, has_call: bool
    ) -> None:
        ended = {semconv.APPROVAL_STATUS: "withdrawn"}
        asked = {**ended, semconv.POLICY_DECISION: "ask", semconv.POLICY_ENFORCEMENT: "rejected"}
        add(path, f"{semconv.SPAN_APPROVAL_WAIT} mail", 9 << 96, **ended)
        if has_call:
            add(path, "execute_tool mail", 9 << 96, **asked)
        add(path, "execute_tool rm", 9 << 96, **DENY)
        assert run("list").stdout.endswith("  1 refused, 1 withdrawn\n")
        shown = run("show").stdout
        assert " · 1 refused · 1 withdrawn\n" in shown
        assert ("ask → withdrawn" in shown) is has_call
        assert "rejected" not in shown

    def test_a_withheld_result_is_counted_apart_as_its_call_ran(self, path: Path) -> None:
        add(path, "execute_tool cat", 9 << 96, **DENY, **{semconv.WITHHELD: True})
        add(path, "execute_tool rm", 9 << 96, **DENY)
        assert run("list").stdout.endswith("  1 refused, 1 withheld\n")
        assert " · 1 refused · 1 withheld\n" in run("show").stdout
        [summary] = json.loads(run("list", "--denied", "--json").stdout)
        assert (summary["refused"], summary["withheld"]) == (1, 1)

    def test_tokens_cost_and_agents_are_those_of_all_spans(self, busy: Path) -> None:
        [summary] = json.loads(run("list", "--json", "--service", "billing").stdout)
        assert summary["agents"] == ["lead", "writer"]
        assert summary["totals"] == {
            "input_tokens": 1200,
            "output_tokens": 34,
            "cost_usd": 0.5,
            "cost_unknown": 1,
        }
        (line,) = run("list", "--service", "billing").stdout.splitlines()[1:]
        assert "  lead, writer  " in line
        assert "  1,200 → 34  ≥ $0.5000  1 refused" in line

    def test_tokens_of_a_call_that_two_libraries_trace_count_once(self) -> None:
        used = {semconv.GEN_AI_USAGE_INPUT_TOKENS: 100, semconv.GEN_AI_USAGE_OUTPUT_TOKENS: 20}
        chat = {semconv.GEN_AI_OPERATION_NAME: "chat", **used}
        tool = {semconv.GEN_AI_OPERATION_NAME: "execute_tool"}
        ours, theirs = ("1", None, chat), ("3", "2", chat)
        within_a_tool = [("4", "1", tool), ("5", "4", chat)]
        total = add_up([ours, ("2", "1", {}), theirs, *within_a_tool])
        assert (total.input_tokens, total.output_tokens) == (200, 40)

    @pytest.mark.parametrize("width", [50, 80, 120])
    def test_it_is_readable_at_any_width(
        self, busy: Path, width: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("otelhooks.cli.trace._width", lambda: width)
        lines = run("list").stdout.splitlines()
        assert max(map(cell_len, lines)) <= width
        text = " ".join(" ".join(lines).split())
        for word in ("lead, writer", "billing", "1,200 → 34", "≥ $0.5000", "1 refused"):
            assert word in text, word
        assert (lines[0].split()[0] == "TRACE") == (width == 120)
        if width < 120:
            starts = [line.split()[0] for line in lines if not line.startswith("  ")]
            assert len(starts) == len(json.loads(run("list", "--json").stdout))

    @pytest.mark.parametrize(
        ("option", "fits", "differs"),
        [
            ("--service", "bill*", "bill"),
            ("--agent", "writer", "Writer"),
            ("--tool", "send_*", "send"),
            ("--rule", "no-mail", "no"),
        ],
    )
    def test_it_can_be_about_one_program_agent_tool_or_rule(
        self, busy: Path, option: str, fits: str, differs: str
    ) -> None:
        assert len(json.loads(run("list", "--json").stdout)) == 2
        assert len(json.loads(run("list", "--json", option, fits).stdout)) == 1
        result = run("list", option, differs)
        assert result.exit_code == 1
        assert result.stderr == "the store has no traces of that kind\n"

    def test_since_takes_durations_and_dates(self, busy: Path) -> None:
        assert len(json.loads(run("list", "--json", "--since", "1h").stdout)) == 2
        assert run("list", "--since", "2999-01-01").exit_code == 1
        result = run("list", "--since", "yesterday")
        assert result.exit_code == 2
        assert "`yesterday` is neither a duration nor a time" in result.stderr

    @pytest.mark.parametrize("width", [None, 80])
    def test_a_name_without_end_does_not_stretch_the_table(
        self, path: Path, width: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("otelhooks.cli.trace._width", lambda: width)
        add(path, "\x1b[2J日本" * 50_000, 7 << 96)
        lines = run("list").stdout.splitlines()
        assert max(map(cell_len, lines)) <= (width or 300)
        assert "\\x1b[2J日本" in lines[-1]

    def test_ids_that_begin_alike_get_more_digits(self, path: Path) -> None:
        for number in (0xAB, 0xAC):
            add(path, "s", number << 88)
        (first, second) = run("list").stdout.splitlines()[1:]
        assert {len(line.split()[0]) for line in (first, second)} == {10}

    def test_denied_and_limit_choose(self, recorded: Recorded) -> None:
        found = json.loads(run("list", "--denied", "--json").stdout)
        assert {summary["trace_id"] for summary in found} == set(recorded.trace_ids)
        assert len(json.loads(run("list", "--limit", "1", "--json").stdout)) == 1

    def test_a_program_without_a_name_gets_a_hint(self, busy: Path, path: Path) -> None:
        assert run("list").stderr == ""
        tracers = TracerProvider(shutdown_on_exit=False, resource=Resource.create())
        tracers.add_span_processor(SimpleSpanProcessor(SqliteSpanExporter(path)))
        tracers.get_tracer("x").start_span("fine").end()
        result = run("list")
        assert "unknown_service" in result.stdout
        assert result.stderr == (
            "hint: OTEL_SERVICE_NAME names a program that is `unknown_service` here\n"
        )
        assert run("list", "--json").stderr == ""

    def test_no_denied_trace_is_said_and_exits_with_1(self, path: Path) -> None:
        SqliteSpanExporter(path).export([])
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(SqliteSpanExporter(path)))
        tracers.get_tracer("x").start_span("fine").end()
        result = run("list", "--denied")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "the store has no denied calls\n"

    def test_a_missing_store_is_said_with_a_hint_and_exits_with_1(self, path: Path) -> None:
        result = run("list", "--store", str(path.with_name("other.db")))
        assert result.exit_code == 1
        assert "other.db` does not exist\nhint: run a program under otelhooks" in result.stderr

    @pytest.mark.parametrize("command", ["list", "show"])
    @pytest.mark.parametrize("is_there", [True, False])
    def test_an_empty_store_is_said_with_where_the_traces_may_be(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, command: str, is_there: bool
    ) -> None:
        if is_there:
            SqliteSpanExporter(path).export([])

        def hint() -> str:
            result = run(command)
            assert (result.exit_code, result.stdout) == (1, "")
            [line] = [line for line in result.stderr.splitlines() if line.startswith("hint: ")]
            return line

        assert "a collector, or a tracer provider of its own, writes nothing to it" in hint()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
        assert hint() == (
            "hint: OTEL_EXPORTER_OTLP_ENDPOINT is set, so programs send their traces elsewhere and"
            " write nothing to the store"
        )
        folder = path.with_name("store-unsent")
        folder.mkdir()
        assert "OTEL_EXPORTER_OTLP_ENDPOINT is set" in hint()
        (folder / "traces-1-2.db").touch()
        assert hint() == (
            f"hint: the collector was away: what it did not take is in `{folder}`, and is sent by"
            " the next program that reaches it"
        )

    def test_a_foreign_file_exits_with_2(self, path: Path) -> None:
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE theirs (x)")
        db.close()
        result = run("list")
        assert result.exit_code == 2
        assert "is not an otelhooks store" in result.stderr
        assert "hint: " in result.stderr


class TestShow:
    def test_a_prefix_shows_the_tree(self, recorded: Recorded) -> None:
        result = run("show", recorded.trace_ids[0][:12])
        assert result.exit_code == 0, result.stderr
        lines = result.stdout.splitlines()
        assert lines[0] == f"trace {recorded.trace_ids[0][:8]}"
        assert lines[3].startswith("invoke_agent ops")
        assert lines[4].startswith("└─ execute_tool rm")
        assert lines[4].endswith("✗ deny  no-rm: destructive")
        assert len(lines) == 5, "the event only repeats the span"

    def test_last_is_the_default_and_json_has_spans_and_events(self, recorded: Recorded) -> None:
        shown = json.loads(run("show", "--json").stdout)
        assert set(shown) == {"trace_id", "spans", "events"}
        assert shown == json.loads(run("show", "last", "--json").stdout)
        whole = json.loads(run("show", recorded.trace_ids[0], "--json").stdout)
        assert [span["name"] for span in whole["spans"]] == ["invoke_agent ops", "execute_tool rm"]
        assert whole["events"][0]["body"] == {"deep": [1, 2.5, None, {"raw": "AQ=="}]}

    @pytest.mark.parametrize(
        ("trace_id", "code", "words"),
        [
            ("ffff0123", 1, "error: no trace starts with `ffff0123`\nhint: see"),
            ("nonsense", 2, "error: `nonsense` is not a trace id\nhint: give its first hex digits"),
        ],
    )
    def test_an_id_that_fits_nothing(
        self, recorded: Recorded, trace_id: str, code: int, words: str
    ) -> None:
        result = run("show", trace_id)
        assert (result.exit_code, result.stdout) == (code, "")
        assert words in result.stderr

    def test_an_ambiguous_prefix_names_the_candidates(self, path: Path) -> None:
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(SqliteSpanExporter(path)))
        for number in (0xAB, 0xAC):
            within = trace_api.NonRecordingSpan(SpanContext(number, 1, False, TraceFlags(1)))
            tracers.get_tracer("x").start_span("s", trace_api.set_span_in_context(within)).end()
        result = run("show", "000")
        assert result.exit_code == 2
        assert f"`{0xAB:032x}`, `{0xAC:032x}`" in result.stderr
        assert "hint: give more digits" in result.stderr

    def test_a_picture_can_be_written(self, busy: Path, tmp_path: Path) -> None:
        file = tmp_path / "trace.svg"
        result = run("show", "--service", "bill*", "--svg", str(file))
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == f"wrote {file}\n"
        words = " ".join(ElementTree.parse(file).getroot().itertext()).replace("\xa0", " ")
        assert "otelhooks trace show" in words
        assert "sub-agent of lead" in words
        result = run("show", "--svg", str(tmp_path / "none" / "trace.svg"))
        assert result.exit_code == 2
        assert "cannot be written" in result.stderr

    def test_a_picture_loads_nothing_and_shows_hostile_text_as_text(
        self, path: Path, tmp_path: Path
    ) -> None:
        evil = (
            '</text><script>alert(1)</script><image href="https://evil.example/x"/>'
            "\x1b[2J\x1b]8;;https://evil.example\x07link\u202e\ud800]]>&\x00" + "y" * 5_000
        )
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(SqliteSpanExporter(path)))
        attributes = {
            semconv.GEN_AI_TOOL_NAME: evil[:200].replace("\ud800", ""),
            semconv.GEN_AI_TOOL_CALL_ARGUMENTS: json.dumps({evil: evil}),
            semconv.GEN_AI_TOOL_CALL_RESULT: evil.replace("\ud800", ""),
        }
        tracers.get_tracer("x").start_span(
            f"execute_tool {evil}".replace("\ud800", ""), attributes=attributes
        ).end()
        for number, option in enumerate(("--content", None)):
            file = tmp_path / f"{number}.svg"
            words = ["show", "--svg", str(file)] + [option] * (option is not None)
            assert run(*words).exit_code == 0
            root = ElementTree.parse(file).getroot()
            names = {element.tag.partition("}")[2] for element in root.iter()}
            assert names <= {"svg", "style", "defs", "clipPath", "rect", "g", "text", "circle"}
            assert "url(" not in "".join(root.find("{*}style").itertext())
            assert not {"href", "src"} & {key for element in root.iter() for key in element.attrib}
            text = "".join(root.itertext())
            assert "<script>alert(1)</script>" in text
            assert not set("\x1b\x07\u202e\x00") & set(text)
            assert float(root.get("viewBox").split()[2]) < 3_000

    def test_the_last_one_of_a_program_is_shown(self, busy: Path) -> None:
        assert "something" in run("show").stdout
        assert "invoke_agent lead" in run("show", "--service", "billing").stdout
        assert run("show", "--service", "other").exit_code == 1
        assert run("show", "0700", "--service", "billing").exit_code == 2

    def test_content_is_a_choice(self, path: Path) -> None:
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(SqliteSpanExporter(path)))
        text = "one\n" + "x" * 300
        tracers.get_tracer("x").start_span(
            "execute_tool t", attributes={semconv.GEN_AI_TOOL_CALL_RESULT: text}
        ).end()
        assert "(304 characters)" in run("show").stdout
        assert "x" * 300 + "\n" in run("show", "--content").stdout
        assert "one" not in run("show", "--no-content").stdout

    def test_a_terminal_without_unicode_gets_ascii(
        self, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
        trace.main(["show", recorded.trace_ids[0]], standalone_mode=False)
        sys.stdout.flush()
        assert b"`- execute_tool rm" in raw.getvalue()
        assert b"x deny  no-rm: destructive" in raw.getvalue()


class TestTail:
    def tail(self, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
        """Run `trace tail`, interrupted as soon as it would wait."""

        def interrupt(_: float) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("otelhooks.store.reader.time.sleep", interrupt)
        return run("tail", *arguments)

    def test_spans_and_events_are_lines(
        self, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        result = self.tail(monkeypatch, "--all")
        assert result.exit_code == 0, result.stderr
        lines = result.stdout.splitlines()
        assert len(lines) == 10
        assert sum("  span   execute_tool rm  " in line for line in lines) == 2
        assert sum("  event  otelhooks.policy.decision  ✗ deny  no-rm: d" in line for line in lines)

    @pytest.mark.parametrize("width", [50, 80, 120])
    def test_lines_are_broken_at_blanks_in_a_terminal(
        self, busy: Path, width: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("otelhooks.cli.trace._width", lambda: width)
        lines = self.tail(monkeypatch, "--all").stdout.splitlines()
        assert max(map(cell_len, lines)) <= width
        text = " ".join(" ".join(lines).split())
        assert "execute_tool send_email" in text
        assert "✗ deny no-mail: destructive" in text

    def test_only_what_is_wanted_is_printed(
        self, busy: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for option, number in {
            "--service=bill*": 5,
            "--tool=send_email": 1,
            "--agent=l*": 1,
        }.items():
            assert len(self.tail(monkeypatch, "--all", option).stdout.splitlines()) == number

    def test_what_others_repeat_is_in_the_json_alone(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("otelhooks.approval.wait t", "execute_tool t"):
            add(path, name, 7)
        assert len(self.tail(monkeypatch, "--all").stdout.splitlines()) == 1
        assert len(self.tail(monkeypatch, "--all", "--json").stdout.splitlines()) == 2

    def test_denied_prints_each_decision_once(
        self, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        result = self.tail(monkeypatch, "--all", "--denied", "--json")
        (record,) = [json.loads(line) for line in result.stdout.splitlines()]
        assert record["attributes"][semconv.DECISION_ID] == "d-1"
        assert record["type"] == "event", "the event comes before its span has ended"

    def test_nothing_old_is_printed_without_all(
        self, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.tail(monkeypatch).stdout == ""

    def test_a_store_that_does_not_exist_yet_is_waited_for(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        result = self.tail(monkeypatch)
        assert result.exit_code == 0
        assert result.stderr == f"waiting for `{path}`\n"


@pytest.mark.parametrize("command", ["list", "show", "tail", "export"])
def test_every_command_has_help(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "--store PATH" in result.stdout
