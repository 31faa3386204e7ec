"""Gates: what an operation passes last, once nothing else holds it up.

Deciders, rules and people come first, so that a gate counts only what would run, and marks only
what is about to run. Before people are asked, and before any gate takes, every gate is asked
whether it would let the operation pass: nobody is bothered with a call that a limit stops anyway,
and what one gate refuses, another has not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, ClassVar

from otelhooks import types
from otelhooks.hooks.base import Hook, Kind
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Run
from otelhooks.hooks.verdict import Ruling

__all__ = ["Gate"]


class Gate(Hook):
    """A hook that has the last word, and remembers; its refusals are recorded like a rule's.

    Attributes:
        points: Where it stands: ``pre_turn``, ``pre_model_call`` or ``pre_tool_call``.
        id: Rule id of its refusals.
        policy_id: Source of it: a file's stem, or ``code``.
        policy_version: Content hash of that source.
        label: What messages call it.
        reason: What takes the place of its own message, or nothing.
        severity: ``low``, ``medium``, ``high`` or ``critical``.
        can_deny: Whether it may hold anything up.
    """

    KIND: ClassVar[Kind] = "gate"

    points: tuple[str, ...] = ()
    id: str = ""
    policy_id: str = "code"
    policy_version: str = ""
    label: str = ""
    reason: str = ""
    severity: str | None = None
    can_deny: bool = True

    @property
    def handler(self) -> Callable[..., Any] | None:
        """Nobody: a gate does not ask people."""
        return None

    @property
    def ask(self) -> Callable[..., Any] | None:
        """Nobody."""
        return None

    def admit(
        self, point: str, subject: Any, context: HookContext | None, *, take: bool
    ) -> Generator[Run, Any, Ruling]:
        """Say whether an operation may pass. Decision code: a failure denies.

        Args:
            point: Where it is asked.
            subject: The `Call` of a tool, the `ModelCall`, or the user's message.
            context: Context of the operation or turn; None where there is none.
            take: Whether the operation passes now, and is counted; else only whether it would.
        """
        msg = f"{type(self).__qualname__} does not say what may pass"
        raise NotImplementedError(msg)

    def used(
        self, context: HookContext, models: tuple[str, ...], usage: types.Usage | None
    ) -> Generator[Run, Any, None]:
        """Hear what a model call that passed has used.

        Args:
            context: The call's.
            models: Names of the model: as it was asked for, as the answer has it.
            usage: None where the answer does not say.
        """
        yield from ()
