"""Stored spans and events as server-sent events, for programs and pages of others."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import AsyncIterator, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from otelhooks.store.reader import Position
from otelhooks.store.records import Event, Span
from otelhooks.store.schema import StoreError
from otelhooks.ui.site import Site

__all__ = ["stream"]

_PAUSE_S = 0.5
_SILENT_TURNS = 30
"""After so many pauses without a record, a comment says that the connection lives."""


async def stream(site: Site, request: Request) -> Response:
    """Send records as they are stored, from now on, or from the id that the client saw last."""
    seen = request.headers.get("last-event-id") or request.query_params.get("since", "")
    if seen and not re.fullmatch(r"\d{1,18}-\d{1,18}", seen):
        return PlainTextResponse("This is not an event id.\n", 400)
    position = Position(*map(int, seen.split("-"))) if seen else None
    return StreamingResponse(_messages(site, position), media_type="text/event-stream")


async def _messages(site: Site, position: Position | None) -> AsyncIterator[str]:
    """Yield messages at the client's pace; a slow one delays no program, because it reads a file.

    The last record of each reading has the id: a client that resumes there misses nothing, and may
    receive some records of an interrupted reading again.
    """
    yield ": otelhooks\n\n"
    silent, store = 0, site.store
    while not site.over.is_set():
        records: Sequence[Span | Event] = ()
        try:
            if position is None:
                position = await run_in_threadpool(store.end)
            records, position = await run_in_threadpool(store.after, position)
        except StoreError as error:
            if error.cause != "missing":
                raise
            position = Position()
        for number, record in enumerate(records, 1):
            kind = "span" if isinstance(record, Span) else "event"
            if number == len(records):
                yield f"id: {position.span}-{position.event}\n"
            data = json.dumps({"type": kind, **dataclasses.asdict(record)}, default=str)
            yield f"event: {kind}\ndata: {data}\n\n"
        silent = 0 if records else silent + 1
        if not records:
            if silent % _SILENT_TURNS == 0:
                yield ": still here\n\n"
            await asyncio.sleep(_PAUSE_S)
