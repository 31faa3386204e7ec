"""Gates: the last checks of an operation, once nothing else holds it up.

Deciders, rules and people come first, so that a gate counts only what would run, and marks only
what is about to run. Before people are asked, and before any gate counts the operation, every gate
is asked whether it would let it pass: people are not asked about a call that a limit stops anyway,
and an operation that one gate refuses is not counted by another. A gate may ask people about a tool
call instead of refusing it; the question is put together with those of rules.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, ClassVar

from otelhooks import types
from otelhooks.hooks.base import Hook, Kind
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Run
from otelhooks.hooks.verdict import ALLOW, Ruling

__all__ = ["Gate"]


class Gate(Hook):
    """A hook that decides last, and remembers; its refusals are recorded like a rule's.

    Attributes:
        points: Its points: ``pre_turn``, ``pre_model_call`` or ``pre_tool_call``.
        id: Rule id of its refusals.
        policy_id: Its source: a file's stem, or ``code``.
        policy_version: Content hash of that source.
        label: Its name in messages.
        place: ``file:line:column``; empty for one made in code.
        reason: Replaces its own message, if not empty.
        severity: ``low``, ``medium``, ``high`` or ``critical``.
        can_deny: Whether it may hold anything up.
        can_ask: Whether it has people asked about a tool call that it does not let pass.
    """

    KIND: ClassVar[Kind] = "gate"

    points: tuple[str, ...] = ()
    id: str = ""
    policy_id: str = "code"
    policy_version: str = ""
    label: str = ""
    place: str = ""
    reason: str = ""
    severity: str | None = None
    can_deny: bool = True
    can_ask: bool = False

    @property
    def identity(self) -> str:
        """Its id: approvals are for this."""
        return self.id

    @property
    def handler(self) -> Callable[..., Any] | None:
        """None: a gate asks the approval channel."""
        return None

    @property
    def ask(self) -> Callable[..., Any] | None:
        """None: a gate asks the approval channel."""
        return None

    @property
    def detail(self) -> Callable[..., str] | None:
        """None: its reason says all."""
        return None

    def admit(
        self, point: str, subject: Any, context: HookContext | None, *, take: bool
    ) -> Generator[Run, Any, Ruling]:
        """Return whether an operation may pass. Decision code: a failure denies.

        Args:
            point: Point that asks.
            subject: The `Call` of a tool, the `ModelCall`, or the user's message.
            context: Context of the operation or turn; None if there is none.
            take: Whether the operation passes now, and is counted; else only whether it would.

        Returns:
            ``ask`` only at ``pre_tool_call``; at other points it denies.
        """
        msg = f"{type(self).__qualname__} does not say what may pass"
        raise NotImplementedError(msg)

    def count(self, subject: Any, context: HookContext | None) -> Generator[Run, Any, Ruling]:
        """Count a tool call that people let pass although `admit` asks; as the last step.

        Args:
            subject: The `Call`.
            context: Context of the call; None if there is none.
        """
        yield from ()
        return Ruling(ALLOW)

    def used(
        self, context: HookContext, models: tuple[str, ...], usage: types.Usage | None
    ) -> Generator[Run, Any, None]:
        """Take note of what a model call that passed has used.

        Args:
            context: Context of the call.
            models: Names of the model: as requested, and as in the answer.
            usage: None if the answer does not report it.
        """
        yield from ()
