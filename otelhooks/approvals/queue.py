"""Questions that are answered in another process, by `otelhooks approvals`."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import sys
import threading
import time
from typing import TYPE_CHECKING

from otelhooks import types
from otelhooks.approvals.questions import Question, Questions
from otelhooks.hooks.own_threads import awaited, start
from otelhooks.hooks.verdict import Approval
from otelhooks.hooks.watch import asking
from otelhooks.plain_text import LOGGED, one_line

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Queue"]

log: logging.Logger = logging.getLogger("otelhooks.approvals")

_POLL_S = 0.1
"""Seconds between two looks for an answer."""

_ENDING_S = 1.0
"""Longest time that a cancelled run waits until its question is withdrawn."""

_FOREVER_S = 10 * 365 * 86_400.0


class Queue:
    """Asks people who are not at this program's terminal: `otelhooks approvals` answers.

    Questions are in the local store, so all processes of one user share one queue. A call waits for
    ``approval_timeout``; no answer by then denies. A run that is cancelled withdraws its question.

    Args:
        path: File of the local store; None for `OTELHOOKS_STORE`, or the one in the user's data
            folder. Give `otelhooks approvals --store` the same one.

    Raises:
        ConfigError: The file cannot be used, or another user may write it.
    """

    asks_people = True

    def __init__(self, path: Path | None = None) -> None:
        self._questions = Questions(path)

    async def __call__(self, call: types.ToolCall, reason: str = "") -> Approval:
        """Ask about a call, and wait for the answer.

        Raises:
            ConfigError: The store cannot be used, or holds an answer for another call.
        """
        question, gone = _question(call, reason), threading.Event()
        waiting = start(self._wait, question, gone)
        try:
            return await awaited(waiting)
        finally:
            gone.set()
            with contextlib.suppress(Exception):  # it is known, or no one waits for it
                waiting.result(_ENDING_S)  # also at Ctrl-C, after which no thread lives on

    def _wait(self, question: Question, gone: threading.Event) -> Approval:
        self._questions.ask(question)
        try:
            log.warning(
                "`%s` waits for an answer: otelhooks approvals approve %s",
                one_line(question.tool, LOGGED),
                question.id,
            )
            while not gone.wait(_POLL_S):
                if (found := self._questions.answer_of(question)) is not None:
                    return Approval(
                        found.status,
                        edit=found.edit,
                        approver_type="human",
                        approver_id=found.approver,
                    )
        finally:
            self._questions.withdraw(question)
        return Approval("withdrawn")


def _question(call: types.ToolCall, reason: str) -> Question:
    asked, now = asking.get(), time.time()
    limit = None if asked is None else asked.timeout
    about = {
        "args": call.args,
        "server": call.server_name or "",
        "agent": call.agent,
        "rule": "" if asked is None else asked.rule.id,
        "reason": reason,
        "session": call.session_id,
        "trace": call.trace_id,
        "program": os.path.basename(sys.argv[0]) if sys.argv else "",
        "pid": os.getpid(),
    }
    return Question(
        id=secrets.token_hex(4),
        asked_at=now,
        expires_at=now + (_FOREVER_S if limit is None else limit),
        status="pending",
        tool=call.name,
        about=json.dumps(about, default=repr),
    )
