"""The outbox: trails in a folder whose lines have not all reached their topic.

Every process writes a trail of its own into the folder, and sends it. A trail whose writer is gone,
or has given it away, is sent by whichever process takes its lock first. Beside each segment lies a
journal of what was tried and what was sent, so that the next sender goes on where the last one
stopped. A segment is deleted once its writer has left it and all of it is sent.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from otelhooks.audit.chain import (
    Parsed,
    parse,
    parse_file_name,
    segment_name,
    spool_name,
)
from otelhooks.audit.hcs_messages import Message, wrap
from otelhooks.audit.segment import cause, is_locked, write_all

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

logger: logging.Logger = logging.getLogger("otelhooks.audit")

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES})
_STEM = "audit"
_GIVEN_AWAY = "others"
_SPOOL = sys.maxsize
_BATCH = 64
"""Lines that are read ahead."""


class Attempt(NamedTuple):
    """The last try to send a record, the outcome of which may not be known."""

    chunk: int
    """Number of the chunk, from 1; those before it were sent."""
    transaction: str
    """Transaction id of the try, `payer@seconds.nanoseconds`."""
    first: str
    """Transaction id of the first chunk, which is the name of the message."""


@dataclass(eq=False)
class Parcel:
    """A line that is to be sent."""

    chain: str
    segment: _Segment
    seq: int
    hash: str
    is_control: bool
    """Whether the trail wrote it about itself."""
    message: bytes
    attempt: Attempt | None = None


class Outbox:
    """Hands out what is to be sent, and remembers what was. Thread-safe.

    Args:
        folder: Exists; used for one topic only.
    """

    def __init__(self, folder: Path) -> None:
        self.own: str = ""
        """Id of the chain that this process writes; empty before it has begun."""
        self.records_sent: int = 0
        """Records that this process has sent, without what trails write about themselves."""
        self.own_sent: int = 0
        """Those of them that it has written, too."""
        self._folder = folder
        self._lock = threading.Lock()
        self._trails: dict[str, _Trail] = {}
        self._ready: deque[Parcel] = deque()
        self._taken = 0
        self._told: set[str] = set()

    def take(self) -> Parcel | None:
        """Return the next line to send; None if there is none now."""
        with self._lock:
            if not self._ready:
                self._read()
            if not self._ready:
                return None
            self._taken += 1
            return self._ready.popleft()

    def put_back(self, parcel: Parcel) -> None:
        """Take back a line that could not be sent; others come first, for it may be at fault."""
        with self._lock:
            self._taken -= 1
            self._ready.append(parcel)

    def note(self, parcel: Parcel, attempt: Attempt) -> None:
        """Remember a try before it is made.

        Raises:
            OSError: It cannot be remembered; then it must not be made.
        """
        with self._lock:
            parcel.segment.remember(seq=parcel.seq, **attempt._asdict())
            parcel.attempt = attempt

    def sent(self, parcel: Parcel) -> None:
        """Remember that a line is on its topic."""
        with self._lock:
            self._taken -= 1
            self.records_sent += not parcel.is_control
            self.own_sent += not parcel.is_control and parcel.chain == self.own
            try:
                parcel.segment.remember(seq=parcel.seq, sent=True)
                parcel.segment.settle(parcel.seq)
            except OSError as error:  # a later sender would at worst send it twice
                self._tell("a sent audit record cannot be noted", error)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is waiting or under way in the trails that this process sends."""
        with self._lock:
            if not self._ready:
                self._read()
            return not self._ready and not self._taken

    def give_away(self) -> None:
        """Leave the trail of this process to others, although it goes on writing.

        Raises:
            OSError: That cannot be said.
        """
        os.close(os.open(self._folder / f"{_STEM}-{self.own}.{_GIVEN_AWAY}", _APPEND, 0o600))

    def close(self) -> None:
        """Give up all trails, for others to send; a forked child gives up its parent's."""
        for trail in self._trails.values():
            trail.unlock()
        self._trails.clear()

    def _read(self) -> None:
        try:
            self._claim()
            for trail in list(self._trails.values()):
                self._ready.extend(trail.read(_BATCH))
                if trail.is_settled:
                    trail.end()
                    del self._trails[trail.chain]
        except OSError as error:
            self._tell(f"audit spool `{self._folder}` cannot be read", error)

    def _claim(self) -> None:
        names = sorted(entry.name for entry in os.scandir(self._folder))
        last: dict[str, int] = {}
        for name in filter(None, map(parse_file_name, names)):
            last[name.chain] = max(name.number, last.get(name.chain, 0))
        for chain, number in last.items():
            if chain in self._trails:
                continue
            trail = _Trail(self._folder, chain)
            is_free = chain == self.own or trail.given_away.name in names
            if (is_free or not trail.is_written(number)) and trail.lock():
                self._trails[chain] = trail

    def _tell(self, what: str, error: OSError) -> None:
        if what not in self._told:
            self._told.add(what)
            logger.error("%s: %s", what, cause(error))


class _Segment:
    """One file of a trail, and its journal."""

    def __init__(self, path: Path, number: int) -> None:
        self.number: int = number
        self.path: Path = path
        self.is_read: bool = False
        """Whether nothing will be added to it."""
        self.is_gone: bool = False
        self._offset = 0
        self._unsent: set[int] = set()
        self._journal = path.with_suffix(f"{path.suffix}.sent")
        self._sent: set[int] = set()
        self._attempts: dict[int, Attempt] = {}
        self._load()

    def _load(self) -> None:
        try:
            lines = self._journal.read_bytes().splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                entry: dict[str, Any] = json.loads(line)
                seq = entry.pop("seq")
                if "sent" in entry:
                    self._sent.add(seq)
                else:
                    self._attempts[seq] = Attempt(**entry)
            except (ValueError, LookupError, TypeError, AttributeError):
                continue  # cut off by a crash, so that what it announces was not done

    def __str__(self) -> str:
        return str(self.path)

    def lines(self, limit: int) -> Iterator[bytes]:
        """Read on, up to the last complete line; without newlines."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for _ in range(limit):
                raw = file.readline()
                if not raw.endswith(b"\n"):
                    return
                self._offset += len(raw)
                yield raw[:-1]

    def parcel(self, chain: str, line: bytes, parsed: Parsed) -> Parcel | None:
        """Return a line as what is to be sent; None if it was."""
        if parsed.seq in self._sent:
            return None
        self._unsent.add(parsed.seq)
        return Parcel(
            chain,
            self,
            parsed.seq,
            parsed.hash,
            parsed.control is not None,
            wrap(Message(chain, self.number, line)),
            self._attempts.pop(parsed.seq, None),
        )

    def remember(self, **entry: object) -> None:
        """Add a line to the journal, and wait until it is on disk.

        Raises:
            OSError: It is not.
        """
        fd = os.open(self._journal, _APPEND, 0o600)
        try:
            write_all(fd, json.dumps(entry).encode() + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)

    def settle(self, seq: int) -> None:
        """Forget a line that was sent."""
        self._unsent.discard(seq)
        self.tidy_up()

    def tidy_up(self) -> None:
        """Delete the files if all of the segment is sent, and its writer has left it."""
        if self.is_read and not self._unsent and not self.is_gone and not is_locked(self.path):
            self.path.unlink(missing_ok=True)
            self._journal.unlink(missing_ok=True)
            self.is_gone = True


class _Trail:
    """One trail that this process sends, or wants to."""

    def __init__(self, folder: Path, chain: str) -> None:
        self.chain = chain
        self.given_away = folder / f"{_STEM}-{chain}.{_GIVEN_AWAY}"
        """A file that is there if its writer leaves it to others."""
        self._folder = folder
        self._lock_path = folder / f"{_STEM}-{chain}.lock"
        self._fd = -1
        self._segments: list[_Segment] = []
        self._last = 0  # number of the segment that was read last; the spool counts as the last
        self._current: _Segment | None = None
        self._is_read = False
        self._opening: Parcel | None = None
        self._next_seq = 0

    def is_written(self, number: int) -> bool:
        """Say whether its writer lives; `number` is that of its last segment, 0 for its spool."""
        return number > 0 and is_locked(self._path(number))

    def lock(self) -> bool:
        """Become its sender; False if another process is.

        Raises:
            OSError: The file system cannot lock.
        """
        fd = os.open(self._lock_path, _APPEND, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it may just have deleted it, and then it is no lock any more.
            is_held = os.fstat(fd).st_nlink > 0
        except OSError as error:
            os.close(fd)
            if error.errno in _HELD:
                return False
            raise
        if not is_held:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def unlock(self) -> None:
        """Stop being its sender."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def end(self) -> None:
        """Take away what is left of it."""
        self.given_away.unlink(missing_ok=True)
        self._lock_path.unlink(missing_ok=True)
        self.unlock()

    @property
    def is_settled(self) -> bool:
        """Whether nothing will be added to it, and all of it is sent."""
        return self._is_read and not self._segments

    def read(self, limit: int) -> list[Parcel]:
        """Return lines that were not sent yet; empty if there is nothing new."""
        for segment in self._segments:
            segment.tidy_up()
        self._segments = [segment for segment in self._segments if not segment.is_gone]
        parcels: list[Parcel] = []
        while len(parcels) < limit and not self._is_read:
            segment = self._current or self._next_segment()
            if segment is None:
                self._is_read = True
                self._drop_opening()
                break
            # Asked before reading: what a writer adds before it goes must not be overlooked.
            may_grow = segment.number > 0 and is_locked(segment.path)
            is_closed = False
            lines = list(segment.lines(limit))
            for line in lines:
                parsed = parse(line)
                if parsed is None or not parsed.is_intact:
                    logger.error("`%s` holds a line that is no intact record: not sent", segment)
                    continue
                is_closed = parsed.control == "closed"
                if parsed.seq >= self._next_seq:  # a spool may repeat lines of its segment
                    self._next_seq = parsed.seq + 1
                    parcels += self._due(segment, line, parsed)
            if is_closed or (len(lines) < limit and not may_grow):
                segment.is_read = True
                self._current = None
            elif len(lines) < limit:
                break
        return parcels

    def _due(self, segment: _Segment, line: bytes, parsed: Parsed) -> list[Parcel]:
        """Return what to send now; a trail that only opens and closes is not sent."""
        parcel = segment.parcel(self.chain, line, parsed)
        if parsed.seq == 0:
            self._opening = parcel
            return []
        if self._opening is not None and parsed.control == "closed" and parsed.seq == 1:
            segment.settle(parsed.seq)
            self._drop_opening()
            return []
        opening, self._opening = self._opening, None
        return [one for one in (opening, parcel) if one is not None]

    def _drop_opening(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.segment.settle(opening.seq)

    def _next_segment(self) -> _Segment | None:
        """Return the first segment that was not read yet, or at last the spool."""
        names = (parse_file_name(entry.name) for entry in os.scandir(self._folder))
        mine = (name.number for name in names if name is not None and name.chain == self.chain)
        ordered = (number or _SPOOL for number in mine)
        self._last = min((number for number in ordered if number > self._last), default=0)
        if not self._last:
            return None
        number = self._last % _SPOOL
        self._current = _Segment(self._path(number), number)
        self._segments.append(self._current)
        return self._current

    def _path(self, number: int) -> Path:
        if not number:
            return self._folder / spool_name(_STEM, self.chain)
        return self._folder / segment_name(_STEM, self.chain, number)
