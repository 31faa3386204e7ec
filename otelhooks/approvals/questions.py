"""Questions in the local store: one process asks, and another one answers.

Decision code: fails closed. An answer contains the hash of the question that the approver saw, and
counts only if the process that waits has asked exactly that. Each question is answered once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otelhooks.errors import ConfigError
from otelhooks.store import connection, schema

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Answer", "Question", "Questions"]

_BUSY_S = 5.0
_KEPT_S = 7 * 86_400.0
"""How long answered questions stay, in seconds; what was asked goes with the answer."""

_TABLE = """CREATE TABLE IF NOT EXISTS questions (
    id TEXT PRIMARY KEY,
    asked_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    status TEXT NOT NULL,
    tool TEXT NOT NULL,
    about TEXT NOT NULL,
    answered_at REAL,
    approver TEXT,
    edit TEXT,
    digest TEXT,
    taken_at REAL
) WITHOUT ROWID"""
_COLUMNS = "id, asked_at, expires_at, status, tool, about, approver"


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for an approver, or no longer does.

    Attributes:
        id: Eight hexadecimal digits.
        asked_at: Seconds since the Unix epoch.
        expires_at: When no answer denies; seconds since the epoch.
        status: ``pending``, ``approved``, ``rejected``, ``expired`` or ``withdrawn``.
        tool: Name of the tool.
        about: What is asked, as JSON text: the call, its agent, its rule, and the program. Empty
            once it is answered, because arguments are content.
        approver: Who has answered; empty if no one has.
    """

    id: str
    asked_at: float
    expires_at: float
    status: str
    tool: str
    about: str
    approver: str | None = None

    @property
    def digest(self) -> str:
        """Hash of what is asked."""
        return hashlib.sha256(f"{self.id} {self.tool} {self.about}".encode()).hexdigest()

    @property
    def facts(self) -> dict[str, Any]:
        """What is asked: ``args``, ``server``, ``agent``, ``rule``, ``reason``, ``program``..."""
        return json.loads(self.about) if self.about else {}


@dataclass(frozen=True, slots=True)
class Answer:
    """How a question ended: its status, by whom, and with which changed arguments."""

    status: str
    approver: str
    edit: dict[str, Any] | None = None


class Questions:
    """The questions of one store.

    Args:
        path: File of the local store; None for the one that this process would write to.

    Raises:
        ConfigError: The file cannot be used, or another user may write it, and so answer.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._store = connection.shared(path or schema.default_store_path())
        self._store.write(_create, busy_s=_BUSY_S)
        _refuse_foreign(self._store.path)

    def ask(self, question: Question) -> None:
        """Write a question down; forget old ones, and what earlier ones were about."""
        row = dataclasses.astuple(question)

        def work(database: sqlite3.Connection) -> None:
            now = time.time()
            _end_expired(database, now)
            database.execute("DELETE FROM questions WHERE asked_at < ?", (now - _KEPT_S,))
            database.execute(
                f"INSERT INTO questions ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row
            )

        self._store.write(work, busy_s=_BUSY_S)

    def answer_of(self, question: Question) -> Answer | None:
        """Return how a question ended, None if it has not yet; an answer counts as taken.

        Raises:
            ConfigError: The answer is for another question than this one.
        """
        found = self._store.read(
            lambda database: database.execute(
                "SELECT status, approver, edit, digest FROM questions WHERE id = ?", (question.id,)
            ).fetchone()
        )
        if found is None:
            raise ConfigError(f"question {question.id} is no longer in the store", hint="ask again")
        status, approver, edit, digest = found
        if status == "pending":
            return None
        if status not in ("approved", "rejected"):
            return Answer(status, "")
        if digest != question.digest:
            raise ConfigError(
                f"the answer to question {question.id} is for another call",
                hint="find out who writes to the local store",
            )
        self._set("taken_at = ?, about = ''", (time.time(),), question.id, status)
        return Answer(status, approver or "", json.loads(edit) if edit else None)

    def withdraw(self, question: Question) -> None:
        """End a question that no one waits for any more, if it is still open."""
        is_over = time.time() + 1 >= question.expires_at  # its own clock may run a little behind
        status = "expired" if is_over else "withdrawn"
        self._set("status = ?, about = ''", (status,), question.id, "pending")

    def answer(self, question: Question, answer: Answer) -> None:
        """Answer a question that is open.

        Args:
            question: As it was shown to the approver.
            answer: For the call that the approver saw.

        Raises:
            ConfigError: It has been answered, has expired, or was withdrawn.
        """
        values = (
            *(answer.status, answer.approver, time.time(), question.digest),
            None if answer.edit is None else json.dumps(answer.edit),
        )
        how = "status = ?, approver = ?, answered_at = ?, digest = ?, edit = ?"
        self._store.write(lambda database: _end_expired(database, time.time()), busy_s=_BUSY_S)
        if not self._set(how, values, question.id, "pending"):
            self.pending(question.id)

    def is_taken(self, question: Question) -> bool:
        """Return whether the process that asked has its answer."""
        rows = self._store.read(
            lambda database: database.execute(
                "SELECT 1 FROM questions WHERE id = ? AND taken_at IS NOT NULL", (question.id,)
            ).fetchall()
        )
        return bool(rows)

    def all(self) -> Sequence[Question]:
        """Return the questions of the last days, the oldest first."""
        self._store.write(lambda database: _end_expired(database, time.time()), busy_s=_BUSY_S)
        rows = self._store.read(
            lambda database: database.execute(
                f"SELECT {_COLUMNS} FROM questions ORDER BY asked_at"
            ).fetchall()
        )
        return [Question(*row) for row in rows]

    def find(self, id: str) -> Question:
        """Return a question.

        Raises:
            ConfigError: There is none with this id.
        """
        for question in self.all():
            if question.id == id:
                return question
        raise ConfigError(
            f"there is no question `{id}`", hint="list them with `otelhooks approvals list --all`"
        )

    def pending(self, id: str) -> Question:
        """Return a question that is open.

        Raises:
            ConfigError: There is none with this id, or it has ended.
        """
        question = self.find(id)
        if question.status != "pending":
            by = f" by {question.approver}" if question.approver else ""
            raise ConfigError(
                f"question {id} is already {question.status}{by}",
                hint="list what is open with `otelhooks approvals list`",
            )
        return question

    def _set(self, how: str, values: tuple[Any, ...], id: str, status: str) -> bool:
        """Change a question if it has this status; return whether it had."""
        sql = f"UPDATE questions SET {how} WHERE id = ? AND status = ?"
        return self._store.write(
            lambda database: database.execute(sql, (*values, id, status)).rowcount == 1,
            busy_s=_BUSY_S,
        )


def _create(database: sqlite3.Connection) -> None:
    database.execute(_TABLE)


def _end_expired(database: sqlite3.Connection, now: float) -> None:
    database.execute(
        "UPDATE questions SET status = 'expired', about = ''"
        " WHERE status = 'pending' AND expires_at <= ?",
        (now,),
    )


def _refuse_foreign(path: Path) -> None:
    """Refuse a store that another user may write: an answer in it could be anyone's."""
    if not hasattr(os, "geteuid"):
        return
    for place in (path, path.parent):
        status = os.stat(place)
        is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        if status.st_uid not in {0, os.geteuid()}:
            raise ConfigError(
                f"`{place}` belongs to another user (uid {status.st_uid}), who could answer",
                hint="set OTELHOOKS_STORE to a file in a folder of this user",
            )
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky:
            raise ConfigError(
                f"other users may write `{place}`, and so answer",
                hint=f"run `chmod go-w {place}`, or set OTELHOOKS_STORE to a file elsewhere",
            )
