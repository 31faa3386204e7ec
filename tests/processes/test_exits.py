"""Rules until the end of the process."""

from __future__ import annotations

import os
import subprocess
import sys

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
