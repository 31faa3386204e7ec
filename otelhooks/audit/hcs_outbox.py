"""The outbox: lines of the trails in a folder that are not on their topic yet.

Every process writes a trail of its own into the folder, and sends it. A trail that its writer has
left or given away is sent by the first process that locks it. Each segment has a journal of what
was tried and sent, so that the next sender continues where the last one stopped. A segment is
deleted once its writer has left it and all of it is sent.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otelhooks.audit.chain import parse, parse_file_name, segment_name
from otelhooks.audit.hcs_messages import Message, wrap
from otelhooks.audit.hcs_topic import Attempt
from otelhooks.audit.segment import LOCKED, cause, is_locked, write_all

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from pathlib import Path

logger: logging.Logger = logging.getLogger("otelhooks.audit")

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
_SPOOL = sys.maxsize
"""Number of a trail's spool, which comes after all its segments."""
_BATCH = 64
"""Lines to read ahead."""
_LOCKED_IN_S = 10.0
"""Seconds after which an empty segment is no longer one that its writer is about to lock."""


@dataclass(eq=False)
class Parcel:
    """A line to send."""

    trail: _Trail
    file: Path
    seq: int
    is_control: bool
    """Whether the trail wrote it about itself."""
    message: bytes
    attempt: Attempt | None
    """The last try, in this process or another, if there was one."""

    def note(self, attempt: Attempt) -> None:
        """Write down an attempt before it is made.

        Raises:
            OSError: It cannot be written down; then it must not be made.
        """
        self.remember(**attempt._asdict())
        self.attempt = attempt

    def remember(self, **entry: object) -> None:
        """Add a line to the journal, and wait until it is on disk."""
        fd = os.open(_journal_of(self.file), _APPEND, 0o600)
        try:
            write_all(fd, json.dumps({"seq": self.seq, **entry}).encode() + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)


class Outbox:
    """Hands out lines to send, and remembers those that were sent. Thread-safe.

    Args:
        folder: Exists; used for one topic only.
    """

    def __init__(self, folder: Path) -> None:
        self.own: str = ""
        """Id of the chain that this process writes; empty before it has begun."""
        self.records_sent: int = 0
        """Records that this process has sent, without those that trails write about themselves."""
        self.own_sent: int = 0
        """Those of them that this process has written, too."""
        self._folder = folder
        self._lock = threading.Lock()
        self._trails: dict[str, _Trail] = {}
        self._ready: deque[Parcel] = deque()
        self._told: set[str] = set()

    def take(self) -> Parcel | None:
        """Return the next line to send; None if there is none now."""
        with self._lock:
            if len(self._ready) < _BATCH:  # a line that always fails would keep it from being empty
                try:
                    self._read()
                except OSError as error:
                    self._tell(f"audit spool `{self._folder}` cannot be read", error)
            return self._ready.popleft() if self._ready else None

    def put_back(self, parcel: Parcel) -> None:
        """Take back a line that could not be sent; others come first, as it may be the cause."""
        with self._lock:
            self._ready.append(parcel)

    def sent(self, parcel: Parcel) -> None:
        """Remember that a line is on its topic."""
        with self._lock:
            try:
                parcel.remember(sent=True)
            except OSError as error:  # at worst, a later sender sends it twice
                self._tell("a sent audit record cannot be noted", error)
            self.records_sent += not parcel.is_control
            self.own_sent += not parcel.is_control and parcel.trail.chain == self.own
            del parcel.trail.unsent[parcel.seq]

    def has_sent(self, seq: int) -> bool:
        """Return whether a record of this process is on its topic; does not wait for the disk."""
        trail = self._trails.get(self.own)
        return trail is not None and seq < trail.next_seq and seq not in trail.unsent

    def give_away(self) -> None:
        """Leave the trail of this process to others, although it continues to write."""
        try:
            os.close(os.open(_given_away(self._folder, self.own), _APPEND, 0o600))
        except OSError as error:  # they send it once this process has ended
            self._tell("audit records cannot be left to another process", error)

    def close(self) -> None:
        """Give up all trails, for others to send; a forked child gives up its parent's."""
        for trail in self._trails.values():
            os.close(trail.lock)
        self._trails.clear()

    def _read(self) -> None:
        for chain, files in self._files().items():
            if chain not in self._trails and self._is_free(chain, files):
                lock = _lock(self._folder / f"audit-{chain}.lock")
                if lock is not None:
                    self._trails[chain] = _Trail(chain, lock)
        found = self._files()  # what another sender deleted before it unlocked is gone
        for chain, trail in list(self._trails.items()):
            trail.read(found.get(chain, {}), self._ready)
            if trail.is_done:
                for path in self._folder.glob(f"audit-{chain}[-.]*"):
                    path.unlink(missing_ok=True)
                os.close(self._trails.pop(chain).lock)

    def _files(self) -> dict[str, dict[int, Path]]:
        """Return the segments of every chain by their numbers, followed by its spool."""
        found: dict[str, dict[int, Path]] = {}
        for entry in os.listdir(self._folder):
            if (name := parse_file_name(entry)) is not None:
                found.setdefault(name.chain, {})[name.number or _SPOOL] = self._folder / entry
        return {chain: dict(sorted(files.items())) for chain, files in found.items()}

    def _is_free(self, chain: str, files: dict[int, Path]) -> bool:
        """Return whether this process may send a trail, if no other one does."""
        try:
            is_given = chain == self.own or _given_away(self._folder, chain).exists()
            return is_given or _is_left(chain, files)
        except FileNotFoundError:  # another process has just sent and deleted it
            return False

    def _tell(self, what: str, error: OSError) -> None:
        if what not in self._told:
            self._told.add(what)
            logger.error("%s: %s", what, cause(error))


class _Trail:
    """A trail that this process sends."""

    def __init__(self, chain: str, lock: int) -> None:
        self.chain = chain
        self.lock = lock
        """Descriptor of the file whose lock marks this process as the sender."""
        self.unsent: dict[int, Path] = {}
        """Numbers of records that were read but not sent, with their files."""
        self.next_seq: int = 0
        self.is_done: bool = False
        """Whether nothing will be added to it, and all of it is sent."""
        self._number = 0  # of the file being read
        self._offset = 0
        self._journal: dict[int, Attempt | None] = {}
        self._opening: Parcel | None = None

    def read(self, files: dict[int, Path], ready: deque[Parcel]) -> None:
        """Add lines to send now; delete files that are sent and left."""
        # Before reading, so that what a writer adds before it leaves is read too.
        is_left = _is_left(self.chain, files)
        for number, path in files.items():
            if number < self._number or (number == _SPOOL and not is_left):
                continue
            if number != self._number:
                self._number, self._offset, self._journal = number, 0, _read_journal(path)
            with path.open("rb") as file:
                file.seek(self._offset)
                while (raw := file.readline()).endswith(b"\n"):
                    if len(ready) >= _BATCH:
                        return
                    self._offset += len(raw)
                    self._add(path, raw[:-1], ready)
        waiting = set(self.unsent.values())
        for number, path in files.items():
            if number < self._number and path not in waiting:
                path.unlink()
                _journal_of(path).unlink(missing_ok=True)
        self.is_done = is_left and not waiting

    def _add(self, path: Path, line: bytes, ready: deque[Parcel]) -> None:
        parsed = parse(line)
        if parsed is None or not parsed.is_intact:
            logger.error("`%s` has a line that is not an intact record, which is not sent", path)
            return
        seq = parsed.seq
        if seq < self.next_seq:  # a spool may repeat lines of its segment
            return
        parcel = None
        if seq not in self._journal or self._journal[seq] is not None:
            message = wrap(Message(self.chain, self._number % _SPOOL, line))
            is_control = parsed.control is not None
            parcel = Parcel(self, path, seq, is_control, message, self._journal.get(seq))
        if seq == 0:
            self._opening = parcel
        elif self._opening is None or parsed.control != "closed":  # otherwise nothing was recorded
            for one in filter(None, (self._opening, parcel)):
                self.unsent[one.seq] = one.file
                ready.append(one)
            self._opening = None
        self.next_seq = seq + 1  # only now: `has_sent` reads it without a lock


def _is_left(chain: str, files: dict[int, Path]) -> bool:
    """Return whether the writer of a trail is gone.

    It locks each segment before it writes there, and keeps the lock until it has the next one.
    """
    last = max((number for number in files if number != _SPOOL), default=0)
    if not last:
        return True
    path = files[last]
    found = path.stat()
    is_new = not found.st_size and time.time() - found.st_mtime < _LOCKED_IN_S
    following = path.with_name(segment_name("audit", chain, last + 1))
    return not is_new and not is_locked(path) and not following.exists()


def _given_away(folder: Path, chain: str) -> Path:
    """Return the file that exists if the writer of a trail leaves it to others."""
    return folder / f"audit-{chain}.others"


def _journal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sent")


def _read_journal(path: Path) -> dict[int, Attempt | None]:
    """Return the last attempt for each record of a segment; None for a sent one."""
    found: dict[int, Attempt | None] = {}
    journal = _journal_of(path)
    for line in journal.read_bytes().splitlines() if journal.exists() else ():
        try:
            entry: dict[str, Any] = json.loads(line)
            seq = entry.pop("seq")
            found[seq] = None if "sent" in entry else Attempt(**entry)
        except (ValueError, LookupError, TypeError, AttributeError):
            continue  # cut off by a crash, so what it announces was not done
    return found


def _lock(path: Path) -> int | None:
    """Lock a file and return its descriptor; None if another process has the lock.

    Raises:
        OSError: The file system cannot lock.
    """
    fd = os.open(path, _APPEND, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_held = os.fstat(fd).st_nlink > 0  # otherwise the previous holder has just deleted it
    except OSError as error:
        os.close(fd)
        if error.errno in LOCKED:
            return None
        raise
    if not is_held:
        os.close(fd)
    return fd if is_held else None
