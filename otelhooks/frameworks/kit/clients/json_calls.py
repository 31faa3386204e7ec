# pyright: basic
"""Model calls at a client's seat whose messages, answers and streams are read as JSON."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from itertools import chain
from types import SimpleNamespace
from typing import Any

from otelhooks.frameworks.kit.clients.calls import ClientCall
from otelhooks.frameworks.kit.passages import Passage

__all__ = ["Answer", "Event", "JsonCall", "Opened", "as_json", "plain", "streamed"]


class Answer:
    """An answer as JSON, and in the client's class if it came from there."""

    def __init__(self, data: Any, native: Any = None) -> None:
        self.data, self.native = data, native


class Opened(SimpleNamespace):
    """First item of a stream: what the client returned for it."""


class Event(dict[str, Any]):
    """An item of a stream that was made here."""


class JsonCall(ClientCall):
    """One request for a model's answer.

    Attributes:
        is_streamed: Whether its function is a generator, whose first item is an `Opened`.
    """

    words = "json_parts messages_in made_answer json_bare json_about is_streamed"
    must = (
        *("events", "joined", "json_parts", "made_answer", "json_bare", "json_about"),
        *("said", "with_calls", "with_result", "with_args", "shows"),
    )
    is_streamed = False
    _is_open = False

    # -- what an adapter writes: everything is JSON -------------------------------------------

    def json_parts(self, data: Any) -> Iterable[Any]:
        """Read the parts of a message."""
        raise NotImplementedError

    def messages_in(self, answer: Any) -> Iterable[Any]:
        """Return the messages in an answer; by default, an answer is one message."""
        return (answer,)

    def made_answer(self, parts: list[Any], of: Any) -> Any:
        """Return an answer of some parts; a copy of one except for them, if one is given."""
        raise NotImplementedError

    def json_bare(self, data: Any) -> Any:
        """Return what `bare` returns."""
        raise NotImplementedError

    def json_about(self, data: Any) -> tuple[Any, ...]:
        """Return what `about` returns."""
        raise NotImplementedError

    # -- what the kit makes of it -------------------------------------------------------------

    def delivered(self) -> None:
        """Do nothing more."""

    def parts(self, message: Any) -> Iterable[Any]:
        if type(message) is not Answer:
            return self.json_parts(message)
        try:
            return list(chain.from_iterable(map(self.json_parts, self.messages_in(message.data))))
        except Exception as error:
            self.unreadable(error)
            return []

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        return Answer(self.made_answer(parts, of.data if of is not None else None))

    def bare(self, answer: Any) -> Any:
        return Answer(self.json_bare(answer.data))

    def about(self, raw: Any) -> tuple[Any, ...]:
        try:
            return self.json_about(raw.data)
        except Exception as error:
            self.unreadable(error)
            return ()

    def event_of(self, item: Any) -> Any:
        return as_json(item)

    def release(self, item: Any) -> Iterable[Any]:
        if type(item) is not Opened:
            return super().release(item)
        was_open, self._is_open = self._is_open, True
        return () if was_open else (item,)  # the consumer of a repeated request has the first

    def as_answer(self, events: list[Any]) -> Answer:
        return Answer(self.joined(events))

    def told(self, result: Any) -> list[Any]:
        if result is self._told and not (self.must_retell and self._held):
            return self._held
        return list(map(Event, self.events(result.data, self._events[: self._shown])))


@functools.cache
def streamed(cls: Any) -> Any:
    """Return the class for the same requests with a stream as answer."""
    own = {"is_streamed": True, "deliver": Passage.deliver, "__module__": cls.__module__}
    return type(cls.__name__, (cls,), own)


def as_json(native: Any) -> Any:
    """Return what one of the client's objects is in JSON."""
    to_dict = getattr(native, "to_dict", None)
    return to_dict(mode="json", warnings=False) if to_dict is not None else native


def plain(value: Any) -> Any:
    """Return a message with all objects in it in JSON: loops send answers back, or their own."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    found = as_json(value)
    if found is value and (dump := getattr(value, "model_dump", None)) is not None:
        return dump(mode="json", exclude_none=True)
    return found
