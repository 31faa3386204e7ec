"""Signals that end a process: what is queued is handed over, then they do what they did before."""

import collections
import contextlib
import faulthandler
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import otelhooks
from otelhooks.audit import check
from otelhooks.errors import ConfigError
from otelhooks.process import signals
from otelhooks.store.reader import Store
from otelhooks.store.tree import render
from tests.children import assert_all_told, work_of

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of POSIX")

DEFAULTS = """
import signal
for name in ("SIGTERM", "SIGHUP", "SIGQUIT"):  # a shell may have had some of them ignored
    signal.signal(getattr(signal, name), signal.SIG_DFL)
"""

WORKING = """
import json, sys, threading
from governed_work import work
print(json.dumps(work(0)), flush=True)
threading.Event().wait()
"""


@contextlib.contextmanager
def _start(program, folder, *before, **variables):
    environment = {**os.environ, "PYTHONPATH": str(HERE), "WORK_FOLDER": str(folder)}
    environment |= {"OTELHOOKS_ANNOUNCE": "false", **variables}
    with subprocess.Popen(
        [*before, sys.executable, "-W", "ignore", "-c", DEFAULTS + program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", signals.SIGNALS)
def test_nothing_is_lost_when_a_signal_ends_a_program(number, tmp_path):
    with _start(WORKING, tmp_path) as program:
        answer = json.loads(program.stdout.readline())
        program.send_signal(number)
        _, errors = program.communicate(timeout=30)
    assert (program.returncode, errors) == (-number, "")
    assert_all_told(tmp_path, work_of([answer]))


def test_a_second_signal_does_not_cut_short_what_the_first_began(tmp_path):
    # A service manager signals every process of a service, and their parent signals them again.
    with _start(WORKING, tmp_path) as program:
        answer = json.loads(program.stdout.readline())
        program.send_signal(signal.SIGTERM)
        while program.poll() is None and not list(tmp_path.glob("*.noted")):
            program.send_signal(signal.SIGTERM)
        program.communicate(timeout=30)
    assert program.returncode == -signal.SIGTERM
    assert_all_told(tmp_path, work_of([answer]))


HOLDING_A_LOCK = """
import json, signal, threading
from governed_work import work
from otelhooks.pipeline import runtime
print(json.dumps(work(0)), flush=True)
audit = runtime.active().audit
with audit._lock:
    signal.raise_signal(signal.SIGTERM)
threading.Event().wait()
"""


def test_a_signal_that_comes_while_the_main_thread_holds_a_lock_of_ours_loses_nothing(tmp_path):
    with _start(HOLDING_A_LOCK, tmp_path, OTELHOOKS_EXIT_TIMEOUT="4") as program:
        answer = json.loads(program.stdout.readline())
        program.wait(30)
    assert program.returncode == -signal.SIGTERM
    assert_all_told(tmp_path, work_of([answer]))


BUSY = """
import os, sys, threading
import otelhooks
from otelhooks import policy

otelhooks.instrument(
    policies=[policy.deny("drop_table")], audit=os.environ["WORK_FOLDER"] + "/audit", frameworks=[]
)

@otelhooks.tool
def count_rows():
    os.write(1, b"allow ")

@otelhooks.tool
def drop_table():
    pass

def loop():
    while True:
        count_rows()
        try:
            drop_table()
        except otelhooks.errors.Denied:
            os.write(1, b"deny ")

for _ in range(4):
    threading.Thread(target=loop, daemon=True).start()
loop()
"""


ASKING = """
import os, time
import otelhooks
from otelhooks import policy

def person(call):
    os.write(1, b"asked")
    time.sleep(60)
    return True

otelhooks.instrument(
    policies=[policy.ask_user("drop_table", handler=person)],
    audit=os.environ["WORK_FOLDER"] + "/audit",
    frameworks=[],
)

@otelhooks.tool
def drop_table():
    os.write(1, b"ran")

drop_table()
"""


def test_a_question_that_is_open_when_a_signal_ends_the_process_is_recorded_as_withdrawn(tmp_path):
    with _start(ASKING, tmp_path, OTELHOOKS_STORE=str(tmp_path / "store.db")) as program:
        assert os.read(program.stdout.fileno(), 64) == b"asked"
        time.sleep(0.2)
        program.send_signal(signal.SIGTERM)
        output, _ = program.communicate(timeout=30)
    assert (program.returncode, output) == (-signal.SIGTERM, "")
    [file] = (tmp_path / "audit").glob("*.jsonl")
    _, record, closing = map(json.loads, file.read_text().splitlines())
    assert record["decision"] == "ask"
    assert record["approval_status"] == "withdrawn"
    assert record["enforcement"] == "rejected", "the call did not run"
    assert record["approval_wait_s"] >= 0.2
    [summary] = Store(tmp_path / "store.db").traces()
    found = Store(tmp_path / "store.db").trace(summary.trace_id)
    spans = {span.span_id: span.name for span in found.spans}
    assert record["trace_id"] == summary.trace_id
    assert spans[record["span_id"]] == "otelhooks.approval.wait drop_table"
    assert render(found.spans, found.events).plain.count("withdrawn") == 2, "in the header and once"
    assert closing["audit"] == "closed"


def test_no_call_goes_on_unrecorded_while_a_signal_ends_the_process(tmp_path):
    with _start(BUSY, tmp_path, OTELHOOKS_STORE=str(tmp_path / "store.db")) as program:
        begun = os.read(program.stdout.fileno(), 64).decode()
        program.send_signal(signal.SIGTERM)
        output, _ = program.communicate(timeout=30)
    told = collections.Counter((begun + output).split())
    files = (tmp_path / "audit").glob("*.jsonl")
    records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    recorded = collections.Counter(record.get("decision") for record in records)
    assert told["allow"] <= recorded["allow"]
    assert told["deny"] <= recorded["deny"]
    assert check(tmp_path / "audit").findings == []
    assert program.returncode == -signal.SIGTERM


STARTING = """
import os, signal
from otelhooks.telemetry import providers
import otelhooks

resolve = providers.resolve

def signalled(config):  # the trail is open by now
    os.kill(os.getpid(), signal.SIGTERM)
    return resolve(config)

providers.resolve = signalled
otelhooks.instrument(audit=os.environ["WORK_FOLDER"] + "/audit", frameworks=[])
signal.pause()
"""


def test_a_signal_during_the_start_leaves_a_trail_that_verifies(tmp_path):
    with _start(STARTING, tmp_path, OTELHOOKS_STORE=str(tmp_path / "store.db")) as program:
        program.wait(30)
    assert program.returncode == -signal.SIGTERM
    assert list((tmp_path / "audit").glob("*.jsonl"))
    assert check(tmp_path / "audit").findings == []


HUNG = """
import threading
import otelhooks
from otelhooks import hooks

class Hung(hooks.OnSessionEndHook):
    async def run(self, context, data=None):
        threading.Event().wait()

otelhooks.instrument(hooks=[Hung()], frameworks=[])
with otelhooks.session("a"):
    print("begun", flush=True)
    threading.Event().wait()
"""


def test_what_hangs_at_the_end_holds_the_signal_up_for_the_time_that_is_set(tmp_path):
    with _start(HUNG, tmp_path, OTELHOOKS_EXIT_TIMEOUT="0.2") as program:
        assert program.stdout.readline() == "begun\n"
        program.send_signal(signal.SIGTERM)
        _, errors = program.communicate(timeout=30)
    assert program.returncode == -signal.SIGTERM
    assert "not all telemetry was handed over" in errors


FIRST = """
import json, signal
from governed_work import work
signal.raise_signal(signal.SIGTERM)
answers = [work(0)]
signal.raise_signal(signal.SIGTERM)
answers.append(work(0))
for answer in answers:
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode != 0,
    reason="needs the right to make a process namespace",
)
def test_the_first_process_of_a_container_goes_on_and_its_trail_with_it(tmp_path):
    with _start(FIRST, tmp_path, "unshare", "--pid", "--fork") as program:
        output, errors = program.communicate(timeout=30)
    assert (program.returncode, errors) == (0, "")
    answers = [json.loads(line) for line in output.splitlines()]
    assert [answer["pid"] for answer in answers] == [1, 1]
    assert_all_told(tmp_path, work_of(answers))


CHILD = """
import json, os, signal, threading
from governed_work import work
child = os.fork()
if not child:
    print(json.dumps(work(0)), flush=True)
    threading.Event().wait()
input()
os.kill(child, signal.SIGTERM)
_, status = os.waitpid(child, 0)
print(os.WTERMSIG(status), flush=True)
"""


def test_nothing_is_lost_when_a_signal_ends_a_forked_child(tmp_path):
    with _start(CHILD, tmp_path) as program:
        answer = json.loads(program.stdout.readline())
        output, errors = program.communicate("go on\n", timeout=30)
    assert (program.returncode, output, errors) == (0, f"{signal.SIGTERM.value}\n", "")
    assert_all_told(tmp_path, work_of([answer]))


@pytest.fixture
def before(monkeypatch):
    """Restore the handlers of the test runner."""
    handlers = {number: signal.getsignal(number) for number in signals.SIGNALS}
    for number in handlers:
        signal.signal(number, signal.SIG_DFL)
    functions = (signal.signal, signal.getsignal)
    yield functions
    otelhooks.uninstrument()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_a_program_does_not_see_our_handler(before):
    otelhooks.instrument(frameworks=[])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.signal(signal.SIGTERM, signal.SIG_IGN) is signal.SIG_DFL
    assert signal.signal(signal.SIGTERM, signal.SIG_DFL) is signal.SIG_IGN


def test_ours_is_there_whenever_the_default_is_put_back(before):
    _, get = before
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    otelhooks.instrument(frameworks=[])
    assert get(signal.SIGTERM) is signal.SIG_IGN
    for number in signals.SIGNALS:
        signal.signal(number, 0)
        assert callable(get(number))
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert get(signal.SIGUSR1) is signal.SIG_DFL


def test_uninstrument_puts_functions_and_handlers_back(before):
    otelhooks.instrument(frameworks=[])
    own = signal.signal
    otelhooks.uninstrument()
    assert (signal.signal, signal.getsignal) == before
    assert [signal.getsignal(number) for number in signals.SIGNALS] == [signal.SIG_DFL] * 3
    assert own(signal.SIGTERM, signal.SIG_DFL) is signal.SIG_DFL  # for those who kept it


def test_a_function_that_others_put_on_top_stays(before, monkeypatch):
    otelhooks.instrument(frameworks=[])
    ours = signal.signal
    monkeypatch.setattr(signal, "signal", lambda *arguments: ours(*arguments))
    theirs = signal.signal
    otelhooks.uninstrument()
    assert signal.signal is theirs
    assert signal.signal(signal.SIGTERM, signal.SIG_DFL) is signal.SIG_DFL


def test_handlers_of_the_program_stay(before):
    _, get = before

    def mine(*_):
        pass

    signal.signal(signal.SIGTERM, mine)
    otelhooks.instrument(frameworks=[])
    assert get(signal.SIGTERM) is mine


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="told by Linux only")
def test_a_handler_that_is_set_below_python_stays(before):
    _, get = before
    faulthandler.register(signal.SIGQUIT)
    try:
        otelhooks.instrument(frameworks=[])
        assert get(signal.SIGQUIT) is signal.SIG_DFL
        assert callable(get(signal.SIGTERM))
    finally:
        faulthandler.unregister(signal.SIGQUIT)


def test_no_time_leaves_signals_alone(before):
    otelhooks.instrument(frameworks=[], exit_timeout=0)
    assert (signal.signal, signal.getsignal) == before


def test_another_thread_cannot_set_handlers_and_says_so(before, caplog):
    _, get = before
    with caplog.at_level("INFO", "otelhooks"):
        thread = threading.Thread(target=otelhooks.instrument, kwargs={"frameworks": []})
        thread.start()
        thread.join()
    assert "was not called in the main thread" in caplog.text
    assert get(signal.SIGTERM) is signal.SIG_DFL
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert callable(get(signal.SIGTERM))


def test_a_signal_while_the_interpreter_ends_leaves_the_rest_to_its_exit_functions(
    before, monkeypatch
):
    _, get = before
    otelhooks.instrument(frameworks=[])
    handler = get(signal.SIGTERM)

    def fail(self):
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", fail)
    handler(signal.SIGTERM, None)
    assert get(signal.SIGTERM) is signal.SIG_DFL  # the next one ends it


@pytest.mark.parametrize("value", [-1, "soon", float("nan"), float("inf"), True, None])
def test_a_time_that_is_not_a_time_is_an_error(value):
    with pytest.raises(ConfigError, match="exit_timeout cannot be"):
        otelhooks.instrument(exit_timeout=value)
