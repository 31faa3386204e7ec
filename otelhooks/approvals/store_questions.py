"""Questions in the local store: of all processes of one user on one machine."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otelhooks.approvals.questions import KEPT_S, Question, Questions
from otelhooks.errors import ConfigError
from otelhooks.store import connection, schema

__all__ = ["StoreQuestions"]

_BUSY_S = 5.0
_OF_PARKED = "WHERE parked = ? AND NOT taken"
_COLUMNS = [each.name for each in dataclasses.fields(Question)]
_TABLE = """CREATE TABLE IF NOT EXISTS questions (
    id TEXT PRIMARY KEY,
    asked_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    status TEXT NOT NULL,
    tool TEXT NOT NULL,
    about TEXT NOT NULL,
    approver TEXT NOT NULL,
    kind TEXT NOT NULL,
    edit TEXT NOT NULL,
    seen TEXT NOT NULL,
    taken INTEGER NOT NULL,
    needs INTEGER NOT NULL,
    parked TEXT NOT NULL DEFAULT '',
    roles TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID"""
_LATER = {"kind": "''", "needs": "1", "parked": "''", "roles": "''"}
"""Columns that a table of an earlier version may not have -> what they are there."""

_LISTED = 1_000
"""Most questions that have ended which are listed."""


class StoreQuestions(Questions):
    """The questions of one store.

    Args:
        path: File of the local store; None for the one that this process would write to.

    Raises:
        ConfigError: The file cannot be used, or another user may write it, and could answer.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        where = Path(path) if path is not None else schema.default_store_path()
        self._store = connection.shared(where)
        self._asks = False  # who only looks needs no right to write
        if self._store.path.exists():
            _refuse_foreign(self._store.path)

    def prepare(self) -> None:
        """Make the table of questions, or bring one of an earlier version up to date."""
        if self._asks:
            return
        self._store.write(_make, busy_s=_BUSY_S)
        _refuse_foreign(self._store.path)
        self._asks = True

    def put(self, question: Question) -> bool:
        """Write a question down; forget those that ended long ago, and what expired ones are about.

        A killed process ends none of its own.
        """
        now = time.time()
        row = dataclasses.astuple(question)
        places = ", ".join("?" * len(row))
        insert = f"INSERT INTO questions ({', '.join(_COLUMNS)}) SELECT {places}"
        if question.parked:
            insert += f" WHERE NOT EXISTS (SELECT 1 FROM questions {_OF_PARKED})"
            row = (*row, question.parked)

        def work(database: sqlite3.Connection) -> bool:
            _make(database)
            database.execute("DELETE FROM questions WHERE expires_at < ?", (now - KEPT_S,))
            database.execute(
                "UPDATE questions SET status = 'expired', about = '' WHERE status = 'pending'"
                " AND parked = '' AND expires_at < ?",
                (now,),
            )
            return database.execute(insert, row).rowcount == 1

        return self._store.write(work, busy_s=_BUSY_S)

    def get(self, id: str) -> Question | None:
        """Return a question as it is kept, None if there is none with this id."""
        return next(iter(self._read("WHERE id = ?", id)), None)

    def of_parked(self, key: str) -> Question | None:
        """Return the question about a parked call whose answer has not been taken yet."""
        return next(iter(self._read(_OF_PARKED, key)), None)

    def kept(self) -> list[Question]:
        """Return the questions that are open and the last that have ended, the oldest first."""
        ended = "SELECT id FROM questions WHERE status != 'pending' ORDER BY asked_at DESC LIMIT ?"
        which = f"WHERE status = 'pending' OR id IN ({ended}) ORDER BY asked_at"
        return self._read(which, _LISTED)

    def change(self, id: str, has: Mapping[str, str], fields: Mapping[str, Any]) -> bool:
        """Change fields of a question if others have these texts; return whether they had."""
        how = ", ".join(f"{name} = ?" for name in fields)
        which = " AND ".join(f"{name} = ?" for name in ("id", *has))
        sql, values = f"UPDATE questions SET {how} WHERE {which}", (*fields.values(), id)

        def work(database: sqlite3.Connection) -> bool:
            _make(database)
            database.execute("PRAGMA secure_delete=ON")
            is_changed = database.execute(sql, (*values, *has.values())).rowcount == 1
            database.execute("PRAGMA secure_delete=OFF")
            return is_changed

        is_changed = self._store.write(work, busy_s=_BUSY_S)
        if fields.get("about") == "":  # the log still has what was erased
            with contextlib.suppress(schema.StoreError):
                self._store.read(_empty_log)
        return is_changed

    def _read(self, which: str, *values: Any) -> list[Question]:
        def work(database: sqlite3.Connection) -> list[Question]:
            known = _known(database)
            if not known:
                return []  # no program has asked
            columns = ", ".join(
                name if name in known else _LATER.get(name, "''") for name in _COLUMNS
            )
            rows = database.execute(f"SELECT {columns} FROM questions {which}", values)
            return [Question(*row) for row in rows]

        if self._asks:
            return self._store.read(work)
        try:
            with contextlib.closing(schema.open_for_reading(self._store.path)) as database:
                return work(database)
        except sqlite3.Error as error:
            raise schema.store_error(self._store.path, error) from error
        except schema.StoreError as error:
            if error.cause != "missing":
                raise
            return []


def _empty_log(database: sqlite3.Connection) -> None:
    """Move the log into the file, unless someone reads it; the next answer tries again."""
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _known(database: sqlite3.Connection) -> set[str]:
    """Return the columns of the table; an earlier version may have made it, with fewer."""
    return {row[1] for row in database.execute("PRAGMA table_info(questions)")}


def _make(database: sqlite3.Connection) -> None:
    database.execute(_TABLE)
    for name in _LATER.keys() - _known(database):
        kind = "INTEGER" if name == "needs" else "TEXT"
        database.execute(
            f"ALTER TABLE questions ADD COLUMN {name} {kind} NOT NULL DEFAULT {_LATER[name]}"
        )


def _refuse_foreign(path: Path) -> None:
    """Refuse a store that another user may write: an answer in it could be anyone's."""
    if not hasattr(os, "geteuid"):
        return
    for place in (path, path.parent):
        owner = os.stat(place).st_uid
        if owner not in {0, os.geteuid()}:
            raise ConfigError(
                f"`{place}` belongs to another user (uid {owner}), who could answer",
                hint="set OTELHOOKS_STORE to a file in a folder of this user",
            )
    for place in (path, *path.parents):
        # Folders above are often writable for a group that has one member.
        others = stat.S_IWOTH | (stat.S_IWGRP if place in (path, path.parent) else 0)
        mode = os.stat(place).st_mode
        if mode & others and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            raise ConfigError(
                f"other users may write `{place}`, and could answer",
                hint=f"run `chmod go-w {place}`, or set OTELHOOKS_STORE to a file elsewhere",
            )
