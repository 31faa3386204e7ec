"""The audit trail while it is written: what is on disk when, and what a failing disk does."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import linecache
import os
import re
import stat
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from otelhooks.audit import Audit, verify
from otelhooks.audit import trail as trail_module
from otelhooks.audit import writer as writer_module
from otelhooks.audit.segment import Segment
from otelhooks.errors import ConfigError

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="fork, locks and modes of POSIX")


def read(folder: Path, suffix: str = ".jsonl") -> list[dict]:
    """Read the trail's lines, all segments in order."""
    return [
        json.loads(line)
        for path in sorted(folder.glob(f"*{suffix}"))
        for line in path.read_text().splitlines()
    ]


def callers(folder: Path) -> list[dict]:
    """Read the callers' records only."""
    return [record for record in read(folder) if "audit" not in record]


def spooled(folder: Path) -> list[int]:
    """Read the numbers of the callers' records that wait in the spool."""
    return [record["number"] for record in read(folder, ".spool") if "number" in record]


def wait_until(is_true, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch):
    monkeypatch.setattr(writer_module, "FIRST_RETRY_S", 0.02)
    monkeypatch.setattr(writer_module, "LAST_RETRY_S", 0.05)


class Disk:
    """`os.write` as the trail sees it: can be full for segments, for spools, or for both."""

    def __init__(self, monkeypatch) -> None:
        self.full: tuple[str, ...] = ()
        self.torn_bytes = 0
        self._write, self._open = os.write, os.open
        self._names: dict[int, str] = {}
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "open", self.open)

    def open(self, path, *args, **kwargs):
        fd = self._open(path, *args, **kwargs)
        self._names[fd] = str(path)
        return fd

    def write(self, fd, data):
        if self._names.get(fd, "").endswith(self.full or ("no such file",)):
            if self.torn_bytes:
                written, self.torn_bytes = self._write(fd, data[: self.torn_bytes]), 0
                return written
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(fd, data)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def test_a_record_is_on_disk_and_chained_when_append_returns(tmp_path):
    with Audit(tmp_path, clock=lambda: 1_700_000_000_123_456_789) as audit:
        assert audit.append({"tool_name": "run_command", "decision": "deny"})
        opening, record = read(tmp_path)
        assert opening["audit"] == "open"
        assert opening["schema"] == "otelhooks.audit/1"
        assert opening["start"] == "process"
        assert opening["prev"] == "0" * 64
        assert record == {
            "decision": "deny",
            "hash": audit.head,
            "prev": opening["hash"],
            "seq": 1,
            "time": "2023-11-14T22:13:20.123456789Z",
            "tool_name": "run_command",
        }
        assert audit.written == 1
        assert verify(tmp_path) == []
    closing = read(tmp_path)[-1]
    assert (closing["audit"], closing["lines"], closing["next"]) == ("closed", 3, None)
    assert verify(tmp_path) == []


def test_the_hash_is_that_of_the_canonical_json_without_it(tmp_path):
    with Audit(tmp_path) as audit:
        audit.append({"b": "ü\u2028", "a": [1, 2.5, None, {"z": 1, "y": True}]})
    for record in read(tmp_path):
        claimed = record.pop("hash")
        canonical = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        assert hashlib.sha256(canonical.encode()).hexdigest() == claimed


def test_a_record_is_read_when_it_is_written_and_not_later(tmp_path):
    arguments = {"CommandLine": "ls"}
    with Audit(tmp_path, group_wait_s=0.05) as audit:
        ticket = audit.write({"args": arguments})
        arguments["CommandLine"] = "rm -rf /"
        assert ticket.wait()
    assert callers(tmp_path)[0]["args"] == {"CommandLine": "ls"}


def test_a_callers_field_cannot_pose_as_the_trails_own(tmp_path):
    with Audit(tmp_path) as audit:
        assert audit.append({"audit": "closed", "seq": 99, "hash": "x", "seq_": "kept"})
    record = callers(tmp_path)[0]
    assert record["seq"] == 1
    assert (record["audit_"], record["hash_"]) == ("closed", "x")
    assert {record["seq_"], record["seq__"]} == {99, "kept"}
    assert verify(tmp_path) == []


def test_any_value_can_be_recorded(tmp_path):
    class Rude:
        def __str__(self):
            raise RuntimeError("no")

    cycle: list = []
    cycle.append(cycle)
    nested: object = Path("x")
    for _ in range(20):
        nested = [nested]
    odd = {
        "nan": float("nan"),
        "bytes": b"\xff",
        "path": Path("x"),
        "mixed": {1: "a", "b": {2}},
        "rude": Rude(),
        "deep_rude": [Rude()],
        "cycle": cycle,
        "lone": "\ud800",
        "plain_beside_odd": [None, True, 3, "text", {4}],
        "nested": nested,
        "huge": {"n": 10**5000},
        3: "number as name",
    }
    with Audit(tmp_path) as audit:
        assert audit.append(odd)
    record = callers(tmp_path)[0]
    assert record["nan"] == "nan"
    assert record["path"] == "x"
    assert record["huge"] == {"n": hex(10**5000)}
    assert record["mixed"] == {"1": "a", "b": "{2}"}
    assert record["rude"] == "<unprintable Rude>"
    assert record["plain_beside_odd"] == [None, True, 3, "text", "{4}"]
    assert record["nested"] == json.loads("[" * 20 + '"x"' + "]" * 20)
    assert record["3"] == "number as name"
    assert verify(tmp_path) == []


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"k": value}])
def test_what_json_does_not_know_is_spelled_out_to_a_depth_of_32(tmp_path, wrap):
    value, written = float("nan"), "nan"
    for _ in range(32):
        value, written = wrap(value), wrap(written)
    with Audit(tmp_path) as audit:
        assert audit.append({"value": value, "none": [None, float("nan")]})
        assert audit.append({"value": wrap(value)})
    first, second = callers(tmp_path)
    assert first["value"] == written
    assert first["none"] == [None, "nan"]
    assert second["value"] != wrap(written), "deeper than that it is a text"


def test_a_mapping_that_cannot_be_read_is_refused_counted_and_said(tmp_path, caplog):
    class Broken(dict):
        def items(self):
            raise KeyError("gone")

    with Audit(tmp_path) as audit:
        assert not audit.append(Broken())
        assert not audit.append(Broken())
        assert (audit.failed, audit.dropped) == (2, 2)
    assert [record.message for record in caplog.records] == [
        "audit record not stored: it cannot be read: KeyError"
    ]
    assert [record["count"] for record in read(tmp_path) if record.get("audit") == "lost"] == [2]
    assert [finding.kind for finding in verify(tmp_path)] == ["lost"]


def test_eight_threads_write_one_chain(tmp_path):
    results: list[bool] = []

    def work(thread: int) -> None:
        mine = [audit.append({"thread": thread, "number": number}) for number in range(50)]
        results.extend(mine)

    with Audit(tmp_path) as audit:
        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 400
    records = callers(tmp_path)
    assert [record["seq"] for record in records] == list(range(1, 401))
    for thread in range(8):
        mine = [record["number"] for record in records if record["thread"] == thread]
        assert mine == list(range(50))
    assert verify(tmp_path) == []


def test_records_that_wait_together_share_one_sync(tmp_path, monkeypatch):
    syncs = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (syncs.append(fd), time.sleep(0.01), real(fd)))
    with Audit(tmp_path) as audit:
        assert audit.flush()
        syncs.clear()
        threads = [
            threading.Thread(target=lambda: [audit.append({}) for _ in range(10)]) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert audit.written == 80
        assert 10 <= len(syncs) <= 40


def test_a_group_waits_for_more_records_if_told_to(tmp_path, monkeypatch):
    with Audit(tmp_path, group_wait_s=0.05) as audit:
        audit.flush()
        syncs = []
        real = os.fsync
        monkeypatch.setattr(os, "fsync", lambda fd: (syncs.append(fd), real(fd)))
        tickets = [audit.write({"n": n}) for n in range(20)]
        assert all(ticket.wait() for ticket in tickets)
        assert len(syncs) == 1


def test_wait_gives_up_after_its_timeout(tmp_path, monkeypatch):
    real, hold = os.fsync, threading.Event()
    audit = Audit(tmp_path)
    audit.flush()
    monkeypatch.setattr(os, "fsync", lambda fd: (hold.wait(10), real(fd)))
    ticket = audit.write({})
    assert ticket.wait(0.02) is False
    assert audit.flush(0.02) is False
    hold.set()
    assert ticket.wait() is True
    assert audit.close()


@posix_only
def test_files_are_private(tmp_path):
    with Audit(tmp_path / "new") as audit:
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
        assert audit.segment is not None
        assert stat.S_IMODE(audit.segment.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("mode", "is_told"), [(0o777, True), (0o702, True), (0o1777, False), (0o770, False)]
)
def test_a_folder_that_every_user_may_write_is_told_of_once(tmp_path, caplog, mode, is_told):
    folder = tmp_path / f"audit-{mode:o}"  # another one each time: what was told is not told again
    folder.mkdir()
    folder.chmod(mode)
    for name in ("a", "b"):
        with Audit(folder / f"{name}.jsonl") as audit:
            assert audit.append({"decision": "deny"})
    assert caplog.text.count(f"every user may write `{folder}`") == is_told
    assert caplog.text.count(f"hint: run `chmod o-w {folder}`") == is_told


def test_a_file_stem_names_the_segments(tmp_path):
    with Audit(tmp_path / "agent.jsonl") as audit:
        assert audit.segment is not None
        pattern = rf"agent-\d{{8}}T\d{{15}}Z-{os.getpid()}-000001\.jsonl"
        assert re.fullmatch(pattern, audit.segment.name)
    assert verify(tmp_path / "agent.jsonl") == []


def test_without_a_path_the_trail_lies_in_the_users_data_folder(tmp_path, monkeypatch):
    import platformdirs

    monkeypatch.setattr(platformdirs, "user_data_path", lambda *_, **__: tmp_path / "otelhooks")
    with Audit() as audit:
        assert audit.append({"n": 1})
        assert audit.folder == tmp_path / "otelhooks" / "audit"
    assert verify() == []


def test_the_chain_goes_on_across_segments(tmp_path):
    with Audit(tmp_path, rotate_bytes=1500) as audit:
        for number in range(30):
            assert audit.append({"number": number})
    files = sorted(tmp_path.iterdir())
    assert len(files) == 5
    for before, after in itertools.pairwise(files):
        last = json.loads(before.read_text().splitlines()[-1])
        first = json.loads(after.read_text().splitlines()[0])
        assert before.stat().st_size <= 2000
        assert (last["audit"], last["next"]) == ("closed", first["segment"])
        assert (first["prev"], first["start"]) == (last["hash"], "rotation")
    assert [record["number"] for record in callers(tmp_path)] == list(range(30))
    assert verify(tmp_path) == []


def test_a_record_larger_than_a_segment_is_stored(tmp_path):
    with Audit(tmp_path, rotate_bytes=1000) as audit:
        for size in (10, 5000, 10):
            assert audit.append({"text": "x" * size})
    assert len(callers(tmp_path)) == 3
    assert verify(tmp_path) == []


def test_no_segment_is_closed_before_it_has_a_record(tmp_path):
    with Audit(tmp_path, rotate_bytes=1) as audit:
        for number in range(3):
            assert audit.append({"number": number})
    segments = [path.read_text().splitlines() for path in sorted(tmp_path.iterdir())]
    assert [len(lines) for lines in segments] == [3, 3, 3]


def test_a_wake_up_that_a_signal_cut_short_delays_no_later_record(tmp_path):
    with Audit(tmp_path) as audit:
        assert audit.append({"n": 1})
        # What a signal handler that raises in `Condition.notify` leaves behind.
        left = threading.Lock()
        left.acquire()
        work = audit._started[1]._work
        with audit._lock:
            work._waiters.appendleft(left)

        assert audit.write({"n": 2}).wait(5)


def test_an_exception_anywhere_in_a_write_leaves_a_chain_that_verifies(tmp_path):
    """As a signal handler raises it, line by line until a write ends before it comes."""
    for number in itertools.count():
        folder, left = tmp_path / str(number), [number]

        def interrupt(frame, event, argument, left=left):
            if "audit" not in frame.f_code.co_filename:
                return None
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
            if event == "line" and not line.startswith("with "):  # Python leaves a block safely
                left[0] -= 1
            if left[0] < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
            return interrupt

        with Audit(folder, rotate_bytes=1) as audit:
            audit.write({"n": 1})
            if number % 2:
                audit.drop("it cannot be made")
            before = sys.gettrace()
            sys.settrace(interrupt)
            try:
                audit.write({"n": 2})
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
            assert audit.append({"n": 3})
            assert audit.flush()
        assert [found for found in verify(folder) if found.severity == "error"] == []
        assert [record["n"] for record in callers(folder)] in ([1, 2, 3], [1, 3])
        if left[0] >= 0:
            break
    assert number > 20


def test_a_segment_has_64_mebibytes_unless_told_otherwise(tmp_path, monkeypatch):
    sizes = []

    class Noted(trail_module.Chain):
        def __init__(self, start_ns, pid, rotate_bytes, parent=None):
            sizes.append(rotate_bytes)
            super().__init__(start_ns, pid, rotate_bytes, parent)

    monkeypatch.setattr(trail_module, "Chain", Noted)
    with Audit(tmp_path):
        pass
    assert sizes == [67_108_864]


def test_a_new_writer_begins_a_new_chain(tmp_path):
    for number in range(2):
        with Audit(tmp_path) as audit:
            audit.append({"number": number})
    openings = [record for record in read(tmp_path) if record.get("audit") == "open"]
    assert [opening["start"] for opening in openings] == ["process", "process"]
    assert len({opening["chain"] for opening in openings}) == 2
    assert verify(tmp_path) == []


def test_a_full_disk_loses_nothing_and_is_said_once(tmp_path, disk, caplog):
    with Audit(tmp_path) as audit:
        assert audit.append({"number": 0})
        disk.full = (".jsonl", ".spool")
        disk.torn_bytes = 17
        assert not audit.append({"number": 1})
        assert not audit.append({"number": 2})
        assert not audit.flush(1)
        assert (audit.failed, audit.spooled, audit.dropped) == (2, 2, 0)
        # The half line that was written is gone again.
        assert [record["number"] for record in callers(tmp_path)] == [0]
        disk.full = ()
        wait_until(lambda: audit.spooled == 0)
        assert audit.append({"number": 3})
        assert (audit.failed, audit.spooled, audit.dropped, audit.written) == (2, 0, 0, 4)
    assert [record["number"] for record in callers(tmp_path)] == [0, 1, 2, 3]
    assert verify(tmp_path) == []
    messages = [record.getMessage() for record in caplog.records]
    assert [message.split(":")[0].split(" `")[0] for message in messages] == [
        "audit trail",
        "audit spool",
        "audit trail",
    ]
    assert "no space left on device" in messages[0]
    assert "hint: free some space" in messages[0]
    assert "2 records stored late" in messages[2]


def test_a_failed_sync_is_a_failed_write(tmp_path, monkeypatch):
    real, fails = os.fsync, [True]

    def fsync(fd):
        if fails and not os.readlink(f"/proc/self/fd/{fd}").endswith(".spool"):
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    with Audit(tmp_path) as audit:
        assert audit.append({"number": 0})
        monkeypatch.setattr(os, "fsync", fsync)
        assert not audit.append({"number": 1})
        assert [record["number"] for record in callers(tmp_path)] == [0]
        fails.clear()
        wait_until(lambda: audit.spooled == 0)
    assert [record["number"] for record in callers(tmp_path)] == [0, 1]
    assert verify(tmp_path) == []


def test_no_call_waits_for_a_disk_that_is_known_not_to_work(tmp_path, disk, monkeypatch):
    monkeypatch.setattr(writer_module, "FIRST_RETRY_S", 60)
    audit = Audit(tmp_path)
    assert audit.append({})
    disk.full = (".jsonl",)
    assert not audit.append({})
    started = time.monotonic()
    assert not audit.append({})
    assert time.monotonic() - started < 5
    disk.full = ()
    assert audit.flush(5), "flush tries again at once"
    assert audit.close()


def test_what_cannot_be_written_lies_in_the_spool_until_it_can(tmp_path, disk):
    with Audit(tmp_path) as audit:
        assert audit.append({"number": 0})
        disk.full = (".jsonl",)
        assert not audit.append({"number": 1})
        assert not audit.append({"number": 2})
        wait_until(lambda: len(read(tmp_path, ".spool")) == 2)
        spool = next(tmp_path.glob("*.spool"))
        assert stat.S_IMODE(spool.stat().st_mode) == 0o600 or sys.platform == "win32"
        assert [finding.kind for finding in verify(tmp_path)] == ["spooled"]
        disk.full = ()
        assert audit.flush(5)
        wait_until(lambda: not spool.exists())
    assert [record["number"] for record in callers(tmp_path)] == [0, 1, 2]
    assert verify(tmp_path) == []


def test_a_trail_closed_on_a_full_disk_says_how_much_is_where(tmp_path, disk, caplog):
    audit = Audit(tmp_path)
    assert audit.append({"number": 0})
    disk.full = (".jsonl",)
    for number in range(1, 4):
        assert not audit.append({"number": number})
    assert audit.close() is False
    assert "closed with 3 records not stored: 3 kept in `" in caplog.records[-1].getMessage()
    assert [record.get("number") for record in read(tmp_path, ".spool")] == [1, 2, 3, None]
    # The spool goes on where the segment ends, and is checked with it.
    (finding,) = verify(tmp_path)
    assert (finding.kind, finding.severity, finding.line) == ("spooled", "warning", 0)


def test_a_trail_whose_spool_filled_the_disk_too_says_how_many_are_in_it(tmp_path, disk, caplog):
    audit = Audit(tmp_path)
    disk.full = (".jsonl",)
    for number in range(3):
        assert not audit.append({"number": number})
    wait_until(lambda: spooled(tmp_path) == [0, 1, 2])
    disk.full = (".jsonl", ".spool")
    for number in range(3, 8):
        assert not audit.append({"number": number})
    assert audit.close() is False
    said = caplog.records[-1].getMessage()
    assert "closed with 8 records not stored: 3 kept in `" in said
    assert said.endswith("`, 5 lost")
    assert spooled(tmp_path) == [0, 1, 2]


def test_a_closing_record_that_the_spool_cannot_take_loses_no_other(tmp_path, disk, caplog):
    audit = Audit(tmp_path)
    assert audit.append({"number": 0})
    disk.full = (".jsonl",)
    assert not audit.append({"number": 1})
    wait_until(lambda: len(read(tmp_path, ".spool")) == 1)
    disk.full = (".jsonl", ".spool")
    assert audit.close() is False
    said = caplog.records[-1].getMessage()
    assert "closed with 1 records not stored: 1 kept in `" in said
    assert "lost" not in said


def test_a_record_after_the_end_of_a_trail_that_is_held_is_waited_for_without_end(tmp_path):
    audit = Audit(tmp_path)
    audit.hold()
    assert audit.append({"number": 0}), "until then records are written"
    assert audit.close()
    late = threading.Thread(target=audit.write, args=({"number": 1},), daemon=True)
    late.start()
    late.join(0.3)
    assert late.is_alive()
    assert audit.dropped == 0


def test_closing_again_does_not_wait_for_what_the_first_time_did_not_store(tmp_path, disk):
    audit = Audit(tmp_path)
    disk.full = (".jsonl",)
    audit.write({"number": 1})
    assert audit.close() is False
    began = time.monotonic()
    assert audit.close() is False
    assert time.monotonic() - began < 0.8


def test_32_mebibytes_may_wait_in_memory_and_no_more(tmp_path, monkeypatch):
    with Audit(tmp_path) as audit:
        assert audit.flush()
        writer = audit._started[1]
        for extra, is_taken in ((0, True), (1, False)):
            monkeypatch.setattr(type(writer), "queued_bytes", 33_554_432 + extra)
            ticket = audit.write({})
            assert ticket.wait() is is_taken


def test_a_full_memory_refuses_counts_and_says_so_in_the_trail(tmp_path, disk, monkeypatch):
    monkeypatch.setattr(trail_module, "MAX_QUEUED_BYTES", 1000)
    with Audit(tmp_path) as audit:
        assert audit.append({"number": 0})
        disk.full = (".jsonl", ".spool")
        for number in range(1, 11):
            assert not audit.append({"number": number})
        dropped = audit.dropped
        assert 0 < dropped < 10
        assert (audit.failed, audit.spooled) == (10, 10 - dropped)
        disk.full = ()
        wait_until(lambda: audit.spooled == 0)
        assert audit.append({"number": 11})
    stored = [record["number"] for record in callers(tmp_path)]
    assert stored == [*range(11 - dropped), 11]
    assert [record["count"] for record in read(tmp_path) if record.get("audit") == "lost"] == [
        dropped
    ]
    assert [finding.kind for finding in verify(tmp_path)] == ["lost"]


def renamed(path: Path) -> None:
    path.rename(path.with_suffix(".old"))


def linked_elsewhere(path: Path) -> None:
    os.link(path, path.with_suffix(".old"))
    path.unlink()


def moved_away(path: Path) -> None:
    other = path.parent / "other"
    other.mkdir(exist_ok=True)
    path.rename(other / path.name)


LOST = [
    pytest.param(Path.unlink, id="deleted"),
    pytest.param(renamed, marks=posix_only, id="renamed"),
    pytest.param(linked_elsewhere, marks=posix_only, id="another name"),
    pytest.param(moved_away, marks=posix_only, id="moved"),
]


@pytest.mark.parametrize("lose", LOST)
def test_a_segment_that_is_deleted_is_a_failed_write_and_the_next_one_goes_on(
    tmp_path, lose, caplog
):
    with Audit(tmp_path) as audit:
        assert audit.append({"number": 0})
        lost = audit.segment
        assert lost is not None
        lose(lost)
        assert not audit.append({"number": 1})
        assert audit.failed == 1
        assert audit.flush(5)
        assert audit.append({"number": 2})
        assert audit.segment is not None
        assert audit.segment.name == lost.name.replace("-000001", "-000002")
        assert (audit.failed, audit.written, audit.dropped) == (1, 3, 0)
    assert not lost.exists()
    assert [record["number"] for record in callers(tmp_path)] == [1, 2]
    assert [record["audit"] for record in read(tmp_path) if "audit" in record] == ["open", "closed"]
    [missing] = [finding for finding in verify(tmp_path) if finding.kind == "missing"]
    assert missing.file == audit.segment
    assert missing.message == (
        "segment 1 is missing before this one; the process noticed that it was moved or deleted, "
        "and continued here: records 0 to 1 are missing"
    )
    first, late = [record.getMessage() for record in caplog.records]
    assert f"`{lost}` was moved or deleted while it was written" in first
    assert "\nhint: if it was moved, put it back" in first
    assert "1 record stored late" in late


@pytest.mark.parametrize("content", ["", "mine\n"])
def test_a_segment_whose_name_is_taken_is_left_for_the_next(tmp_path, content, caplog):
    with Audit(tmp_path, rotate_bytes=700) as audit:
        assert audit.append({"n": 0})
        assert audit.segment is not None
        taken = audit.segment.with_name(audit.segment.name.replace("-000001", "-000002"))
        taken.write_text(content)
        for number in range(1, 5):
            assert audit.append({"n": number})
        assert audit.failed == 0
    assert taken.read_text() == content
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"the name of audit segment `{taken}` is taken; the trail continues in")
    found = {(finding.kind, finding.severity) for finding in verify(tmp_path)}
    assert found == {("moved", "warning"), *({("foreign", "error")} if content else ())}
    if content:
        return
    numbers = [record["n"] for record in callers(tmp_path)]
    assert numbers == [0, 1, 2, 3, 4]


@posix_only
def test_a_segment_that_was_moved_can_be_put_back(tmp_path):
    with Audit(tmp_path) as audit:
        assert audit.append({"number": 0})
        lost = audit.segment
        assert lost is not None
        moved_away(lost)
        assert not audit.append({"number": 1})
        assert audit.flush(5)
        (tmp_path / "other" / lost.name).rename(lost)
        assert audit.append({"number": 2})
    assert [record["number"] for record in callers(tmp_path)] == [0, 1, 2]
    [finding] = verify(tmp_path)
    assert (finding.kind, finding.severity, finding.file) == ("moved", "warning", lost)

    lost.write_bytes(b"".join(lost.read_bytes().splitlines(keepends=True)[:-1]))
    found = [(finding.kind, finding.severity) for finding in verify(tmp_path)]
    assert ("gap", "error") in found, "what is cut off before it is put back is found"


@posix_only
@pytest.mark.parametrize(
    "steps",
    [
        "move write write",
        "move move write flush move write",
        "write flush move",
        "full write move ok write",
        "full write write write move ok write write",
        "write flush write move move flush move",
        "full write flush move write move write full move",
        "write move full move write ok move write write",
    ],
)
@pytest.mark.parametrize("rotate_bytes", [700, 1_000_000])
def test_segments_that_are_put_back_make_the_chain_whole(tmp_path, disk, steps, rotate_bytes):
    away: list[Path] = []
    with Audit(tmp_path, rotate_bytes=rotate_bytes) as audit:
        for step in steps.split():
            if step == "write":
                audit.write({"n": 1})
            elif step == "flush":
                audit.flush(0.1)
            elif step == "move":
                audit.flush(0.02)
                if live := sorted(tmp_path.glob("*.jsonl")):
                    moved_away(live[-1])
                    away.append(live[-1])
            else:
                disk.full = (".jsonl",) if step == "full" else ()
        disk.full = ()
    for lost in away:
        assert not lost.exists(), "no name is used twice"
        (tmp_path / "other" / lost.name).rename(lost)
    assert {finding.kind for finding in verify(tmp_path)} <= {"moved"}
    assert len(callers(tmp_path)) == steps.split().count("write")


@posix_only
def test_a_segment_that_is_emptied_before_it_is_put_back_is_a_gap(tmp_path):
    with Audit(tmp_path) as audit:
        assert audit.append({"n": 1})
        lost = audit.segment
        assert lost is not None
        moved_away(lost)
        audit.append({"n": 2})
    lost.write_bytes(b"")
    assert {finding.kind for finding in verify(tmp_path)} == {"gap", "moved"}


@posix_only
def test_what_a_lost_segment_without_a_record_lacks_is_told(tmp_path):
    with Audit(tmp_path) as audit:
        lost = audit.segment
        assert lost is not None
        lost.unlink()
        audit.append({"n": 1})
    [finding] = verify(tmp_path)
    assert finding.message.endswith("and continued here: it held no record")


@posix_only
def test_what_waits_for_a_segment_that_is_deleted_goes_into_the_next_one(tmp_path, disk):
    """The usual way to make room on a full disk is to delete the largest file."""
    with Audit(tmp_path) as audit:
        assert audit.append({"number": 0})
        lost = audit.segment
        assert lost is not None
        disk.full = (".jsonl",)
        assert not audit.append({"number": 1})
        moved_away(lost)
        assert not audit.append({"number": 2})
        disk.full = ()
        wait_until(lambda: audit.flush(1))
    assert [record["number"] for record in callers(tmp_path)] == [1, 2]
    assert [finding.kind for finding in verify(tmp_path)] == ["missing"]
    (tmp_path / "other" / lost.name).rename(lost)
    assert [finding.kind for finding in verify(tmp_path)] == ["moved"]


@posix_only
def test_each_segment_that_is_deleted_is_left_for_the_next(tmp_path):
    with Audit(tmp_path, rotate_bytes=900) as audit:
        for number in range(3):
            assert audit.append({"number": number})
            assert audit.segment is not None
            audit.segment.unlink()
            assert not audit.append({})
            assert audit.flush(5)
        assert audit.segment.name.endswith("-000004.jsonl")
    found = [finding for finding in verify(tmp_path) if finding.severity == "error"]
    assert [finding.kind for finding in found] == ["missing"]
    assert "segments 1 to 3 are missing" in found[0].message


@pytest.mark.parametrize("lose", LOST)
def test_a_segment_deleted_during_the_write_is_a_failed_write(tmp_path, monkeypatch, lose):
    audit = Audit(tmp_path)
    audit.flush()
    real, segment = os.fsync, audit.segment
    assert segment is not None

    def losing(fd: int) -> None:
        if segment.exists():
            lose(segment)
        real(fd)

    monkeypatch.setattr(os, "fsync", losing)
    assert not audit.append({"number": 0})
    monkeypatch.setattr(os, "fsync", real)
    assert audit.flush(5)
    assert audit.close()
    assert [record["number"] for record in callers(tmp_path)] == [0]


@posix_only
@pytest.mark.parametrize(
    "put", [Path.touch, lambda path: path.symlink_to(path.with_suffix(".old"))]
)
def test_a_lost_segment_is_left_for_the_first_whose_name_is_free(tmp_path, put):
    audit = Audit(tmp_path)
    assert audit.append({"number": 0})
    assert audit.segment is not None
    following = Path(str(audit.segment).replace("-000001", "-000002"))
    renamed(audit.segment)
    put(following)
    assert not audit.append({"number": 1})
    assert audit.flush(5)
    assert audit.append({"number": 2})
    assert audit.spooled == 0
    assert audit.segment == Path(str(following).replace("-000002", "-000003"))
    assert audit.close()
    assert not following.exists() or following.read_bytes() == b""


def test_a_closed_trail_refuses_without_raising(tmp_path, caplog):
    audit = Audit(tmp_path)
    assert audit.close()
    assert audit.close()
    assert not audit.append({})
    assert not audit.append({})
    assert audit.failed == 2
    assert [record.getMessage() for record in caplog.records] == [
        "audit record not stored: the trail is closed"
    ]


def test_required_and_executed_only_are_there_to_be_read(tmp_path):
    with Audit(tmp_path, required=True, executed_only=True) as audit:
        assert audit.required
        assert audit.executed_only


@posix_only
def test_a_second_opener_of_a_segment_gets_a_clear_error(tmp_path):
    with Audit(tmp_path, clock=lambda: 1) as audit:
        with pytest.raises(ConfigError, match=r"is locked: another writer.*\nhint: give each"):
            Audit(tmp_path, clock=lambda: 1)
        assert audit.append({"still": "works"})
        with pytest.raises(ConfigError, match=r"is locked: another writer"):
            Audit(audit.segment)
    assert verify(tmp_path) == []


def test_a_segment_is_never_opened_again(tmp_path):
    with Audit(tmp_path) as audit:
        segment = audit.segment
    assert segment is not None
    with pytest.raises(ConfigError, match=r"is a segment of an earlier run\nhint: "):
        Audit(segment)
    with pytest.raises(FileExistsError):
        Segment(segment)


@pytest.mark.parametrize(
    ("content", "schema"),
    [('{"schema":"otelhooks.audit/2"}\n', "otelhooks.audit/2"), ("[1]\n", "none"), ("", "none")],
)
def test_a_file_of_another_schema_is_left_alone(tmp_path, content, schema):
    path = tmp_path / "audit.jsonl"
    path.write_text(content)
    with pytest.raises(ConfigError, match=rf"another schema: `{schema}`.*\nhint: give another"):
        Audit(path)
    assert path.read_text() == content


def test_a_path_of_the_wrong_sort_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ConfigError, match=r"`.*file` is a file\nhint: give a folder"):
        Audit(tmp_path / "file")
    with pytest.raises(ConfigError, match=r"`.*folder.jsonl` is a folder\nhint: "):
        Audit(tmp_path / "folder.jsonl")
    with pytest.raises(ConfigError, match=r"cannot be written: (not a directory|file exists)"):
        Audit(tmp_path / "file" / "below")


@posix_only
def test_a_read_only_folder_is_an_error_when_it_was_given():
    # Not below tmp_path, whose parents no other user may enter: root drops its rights here.
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    was = os.geteuid()
    try:
        if was == 0:
            os.seteuid(65534)
        with pytest.raises(
            ConfigError, match=r"cannot be written: permission denied\nhint: make the folder writ"
        ):
            Audit(folder)
    finally:
        os.seteuid(was)
        folder.rmdir()


def test_a_read_only_default_folder_is_a_warning_and_records_wait(tmp_path, monkeypatch, caplog):
    import platformdirs

    monkeypatch.setattr(platformdirs, "user_data_path", lambda *_, **__: tmp_path)
    real = os.open

    def read_only(path, flags, *args):
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, flags, *args)

    monkeypatch.setattr(os, "open", read_only)
    audit = Audit()
    assert not audit.append({"number": 0})
    assert audit.spooled == 1
    wait_until(lambda: "read-only file system" in caplog.text)
    assert "hint: make the folder writable" in caplog.text
    monkeypatch.setattr(os, "open", real)
    assert audit.flush(5)
    assert audit.close()
    assert [record["number"] for record in callers(tmp_path / "audit")] == [0]


def test_a_full_disk_at_the_start_is_logged_but_not_an_error(tmp_path, disk, caplog):
    disk.full = (".jsonl",)
    audit = Audit(tmp_path)
    assert not audit.append({"number": 0})
    wait_until(lambda: "no space left on device" in caplog.text)
    disk.full = ()
    assert audit.flush(5)
    assert audit.close()
    assert verify(tmp_path) == []
