"""Check a trail: find every edit, gap, cut, reorder, duplicate and foreign line, and its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from otelhooks.audit.chain import MOVED, SCHEMA, FileName, parse, parse_file_name, segment_name
from otelhooks.audit.filecheck import State, check_file, numbers
from otelhooks.audit.hcs_check import check_export, is_export
from otelhooks.audit.report import Finding, Head, Report
from otelhooks.audit.segment import cause, is_locked, place, read_schema
from otelhooks.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence


def verify(
    path: str | os.PathLike[str] | None = None, *, expect: Sequence[str] = ()
) -> list[Finding]:
    """Check every record of a trail.

    Args:
        path: A folder, a file stem, one segment file, a file with messages of a topic, or None for
            the user's data folder.
        expect: Head hashes that were noted elsewhere; each must still be in the trail.

    Returns:
        The findings, by file and line; empty if all is well.

    Raises:
        ConfigError: There is nothing to read at `path`.
    """
    return check(path, expect=expect).findings


def check(path: str | os.PathLike[str] | None = None, *, expect: Sequence[str] = ()) -> Report:
    """Check every record of a trail; like `verify`, with the head of each chain and counts."""
    given = None if path is None else Path(path).expanduser().absolute()
    if given is not None and given.is_file() and is_export(given):
        return check_export(given, expect, check)
    report = Report()
    missing = {wanted.strip().lower() for wanted in expect}
    where, chains, is_single = _find(path)
    if where.is_dir():
        _check_others(report, where)
    for (stem, chain), files in chains.items():
        forked_from = _check_chain(report, stem, chain, files, missing, is_single=is_single)
        if forked_from is not None and not is_single and (stem, forked_from[1]) not in chains:
            message = f"nothing is here of chain {forked_from[1]}, whose process began this one"
            report.add(forked_from[0], 1, "missing", message, "warning")
    if not chains:
        report.add(where, 0, "empty", "no audit records here", "warning")
    for wanted in sorted(missing):
        message = f"no record has the hash {wanted}: records were cut off or rewritten"
        report.add(where, 0, "expect", message)
    report.findings.sort(key=lambda finding: (finding.file, finding.line))
    return report


def files_of(path: str | os.PathLike[str] | None) -> list[list[Path]]:
    """Return a trail's files, one list per chain, in the order of their records.

    Raises:
        ConfigError: There is nothing to read at `path`.
    """
    return [[file for _, file in files] for files in _find(path)[1].values()]


Chains = dict[tuple[str, str], list[tuple[FileName, Path]]]


def _find(path: str | os.PathLike[str] | None) -> tuple[Path, Chains, bool]:
    given = None if path is None else Path(path).expanduser().absolute()
    try:
        if given is not None and given.is_file():
            name = parse_file_name(given.name) or _read_name(given)
            return given, {(name.stem, name.chain): [(name, given)]}, True
        folder, stem = place(given)
        wanted = stem if given is not None and given.suffix == ".jsonl" else None
        return given or folder, _chains(folder, wanted), False
    except OSError as error:
        trail = f"audit trail `{given}`" if given is not None else "this user's audit trail"
        raise ConfigError(
            f"{trail} cannot be read: {cause(error)}",
            hint="give the folder, file stem or segment that `audit=` names",
        ) from error


def _check_others(report: Report, folder: Path) -> None:
    """Find present and former segments among the other files of a folder."""
    for path in folder.iterdir():
        name = parse_file_name(path.name)
        if name is not None and not path.is_file():
            report.add(path, 0, "foreign", "it is named like a segment, but is not a regular file")
        elif name is None and path.is_file() and _is_segment(path):
            report.add(path, 0, "renamed", "an audit segment whose file has another kind of name")


def _is_segment(path: Path) -> bool:
    try:
        return read_schema(path) == SCHEMA
    except OSError:
        return False  # another program's file


def _chains(folder: Path, stem: str | None) -> Chains:
    chains: Chains = {}
    for path in sorted(folder.iterdir()):
        name = parse_file_name(path.name)
        if name is not None and stem in (None, name.stem) and path.is_file():
            chains.setdefault((name.stem, name.chain), []).append((name, path))
    for files in chains.values():
        files.sort(key=lambda file: file[0].number or float("inf"))  # the spool comes last
    return chains


def _why_missing(files: list[tuple[FileName, Path]], expected: int | None) -> str:
    """Return what is known about a hole before files; nothing if only that it is there."""
    first = _first_after_loss(files)
    if first is None:
        return ""
    what = ""
    if expected is not None:
        lost = numbers("record", expected, first - 1) if first > expected else "it held no record"
        what = f": {lost}"
    return f"; the process noticed that it was moved or deleted, and continued here{what}"


def _first_after_loss(files: list[tuple[FileName, Path]]) -> int | None:
    """Return the first record of files that continue a lost segment; None for any others.

    What waited for the lost segment comes before the opening record of the next one, if that was
    written; a file that was lost before its first line has none.
    """
    for name, path in files:
        with path.open("rb") as file:
            line = file.readline()
        if not line:
            continue
        first = parse(line.rstrip(b"\n"))
        if first is None or not first.is_intact:
            return None
        is_own = first.control == "open" and first.fields.get("segment") == name.number
        return None if is_own and first.fields.get("start") != MOVED else first.seq
    return None


def _read_name(path: Path) -> FileName:
    """Read chain and number from the first line of a segment that has another name."""
    with path.open("rb") as file:
        first = parse(file.readline().rstrip(b"\n"))
    if first is None or first.control != "open":
        found = read_schema(path)
        raise ConfigError(
            f"`{path}` is not an audit segment: its schema is `{found or 'none'}`, not `{SCHEMA}`",
            hint="give the folder, file stem or segment that `audit=` names",
        )
    return FileName(path.stem, str(first.fields.get("chain")), int(first.fields["segment"]))


def _check_chain(
    report: Report,
    stem: str,
    chain: str,
    files: list[tuple[FileName, Path]],
    missing: set[str],
    *,
    is_single: bool,
) -> tuple[Path, str] | None:
    """Check a chain; return the file and chain in `State.forked_from`."""
    state = State(stored={} if files[-1][0].number == 0 else None)
    number = 0
    is_live = False
    last = max(name.number for name, _ in files)
    for index, (name, path) in enumerate(files):
        is_spool = name.number == 0
        is_last = name.number == last
        if not is_spool:
            if name.number != number + 1:
                if not is_single:
                    lacking = numbers("segment", number + 1, name.number - 1)
                    told = _why_missing(files[index:], state.expected)
                    report.add(path, 0, "missing", f"{lacking} before this one{told}")
                state.expected = None
            number = name.number
            # Checked before reading: a writer that closes meanwhile must not look like a crash.
            is_live = is_last and is_locked(path)
        before = len(report.findings)
        is_left = _first_after_loss(files[index + 1 :]) is not None
        check_file(report, path, name, state, missing, may_grow=is_live or is_left)
        if not is_spool and not state.is_closed and not is_last:
            at = state.last[1].line if state.last and state.last[0] == path else 0
            if is_left:
                message = (
                    "the segment was moved or deleted while it was written, and is back, or its "
                    "name was taken; the chain continues in the next segment"
                )
                report.add(path, at, "moved", message, "warning")
                continue  # a missing record is a gap in the numbers
            if all(each.severity != "error" for each in report.findings[before:]):
                message = (
                    "the segment ends here without its closing record, but the chain continues"
                )
                report.add(path, at, "cut", message)
            state.expected = None
    if state.last is None:  # not even an opening record, which names the parent
        return None
    path, record = state.last
    parsed = record.parsed
    report.heads.append(
        Head(chain, path, record.line, parsed.seq, parsed.hash, str(parsed.fields.get("time")))
    )
    if is_live or (is_single and state.following):
        return state.forked_from
    if not state.is_closed:
        message = (
            "no closing record and no live writer: the process was killed, its disk was full to "
            "the end, or lines were cut; records may be lost"
        )
        report.add(path, record.line, "not closed", message, "warning")
    elif state.following:
        if not (path.parent / segment_name(stem, chain, state.following)).exists():
            message = (
                f"segment {state.following} should follow: it was deleted, or the process was "
                "killed in that moment"
            )
            report.add(path, record.line, "missing", message, "warning")
    return state.forked_from
