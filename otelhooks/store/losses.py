"""A note beside the store of what it could not take, for the commands that read it.

Writing fails open: a note that cannot be written is tried again with the next one. On a full disk
the file can often be made although nothing fits into it: an empty one says that something is lost.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Losses", "add", "beside", "read"]

_MAX_BYTES = 64 * 1024
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


class Losses(NamedTuple):
    """What a store lacks."""

    counts: dict[str, int]
    """How many records, by word: ``span`` or ``event``. Empty if the number is not known."""
    last_at: float
    """When the note was last written, in seconds since the epoch."""


def beside(store: Path) -> Path:
    """Return the file of the notes of a store."""
    return Path(f"{os.path.realpath(store)}-lost")


def add(store: Path, word: str, count: int) -> bool:
    """Note that records could not be stored; return whether the note has the number.

    Args:
        store: The store.
        word: ``span`` or ``event``.
        count: How many.
    """
    line = json.dumps({word: count}).encode() + b"\n"
    try:
        fd = os.open(beside(store), _FLAGS, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size < _MAX_BYTES and os.write(fd, line) != len(line):
                os.ftruncate(fd, size)
                return False
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def read(store: Path) -> Losses | None:
    """Return what a store lacks, None if nothing is noted. Never raises."""
    counts: dict[str, int] = {}
    try:
        with beside(store).open("rb") as file:
            last_at = os.fstat(file.fileno()).st_mtime
            for line in file.read(_MAX_BYTES + 4096).splitlines():
                for word, count in json.loads(line).items():
                    counts[str(word)] = counts.get(str(word), 0) + int(count)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError):
        return Losses({}, 0.0)
    return Losses(counts, last_at)
