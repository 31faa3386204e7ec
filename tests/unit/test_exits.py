"""What is registered for the end of a process, and rules until that end."""

import errno
import logging
import os
import subprocess
import sys

import pytest

from otelhooks.process import exits


@pytest.fixture
def called(monkeypatch):
    monkeypatch.setattr(exits, "_functions", {})
    return []


def test_the_last_registered_is_called_first_and_each_once(called):
    functions = [lambda number=number: called.append(number) for number in range(3)]
    for function in [*functions, functions[0]]:
        exits.register(function)
    exits.unregister(functions[1])
    exits.end()
    exits.end()
    for function in functions:
        exits.unregister(function)
    assert called == [0, 2]


def test_one_that_fails_does_not_stop_the_others(called, caplog):
    def fail():
        raise OSError(errno.ENOSPC, "not told: /secret")

    functions = [lambda: called.append("first"), fail]
    for function in functions:
        exits.register(function)
    with caplog.at_level(logging.ERROR, "otelhooks"):
        exits.end()
    for function in functions:
        exits.unregister(function)
    assert called == ["first"]
    assert "no space left" in caplog.text
    assert "secret" not in caplog.text


AT_EXIT = """
import atexit, threading, time
import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.hooks.calls import Call
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import drive
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat

@otelhooks.tool
def danger(by):
    print("ran", by, flush=True)

def try_it(by):
    try:
        danger(by)
    except otelhooks.errors.Denied:
        return
    print("not denied", by, flush=True)

class Seat(ToolSeat):
    framework = "test"

def search():
    # a tool of a conversation, as a framework calls it that has many of them
    operation = tool(runtime.active(), Seat(), Call("search", {}), "conversation")
    try:
        drive(operation, lambda args: print("searched", flush=True))
    except otelhooks.errors.Denied:
        pass

def last():
    search()
    time.sleep(0.3)  # the thread goes on meanwhile
    try_it("exit function")
    print("ended", flush=True)
    done.set()
    thread.join()
    otelhooks.uninstrument()  # ends what is ended already
    print("off", flush=True)

def go_on():
    while not done.is_set():
        try_it("thread")
        time.sleep(0.001)

atexit.register(last)  # before otelhooks registers its own, so called after it
@hooks.pre_tool_call_decide
def once(context, data):
    conversation = runtime.active().sessions.get("conversation").context
    before = conversation.get(data.name)
    conversation.set(data.name, True)
    return types.HookResult(allow=not before)

otelhooks.instrument(policies=[policy.deny("danger")], hooks=[once], frameworks=())
search()
done, thread = threading.Event(), threading.Thread(target=go_on, daemon=True)
thread.start()
"""


def test_rules_hold_to_the_very_end_of_the_process(tmp_path):
    environment = {**os.environ, "OTELHOOKS_STORE": str(tmp_path / "store.db")}
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("searched\nended\noff\n", 0), done.stderr
