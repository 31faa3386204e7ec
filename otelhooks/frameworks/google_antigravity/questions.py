"""Questions of the agent to the user, and the shortening of a conversation's history."""
# pyright: basic

from __future__ import annotations

from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.google_antigravity.harness import Harness
from otelhooks.frameworks.kit.compaction import Compaction
from otelhooks.frameworks.kit.mcp.questions import Question

__all__ = ["Asked", "Compacted"]

_HOOKS = "google.antigravity.hooks.hooks"


def _context_of(runner: Any) -> Any:
    """Return the context of the turn of a runner of hooks; None if there is none."""
    harness = Harness.of(runner)
    return harness.context_of() if harness is not None else None


class Asked(Question):
    """A question of the agent to the user."""

    def read(self, runner: Any, turn_context: Any, interaction_spec: Any) -> None:
        """Read ``HookRunner.dispatch_interaction``."""
        self.runs_in(_context_of(runner))
        self.within, self.given = turn_context, interaction_spec

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.within, self.given)

    def spec(self) -> Any:
        return self.spec_of(self.given.model_dump())

    def answered(self, answer: Any) -> Any:
        given = answer.model_dump() if hasattr(answer, "model_dump") else answer
        found = kit.native("google.antigravity.types:QuestionHookResult").model_validate(given)
        operation = kit.native(f"{_HOOKS}:OperationContext")(self.within)
        return kit.native(f"{_HOOKS}:HookResult")(allow=True), found, operation

    def declined(self) -> Any:
        """Return None: the application may still answer."""
        return None


class Compacted(Compaction):
    """The shortened history."""

    def read(self, runner: Any, turn_context: Any, data: Any) -> None:
        """Read ``HookRunner.dispatch_compaction``."""
        super().read(runner, turn_context, data)
        self.runs_in(_context_of(runner))
        self.step = data

    def summary(self, raw: Any) -> str:
        return self.step.content
