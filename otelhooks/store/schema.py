"""The SQLite file: its tables, how it is opened, and its possible errors.

One file in WAL mode, so that readers never wait for writers and several processes may write.
``application_id`` marks the file as ours, ``user_version`` is the schema; a file that is neither
new nor ours is left untouched.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from otelhooks.errors import ConfigError
from otelhooks.process import environment, folders
from otelhooks.records import semconv

APPLICATION_ID = 0x4F544C48  # "OTLH"
SCHEMA_VERSION = 1

# A writer waits in slices of this length, so that a fork or a second exporter of the process never
# waits longer for the connection than one slice.
BUSY_SLICE_S = 0.25

_SHM_BYTES = 64 * 1024
"""More than the smallest file with -shm behind its name takes on any disk."""

Cause = Literal[
    "missing", "locked", "full", "read-only", "foreign", "version", "damaged", "unusable"
]

_ELSEWHERE = "set OTELHOOKS_STORE to another file"
_EXPLAINED: dict[Cause, tuple[str, str]] = {
    "missing": (
        "does not exist",
        "run a program under otelhooks first, or name the file with --store or OTELHOOKS_STORE",
    ),
    "locked": (
        "is locked by another process",
        f"end the program that holds it open for writing, or {_ELSEWHERE}",
    ),
    "full": (
        "cannot grow, the disk is full",
        f"free some space on that disk, or {_ELSEWHERE} on another disk",
    ),
    "read-only": (
        "is read-only",
        f"make the file and its folder writable for this user, or {_ELSEWHERE}",
    ),
    "foreign": (
        "is not an otelhooks store, it was left untouched",
        f"{_ELSEWHERE}, or move this file away",
    ),
    "version": (
        "has another schema version",
        f"use the otelhooks version that wrote it, or {_ELSEWHERE}",
    ),
    "damaged": (
        "is damaged",
        "move the file and those with -wal and -shm behind its name away; a new one is made",
    ),
    "unusable": (
        "cannot be used",
        f"check the path, its folder, the permissions and the room on the disk, or {_ELSEWHERE}",
    ),
}

# In the order in which they are searched in SQLite's messages: Python 3.10 has no error codes.
_MESSAGES: tuple[tuple[str, Cause], ...] = (
    ("locked", "locked"),
    ("locking protocol", "locked"),
    ("is full", "full"),
    ("readonly", "read-only"),
    ("not a database", "foreign"),
    ("malformed", "damaged"),
)


class StoreError(ConfigError):
    """A store cannot be opened, read or written.

    Args:
        path: File as given.
        cause: Kind of problem, one word.
        detail: Message of SQLite or the system, empty for none.
    """

    def __init__(self, path: Path, cause: Cause, detail: str = "") -> None:
        problem, hint = _EXPLAINED[cause]
        end = f": {detail}" if detail else ""
        super().__init__(f"local store `{path}` {problem}{end}", hint=hint)
        self.path = path
        self.cause: Cause = cause


def store_error(path: Path, error: Exception) -> StoreError:
    """Return an exception of SQLite or the system as a `StoreError` with a hint."""
    if isinstance(error, StoreError):
        return error
    text = str(error)
    if isinstance(error, (sqlite3.Error, sqlite3.Warning)):
        for words, cause in _MESSAGES:
            if words in text:
                return StoreError(path, cause, text)
        if "I/O error" in text and _is_full(path):
            return StoreError(path, "full", text)
    elif isinstance(error, PermissionError) or (
        isinstance(error, OSError) and error.errno == errno.EROFS
    ):
        return StoreError(path, "read-only", error.strerror or text)
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(path, "full", error.strerror or text)
    return StoreError(path, "unusable", text)


def _is_full(path: Path) -> bool:
    """Return whether the disk is too full for the file that SQLite maps into memory."""
    try:
        return shutil.disk_usage(path.parent).free < _SHM_BYTES
    except OSError:
        return False


def default_store_path() -> Path:
    """Return the file that ``OTELHOOKS_STORE`` names, else that in the user's data directory.

    Raises:
        ConfigError: Neither is known.
    """
    if (named := environment.store_path()) is not None:
        return named
    return folders.user_folder("data", "OTELHOOKS_STORE") / "store.db"


def open_for_writing(path: Path, busy_s: float = BUSY_SLICE_S) -> sqlite3.Connection:
    """Open the store, creating missing folder, file and tables.

    Args:
        path: The file.
        busy_s: How long the connection waits for a lock, in seconds.

    Returns:
        A connection without implicit transactions that may be passed between threads.

    Raises:
        StoreError: The file is another program's or has another schema version. sqlite3.Error: As
            SQLite raises it.
        OSError: The folder cannot be created.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        # It may contain captured content, so only the user may read it, even before the first
        # write.
        path.touch(mode=0o600)
    connection = sqlite3.connect(
        path, timeout=busy_s, isolation_level=None, check_same_thread=False
    )
    try:
        if _identify(connection, path) != SCHEMA_VERSION:
            _create(connection, path)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA journal_size_limit=8388608")
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open the store read-only.

    Args:
        path: The file.

    Returns:
        A connection with `sqlite3.Row` rows.

    Raises:
        StoreError: The file does not exist, or is not a store that this version can read.
    """
    if not path.exists():
        raise StoreError(path, "missing")
    try:
        try:
            return _connect_reading(path, "mode=ro")
        except sqlite3.OperationalError:
            # WAL needs a writable folder. Without a log the file is complete by itself.
            if path.with_name(path.name + "-wal").exists():
                raise
            return _connect_reading(path, "immutable=1")
    except sqlite3.Error as error:
        raise store_error(path, error) from error


def _connect_reading(path: Path, how: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?{how}"
    connection = sqlite3.connect(uri, uri=True, timeout=5.0, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    try:
        if _identify(connection, path) == 0:
            # A writer has created the file but not yet its tables, or never will.
            raise StoreError(path, "missing")
    except BaseException:
        connection.close()
        raise
    return connection


def _identify(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version, 0 for a file without tables; raise for a file that is not ours."""
    # One statement, so that all three are of one moment: another process may create the tables now.
    application_id: int
    version: int
    tables: int
    application_id, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if application_id == APPLICATION_ID:
        if version != SCHEMA_VERSION:
            detail = f"the file has {version}, this otelhooks reads {SCHEMA_VERSION}"
            raise StoreError(path, "version", detail)
        return version
    if application_id or version or tables:
        raise StoreError(path, "foreign", "it belongs to another program")
    return 0


def _create(connection: sqlite3.Connection, path: Path) -> None:
    # The order matters: auto_vacuum is fixed by the first page, which journal_mode writes.
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been quicker.
        if _identify(connection, path) == 0:
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _attribute(name: str) -> str:
    return f"""json_extract(attributes, '$."{name}"')"""


_VERDICT_COLUMNS = f"""
    {_attribute(semconv.POLICY_DECISION)} AS decision,
    {_attribute(semconv.POLICY_ENFORCEMENT)} AS enforcement,
    {_attribute(semconv.POLICY_ID)} AS policy_id,
    {_attribute(semconv.POLICY_RULE_ID)} AS rule_id,
    {_attribute(semconv.POLICY_REASON)} AS reason,
    {_attribute(semconv.GEN_AI_TOOL_NAME)} AS tool,
    {_attribute(semconv.GEN_AI_AGENT_NAME)} AS agent"""

# Times are nanoseconds since the Unix epoch, ids lower-case hex, kinds, status and severities the
# numbers of OTLP, `attributes`, `events`, `links` and `body` JSON as codec.py writes it, `flags`
# those of OTLP, `verdict` a rank of verdicts.py.
_TABLES = (
    # A resource and an instrumentation scope. The id is a hash of the content: a writer inserts it
    # with every batch, so that retention in another process may delete it at any time.
    """CREATE TABLE origins (
        id INTEGER PRIMARY KEY,
        resource TEXT NOT NULL,
        resource_schema_url TEXT NOT NULL,
        scope TEXT,
        used_at INTEGER NOT NULL
    )""",
    """CREATE TABLE traces (
        trace_id TEXT PRIMARY KEY,
        started_at INTEGER NOT NULL,
        ended_at INTEGER NOT NULL,
        verdict INTEGER NOT NULL
    ) WITHOUT ROWID""",
    # The only index: one more would cost a third of what a short trace costs in total.
    "CREATE INDEX traces_by_age ON traces (verdict, ended_at)",
    # Ids only grow, which is how readers follow the store: retention never deletes the newest row,
    # and AUTOINCREMENT costs a sixth of an insert.
    """CREATE TABLE spans (
        id INTEGER PRIMARY KEY,
        trace_id TEXT NOT NULL,
        span_id TEXT NOT NULL,
        parent_id TEXT,
        name TEXT NOT NULL,
        kind INTEGER NOT NULL,
        started_at INTEGER NOT NULL,
        ended_at INTEGER NOT NULL,
        status INTEGER NOT NULL,
        status_message TEXT,
        verdict INTEGER NOT NULL,
        attributes TEXT NOT NULL,
        events TEXT,
        links TEXT,
        trace_state TEXT,
        flags INTEGER NOT NULL,
        dropped_attributes INTEGER NOT NULL,
        dropped_events INTEGER NOT NULL,
        dropped_links INTEGER NOT NULL,
        origin INTEGER NOT NULL
    )""",
    "CREATE INDEX spans_by_trace ON spans (trace_id)",
    "CREATE INDEX spans_by_verdict ON spans (verdict) WHERE verdict > 0",
    """CREATE TABLE logs (
        id INTEGER PRIMARY KEY,
        trace_id TEXT,
        span_id TEXT,
        event_name TEXT,
        at INTEGER NOT NULL,
        emitted_at INTEGER,
        observed_at INTEGER,
        severity INTEGER,
        severity_text TEXT,
        verdict INTEGER NOT NULL,
        body TEXT,
        attributes TEXT NOT NULL,
        flags INTEGER NOT NULL,
        dropped_attributes INTEGER NOT NULL,
        origin INTEGER NOT NULL
    )""",
    "CREATE INDEX logs_by_trace ON logs (trace_id) WHERE trace_id IS NOT NULL",
    "CREATE INDEX logs_untraced ON logs (verdict, at) WHERE trace_id IS NULL",
    "CREATE INDEX logs_by_verdict ON logs (verdict) WHERE verdict > 0",
    # For people with an SQL prompt: every verdict except a plain allow, one row each.
    f"""CREATE VIEW verdicts AS
        SELECT trace_id, span_id, at, {_VERDICT_COLUMNS}
        FROM logs WHERE verdict > 0 AND event_name = '{semconv.EVENT_POLICY_DECISION}'""",
)
