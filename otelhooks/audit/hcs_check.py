"""Check the records of a topic, as a mirror node gives its messages.

The messages are put together from their chunks, sorted into the trails that they come from, and
these are checked like trails on disk. The order in which a topic has them, and a record that is on
it twice, are no findings: both come from the way to it.

Source: Hedera mirror node REST API, ``/api/v1/topics/{id}/messages``.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otelhooks.audit.chain import parse, parse_file_name, segment_name
from otelhooks.audit.hcs_messages import Message, unwrap
from otelhooks.audit.report import Report
from otelhooks.errors import ConfigError

_STEM = "audit"


@dataclass
class _Received:
    """A message of the topic, whole."""

    number: int
    """Its number on the topic; of its last chunk."""
    payer: str
    data: bytes


@dataclass
class _Placed:
    """A record of a trail, and where the topic has it."""

    received: _Received
    message: Message
    seq: int


def is_export(path: Path) -> bool:
    """Say whether a file may hold messages of a topic, and no segment of a trail."""
    if parse_file_name(path.name) is not None:
        return False
    with path.open("rb") as file:
        start = file.read(8192).lstrip()
    is_segment = start.startswith(b'{"audit"')
    return not is_segment and (b'"messages"' in start or b'"sequence_number"' in start)


def check_export(path: Path, expect: Sequence[str], check: Callable[..., Report]) -> Report:
    """Check messages of a topic.

    Args:
        path: What a mirror node answered, one page or several, or messages as JSON, one a line.
        expect: Head hashes that were noted elsewhere; each must still be on the topic.
        check: `otelhooks.audit.check`.

    Returns:
        Findings and heads; their `line` is the message's number on the topic.

    Raises:
        ConfigError: If the file holds something else.
    """
    report = Report()
    try:
        trails = _trails(report, path, list(_whole(report, path, _messages(path))))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"`{path}` is no list of messages of a topic: {type(error).__name__}: {error}",
            hint="save what a mirror node answers at /api/v1/topics/ID/messages",
        ) from error
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        places: dict[Path, list[_Placed]] = {}
        for chain, placed in trails.items():
            for one in placed:
                file = folder / segment_name(_STEM, chain, one.message.segment)
                places.setdefault(file, []).append(one)
        for file, placed in places.items():
            file.write_bytes(b"".join(one.message.line + b"\n" for one in placed))
        found = check(folder, expect=expect)
    report.files, report.records = 1, found.records

    def number(file: Path, line: int) -> int:
        return places[file][line - 1].received.number if line and file in places else 0

    for finding in found.findings:
        if finding.kind != "empty":
            line = number(finding.file, finding.line)
            name = parse_file_name(finding.file.name)
            about = f"{name.chain}: " if name is not None else ""
            report.add(path, line, finding.kind, f"{about}{finding.message}", finding.severity)
    for head in found.heads:
        report.heads.append(dataclasses.replace(head, file=path, line=number(head.file, head.line)))
    if not trails:
        report.add(path, 0, "empty", "no audit records here", "warning")
    report.findings.sort(key=lambda finding: finding.line)
    return report


def _values(path: Path) -> Iterator[Any]:
    """Read one JSON value after the other."""
    text, decoder = path.read_text(encoding="utf-8"), json.JSONDecoder()
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        value, at = decoder.raw_decode(text, at)
        yield value


def _messages(path: Path) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for value in _values(path):
        for message in value.get("messages", [value]):
            found[int(message["sequence_number"])] = message  # pages may overlap
    return [found[number] for number in sorted(found)]


def _whole(report: Report, path: Path, messages: list[dict[str, Any]]) -> Iterator[_Received]:
    """Put chunks together; say what is not there."""
    before = None
    parts: dict[str, dict[int, dict[str, Any]]] = {}
    for message in messages:
        number = int(message["sequence_number"])
        if before is not None and number > before + 1:
            lacking = f"messages {before + 1} to {number - 1} of the topic are not in the file"
            report.add(path, number, "missing", lacking, "warning")
        before = number
        payer = str(message.get("payer_account_id"))
        chunk: dict[str, Any] | None = message.get("chunk_info")
        if chunk is None or chunk["total"] == 1:
            yield _Received(number, payer, base64.b64decode(message["message"]))
            continue
        name = json.dumps([payer, chunk["initial_transaction_id"]], sort_keys=True)
        part = parts.setdefault(name, {})
        part.setdefault(int(chunk["number"]), message)
        if len(part) == chunk["total"]:
            data = b"".join(base64.b64decode(part[at]["message"]) for at in sorted(part))
            yield _Received(number, payer, data)
            del parts[name]
    for part in parts.values():
        first = next(iter(part.values()))
        message = f"{len(part)} of {first['chunk_info']['total']} chunks of a message are here"
        report.add(path, int(first["sequence_number"]), "torn", message, "warning")


def _trails(report: Report, path: Path, received: list[_Received]) -> dict[str, list[_Placed]]:
    """Sort records into the trails that they come from, each in the order of its numbers."""
    trails: dict[str, list[_Placed]] = {}
    payers: dict[str, str] = {}
    seen: set[Message] = set()
    for one in received:
        message = unwrap(one.data)
        parsed = None if message is None else parse(message.line)
        if message is None or parsed is None:
            report.add(path, one.number, "foreign", "this is no audit record", "warning")
            continue
        if payers.setdefault(message.chain, one.payer) != one.payer:
            text = f"paid by {one.payer}, not by {payers[message.chain]} like those before it"
            report.add(path, one.number, "foreign", text)
        if message not in seen:
            seen.add(message)
            trails.setdefault(message.chain, []).append(_Placed(one, message, parsed.seq))
    for placed in trails.values():
        placed.sort(key=lambda record: record.seq)
    return trails
