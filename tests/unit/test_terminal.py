"""Questions in the terminal."""

from __future__ import annotations

import asyncio
import builtins
import io
import sys
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from otelhooks import policy, types
from otelhooks.approvals import console, terminal
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import drive
from otelhooks.hooks.watch import ask_handlers
from otelhooks.utils import interactive

if TYPE_CHECKING:
    from collections.abc import Callable

CALL = types.ToolCall(name="run_command", args={"CommandLine": "ls"})


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A keyboard: what is typed, line by line, and the end of input after it."""

    def type_lines(*lines: str) -> None:
        rest = list(lines)

        def read(prompt: str) -> str:
            if not rest:
                raise EOFError
            return rest.pop(0)

        monkeypatch.setattr(builtins, "input", read)

    return type_lines


class TestSanitize:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("line1\n\tindented\r\x07\x1b[31mred\x1b[0m", "line1\n\tindentedred"),
            ("\x1b]0;title\x07after", "after"),
            ("\x1b]8;;http://x\x1b\\link", "link"),
            ("\x9b2Kx\x85y", "xy"),
            ("\x1bMup\x7f\x00", "up"),
            ("a\u202eb\u200bc\u2066d\ufeff", "abcd"),
            (3, "3"),
        ],
    )
    def test_what_moves_hides_or_reorders_is_taken_out(self, text: object, expected: str) -> None:
        assert terminal.sanitize(text) == expected


class TestInput:
    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_it_reads_a_line_on_either_backend(
        self, typed: Callable[..., None], backend: str
    ) -> None:
        typed("hello")
        assert anyio.run(terminal.async_input, "prompt> ", backend=backend) == "hello"

    def test_the_end_of_input_is_an_exception(self, typed: Callable[..., None]) -> None:
        typed()
        with pytest.raises(EOFError):
            asyncio.run(terminal.async_input())

    def test_a_cancelled_question_leaves_a_thread_that_does_not_hold_the_process(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        started, finish = threading.Event(), threading.Event()

        def read(prompt: str) -> str:
            started.set()
            finish.wait(5)
            return ""

        monkeypatch.setattr(builtins, "input", read)

        async def main() -> bool:
            task = asyncio.ensure_future(terminal.async_input())
            await asyncio.to_thread(started.wait, 5)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            (thread,) = [t for t in threading.enumerate() if t.name == "otelhooks-question"]
            finish.set()
            thread.join(5)
            return thread.daemon

        assert asyncio.run(main())

    def test_a_cancelled_question_that_reads_on_does_not_get_the_next_ones_answer(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where `input` was replaced, or reads a pipe, it cannot be stopped."""
        prompts: list[str] = []
        first_asks, typed_late = threading.Event(), threading.Event()

        def read(prompt: str) -> str:
            prompts.append(prompt)
            if prompt == "first":
                first_asks.set()
                typed_late.wait(10)
                return "of the first"
            return "of the second"

        monkeypatch.setattr(builtins, "input", read)

        async def main() -> str:
            first = asyncio.ensure_future(terminal.async_input("first"))
            await asyncio.to_thread(first_asks.wait, 10)
            first.cancel()
            await asyncio.wait([first])
            second = asyncio.ensure_future(terminal.async_input("second"))
            await asyncio.sleep(0)
            assert prompts == ["first"]
            typed_late.set()
            return await second

        assert asyncio.run(main()) == "of the second"

    def test_a_child_process_asks_while_its_parent_does(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asks, typed_late = threading.Event(), threading.Event()

        def read(prompt: str) -> str:
            asks.set()
            return "late" if typed_late.wait(10) else ""

        monkeypatch.setattr(builtins, "input", read)

        async def main() -> str:
            asked = asyncio.ensure_future(terminal.async_input())
            await asyncio.to_thread(asks.wait, 10)
            before = console._line
            console._forget()
            assert console._line is not before
            typed_late.set()
            await terminal.async_input()
            return await asked

        assert asyncio.run(main()) == "late"


class TestConfirming:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [("y", True), (" YES ", True), ("n", False), ("", False), ("yo", False)],
    )
    def test_only_y_and_yes_approve(
        self, typed: Callable[..., None], line: str, expected: bool
    ) -> None:
        typed(line)
        assert asyncio.run(terminal.ask_user_handler(CALL)) is expected
        typed(line)
        result = asyncio.run(terminal.ToolConfirmationHook().run(None, CALL))
        assert result.allow is expected
        assert result.message == ("" if expected else "User denied tool call.")

    def test_the_end_of_input_is_a_no(self, typed: Callable[..., None]) -> None:
        typed()
        assert asyncio.run(terminal.ask_user_handler(CALL)) is False
        assert not asyncio.run(terminal.ToolConfirmationHook().run(None, CALL)).allow

    def test_call_reason_and_arguments_are_shown_without_escape_codes(
        self, typed: Callable[..., None], capsys: pytest.CaptureFixture[str]
    ) -> None:
        typed("n")
        call = types.ToolCall(name="run\x1b[2K\nAllowed: y", args={"c": "echo\r\x1b[2Ax"})
        asyncio.run(terminal.ask_user_handler(call, reason="Risky.\x1b[8m"))
        shown = capsys.readouterr().out.split("\n")
        assert shown == [
            "",
            r"Policy check: Tool execution requested: run\nAllowed: y",
            "Reason: Risky.",
            r'  c = "echo\r\u001b[2Ax"',
            "",
        ]

    def test_an_argument_that_is_not_what_it_looks_like_is_marked(
        self, typed: Callable[..., None], capsys: pytest.CaptureFixture[str]
    ) -> None:
        typed("a", "n")
        host = "p\N{CYRILLIC SMALL LETTER A}ypal.com"
        call = types.ToolCall(name="post", args={"to": {"host": host}, "x": "a\u200bb", "y": "ok"})
        asyncio.run(terminal.ask_user_handler(call))
        shown = capsys.readouterr().out.split("\n")
        why = "(letters of Cyrillic and Latin in one word)"
        assert f'  to {why} = {{"host": "{host}"}}' in shown
        assert r'  x (invisible characters) = "a\u200bb"' in shown
        assert '  y = "ok"' in shown
        assert f'  argument "to" {why}' in shown

    def test_the_prompt_names_the_tool_its_server_and_the_rule(
        self, typed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        prompts: list[str] = []
        monkeypatch.setattr(builtins, "input", lambda prompt: prompts.append(prompt) or "y")
        call = types.ToolCall(name="delete_page" * 9, server_name="docs")
        rule = policy.ask_user("docs/*", handler=terminal.ask_user_handler, name="careful")
        drive(ask_handlers([policy.PolicySet([rule]).rules[0]], Call(call.name, {}, server="docs")))
        (prompt,) = prompts
        assert prompt.startswith(
            "Allow `docs/delete ...(104 characters)... _page` (rule `ask:careful`)?"
        )

    def test_all_is_shown_when_asked_for_without_pages_where_no_person_looks(
        self, typed: Callable[..., None], capsys: pytest.CaptureFixture[str]
    ) -> None:
        typed("a", "y")
        call = types.ToolCall(
            name="t",
            args={
                "text": "one\ntwo  three" + " " * 40 + "x" * 100,
                "not a name": {(1, 2): [3]},
                "several": [1, {"a": 2}],
            },
            branch="boss/worker",
        )
        assert asyncio.run(terminal.ask_user_handler(call, "Why."))
        shown = capsys.readouterr().out
        assert shown.count("\nPolicy check") == 2  # before, and once more after it
        for line in (
            "  tool: t",
            "  agent: boss/worker",
            "  reason: Why.",
            '  argument "text"',
            "    | one",
            "    | two  three [40 blanks] " + "x" * 50,
            "    | " + "x" * 50,
            '  argument "not a name"',
            "    | {(1, 2): [3]}",
            "    |   {",
            '  "not a name" = {(1, 2): [3]}',
        ):
            assert line in shown.split("\n"), line

    def test_what_the_screen_cannot_show_is_spelled_out(
        self, typed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        typed("n")
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii", write_through=True))
        call = types.ToolCall(name="t", args={"to": "Zoë"})
        assert asyncio.run(terminal.ask_user_handler(call)) is False
        assert rb'to = "Zo\xeb"' in raw.getvalue()

    def test_a_call_without_arguments_shows_none(
        self, typed: Callable[..., None], capsys: pytest.CaptureFixture[str]
    ) -> None:
        typed("n")
        asyncio.run(terminal.ToolConfirmationHook().run(None, types.ToolCall(name="a")))
        assert capsys.readouterr().out == "\nTool execution requested: a\n"


class TestQuestions:
    OPTIONS = (
        types.AskQuestionOption(id="first", text="Red"),
        types.AskQuestionOption(id="2nd", text="Green\x1b[1m"),
        types.AskQuestionOption(id="red", text="Dark red"),
    )

    def ask(self, *options: Any, count: int = 1) -> types.QuestionHookResult:
        entry = types.AskQuestionEntry(question="Which\x07?", options=list(options))
        spec = types.AskQuestionInteractionSpec(questions=[entry] * count)
        return asyncio.run(terminal.AskQuestionHook().run(None, spec))

    @pytest.mark.parametrize(
        ("line", "chosen"),
        [("1", "first"), (" 3 ", "red"), ("red", "first"), ("2ND", "2nd"), ("dark RED", "red")],
    )
    def test_an_option_is_chosen_by_number_text_or_id(
        self, typed: Callable[..., None], line: str, chosen: str
    ) -> None:
        typed(line)
        (response,) = self.ask(*self.OPTIONS).responses
        assert response == types.QuestionResponse(selected_option_ids=[chosen])

    @pytest.mark.parametrize("line", ["blue", "0", "4", "-1", "9" * 5000])
    def test_anything_else_is_an_answer_of_its_own(
        self, typed: Callable[..., None], line: str
    ) -> None:
        typed(line)
        (response,) = self.ask(*self.OPTIONS).responses
        assert response == types.QuestionResponse(freeform_response=line)

    def test_an_empty_line_skips(self, typed: Callable[..., None]) -> None:
        typed(" ")
        assert self.ask().responses == [types.QuestionResponse(skipped=True)]

    def test_the_end_of_input_cancels_and_keeps_what_was_answered(
        self, typed: Callable[..., None]
    ) -> None:
        typed("blue")
        result = self.ask(count=2)
        assert (len(result.responses), result.cancelled) == (1, True)

    def test_questions_and_options_are_shown_without_escape_codes(
        self, typed: Callable[..., None], capsys: pytest.CaptureFixture[str]
    ) -> None:
        typed("1")
        self.ask(*self.OPTIONS)
        shown = capsys.readouterr().out
        assert shown == (
            "\nThe agent asks:\n  | Which\\x07?\n  1. Red\n  2. Green\\x1b[1m\n  3. Dark red\n"
        )


def test_the_other_path_has_the_same_objects() -> None:
    assert interactive._sanitize_terminal_text is terminal.sanitize
    for name in ("AskQuestionHook", "ToolConfirmationHook", "ask_user_handler", "async_input"):
        assert getattr(interactive, name) is getattr(terminal, name)
