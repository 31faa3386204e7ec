"""The console: what it shows, and who may see and answer."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")

from click.testing import CliRunner
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from starlette.testclient import TestClient

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.approvals.questions import Answer, Question, doubts
from otelhooks.approvals.store_questions import StoreQuestions
from otelhooks.cli import cli
from otelhooks.hooks.calls import Call
from otelhooks.policy.stops import stop_now
from otelhooks.policy_tools.subject import Subject
from otelhooks.policy_tools.trials import run
from otelhooks.records import semconv
from otelhooks.setup.stop_places import place_of
from otelhooks.store.writer import SqliteSpanExporter
from otelhooks.ui import coverage
from otelhooks.ui.app import create_app
from otelhooks.ui.guard import form_token
from otelhooks.ui.site import Settings

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e'\"&"
PORT = 8321
OURS = {"origin": f"http://127.0.0.1:{PORT}"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def settings(path: Path) -> Settings:
    return Settings.of_start(store=path, questions=None, port=PORT, approver="u-17")


def client_of(settings: Settings) -> TestClient:
    return TestClient(create_app(settings), base_url=f"http://127.0.0.1:{PORT}{settings.root}/")


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    """A browser that was given the address."""
    with client_of(settings) as browser:
        browser.get(f"/?token={settings.token}")
        yield browser


def asked(path: Path, id: str = "12345678", **about: Any) -> Question:
    facts = {"args": {"to": "all@example.org"}, "reason": "Mail leaves the house.", "rule": "mail"}
    facts |= {"server": "", "agent": "", "session": "", "trace": "", "program": "app.py", "pid": 1}
    now = time.time()
    question = Question(
        *(id, now, now + 60, "pending", "send_email", json.dumps(facts | about)),
        needs=len(about.get("roles", "1")),
    )
    StoreQuestions(path).put(question)
    return question


def asked_digest(path: Path) -> str:
    [question] = StoreQuestions(path).all()
    return question.digest


def stored(path: Path, *calls: dict[str, Any]) -> str:
    """Store a trace with a call of a tool for each set of attributes; return its id."""
    exporter = SqliteSpanExporter(path)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("otelhooks")
    with tracer.start_as_current_span("invoke_agent helper") as root:
        for attributes in calls:
            name = f"execute_tool {attributes[semconv.GEN_AI_TOOL_NAME]}"
            tracer.start_span(name, attributes=attributes).end()
    provider.shutdown()
    return f"{root.get_span_context().trace_id:032x}"


def called(tool: str, decision: str = "allow", **more: Any) -> dict[str, Any]:
    return {
        semconv.GEN_AI_OPERATION_NAME: "execute_tool",
        semconv.GEN_AI_TOOL_NAME: tool,
        semconv.POLICY_DECISION: decision,
        **more,
    }


DENIED = {
    semconv.POLICY_ENFORCEMENT: semconv.ENFORCEMENT_BLOCKED,
    semconv.POLICY_RULE_ID: "no-rm",
    semconv.POLICY_ID: "shell",
    semconv.POLICY_REASON: "Nothing is removed here.",
    semconv.GEN_AI_AGENT_NAME: "helper",
}


class TestWhoMayLook:
    @pytest.mark.parametrize("page", ["/", "/runs", "/approvals", "/static/style.css"])
    def test_without_the_token_nothing_is_shown(self, settings, page) -> None:
        answer = client_of(settings).get(page)
        assert answer.status_code == 401
        assert "Open the address that `otelhooks ui` printed" in answer.text

    def test_a_wrong_token_is_none(self, settings) -> None:
        assert client_of(settings).get("/?token=x").status_code == 401

    def test_the_first_visit_moves_the_token_into_a_cookie(self, settings, path) -> None:
        StoreQuestions(path)
        browser = client_of(settings)
        answer = browser.get(f"/runs?token={settings.token}&denied=", follow_redirects=False)
        assert answer.headers["location"] == f"{settings.root}/runs?denied="
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert browser.get("/runs").status_code == 200

    @pytest.mark.parametrize("page", ["", "/favicon.ico", "/runs", "/x/"])
    def test_a_server_at_another_port_does_not_get_the_cookie(self, client, page) -> None:
        """Browsers send the cookies of a host to each of its ports."""
        other = client.build_request("GET", f"http://127.0.0.1:9000{page}")
        assert "cookie" not in other.headers
        assert client.build_request("GET", "/runs").headers["cookie"]

    def test_the_cookie_alone_opens_nothing(self, settings, path) -> None:
        StoreQuestions(path)
        cookie = {"cookie": f"otelhooks={settings.token}"}
        browser = TestClient(create_app(settings), base_url=f"http://127.0.0.1:{PORT}")
        for page in ("/", "/approvals", f"/{settings.root[1:-1]}x/approvals", settings.root):
            assert browser.get(page, headers=cookie, follow_redirects=False).status_code == 401
        assert browser.get(f"{settings.root}/approvals", headers=cookie).status_code == 200

    def test_a_listener_reads_events_and_nothing_else(self, settings, path) -> None:
        stored(path)
        listening = "a-token-for-listeners"
        app = create_app(dataclasses.replace(settings, listening=listening))
        program = TestClient(app, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)
        bearer = {"authorization": f"Bearer {listening}"}
        late = program.get("/events?token=x&since=9-9", headers=bearer)
        assert (late.status_code, "set-cookie" in late.headers) == (410, False)
        assert "The store ends at 1-0, before this id" in late.text
        assert program.get("/events?since=x", headers=bearer).status_code == 400
        for page in (f"{settings.root}/events", f"{settings.root}/approvals", "/approvals", "/"):
            assert program.get(page, headers=bearer).status_code == 401
        assert program.post("/events", headers=bearer | OURS).status_code == 401
        elsewhere = {**bearer, "host": "evil.example"}
        assert program.get("/events?since=9-9", headers=elsewhere).status_code == 421
        for wrong in ({}, {"authorization": "Bearer "}, {"cookie": f"otelhooks={settings.token}"}):
            assert program.get("/events?since=9-9", headers=wrong).status_code == 401

    def test_without_a_token_for_listeners_there_are_none(self, settings, path) -> None:
        program = TestClient(create_app(settings), base_url=f"http://127.0.0.1:{PORT}")
        bearer = {"authorization": "Bearer "}
        assert program.get("/events?since=9-9", headers=bearer).status_code == 401

    def test_an_id_of_a_store_that_is_missing_is_refused(self, client) -> None:
        assert client.get("/events?since=1-0").status_code == 410

    def test_an_empty_token_changes_no_cookie(self, client) -> None:
        answer = client.get("/?token=", follow_redirects=False)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers

    @pytest.mark.parametrize("host", ["127.0.0.1:9000", "localhost", "localhost:8321"])
    def test_a_forwarded_port_may_be_another_one(self, client, host, path) -> None:
        StoreQuestions(path)
        assert client.get("/approvals", headers={"host": host}).status_code == 200

    @pytest.mark.parametrize("host", ["evil.example:8321", "localhost.evil.example", "127.0.0.2"])
    def test_another_name_of_this_host_is_refused(self, client, settings, host) -> None:
        """A page of another site can let its own name lead here: DNS rebinding."""
        answer = client.get(f"/?token={settings.token}", headers={"host": host})
        assert answer.status_code == 421

    @pytest.mark.parametrize("page", ["/", "/runs", "/approvals", "/none", "/static/htmx.min.js"])
    def test_a_page_runs_no_script_but_ours_and_no_other_site_frames_it(
        self, client, path, page
    ) -> None:
        StoreQuestions(path)
        headers = client.get(page).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["cache-control"] == "no-store"
        assert "script>" not in client.get("/").text.replace(" defer></script>", "")

    @pytest.mark.parametrize("page", ["/static/../app.py", "/static/%2e%2e/app.py", "/runs/..%2fx"])
    def test_no_path_leads_out_of_the_folder(self, client, path, page) -> None:
        StoreQuestions(path)
        answer = client.get(page)
        assert "create_app" not in answer.text
        assert answer.status_code in (200, 404)


class TestAnswers:
    def form(self, settings: Settings, question: Question, **more: str) -> dict[str, str]:
        return {
            "form": form_token(settings.token),
            "digest": question.digest,
            "args": json.dumps(question.facts["args"], indent=2),
            **more,
        }

    def status(self, path: Path) -> str:
        [question] = StoreQuestions(path).all()
        return question.status

    def test_a_call_is_approved(self, client, settings, path) -> None:
        question = asked(path)
        shown = client.get("/approvals/12345678").text
        assert "all@example.org" in shown
        assert "Mail leaves the house." in shown
        form = self.form(settings, question, answer="approve")
        answer = client.post("/approvals/12345678", data=form, headers=OURS)
        assert answer.url.path == f"{settings.root}/approvals"
        assert StoreQuestions(path).answer_of(question) == Answer("approved", "u-17")

    def test_or_with_other_arguments(self, client, settings, path) -> None:
        question = asked(path)
        form = self.form(settings, question, answer="approve", args='{"to": "ada"}')
        client.post("/approvals/12345678", data=form, headers=OURS)
        answer = StoreQuestions(path).answer_of(question)
        assert answer == Answer("approved", "u-17", {"to": "ada"})

    def test_or_denied(self, client, settings, path) -> None:
        form = self.form(settings, asked(path), answer="deny", args="{")
        client.post("/approvals/12345678", data=form, headers=OURS)
        assert self.status(path) == "rejected"
        assert "Rejected by u-17" in client.get("/approvals/12345678").text

    @pytest.mark.parametrize(
        ("args", "problem"),
        [("{", "cannot be read"), ("[]", "write a JSON object"), ("{}", "`to` is missing")],
    )
    def test_arguments_that_cannot_be_read_leave_it_waiting(
        self, client, settings, path, args, problem
    ) -> None:
        form = self.form(settings, asked(path), answer="approve", args=args)
        answer = client.post("/approvals/12345678", data=form, headers=OURS)
        assert answer.status_code == 400
        assert problem in answer.text
        assert self.status(path) == "pending"

    def test_and_stay_as_they_were_typed(self, client, settings, path) -> None:
        form = self.form(settings, asked(path), answer="approve", args='{"to": "ada@example.org')
        shown = client.post("/approvals/12345678", data=form, headers=OURS).text
        assert "ada@example.org" in shown
        assert "all@example.org" not in shown

    def test_a_name_that_the_call_does_not_have_is_warned_of(self, client, settings, path) -> None:
        question = asked(path)
        args = '{"to": "all@example.org", "too": "ada@example.org"}'
        form = self.form(settings, question, answer="approve", args=args)
        answer = client.post("/approvals/12345678", data=form, headers=OURS)
        shown = html.unescape(answer.text)
        assert answer.status_code == 400
        assert "the call does not have `too`; it has `to`. Approve again if" in shown
        assert "ada@example.org" in shown
        assert self.status(path) == "pending"
        [warned] = re.findall(r'name="warned" value="(.*?)"', answer.text)
        other = {**form, "args": '{"to": "x", "two": 1}', "warned": html.unescape(warned)}
        assert client.post("/approvals/12345678", data=other, headers=OURS).status_code == 400
        form["warned"] = html.unescape(warned)
        client.post("/approvals/12345678", data=form, headers=OURS)
        assert StoreQuestions(path).answer_of(question).edit == {"too": "ada@example.org"}

    @pytest.mark.parametrize("args", ["[" * 100_000, b"\xff\xfe"])
    def test_hostile_bodies_are_errors(self, client, settings, path, args) -> None:
        form = self.form(settings, asked(path), answer="approve", args=args)
        assert client.post("/approvals/12345678", data=form, headers=OURS).status_code == 400
        assert self.status(path) == "pending"

    @pytest.mark.parametrize(("before", "after"), [(True, "1"), ([1], "[true]"), (1, "1.0")])
    def test_what_python_calls_equal_is_another_argument(
        self, client, settings, path, before, after
    ) -> None:
        question = asked(path, args={"x": before})
        form = self.form(settings, question, answer="approve", args=f'{{"x": {after}}}')
        form["warned"] = doubts(question, {"x": json.loads(after)})
        client.post("/approvals/12345678", data=form, headers=OURS)
        answer = StoreQuestions(path).answer_of(question)
        assert json.dumps(answer.edit) == f'{{"x": {after}}}'

    def test_each_character_of_the_arguments_is_seen(self, client, settings, path) -> None:
        args = {"to": "Jürgen 家", "hidden": "a\u202e\x1b\U000e0041", "far": "x" + " " * 40 + "y"}
        question = asked(path, args=args)
        shown = html.unescape(client.get("/approvals/12345678").text)
        assert "Jürgen 家" in shown
        assert r"a\u202e\u001b\udb40\udc41" in shown
        assert "x" + r"\u0020" * 40 + "y" in shown
        text = shown.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0]
        form = self.form(settings, question, answer="approve", args=text)
        client.post("/approvals/12345678", data=form, headers=OURS)
        assert StoreQuestions(path).answer_of(question).edit is None

    def test_an_argument_that_is_not_what_it_looks_like_is_marked(self, client, path) -> None:
        asked(path, args={"to": "p\u0430ypal.com", "x": "a\u202eb", "y": "ok"})
        shown = client.get("/approvals/12345678").text
        assert ">to (letters of Cyrillic and Latin in one word)<" in shown
        assert ">x (invisible characters)<" in shown
        assert "y (" not in shown

    def test_all_arguments_are_in_sight(self, client, path) -> None:
        asked(path, args={f"a{number}": 1 for number in range(30)})
        assert 'rows="33"' in client.get("/approvals/12345678").text

    def test_a_deny_does_not_send_the_arguments(self, client, path) -> None:
        asked(path)
        [_, deny] = client.get("/approvals/12345678").text.split("<form")[1:]
        assert "textarea" not in deny
        assert '<button form="deny" name="answer" value="deny"' in deny

    def test_an_answer_that_no_process_has_taken_is_told_after_a_while(
        self, client, settings, path, monkeypatch
    ) -> None:
        question = asked(path)
        form = self.form(settings, question, answer="approve")
        shown = client.post("/approvals/12345678", data=form, headers=OURS).text
        assert "approved by u" in shown
        assert "No process has taken" not in shown
        monkeypatch.setattr("otelhooks.ui.approvals._GRACE_S", 0)
        shown = client.get("/approvals/waiting").text
        assert "No process has taken the answer: the program may have ended." in shown
        StoreQuestions(path).answer_of(question)
        assert "No process has taken" not in client.get("/approvals/waiting").text

    def test_the_answer_about_a_parked_call_waits_for_its_run(self, client, path) -> None:
        question = dataclasses.replace(asked(path), id="87654321", parked="key")
        StoreQuestions(path).put(question)
        StoreQuestions(path).answer(question, Answer("approved", "ada"))
        shown = client.get("/approvals/waiting").text
        assert "No process has taken the answer: its run waits to be resumed." in shown

    def test_each_page_says_how_many_wait(self, client, path) -> None:
        assert client.get("/approvals/count").text == ""
        asked(path)
        asked(path, "87654321")
        assert client.get("/approvals/count").text == "2"

    @pytest.mark.parametrize("answer", ["", "maybe"])
    def test_so_does_a_form_without_an_answer(self, client, settings, path, answer) -> None:
        form = self.form(settings, asked(path), answer=answer)
        assert client.post("/approvals/12345678", data=form, headers=OURS).status_code == 400
        assert self.status(path) == "pending"

    @pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://127.0.0.1"])
    def test_a_page_of_another_site_cannot_answer(self, client, settings, path, origin) -> None:
        form = self.form(settings, asked(path), answer="approve")
        headers = {} if origin is None else {"origin": origin}
        answer = client.post("/approvals/12345678", data=form, headers=headers)
        assert answer.status_code == 403
        assert self.status(path) == "pending"

    @pytest.mark.parametrize("form_of", [{"form": ""}, {"form": "0" * 64}, {"digest": "0" * 64}])
    def test_nor_can_a_form_that_was_not_shown(self, client, settings, path, form_of) -> None:
        form = self.form(settings, asked(path), answer="approve") | form_of
        answer = client.post("/approvals/12345678", data=form, headers=OURS)
        assert answer.status_code in (403, 409)
        assert self.status(path) == "pending"

    def test_a_question_that_has_changed_is_shown_again(self, client, settings, path) -> None:
        question = asked(path)
        other = question.about.replace("all@", "eve@")
        StoreQuestions(path).change("12345678", {"status": "pending"}, {"about": other})
        form = self.form(settings, question, answer="approve")
        answer = client.post("/approvals/12345678", data=form, headers=OURS)
        assert answer.status_code == 409
        assert "eve@example.org" in answer.text
        assert self.status(path) == "pending"

    def test_a_console_that_only_shows_does_not_answer(self, path) -> None:
        settings = Settings.of_start(
            store=path, questions=None, port=PORT, approver="u", can_answer=False
        )
        question = asked(path)
        browser = client_of(settings)
        shown = browser.get(f"/approvals/12345678?token={settings.token}").text
        assert "all@example.org" in shown
        assert "<button" not in shown
        form = self.form(settings, question, answer="approve")
        assert browser.post("/approvals/12345678", data=form, headers=OURS).status_code == 403
        assert self.status(path) == "pending"

    def test_nor_does_any_other_address_of_it(self, path) -> None:
        settings = Settings.of_start(store=path, port=PORT, approver="u", can_answer=False)
        asked(path)
        stored(path, called("look_up"))
        app, form = create_app(settings), form_token(settings.token)
        browser = client_of(settings)
        browser.get(f"/?token={settings.token}")
        for route in app.routes:
            page = route.path.replace("{id}", "12345678").replace("{trace}/{span}", "a/b")
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"):
                if page in ("/events", "/coverage/report") and method in ("GET", "HEAD"):
                    continue  # has no end, starts a process
                data = {"form": form, "answer": "approve", "digest": asked_digest(path)}
                answer = browser.request(method, page, data=data, headers=OURS)
                assert method in ("GET", "HEAD") or answer.status_code in (403, 404, 405)
                assert form not in answer.text
        assert self.status(path) == "pending"

    def test_a_role_that_is_asked_for(self, path) -> None:
        question = asked(path, roles=["finance", "security"])
        for name, roles, code in (
            *(("eve", (), 400), ("eve", ("sales",), 400)),
            *(("ada", ("finance",), 200), ("bob", ("security",), 200)),
        ):
            settings = Settings.of_start(store=path, port=PORT, approver=name, roles=roles)
            browser = client_of(settings)
            browser.get(f"/?token={settings.token}")
            shown = browser.get("/approvals/12345678").text
            assert "finance and security must approve" in shown
            assert "which no one may change" in shown
            assert (f"as {name} ({roles[0]})" if roles else f"as {name}<") in shown
            form = self.form(settings, question, answer="approve")
            answer = browser.post("/approvals/12345678", data=form, headers=OURS)
            assert answer.status_code == code
        assert "approved by ada (finance), bob (security)" in browser.get("/approvals").text

    def test_a_huge_form_is_refused(self, client, path) -> None:
        asked(path)
        form = {"args": "x" * 16_000_001}
        assert client.post("/approvals/12345678", data=form, headers=OURS).status_code == 413

    def test_what_has_ended_is_told(self, client, settings, path) -> None:
        question = asked(path)
        StoreQuestions(path).withdraw(question)
        form = self.form(settings, question, answer="approve")
        answer = client.post("/approvals/12345678", data=form, headers=OURS)
        assert answer.status_code == 400
        assert "question 12345678 is already withdrawn" in answer.text

    def test_a_question_of_another_version_may_say_less(self, client, path) -> None:
        now = time.time()
        StoreQuestions(path).put(Question("12345678", now, now + 60, "pending", "t", "{}"))
        for page in ("/approvals", "/approvals/12345678"):
            assert client.get(page).status_code == 200

    def test_an_unknown_question_is_told(self, client, path) -> None:
        StoreQuestions(path)
        assert "there is no question" in client.get("/approvals/none").text

    def test_several_approvers_see_who_is_missing(self, client, settings, path) -> None:
        now = time.time()
        facts = json.loads(asked(path, "00000000").about)
        question = Question(
            "12345678", now, now + 60, "pending", "send_email", json.dumps(facts), needs=2
        )
        StoreQuestions(path).put(question)
        client.post(
            "/approvals/12345678",
            data=self.form(settings, question, answer="approve"),
            headers=OURS,
        )
        assert "2 must approve; u-17 has" in client.get("/approvals/12345678").text
        assert "approved by u-17, 2 must approve" in client.get("/approvals/waiting").text


class TestPages:
    def test_what_no_seat_covers_is_named_with_its_reason(self, client, monkeypatch) -> None:
        gap = {"what": "plain functions", "why": "the decorator gives them back"}
        row = {"framework": "mcp", "distribution": "mcp", "version": "1", "supported": ">=1"}
        row |= {"state": "patched", "error": None, "not_covered": [gap]}
        report = {"frameworks": [row, row], "not_guarded": []}
        monkeypatch.setattr(coverage, "_report", lambda site: report)
        shown = client.get("/coverage/report").text
        gap_text = "<strong>mcp</strong>: plain functions: the decorator gives them back"
        assert shown.count(gap_text) == 1
        assert '<tr class="good"><td class="name">mcp<' in shown

    def test_a_part_that_is_not_covered_is_no_row_of_its_own(self, client, monkeypatch) -> None:
        row = {"framework": "langchain", "distribution": "langgraph", "version": "1"}
        row |= {"supported": ">=1", "state": "patched", "error": "", "not_covered": []}
        gap = {"what": "an agent behind `RemoteGraph`", "why": "its tools run on a server"}
        part = row | {"supported": "none", "state": "refused", "not_covered": [gap]}
        report = {"frameworks": [row, part], "not_guarded": []}
        monkeypatch.setattr(coverage, "_report", lambda site: report)
        shown = client.get("/coverage/report").text
        assert shown.count("langgraph") == 1
        assert "<strong>langchain</strong>: an agent behind `RemoteGraph`" in shown

    def test_the_page_of_coverage_does_not_wait_for_the_report(self, client, monkeypatch) -> None:
        monkeypatch.setattr(coverage, "_report", lambda site: pytest.fail("asked for"))
        assert 'hx-get="coverage/report" hx-trigger="load"' in client.get("/coverage").text

    def test_a_report_that_does_not_come_is_told_in_its_place(self, client, monkeypatch) -> None:
        def fails(*args: Any, **kwargs: Any) -> Any:
            raise subprocess.TimeoutExpired("doctor", 60)

        monkeypatch.setattr(coverage.subprocess, "run", fails)
        shown = client.get("/coverage/report")
        assert shown.status_code == 200
        assert "`otelhooks doctor` did not report" in shown.text

    def test_a_deny_is_shown_with_its_rule(self, client, path) -> None:
        trace = stored(path, called("look_up"), called("rm", "deny", **DENIED))
        shown = client.get("/live").text
        assert '<tr class="bad">' in shown
        assert "shell/no-rm" in shown
        assert "Nothing is removed here." in shown
        assert f'href="runs/{trace}"' in shown
        assert shown.index("execute_tool rm") < shown.index("execute_tool look_up")

    @pytest.mark.parametrize(
        "query",
        ["tool=rm", "agent=help*", "rule=no-rm", "decision=deny", "tool=r*&text=is+removed"],
    )
    def test_a_filter_leaves_out_the_rest(self, client, path, query) -> None:
        stored(path, called("look_up"), called("rm", "deny", **DENIED))
        shown = client.get(f"/?{query}").text
        assert "execute_tool rm" in shown
        assert "execute_tool look_up" not in shown
        assert f'hx-get="live?{query.replace("&", "&amp;").replace("*", "%2A")}"' in shown

    @pytest.mark.parametrize("text", ['"path": "/etc"', "100%", "a\\b", "ä"])
    def test_a_text_is_found_as_it_was_captured(self, client, path, text) -> None:
        arguments = {semconv.GEN_AI_TOOL_CALL_ARGUMENTS: f"({text})"}
        stored(path, called("rm", **arguments), called("look_up", x="100 ab"))
        shown = client.get("/live", params={"text": text}).text
        assert "execute_tool rm" in shown
        assert "execute_tool look_up" not in shown

    def test_of_many_calls_the_newest_are_shown(self, client, path) -> None:
        stored(path, *(called(f"tool_{number}") for number in range(600)))
        shown = client.get("/live").text
        assert shown.count("<tr") == 50
        assert "tool_599" in shown

    def test_runs_are_listed_and_drawn(self, client, path) -> None:
        stored(path, called("look_up"))
        trace = stored(path, called("rm", "deny", **DENIED))
        stored(path, called("pay", "ask", **{semconv.POLICY_ENFORCEMENT: "approved"}))
        assert client.get("/runs").text.count("<tr") == 4
        assert '<td class="verdict">1 approved</td>' in client.get("/runs").text
        listed = client.get("/runs?denied").text
        assert listed.count("<tr") == 2
        assert "1 refused" in listed
        for page in (f"/runs/{trace}", f"/runs/{trace[:12]}?content"):
            shown = client.get(page).text
            assert 'c-red">' in shown
            assert "no-rm" in shown

    def test_a_run_is_drawn_over_time(self, client, path) -> None:
        trace = stored(path, called("look_up"), called("rm", "deny", **DENIED))
        shown = client.get(f"/runs/{trace}?time").text
        rows = [row for row in shown.split("<tr") if "<svg" in row]
        assert ["in-0" in row for row in rows] == [True, False, False]
        assert 'class="plain" x="0.0" y="1" width="100.0"' in rows[0]
        assert 'class="bad"' in rows[2]

    def test_a_long_run_is_shown_page_by_page(self, client, path) -> None:
        trace = stored(path, *(called(f"tool_{number}") for number in range(2_100)))
        for view in ("", "time", "content"):
            self.check_pages(client, trace, view)
        for odd in ("-1", "x", "9" * 5_000, "\u0663"):
            assert "Spans 1 to" in client.get(f"/runs/{trace}", params={"from": odd}).text

    def check_pages(self, client, trace, view) -> None:
        shown = client.get(f"/runs/{trace}?{view}").text
        assert "Spans 1 to 1000 of 2101" in shown
        assert "tool_998" in shown
        assert "tool_999" not in shown
        assert f'href="runs/{trace}?{view}&amp;from=1000"' in shown
        shown = client.get(f"/runs/{trace}?{view}&from=2000").text
        assert "Spans 2001 to 2101 of 2101" in shown
        assert "tool_1999" in shown
        assert "Later ones" not in shown

    @pytest.mark.parametrize(
        ("page", "problem"),
        [("/runs/abc", "This store does not have that run."), ("/nothing", "no such page")],
    )
    def test_a_page_that_is_not_there(self, client, path, page, problem) -> None:
        stored(path, called("look_up"))
        answer = client.get(page)
        assert answer.status_code == 404
        assert problem in answer.text

    @pytest.mark.parametrize("page", ["/", "/runs", "/live"])
    def test_without_a_store_it_says_so(self, client, page) -> None:
        answer = client.get(page)
        assert answer.status_code == 200
        assert "Nothing is stored yet" in answer.text

    def test_a_file_that_is_no_store_is_told(self, client, path) -> None:
        path.write_text("a note")
        assert "is not an otelhooks store" in client.get("/runs").text

    def test_hostile_texts_stay_texts(self, client, path) -> None:
        more = dict.fromkeys((semconv.POLICY_REASON, semconv.GEN_AI_AGENT_NAME), HOSTILE)
        trace = stored(path, called(HOSTILE, "deny", **{**DENIED, **more}))
        asked(path, args={HOSTILE: HOSTILE}, reason=HOSTILE, agent=HOSTILE, program=HOSTILE)
        pages = ["/", "/live", "/runs", f"/runs/{trace}", f"/runs/{trace}?time", "/decisions"]
        pages += ["/approvals", "/approvals/12345678"]
        for page in (*pages, "/?tool=%3Cscript%3Ealert(1)%22"):
            shown = client.get(page).text
            assert "<script>alert" not in shown
            assert "\x1b" not in shown
            assert "\u202e" not in shown


class TestDecisions:
    def test_they_are_counted_by_rule_tool_and_agent(self, client, path) -> None:
        denied = called("rm", "deny", **DENIED)
        stored(path, called("look_up"), called("rm"), denied, denied)
        shown = client.get("/decisions").text
        of_rule, of_tool, of_agent = shown.split("<h2>")[1:]
        assert '<a href="?rule=no-rm">shell/no-rm</a>' in of_rule
        assert "2 decisions, 2 refused" in of_rule
        assert "3 decisions, 2 refused" in of_tool
        assert of_tool.index("tool=rm") < of_tool.index("tool=look_up")
        assert '<a href="?agent=helper">' in of_agent

    def test_a_question_counts_once(self, client, path) -> None:
        asked = called("mail", "ask", **{semconv.POLICY_ENFORCEMENT: "approved"})
        stored(path, asked)
        exporter = SqliteSpanExporter(path)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("otelhooks")
        tracer.start_span(f"{semconv.SPAN_APPROVAL_WAIT} mail", attributes=asked).end()
        provider.shutdown()
        assert "1 decision, 0 refused" in client.get("/decisions").text

    @pytest.mark.parametrize("has_call", [True, False])
    def test_a_question_that_was_withdrawn_is_neither_open_nor_refused(
        self, client, path, has_call: bool
    ) -> None:
        rule = {semconv.POLICY_RULE_ID: "ask:mail", semconv.APPROVAL_STATUS: "withdrawn"}
        asked = called("mail", "ask", **rule)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(SqliteSpanExporter(path)))
        tracer = provider.get_tracer("otelhooks")
        with tracer.start_as_current_span("invoke_agent ops"):
            wait = {name: asked[name] for name in asked if name != semconv.POLICY_DECISION}
            tracer.start_span(f"{semconv.SPAN_APPROVAL_WAIT} mail", attributes=wait).end()
            if has_call:  # the run went on after it, with a deny
                attributes = {**asked, semconv.POLICY_ENFORCEMENT: "rejected"}
                tracer.start_span("execute_tool mail", attributes=attributes).end()
        provider.shutdown()
        shown = client.get("/decisions").text
        assert (
            shown.count("1 decision, 0 refused, 0 withheld, 1 withdrawn") == 2
        )  # by rule, and by tool
        assert '<td class="verdict">1 withdrawn</td>' in client.get("/runs").text

    def test_a_withheld_result_is_not_a_refused_call(self, client, path) -> None:
        stored(path, called("cat", "deny", **DENIED, **{semconv.WITHHELD: True}))
        shown = client.get("/decisions").text
        assert shown.count("1 decision, 0 refused, 1 withheld, 0 withdrawn") == 3
        assert '<td class="verdict">1 withheld</td>' in client.get("/runs").text

    def test_without_any_it_says_so(self, client, path) -> None:
        stored(path)
        assert "No decisions yet" in client.get("/decisions").text


POLICY = """
version: 1
policies:
  - {deny: rm, id: no-rm, when: 'args["path"] != "x"', reason: Nothing is removed here.}
  - {deny: idle}
  - {deny: mail, id: no-mail}
"""
ARGS = {"path": "/etc", "deep": True, "why": None}


class TestPolicy:
    @pytest.fixture
    def shell(self, tmp_path: Path) -> Path:
        file = tmp_path / "shell.yaml"
        file.write_text(POLICY)
        return file

    @pytest.fixture
    def settings(self, path: Path, shell: Path) -> Settings:
        return Settings.of_start(store=path, port=PORT, approver="u", policies=(str(shell),))

    @pytest.fixture
    def trace(self, path: Path) -> str:
        arguments = {semconv.GEN_AI_TOOL_CALL_ARGUMENTS: json.dumps(ARGS)}
        return stored(path, called("rm", "deny", **DENIED, **arguments), called("mail"))

    def call(self, client: TestClient, trace: str, tool: str) -> str:
        """Return the page to which a row of the live page leads."""
        rows = client.get("/live").text.split("<tr")
        [row] = [row for row in rows if f"execute_tool {tool}<" in row]
        return client.get(f"/policy/{trace}/" + row.partition(f"policy/{trace}/")[2][:16]).text

    def test_each_rule_is_shown_with_its_place_and_how_often_it_decided(
        self, client, trace, shell
    ) -> None:
        shown = client.get("/policy").text
        rows = {
            name: row for row in shown.split("<tr") for name in ("no-rm", "idle") if name in row
        }
        assert f"{shell}:4:5" in rows["no-rm"]
        assert "args[&#34;path&#34;]" in rows["no-rm"]
        assert '<td class="number">1</td>' in rows["no-rm"]
        assert '<td class="number">never</td>' in rows["idle"]

    def test_rules_are_shown_before_anything_is_stored(self, client, path) -> None:
        shown = client.get("/policy")
        assert not path.exists()
        assert shown.status_code == 200
        assert "no-rm" in shown.text

    @pytest.mark.parametrize(
        ("selector", "shown"),
        [
            ("when_labels: [untrusted]", "when_labels: untrusted"),
            ("unless_user_said: [to, cc]", "unless_user_said: [cc, to]"),
            ("when_argument_from: {to: [web, mail]}", "when_argument_from: {to: [mail, web]}"),
            ("when_user: {role: guest}", "when_user: {role: guest}"),
            ("when_annotations: {readOnlyHint: false}", "when_annotations: {readOnlyHint: false}"),
            ("agent: 'lead/*'", "agent: lead/*"),
        ],
    )
    def test_what_else_must_hold_is_shown_beside_the_condition(
        self, client, trace, shell, selector, shown
    ) -> None:
        shell.write_text(POLICY.replace("when: ", f"{selector}, when: "))
        assert f"{shown}; args[" in html.unescape(client.get("/policy").text)

    def test_what_is_wrong_is_shown(self, client, trace, shell) -> None:
        shell.write_text(POLICY + "  - {deny: mail, id: again}\n")
        assert "says what" in client.get("/policy").text

    def test_a_file_that_does_not_load_is_an_error(self, client, trace, shell) -> None:
        shell.write_text("version: 1\npolicies: [{forbid: rm}]")
        answer = client.get("/policy")
        assert answer.status_code == 400
        assert "forbid" in answer.text

    def test_what_was_recorded_is_shown_before_what_these_policies_say(self, client, path) -> None:
        pinned = {
            semconv.POLICY_ENFORCEMENT: semconv.ENFORCEMENT_BLOCKED,
            semconv.POLICY_ID: "mcp_pins",
            semconv.POLICY_RULE_ID: "changed",
            semconv.POLICY_REASON: "Tool 'look_up' has changed.",
        }
        shown = self.call(client, stored(path, called("look_up", "deny", **pinned)), "look_up")
        recorded = "deny by mcp_pins/changed: Tool &#39;look_up&#39; has changed."
        assert recorded in shown
        assert shown.index(recorded) < shown.index("none: nothing objects")

    def test_arguments_that_were_not_recorded_are_told_from_shortened_ones(
        self, client, path
    ) -> None:
        arguments = {semconv.GEN_AI_TOOL_CALL_ARGUMENTS: '{"a": "x...[900 characters]"}'}
        trace = stored(path, called("mail"), called("send", **arguments))
        without, shortened = (self.call(client, trace, tool) for tool in ("mail", "send"))
        assert "were not recorded:" in without
        assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in without
        assert "were not recorded in full:" in shortened
        assert "CAPTURE_MESSAGE_CONTENT" not in shortened

    def test_a_deny_leads_to_the_rules_that_were_tried(self, client, trace) -> None:
        shown = self.call(client, trace, "rm")
        assert "decides  when args[&#34;path&#34;] != &#34;x&#34; -&gt; True" in shown

    def test_the_draft_lets_the_call_through_and_no_other(
        self, client, trace, shell, tmp_path
    ) -> None:
        shown = html.unescape(self.call(client, trace, "rm"))
        [_, new] = [line for line in shown.splitlines() if "when: " in line and line[:1] in "+-"]
        edited = POLICY.replace("""'args["path"] != "x"'""", new.partition("when: ")[2])
        assert edited != POLICY
        shell.write_text(edited)
        assert client.get("/policy/replay").text.count("deny -&gt; allow") == 2
        subject = Subject.open([shell]).dry_run()
        assert subject.judge(Call("rm", ARGS)).decision == "allow"
        assert subject.judge(Call("rm", {**ARGS, "deep": False})).decision == "deny"
        assert '"verdict": "allow"' in shown

    @pytest.mark.parametrize(
        ("selector", "gap"),
        [
            ("when_argument_from: {path: untrusted}", "results not recorded"),
            ("unless_user_said: [path]", "user and prompt not recorded"),
            ("when_user: {role: guest}", "user and prompt not recorded"),
        ],
    )
    def test_no_verdict_and_no_draft_where_what_a_rule_looks_at_is_not_recorded(
        self, client, path, shell, selector, gap
    ) -> None:
        """The page showed a deny, and a draft against it, for a call that was rightly allowed."""
        shell.write_text(POLICY.replace("when: ", f"{selector}, when: "))
        arguments = {semconv.GEN_AI_TOOL_CALL_ARGUMENTS: json.dumps(ARGS)}
        labels = {semconv.LABELS: ["untrusted"]}
        shown = self.call(client, stored(path, called("rm", **labels, **arguments)), "rm")
        assert f"cannot be judged  rm: {gap}" in shown
        assert "shell/no-rm" in shown
        for claim in ("deny  rm", "decides", "Nothing is removed here.", "Let this call through"):
            assert claim not in shown

    def test_the_case_of_the_draft_fails_until_the_policy_is_edited(
        self, client, path, shell
    ) -> None:
        """Without labels and agent it was green already, and guarded nothing."""
        rule = POLICY.replace("when: ", "when_labels: [untrusted], agent: helper, when: ")
        shell.write_text(rule)
        arguments = {semconv.GEN_AI_TOOL_CALL_ARGUMENTS: json.dumps(ARGS)}
        labels = {semconv.LABELS: ["untrusted"]}
        trace = stored(path, called("rm", "deny", **DENIED, **labels, **arguments))
        shown = html.unescape(self.call(client, trace, "rm"))
        [case] = re.findall("^[+] (- .*)</pre>", shown, re.MULTILINE)
        [_, new] = [line for line in shown.splitlines() if "when: " in line and line[:1] in "+-"]
        cases = shell.parent / "cases" / shell.name
        cases.parent.mkdir()
        cases.write_text(f"suite: one\ncases:\n  {case}\n")
        [before] = run([shell])
        shell.write_text(rule.replace("""'args["path"] != "x"'""", new.partition("when: ")[2]))
        [after] = run([shell])
        assert (before.is_red, after.is_red) == (True, False)

    def test_the_draft_lets_a_call_through_for_which_the_condition_fails(
        self, client, path, shell
    ) -> None:
        """The condition was still evaluated, raised and denied: "another rule decides"."""
        arguments = {semconv.GEN_AI_TOOL_CALL_ARGUMENTS: '{"way": "far"}'}
        trace = stored(path, called("rm", "deny", **DENIED, **arguments))
        shown = html.unescape(self.call(client, trace, "rm"))
        assert """args != {'way': 'far'} and (args[\\"path\\"] != \\"x\\")""" in shown
        assert "still" not in shown

    def test_the_rule_that_decides_in_spite_of_the_draft_is_named(
        self, client, trace, shell
    ) -> None:
        shell.write_text(POLICY + "  - {deny: '*', id: nothing}\n")
        shown = self.call(client, trace, "rm")
        assert "still answered with <code>deny</code>, by <code>shell/nothing</code>." in shown

    def test_a_condition_is_not_shown_as_tested_on_arguments_that_were_not_recorded(
        self, client, path
    ) -> None:
        shown = html.unescape(self.call(client, stored(path, called("rm")), "rm"))
        assert "cannot be judged  rm: arguments not captured" in shown
        assert """when args["path"] != "x" -> not tested""" in shown
        assert "raises" not in shown

    def test_a_call_without_its_arguments_has_no_draft(self, client, path, trace) -> None:
        shown = self.call(client, trace, "mail")
        assert "The arguments of this call were not recorded" in shown
        assert "Let this call through" not in shown

    def test_a_candidate_is_put_to_the_same_calls(self, path, shell, trace, tmp_path) -> None:
        other = tmp_path / "other.yaml"
        other.write_text("version: 1\npolicies: [{allow: rm}, {deny: mail, id: strict}]")
        settings = Settings.of_start(
            store=path, port=PORT, approver="u", policies=(str(shell),), candidate=(str(other),)
        )
        with client_of(settings) as client:
            client.get(f"/?token={settings.token}")
            shown = client.get("/policy/replay").text
            assert "2 of the newest 2 calls would be decided differently" in shown
            assert "other/strict" in shown
            assert "The candidate" in self.call(client, trace, "rm")

    def test_calls_that_a_stop_denied_are_left_out_of_a_replay(self, client, path) -> None:
        stop = {semconv.POLICY_ID: "stop", semconv.POLICY_RULE_ID: "stop-1a2b"}
        stored(path, called("rm", "deny", **{**DENIED, **stop}))
        shown = client.get("/policy/replay").text
        assert "1 call left out" in shown
        assert "stop/stop-1a2b (1)." in shown

    def test_without_a_policy_it_says_how_to_give_one(self, path) -> None:
        trace = stored(path, called("rm"))
        settings = Settings.of_start(store=path, port=PORT, approver="u")
        with client_of(settings) as client:
            client.get(f"/?token={settings.token}")
            for page in ("/policy", "/policy/replay", f"/policy/{trace}/1"):
                assert "otelhooks ui --policy policy.yaml" in client.get(page).text

    @pytest.mark.parametrize("page", ["/policy/abc/1", "/policy/{}/1"])
    def test_a_call_that_is_not_there(self, client, trace, page) -> None:
        assert client.get(page.format(trace)).status_code == 404


class TestAudit:
    @pytest.fixture
    def settings(self, path: Path, tmp_path: Path) -> Settings:
        folder = tmp_path / "audit"
        return Settings.of_start(store=path, port=PORT, approver="u", audit=str(folder))

    @pytest.fixture
    def segment(self, tmp_path: Path) -> Path:
        """The trail of a program that made two calls, one of them denied."""
        otelhooks.instrument(audit=tmp_path / "audit", policies=[policy.deny("rm")])
        otelhooks.call_tool("look_up", {}, lambda: "")
        with pytest.raises(otelhooks.errors.Denied):
            otelhooks.call_tool("rm", {}, lambda: "")
        otelhooks.uninstrument()
        [segment] = (tmp_path / "audit").glob("*.jsonl")
        return segment

    def test_a_whole_trail_has_no_findings(self, client, segment) -> None:
        shown = client.get("/audit").text
        assert "No findings." in shown
        [day] = [row for row in shown.split("<tr") if "<td>20" in row]
        assert day.count('<td class="number">1</td>') == 2

    def test_withheld_results_have_a_column(self, client, settings) -> None:
        hide = hooks.post_tool_call_transform(lambda data: types.HookResult(allow=False))
        otelhooks.instrument(audit=settings.audit, hooks=[hide])
        otelhooks.call_tool("cat", {}, lambda: "")
        otelhooks.uninstrument()
        shown = client.get("/audit").text
        [day] = [row for row in shown.split("<tr") if "<td>20" in row]
        cells = re.findall(r'<td class="number">(.*?)</td>', day)
        assert dict(zip(("allow", "modify", "ask", "deny", "withheld"), cells, strict=True)) == {
            "allow": "1",
            "modify": "",
            "ask": "",
            "deny": "",
            "withheld": "1",
        }

    def test_an_edit_is_found(self, client, segment) -> None:
        segment.write_text(segment.read_text().replace("look_up", "hack_up", 1))
        shown = client.get("/audit").text
        assert "error: edited" in shown
        assert "No findings." not in shown

    def test_without_a_trail_it_says_so(self, client) -> None:
        assert "cannot be read" in client.get("/audit").text


class TestStops:
    @pytest.fixture(autouse=True)
    def place(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
        monkeypatch.setenv("OTELHOOKS_STOPS", str(tmp_path / "stops"))
        return place_of(str(tmp_path / "stops"))

    def test_tools_are_stopped_and_continue(self, client, settings, path, place) -> None:
        stored(path)
        form = {"form": form_token(settings.token), "agent": "helper", "why": "Enough."}
        shown = client.post("/stops", data=form, headers=OURS).text
        [stop] = place.kept()
        assert (stop.tool, stop.agent, stop.why, stop.by) == ("*", "helper", "Enough.", "u-17")
        assert "Stopped: every tool of agent `helper`" in shown
        assert "Enough." in client.get("/runs").text
        form = {"form": form_token(settings.token), "lift": stop.id}
        assert "Stopped:" not in client.post("/stops", data=form, headers=OURS).text
        assert place.kept() == ()

    @pytest.mark.parametrize(
        ("form", "headers"), [({"form": "x"}, OURS), ({}, {"origin": "https://evil.example"})]
    )
    def test_another_page_cannot_lift_one(
        self, client, settings, path, place, form, headers
    ) -> None:
        place.put(stop_now(why=HOSTILE, by=HOSTILE))
        form = {"form": form_token(settings.token), "lift": place.kept()[0].id} | form
        assert client.post("/stops", data=form, headers=headers).status_code == 403
        assert len(place.kept()) == 1
        stored(path)
        assert "<script>alert" not in client.get("/").text

    def test_nor_can_a_console_that_only_shows(self, path, place) -> None:
        place.put(stop_now())
        stored(path)
        settings = Settings.of_start(store=path, port=PORT, approver="u", can_answer=False)
        with client_of(settings) as client:
            shown = client.get(f"/?token={settings.token}").text
            assert "Stopped: every tool" in shown
            assert "Let it continue" not in shown
            form = {"form": form_token(settings.token), "lift": place.kept()[0].id}
            assert client.post("/stops", data=form, headers=OURS).status_code == 403

    def test_a_tool_that_cannot_be_named_is_an_error(self, client, settings, path, place) -> None:
        form = {"form": form_token(settings.token), "tool": "a, b"}
        assert client.post("/stops", data=form, headers=OURS).status_code == 400
        assert place.kept() == ()


class TestCommand:
    def test_without_its_packages_it_says_what_to_install(self, monkeypatch) -> None:
        import sys

        monkeypatch.setitem(sys.modules, "uvicorn", None)
        result = CliRunner().invoke(cli, ["ui"])
        assert result.exit_code == 2
        assert "install `otelhooks[ui]`" in result.output

    def test_an_approver_is_one_name(self) -> None:
        result = CliRunner().invoke(cli, ["ui", "--as", "ada,bob"])
        assert result.exit_code == 2
        assert "is not one approver" in result.output

    @pytest.mark.parametrize("option", ["--policy", "--candidate", "--store"])
    def test_a_file_that_is_missing_is_an_error(self, tmp_path, monkeypatch, option) -> None:
        monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
        missing = str(tmp_path / "nope")
        result = CliRunner().invoke(cli, ["ui", "--port", "0", option, missing])
        assert result.exit_code == 2
        assert missing in result.output

    def test_a_token_for_listeners_is_long(self, monkeypatch) -> None:
        monkeypatch.setenv("OTELHOOKS_EVENTS_TOKEN", "short")
        result = CliRunner().invoke(cli, ["ui", "--port", "0"])
        assert result.exit_code == 2
        assert "OTELHOOKS_EVENTS_TOKEN has fewer than 20 characters" in result.output

    def test_a_port_that_is_taken_is_an_error(self) -> None:
        import socket

        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            result = CliRunner().invoke(cli, ["ui", "--port", str(taken.getsockname()[1])])
        assert result.exit_code == 2
        assert "cannot be used: Address already in use" in result.output
