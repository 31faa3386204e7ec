# pyright: basic, reportMissingImports=false
"""A chat model's events: the third version of langchain's streams, which user code pulls itself.

What is streamed here reaches its consumer by `stream.dispatch` and the callback manager, not by the
generator's items; what is held back, and what a hook says instead, is dispatched once decided.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any

from otelhooks.frameworks.langchain import models
from otelhooks.pipeline.model_call import model
from otelhooks.pipeline.model_seat import ModelRequest
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.streams import astream, stream

__all__ = ["aevents", "events"]


class _EventSeat(models.StreamSeat):
    """A model call whose raw answer is the message that its events made up."""

    def _message(self, raw: Any) -> Any:
        return raw


_SEAT = _EventSeat()


class _Own:
    """An event of ours, which nobody has dispatched yet."""

    __slots__ = ("event",)

    def __init__(self, event: Any) -> None:
        self.event = event


class _Call:
    """One call: what is handed to the framework's generator, and what came out of it."""

    def __init__(
        self, chat_model: Any, wrapped: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        self._wrapped = wrapped
        self._args = args
        self._kwargs = kwargs
        self._target = self._filled = kwargs["stream"]
        self.manager = kwargs["run_manager"]
        metadata = getattr(self.manager, "metadata", None)
        self.request: ModelRequest = models.read(chat_model, args[0], kwargs, metadata, stream=True)

    def inner(self, approved: ModelRequest) -> Any:
        further = dict(self._kwargs)
        if approved.holds_back:
            kind: Any = type(self._target)
            self._filled = further["stream"] = kind(message_id=self._target.message_id)
        return models.call(self._wrapped, approved, self._args, further)

    def final(self, _seen: list[Any]) -> Any:
        return self._filled.output_message

    def chunks(self, message: Any) -> list[Any]:
        from langchain_core.language_models._compat_bridge import message_to_events

        found = message_to_events(message, message_id=self._target.message_id)
        return [_Own(event) for event in found]

    def settle(self, item: Any) -> tuple[Any, bool]:
        """Return the event in an item, and whether it was dispatched here."""
        if not self.request.holds_back and type(item) is not _Own:
            return item, False
        event = item.event if type(item) is _Own else item
        self._target.dispatch(event)
        return event, True


def _is_last(event: Any) -> bool:
    """Say whether a message ends: its consumer may ask for nothing more, so the call ends here."""
    return event.get("event") == "message-finish"


def events(
    rt: Runtime, chat_model: Any, wrapped: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
) -> Generator[Any, None, None]:
    """Run a model call whose events are pulled."""
    call = _Call(chat_model, wrapped, args, kwargs)
    items = stream(
        model(rt, _SEAT, call.request),
        call.inner,
        final=call.final,
        chunks=call.chunks,
        holds_back=lambda: call.request.holds_back,
    )
    try:
        for item in items:
            event, is_told = call.settle(item)
            if is_told:
                call.manager.on_stream_event(event)
            if _is_last(event):
                list(items)
            yield event
    finally:
        items.close()


async def aevents(
    rt: Runtime, chat_model: Any, wrapped: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
) -> AsyncGenerator[Any, None]:
    """Do what `events` does, for an asynchronous generator."""
    call = _Call(chat_model, wrapped, args, kwargs)
    items = astream(
        model(rt, _SEAT, call.request),
        call.inner,
        final=call.final,
        chunks=call.chunks,
        holds_back=lambda: call.request.holds_back,
    )
    try:
        async for item in items:
            event, is_told = call.settle(item)
            if is_told:
                await call.manager.on_stream_event(event)
            if _is_last(event):
                [_ async for _ in items]
            yield event
    finally:
        await items.aclose()
