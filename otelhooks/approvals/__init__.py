"""Approval channels: they ask when a rule says ``ask`` and has no handler of its own.

A channel is a function of the tool call, and of the reason if it takes one; only True approves. It
may return an `Approval` instead, to name the approver or to change arguments. A channel that cannot
ask at all raises `Unavailable`, and the next one is tried.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from otelhooks import types
from otelhooks.approvals.terminal import ask_user_handler
from otelhooks.errors import OtelHooksError
from otelhooks.hooks.answers import signed
from otelhooks.hooks.own_threads import awaited, start
from otelhooks.hooks.verdict import Approval
from otelhooks.process.late import late_names

if TYPE_CHECKING:
    from otelhooks.approvals.questions import Question
    from otelhooks.approvals.queue import Queue
    from otelhooks.approvals.webhook import Webhook, receive_answer

__all__ = [
    "Approval",
    "Question",
    "Queue",
    "Terminal",
    "Unavailable",
    "Webhook",
    "first_of",
    "receive_answer",
    "signed_first_of",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "otelhooks.approvals.questions": "Question",
            "otelhooks.approvals.queue": "Queue",
            "otelhooks.approvals.webhook": "Webhook receive_answer",
        },
    )


class Unavailable(OtelHooksError):
    """This channel cannot reach an approver."""


class Terminal:
    """Asks the user at the terminal; refuses if there is no terminal.

    The call is shown without escape codes, so that it cannot rewrite the question.
    """

    asks_people = True

    async def __call__(self, call: types.ToolCall, reason: str = "") -> bool:
        """Show the call, and wait for y or yes.

        Raises:
            Unavailable: Standard input is not a terminal.
        """
        import sys

        if sys.stdin is None or not sys.stdin.isatty():
            raise Unavailable(
                "standard input is not a terminal, so no one can be asked here; with `approvals="
                "approvals.Queue()`, people answer in another terminal or in the console"
            )
        return await ask_user_handler(call, reason)


def first_of(
    channels: Sequence[Callable[[types.ToolCall, str], Any]],
) -> Callable[[types.ToolCall, str], Any]:
    """Return a channel that asks the first of several that is available.

    Args:
        channels: Functions of call and reason.
    """

    async def ask(call: types.ToolCall, reason: str) -> Any:
        answer, _ = await _first(channels, call, reason)
        return answer

    return ask


def signed_first_of(
    channels: Sequence[Callable[[types.ToolCall, str], Any]],
) -> Callable[[types.ToolCall, str], Any]:
    """Return a channel as `first_of` does, whose answers name the channel that gave them."""

    async def ask(call: types.ToolCall, reason: str) -> Any:
        return signed(*await _first(channels, call, reason))

    return ask


async def _first(
    channels: Sequence[Callable[..., Any]], call: types.ToolCall, reason: str
) -> tuple[Any, Callable[..., Any]]:
    """Return the answer of the first channel that is available, and the channel."""
    for channel in channels[:-1]:
        try:
            return await _answer(channel, call, reason), channel
        except Unavailable:
            continue
    return await _answer(channels[-1], call, reason), channels[-1]


async def _answer(channel: Callable[..., Any], call: types.ToolCall, reason: str) -> Any:
    answer = await awaited(start(channel, call, reason))  # a plain function may wait
    return await answer if inspect.isawaitable(answer) else answer
