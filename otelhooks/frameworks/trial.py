"""What a proof tries in every framework: a denied and an allowed tool, and their outcome."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["REASON", "STEPS", "NextStep", "Step", "Trial"]

REASON = "Denied to prove it."

Step = str | Sequence[tuple[str, dict[str, Any]]]
"""A scripted model's answer: a final text, or tool calls: names and arguments."""

NextStep = Callable[[str], Step]
"""Takes everything that a scripted model is shown, as one text; returns its answer."""

STEPS: tuple[Step, ...] = ((("danger", {"path": "/"}),), (("safe", {"x": 1}),), "done")


class Trial:
    """A denied and an allowed tool, and a script that asks for one, then the other.

    Args:
        steps: Answers of the scripted model, in order.
        reason: Text that must replace the denied tool's result.

    Attributes:
        ran: Tools whose bodies ran.
        shown: What the model, or the caller of a tool, was shown.
    """

    def __init__(self, steps: Sequence[Step] = STEPS, reason: str = REASON) -> None:
        self.ran: list[str] = []
        self.shown = ""
        self._steps = copy.deepcopy(list(steps))  # frameworks may write into the arguments
        self._reason = reason

    def next_step(self, shown: str) -> Step:
        """Return the model's answer to what it is shown."""
        self.shown += shown
        return self._steps.pop(0)

    def danger(self, path: str) -> str:
        """Do what is denied."""
        self.ran.append("danger")
        return path

    def safe(self, x: int) -> str:
        """Do what is allowed."""
        self.ran.append("safe")
        return str(x)

    @property
    def is_told(self) -> bool:
        """Whether the reason was read."""
        return self._reason in self.shown

    def outcome(self, *, went_on: bool) -> tuple[bool, str]:
        """Return whether the deny held, and what was seen.

        Args:
            went_on: Whether the run ended normally after the deny.
        """
        held = self.ran == ["safe"] and self.is_told and went_on
        return held, f"bodies that ran: {self.ran}; the model saw the reason: {self.is_told}"
