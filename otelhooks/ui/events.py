"""What happens in every program that writes to the store, as server-sent `HookEvent`s."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from otelhooks.store.reader import Position
from otelhooks.store.records import Event, Span
from otelhooks.store.schema import StoreError
from otelhooks.ui.hook_events import hook_event
from otelhooks.ui.site import Site

__all__ = ["stream"]

_PAUSE_S = 0.5
_SILENT_TURNS = 30
"""After so many pauses without a record, a comment says that the connection lives."""


async def stream(site: Site, request: Request) -> Response:
    """Send events as they are stored, from now on, or from the id that the client saw last."""
    seen = request.headers.get("last-event-id") or request.query_params.get("since", "")
    if seen and not re.fullmatch(r"\d{1,18}-\d{1,18}", seen):
        return PlainTextResponse("This is not an event id.\n", 400)
    position = Position(*map(int, seen.split("-"))) if seen else None
    if position is not None:
        end = await run_in_threadpool(_end, site)
        if position.span > end.span or position.event > end.event:
            text = f"The store ends at {end.span}-{end.event}, before this id: it was replaced.\n"
            return PlainTextResponse(f"{text}Begin with 0-0, or without an id.\n", 410)
    return StreamingResponse(_messages(site, position), media_type="text/event-stream")


def _end(site: Site) -> Position:
    try:
        return site.store.end()
    except StoreError as error:
        if error.cause != "missing":
            raise
        return Position()


async def _messages(site: Site, position: Position | None) -> AsyncIterator[str]:
    """Yield messages at the client's pace; a slow one delays no program: it reads a file."""
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
        for record, at in _placed(records, position):
            if (event := hook_event(record)) is not None:
                data = event.model_dump_json()
                yield f"id: {at.span}-{at.event}\ndata: {data}\n\n"
        silent = 0 if records else silent + 1
        if not records:
            if silent % _SILENT_TURNS == 0:
                yield ": still here\n\n"
            await asyncio.sleep(_PAUSE_S)


def _placed(
    records: Sequence[Span | Event], end: Position
) -> Iterator[tuple[Span | Event, Position]]:
    """Yield each record of a reading, log records first, with the position after it."""
    first = next((record.id for record in records if isinstance(record, Span)), end.span + 1)
    at = Position(first - 1, end.event)
    for record in records:
        is_span = isinstance(record, Span)
        at = replace(at, **{"span" if is_span else "event": record.id})
        yield record, at
