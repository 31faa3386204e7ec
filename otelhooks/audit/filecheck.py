"""Check one file of a trail.

Lines are matched by record number, not by place, so that one tampered line is one finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from otelhooks.audit.chain import GENESIS, SCHEMA, FileName, Parsed, parse, segment_name
from otelhooks.audit.segment import read_schema

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from otelhooks.audit.report import Report


class Record(NamedTuple):
    """A line that has the form of an audit record."""

    line: int
    parsed: Parsed


@dataclass
class State:
    """The state of a chain between two of its files."""

    expected: int | None = 0
    """Number of the next record; None after a hole of unknown size."""
    last: tuple[Path, Record] | None = None
    is_closed: bool = False
    following: int | None = None
    """Number of the segment that the closing record announces."""
    stored: dict[int, str] | None = None
    """Hashes of the records so far, by number; None for a chain without a spool."""
    forked_from: tuple[Path, str] | None = None
    """File that names the chain of the parent process, and that chain."""


def check_file(
    report: Report,
    path: Path,
    name: FileName,
    state: State,
    missing: set[str],
    *,
    may_grow: bool,
) -> None:
    """Check a segment or spool.

    Args:
        report: Gets the findings.
        path: The file.
        name: The parts of its name.
        state: State of its chain; updated.
        missing: Hashes to find; found ones are removed.
        may_grow: Whether the last line may still be being written.

    Raises:
        OSError: The file cannot be read.
    """
    report.files += 1
    is_spool = name.number == 0
    state.is_closed = is_spool and state.is_closed
    found = len(report.findings)
    records, is_torn = _read(path)
    total = len(records) + is_torn
    if (
        not total and not may_grow and not is_spool
    ):  # a writer creates the file when its first record is on its way
        report.add(path, 0, "emptied", "the segment holds nothing, not even its opening record")
        return
    if not _check_opening(report, path, name, records, state):
        state.expected = None
        return
    if is_torn and not may_grow:
        message = (
            "the last line is incomplete: the process was killed in a write, its disk was full, or "
            "it was cut"
        )
        report.add(path, total, "torn", message, "warning")
    by_number = _check_order(report, path, records, state, is_spool=is_spool)
    _check_links(report, path, by_number, state.last)
    if by_number:
        last = by_number[max(by_number)]
        state.last = (path, last)
        is_clean = len(report.findings) == found
        _check_closing(
            report, path, records, last, state, name, is_spool=is_spool, is_clean=is_clean
        )
    for record in by_number.values():
        if record.parsed.is_intact:
            report.records += 1
            missing.discard(record.parsed.hash)
            if record.parsed.control == "lost":
                message = f"{record.parsed.fields.get('count')} records could not be stored here"
                report.add(path, record.line, "lost", message, "warning")
    if is_spool and by_number:
        message = f"{len(by_number)} records are in the spool file: the segment was not writable"
        report.add(path, 0, "spooled", message, "warning")


def _read(path: Path) -> tuple[list[Record | int], bool]:
    """Return the whole lines of a file, numbers for foreign ones, and whether the last is torn."""
    records: list[Record | int] = []
    is_torn = False
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if raw.endswith(b"\n"):
                parsed = parse(raw[:-1])
                records.append(number if parsed is None else Record(number, parsed))
            else:  # the last line
                is_torn = True
    return records, is_torn


def _check_opening(
    report: Report, path: Path, name: FileName, records: list[Record | int], state: State
) -> bool:
    """Check that the first line has our schema and fits this file; False: leave the file."""
    if not name.number or not records:
        return True
    schema = read_schema(path)
    if schema not in (None, SCHEMA):
        message = f"schema `{schema}`: check it with the version of otelhooks that wrote it"
        report.add(path, 1, "schema", message)
        return False
    first = records[0]
    if isinstance(first, Record) and first.parsed.is_intact and first.parsed.control == "open":
        fields = first.parsed.fields
        stated = (fields.get("chain"), fields.get("segment"))
        if isinstance(fields.get("parent"), str):
            state.forked_from = (path, fields["parent"])
        if stated != (name.chain, name.number) and not _has_waited(records, path, name):
            message = f"the file was written as segment {stated[1]} of chain {stated[0]}"
            report.add(path, 1, "renamed", message)
    return True


def _has_waited(records: list[Record | int], path: Path, name: FileName) -> bool:
    """Return whether the first line is that of an earlier segment, which was lost before it."""
    for number in range(1, name.number):
        if _is_opening(records[0], name.chain, number):
            own = path.with_name(segment_name(name.stem, name.chain, number))
            is_back = own.exists() and not _opens(_read(own)[0], name.chain, number)
            return is_back or _opens(records, name.chain, name.number)
    return False


def _opens(records: list[Record | int], chain: str, number: int) -> bool:
    return any(_is_opening(record, chain, number) for record in records)


def _is_opening(record: Record | int, chain: str, number: int) -> bool:
    """Return whether a line is the opening record of a segment."""
    return (
        isinstance(record, Record)
        and record.parsed.is_intact
        and record.parsed.control == "open"
        and record.parsed.fields.get("chain") == chain
        and record.parsed.fields.get("segment") == number
    )


def _check_order(
    report: Report, path: Path, records: list[Record | int], state: State, *, is_spool: bool
) -> dict[int, Record]:
    """Check that each record appears once, at its position; return them by number."""
    numbers = _numbers_of(records)
    lines: dict[int, int] = {}
    for record, number in zip(records, numbers, strict=True):
        if isinstance(record, Record) and record.parsed.is_intact:
            lines.setdefault(number, record.line)
    seen: dict[int, Record] = {}
    unreadable: list[int] = []
    stored = {} if state.stored is None else state.stored
    expected = state.expected
    for record, stated in zip(records, numbers, strict=True):
        if not isinstance(record, Record):
            unreadable.append(record)
            continue
        number = stated
        if is_spool and record.parsed.is_intact and number in stored:
            if stored[number] != record.parsed.hash:
                message = f"record {number} is another one in the segment, or before this line"
                report.add(path, record.line, "replaced", message)
            continue  # the segment could be written again, but the spool not be deleted
        if is_spool and record.parsed.is_intact:
            stored[number] = record.parsed.hash
        if not record.parsed.is_intact:
            report.add(path, record.line, "edited", "the content does not match its hash")
            # Its number may have been edited: the record after it shows where it belongs.
            number = max(number, expected or 0)
        if expected is None:
            expected = number
        is_replacing = number - expected == len(unreadable)
        for line in unreadable:
            kind = "edited" if is_replacing else "foreign"
            report.add(path, line, kind, "this is not an audit record")
        if is_replacing:
            expected = number
        unreadable.clear()
        if number < expected:
            is_late = lines.get(number) == record.line and number not in seen
            if is_late and number >= (state.expected or 0):
                seen.setdefault(number, record)
            elif not is_spool:
                first = seen.get(number)
                at = f"line {first.line}" if first else "an earlier segment"
                report.add(path, record.line, "duplicate", f"record {number} is also in {at}")
            continue
        if number > expected:
            _tell_hole(report, path, record.line, expected, number, lines)
        seen[number] = record
        expected = number + 1
    for line in unreadable:
        report.add(path, line, "foreign", "this is not an audit record")
    if not is_spool and state.stored is not None:
        stored.update((number, record.parsed.hash) for number, record in seen.items())
    state.expected = expected
    return seen


def _numbers_of(records: list[Record | int]) -> list[int]:
    """Number every record; an edited one by the next intact record, if there is room."""
    numbers = [record.parsed.seq if isinstance(record, Record) else -1 for record in records]
    for index, record in enumerate(records[:-1]):
        following = records[index + 1]
        if (
            isinstance(record, Record)
            and not record.parsed.is_intact
            and isinstance(following, Record)
            and following.parsed.is_intact
        ):
            numbers[index] = following.parsed.seq - 1
    last = records[-1] if records else None
    if isinstance(last, Record) and not last.parsed.is_intact:
        numbers[-1] = -1
    return numbers


def _tell_hole(
    report: Report, path: Path, line: int, expected: int, number: int, lines: dict[int, int]
) -> None:
    later = [other for other in lines if expected <= other < number and lines[other] > line]
    if later:
        other = min(later)
        message = f"record {number} comes before record {other}, which is in line {lines[other]}"
        report.add(path, line, "reorder", message)
    if number - expected > len(later):
        message = f"{numbers('record', expected, number - 1)} before this line"
        report.add(path, line, "gap", message)


def _check_links(
    report: Report,
    path: Path,
    by_number: dict[int, Record],
    last: tuple[Path, Record] | None,
) -> None:
    """Check that each record contains the hash of the one before."""
    known = {number: (path, record) for number, record in by_number.items()}
    if last is not None:
        known.setdefault(last[1].parsed.seq, last)
    for number, record in by_number.items():
        if not record.parsed.is_intact:
            continue
        if number == 0:
            if record.parsed.prev != GENESIS:
                report.add(path, record.line, "replaced", "the first record follows another one")
            continue
        where, before = known.get(number - 1, (path, None))
        if (
            before is not None
            and before.parsed.is_intact
            and before.parsed.hash != record.parsed.prev
        ):
            message = f"record {number} carries another hash for this one"
            report.add(where, before.line, "replaced", message)


def _check_closing(
    report: Report,
    path: Path,
    records: Sequence[Record | int],
    last: Record,
    state: State,
    name: FileName,
    *,
    is_spool: bool,
    is_clean: bool,
) -> None:
    fields = last.parsed.fields
    state.is_closed = last.parsed.control == "closed"
    following = fields.get("next") if state.is_closed else None
    state.following = following if isinstance(following, int) else None
    if is_spool or not _is_opening(
        records[0], name.chain, name.number
    ):  # part of a segment, or of several
        return
    count = 0
    for record in records:
        count += 1
        if isinstance(record, Record) and record.parsed.control == "closed" and record != last:
            state.is_closed = True
            if is_clean:
                message = "records follow the closing record of this segment"
                report.add(path, record.line + 1, "extra", message)
    if is_clean and last.parsed.control == "closed" and count != fields.get("lines"):
        message = f"the closing record counts {fields.get('lines')} lines, the file has {count}"
        report.add(path, last.line, "count", message)


def numbers(what: str, first: int, last: int) -> str:
    """Return a text that says that some are missing."""
    if first == last:
        return f"{what} {first} is missing"
    return f"{what}s {first} to {last} are missing"
