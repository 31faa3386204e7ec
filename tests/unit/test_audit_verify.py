"""Checking a trail: each sort of tampering is one finding, at the right line."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path

import platformdirs
import pytest
from click.testing import CliRunner

from otelhooks.audit import Audit, Finding, check, verify
from otelhooks.audit.chain import parse
from otelhooks.cli.audit import audit as command
from otelhooks.errors import ConfigError

# Lines of the trail below: 1 the opening record, 2 to 7 the callers' records 1 to 6, 8 the closing.
RECORDS = 6


@pytest.fixture
def segment(tmp_path) -> Path:
    """A finished segment of eight lines, with the records 0 to 7."""
    with Audit(tmp_path) as audit:
        for number in range(RECORDS):
            assert audit.append({"number": number, "decision": "deny" if number % 2 else "allow"})
        path = audit.segment
    assert path is not None
    return path


@pytest.fixture
def rotated(tmp_path) -> list[Path]:
    """Five finished segments of one chain."""
    with Audit(tmp_path, rotate_bytes=1500) as audit:
        for number in range(30):
            assert audit.append({"number": number})
    files = sorted(tmp_path.iterdir())
    assert len(files) == 5
    return files


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def found(path: Path, **options) -> list[tuple[int, str]]:
    return [(finding.line, finding.kind) for finding in verify(path, **options)]


def rehash(line: bytes, **changes: object) -> bytes:
    """Change a line as a forger does who knows the format."""
    record = json.loads(line) | changes
    del record["hash"]
    body = json.dumps(record, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{body[:-1]},"hash":"{digest}"}}\n'.encode()


def rechain(lines: list[bytes], start: int) -> list[bytes]:
    """Seal every line from `start` again, as a forger with enough time would."""
    done = lines[:start]
    for line in lines[start:]:
        done.append(rehash(line, prev=json.loads(done[-1])["hash"]) if done else line)
    return done


def test_an_untouched_trail_has_no_findings(segment):
    assert verify(segment.parent) == verify(segment) == []


@pytest.mark.parametrize("line", range(1, 9))
def test_an_edited_value_is_found_in_its_line(segment, line):
    lines = lines_of(segment)
    lines[line - 1] = lines[line - 1].replace(b'"time":"2', b'"time":"3')
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(line, "edited")]
    assert str(verify(segment)[0]) == (
        f"{segment}:{line}: error: edited: the content does not match its hash"
    )


@pytest.mark.parametrize("line", range(1, 9))
def test_any_changed_byte_is_found_in_its_line(segment, line):
    original = lines_of(segment)
    for place in random.Random(line).sample(range(len(original[line - 1]) - 1), 25):
        lines = list(original)
        changed = bytearray(lines[line - 1])
        changed[place] ^= 1
        lines[line - 1] = bytes(changed)
        segment.write_bytes(b"".join(lines))
        findings = found(segment.parent)
        if changed[place] in b"\n":
            continue  # the line became two; the test of foreign lines is about that
        if line == len(original) and (7, "not closed") in findings:
            findings.remove((7, "not closed"))  # the closing record is what became unreadable
        assert {finding[0] for finding in findings} == {line}, (place, findings)


def test_an_edited_number_is_an_edit_and_no_gap(segment):
    lines = lines_of(segment)
    lines[3] = lines[3].replace(b'"seq":3', b'"seq":900')
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(4, "edited")]


def test_a_record_without_a_number_has_the_number_minus_one(segment):
    line = lines_of(segment)[2]
    assert parse(line.rstrip(b"\n")).seq == 2
    for number in (None, "2", True, 2.0):
        assert parse(rehash(line, seq=number).rstrip(b"\n")).seq == -1


def test_a_line_that_was_read_cannot_be_changed(segment):
    parsed = parse(lines_of(segment)[2].rstrip(b"\n"))
    with pytest.raises(AttributeError):
        parsed.is_intact = False


def test_an_edit_behind_a_gap_is_told_with_the_whole_gap(segment):
    lines = lines_of(segment)
    lines[5] = lines[5].replace(b'"seq":5', b'"seq":900')
    del lines[3:5]
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(4, "edited"), (4, "gap")]


def test_the_last_record_with_an_edited_number_is_an_edit_and_no_gap(segment):
    lines = lines_of(segment)[:6]
    lines[5] = lines[5].replace(b'"seq":5', b'"seq":900')
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(6, "edited"), (6, "not closed")]


@pytest.mark.parametrize("line", range(1, 8))
def test_a_record_replaced_with_its_hash_is_found_in_its_line(segment, line):
    lines = lines_of(segment)
    lines[line - 1] = rehash(lines[line - 1], decision="ask")
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(line, "replaced")]


def test_a_removed_record_is_a_gap_before_the_next_line(segment):
    lines = lines_of(segment)
    del lines[3]
    segment.write_bytes(b"".join(lines))
    (finding,) = verify(segment.parent)
    assert (finding.line, finding.kind) == (4, "gap")
    assert finding.message == "record 3 is missing before this line"


def test_several_removed_records_are_one_gap(segment):
    lines = lines_of(segment)
    del lines[0:4]
    segment.write_bytes(b"".join(lines))
    (finding,) = verify(segment.parent)
    assert (finding.line, finding.message) == (1, "records 0 to 3 are missing before this line")


def test_two_swapped_records_are_a_reorder(segment):
    lines = lines_of(segment)
    lines[2], lines[3] = lines[3], lines[2]
    segment.write_bytes(b"".join(lines))
    (finding,) = verify(segment.parent)
    assert (finding.line, finding.kind) == (3, "reorder")
    assert finding.message == "record 3 comes before record 2, which is in line 4"


def test_an_opening_record_behind_the_first_is_a_reorder(segment):
    lines = lines_of(segment)
    lines[0], lines[1] = lines[1], lines[0]
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(1, "reorder")]


def test_a_record_moved_far_away_is_one_reorder(segment):
    lines = lines_of(segment)
    lines.insert(6, lines.pop(2))
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(3, "reorder")]


@pytest.mark.parametrize("place", [4, 6])
def test_a_repeated_record_is_a_duplicate(segment, place):
    lines = lines_of(segment)
    lines.insert(place, lines[3])
    segment.write_bytes(b"".join(lines))
    (finding,) = verify(segment.parent)
    assert (finding.line, finding.kind) == (place + 1, "duplicate")
    assert finding.message == "record 3 is also in line 4"


@pytest.mark.parametrize(
    "line", [b"hello\n", b"\n", b'{"level":"info"}\n', b"[]\n", b"\xff\xfe\n", b'{"hash":1}\n']
)
def test_a_foreign_line_is_found(segment, line):
    lines = lines_of(segment)
    lines.insert(4, line)
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(5, "foreign")]


def test_a_line_that_was_overwritten_is_an_edit(segment):
    lines = lines_of(segment)
    lines[4] = b"x" * (len(lines[4]) - 1) + b"\n"
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(5, "edited")]


def test_a_segment_cut_at_its_end_is_not_closed(segment):
    lines = lines_of(segment)
    segment.write_bytes(b"".join(lines[:5]))
    (finding,) = verify(segment.parent)
    assert (finding.line, finding.kind, finding.severity) == (5, "not closed", "warning")


def test_a_segment_cut_within_a_line_is_torn_and_not_closed(segment):
    segment.write_bytes(segment.read_bytes()[:-40])
    assert [(f.line, f.kind, f.severity) for f in verify(segment.parent)] == [
        (7, "not closed", "warning"),
        (8, "torn", "warning"),
    ]


def test_a_cut_that_forges_the_closing_record_is_found_by_its_hash(segment):
    lines = lines_of(segment)
    top = json.loads(lines[-1])["hash"]
    del lines[4:7]
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(5, "gap")]
    lines[4] = rehash(lines[4], seq=4, prev=json.loads(lines[3])["hash"])
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(5, "count")]
    lines[4] = rehash(lines[4], lines=5)
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [], "without an anchor a chain can be written anew"
    assert found(segment.parent, expect=[top]) == [(0, "expect")]


def test_a_rewritten_trail_is_found_with_an_anchor(segment):
    anchor = check(segment.parent).heads[0].hash
    lines = lines_of(segment)
    lines[2] = rehash(lines[2], decision="ask")
    segment.write_bytes(b"".join(rechain(lines, 3)))
    assert found(segment.parent) == []
    assert found(segment.parent, expect=[anchor]) == [(0, "expect")]


def test_an_earlier_head_is_still_found_in_a_trail_that_went_on(tmp_path):
    with Audit(tmp_path) as audit:
        audit.append({"number": 0})
        anchor = check(tmp_path).heads[0].hash
        assert anchor == audit.head
        audit.append({"number": 1})
    assert found(tmp_path, expect=[anchor, anchor.upper()]) == []


def test_records_behind_the_closing_record_are_found(segment):
    lines = lines_of(segment)
    top = json.loads(lines[-1])
    lines.append(rehash(lines[3], seq=8, prev=top["hash"]))
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(9, "extra")]


def test_an_edit_across_segments_is_found_in_its_file(rotated):
    lines = lines_of(rotated[2])
    lines[-1] = rehash(lines[-1], lines=len(lines), note="x")
    rotated[2].write_bytes(b"".join(lines))
    (finding,) = verify(rotated[0].parent)
    assert (finding.file, finding.line, finding.kind) == (rotated[2], len(lines), "replaced")


def test_a_cut_segment_within_a_chain_is_an_error(rotated):
    lines = lines_of(rotated[1])
    rotated[1].write_bytes(b"".join(lines[:-2]))
    (finding,) = verify(rotated[0].parent)
    assert (finding.file, finding.line, finding.kind, finding.severity) == (
        rotated[1],
        len(lines) - 2,
        "cut",
        "error",
    )


@pytest.mark.parametrize("kept", [0, 3], ids=["no record", "three records"])
def test_half_a_line_does_not_hide_that_a_segment_within_a_chain_was_cut(rotated, kept):
    lines = lines_of(rotated[1])
    rotated[1].write_bytes(b"".join(lines[:kept]) + lines[kept][:20])
    assert {(f.file, f.kind, f.severity) for f in verify(rotated[0].parent)} == {
        (rotated[1], "torn", "warning"),
        (rotated[1], "cut", "error"),
    }


def test_nor_does_a_record_that_says_that_others_were_lost(rotated):
    opening, *_ = lines_of(rotated[1])
    top = json.loads(opening)
    lost = json.dumps({"audit": "lost", "count": 1, "hash": "", "prev": "", "seq": 0, "time": ""})
    forged = rehash(lost.encode(), seq=top["seq"] + 1, prev=top["hash"], time=top["time"])
    rotated[1].write_bytes(opening + forged)
    assert [(f.kind, f.severity) for f in verify(rotated[0].parent)] == [
        ("lost", "warning"),
        ("cut", "error"),
    ]


def test_a_segment_that_was_edited_before_it_was_cut_is_one_finding(rotated):
    lines = lines_of(rotated[1])
    lines[2] = lines[2].replace(b'"number":', b'"numbeR":')
    rotated[1].write_bytes(b"".join(lines[:-2]))
    (finding,) = verify(rotated[0].parent)
    assert (finding.file, finding.line, finding.kind) == (rotated[1], 3, "edited")


def test_an_emptied_segment_within_a_chain_is_an_error(rotated):
    rotated[1].write_bytes(b"")
    (finding,) = verify(rotated[0].parent)
    assert (finding.file, finding.line, finding.kind) == (rotated[1], 0, "emptied")


@pytest.mark.parametrize("index", [0, 2])
def test_a_deleted_segment_is_missing(rotated, index):
    rotated[index].unlink()
    (finding,) = verify(rotated[0].parent)
    assert (finding.file, finding.kind) == (rotated[index + 1], "missing")
    assert finding.message == f"segment {index + 1} is missing before this one"


def test_a_deleted_last_segment_is_missing_or_was_never_made(rotated):
    rotated[-1].unlink()
    (finding,) = verify(rotated[0].parent)
    assert (finding.file, finding.kind, finding.severity) == (rotated[-2], "missing", "warning")


def test_a_segment_under_another_name_is_found(rotated):
    rotated[1].rename(rotated[1].parent / "spare")
    shutil.copy(rotated[3], rotated[1])
    kinds = {(f.file, f.line, f.kind) for f in verify(rotated[0].parent)}
    assert (rotated[1], 1, "renamed") in kinds


def test_one_segment_can_be_checked_alone(rotated):
    for path in rotated:
        assert verify(path) == []
    elsewhere = rotated[1].with_name("evidence.jsonl")
    shutil.copy(rotated[1], elsewhere)
    assert verify(elsewhere) == []
    lines = lines_of(elsewhere)
    del lines[2]
    elsewhere.write_bytes(b"".join(lines))
    assert found(elsewhere) == [(3, "gap")]


def test_a_segment_of_a_newer_schema_is_said_and_left(segment):
    lines = lines_of(segment)
    lines[0] = rehash(lines[0], schema="otelhooks.audit/2")
    segment.write_bytes(b"".join(lines))
    (finding,) = verify(segment.parent)
    assert (finding.line, finding.kind) == (1, "schema")
    assert "otelhooks.audit/2" in finding.message


def test_each_of_several_tampered_places_is_found(segment):
    lines = lines_of(segment)
    lines[1] = lines[1].replace(b"allow", b"aLLow")
    del lines[3]
    lines.insert(5, b"foreign\n")
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(2, "edited"), (4, "gap"), (6, "foreign")]


def test_a_replaced_record_is_found_behind_an_edited_one(segment):
    lines = lines_of(segment)
    lines[1] = lines[1].replace(b"allow", b"aLLow")
    lines[4] = rehash(lines[4], decision="ask")
    segment.write_bytes(b"".join(lines))
    assert found(segment.parent) == [(2, "edited"), (5, "replaced")]


def test_of_several_trails_in_a_folder_only_the_one_that_is_meant_is_checked(tmp_path):
    for stem in ("a", "b"):
        with Audit(tmp_path / f"{stem}.jsonl") as audit:
            audit.append({"decision": "deny"})
    broken = next(tmp_path.glob("b-*"))
    broken.write_bytes(b"".join(lines_of(broken)[1:]))
    assert found(tmp_path / "a.jsonl") == []
    assert check(tmp_path / "a.jsonl").files == 1
    assert found(tmp_path / "b.jsonl") == found(tmp_path) == [(1, "gap")]


def test_an_edited_opening_record_is_not_a_gap_where_nothing_follows(segment):
    lines = lines_of(segment)[:1]
    lines[0] = lines[0].replace(b'"seq":0', b'"seq":9')
    segment.write_bytes(lines[0])
    assert found(segment.parent) == [(1, "edited"), (1, "not closed")]


def test_findings_of_two_chains_do_not_mix(tmp_path):
    for _ in range(2):
        with Audit(tmp_path) as audit:
            audit.append({"number": 0})
    first, second = sorted(tmp_path.iterdir())
    lines = lines_of(second)
    del lines[1]
    second.write_bytes(b"".join(lines))
    (finding,) = verify(tmp_path)
    assert (finding.file, finding.line, finding.kind) == (second, 2, "gap")
    assert [head.file for head in check(tmp_path).heads] == [first, second]


def test_an_empty_folder_is_said(tmp_path):
    assert found(tmp_path) == [(0, "empty")]


def test_other_files_in_the_folder_do_not_matter(segment):
    (segment.parent / "notes.jsonl").write_text("{}\n")
    assert verify(segment.parent) == []


def test_a_path_without_a_trail_is_bad_input(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be read: no such file.*\nhint: give the folder"):
        verify(tmp_path / "nowhere")
    other = tmp_path / "other.jsonl"
    other.write_text('{"schema":"x"}\n')
    with pytest.raises(ConfigError, match=r"not an audit segment: its schema is `x`"):
        verify(other)


# The commands


def invoke(*args: object):
    return CliRunner().invoke(command, [str(arg) for arg in args], catch_exceptions=False)


def test_verify_says_ok_with_exit_code_0(segment):
    result = invoke("verify", segment.parent)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "8 intact records in 1 file: 0 errors, 0 warnings\n"


def test_verify_prints_file_and_line_and_exits_with_1(segment):
    lines = lines_of(segment)
    lines[2] = lines[2].replace(b"deny", b"dEny")
    segment.write_bytes(b"".join(lines))
    result = invoke("verify", segment.parent)
    assert result.exit_code == 1
    assert result.stdout == (f"{segment}:3: error: edited: the content does not match its hash\n")
    printed = json.loads(invoke("verify", segment.parent, "--json").stdout)
    assert printed == {
        "type": "finding",
        "file": str(segment),
        "line": 3,
        "kind": "edited",
        "message": "the content does not match its hash",
        "severity": "error",
    }


def test_verify_lets_a_killed_process_pass_only_if_told(segment):
    segment.write_bytes(b"".join(lines_of(segment)[:5]))
    assert invoke("verify", segment.parent).exit_code == 1
    assert invoke("verify", segment.parent, "--allow-unclosed").exit_code == 0
    segment.write_bytes(segment.read_bytes().replace(b"deny", b"dEny"))
    assert invoke("verify", segment.parent, "--allow-unclosed").exit_code == 1


def test_verify_exits_with_2_for_bad_input(tmp_path):
    result = invoke("verify", tmp_path / "nowhere")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: audit trail `")


def test_the_trail_of_the_user_is_named_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_data_path", lambda *a, **k: tmp_path / "nowhere")
    result = invoke("verify")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: this user's audit trail cannot be read: ")


def test_the_printed_head_is_what_expect_takes(segment):
    result = invoke("verify", segment.parent, "--head")
    head, where, _ = result.stdout.split()
    assert where == f"{segment}:8"
    assert json.loads(invoke("verify", segment.parent, "--head", "--json").stdout)["hash"] == head
    assert invoke("verify", segment.parent, "--expect", head).exit_code == 0
    result = invoke("verify", segment.parent, "--expect", "0" * 64)
    assert result.exit_code == 1
    assert "records were cut off or rewritten" in result.stdout


def test_heads_are_alone_on_standard_output(segment):
    segment.write_bytes(b"".join(lines_of(segment)[:5]))
    result = invoke("verify", segment.parent, "--head")
    assert result.exit_code == 1
    assert [line.split()[1] for line in result.stdout.splitlines()] == [f"{segment}:5"]
    assert "warning: not closed: " in result.stderr
    printed = invoke("verify", segment.parent, "--head", "--json").stdout.splitlines()
    assert [json.loads(line)["type"] for line in printed] == ["finding", "head"]


def test_the_path_can_come_from_the_environment(segment, monkeypatch):
    monkeypatch.setenv("OTELHOOKS_AUDIT", str(segment.parent))
    assert invoke("verify").exit_code == 0


def test_show_prints_all_processes_in_order_of_time(tmp_path):
    clock = iter(range(1_000_000_000, 2_000_000_000, 1000)).__next__
    with Audit(tmp_path, clock=clock) as one, Audit(tmp_path, clock=clock) as other:
        for number in range(4):
            (one, other)[number % 2].append({"tool_name": f"tool_{number}", "decision": "deny"})
    shown = [line.split()[2] for line in invoke("show", tmp_path).stdout.splitlines()]
    assert shown == ["tool_0", "tool_1", "tool_2", "tool_3"]


def test_show_can_be_asked_for_denies_and_json(segment):
    result = invoke("show", segment.parent, "--denied", "--json")
    assert result.exit_code == 0
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["number"] for record in records] == [1, 3, 5]
    assert all(len(record["hash"]) == 64 for record in records)


def test_show_leaves_out_what_is_not_intact_and_says_so(segment):
    lines = lines_of(segment)
    lines[2] = lines[2].replace(b"deny", b"dEny")
    segment.write_bytes(b"".join([*lines, b"foreign\n"]))
    result = invoke("show", segment.parent)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 5
    assert "otelhooks: warning: 2 lines left out" in result.stderr
    assert invoke("show", segment.parent / "nowhere").exit_code == 2


def test_show_does_not_let_a_record_speak_to_the_terminal(tmp_path):
    with Audit(tmp_path) as audit:
        audit.append({"reason": "\x1b[2Jgone\nfake line", "decision": 7, "tool_name": ["x"]})
    result = invoke("show", tmp_path)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert len(result.stdout.splitlines()) == 1
    assert "\\x1b[2Jgone\\nfake line" in result.stdout


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"decision": "ask", "approval_status": "approved"}, "ask approved"),
        ({"decision": "deny", "enforcement": "observed"}, "deny observed"),
        ({"decision": "deny", "enforcement": "blocked"}, "deny  "),
    ],
)
def test_show_in_a_pipe_tells_what_became_of_a_call_as_in_a_terminal(tmp_path, fields, shown):
    with Audit(tmp_path) as audit:
        audit.append(fields)
    assert f"Z  {shown}" in invoke("show", tmp_path).stdout


@pytest.mark.parametrize(
    ("width", "between"), [(80, f"\n{'':22}"), (140, " " * 17)], ids=["narrow", "wide"]
)
def test_show_in_a_terminal_aligns_columns_and_has_long_reasons_below_them(
    tmp_path, monkeypatch, width, between
):
    reason = "Deleting files is not allowed here; list them."
    asked = {"decision": "ask", "tool_name": "look_up_the_weather_of_a_city", "rule_id": "w"}
    with Audit(tmp_path) as audit:
        audit.append(
            {"decision": "deny", "tool_name": "漢字", "rule_id": "no-rm", "reason": reason}
        )
        audit.append({**asked, "enforcement": "rejected", "approval_status": "withdrawn"})
        audit.append({"decision": "allow", "tool_name": "ls", "reason": "x" * 200})
        audit.append({"decision": "allow", "point": "pre_model_call"})
        audit.append({"decision": "deny", "enforcement": "blocked", "withheld": True})
    monkeypatch.setattr("otelhooks.cli.audit._width", lambda: width)
    shown = invoke("show", tmp_path).stdout
    assert f"Z  deny           漢字                  no-rm{between}{reason}\n" in shown
    assert "Z  ask withdrawn  look_up_the_weath...  w\n" in shown
    assert "Z  allow          (pre_model_call)\n" in shown
    assert shown.endswith("Z  deny withheld\n")
    assert f"Z  allow          ls\n{'':22}{'x' * (width - 25)}...\n" in shown


def test_show_reads_a_spool_once(tmp_path):
    with Audit(tmp_path) as audit:
        audit.append({"number": 0})
        segment = audit.segment
    assert segment is not None
    stem = segment.name.rsplit("-", 1)[0]
    (tmp_path / f"{stem}.spool").write_bytes(lines_of(segment)[1])
    assert len(invoke("show", tmp_path).stdout.splitlines()) == 1
    assert verify(tmp_path) == [], "a spool that outlived its purpose is no finding"


def spool_of(segment: Path) -> Path:
    return segment.with_name(segment.name.rsplit("-", 1)[0] + ".spool")


FORGED = {
    "of a stored number": lambda lines: [rehash(lines[3], decision="allow")],
    "of the opening record": lambda lines: [rehash(lines[0], pid=1)],
    "of the closing record": lambda lines: [rehash(lines[7], lines=77)],
    "after the true one": lambda lines: [lines[3], rehash(lines[3], decision="allow")],
    "twice": lambda lines: [rehash(lines[3], decision="allow")] * 2,
}


@pytest.mark.parametrize("name", FORGED)
def test_a_record_in_the_spool_that_is_another_one_in_the_segment_is_found(segment, name):
    lines = FORGED[name](lines_of(segment))
    spool_of(segment).write_bytes(b"".join(lines))
    places = [number for number, line in enumerate(lines, 1) if line not in lines_of(segment)]
    assert found(segment.parent) == [(line, "replaced") for line in places]


def test_two_records_of_one_number_in_the_spool_are_found(segment):
    lines = lines_of(segment)
    segment.write_bytes(b"".join(lines[:5]))
    forged = rehash(lines[6], decision="allow")
    spool_of(segment).write_bytes(b"".join([*lines[5:7], forged, lines[7]]))
    assert found(segment.parent) == [(0, "spooled"), (3, "replaced")]


@pytest.mark.parametrize("is_cut", [True, False], ids=["a record", "anything"])
def test_a_last_line_of_the_spool_without_an_end_is_found(segment, is_cut):
    line = lines_of(segment)[3][:-1] if is_cut else b"anything " * 10_000
    spool_of(segment).write_bytes(line)
    assert found(segment.parent) == [(1, "torn")]
    spool_of(segment).write_bytes(b"")
    assert found(segment.parent) == []


def test_a_finding_without_a_line_names_the_file():
    finding = Finding(Path("x"), 0, "missing", "segment 1 is missing before this one")
    assert str(finding) == f"x: error: missing: {finding.message}"
    assert os.fspath(finding.file) == "x"
