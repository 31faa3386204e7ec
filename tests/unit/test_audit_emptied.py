"""Segments that hold nothing, are not there, or lie where they do not belong, in a check."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from otelhooks.audit import Audit, verify
from otelhooks.audit.chain import Chain, close, segment_name, spool_name
from otelhooks.audit.segment import Segment
from otelhooks.cli.audit import audit as command

CHAIN = "20260801T101500123456789Z-4711"


@pytest.fixture
def rotated(tmp_path: Path) -> list[Path]:
    """Five finished segments of one chain."""
    with Audit(tmp_path, rotate_bytes=1500) as audit:
        for number in range(30):
            assert audit.append({"number": number})
    return sorted(tmp_path.iterdir())


def exit_code(*args: object) -> int:
    return CliRunner().invoke(command, ["verify", *map(str, args)]).exit_code


def kinds(path: Path) -> set[tuple[Path, str, str]]:
    return {(finding.file, finding.kind, finding.severity) for finding in verify(path)}


@pytest.mark.parametrize("count", [1, 2])
def test_a_trail_of_which_a_segment_is_left_and_nothing_in_it_exits_with_1(
    tmp_path: Path, count: int
) -> None:
    """Class of the fault: a chain without a single record was passed over."""
    for _ in range(count):
        with Audit(tmp_path) as audit:
            audit.append({"decision": "deny"})
    first = min(tmp_path.iterdir())
    first.write_bytes(b"")
    for path in (first, tmp_path):
        assert kinds(path) == {(first, "emptied", "error")}
        assert exit_code(path) == 1
        assert exit_code(path, "--allow-unclosed") == 1


def test_an_emptied_segment_is_found_at_every_place_of_a_chain(rotated: list[Path]) -> None:
    for path in rotated:
        kept = path.read_bytes()
        path.write_bytes(b"")
        assert (path, "emptied", "error") in kinds(path.parent)
        path.write_bytes(kept)
    assert verify(rotated[0].parent) == []
    for path in rotated:
        path.write_bytes(b"")
    assert kinds(rotated[0].parent) == {(path, "emptied", "error") for path in rotated}


def test_a_segment_cut_at_any_byte_is_found(tmp_path: Path) -> None:
    with Audit(tmp_path) as audit:
        audit.append({"decision": "deny"})
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for end in {*range(0, len(whole), 29), *range(len(whole) - 4, len(whole))}:
        path.write_bytes(whole[:end])
        assert verify(tmp_path), end


def test_a_segment_that_is_just_being_made_is_not_a_finding(tmp_path: Path) -> None:
    begun = Segment(tmp_path / segment_name("audit", CHAIN, 1))
    if os.name != "nt":  # where a live writer is seen by its lock
        assert verify(tmp_path) == []
    begun.close()
    assert {kind for _, kind, _ in kinds(tmp_path)} == {"emptied"}


def test_a_crash_with_a_spool_is_not_a_cut_in_the_middle(tmp_path: Path) -> None:
    """The spool lies behind the last segment, which a killed process leaves without an end."""
    chain = Chain(1_780_000_000_000_000_000, 4711, 10_000)
    lines = [chain.open(1)]
    lines += chain.add(lines[-1].after, [], 2)
    lines += chain.add(lines[-1].after, [], 3)
    segment = tmp_path / segment_name("audit", chain.id, 1)
    segment.write_bytes(b"".join(line.data for line in lines[:2]))
    segment.with_name(spool_name("audit", chain.id)).write_bytes(lines[2].data)
    assert {kind for _, kind, _ in kinds(tmp_path)} == {"spooled", "not closed"}


def test_a_segment_put_away_under_another_name_is_found(rotated: list[Path]) -> None:
    folder = rotated[0].parent
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    away = rotated[-1].rename(folder / "old.bak")
    assert (away, "renamed", "error") in kinds(folder)


def test_what_cannot_be_read_beside_the_trail_is_left_alone(
    rotated: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> str:
        raise PermissionError

    (rotated[0].parent / "secret").write_text("theirs", encoding="utf-8")
    monkeypatch.setattr("otelhooks.audit.checking.read_schema", refuse)
    assert verify(rotated[0].parent) == []


@pytest.mark.parametrize("make", ["mkdir", "mkfifo"])
def test_what_has_a_segments_name_and_is_no_file_is_found_and_not_waited_for(
    tmp_path: Path, make: str
) -> None:
    function: Any = getattr(os, make, None)
    if function is None:
        pytest.skip("no pipes with names here")
    path = tmp_path / segment_name("audit", CHAIN, 1)
    function(path)
    assert (path, "foreign", "error") in kinds(tmp_path)
    assert [finding.line for finding in verify(tmp_path) if finding.file == path] == [0]


def test_a_child_process_misses_the_trail_of_the_process_it_was_forked_from(
    tmp_path: Path,
) -> None:
    with Audit(tmp_path) as parent:
        parent.append({"decision": "deny"})
        first = parent.segment
    assert first is not None
    chain = Chain(1_780_000_000_000_000_000, 4712, 10_000, first.name[6:-13])
    lines = [chain.open(1)]
    lines.append(close(lines[-1].after, 2))
    child = tmp_path / segment_name("audit", chain.id, 1)
    child.write_bytes(b"".join(line.data for line in lines))
    assert verify(tmp_path) == []
    assert verify(child) == []
    first.unlink()
    assert kinds(tmp_path) == {(child, "missing", "warning")}
    assert [finding.line for finding in verify(tmp_path)] == [1]
    assert exit_code(tmp_path) == 1
