"""The rule that replaces a safety assessor, which google-antigravity has but this process does not.

Loaded with `otelhooks.policy.auto`, because creating a dataclass takes a millisecond.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from otelhooks.policy.rules import (
    AskUserHandler,
    Decision,
    Origins,
    Policy,
    Predicate,
    WhenUser,
)

__all__ = ["AutoPolicy", "auto"]


@dataclasses.dataclass(frozen=True)
class AutoPolicy(Policy):
    """A rule for every tool that a safety assessor would have to clear.

    No assessor runs in this process, and a call that was not assessed is not allowed: the rule
    denies every call that no more specific rule allows, or asks, with a handler.

    Attributes:
        model: Model that google-antigravity's harness assesses with; not used here.
    """

    tool: str = dataclasses.field(default="*", init=False, repr=False)
    decision: Decision = dataclasses.field(default=Decision.DENY, init=False, repr=False)
    when: Predicate | None = dataclasses.field(default=None, init=False, repr=False)
    when_labels: Collection[str] | None = dataclasses.field(default=None, init=False, repr=False)
    when_annotations: Mapping[str, bool] | None = dataclasses.field(
        default=None, init=False, repr=False
    )
    unless_user_said: Collection[str] | None = dataclasses.field(
        default=None, init=False, repr=False
    )
    when_user: WhenUser | None = dataclasses.field(default=None, init=False, repr=False)
    when_argument_from: Origins | None = dataclasses.field(default=None, init=False, repr=False)
    reason: str = dataclasses.field(default="", init=False, repr=False)
    name: str = "auto"
    ask_user: AskUserHandler | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        asks = self.ask_user is not None
        object.__setattr__(self, "decision", Decision.ASK_USER if asks else Decision.DENY)
        super().__post_init__()

    @property
    def auto(self) -> bool:
        """Whether a safety assessor should decide: yes."""
        return True


def auto(
    *, name: str = "auto", handler: AskUserHandler | None = None, model: str | None = None
) -> AutoPolicy:
    """Refuse what no safety assessor has cleared, or ask for it; see `AutoPolicy`.

    Args:
        name: Name in messages.
        handler: As for `ask_user`.
        model: Kept for google-antigravity's harness.
    """
    return AutoPolicy(name=name, ask_user=handler, model=model)
