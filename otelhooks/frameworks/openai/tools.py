# pyright: basic
"""What runs functions of the application's in the client itself: runners, sessions of agents."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.objects.functions import COROUTINE, PLAIN

__all__ = ["SEATS"]

_DECISIONS = "openai.lib.decisions_tool_runner"
_RUNNER = "openai.lib.responses_tool_runner"
_SESSION = "openai.lib.streaming.agents._dispatch"


class RunnerCall(kit.ToolCall):
    """A function that a tool runner for responses runs; the answer's seat has judged it already."""

    framework = "openai"

    def read(self, runner: Any, run: Any, item: Any) -> None:
        self._run, self._item = run, item
        self.name, self.id = item.name, item.call_id
        self.take_all(run.arguments[item.call_id])

    def call(self, wrapped: Any, args: Any) -> Any:
        self._run.arguments[self._item.call_id] = args
        return wrapped(self._run, self._item)

    def denied(self, reason: str) -> Any:
        return {"type": "function_call_output", "call_id": self.id, "output": reason}

    def value(self, raw: Any) -> Any:
        return raw["output"]

    def with_value(self, raw: Any, value: Any) -> Any:
        return {**raw, "output": self.text_of(value)}

    def recovered(self, value: Any) -> Any:
        return self.denied(self.text_of(value))


class HandlerCall(kit.ToolCall):
    """A handler of a session, whose model and loop are at the provider."""

    framework = "openai"

    def read(self, asked: Any, arguments: Any) -> None:
        self.name, self.id = asked.name, asked.call_id
        self.take(arguments)

    def call(self, wrapped: Any, args: Any) -> Any:
        return wrapped(args)

    def denied(self, reason: str) -> Any:
        return reason

    def with_value(self, raw: Any, value: Any) -> Any:
        return self.text_of(value)


class _Made(NamedTuple):
    """What a plain function returned: maybe a coroutine, which the runner awaits."""

    value: Any


class CandidateCall(kit.ToolCall):
    """An action that a runner of decisions does, because a model chose its id."""

    framework = "openai"

    def read(self, id: str, /, **given: Any) -> None:
        self.name, self._given = id, given
        self.take({})

    def call(self, wrapped: Any, args: Any) -> Any:
        found = wrapped(**self._given)
        return found if self.is_async else _Made(found)

    def value(self, raw: Any) -> Any:
        return raw.value if isinstance(raw, _Made) else raw

    def denied(self, reason: str) -> Any:
        raise self.exception(reason)  # nothing tells a model of it: the run ends


def guard_candidates(wrapped: Any, run: Any, values: Any) -> Any:
    """Return the actions of one step, guarded."""
    return [_guarded(each) if each.execute is not None else each for each in wrapped(values)]


def _guarded(candidate: Any) -> Any:
    kind = COROUTINE if inspect.iscoroutinefunction(candidate.execute) else PLAIN

    @functools.wraps(candidate.execute)  # the runner looks at its signature
    def execute(**given: Any) -> Any:
        found = CandidateCall.through(kind, candidate.execute, candidate.id, **given)
        return found.value if isinstance(found, _Made) else found

    return dataclasses.replace(candidate, execute=execute)


def guard_handler(wrapped: Any, dispatcher: Any, pending: Any) -> Any:
    """Dispatch a call of a session to its handler, guarded."""
    session, asked, handler = pending
    kind, run = PLAIN, handler
    if inspect.iscoroutinefunction(wrapped):
        kind, run = COROUTINE, functools.partial(_awaited, handler)
    guarded = functools.partial(HandlerCall.through, kind, run, asked)
    return wrapped((session, asked, guarded))


async def _awaited(handler: Callable[[Any], Any], arguments: Any) -> Any:
    output = handler(arguments)
    return await output if inspect.isawaitable(output) else output


SEATS = (
    kit.seat(
        f"{_RUNNER}:(|Async)ResponsesToolRunner._execute_function", RunnerCall, required=False
    ),
    kit.listen(f"{_DECISIONS}:_Run.candidates", guard_candidates, required=False),
    kit.listen(f"{_SESSION}:(|Async)ToolDispatcher.dispatch", guard_handler, required=False),
)
