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
from collections.abc import Callable, Mapping

from otelhooks import types
from otelhooks.approvals import Unavailable
from otelhooks.approvals.questions import Question, Unreachable, questions_at
from otelhooks.errors import ConfigError, OtelHooksError
from otelhooks.hooks.own_threads import awaited, start
from otelhooks.hooks.verdict import Approval
from otelhooks.hooks.watch import asking
from otelhooks.plain_text import LOGGED, one_line
from otelhooks.records.failures import outline

__all__ = ["Queue"]

log: logging.Logger = logging.getLogger("otelhooks.approvals")

_POLL_S = 0.1
"""Seconds between two looks for an answer."""

_ENDING_S = 1.0
"""Longest time that a cancelled run waits until its question is withdrawn."""

Notify = Callable[[Question], object]

_FOREVER_S = 10 * 365 * 86_400.0


class Queue:
    """Asks people who are not at this program's terminal: `otelhooks approvals` answers.

    Questions are in the local store, so all processes of one user share one queue; or on a Redis
    server, for several hosts. A call waits for ``approval_timeout``; no answer by then denies. A
    run that is cancelled withdraws its question.

    Args:
        place: ``redis://host:6379/0``, with the extra ``otelhooks[redis]``, or file of the local
            store; None for `OTELHOOKS_STORE`, or the one in the user's data folder. Give
            `otelhooks approvals --store` the same one.
        notify: Called with each `Question` that was written down, such as a `Webhook`; or several
            of them by the seconds after which each is called if the question still waits, to
            remind people, or to ask others. If one raises, that is logged.
        needs: How many people must approve a call; one who refuses is enough.

    Raises:
        ConfigError: The place cannot be used, or another user may write the file.
    """

    asks_people = True

    def __init__(
        self,
        place: str | os.PathLike[str] | None = None,
        *,
        notify: Notify | Mapping[float, Notify] | None = None,
        needs: int = 1,
    ) -> None:
        if needs < 1:
            raise ConfigError(f"needs={needs}: no one would have to approve", hint="give 1 or more")
        self._questions, self._needs = questions_at(place), needs
        given = {0.0: notify} if callable(notify) else notify or {}
        self._notify = sorted(given.items(), key=lambda pair: pair[0])

    async def __call__(self, call: types.ToolCall, reason: str = "") -> Approval:
        """Ask about a call, and wait for the answer.

        Raises:
            Unavailable: The question could not be written down.
            ConfigError: The answer is for another call, or the question was removed.
        """
        question, gone = _question(call, reason, self._needs), threading.Event()
        waiting = start(self._wait, question, gone)
        try:
            return await awaited(waiting)
        finally:
            gone.set()
            with contextlib.suppress(Exception):  # it is known, or no one waits for it
                waiting.result(_ENDING_S)  # also at Ctrl-C, after which no thread lives on

    def _wait(self, question: Question, gone: threading.Event) -> Approval:
        try:
            self._questions.put(question)
        except OtelHooksError as error:
            raise Unavailable(str(error)) from error
        log.warning(
            "`%s` waits for an answer: otelhooks approvals approve %s",
            one_line(question.tool, LOGGED),
            question.id,
        )
        due, began = list(self._notify), time.monotonic()
        while True:
            while due and time.monotonic() - began >= due[0][0]:
                _notify(due.pop(0)[1], question)
            if gone.wait(_POLL_S):
                break
            with contextlib.suppress(Unreachable):  # it may come back before the time is over
                if (found := self._questions.answer_of(question)) is not None:
                    return Approval(
                        found.status,
                        edit=found.edit,
                        approver_type=found.kind,
                        approver_id=found.approver,
                    )
        self._questions.withdraw(question)
        return Approval("withdrawn")


def _notify(notify: Notify, question: Question) -> None:
    try:
        notify(question)
    except Exception as error:
        log.error("the notification of question %s failed: %s", question.id, outline(error))


def _question(call: types.ToolCall, reason: str, needs: int) -> Question:
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
        needs=needs,
    )
