"""Recorders: listeners that are handed the whole record of each verdict about a tool call.

An event says what happened; a record is what can be answered for: the verdict with policy and rule,
the arguments, masked, and their hash. A recorder has it before the call goes on.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, Protocol

from otelhooks.hooks.base import OnEventHook
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.registry import HookSet

__all__ = ["Receipt", "Recorder", "recorders_of"]


class Receipt(Protocol):
    """What a recorder gives for a record."""

    def wait(self) -> bool:
        """Wait until it is known whether the record is kept; may block."""
        ...


class Recorder(OnEventHook):
    """A listener that keeps records of tool calls; `run` hears of what no runtime has recorded.

    Attributes:
        required: Whether a call may not go on without its record.
    """

    required: bool = False

    @property
    def spooled(self) -> int:
        """Records that are not where they belong yet."""
        return 0

    @abc.abstractmethod
    def wants(self, call: Call) -> bool:
        """Say whether a call is recorded."""

    def follow(self, context: HookContext) -> None:
        """Hear that all records of an operation will be handed over: its events say nothing new."""

    def wants_end(self, is_failed: bool) -> bool:
        """Say whether it is recorded how a call ended, too."""
        return is_failed

    def wants_verdicts(self) -> bool:
        """Say whether verdicts are recorded, before and after the tool."""
        return True

    @abc.abstractmethod
    def write(self, record: Mapping[str, Any], context: HookContext) -> Receipt:
        """Take a record, without waiting.

        Args:
            record: Of a verdict; with ``outcome`` (``ok``, ``failed``, or ``not_run`` where an
                allowed call could not be recorded) of how the call ended. Not kept.
            context: Of the operation, the same for all its records.
        """

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all records so far are where they belong.

        Args:
            timeout: Longest wait in seconds; None for no limit.

        Returns:
            Whether they are.
        """
        return True


def recorders_of(hooks: HookSet) -> tuple[Recorder, ...]:
    """Return the recorders among hooks."""
    listeners = (registration.hook for registration in hooks.at("event").inspectors)
    return tuple(hook for hook in listeners if isinstance(hook, Recorder))
