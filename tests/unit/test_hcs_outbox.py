"""The outbox of records for a topic: what is to be sent, by whom, and what was."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otelhooks.audit import Audit, writer
from otelhooks.audit.chain import encode
from otelhooks.audit.hcs_messages import CHUNK_BYTES, chunks_of, fit, unwrap
from otelhooks.audit.hcs_outbox import Outbox, Parcel
from otelhooks.audit.hcs_topic import Attempt
from otelhooks.errors import ConfigError

CHAIN = "20260801T101500123456789Z-4711"
TRIED = Attempt(1, "0.0.2@17.5", "0.0.2@17.5")


def own(folder: Path, trail: Audit) -> Outbox:
    outbox = Outbox(folder)
    outbox.own = trail.chain
    return outbox


def take_all(outbox: Outbox) -> list[Parcel]:
    parcels = []
    while (parcel := outbox.take()) is not None:
        parcels.append(parcel)
    return parcels


def record_of(parcel: Parcel) -> dict[str, Any]:
    message = unwrap(parcel.message)
    assert message is not None
    return json.loads(message.line)


def names(parcels: list[Parcel]) -> list[Any]:
    return [record_of(p).get("name", record_of(p).get("audit")) for p in parcels]


def test_records_are_handed_out_once_in_their_order(tmp_path):
    with Audit(tmp_path) as trail:
        outbox = own(tmp_path, trail)
        assert take_all(outbox) == []
        for name in "abc":
            trail.append({"name": name})
        assert names(take_all(outbox)) == ["open", "a", "b", "c"]
        trail.append({"name": "d"})
        assert names(take_all(outbox)) == ["d"]


def test_what_is_sent_is_deleted_once_its_writer_is_gone(tmp_path):
    with Audit(tmp_path) as trail:
        trail.append({"name": "a"})
        outbox = own(tmp_path, trail)
        for parcel in take_all(outbox):
            outbox.sent(parcel)
        assert trail.segment is not None
        assert trail.segment.exists()
    for parcel in take_all(outbox):
        outbox.sent(parcel)
    assert take_all(outbox) == []
    assert list(tmp_path.iterdir()) == []


def test_the_next_sender_goes_on_where_the_last_one_stopped(tmp_path):
    with Audit(tmp_path) as trail:
        for name in "abc":
            trail.append({"name": name})
        first = own(tmp_path, trail)
        opening, a, b, _ = take_all(first)
        for parcel in (opening, a):
            first.sent(parcel)
        b.note(TRIED)
        first.close()
        second = own(tmp_path, trail)
        found = take_all(second)
    assert names(found) == ["b", "c"]
    assert [parcel.attempt for parcel in found] == [TRIED, None]


def test_what_could_not_be_sent_comes_after_the_others(tmp_path):
    with Audit(tmp_path) as trail:
        for name in "ab":
            trail.append({"name": name})
        outbox = own(tmp_path, trail)
        opening = outbox.take()
        assert opening is not None
        outbox.put_back(opening)
        assert names(take_all(outbox)) == ["a", "b", "open"]


def test_segments_are_handed_out_in_order_and_deleted_one_by_one(tmp_path):
    with Audit(tmp_path, rotate_bytes=1) as trail:
        outbox = own(tmp_path, trail)
        for name in "abc":
            trail.append({"name": name})
        parcels: list[Parcel] = []
        while (parcel := outbox.take()) is not None:
            outbox.sent(parcel)
            parcels.append(parcel)
        assert [n for n in names(parcels) if len(n) == 1] == ["a", "b", "c"]
        assert len(list(tmp_path.glob("*.jsonl"))) == 1


def test_a_trail_of_a_living_process_is_left_to_it(tmp_path):
    with Audit(tmp_path) as trail:
        trail.append({"name": "a"})
        assert take_all(Outbox(tmp_path)) == []


def test_a_trail_that_its_writer_gives_away_is_sent_by_others(tmp_path):
    with Audit(tmp_path) as trail:
        trail.append({"name": "a"})
        own(tmp_path, trail).give_away()
        other = Outbox(tmp_path)
        assert names(take_all(other)) == ["open", "a"]
        trail.append({"name": "b"})
        assert names(take_all(other)) == ["b"]


def test_a_segment_that_its_writer_is_about_to_lock_is_left_to_it(tmp_path):
    segment = tmp_path / f"audit-{CHAIN}-000001.jsonl"
    segment.touch()
    assert take_all(Outbox(tmp_path)) == []
    assert list(tmp_path.iterdir()) == [segment]


def test_an_empty_segment_of_a_killed_process_does_not_keep_back_what_is_before_it(tmp_path):
    with Audit(tmp_path) as trail:
        trail.append({"name": "a"})
        last = tmp_path / f"audit-{trail.chain}-000002.jsonl"
    last.touch()
    os.utime(last, (0, 0))
    assert names(take_all(Outbox(tmp_path))) == ["open", "a", "closed"]


def test_a_trail_is_locked_while_its_writer_changes_segments(tmp_path, monkeypatch):
    made = writer.Segment
    seen: list[list[Any]] = []

    def segment(path: Path) -> Any:
        seen.append(names(take_all(Outbox(tmp_path))))
        return made(path)

    with Audit(tmp_path, rotate_bytes=1) as trail:
        monkeypatch.setattr(writer, "Segment", segment)
        for name in "abc":
            trail.append({"name": name})
    assert seen == [[], []]


def test_a_trail_has_one_sender_at_a_time(tmp_path):
    with Audit(tmp_path) as trail:
        trail.append({"name": "a"})
    one, other = Outbox(tmp_path), Outbox(tmp_path)
    assert names(take_all(one)) == ["open", "a", "closed"]
    assert take_all(other) == []
    one.close()
    assert names(take_all(other)) == ["open", "a", "closed"]


def test_a_trail_without_a_record_is_not_sent(tmp_path):
    Audit(tmp_path).close()
    outbox = Outbox(tmp_path)
    assert take_all(outbox) == []
    assert list(tmp_path.iterdir()) == []


def test_lines_in_the_spool_of_a_killed_process_are_sent_too(tmp_path):
    with Audit(tmp_path) as trail:
        for name in "abc":
            trail.append({"name": name})
        segment = trail.segment
    assert segment is not None
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[:2]) + lines[2][:10])
    spool = segment.with_name(segment.name.replace("-000001.jsonl", ".spool"))
    spool.write_bytes(b"".join(lines[1:4]))
    assert names(take_all(Outbox(tmp_path))) == ["open", "a", "b", "c"]


def test_a_journal_that_was_cut_off_or_tampered_with_sends_again(tmp_path):
    with Audit(tmp_path) as trail:
        trail.append({"name": "a"})
        segment = trail.segment
    assert segment is not None
    journal = segment.with_suffix(".jsonl.sent")
    journal.write_bytes(b'{"seq": 0, "sent": true}\n[]\n{"seq": 1}\n{}\n5\n{"seq": 1, "se')
    assert names(take_all(Outbox(tmp_path))) == ["a", "closed"]


def test_what_an_older_release_has_left_is_sent_and_cleared_away(tmp_path):
    with Audit(tmp_path) as trail:
        for name in "ab":
            trail.append({"name": name})
        stem = f"audit-{trail.chain}"
    (tmp_path / f"{stem}.lock").touch()
    (tmp_path / f"{stem}.others").touch()
    (tmp_path / f"{stem}-000001.jsonl.sent").write_text(
        '{"seq": 0, "chunk": 1, "transaction": "0.0.2@17.4", "first": "0.0.2@17.4"}\n'
        '{"seq": 0, "sent": true}\n'
        '{"seq": 1, "chunk": 1, "transaction": "0.0.2@17.5", "first": "0.0.2@17.5"}\n'
    )
    outbox = Outbox(tmp_path)
    found = take_all(outbox)
    assert names(found) == ["a", "b", "closed"]
    assert [parcel.attempt for parcel in found] == [TRIED, None, None]
    for parcel in found:
        outbox.sent(parcel)
    assert take_all(outbox) == []
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_was_edited_is_told_and_the_others_are_sent(tmp_path, caplog):
    with Audit(tmp_path) as trail:
        for name in "ab":
            trail.append({"name": name})
        segment = trail.segment
    assert segment is not None
    segment.write_bytes(segment.read_bytes().replace(b'"name":"a"', b'"name":"z"'))
    assert names(take_all(Outbox(tmp_path))) == ["open", "b", "closed"]
    assert "not an intact record, which is not sent" in caplog.text


def test_a_segment_that_cannot_be_read_keeps_back_nothing_that_was_read_before_it(tmp_path, caplog):
    with Audit(tmp_path, rotate_bytes=1) as trail:
        for name in "ab":
            trail.append({"name": name})
        second = tmp_path / f"audit-{trail.chain}-000002.jsonl"
    kept = second.read_bytes()
    second.unlink()
    second.symlink_to(tmp_path)
    outbox = Outbox(tmp_path)
    assert [n for n in names(take_all(outbox)) if len(n) == 1] == ["a"]
    assert "cannot be read" in caplog.text
    second.unlink()
    second.write_bytes(kept)
    assert [n for n in names(take_all(outbox)) if len(n) == 1] == ["b"]


def test_a_folder_that_is_gone_is_told_once(tmp_path, caplog):
    outbox = Outbox(tmp_path / "gone")
    assert outbox.take() is None
    assert outbox.take() is None
    assert len(caplog.records) == 1


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.text(max_size=300),
        st.one_of(st.text(max_size=1500), st.integers(), st.lists(st.text(max_size=90))),
        max_size=6,
    ),
    st.integers(1, 4),
)
def test_a_record_fits_into_its_chunks(record, max_chunks):
    full = {**record, "decision": "deny", "arguments_hash": "0" * 64}
    fitting = fit(full, max_chunks)
    size = sum(len(text) + 1 for _, text in encode(fitting))
    assert len(chunks_of(b" " * (size + 400))) <= max_chunks
    assert fitting["decision"] == "deny"
    assert fitting["arguments_hash"] == "0" * 64


def test_chunks_are_what_the_service_takes():
    assert [len(chunk) for chunk in chunks_of(b"x" * 2049)] == [CHUNK_BYTES, CHUNK_BYTES, 1]
    assert chunks_of(b"") == [b""]


def test_without_the_sdk_the_extra_is_named(monkeypatch, tmp_path):
    from otelhooks.audit import HcsAuditTrailHook

    monkeypatch.setitem(sys.modules, "hiero_sdk_python", None)
    with pytest.raises(ConfigError, match=r"pip install otelhooks\[hedera\]"):
        HcsAuditTrailHook(["*"], "0.0.5", spool=tmp_path)
