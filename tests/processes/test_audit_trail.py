"""The audit trail of processes that are killed, fork, spawn, or just exit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from otelhooks.audit import verify
from otelhooks.audit.segment import is_locked

# From Python 3.12 on, forking a process with threads is warned about; that is what is tested here.
PYTHON = (sys.executable, "-W", "ignore::DeprecationWarning")


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


def wait_until(is_true, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def run(code: str, *args: object, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PYTHON, "-c", code, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=25,
        **kwargs,
    )


@posix_only
def test_what_append_confirmed_survives_kill_9(tmp_path):
    code = """
import sys
from otelhooks.audit import Audit
audit = Audit(sys.argv[1])
number = 0
while audit.append({"number": number}):
    print(number, flush=True)
    number += 1
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= 50:
                break
        assert verify(tmp_path) == [], "a live writer is no finding"
        child.send_signal(signal.SIGKILL)
        confirmed = [*range(51), *(int(line) for line in child.stdout if line.endswith("\n"))]
    stored = [record["number"] for record in callers(tmp_path)]
    assert stored[: len(confirmed)] == confirmed
    findings = verify(tmp_path)
    assert {finding.severity for finding in findings} == {"warning"}
    assert "not closed" in {finding.kind for finding in findings}


@posix_only
def test_a_forked_child_begins_a_chain_of_its_own(tmp_path):
    code = """
import os, sys, threading
from otelhooks.audit import Audit
audit = Audit(sys.argv[1], group_wait_s=0.2)
assert audit.append({"who": "parent"})
inherited = audit.write({"who": "parent"})
pid = os.fork()
if pid == 0:
    assert inherited.wait(5) is False
    assert (audit.failed, audit.spooled, audit.written) == (0, 0, 0)
    assert (audit.segment, audit.chain, audit.head) == (None, "", "")
    assert audit.append({"who": "child"})
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert inherited.wait(5)
assert audit.append({"who": "parent"})
"""
    done = run(code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    files = sorted(tmp_path.iterdir())
    records = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    assert sorted([[r["who"] for r in segment if "who" in r] for segment in records], key=len) == [
        ["child"],
        ["parent"] * 3,
    ]
    parent, child = sorted(records, key=lambda segment: segment[0]["start"] == "fork")
    assert child[0]["parent"] == parent[0]["chain"]
    assert verify(tmp_path) == [], "both were closed at exit"


@posix_only
def test_a_child_that_writes_nothing_leaves_no_file_and_no_lock(tmp_path):
    code = """
import os, sys, time
from otelhooks.audit import Audit
audit = Audit(sys.argv[1])
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(60)
audit.close()
os._exit(0)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.wait(20)
        try:
            (segment,) = tmp_path.iterdir()
            assert not is_locked(segment)
        finally:
            os.kill(child, signal.SIGKILL)


@posix_only
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_children_close_their_chains(tmp_path, method):
    script = tmp_path / "script.py"
    script.write_text("""
import multiprocessing, sys
from otelhooks.audit import Audit

audit = None

def work(number):
    global audit
    if audit is None:
        audit = Audit(sys.argv[1])
    assert audit.append({"number": number})

if __name__ == "__main__":
    if sys.argv[2] == "fork":
        audit = Audit(sys.argv[1])
        assert audit.append({"number": -1})
    context = multiprocessing.get_context(sys.argv[2])
    children = [context.Process(target=work, args=(number,)) for number in range(3)]
    for child in children: child.start()
    for child in children: child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
""")
    folder = tmp_path / "trail"
    done = subprocess.run(
        [*PYTHON, str(script), str(folder), method],
        capture_output=True,
        text=True,
        timeout=25,
    )
    assert (done.returncode, done.stderr) == (0, "")
    expected = {0, 1, 2} | ({-1} if method == "fork" else set())
    assert {record["number"] for record in callers(folder)} == expected
    assert verify(folder) == []


def test_the_exit_of_the_interpreter_closes_the_trail(tmp_path):
    code = """
import sys
from otelhooks.audit import Audit
audit = Audit(sys.argv[1])
for number in range(2000):
    audit.write({"number": number})
"""
    assert run(code, tmp_path).returncode == 0
    assert len(callers(tmp_path)) == 2000
    assert verify(tmp_path) == []


def test_a_program_that_sets_up_no_logging_reads_what_is_lost(tmp_path):
    code = """
import sys
from otelhooks.audit import Audit
trail = Audit(sys.argv[1])
trail.close()
trail.append({"decision": "allow"})
"""
    said = "otelhooks: error: audit record not stored: the trail is closed\n"
    assert run(code, tmp_path / "trail").stderr == said
