"""A web application, by WSGI and by ASGI, whose tool is denied; its servers get a signal."""

import json
import os
import time
from pathlib import Path

import otelhooks
from otelhooks import policy

FOLDER = Path(os.environ["APPLICATION_FOLDER"])

otelhooks.instrument(
    policies=[policy.deny("drop_table", reason="no tables are dropped here")],
    audit=FOLDER / "audit",
    frameworks=[],
)


@otelhooks.tool
def drop_table(table: str) -> str:
    raise AssertionError("a denied tool ran")


def answer() -> bytes:
    time.sleep(0.02)  # so that the next request goes to another worker
    try:
        drop_table("users")
    except otelhooks.errors.Denied:
        return json.dumps(os.getpid()).encode()
    raise AssertionError("not denied")


def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [answer()]


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        (FOLDER / f"{os.getpid()}.shutdown").write_bytes(answer())  # after the signal has come
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": answer()})
