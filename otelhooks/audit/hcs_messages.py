"""What a record looks like on a topic of the Hedera Consensus Service.

A message is one line of compact JSON in ASCII::

    {"schema":"otelhooks.hcs/1","chain":CHAIN,"segment":N,"record":LINE}

`LINE` is a line of the audit trail byte for byte, hash included (see `otelhooks.audit.chain`), so
that the messages of a chain, put in the order of their `seq`, are its segments again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from otelhooks.audit.chain import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "otelhooks.hcs/1"
CHUNK_BYTES = 1024
"""How much of a message one transaction carries. Source: HCS, `consensusSubmitMessage`."""

_MESSAGE = re.compile(
    rb'\{"schema":"otelhooks\.hcs/1","chain":"(\d{8}T\d{15}Z-\d{1,10})","segment":(\d{1,9}),"record":(\{.*\})\}'
)
_OVERHEAD = 400
"""More than message and trail add to a record's own fields: names, numbers, time, two hashes."""
_LONG_TEXT = 200


class Message(NamedTuple):
    """A record with its place."""

    chain: str
    segment: int
    """Number of the segment, from 1."""
    line: bytes
    """The line of the trail, without its newline."""


def wrap(message: Message) -> bytes:
    """Return the bytes that go to the topic."""
    head = f'{{"schema":"{SCHEMA}","chain":"{message.chain}","segment":{message.segment},"record":'
    return head.encode() + message.line + b"}"


def unwrap(data: bytes) -> Message | None:
    """Read what came from a topic; None if it is no message of this schema."""
    match = _MESSAGE.fullmatch(data)
    if match is None:
        return None
    return Message(match[1].decode(), int(match[2]), match[3])


def chunks_of(data: bytes) -> list[bytes]:
    """Split a message into what single transactions carry; at least one."""
    return [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)] or [b""]


def fit(record: Mapping[str, Any], max_chunks: int) -> dict[str, Any]:
    """Return a record that fits into so many chunks.

    Arguments that are too large are left out, and their size is said in their place; their hash
    stays. If that does not do, long texts are cut.

    Args:
        record: JSON-like, masked; not changed.
        max_chunks: At least 1.
    """
    limit = max_chunks * CHUNK_BYTES - _OVERHEAD
    fitting = dict(record)
    if _size(fitting) > limit and "arguments" in fitting:
        fitting["arguments_left_out"] = _size({"arguments": fitting.pop("arguments")})
    if _size(fitting) <= limit:
        return fitting
    short = {key[:_LONG_TEXT]: _short(value) for key, value in fitting.items()}
    sizes = {key: _size({key: value}) for key, value in short.items()}
    cut: dict[str, Any] = {"is_cut": True}
    room = limit - _size(cut)
    for key in sorted(short, key=lambda key: (key not in _FIRST, sizes[key])):
        room -= sizes[key]
        if room < 0:
            break
        cut[key] = short[key]
    return cut


_FIRST = frozenset(("decision", "decision_id", "arguments_hash", "point", "outcome"))


def _size(record: Mapping[str, Any]) -> int:
    return sum(len(text) + 1 for _, text in encode(record))


def _short(value: object) -> object:
    if isinstance(value, str) and len(value) > _LONG_TEXT:
        return value[:_LONG_TEXT] + "..."
    return value
