"""Questions in the terminal: allow this call, answer this question.

A model wrote what is printed: `layout` keeps it from looking like one of our questions, and
`console` keeps one answer from answering another question. The approval channel checks whether
there is a terminal at all; these functions print and read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from otelhooks import types
from otelhooks.approvals.console import Console, converse
from otelhooks.approvals.layout import block, full, named, summary
from otelhooks.hooks.base import OnInteractionHook, PreToolCallDecideHook
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.watch import asking
from otelhooks.plain_text import one_line, sanitize

__all__ = ["AskQuestionHook", "ToolConfirmationHook", "ask_user_handler", "async_input", "sanitize"]

_YES = frozenset(("y", "yes"))
_ALL = frozenset(("a", "all", "show"))
_NEXT_PAGE = "-- Enter shows more, q goes back to the question -- "


async def async_input(prompt: str = "") -> str:
    """Read a line like `input`, without blocking the event loop.

    One line is read at a time: other readers wait until it has come, or is no longer awaited. The
    thread that reads is a daemon: it does not keep the process alive.

    Args:
        prompt: Printed first. On a terminal, input that was typed before is discarded.

    Raises:
        EOFError: There is nothing more to read.
    """
    return await converse(lambda console: console.ask(prompt))


def _confirm(title: str, call: types.ToolCall, reason: str, rule: str, console: Console) -> bool:
    while True:
        for line in summary(title, call, reason, console.size):
            console.say(line)
        try:
            typed = console.ask(f"Allow {named(call, rule)}? y/n, a shows all [n]: ")
            answer = typed.strip().lower()
            if answer not in _ALL:
                return answer in _YES
            _show_all(full(call, reason, console.size), console)
        except EOFError:
            return False


def _show_all(lines: Iterable[str], console: Console) -> None:
    page = max(console.size.lines - 1, 2)
    for number, line in enumerate(lines, 1):
        console.say(line)
        is_full = number % page == 0 and console.can_page
        if is_full and console.ask(_NEXT_PAGE).strip().lower() == "q":
            return


async def ask_user_handler(tc: types.ToolCall, reason: str = "") -> bool:
    """Ask in the terminal whether a call may run; a handler for ask rules.

    Args:
        tc: The call.
        reason: Why the rule asks.

    Returns:
        True for ``y`` and ``yes``; False for anything else and at the end of input. ``a`` shows the
        call in full, and asks again.
    """
    asked = asking.get()
    title = "Policy check: Tool execution requested:"
    id = "" if asked is None else asked.rule.id
    return await converse(functools.partial(_confirm, title, tc, reason, id))


ask_user_handler.asks_people = True  # type: ignore[attr-defined]


class ToolConfirmationHook(PreToolCallDecideHook):
    """Asks in the terminal before every tool call."""

    async def run(self, context: HookContext | None, data: types.ToolCall) -> types.HookResult:
        """Ask whether the call may run.

        Args:
            context: Not needed.
            data: The call.
        """
        title = "Tool execution requested:"
        if await converse(functools.partial(_confirm, title, data, "", "")):
            return types.HookResult()
        return types.HookResult(allow=False, message="User denied tool call.")


class AskQuestionHook(OnInteractionHook):
    """Puts an agent's questions to the user at the terminal."""

    async def run(
        self, context: HookContext | None, data: types.AskQuestionInteractionSpec
    ) -> types.QuestionHookResult:
        """Ask each question.

        Args:
            context: Not needed.
            data: The questions.

        Returns:
            One response per question; only those before the end of input, if the input ended.
        """
        return await converse(functools.partial(_put_questions, data.questions))


def _put_questions(
    questions: list[types.AskQuestionEntry], console: Console
) -> types.QuestionHookResult:
    responses: list[types.QuestionResponse] = []
    for question in questions:
        console.say("\nThe agent asks:")
        for line in block("  | ", question.question, console.size):
            console.say(line)
        for number, option in enumerate(question.options, 1):
            console.say(f"  {number}. {one_line(option.text, console.size.columns - 8)}")
        try:
            answer = console.ask("Response: ").strip()
        except EOFError:
            return types.QuestionHookResult(responses=responses, cancelled=True)
        responses.append(_response(answer, question.options))
    return types.QuestionHookResult(responses=responses)


def _response(answer: str, options: list[types.AskQuestionOption]) -> types.QuestionResponse:
    """Read an answer as the number, text or id of an option, else as free text."""
    if not answer:
        return types.QuestionResponse(skipped=True)
    numbered = {str(number): option for number, option in enumerate(options, 1)}
    named = {
        name.lower(): option for option in reversed(options) for name in (option.id, option.text)
    }
    chosen = numbered.get(answer) or named.get(answer.lower())
    if chosen is None:
        return types.QuestionResponse(freeform_response=answer)
    return types.QuestionResponse(selected_option_ids=[chosen.id])
