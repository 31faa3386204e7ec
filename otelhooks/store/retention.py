"""Keeps the store below its size: oldest traces are deleted first, those with a verdict last."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

# One step deletes at most this many rows in one transaction, so that other writers wait for
# milliseconds; a writer that adds 512 rows per batch and may take some steps keeps up.
STEP_ROWS = 2_000
STEPS = 4
# Rows between two checks of the free space: at most this many are deleted needlessly.
_CHUNK_ROWS = 100


def is_over(connection: sqlite3.Connection, max_bytes: int) -> bool:
    """Return whether the file, without its log, has more than `max_bytes` bytes."""
    return _pragma(connection, "page_count") * _pragma(connection, "page_size") > max_bytes


def trim_step(connection: sqlite3.Connection, max_bytes: int) -> bool:
    """Delete some of the oldest rows and give their pages back, within one transaction.

    Args:
        connection: A connection in a write transaction.
        max_bytes: Target size.

    Returns:
        Whether the file is still too big and there is something left to delete.
    """
    wanted = max_bytes // _pragma(connection, "page_size")
    room = STEP_ROWS
    is_left = True
    while (
        room > 0
        and is_left
        and _pragma(connection, "page_count") - _pragma(connection, "freelist_count") > wanted
    ):
        deleted = _delete_oldest(connection, min(room, _CHUNK_ROWS))
        room -= deleted
        is_left = deleted > 0
    # One page at a time: the pragma yields one row without columns for each page, and the sqlite3
    # module stops at the first.
    for _ in range(_pragma(connection, "freelist_count")):
        connection.execute("PRAGMA incremental_vacuum(1)").fetchall()
    return is_left and is_over(connection, max_bytes)


def sweep_origins(connection: sqlite3.Connection) -> None:
    """Delete resources and scopes that no span or log record refers to any more.

    It reads the whole table of traces, some tens of milliseconds in a full store: run it once per
    process, as often as new ones come.
    """
    connection.execute(
        "DELETE FROM origins WHERE used_at < min("
        " coalesce((SELECT min(started_at) FROM traces), 9223372036854775807),"
        " coalesce((SELECT min(at) FROM logs WHERE trace_id IS NULL), 9223372036854775807))"
    )


def _delete_oldest(connection: sqlite3.Connection, limit: int) -> int:
    """Delete from the least important, oldest trace, or from log records without a trace."""
    # Up to three, because the newest span and the newest record stay, whatever trace they are in.
    traces = connection.execute(
        "SELECT verdict, ended_at, trace_id FROM traces ORDER BY verdict, ended_at LIMIT 3"
    ).fetchall()
    untraced = connection.execute(
        "SELECT verdict, at FROM logs WHERE trace_id IS NULL ORDER BY verdict, at LIMIT 1"
    ).fetchone()
    for verdict, ended_at, trace_id in traces:
        if untraced is not None and untraced < (verdict, ended_at):
            break
        if deleted := _delete_trace(connection, trace_id, limit):
            return deleted
    if untraced is None:
        return 0
    return connection.execute(
        "DELETE FROM logs WHERE id IN (SELECT id FROM logs"
        " WHERE trace_id IS NULL AND verdict = ? ORDER BY at LIMIT ?)"
        " AND id < (SELECT max(id) FROM logs)",
        (untraced[0], limit),
    ).rowcount


def _delete_trace(connection: sqlite3.Connection, trace_id: str, limit: int) -> int:
    deleted = 0
    for table in ("spans", "logs"):
        deleted += connection.execute(
            f"DELETE FROM {table} WHERE id IN"
            f" (SELECT id FROM {table} WHERE trace_id = ? ORDER BY id LIMIT ?)"
            f" AND id < (SELECT max(id) FROM {table})",
            (trace_id, limit - deleted),
        ).rowcount
    deleted += connection.execute(
        "DELETE FROM traces WHERE trace_id = :id"
        " AND NOT EXISTS (SELECT 1 FROM spans WHERE trace_id = :id)"
        " AND NOT EXISTS (SELECT 1 FROM logs WHERE trace_id = :id)",
        {"id": trace_id},
    ).rowcount
    return deleted


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]
