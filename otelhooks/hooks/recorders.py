"""Recorders: listeners that get the whole record of each verdict about a tool call.

An event says what happened; a record is evidence: the verdict with policy and rule, the masked
arguments, and their hash. A recorder gets it before the call continues.
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
    """What a recorder returns for a record."""

    def wait(self) -> bool:
        """Wait until it is known whether the record is kept; may block."""
        ...


class Recorder(OnEventHook):
    """A listener that keeps records of tool calls; `run` gets events that no runtime has recorded.

    Attributes:
        required: Whether a call may not continue without its record.
    """

    required: bool = False

    @property
    def spooled(self) -> int:
        """Records that have not reached their destination."""
        return 0

    @abc.abstractmethod
    def wants(self, call: Call) -> bool:
        """Return whether a call is recorded."""

    def follow(self, context: HookContext) -> None:
        """Note that all records of an operation will follow, so its events add nothing."""

    def wants_end(self, is_failed: bool) -> bool:
        """Return whether the end of a call is recorded, too."""
        return is_failed

    def wants_verdicts(self) -> bool:
        """Return whether verdicts are recorded, before and after the tool."""
        return True

    @abc.abstractmethod
    def write(self, record: Mapping[str, Any], context: HookContext) -> Receipt:
        """Take a record, without waiting.

        Args:
            record: The record of a verdict; with ``outcome`` (``ok``, ``failed``, or ``not_run`` if
                an allowed call could not be recorded), of the end of the call. Not kept.
            context: Context of the operation, the same for all its records.
        """

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all records so far have reached their destination.

        Args:
            timeout: Longest wait in seconds; None for no limit.

        Returns:
            Whether they have.
        """
        return True


def recorders_of(hooks: HookSet) -> tuple[Recorder, ...]:
    """Return the recorders among hooks."""
    listeners = (registration.hook for registration in hooks.at("event").inspectors)
    return tuple(hook for hook in listeners if isinstance(hook, Recorder))
