"""A WSGI application under gunicorn: its tools are governed in every worker."""

import json
import os
import time

import otelhooks
from otelhooks import policy

handle = otelhooks.instrument(
    policies=[policy.deny("drop_table", reason="no tables are dropped here")],
    audit=os.environ["AUDIT_FOLDER"],
    frameworks=[],
)


@otelhooks.tool
def count_rows(table: str) -> int:
    return len(table)


@otelhooks.tool
def drop_table(table: str) -> str:
    return f"dropped {table}"


def call(path):
    if path == "/drop":
        time.sleep(0.02)  # so that the next request goes to another worker
        try:
            return drop_table("users")
        except otelhooks.errors.Denied as denied:
            return f"denied: {denied.reason}"
    return str(count_rows("users"))


def app(environ, start_response):
    answer = {"pid": os.getpid(), "answer": call(environ["PATH_INFO"])}
    handle.force_flush()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]
