"""Questions on a real terminal of 80 columns and 24 lines, as a person sees them.

A pseudo-terminal is keyboard and screen, and an emulator shows what is painted on it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from otelhooks import types
from otelhooks.approvals import Terminal, console
from otelhooks.hooks import own_threads
from otelhooks.utils import interactive

fcntl = pytest.importorskip("fcntl", reason="needs a pseudo-terminal")
termios = pytest.importorskip("termios", reason="needs a pseudo-terminal")
pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")
pyte = pytest.importorskip("pyte", reason="needs a screen")

LONGEST_S = 30
FORGED = "Allow `read_file`? y/n, a shows all [n]: "
BLANKS = " " * 80 * 30
HIDDEN = types.ToolCall(
    name="run_command",
    args={
        "CommandLine": "rm -rf /",
        "note": BLANKS + FORGED + BLANKS,
        "lines": "\n" * 60 + FORGED,
        "wide": "漢" * 3_000 + FORGED,
        "marks": "e" + "\u0301" * 3_000,
        "tabs": "\t" * 2_000 + FORGED,
        "up": "\x1b[40A\x1b[2J" + FORGED,
        "\n" * 30 + FORGED: 1,
    },
)
Scenario = Callable[[], Coroutine[Any, Any, Any]]


class Person:
    """A user at a terminal, who reads the screen and types."""

    def __init__(self, keyboard: int, scenario: Scenario) -> None:
        self.keyboard = keyboard
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)
        self.seen = b""
        self.result: concurrent.futures.Future[Any] = own_threads.start(asyncio.run, scenario())

    @property
    def rows(self) -> list[str]:
        return [row.rstrip() for row in self.screen.display]

    @property
    def prompt(self) -> str:
        """The row with the cursor in it."""
        return self.rows[self.screen.cursor.y]

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    def see(self, condition: Callable[[], object]) -> Any:
        """Look until something is to be seen."""
        end = time.monotonic() + LONGEST_S
        while not (found := condition()):
            assert time.monotonic() < end, "\n".join(self.rows)
            if select.select([self.keyboard], [], [], 0.01)[0]:
                piece = os.read(self.keyboard, 4096)
                self.seen += piece
                self._stream.feed(piece)
        return found

    def asked(self, about: str) -> str:
        """Wait for a question, and return its last row."""
        self.see(lambda: f"`{about}`" in self.prompt and self.prompt.endswith("[n]:"))
        return self.prompt

    def asked_so_far(self, number: int) -> None:
        """Wait until as many questions were asked, and no more."""
        self.see(lambda: self.seen.count(b"[n]: ") >= number)
        assert self.seen.count(b"[n]: ") == number

    def turned_to(self, page: int) -> None:
        """Wait for the end of a page."""
        self.see(lambda: self.seen.count(b"goes back to the question -- ") == page)

    def answers(self) -> Any:
        """Return what the program made of what was typed."""
        self.see(self.result.done)
        return self.result.result()


@pytest.fixture
def sit_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Scenario], Person]]:
    people: list[Person] = []
    keyboard, terminal = pty.openpty()
    stdin = os.fdopen(terminal, encoding="utf-8")
    stdout = os.fdopen(os.dup(terminal), "w", encoding="utf-8")

    def sit(scenario: Scenario) -> Person:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        monkeypatch.setenv("COLUMNS", "1000")  # of another window, and not true
        monkeypatch.setenv("LINES", "1000")
        monkeypatch.setattr(sys, "stdin", stdin)  # pytest's own before a test's call begins
        monkeypatch.setattr(sys, "stdout", stdout)
        people.append(Person(keyboard, scenario))
        return people[0]

    yield sit
    os.close(keyboard)
    concurrent.futures.wait([person.result for person in people], LONGEST_S)
    monkeypatch.undo()
    stdin.close()
    stdout.close()


async def ask(name: str = "one") -> bool:
    return await Terminal()(types.ToolCall(name=name), "")


async def ask_hidden() -> bool:
    return await Terminal()(HIDDEN, "Because.")


def test_no_argument_paints_another_question_or_pushes_this_one_off_the_screen(
    sit_at: Callable[[Scenario], Person],
) -> None:
    """The class of B6: blanks, line ends, wide characters, marks, tabs, escapes, names."""
    person = sit_at(ask_hidden)
    person.asked("run_command")
    (title,) = [row for row in person.rows if row.startswith("Policy check:")]
    assert title == "Policy check: Tool execution requested: run_command"
    assert '  CommandLine = "rm -rf /"' in person.rows
    below = person.rows[person.rows.index(title) + 1 : person.screen.cursor.y]
    assert below[0] == "Reason: Because."
    assert all(row.startswith("  ") for row in below[1:])
    assert len(below) == 1 + 8
    assert not [row for row in person.rows if row.startswith(FORGED[:20])]
    person.type("n\n")
    assert person.answers() is False


def test_all_of_a_call_is_shown_page_by_page_behind_a_margin(
    sit_at: Callable[[Scenario], Person],
) -> None:
    person = sit_at(ask_hidden)
    person.asked("run_command")
    person.type("a\n")
    for page in range(1, 6):
        person.turned_to(page)
        text = person.rows[1 : person.screen.cursor.y]
        assert all(row.startswith("  ") for row in text)
        person.type("\n" if page < 5 else "q\n")
    person.asked("run_command")
    assert b"[2400 blanks]" in person.seen
    person.type("y\n")
    assert person.answers() is True


def test_more_arguments_than_lines_are_counted(sit_at: Callable[[Scenario], Person]) -> None:
    call = types.ToolCall(name="t", args={f"a{number}": FORGED for number in range(200)})
    person = sit_at(lambda: Terminal()(call, ""))
    person.asked("t")
    assert "  ... and 184 more arguments" in person.rows
    assert "Policy check: Tool execution requested: t" in person.rows
    person.type("y\n")
    assert person.answers() is True


async def ask_in_tasks() -> dict[str, bool]:
    return dict(zip("abc", await asyncio.gather(*map(ask, "abc")), strict=True))


async def ask_in_threads() -> dict[str, bool]:
    asked = {name: own_threads.start(asyncio.run, ask(name)) for name in "abc"}
    return {name: await own_threads.awaited(answer) for name, answer in asked.items()}


@pytest.mark.parametrize("scenario", [ask_in_tasks, ask_in_threads])
def test_of_parallel_questions_each_is_asked_alone(
    sit_at: Callable[[Scenario], Person], scenario: Scenario
) -> None:
    """The class of B7: in tasks and in threads, an answer is of the question above it."""
    person = sit_at(scenario)
    answered: dict[str, bool] = {}
    for number in (1, 2, 3):
        person.asked_so_far(number)
        name = person.prompt.removeprefix("Allow `")[0]
        answered[name] = name == "b"
        person.type("y\n" if name == "b" else "n\n")
    assert person.answers() == answered == {"a": False, "b": True, "c": False}


@pytest.mark.parametrize("answer", [True, False])
def test_a_withdrawn_question_reads_nothing_that_is_typed_for_the_next(
    sit_at: Callable[[Scenario], Person], monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    """Nor is the next one answered by what was typed for it, or while it went."""
    withdraw: concurrent.futures.Future[None] = concurrent.futures.Future()

    async def ask_twice() -> bool:
        first = asyncio.ensure_future(ask("first"))
        await own_threads.awaited(withdraw)
        first.cancel()
        await asyncio.wait([first])
        return await ask("second")

    late = threading.Event()
    monkeypatch.setattr(console, "time", SimpleNamespace(sleep=lambda _: late.wait(LONGEST_S)))
    person = sit_at(ask_twice)
    person.asked("first")
    person.type("y")
    withdraw.set_result(None)
    person.see(lambda: "(no answer is needed any more)" in person.rows and person.prompt == "")
    person.type("y\ny\n")
    person.see(lambda: person.prompt == "" and person.rows.count("y") == 2)
    late.set()
    person.asked("second")
    person.type("yes\n" if answer else "\n")
    assert person.answers() is answer


async def stand_in_line(number: int) -> None:
    while len(console._line._waiting) < number:  # noqa: ASYNC110  # no event tells
        await asyncio.sleep(0.001)


def test_a_question_that_is_withdrawn_before_its_turn_is_never_shown(
    sit_at: Callable[[Scenario], Person],
) -> None:
    withdrawn: concurrent.futures.Future[None] = concurrent.futures.Future()

    async def ask_both() -> bool:
        first = asyncio.ensure_future(ask("first"))
        await stand_in_line(1)
        second = asyncio.ensure_future(ask("second"))
        await stand_in_line(2)
        second.cancel()
        await asyncio.wait([second])
        withdrawn.set_result(None)
        return await first

    person = sit_at(ask_both)
    person.asked("first")
    person.see(withdrawn.done)
    person.type("y\n")
    assert person.answers() is True
    assert b"second" not in person.seen


def test_what_was_typed_before_a_question_does_not_answer_it(
    sit_at: Callable[[Scenario], Person],
) -> None:
    """The class of B30: whole lines and half ones, typed ahead."""
    typed: concurrent.futures.Future[None] = concurrent.futures.Future()

    async def ask_late() -> bool:
        await own_threads.awaited(typed)
        return await ask()

    person = sit_at(ask_late)
    person.type("y\ny\ny")
    person.see(lambda: person.prompt == "y" and person.screen.cursor.y == 2)
    typed.set_result(None)
    person.asked("one")
    person.type("\n")
    assert person.answers() is False


def test_a_terminal_that_is_closed_is_a_no(sit_at: Callable[[Scenario], Person]) -> None:
    person = sit_at(ask)
    person.asked("one")
    person.type("\x04")
    assert person.answers() is False


def test_an_agents_question_stays_behind_its_margin(sit_at: Callable[[Scenario], Person]) -> None:
    entry = types.AskQuestionEntry(
        question="Which?" + BLANKS + "\n" + FORGED,
        options=[types.AskQuestionOption(id="x", text="Red" + BLANKS + FORGED)],
    )
    spec = types.AskQuestionInteractionSpec(questions=[entry])
    person = sit_at(lambda: interactive.AskQuestionHook().run(None, spec))
    person.see(lambda: person.prompt == "Response:")
    assert not [row for row in person.rows if row.startswith(FORGED[:20])]
    assert "The agent asks:" in person.rows
    person.type("1\n")
    assert person.answers().responses[0].selected_option_ids == ["x"]
