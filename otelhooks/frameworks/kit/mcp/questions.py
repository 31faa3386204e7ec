# pyright: basic
"""A question to the user at a seat: hooks answer it, or else the application does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from otelhooks import types
from otelhooks.frameworks.kit.mcp.forms import Form
from otelhooks.frameworks.kit.passages import Passage
from otelhooks.pipeline.drivers import Operation
from otelhooks.pipeline.interaction import InteractionSeat, interaction
from otelhooks.pipeline.runtime import Runtime

__all__ = ["Question"]


class Question(Passage, InteractionSeat):
    """One question. A hook that fails, or whose answer does not fit, declines it."""

    must = ("read", "call", "spec", "answered", "declined")
    words = "spec answered declined"

    # -- what an adapter writes ---------------------------------------------------------------

    def call(self, wrapped: Callable[..., Any]) -> Any:
        """Ask the user in the framework's own way; called if no hook has answered."""
        raise NotImplementedError

    # -- what an adapter uses -----------------------------------------------------------------

    form_of = Form

    @staticmethod
    def spec_of(given: Mapping[str, Any]) -> types.AskQuestionInteractionSpec:
        """Return a question as hooks see it, from plain data."""
        return types.AskQuestionInteractionSpec.model_validate(given)

    # -- what the kit makes of it -------------------------------------------------------------

    def steps(self, rt: Runtime) -> Operation:
        return interaction(rt, self)

    def run(self, wrapped: Callable[..., Any], approved: Any) -> Any:
        return self.call(wrapped)
