"""Recorded calls come out of every source alike: store, OTLP JSON, Jaeger, Tempo."""

from __future__ import annotations

import http.server
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otelhooks
from otelhooks import policy
from otelhooks.errors import ConfigError
from otelhooks.policy_tools.recorded import RecordedCall, read_call
from otelhooks.policy_tools.servers import JaegerSource, TempoSource
from otelhooks.policy_tools.sources import open_source
from otelhooks.records import semconv
from otelhooks.store.otlp import JsonLinesTarget

RECORDED = Path(__file__).parent / "recorded"

TOLD = [
    ("view_file", {"path": "notes.txt"}, "allow"),
    ("run_command", {"CommandLine": "ls"}, "allow"),
    ("run_command", {"CommandLine": "rm -rf build"}, "deny"),
    ("send_email", {"to": "ada@example.com", "body": "hello"}, "ask"),
    ("docs/find_page", {"query": "limits"}, "allow"),
    ("login", {"password": "[MASKED]"}, "allow"),
    ("view_file", {"path": "other.txt"}, "allow"),
]
"""What a real program did whose spans a real Jaeger and a real Tempo answered with."""


class Recorded:
    """Answers as a server did when it was asked the same."""

    def __init__(self, file: str) -> None:
        self.exchanges = json.loads((RECORDED / file).read_text())
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, path: str, query: Any) -> Any:
        self.asked.append((path, dict(query)))
        timeless = {key: value for key, value in query.items() if key not in ("start", "end")}
        for exchange in self.exchanges:
            if exchange["path"] == path and exchange["query"] == timeless:
                return exchange["answer"]
        raise AssertionError(f"nobody was ever asked for {path} {timeless}")


def told(calls: list[RecordedCall]) -> list[tuple[str, Any, str]]:
    return [(call.name, call.args, call.decision) for call in calls]


def span_of(attributes: dict[str, Any], **fields: Any) -> RecordedCall | None:
    base = {semconv.GEN_AI_OPERATION_NAME: "execute_tool", semconv.GEN_AI_TOOL_NAME: "t"}
    place = {"trace_id": "0" * 32, "span_id": "0" * 16, "at": 1, "has_failed": False, **fields}
    return read_call({**base, **attributes}, **place)


# -- servers --------------------------------------------------------------------------------------


def test_a_jaeger_is_asked_for_tool_calls_and_its_answers_are_read() -> None:
    web = Recorded("jaeger.json")
    source = JaegerSource("http://jaeger:16686", web, since_ns=0, limit=100)

    calls = list(source.calls())

    assert sorted(told(calls), key=str) == sorted(TOLD, key=str)
    denied = next(call for call in calls if call.decision == "deny")
    assert (denied.rule_id, denied.enforcement, denied.has_failed) == ("no-rm", "blocked", True)
    assert (denied.agent, len(denied.trace_id), len(denied.span_id)) == ("assistant", 32, 16)
    assert next(call for call in calls if call.decision == "ask").has_run
    assert {call.service for call in calls} == {"agent"}
    assert source.link("ab") == "http://jaeger:16686/trace/ab"


def test_a_tempo_is_searched_and_its_traces_are_read() -> None:
    """Its JSON has ids in base64, and one request a trace."""
    web = Recorded("tempo.json")
    source = TempoSource("http://tempo:3200", web, since_ns=0, limit=100)

    calls = list(source.calls())

    assert told(calls) == TOLD
    assert [path for path, _ in web.asked] == [
        "/api/search",
        *(f"/api/v2/traces/{trace_id}" for trace_id in dict.fromkeys(c.trace_id for c in calls)),
    ]
    denied = next(call for call in calls if call.decision == "deny")
    assert (denied.rule_id, denied.has_failed, len(denied.span_id)) == ("no-rm", True, 16)
    assert {call.service for call in calls} == {"agent"}
    assert source.link("ab") == "http://tempo:3200/api/v2/traces/ab"


def test_a_server_is_reached_over_http(http_server: tuple[str, list[Any]]) -> None:
    """With the headers that were given, and an error that says what it answered."""
    address, seen = http_server

    source = open_source(f"jaeger+{address}/base/", headers={"X-Scope-OrgID": "team"})

    with pytest.raises(ConfigError, match="/base/api/services` answers 403: not you"):
        list(source.calls())
    assert seen == [("/base/api/services", "team", "application/json")]


def test_a_server_that_is_not_there(http_server: tuple[str, list[Any]]) -> None:
    with pytest.raises(ConfigError, match="cannot be reached"):
        list(open_source("tempo+http://127.0.0.1:1").calls())


@pytest.fixture
def http_server() -> Iterator[tuple[str, list[Any]]]:
    """A server that notes what it is asked and refuses it."""
    seen: list[Any] = []

    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers["X-Scope-OrgID"], self.headers["Accept"]))
            self.send_response(403)
            self.end_headers()
            self.wfile.write(b"not you")

        def log_message(self, format: str, *args: Any) -> None:
            return None

    with http.server.HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


def test_a_jaeger_without_services_has_no_calls() -> None:
    """It says ``null``, not an empty list."""
    source = JaegerSource("http://jaeger", lambda path, query: {"data": None, "errors": None})

    assert list(source.calls()) == []


@pytest.mark.parametrize("answer", [[], "x", {"data": ["s"]}, {"data": [{"spans": [{}]}]}])
def test_an_answer_of_another_form_is_an_error_that_says_so(answer: Any) -> None:
    source = JaegerSource("http://jaeger", lambda path, query: answer)

    with pytest.raises(ConfigError, match="answer"):
        list(source.calls())


# -- files ----------------------------------------------------------------------------------------


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A file of OTLP JSON, as `otelhooks trace export --file` writes it."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))

    @otelhooks.tool
    def view_file(path: str) -> str:
        return path

    @otelhooks.tool
    def drop() -> str:
        return "dropped"

    otelhooks.instrument(
        policies=[policy.deny("drop", id="no-drop")],
        frameworks=(),
        capture_content="SPAN_ONLY",
        tracer_provider=provider,
    )
    try:
        view_file("a.txt")
        with pytest.raises(otelhooks.errors.Denied):
            drop()
    finally:
        otelhooks.uninstrument()
    text = io.StringIO()
    JsonLinesTarget(text).send_spans(memory.get_finished_spans())
    path = tmp_path / "spans.jsonl"
    path.write_text(text.getvalue() + "\n")
    return path


def test_a_file_of_otlp_json_is_read(exported: Path) -> None:
    calls = list(open_source(str(exported)).calls())

    assert told(calls) == [("view_file", {"path": "a.txt"}, "allow"), ("drop", {}, "deny")]


def test_one_document_is_read_as_lines_are(exported: Path) -> None:
    documents = [json.loads(line) for line in exported.read_text().splitlines() if line]
    exported.write_text(json.dumps(documents, indent=2))

    assert len(list(open_source(str(exported)).calls())) == 2


def test_only_calls_from_a_time_on(exported: Path) -> None:
    calls = list(open_source(str(exported)).calls())

    later = open_source(str(exported), since_ns=calls[1].at)

    assert [call.tool for call in later.calls()] == ["drop"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}\n{broken\n", ":2: not JSON"),
        ("[1, 2]", "not OTLP JSON"),
        ('{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}', "not OTLP JSON"),
        ('{"resourceSpans": 7}', "not OTLP JSON"),
    ],
)
def test_what_is_not_otlp_json_is_an_error_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)

    with pytest.raises(ConfigError, match=said):
        list(open_source(str(path)).calls())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no/such/file", "cannot be read"),
        ("http://localhost:16686", "what kind of server"),
        ("zipkin+http://localhost", "unknown kind"),
        ("jaeger+ftp://localhost", "not a web address"),
    ],
)
def test_a_source_that_cannot_be_is_an_error_that_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        open_source(text)

    assert caught.value.hint


# -- what a span tells ----------------------------------------------------------------------------


def test_a_span_that_is_not_a_tool_call_is_none() -> None:
    assert span_of({semconv.GEN_AI_OPERATION_NAME: "chat"}) is None


@pytest.mark.parametrize(
    ("arguments", "args", "whole"),
    [
        (None, None, False),
        ('{"a": 1}', {"a": 1}, True),
        ({"a": 1}, {"a": 1}, True),
        ('{"a": "cut in the mid', None, False),
        ("[1]", None, False),
        ('{"key": "[MASKED]"}', {"key": "[MASKED]"}, False),
        ('{"a": ["x...[70000 characters]"]}', {"a": ["x...[70000 characters]"]}, False),
        ('{"truncated": 99}', {"truncated": 99}, False),
    ],
)
def test_arguments_are_whole_only_if_nothing_was_masked_or_cut(
    arguments: Any, args: Any, whole: bool
) -> None:
    call = span_of({semconv.GEN_AI_TOOL_CALL_ARGUMENTS: arguments})

    assert call is not None
    assert (call.args, call.is_whole) == (args, whole)


def test_a_server_without_a_name_is_judged_as_one() -> None:
    call = span_of({semconv.MCP_METHOD_NAME: "tools/call"})

    assert call is not None
    assert call.name == "(unnamed server)/t"
    assert call.call().claimed_server


def test_lists_may_be_texts_of_json() -> None:
    """As Jaeger has them."""
    call = span_of({semconv.LABELS: '["untrusted"]', semconv.TOOL_CANONICAL: ["run_command"]})

    assert call is not None
    assert (call.labels, call.canonical) == (("untrusted",), ("run_command",))


def test_a_verdict_on_the_result_is_not_one_on_the_call() -> None:
    """A result that was withheld, or masked, belongs to a call that was let run."""
    call = span_of({semconv.POLICY_DECISION: "deny", semconv.HOOK_POINT: "post_tool_call"})

    assert call is not None
    assert (call.decision, call.has_run) == ("allow", True)


@pytest.mark.parametrize(
    ("decision", "enforcement", "has_run"),
    [
        ("allow", "", True),
        ("modify", "modified", True),
        ("deny", "blocked", False),
        ("deny", "observed", True),
        ("ask", "approved", True),
        ("ask", "rejected", False),
        ("ask", "observed", True),
    ],
)
def test_whether_a_body_ran(decision: str, enforcement: str, has_run: bool) -> None:
    call = span_of({semconv.POLICY_DECISION: decision, semconv.POLICY_ENFORCEMENT: enforcement})

    assert call is not None
    assert call.has_run is has_run


def test_what_rules_match_beside_the_name_is_on_the_span(tmp_path: Path) -> None:
    """So that a server's tool can be distinguished from a local one of the same name later."""
    store = tmp_path / "store.db"

    @otelhooks.tool(server="docs")
    def find(query: str) -> str:
        return query

    handle = otelhooks.instrument(frameworks=(), store=store, strict=False)
    try:
        find("x")
        handle.force_flush()
    finally:
        otelhooks.uninstrument()

    (call,) = open_source(str(store)).calls()

    assert (call.name, call.server, call.is_remote) == ("docs/find", "docs", True)
