"""What the SDK gets in the place of a model: its own behind a stand-in, or one canned answer.

The SDK asks one function for the model of each turn; what it gets is a stand-in whose two ways to
call are the seat, so that models made before `instrument()`, subclasses and retries are covered.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import contextvars
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any

import wrapt

from otelhooks.frameworks.openai_agents.answers import (
    events_of,
    last_response,
    message,
    response_of,
)
from otelhooks.frameworks.openai_agents.models import SEAT, AgentsRequest
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import adrive
from otelhooks.pipeline.model_call import model
from otelhooks.pipeline.streams import astream

__all__ = ["canned", "choose_model"]

_canned: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "otelhooks_openai_agents_answer", default=None
)


@contextlib.contextmanager
def canned(text: str) -> Generator[None, None, None]:
    """Have the runs in a block answer with a text: no model is called, all else is the SDK's."""
    token = _canned.set(text)
    try:
        yield
    finally:
        _canned.reset(token)


class GuardedModel(wrapt.ObjectProxy):
    """Stands in for a model during one turn of an agent.

    Args:
        chosen: The model.
        agent: Name of the agent that calls it.
    """

    def __init__(self, chosen: Any, agent: str) -> None:
        super().__init__(chosen)
        self._self_agent = agent

    def get_response(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Call the model through the pipeline."""
        rt, chosen = runtime.active(), self.__wrapped__
        if rt is None:
            return chosen.get_response(*args, **kwargs)
        request = AgentsRequest(chosen, self._self_agent, args, kwargs, stream=False)
        operation = model(rt, SEAT, request)
        return adrive(operation, lambda approved: approved.call(chosen.get_response))

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Call the model through the pipeline, for its events."""
        rt, chosen = runtime.active(), self.__wrapped__
        if rt is None:
            return chosen.stream_response(*args, **kwargs)
        request = AgentsRequest(chosen, self._self_agent, args, kwargs, stream=True)
        return astream(
            model(rt, SEAT, request),
            lambda approved: approved.call(chosen.stream_response),
            final=last_response,
            chunks=events_of,
            holds_back=lambda: request.holds_back,
            on_first=request.note_first_chunk,
        )


_stand_ins: weakref.WeakValueDictionary[tuple[int, str], GuardedModel]
_stand_ins = weakref.WeakValueDictionary()


def guarded(chosen: Any, agent: str) -> GuardedModel:
    """Return the stand-in for a model; the same one while anybody holds it.

    The SDK keeps the models of a run by identity, to tell each of them once when the run has ended.
    """
    key = (id(chosen), agent)
    found = _stand_ins.get(key)
    if found is None or found.__wrapped__ is not chosen:
        found = _stand_ins[key] = GuardedModel(chosen, agent)
    return found


class CannedModel:
    """Answers every call with one text."""

    model = ""

    def __init__(self, text: str) -> None:
        self._answer = response_of([message(text)])

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        """Return the answer."""
        return self._answer

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Tell the answer."""
        for event in events_of(self._answer):
            yield event

    def get_retry_advice(self, request: Any) -> None:
        """Have nothing to say about trying again."""

    async def close(self) -> None:
        """Have nothing to close."""

    async def _cleanup_on_run_end(self, owner: object) -> None:
        """Have nothing to clean up."""


def choose_model(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of the function that gives the model of a turn."""
    if runtime.active() is None:
        return wrapped(*args, **kwargs)
    text = _canned.get()
    if text is not None:
        return CannedModel(text)
    agent = args[0] if args else kwargs["agent"]
    return guarded(wrapped(*args, **kwargs), agent.name)
