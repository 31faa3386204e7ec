"""The console with traces of a Jaeger or a Tempo, which may answer anything."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")

from click.testing import CliRunner
from starlette.testclient import TestClient

from otelhooks.cli import cli
from otelhooks.errors import ConfigError
from otelhooks.ui import servers
from otelhooks.ui.app import create_app
from otelhooks.ui.links import check_address
from otelhooks.ui.site import Settings

RECORDED = Path(__file__).parent / "recorded"
HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e"


class Answers:
    """A server; `answer` gets path and query, and returns what is to be sent as JSON, or bytes."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Callable[[str, dict[str, str]], Any] = lambda path, query: {}
        self.headers: dict[str, str] = {}
        this = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                this.asked.append(parts.path)
                this.headers = {name.lower(): text for name, text in self.headers.items()}
                found = this.answer(parts.path, dict(parse_qsl(parts.query)))
                if isinstance(found, int):
                    self.send_response(found)
                    self.send_header("Location", "/elsewhere")
                    self.end_headers()
                    return
                self.send_response(200)
                self.end_headers()
                if isinstance(found, Iterator):
                    for piece in found:
                        self.wfile.write(piece)
                        self.wfile.flush()
                    return
                body = found if isinstance(found, bytes) else json.dumps(found).encode()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return None

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def answers() -> Iterator[Answers]:
    found = Answers()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_PAUSE_S", 0.0)
    monkeypatch.setattr(servers, "_PAUSE_AFTER_FAILURE_S", 0.0)


def console(tmp_path: Path, kind: str, address: str, **given: Any) -> TestClient:
    settings = Settings.of_start(
        store=tmp_path / "store.db", port=1, approver="u", server=(kind, address), **given
    )
    app = create_app(settings)
    browser = TestClient(app, base_url=f"http://127.0.0.1:1{settings.root}/")
    browser.get(f"/?token={settings.token}")
    return browser


def recorded(kind: str) -> Callable[[str, dict[str, str]], Any]:
    exchanges = {one["path"]: one["answer"] for one in json.loads(file_of(kind).read_text())}
    return lambda path, query: exchanges.get(path, 404)


def file_of(kind: str) -> Path:
    return RECORDED / f"{kind}.json"


def jaeger_span(**given: Any) -> dict[str, Any]:
    span = {
        "traceID": "a" * 32,
        "spanID": "b" * 16,
        "operationName": "execute_tool rm",
        "references": [],
        "startTime": 1_795_322_031_324_212,
        "duration": 5,
        "tags": [{"key": "gen_ai.operation.name", "value": "execute_tool"}],
        "logs": [],
        "processID": "p1",
    }
    return span | given


def jaeger(*spans: Any) -> Callable[[str, dict[str, str]], Any]:
    trace = {"spans": list(spans), "processes": {"p1": {"serviceName": HOSTILE}}}
    return lambda path, query: {"data": ["s"] if path.endswith("/services") else [trace]}


@pytest.mark.parametrize("kind", ["jaeger", "tempo"])
def test_pages_show_what_a_server_has(tmp_path: Path, answers: Answers, kind: str) -> None:
    answers.answer = recorded(kind)
    browser = console(tmp_path, kind, answers.address, headers={"X-Scope-OrgID": "team"})
    shown = browser.get("/live").text
    assert '<tr class="bad">' in shown
    assert "no-rm" in shown
    assert answers.headers["x-scope-orgid"] == "team"
    runs = browser.get("/runs").text
    assert "1 refused" in runs
    trace = runs.partition('href="runs/')[2][:32]
    assert "execute_tool" in browser.get(f"/runs/{trace}?time").text
    assert "execute_tool look_up" not in browser.get("/live?tool=run_command").text
    assert "2 decisions" in browser.get("/decisions").text
    for page in ("/", "/runs", f"/runs/{trace}", "/decisions", "/policy"):
        assert "Not in it: events" in browser.get(page).text
    assert f"it is not in {kind.capitalize()}" in browser.get("/approvals").text
    rows = shown.count("<tr")
    assert browser.get("/live").text.count("<tr") == rows


def test_a_tempo_is_not_asked_again_for_a_trace_that_has_not_changed(
    tmp_path: Path, answers: Answers
) -> None:
    answers.answer = recorded("tempo")
    browser = console(tmp_path, "tempo", answers.address)
    for _ in range(3):
        browser.get("/live")
    assert answers.asked.count("/api/search") > 3
    assert len([path for path in answers.asked if path != "/api/search"]) == 2


def test_an_older_trace_is_read_by_its_id(tmp_path: Path, answers: Answers) -> None:
    def answer(path: str, query: dict[str, str]) -> Any:
        is_one = path == f"/api/traces/{'a' * 32}"
        return jaeger(jaeger_span())(path, query) if is_one else {"data": []}

    answers.answer = answer
    browser = console(tmp_path, "jaeger", answers.address)
    assert "execute_tool rm" not in browser.get("/live").text
    assert "execute_tool rm" in browser.get(f"/runs/{'a' * 32}?time").text
    answers.answer = lambda path, query: 404
    assert browser.get(f"/runs/{'c' * 32}").status_code == 404


@pytest.mark.parametrize(
    ("kind", "grafana", "link"),
    [
        ("jaeger", "", f"{{}}/trace/{'a' * 32}"),
        ("jaeger", "http://g:3000", "http://g:3000/explore?schemaVersion=1"),
        ("tempo", "", ""),
        ("tempo", "http://g:3000/", "http://g:3000/explore?schemaVersion=1"),
    ],
)
def test_a_run_links_to_the_same_trace(
    answers: Answers, kind: str, grafana: str, link: str
) -> None:
    server = servers.open_server(kind, answers.address, {}, grafana)
    assert server.page("a" * 32).startswith(link.format(answers.address))
    assert bool(server.page("a" * 32)) is bool(link)


def test_the_local_store_may_have_a_grafana_too(tmp_path: Path, answers: Answers) -> None:
    answers.answer = jaeger(jaeger_span())
    browser = console(tmp_path, "jaeger", answers.address, grafana="https://g.example")
    shown = browser.get(f"/runs/{'a' * 32}").text
    assert 'href="https://g.example/explore?schemaVersion=1&amp;orgId=1&amp;panes=' in shown
    assert "Same trace in Grafana" in shown


def test_hostile_texts_of_a_server_stay_texts(tmp_path: Path, answers: Answers) -> None:
    tags = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": HOSTILE,
        "gen_ai.agent.name": HOSTILE,
        "otelhooks.policy.decision": "deny",
        "otelhooks.policy.reason": HOSTILE,
        "otelhooks.policy.rule.id": HOSTILE,
        HOSTILE: HOSTILE,
    }
    found = [{"key": key, "value": value} for key, value in tags.items()]
    log = {"timestamp": 1, "fields": [{"key": "event", "value": HOSTILE}]}
    answers.answer = jaeger(jaeger_span(operationName=HOSTILE, tags=found, logs=[log]))
    browser = console(tmp_path, "jaeger", answers.address)
    for page in ("/", "/runs", f"/runs/{'a' * 32}", f"/runs/{'a' * 32}?time", "/decisions"):
        shown = browser.get(page).text
        assert "alert(1)" in shown
        assert "<script>alert" not in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown


@pytest.mark.parametrize(
    "odd",
    [
        *({"traceID": "../../etc"}, {"traceID": "0" * 32}, {"traceID": 7}, {"spanID": None}),
        *({"startTime": 10**30}, {"startTime": -5}, {"duration": -1}, {"duration": "x"}),
        *({"tags": 7}, {"references": [{}]}, {"logs": [{"timestamp": 10**40, "fields": []}]}),
    ],
)
def test_what_is_not_a_span_is_left_out(tmp_path: Path, answers: Answers, odd: Any) -> None:
    answers.answer = jaeger(jaeger_span(spanID="c" * 16), jaeger_span(**odd))
    browser = console(tmp_path, "jaeger", answers.address)
    for page in ("/live", "/runs", f"/runs/{'a' * 32}", f"/runs/{'a' * 32}?time"):
        assert browser.get(page).status_code == 200


@pytest.mark.parametrize("kind", ["jaeger", "tempo"])
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (302, "answers 302"),
        (503, "answers 503"),
        (b"<html>", "does not answer in JSON"),
        (b"[" * 100_000, "does not answer in JSON"),
        ([1], "not a JSON object"),
        ({"data": [{"spans": [1]}], "traces": [{"traceID": "aa"}], "trace": 1}, "expected"),
        ({"data": ["s", {}], "traces": [1, {"traceID": "../x"}, {"traceID": "aa"}]}, ""),
    ],
)
def test_a_server_that_answers_otherwise_is_told_on_the_page(
    tmp_path: Path, answers: Answers, kind: str, answer: Any, problem: str
) -> None:
    answers.answer = lambda path, query: answer
    browser = console(tmp_path, kind, answers.address)
    shown = browser.get("/runs")
    assert shown.status_code == 200
    assert problem in shown.text
    assert "/elsewhere" not in answers.asked
    assert all("x" not in path for path in answers.asked)


def test_what_was_read_stays_while_a_server_is_away(tmp_path: Path, answers: Answers) -> None:
    answers.answer = jaeger(jaeger_span())
    browser = console(tmp_path, "jaeger", answers.address)
    assert "execute_tool rm" in browser.get("/live").text
    answers.answer = lambda path, query: 500
    browser.get("/live")
    shown = browser.get("/").text
    assert "execute_tool rm" in shown
    assert "Jaeger could not be read" in shown


def test_an_answer_without_end_ends(
    tmp_path: Path, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_LIMITS", {"timeout_s": 0.3, "longest_s": 0.3, "most_bytes": 999})

    def drip() -> Iterator[bytes]:
        for _ in range(40):
            time.sleep(0.1)
            yield b" "

    for answer in (lambda *_: drip(), lambda *_: b" " * 1_000, lambda *_: time.sleep(2)):
        answers.answer = answer
        browser = console(tmp_path, "jaeger", answers.address)
        began = time.monotonic()
        shown = browser.get("/live")
        assert time.monotonic() - began < 2
        assert shown.status_code == 200
        assert "Jaeger could not be read" in browser.get("/runs").text


@pytest.mark.parametrize("page", ["/live", "/runs", f"/runs/{'a' * 32}", "/decisions"])
def test_a_page_has_one_deadline_for_all_that_a_slow_server_answers(
    tmp_path: Path, answers: Answers, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.setattr(servers, "_PAGE_S", 0.4)
    goes_on = threading.Event()

    def answer(path: str, query: dict[str, str]) -> Any:
        if path.endswith("/services"):
            return {"data": [f"s{number}" for number in range(9)]}
        if query.get("service") != "s0" and not path.endswith("a" * 32):
            goes_on.wait(9)
        return jaeger(jaeger_span())(path, query)

    answers.answer = answer
    browser = console(tmp_path, "jaeger", answers.address)
    began = time.monotonic()
    shown = browser.get(page)
    assert time.monotonic() - began < 2
    assert shown.status_code == 200
    assert "execute_tool rm" in browser.get("/live").text, "what has been answered"
    late = "Jaeger has not answered everything in 0.4 s"
    assert late in browser.get("/runs").text
    began = time.monotonic()
    browser.get("/runs")
    assert time.monotonic() - began < 0.4, "one that another page reads is not waited for again"
    assert "has not answered in 0.4 s about this run" in browser.get(f"/runs/{'c' * 32}").text
    goes_on.set()
    while late in browser.get("/runs").text:
        time.sleep(0.05)
    assert "execute_tool rm" in browser.get("/live").text


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://h",
        "h:16686",
        "http://",
        "http://u:p@h",
        "http://h?x",
        "http://[",
    ],
)
def test_what_is_not_an_address_is_an_error(url: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a server") as raised:
        check_address(url)
    assert "u:p" not in str(raised.value)
    result = CliRunner().invoke(cli, ["ui", "--port", "0", "--jaeger", url])
    assert result.exit_code == 2
    result = CliRunner().invoke(cli, ["ui", "--port", "0", "--grafana", url])
    assert result.exit_code == 2


def test_of_two_servers_one_must_be_left_out() -> None:
    urls = ["--jaeger", "http://a", "--tempo", "http://b"]
    result = CliRunner().invoke(cli, ["ui", "--port", "0", *urls])
    assert result.exit_code == 2
    assert "exclude each other" in result.output
