"""Questions of the agent to the user, and the shortening of a conversation's history."""
# pyright: basic

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from otelhooks import types
from otelhooks.frameworks.google_antigravity.state import inside, state_of
from otelhooks.pipeline import runtime
from otelhooks.pipeline.compaction import compaction
from otelhooks.pipeline.drivers import adrive
from otelhooks.pipeline.interaction import InteractionSeat, interaction

__all__ = ["answer_question", "see_compaction"]


class _Question(InteractionSeat):
    """A question of the agent to the user."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def spec(self) -> Any:
        return types.AskQuestionInteractionSpec.model_validate(self._given.model_dump())

    def answered(self, answer: Any) -> Any:
        given = answer.model_dump() if hasattr(answer, "model_dump") else answer
        module = sys.modules["google.antigravity.types"]
        return module.QuestionHookResult.model_validate(given)

    def declined(self) -> Any:
        return None


async def answer_question(wrapped: Callable[..., Any], runner: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``HookRunner.dispatch_interaction``."""
    rt, state = runtime.active(), state_of(runner)
    if rt is None:
        return await wrapped(*args, **kwargs)
    given = kwargs["interaction_spec"] if "interaction_spec" in kwargs else args[1]
    asked: list[Any] = []

    async def ask(_: Any) -> Any:
        asked.append(await wrapped(*args, **kwargs))
        return asked[0]

    with inside(state.context_of("") if state is not None else None):
        found = await adrive(interaction(rt, _Question(given)), ask)
    if asked:
        return found
    hooks = sys.modules["google.antigravity.hooks.hooks"]
    turn_context = kwargs["turn_context"] if "turn_context" in kwargs else args[0]
    result = hooks.HookResult(allow=found is not None)
    return result, found, hooks.OperationContext(turn_context)


async def see_compaction(wrapped: Callable[..., Any], runner: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``HookRunner.dispatch_compaction``."""
    rt, state = runtime.active(), state_of(runner)
    if rt is None:
        return await wrapped(*args, **kwargs)
    step = kwargs["data"] if "data" in kwargs else args[1]
    with inside(state.context_of("") if state is not None else None):
        operation = compaction(rt, lambda _: step.content)
        return await adrive(operation, lambda _: wrapped(*args, **kwargs))
