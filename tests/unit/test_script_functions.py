"""What the scripts of hook files may call, and what they may not."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import otelhooks
from otelhooks import audit, hooks
from otelhooks.errors import ConfigError
from otelhooks.hooks import run_cache, script_host
from otelhooks.policy.files import http_client, load, load_hooks
from otelhooks.policy.files.http_client import Client


class Asked:
    """Runs a body in a hook file, and returns what it gives to `block`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, expression: str, *, event: str = "tool.pre", **options: Any) -> Any:
        code = f"return modify({{'answer': {expression}}})"
        (self._folder / "asker.md").write_text(
            f"---\nevent: {event}\npriority: 7\ndescription: Asks.\nscript: |\n"
            f"  def handle(event, payload):\n    {code}\n---\n"
        )
        options = {"time_limit_s": 5, **options}  # what they give does not depend on a busy machine
        action, payload, reason = load_hooks(self._folder, **options).dispatch(event, {"name": "t"})
        return payload["answer"] if action == "modify" else reason


@pytest.fixture
def ask(tmp_path: Path) -> Asked:
    folder = tmp_path / "hooks"
    folder.mkdir()
    return Asked(folder)


class TestPure:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ('json.decode("{\\"a\\": [1, null]}")', {"a": [1, None]}),
            ('json.encode({"a": [1, None, "é"]})', '{"a":[1,null,"é"]}'),
            ('re.match("a+", "aab")', True),
            ('re.match("b", "aab")', False),
            ('re.search(r"\\brm\\s+-rf\\b", "sudo rm  -rf /")', True),
            ("type(time.now())", "float"),
            ("[h['name'] for h in hooks.list()]", ["asker"]),
            ("hooks.list()[0]['priority']", 7),
            ("metrics.snapshot()", {}),
            (
                "[metrics.incr('a', 3), metrics.set('b', 5), metrics.snapshot()][-1]",
                {"a": 3, "b": 5},
            ),
            ("[cache.set('k', {'v': 1}), cache.get('k'), cache.get('x', 2)]", [None, {"v": 1}, 2]),
            ("audit({'what': 'x'})", None),
            ("labels.add('untrusted')", None),
            ("labels.add('untrusted', per='turn')", None),
            ("named.secrets({'a': ['b', 1, None]})", []),
            ("named.phrases({'a': ['b c', 1]}, ['b +c', 'd', 'a'])", ["b +c", "a"]),
        ],
    )
    def test_what_they_give(self, ask: Asked, expression: str, expected: Any) -> None:
        assert ask(expression) == expected

    @pytest.mark.parametrize(
        "expression",
        [
            "json.decode('[' * 100000)",
            "json.decode('{')",
            "re.search('(', 'x')",
            "re.search(r'(a)\\1', 'x')",
            "re.search('a', 1)",
            "metrics.incr('')",
            "metrics.incr('a b')",
            "metrics.incr('a', -1)",
            "metrics.incr('a', 'x')",
            "metrics.incr(5)",
            "span.set('', 1)",
            "span.set('gen_ai.tool.name', 1)",
            "span.event('otelhooks.x')",
            "http.get('http://localhost/')",
            "call_tool('t', {})",
            "block(reason='x', severity='y')",
            "modify([])",
            "labels.add('')",
            "labels.add(['a'])",
            "labels.add('a b')",
            "labels.add('unknown')",
            "labels.add('a', per='day')",
            "named.phrases('x', ['('])",
        ],
    )
    def test_a_wrong_call_blocks(self, ask: Asked, expression: str) -> None:
        assert str(ask(expression)).startswith('blocked by hook "asker": line 7:')

    @pytest.mark.parametrize("name", ["open", "exec", "eval", "env", "fs", "os", "print", "load"])
    def test_there_is_nothing_else(self, ask: Asked, name: str) -> None:
        with pytest.raises(ConfigError):
            ask(f"{name}('x')")

    def test_none_of_them_works_while_a_file_is_loaded(self, tmp_path: Path) -> None:
        (tmp_path / "x.md").write_text(
            "---\nevent: tool.pre\nscript: |\n  cache.set('a', 1)\n"
            "  def handle(event, payload):\n    return allow()\n---\n"
        )
        with pytest.raises(ConfigError, match=r"x.md:4:3: .*while the file is loaded"):
            load([tmp_path])

    def test_catastrophic_patterns_do_not_hang(self, ask: Asked) -> None:
        started = time.monotonic()
        assert ask('re.search("(a+)+$", "a" * 50000 + "b")', time_limit_s=10) is False
        assert time.monotonic() - started < 5

    def test_a_loop_of_slow_patterns_is_stopped(self, ask: Asked) -> None:
        started = time.monotonic()
        searches = '[re.search("(a?){400}a{400}", "a" * 399 + str(i)) for i in range(50000)]'
        answer = ask(searches, time_limit_s=0.2)
        assert str(answer).startswith("blocked by hook")
        assert time.monotonic() - started < 5

    def test_metrics_do_not_grow_without_bound(self, ask: Asked) -> None:
        many = "[METHOD('m' + str(i), 1) for i in range(1200)] and len(metrics.snapshot())"
        for method in ("metrics.incr", "metrics.set"):
            assert ask(many.replace("METHOD", method), time_limit_s=10) == 1000


class TestRunState:
    def test_a_run_keeps_so_many_values_and_log_entries(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(run_cache, "MAX_KEYS", 1)
        monkeypatch.setattr(run_cache, "MAX_LOGS", 1)
        kept = run_cache.run_state(hooks.SessionContext())
        kept.set("a", 1)
        kept.set("a", 2)
        with pytest.raises(ValueError, match="at most 1 values"):
            kept.set("b", 1)
        kept.log({"n": 1})
        kept.log({"n": 2})
        assert (kept.get("a"), kept.logs) == (2, [{"n": 1}])

    def test_sub_agents_share_the_state_of_their_turn(self) -> None:
        turn = hooks.TurnContext(hooks.SessionContext())
        inner = hooks.TurnContext(hooks.OperationContext(turn))
        states = {id(run_cache.run_state(each)) for each in (turn, inner, inner.child())}
        assert len(states) == 1


class TestHost:
    def test_alone_scripts_reach_nothing(self) -> None:
        host = script_host.Host()
        speaker = script_host.Speaker("h", "e", hooks.SessionContext())
        host.count("n", 1, {})
        host.gauge("n", 1, {})
        host.log(speaker, False, "m", {})
        host.audit(speaker, {})
        assert not host.is_reserved("anything")
        with pytest.raises(LookupError, match="`t`"):
            host.call("t", {})

    def test_without_instrument_telemetry_is_silent(self, ask: Asked) -> None:
        assert ask("[metrics.set('a', 1), log('x'), audit({})]") == [None, None, None]

    @pytest.mark.parametrize("value", ["[1, 2]", "[]", "{'a': 1}", "[1, 'a']", "None"])
    def test_spans_take_any_value(self, ask: Asked, value: str) -> None:
        assert ask(f"span.set('app.x', {value})") is None


class TestTelemetry:
    def test_metrics_become_instruments(self, governed: Any, tmp_path: Path) -> None:
        (tmp_path / "m.md").write_text(
            "---\nevent: tool.pre\nscript: |\n  def handle(event, payload):\n"
            "    metrics.incr('app.calls', tool=payload['name'])\n"
            "    metrics.set('app.depth', 3.5)\n    return allow()\n---\n"
        )
        governed(hooks=load([tmp_path]).hooks)

        @otelhooks.tool
        def t() -> None: ...

        t()
        t()
        [gauge] = governed.points("app.depth")  # first: some SDKs give a gauge to one collection
        assert gauge.value == 3.5
        assert governed.total("app.calls", tool="t") == 2

    def test_audit_records_are_written_masked(self, governed: Any, tmp_path: Path) -> None:
        folder = tmp_path / "hooks"
        folder.mkdir()
        (folder / "m.md").write_text(
            "---\nevent: tool.pre\nscript: |\n  def handle(event, payload):\n"
            "    audit({'password': 'hunter2', 'note': 'n'})\n    return allow()\n---\n"
        )
        trail = audit.Audit(tmp_path / "audit")
        governed(hooks=load([folder]).hooks, audit=trail)

        @otelhooks.tool
        def t() -> None: ...

        t()
        otelhooks.uninstrument()
        trail.close()
        written = "".join(p.read_text() for p in sorted(tmp_path.rglob("audit*")) if p.is_file())
        assert '"note":"n"' in written.replace(" ", "")
        assert "hunter2" not in written

    def test_tools_share_the_cache_of_their_run(self, governed: Any, tmp_path: Path) -> None:
        (tmp_path / "m.md").write_text(
            "---\nevent: tool.post\nscript: |\n  def handle(event, payload):\n"
            "    return modify({'content': cache.get('from tool')})\n---\n"
        )
        governed(hooks=load([tmp_path]).hooks)

        @otelhooks.tool
        def t(value: str) -> str:
            before = otelhooks.cache.get("from tool", "nothing")
            otelhooks.cache.set("from tool", f"{before}, {value}")
            return "result"

        @otelhooks.agent("a")
        def run(message: str) -> str:
            t(message)
            return t(message)

        assert run("x") == "nothing, x, x"
        assert run("y") == "nothing, y, y"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by path."""

    ending: ClassVar[threading.Event]

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.ending.wait(4)
        if self.path in {"/here", "/elsewhere", "/file"}:
            where = {
                "/here": "/text",
                "/elsewhere": "http://127.0.0.1:1/",
                "/file": "file:///etc/passwd",
            }
            self.send_response(302)
            self.send_header("Location", where[self.path])
            self.end_headers()
            return
        self.send_response(404 if self.path == "/none" else 200)
        self.end_headers()
        self.wfile.write(b"x" * 2_000_000 if self.path == "/large" else b"text")

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["Content-Type"].encode() + b" " + self.rfile.read(length))

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    ending = threading.Event()
    monkeypatch.setattr(Handler, "ending", ending, raising=False)
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"localhost:{running.server_address[1]}"
    ending.set()
    running.shutdown()
    running.server_close()
    thread.join()


class TestHttp:
    def test_a_named_host_is_called(self, ask: Asked, server: str) -> None:
        assert ask(f"http.get('http://{server}/')['body']", http_allow=[server]) == "text"
        assert ask(f"http.get('http://{server}/none')['status']", http_allow=[server]) == 404
        assert ask(f"http.get('http://{server}/here')['body']", http_allow=[server]) == "text"
        posted = ask(f"http.post('http://{server}/', {{'a': 1}})['body']", http_allow=[server])
        assert posted == 'application/json {"a": 1}'

    @pytest.mark.parametrize(
        "url",
        [
            "http://{server}@127.0.0.1:1/",
            "http://127.0.0.1:1/",
            "http://localhost/",
            "https://{server}.evil.example/",
            "file:///etc/passwd",
            "ftp://{server}/",
            "http://{server}\\@evil.example/",
            "http://{server} .evil.example/",
            "http:///x",
            "http://[::1",
            "http://localhost:99999/",
            "{server}",
            "",
        ],
    )
    def test_nothing_else_is(self, server: str, url: str) -> None:
        with pytest.raises(PermissionError, match="http: "):
            Client([server]).get(url.format(server=server))

    def test_a_redirect_to_another_host_is_refused(self, server: str) -> None:
        for allowed in ([server], [server, "127.0.0.1:1"]):
            with pytest.raises(PermissionError, match="http: "):
                Client(allowed).get(f"http://{server}/elsewhere")

    def test_a_redirect_to_a_file_is_not_followed(self, server: str) -> None:
        answer = Client([server]).get(f"http://{server}/file")
        assert (answer["status"], answer["body"]) == (302, "")

    def test_a_slow_look_up_of_a_name_is_not_waited_for(
        self, server: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = threading.Event()

        def look_up(*args: Any) -> dict[str, Any]:
            found.wait(10)
            return {}

        monkeypatch.setattr(http_client, "LIMIT_S", 0.05)
        monkeypatch.setattr(Client, "_fetch", look_up)
        try:
            with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
                Client([server]).get(f"http://{server}/")
        finally:
            found.set()

    def test_the_time_is_bounded(self, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_client, "LIMIT_S", 0.2)
        started = time.monotonic()
        with pytest.raises(OSError, match=r"http: no answer|timed out"):
            Client([server]).get(f"http://{server}/slow")
        assert time.monotonic() - started < 3

    def test_so_is_the_answer(self, server: str) -> None:
        with pytest.raises(ValueError, match="longer than"):
            Client([server]).get(f"http://{server}/large")

    def test_a_host_that_is_none_is_an_error_at_load(self) -> None:
        for entry in ("http://x", "x/y", "", "a b", "x:port"):
            with pytest.raises(ConfigError, match="`http_allow`"):
                Client([entry])
