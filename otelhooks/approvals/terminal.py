"""Questions in the terminal: allow this call, answer this question.

What is printed was written by a model, so escape codes and control characters are taken out: they
could paint over the call that is being asked about. Whether there is a terminal at all is for the
approval channel to see; these functions print and read.
"""

from __future__ import annotations

import concurrent.futures
import threading

import anyio

from otelhooks import types
from otelhooks.hooks.base import OnInteractionHook, PreToolCallDecideHook
from otelhooks.hooks.context import HookContext
from otelhooks.plain_text import one_line, sanitize

__all__ = ["AskQuestionHook", "ToolConfirmationHook", "ask_user_handler", "async_input", "sanitize"]

_QUESTION = "Allow execution? (y/n) [n]: "
_POLL_S = 0.02


def _say(text: str) -> None:
    print(text)  # noqa: T201  # the terminal prompt prints


async def async_input(prompt: str = "") -> str:
    """Read a line as `input` does, without holding up the event loop.

    The thread that waits is a daemon: a cancelled question does not keep the process alive.

    Args:
        prompt: Printed before.

    Raises:
        EOFError: There is nothing more to read.
    """
    answer: concurrent.futures.Future[str] = concurrent.futures.Future()

    def read() -> None:
        try:
            answer.set_result(input(prompt))
        except BaseException as error:  # belongs to who awaits, not to this thread
            answer.set_exception(error)

    threading.Thread(target=read, name="otelhooks-input", daemon=True).start()
    while not answer.done():  # noqa: ASYNC110  # the thread cannot set an event of asyncio or trio
        await anyio.sleep(_POLL_S)
    return answer.result()


async def _confirm(call: types.ToolCall, title: str, reason: str = "") -> bool:
    _say(f"\n{title} {one_line(call.name)}")
    if reason:
        _say(f"Reason: {sanitize(reason)}")
    if call.args:
        _say(f"Arguments: {sanitize(call.args)}")
    try:
        answer = await async_input(_QUESTION)
    except EOFError:
        return False
    return answer.strip().lower() in {"y", "yes"}


async def ask_user_handler(tc: types.ToolCall, reason: str = "") -> bool:
    """Ask in the terminal whether a call may run; a handler for ask rules.

    Args:
        tc: The call.
        reason: Why the rule asks.

    Returns:
        True for ``y`` and ``yes``; False for anything else and at the end of input.
    """
    return await _confirm(tc, "Policy check: Tool execution requested:", reason)


class ToolConfirmationHook(PreToolCallDecideHook):
    """Asks in the terminal before every tool call."""

    async def run(self, context: HookContext | None, data: types.ToolCall) -> types.HookResult:
        """Ask whether the call may run.

        Args:
            context: Not needed.
            data: The call.
        """
        if await _confirm(data, "Tool execution requested:"):
            return types.HookResult()
        return types.HookResult(allow=False, message="User denied tool call.")


class AskQuestionHook(OnInteractionHook):
    """Puts an agent's questions to the user of the terminal."""

    async def run(
        self, context: HookContext | None, data: types.AskQuestionInteractionSpec
    ) -> types.QuestionHookResult:
        """Ask each question.

        Args:
            context: Not needed.
            data: The questions.

        Returns:
            One response a question; what was answered before the end of input, if it ended.
        """
        responses: list[types.QuestionResponse] = []
        for question in data.questions:
            _say(f"\nQuestion: {sanitize(question.question)}")
            for number, option in enumerate(question.options, 1):
                _say(f"  {number}. {one_line(option.text)}")
            try:
                answer = (await async_input("Response: ")).strip()
            except EOFError:
                return types.QuestionHookResult(responses=responses, cancelled=True)
            responses.append(_response(answer, question.options))
        return types.QuestionHookResult(responses=responses)


def _response(answer: str, options: list[types.AskQuestionOption]) -> types.QuestionResponse:
    """Take an answer as the number, text or id of an option, else as a text of its own."""
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
