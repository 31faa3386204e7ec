"""Questions that are answered in another process, by `otelhooks approvals`."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import secrets
import shlex
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from otelhooks import types
from otelhooks.approvals import Unavailable
from otelhooks.approvals.layout import as_json
from otelhooks.approvals.places import questions_at
from otelhooks.approvals.questions import Answer, Question, Questions, is_role
from otelhooks.errors import ConfigError, OtelHooksError
from otelhooks.hooks.own_threads import awaited, start
from otelhooks.hooks.verdict import Approval
from otelhooks.hooks.watch import asking
from otelhooks.plain_text import LOGGED, one_line, without_credentials
from otelhooks.process import environment, exits
from otelhooks.records.failures import outline
from otelhooks.store.redis_server import Unreachable
from otelhooks.store.schema import StoreError

__all__ = ["Queue"]

log: logging.Logger = logging.getLogger("otelhooks.approvals")

_POLL_S = 0.1
"""Seconds between two looks for an answer."""

_ENDING_S = 1.0
"""Longest time that a cancelled run waits until its question is withdrawn."""

Notify = Callable[[Question], object]

_FOREVER_S = 10 * 365 * 86_400.0

_MARGIN_S = 1.0
"""How much earlier than the call a question expires, so that each answer in time is taken."""


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
        needs: How many people must approve a call; or their roles, one person for each, such as
            ``["finance", "security"]``. One who refuses is enough, whatever their role.
        park: Pause the run where its framework can, instead of waiting: the process may end, and
            whichever resumes the run takes the answer. `notify` cannot remind then.

    Raises:
        ConfigError: The place cannot be used, or another user may write the file; or `notify` is to
            remind people of parked calls.
    """

    asks_people = True

    def __init__(
        self,
        place: str | os.PathLike[str] | None = None,
        *,
        notify: Notify | Mapping[float, Notify] | None = None,
        needs: int | Sequence[str] = 1,
        park: bool = False,
    ) -> None:
        self.parks: bool = park
        self._needs = _needs(needs)
        self._questions, self._option = questions_at(place), _option(place)
        _prepare(self._questions)
        given = {0.0: notify} if callable(notify) else notify or {}
        if park and any(given):
            raise ConfigError(
                "no process waits for the answer about a parked call, to remind people of it",
                hint="give `notify` one function, or `park=False`",
            )
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
            self._questions.prepare()
            self._questions.put(question)
        except OtelHooksError as error:
            raise Unavailable(str(error)) from error
        _log(question, self._option)
        asker = os.getpid()

        def withdraw() -> None:
            if os.getpid() == asker:  # a forked child leaves the question of its parent
                self._questions.withdraw(question)

        exits.register(withdraw)  # a signal that ends the process runs nothing else
        try:
            return self._answer(question, gone)
        finally:
            exits.unregister(withdraw)

    def _answer(self, question: Question, gone: threading.Event) -> Approval:
        due, began = list(self._notify), time.monotonic()
        while True:
            while due and time.monotonic() - began >= due[0][0]:
                _notify(due.pop(0)[1], question)
            if gone.wait(_POLL_S):
                break
            with contextlib.suppress(Unreachable, StoreError):  # it may pass in time
                if (found := self._questions.answer_of(question)) is not None:
                    return _approval(found)
        self._questions.withdraw(question)
        return Approval("withdrawn")

    def parked(self, key: str, decision_id: str) -> Parked:
        """Return a channel that asks about one call, and does not wait.

        Args:
            key: Identifies the call in any process.
            decision_id: Joins question, answer and call, if it is asked now.
        """
        log = functools.partial(_log, option=self._option)
        return Parked(self._questions, self._needs, [(0, log), *self._notify], key, decision_id)


def _prepare(questions: Questions) -> None:
    """Prepare the place of questions; what may pass by itself denies, and stops no program."""
    try:
        questions.prepare()
    except StoreError as error:
        if error.cause not in {"full", "locked"}:
            raise
        log.error(
            "questions cannot be written down yet, so what needs an answer is denied: %s", error
        )


class _Needs(NamedTuple):
    """How many must approve, and their roles, if it matters."""

    people: int
    roles: tuple[str, ...] = ()


def _needs(given: int | Sequence[str]) -> _Needs:
    if isinstance(given, str):
        raise ConfigError(f"needs={given!r} is not a list", hint=f"give `needs=[{given!r}]`")
    needs = _Needs(given) if isinstance(given, int) else _Needs(len(given), tuple(given))
    if needs.people < 1:
        raise ConfigError(f"needs={given}: no one would have to approve", hint="give 1 or more")
    if wrong := [role for role in needs.roles if not is_role(role)]:
        raise ConfigError(f"`{one_line(wrong[0])}` is not a role", hint="name one, without a comma")
    return needs


class Parked:
    """Takes the answer about one call if there is one; otherwise the call's run is to pause.

    Args:
        questions: Where they are kept.
        needs: Who must approve.
        notify: What is called with a new question.
        key: Identifies the call in any process.
        decision_id: Joins question, answer and call, if it is asked now.

    Attributes:
        is_new: Whether the question was asked now.
        is_open: Whether there is no answer yet.
        decision_id: The one that the call was asked about under.
        asked_at: When it was; seconds since the epoch.
    """

    asks_people = True

    def __init__(
        self,
        questions: Questions,
        needs: _Needs,
        notify: Sequence[tuple[float, Notify]],
        key: str,
        decision_id: str,
    ) -> None:
        self._questions, self._needs, self._notify, self._key = questions, needs, notify, key
        self.is_new: bool = False
        self.is_open: bool = False
        self.decision_id: str = decision_id
        self.asked_at: float = 0.0

    def __call__(self, call: types.ToolCall, reason: str = "") -> Approval | None:
        """Return the answer, which no other call gets; None if there is none yet.

        Raises:
            ConfigError: The question could not be written down, or the answer is for another call.
        """
        self._questions.prepare()
        own = _question(call, reason, self._needs, self._key, self.decision_id)
        while True:
            question = self._questions.parked(self._key)
            if question is None:
                if not self._questions.put(own):
                    continue  # another process has asked meanwhile
                question, self.is_new = own, True
                for _, notify in self._notify:
                    _notify(notify, own)
            self.decision_id, self.asked_at = question.facts["decision"], question.asked_at
            if question.status == "pending":
                self.is_open = True
                return None
            if (answer := self._questions.take(question, own)) is not None:
                return _approval(answer)


def _approval(answer: Answer) -> Approval:
    return Approval(
        answer.status,
        edit=answer.edit,
        approver_type=answer.kind,
        approver_id=answer.approver,
    )


def _log(question: Question, option: str) -> None:
    log.warning(
        "`%s` waits for an answer: otelhooks approvals approve %s%s%s",
        one_line(question.tool, LOGGED),
        question.id,
        option,
        f" --role ROLE ({one_line(question.wanted)} must approve)" if question.missing else "",
    )


def _option(place: str | os.PathLike[str] | None) -> str:
    """Return how another terminal names the place of questions; nothing if it is the default."""
    where = place if place is not None else environment.store_path()
    return "" if where is None else f" --store {shlex.quote(without_credentials(os.fspath(where)))}"


def _notify(notify: Notify, question: Question) -> None:
    try:
        notify(question)
    except Exception as error:
        log.error("the notification of question %s failed: %s", question.id, outline(error))


def _question(
    call: types.ToolCall, reason: str, needs: _Needs, parked: str = "", decision_id: str = ""
) -> Question:
    asked, now = asking.get(), time.time()
    limit = _FOREVER_S if asked is None or asked.timeout is None else asked.timeout
    if not parked:
        limit -= min(_MARGIN_S, limit / 10)
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
        **({"decision": decision_id} if parked else {}),
        **({"roles": needs.roles} if needs.roles else {}),
    }
    return Question(
        id=secrets.token_hex(4),
        asked_at=now,
        expires_at=now + limit,
        status="pending",
        tool=call.name,
        about=_text(about),
        needs=needs.people,
        parked=parked,
    )


def _text(about: dict[str, Any]) -> str:
    """Return what is asked as JSON.

    Raises:
        TypeError: Arguments would look like others.
    """
    text = json.dumps(about, default=as_json)
    json.loads(text, object_pairs_hook=_distinct)
    return text


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise TypeError("two keys of an argument are the same text in JSON")
