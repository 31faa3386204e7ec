"""Kill -9 of the console, and of the program that waits, at random points around an answer.

``make kills`` does it 200 times, the other tests a few times. Programs are forked from one that has
imported everything, so that most of the time is spent where they can be killed.
"""

from __future__ import annotations

import contextlib
import http.client
import multiprocessing
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import uvicorn

import otelhooks
from otelhooks import approvals, policy
from otelhooks.approvals.questions import Question
from otelhooks.approvals.store_questions import StoreQuestions
from otelhooks.ui.app import create_app
from otelhooks.ui.guard import form_token
from otelhooks.ui.site import Settings

KILLS = int(os.environ.get("OTELHOOKS_KILLS", "8"))
LONGEST_S = 60

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload([__name__])


def ask(store: Path, said: Path, to: str) -> None:
    """Make one call that waits for a person."""

    def say(text: str) -> None:
        with said.open("a") as file:
            file.write(f"{text}\n")

    otelhooks.instrument(
        policies=[policy.ask_user("send_email")],
        approvals=approvals.Queue(store),
        approval_timeout=LONGEST_S,
    )

    @otelhooks.tool
    def send_email(to: str) -> None:
        say(f"sent to {to}")

    try:
        send_email(to)
    except otelhooks.errors.Denied:
        say(f"denied {to}")


def serve(settings: Settings, listening: socket.socket) -> None:
    """Be a console."""
    uvicorn.Server(uvicorn.Config(create_app(settings), log_level="error")).run(sockets=[listening])


class Console:
    """A console, which is started again when it was killed."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._start()

    def _start(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            self._settings = Settings.of_start(store=self._store, port=port, approver="ada")
            self._process = processes.Process(target=serve, args=(self._settings, listening))
            self._process.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def revive(self) -> None:
        if not self._process.is_alive():
            self._start()

    def answer(self, question: Question, answer: str, args: str) -> int | None:
        """Post an answer as the page does; return the status of HTTP, None if there was none."""
        there = self._settings
        address = urlsplit(there.address)
        form = {"form": form_token(there.token), "digest": question.digest, "answer": answer}
        headers = {
            "Cookie": f"otelhooks={there.token}",
            "Origin": f"http://{address.netloc}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        with contextlib.closing(
            http.client.HTTPConnection(address.netloc, timeout=LONGEST_S)
        ) as client:
            try:
                page = f"{there.root}/approvals/{question.id}"
                client.request("POST", page, urlencode({**form, "args": args}), headers)
                return client.getresponse().status
            except (OSError, http.client.HTTPException):
                return None


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    found = Console(tmp_path / "store.db")
    yield found
    found.kill()


def waiting(questions: StoreQuestions, to: str) -> Question:
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until:
        for one in questions.all():
            if one.facts.get("args") == {"to": to}:
                return one
        time.sleep(0.01)
    raise AssertionError("nothing was asked")


def outcome(questions: StoreQuestions, id: str) -> str:
    return questions.find(id).status


@pytest.mark.timeout(KILLS * 60)
def test_a_kill_loses_no_answer_and_makes_none(tmp_path: Path, console: Console) -> None:
    choose, store = random.Random(KILLS), tmp_path / "store.db"
    questions, counts = StoreQuestions(store), Counter[str]()
    questions.prepare()
    for number in range(KILLS):
        said, to = tmp_path / f"{number}.txt", f"n{number}"
        agent: Any = processes.Process(target=ask, args=(store, said, to))
        agent.start()
        question = waiting(questions, to)
        answer = choose.choice(["approve", "approve", "deny"])
        edited = f"e{number}" if answer == "approve" and choose.random() < 0.3 else to
        given = {"answer": answer, "args": f'{{"to": "{edited}"}}'}
        victim = choose.choice(["agent", "console"])
        killed = threading.Timer(choose.random() * 0.15, agent.kill)
        if victim == "console":
            killed = threading.Timer(choose.random() * 0.06, console.kill)
        killed.start()
        first = console.answer(question, **given)
        killed.join()
        console.revive()

        if outcome(questions, question.id) == "pending":
            assert first is None  # who was told that it counts is not asked again
            first = console.answer(question, **given)
            assert first == 303
            counts["answered after the kill"] += 1
        assert first in (303, None)
        is_approved = answer == "approve"
        assert outcome(questions, question.id) == ("approved" if is_approved else "rejected")
        for other in ("approve", "deny"):
            assert console.answer(question, other, given["args"]) == 400  # it has been

        agent.join(LONGEST_S)
        text = said.read_text() if said.exists() else ""
        expected = f"sent to {edited}\n" if is_approved else f"denied {to}\n"
        assert text in ((expected,) if victim == "console" else (expected, ""))
        assert questions.find(question.id).taken or victim == "agent"
        counts[f"{victim} killed, {answer}, {'ended' if text else 'gone'}"] += 1
    print(*(f"{count} {what}" for what, count in sorted(counts.items())), sep="\n")
