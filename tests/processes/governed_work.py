"""Work for the children of a program: two governed tools, and all that records them."""

import os
import time
import uuid
from pathlib import Path

import otelhooks
from otelhooks import hooks, policy

FOLDER = Path(os.environ["WORK_FOLDER"])


@hooks.post_tool_call(background=True)
def note(data):
    time.sleep(0.3)  # the work is over by then
    (FOLDER / f"{os.getpid()}-{uuid.uuid4()}.noted").touch()


otelhooks.instrument(
    policies=[policy.deny("drop_table", reason="no tables are dropped here")],
    hooks=[note],
    audit=FOLDER / "audit",
    store=FOLDER / "store.db",
    frameworks=[],
)


@otelhooks.tool
def count_rows(table: str) -> int:
    return len(table)


@otelhooks.tool
def drop_table(table: str) -> str:
    (FOLDER / "dropped").touch()
    return f"dropped {table}"


def work(seconds):
    (FOLDER / f"{os.getpid()}.begun").touch()
    time.sleep(seconds)
    try:
        answer = drop_table("users")
    except otelhooks.errors.Denied as denied:
        answer = f"denied: {denied.reason}"
    return {"pid": os.getpid(), "rows": count_rows("users"), "answer": answer}
