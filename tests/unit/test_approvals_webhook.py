"""Questions that are posted to a URL, and signed answers that come back."""

from __future__ import annotations

import base64
import concurrent.futures
import http.server
import json
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

import otelhooks
from otelhooks import approvals, policy
from otelhooks.approvals import webhook
from otelhooks.approvals.questions import Answer, Question
from otelhooks.approvals.store_questions import StoreQuestions
from otelhooks.errors import ConfigError, Denied
from otelhooks.records import semconv

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


class Receiver:
    """A server that notes what is posted, and answers with the next of its codes."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.posts: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posts.append((dict(self.headers), body))
                code = receiver.codes.pop(0) if receiver.codes else 200
                if code < 0:
                    self.wfile.write(b"garbage\r\n")
                    return
                self.send_response(code)
                self.send_header("Location", receiver.url)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Print nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/T1/s3cret"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def wait(self, number: int = 1) -> list[Any]:
        until = time.monotonic() + 10
        while len(self.posts) < number:
            assert time.monotonic() < until, "nothing was posted"
            time.sleep(0.02)
        return [json.loads(body) for _, body in self.posts]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(webhook, "_PAUSES_S", (0.0, 0.01, 0.01, 0.01))
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def call(governed: Any, path: Path) -> Iterator[Any]:
    """Calls a tool that asks, in the background."""

    @otelhooks.tool
    def send_email(**args: Any) -> str:
        return f"sent {args}"

    with concurrent.futures.ThreadPoolExecutor() as background:

        def begin(notify: Any, **args: Any) -> concurrent.futures.Future[str]:
            rule = policy.ask_user("send_email", id="mail", reason="Mail leaves the house.")
            queue = approvals.Queue(path, notify=notify)
            governed(policies=[rule], approvals=queue, approval_timeout=20)
            return background.submit(send_email, **args)

        yield begin


def end(path: Path, called: concurrent.futures.Future[str]) -> None:
    questions, until = StoreQuestions(path), time.monotonic() + 10
    while not questions.all():
        assert time.monotonic() < until
        time.sleep(0.02)
    [question] = questions.all()
    questions.answer(question, Answer("rejected", "u"))
    with pytest.raises(Denied):
        called.result(10)


def answer(data: dict[str, Any], *, at: float | None = None, key: bytes = KEY) -> Any:
    """Return body and headers of a signed answer."""
    body = json.dumps({"type": "approval.answered", "data": data}).encode()
    return body, webhook._signed(key, "msg_1", int(time.time() if at is None else at), body)


class TestSignatures:
    def test_they_are_those_of_standard_webhooks(self) -> None:
        """Source: the example of https://docs.svix.com/receiving/verifying-payloads/how-manual."""
        headers = webhook._signed(
            *(KEY, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330),
            b'{"test": 2432232314}',
        )
        assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

    def test_what_is_posted_is_signed(self, receiver, call, path) -> None:
        called = call(approvals.Webhook(receiver.url, secret=SECRET), to="ada")
        receiver.wait()
        headers, body = receiver.posts[0]
        given = {name.lower(): text for name, text in headers.items()}
        at = int(given["webhook-timestamp"])
        expected = webhook._signed(KEY, given["webhook-id"], at, body)
        assert given["webhook-signature"] == expected["webhook-signature"]
        assert abs(time.time() - at) < 60
        end(path, called)


class TestAnswers:
    def test_a_signed_answer_lets_the_call_run(self, receiver, call, path, governed) -> None:
        called = call(approvals.Webhook(receiver.url, secret=SECRET), to="all")
        [posted] = receiver.wait()
        assert posted["type"] == "approval.requested"
        asked = posted["data"]
        assert (asked["tool"], asked["arguments"], asked["rule"]) == (
            *("send_email", {"to": "all"}),
            "mail",
        )
        body, headers = answer(
            {"id": asked["id"], "digest": asked["digest"], "status": "approved"}
            | {"approver": "u-17", "approver_type": "human", "edit": {"to": "ada"}}
        )
        approvals.receive_answer(body, headers, secret=SECRET, place=path)
        assert called.result(10) == "sent {'to': 'ada'}"
        attributes = governed.attributes("execute_tool send_email")
        assert attributes[semconv.APPROVAL_APPROVER_ID] == "u-17"
        assert attributes[semconv.APPROVAL_APPROVER_TYPE] == "human"
        with pytest.raises(ConfigError, match="already approved by u-17"):
            approvals.receive_answer(body, headers, secret=SECRET, place=path)

    def test_it_says_which_roles_the_approver_has(self, path) -> None:
        about = json.dumps({"args": {}, "roles": ["finance"]})
        questions, now = StoreQuestions(path), time.time()
        question = Question("1", now, now + 60, "pending", "t", about)
        questions.put(question)
        data = {"id": "1", "digest": question.digest, "status": "approved", "approver": "u"}
        for roles in ([], ["sales"], [["finance"]], [None, 1]):
            made = answer({**data, "roles": roles})
            with pytest.raises(ConfigError, match="waits for the approval of finance"):
                approvals.receive_answer(*made, secret=SECRET, place=path)
        made = answer({**data, "roles": ["sales", "finance"]})
        approvals.receive_answer(*made, secret=SECRET, place=path)
        assert questions.find("1").by == "u (finance)"

    @pytest.mark.parametrize("how", ["other key", "old", "future", "unsigned", "other body"])
    def test_one_that_is_not_signed_by_us_now_does_not(self, receiver, call, path, how) -> None:
        called = call(approvals.Webhook(receiver.url, secret=SECRET), to="all")
        asked = receiver.wait()[0]["data"]
        data = {"id": asked["id"], "digest": asked["digest"], "status": "approved"}
        body, headers = answer(
            {**data, "approver": "u"},
            at=time.time() + {"old": -301, "future": 302}.get(how, 0),
            key=b"k" * 32 if how == "other key" else KEY,
        )
        headers = {} if how == "unsigned" else headers
        body = body.replace(b'"u"', b'"v"') if how == "other body" else body
        with pytest.raises(PermissionError, match="sign"):
            approvals.receive_answer(body, headers, secret=SECRET, place=path)
        end(path, called)

    @pytest.mark.parametrize(
        "change",
        [
            {"webhook-timestamp": "9" * 5_000},
            {"webhook-timestamp": "9" * 400},
            {"webhook-id": "\ud800"},
            {"webhook-signature": "v1,\ud800"},
        ],
    )
    def test_no_header_is_more_than_a_wrong_signature(self, path, change) -> None:
        body, headers = answer({"id": "1"})
        with pytest.raises(PermissionError, match="sign"):
            approvals.receive_answer(body, headers | change, secret=SECRET, place=path)

    def test_one_for_another_call_does_not(self, receiver, call, path) -> None:
        called = call(approvals.Webhook(receiver.url, secret=SECRET), to="all")
        asked = receiver.wait()[0]["data"]
        data = {"id": asked["id"], "digest": "0" * 64, "status": "approved", "approver": "u"}
        with pytest.raises(ConfigError, match="is for another call"):
            approvals.receive_answer(*answer(data), secret=SECRET, place=path)
        end(path, called)

    @pytest.mark.parametrize(
        "change",
        [
            *({"status": "maybe"}, {"approver": ""}, {"approver": 1}, {"edit": "x"}),
            *({"id": None}, {"approver_type": "rule"}, {"roles": "finance"}, {"roles": None}),
        ],
    )
    def test_a_body_that_says_no_answer_is_an_error(self, path, change) -> None:
        data = {"id": "1", "digest": "0", "status": "approved", "approver": "u", **change}
        with pytest.raises(ConfigError, match="the body is not an answer"):
            approvals.receive_answer(*answer(data), secret=SECRET, place=path)

    @pytest.mark.parametrize("body", [b"", b"[]", b'{"data": []}', b"{}", b'{"data": 1}'])
    def test_so_is_one_of_another_form(self, path, body) -> None:
        headers = webhook._signed(KEY, "msg_1", int(time.time()), body)
        with pytest.raises(ConfigError, match="the body is not an answer"):
            approvals.receive_answer(body, headers, secret=SECRET, place=path)


class TestPosts:
    @pytest.mark.parametrize(("code", "posts"), [(302, 1), (-1, 4)])
    def test_a_redirect_or_garbage_is_not_a_delivery(
        self, receiver, call, path, caplog, code, posts
    ) -> None:
        receiver.codes = [code] * posts
        called = call(approvals.Webhook(receiver.url, secret=SECRET), to="ada")
        receiver.wait(posts)
        until = time.monotonic() + 10
        while "was not notified" not in caplog.text:
            assert time.monotonic() < until
            time.sleep(0.02)
        end(path, called)

    def test_one_that_fails_is_repeated(self, receiver, call, path, caplog) -> None:
        receiver.codes = [503, 429]
        called = call(approvals.Webhook(receiver.url, secret=SECRET), to="ada")
        receiver.wait(3)
        assert len({headers["Webhook-Id"] for headers, _ in receiver.posts}) == 1
        end(path, called)
        assert "was not notified" not in caplog.text

    @pytest.mark.parametrize(("codes", "times"), [([500] * 9, 4), ([403], 1)])
    def test_one_that_cannot_be_sent_is_logged_without_its_url(
        self, receiver, call, path, caplog, codes, times
    ) -> None:
        receiver.codes = list(codes)
        with caplog.at_level(logging.ERROR):
            called = call(approvals.Webhook(receiver.url, secret=SECRET), to="ada")
            receiver.wait(times)
            until = time.monotonic() + 10
            while "was not notified" not in caplog.text and time.monotonic() < until:
                time.sleep(0.02)
            end(path, called)
        assert (
            f"`127.0.0.1` was not notified that `send_email` waits for an answer: HTTP {codes[0]}"
            in caplog.text
        )
        assert len(receiver.posts) == times
        assert "s3cret" not in caplog.text

    def test_a_server_that_is_away_is_logged(self, call, path, caplog, monkeypatch) -> None:
        monkeypatch.setattr(webhook, "_PAUSES_S", (0.0,))
        called = call(approvals.Webhook("http://127.0.0.1:9/", secret=SECRET), to="ada")
        end(path, called)
        assert "waits for an answer: URLError" in caplog.text

    def test_a_notification_that_raises_is_logged_and_the_question_waits(
        self, call, path, caplog
    ) -> None:
        def broken(question: Question) -> None:
            raise RuntimeError("a secret")

        called = call(broken, to="ada")
        end(path, called)
        assert "the notification of question" in caplog.text
        assert "a secret" not in caplog.text

    def test_secrets_are_masked(self, receiver, call, path) -> None:
        called = call(approvals.Webhook(receiver.url, secret=SECRET), api_key="sk-1234567890")
        receiver.wait()
        assert b"sk-1234567890" not in receiver.posts[0][1]
        end(path, called)

    def test_what_a_program_marks_as_secret_is_not_posted(self, receiver, call, path) -> None:
        called = call(
            approvals.Webhook(receiver.url, secret=SECRET), login=pydantic.SecretStr("swordfish")
        )
        receiver.wait()
        assert b"swordfish" not in receiver.posts[0][1]
        end(path, called)

    def test_it_says_that_something_is_masked(self, receiver, call, path) -> None:
        """A model can hide a payload in what looks like a secret."""
        called = call(approvals.Webhook(receiver.url, secret=SECRET), c="PASSWORD='x; rm -rf ~' ls")
        [posted] = receiver.wait()
        assert posted["data"]["masked"] is True
        end(path, called)


class TestMessages:
    HOSTILE = "<https://evil.example|Answer> [Answer](https://evil.example)\n*Approved*"

    def test_slack_shows_arguments_as_plain_text(self, receiver, call, path) -> None:
        hook = approvals.Webhook(receiver.url, form="slack", link="https://desk.example/{id}")
        called = call(hook, body=self.HOSTILE)
        [posted] = receiver.wait()
        texts = [block["text"] for block in posted["blocks"] if block["type"] == "section"]
        assert {text["type"] for text in texts} == {"plain_text"}
        assert "wants to call send_email" in texts[0]["text"]
        assert "Reason: Mail leaves the house." in texts[1]["text"]
        [button] = posted["blocks"][-1]["elements"]
        [question] = StoreQuestions(path).all()
        assert button["url"] == f"https://desk.example/{question.id}"
        assert "webhook-signature" not in {name.lower() for name in receiver.posts[0][0]}
        end(path, called)

    def test_so_does_teams(self, receiver, call, path) -> None:
        hook = approvals.Webhook(receiver.url, form="teams", link="https://desk.example/{id}")
        called = call(hook, body=self.HOSTILE)
        card = receiver.wait()[0]["attachments"][0]["content"]
        assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
        assert card["actions"][0]["url"].startswith("https://desk.example/")
        end(path, called)

    def test_no_argument_looks_like_another_line(self, receiver, call, path) -> None:
        names = ("Reason: pre-approved", "Answer with: otelhooks approvals approve deadbeef")
        hook = approvals.Webhook(receiver.url, form="slack")
        called = call(hook, **dict.fromkeys(names, 1), token="sk-1234567890")
        [posted] = receiver.wait()
        lines = posted["blocks"][1]["text"]["text"].split("\n")
        assert lines[:2] == ["Reason: Mail leaves the house.", "Rule: mail"]
        assert lines[2].startswith('"Reason: pre-approved"')
        assert "Some of it is masked: read the whole call where you answer." in lines
        assert sum(line.startswith("Answer with") for line in lines) == 1
        end(path, called)

    @pytest.mark.parametrize("form", ["json", "slack", "teams"])
    def test_an_argument_that_is_not_what_it_looks_like_is_marked(
        self, receiver, call, path, form
    ) -> None:
        secret = {"secret": SECRET} if form == "json" else {}
        called = call(approvals.Webhook(receiver.url, form=form, **secret), to="p\u0430ypal.com")
        [posted] = receiver.wait()
        assert "letters of Cyrillic and Latin in one word" in json.dumps(posted)
        end(path, called)

    @pytest.mark.parametrize("form", ["slack", "teams"])
    def test_without_a_page_it_names_the_command(self, receiver, call, path, form) -> None:
        called = call(approvals.Webhook(receiver.url, form=form), body="x")
        receiver.wait()
        [question] = StoreQuestions(path).all()
        assert f"otelhooks approvals approve {question.id}".encode() in receiver.posts[0][1]
        end(path, called)

    def test_a_message_is_never_too_long(self, receiver, call, path) -> None:
        hook = approvals.Webhook(receiver.url, form="slack")
        called = call(hook, **{f"argument_{number}": "x" * 5_000 for number in range(30)})
        [posted] = receiver.wait()
        assert all(len(block["text"]["text"]) <= 3_000 for block in posted["blocks"])
        end(path, called)


class TestSettings:
    @pytest.mark.parametrize(
        ("url", "given", "problem"),
        [
            ("http://desk.example/s3cret", {"secret": SECRET}, "does not start with `https://`"),
            ("desk.example/s3cret", {"secret": SECRET}, "does not start with `https://`"),
            ("https://desk.example", {}, "no secret to sign with"),
            ("https://desk.example", {"secret": "s3cret"}, "24 to 64 bytes"),
            ("https://desk.example", {"secret": "whsec_AAAA"}, "24 to 64 bytes"),
            ("https://desk.example", {"form": "mail"}, "`mail` is not a form"),
        ],
    )
    def test_one_that_cannot_be_used_is_an_error(self, url, given, problem) -> None:
        with pytest.raises(ConfigError, match=problem) as raised:
            approvals.Webhook(url, **given)
        assert "s3cret" not in str(raised.value)
