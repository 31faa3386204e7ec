"""The form of a record on a topic of the Hedera Consensus Service.

A message is one line of compact JSON in ASCII::

    {"schema":"otelhooks.hcs/1","chain":CHAIN,"segment":N,"record":LINE}

`LINE` is a line of the audit trail byte for byte, including its hash (see `otelhooks.audit.chain`),
so that the messages of a chain, in the order of their `seq`, form its segments again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from otelhooks.audit.chain import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

CHUNK_BYTES = 1024
"""Bytes of a message in one transaction. Source: HCS, `consensusSubmitMessage`."""

_MESSAGE = re.compile(
    rb'\{"schema":"otelhooks\.hcs/1","chain":"(\d{8}T\d{15}Z-\d{1,10})","segment":(\d{1,9}),"record":(\{.*\})\}'
)
_OVERHEAD = 400
"""Upper bound of what message and trail add to a record: names, numbers, time, two hashes."""
_LONG_TEXT = 200
_FIRST = frozenset(("decision", "decision_id", "arguments_hash", "point", "outcome"))


class Message(NamedTuple):
    """A record with its place."""

    chain: str
    segment: int
    """Number of the segment, from 1; 0 for the chain's spool."""
    line: bytes
    """The line of the trail, without its newline."""


def wrap(message: Message) -> bytes:
    """Return the bytes that go to the topic."""
    chain, segment, line = message
    head = f'{{"schema":"otelhooks.hcs/1","chain":"{chain}","segment":{segment},"record":'
    return head.encode() + line + b"}"


def unwrap(data: bytes) -> Message | None:
    """Read bytes from a topic; None if they are not a message of this schema."""
    match = _MESSAGE.fullmatch(data)
    return match and Message(match[1].decode(), int(match[2]), match[3])


def chunks_of(data: bytes) -> list[bytes]:
    """Split a message into parts for single transactions; at least one."""
    return [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)] or [b""]


def fit(record: Mapping[str, Any], max_chunks: int) -> dict[str, Any]:
    """Return a record that fits into that many chunks.

    Arguments that are too large are left out; their size and hash stay. If that is not enough, long
    texts are cut, and the largest fields are left out.
    """
    limit = max_chunks * CHUNK_BYTES - _OVERHEAD
    fitting = dict(record)
    if _size(fitting) > limit and "arguments" in fitting:
        fitting["arguments_left_out"] = _size({"arguments": fitting.pop("arguments")})
    if _size(fitting) <= limit:
        return fitting
    fields = [{name[:_LONG_TEXT]: _short(value)} for name, value in fitting.items()]
    fields.sort(key=lambda field: (_FIRST.isdisjoint(field), _size(field)))
    cut: dict[str, Any] = {"is_cut": True}
    for field in fields:
        if _size({**cut, **field}) > limit:
            break
        cut.update(field)
    return cut


def _size(record: Mapping[str, Any]) -> int:
    return sum(len(text) + 1 for _, text in encode(record))


def _short(value: object) -> object:
    if isinstance(value, str) and len(value) > _LONG_TEXT:
        return value[:_LONG_TEXT] + "..."
    return value
