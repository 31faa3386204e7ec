"""Check the records of a topic, as returned by a mirror node.

Messages are assembled from their chunks, sorted into the trails that they come from, and these are
checked like trails on disk. The order of messages on a topic, and a record that appears twice, are
not findings: both result from the way records are sent.

Source: Hedera mirror node REST API, ``/api/v1/topics/{id}/messages``.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from otelhooks.audit.chain import parse, parse_file_name, segment_name
from otelhooks.audit.hcs_messages import Message, unwrap
from otelhooks.audit.report import Report
from otelhooks.errors import ConfigError


class _Received(NamedTuple):
    """A complete message of the topic."""

    number: int
    """Its number on the topic; that of its last chunk."""
    payer: str
    data: bytes


class _Record(NamedTuple):
    """A record of a trail."""

    seq: int
    message: Message
    number: int
    """Its number on the topic."""


def is_export(path: Path) -> bool:
    """Return whether a file may contain messages of a topic, not a segment of a trail."""
    if parse_file_name(path.name) is not None:
        return False
    with path.open("rb") as file:
        start = file.read(8192).lstrip()
    is_segment = start.startswith(b'{"audit"')
    return not is_segment and (b'"messages"' in start or b'"sequence_number"' in start)


def check_export(path: Path, expect: Sequence[str], check: Callable[..., Report]) -> Report:
    """Check messages of a topic.

    Args:
        path: A mirror node's answer, one page or several, or messages as JSON, one per line.
        expect: Head hashes that were noted elsewhere; each must still be on the topic.
        check: `otelhooks.audit.check`.

    Returns:
        Findings and heads; their `line` is the message's number on the topic.

    Raises:
        ConfigError: The file contains something else.
    """
    report = Report(files=1)
    try:
        records = sorted(
            _records(report, path, _whole(report, path, _messages(path))),
            key=lambda record: record.seq,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"`{path}` is not a list of a topic's messages: {type(error).__name__}: {error}",
            hint="save what a mirror node answers at /api/v1/topics/ID/messages",
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        lines: dict[Path, list[_Record]] = {}
        for record in records:
            name = segment_name("audit", record.message.chain, record.message.segment)
            lines.setdefault(Path(folder, name), []).append(record)
        for file, found in lines.items():
            file.write_bytes(b"".join(record.message.line + b"\n" for record in found))
        checked = check(folder, expect=expect)
    report.records = checked.records

    def number(file: Path, line: int) -> int:
        return lines[file][line - 1].number if line and file in lines else 0

    for finding in checked.findings:
        if finding.kind != "empty":
            name = parse_file_name(finding.file.name)
            message = f"{name.chain}: {finding.message}" if name else finding.message
            at = number(finding.file, finding.line)
            report.add(path, at, finding.kind, message, finding.severity)
    for head in checked.heads:
        report.heads.append(dataclasses.replace(head, file=path, line=number(head.file, head.line)))
    if not records:
        report.add(path, 0, "empty", "no audit records here", "warning")
    report.findings.sort(key=lambda finding: finding.line)
    return report


def _messages(path: Path) -> list[dict[str, Any]]:
    """Read one JSON value after another; return their messages in the order of the topic."""
    text, decoder = path.read_text(encoding="utf-8").strip(), json.JSONDecoder()
    found: dict[int, dict[str, Any]] = {}
    while text:
        value, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        for message in value.get("messages", [value]):
            found[int(message["sequence_number"])] = message  # pages may overlap
    return [found[number] for number in sorted(found)]


def _whole(report: Report, path: Path, messages: list[dict[str, Any]]) -> Iterator[_Received]:
    """Assemble chunks; report missing ones."""
    before = None
    parts: dict[str, dict[int, dict[str, Any]]] = {}
    for message in messages:
        number = int(message["sequence_number"])
        if before is not None and number > before + 1:
            lacking = f"messages {before + 1} to {number - 1} of the topic are not in the file"
            report.add(path, number, "missing", lacking, "warning")
        before = number
        payer = str(message.get("payer_account_id"))
        chunk: dict[str, Any] = message.get("chunk_info") or {"total": 1, "number": 1}
        first = chunk.get("initial_transaction_id") if chunk["total"] > 1 else number
        part = parts.setdefault(json.dumps([payer, first], sort_keys=True), {})
        part.setdefault(int(chunk["number"]), message)
        if len(part) == chunk["total"]:
            texts = [part.pop(at)["message"] for at in sorted(part)]
            yield _Received(number, payer, b"".join(map(base64.b64decode, texts)))
    for part in filter(None, parts.values()):
        first = next(iter(part.values()))
        message = f"{len(part)} of {first['chunk_info']['total']} chunks of a message are here"
        report.add(path, int(first["sequence_number"]), "torn", message, "warning")


def _records(report: Report, path: Path, received: Iterable[_Received]) -> Iterator[_Record]:
    """Return the records among messages, each once."""
    payers: dict[str, str] = {}
    seen: set[Message] = set()
    for number, payer, data in received:
        message = unwrap(data)
        parsed = None if message is None else parse(message.line)
        if message is None or parsed is None:
            report.add(path, number, "foreign", "this is not an audit record", "warning")
            continue
        first = payers.setdefault(message.chain, payer)
        if first != payer:
            text = f"paid by {payer}, not by {first} like those before it"
            report.add(path, number, "foreign", text)
        if message not in seen:
            seen.add(message)
            yield _Record(parsed.seq, message, number)
