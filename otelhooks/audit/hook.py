"""A hook that writes verdicts to a sink, for pipelines without an audit trail of their own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from otelhooks.hooks.base import OnEventHook
from otelhooks.records.failures import outline

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CoroutineType

    from otelhooks.hooks.context import HookContext
    from otelhooks.types import HookEvent

logger: logging.Logger = logging.getLogger("otelhooks.audit")


class Sink(Protocol):
    """Where records go: an `Audit`, or anything with this one method."""

    def write(self, record: Mapping[str, Any]) -> object:
        """Take a record; the hook waits for the return value if it has a `wait` method."""
        ...


class AuditTrailHook(OnEventHook):
    """Write every verdict and every failed call to a sink.

    It fails open: a sink that raises is logged once per cause, and the call continues. A call that
    must not run without its record needs `instrument(audit=Audit(..., required=True))`.

    Args:
        sink: Gets one record per verdict: the set fields of the `HookEvent`, with inputs and
            outputs masked as in the event. If `write` returns a `Ticket`, the hook waits for it, in
            a worker thread if an event loop runs.
        executed_only: Write only tool calls that ran without an error, once they have run; None
            uses the sink's own `executed_only`, or False.
    """

    blocking = True

    def __init__(self, sink: Sink, *, executed_only: bool | None = None) -> None:
        if executed_only is None:
            executed_only = bool(getattr(sink, "executed_only", False))
        self.sink = sink
        self.executed_only = executed_only
        self._told: set[type[Exception]] = set()

    # A plain function, so that `blocking` keeps the wait for the disk off the event loop; it
    # returns something that is already done and never suspends, so a seat without a loop needs
    # none.
    def run(self, context: HookContext, data: HookEvent) -> CoroutineType[Any, Any, None]:
        """Write one event if it should be recorded.

        Args:
            context: Not used.
            data: What happened.
        """
        if self._is_wanted(data):
            try:
                fields = data.model_dump(mode="json", include=data.model_fields_set)
                told = {k: v for k, v in fields.items() if v is not None and v not in ("", False)}
                receipt = self.sink.write(told)
                wait = getattr(receipt, "wait", None)
                if callable(wait):
                    wait()
            except Exception as error:
                if type(error) not in self._told:
                    self._told.add(type(error))
                    logger.error("audit record not stored: the sink raised %s", outline(error))
        return _done()

    def _is_wanted(self, event: HookEvent) -> bool:
        if self.executed_only:
            return event.type == "post_tool_use" and not event.is_error and event.decision != "deny"
        return event.decision is not None or event.is_error


async def _done() -> None:
    """Be awaitable without ever suspending."""
