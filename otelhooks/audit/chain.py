"""The chain itself, without input or output: records become lines, each bound to the last.

A line is compact JSON in ASCII. Its `hash` is the SHA-256 of the same object without `hash`, keys
sorted, which is byte for byte the line up to `,"hash":` plus `}`; `prev` is the `hash` of the line
before. So a reader in any language can check a line without parsing it and printing it again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from otelhooks.records.arguments import as_number

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "otelhooks.audit/1"
MOVED = "moved"
"""`start` of a segment that continues one whose file was moved or deleted."""
GENESIS = "0" * 64
"""`prev` of the first record of a chain."""

_RESERVED = frozenset({"audit", "hash", "prev", "schema", "seq", "time"})
_MAX_DEPTH = 32
_HASH_TAIL = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')
_NAME = r"(?P<stem>.+)-(?P<chain>\d{8}T\d{15}Z-\d+)"
_FILE_NAME = re.compile(rf"{_NAME}(?:-(?P<number>\d{{6,}})\.jsonl|\.spool)", re.ASCII)

_encoder = json.JSONEncoder(
    ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True, default=str
)

Fields = list[tuple[str, str]]
"""The caller's fields, encoded: pairs of a name and `"name":value`."""


class State(NamedTuple):
    """How far a chain is: what its next line continues."""

    head: str = GENESIS
    """Hash of the last record."""
    records: int = 0
    """Number of sealed records; the number of the next one."""
    segment: int = 0
    """Number of the newest segment."""
    lines: int = 0
    """Lines of that segment."""
    size: int = 0
    """Bytes of that segment."""
    total: int = 0
    """Bytes of the chain."""


class Line(NamedTuple):
    """One sealed line and the segment it belongs to."""

    segment: int
    """Number of the segment, from 1."""
    data: bytes
    """The line with its newline."""
    after: State
    """The chain with this line."""


class FileName(NamedTuple):
    """The parts of a trail file's name."""

    stem: str
    chain: str
    number: int
    """Number of the segment, from 1; 0 for the chain's spool."""


@dataclass(frozen=True)
class Parsed:
    """One line as read back."""

    fields: dict[str, Any]
    hash: str
    """The hash that the line contains."""
    is_intact: bool
    """Whether that hash is the hash of the line's content."""

    @property
    def seq(self) -> int:
        """Number of the record in its chain, from 0; -1 if the line has no such number."""
        value = self.fields.get("seq")
        return value if type(value) is int else -1

    @property
    def prev(self) -> object:
        """Hash of the record before, as the line states it."""
        return self.fields.get("prev")

    @property
    def control(self) -> object:
        """`open`, `closed` or `lost` for a record that the trail wrote about itself, else None."""
        return self.fields.get("audit")


def chain_id(start_ns: int, pid: int) -> str:
    """Return a chain's name: its start (Unix time in nanoseconds) and its process."""
    seconds, nanoseconds = divmod(start_ns, 1_000_000_000)
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}{nanoseconds:09d}Z-{pid}"


def segment_name(stem: str, chain: str, number: int) -> str:
    """Return the file name of segment `number` (from 1) of a chain."""
    return f"{stem}-{chain}-{number:06d}.jsonl"


def spool_name(stem: str, chain: str) -> str:
    """Return the file name for a chain's lines while its segment cannot be written."""
    return f"{stem}-{chain}.spool"


def parse_file_name(name: str) -> FileName | None:
    """Read a file name; None if it is not the name of a segment or spool."""
    match = _FILE_NAME.fullmatch(name)
    return match and FileName(match["stem"], match["chain"], int(match["number"] or 0))


def rfc3339(time_ns: int) -> str:
    """Return Unix time in nanoseconds as RFC 3339, UTC, nine digits."""
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    return f"{_second(seconds)}.{nanoseconds:09d}Z"


@functools.lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def encode(record: Mapping[str, Any]) -> Fields:
    """Encode a caller's record, so that later changes to it do not matter.

    Values that JSON cannot express are written as their text. A field with one of the trail's own
    names (`audit`, `hash`, `prev`, `schema`, `seq`, `time`) gets an underscore after its name.

    Args:
        record: Any mapping; read once, not kept.

    Returns:
        The encoded fields.

    Raises:
        Exception: What the mapping raises when it is read; values never make it fail.
    """
    fields: dict[str, str] = {}
    for key, value in record.items():
        name = key if type(key) is str else _text(key)
        while name in _RESERVED or name in fields:
            name += "_"
        fields[name] = _encode_value(value)
    return [(name, f"{_encode_name(name)}:{value}") for name, value in fields.items()]


@functools.lru_cache(maxsize=1024)
def _encode_name(name: str) -> str:
    return _encoder.encode(name)


def _encode_value(value: object) -> str:
    try:
        return _encoder.encode(value)
    except Exception:  # not a number, mixed keys, a cycle, a `__str__` that raises: spell it out
        return _encoder.encode(_plain(value, 0))


def _plain(value: object, depth: int) -> object:
    if value is None or type(value) in (str, bool):
        return value
    if type(value) is int:
        return as_number(value)
    if depth < _MAX_DEPTH:
        if isinstance(value, dict):
            items = cast("dict[object, object]", value).items()
            return {_text(key): _plain(item, depth + 1) for key, item in items}
        if isinstance(value, (list, tuple)):
            sequence = cast("list[object] | tuple[object, ...]", value)
            return [_plain(item, depth + 1) for item in sequence]
    return _text(value)


def _text(value: object) -> str:
    try:
        # A subclass of str may print as anything; the plain copy is what is stored.
        return "".join(value) if isinstance(value, str) else str(value)
    except Exception:  # also RecursionError, when a cycle prints itself
        return f"<unprintable {type(value).__name__}>"


def parse(raw: bytes) -> Parsed | None:
    """Read one line without its newline; None if it does not have the form of an audit record."""
    tail = _HASH_TAIL.search(raw)
    if tail is None:
        return None
    body = raw[: tail.start()] + b"}"
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    carried = tail[1].decode()
    return Parsed(
        cast("dict[str, Any]", fields), carried, hashlib.sha256(body).hexdigest() == carried
    )


class Chain:
    """Seals records into lines and returns the segment of each line.

    It has no state: the last line that was queued has it. So an exception that a
    signal handler raises while a line is sealed, or before it is kept, leaves no gap.

    Args:
        start_ns: Start of the chain, Unix time in nanoseconds.
        pid: The process that writes it.
        rotate_bytes: Size at which a segment is closed and the next one opened; a single larger
            record gets a segment of its own.
        parent: Id of the chain this process was forked from, or None.
    """

    def __init__(
        self, start_ns: int, pid: int, rotate_bytes: int, parent: str | None = None
    ) -> None:
        self.id: str = chain_id(start_ns, pid)
        self._pid = pid
        self._parent = parent
        self._rotate_bytes = rotate_bytes

    def open(self, now_ns: int) -> Line:
        """Begin the first segment."""
        return self._open(State(), now_ns, "process" if self._parent is None else "fork")

    def go_on(self, state: State, lost: int, now_ns: int) -> Line:
        """Begin the segment after the newest whose file was moved or deleted, by its number."""
        return self._open(state._replace(segment=lost), now_ns, MOVED)

    def add(self, state: State, fields: Fields, now_ns: int) -> list[Line]:
        """Seal one record.

        Args:
            state: After the line before.
            fields: What `encode` returned.
            now_ns: Time of the record, Unix time in nanoseconds.

        Returns:
            The lines to write, in order; more than one if a new segment begins.
        """
        size = sum(len(text) + 1 for _, text in fields)
        # The first line of a segment is its opening record: a segment with more lines is full
        # enough to be closed.
        if state.lines <= 1 or state.size + size <= self._rotate_bytes:
            return [_seal(state, fields, now_ns)]
        closing = _close(state, now_ns, state.segment + 1)
        opening = self._open(closing.after, now_ns, "rotation")
        return [closing, opening, _seal(opening.after, fields, now_ns)]

    def _open(self, state: State, now_ns: int, start: str) -> Line:
        number = state.segment + 1
        return _control(
            state._replace(segment=number, lines=0, size=0),
            "open",
            now_ns,
            chain=self.id,
            parent=self._parent,
            pid=self._pid,
            schema=SCHEMA,
            segment=number,
            start=start,
        )


def lost(state: State, count: int, now_ns: int) -> Line:
    """Seal the statement that `count` records could not be kept anywhere."""
    return _control(state, "lost", now_ns, count=count)


def close(state: State, now_ns: int) -> Line:
    """Seal the record that ends the chain; nothing may follow it."""
    return _close(state, now_ns, None)


def _close(state: State, now_ns: int, following: int | None) -> Line:
    return _control(state, "closed", now_ns, lines=state.lines + 1, next=following)


def _control(state: State, kind: str, now_ns: int, **fields: object) -> Line:
    fields["audit"] = kind
    encoded = [(name, f'"{name}":{_encoder.encode(value)}') for name, value in fields.items()]
    return _seal(state, encoded, now_ns)


def _seal(state: State, fields: Fields, now_ns: int) -> Line:
    head, records, segment, lines, size, total = state
    parts = [
        *fields,
        ("prev", f'"prev":"{head}"'),
        ("seq", f'"seq":{records}'),
        ("time", f'"time":"{rfc3339(now_ns)}"'),
    ]
    parts.sort()
    body = "{" + ",".join(text for _, text in parts)
    head = hashlib.sha256(f"{body}}}".encode()).hexdigest()
    data = f'{body},"hash":"{head}"}}\n'.encode()
    added = len(data)
    return Line(
        segment, data, State(head, records + 1, segment, lines + 1, size + added, total + added)
    )
