"""Verdicts of tool calls, and how the calls ended, as recorders get them."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from otelhooks.hooks.drive import Run
from otelhooks.hooks.recorders import Receipt, Recorder
from otelhooks.hooks.verdict import Verdict
from otelhooks.pipeline.frames import Op
from otelhooks.telemetry.quiet import fails_open

if TYPE_CHECKING:
    from otelhooks.pipeline.runtime import Runtime

__all__ = ["record_end", "record_unawaited", "record_unrun", "record_verdict"]


def record_verdict(rt: Runtime, op: Op, verdict: Verdict) -> Generator[Run, Any, bool]:
    """Hand a verdict to the recorders of an operation, and wait until they have it.

    Decision: fails closed, where a recorder is required.

    Returns:
        Whether the call may go on as far as they are concerned.
    """
    may_go_on = True
    for recorder in op.recorders:
        if recorder.wants_verdicts():
            receipt = _write(rt, recorder, op, verdict, {})
            is_kept = receipt is not None and (yield Run(receipt.wait, blocking=True))
            may_go_on = may_go_on and (is_kept is True or not recorder.required)
    return may_go_on


def record_unawaited(rt: Runtime, op: Op, verdict: Verdict) -> None:
    """Hand a verdict to the recorders for which no call waits; telemetry: fails open."""
    for recorder in op.recorders:
        if recorder.wants_verdicts():
            _write(rt, recorder, op, verdict, {})


def record_unrun(rt: Runtime, op: Op, verdict: Verdict) -> None:
    """Tell recorders of an allowed call that it did not run, for want of a record; fails open."""
    for recorder in op.recorders:
        if recorder.wants_verdicts():
            _write(rt, recorder, op, verdict, {"outcome": "not_run"})


def record_end(
    rt: Runtime, op: Op, failure: str | None, seconds: float, *, may_wait: bool
) -> Generator[Run, Any, None]:
    """Hand to the recorders of an operation how its call ended. Telemetry: fails open.

    Args:
        rt: The active runtime.
        op: A call whose body ran.
        failure: ``error.type``; None if it ended well.
        seconds: How long the body took.
        may_wait: Whether there is time to wait for the record; not in a task that is cancelled.
    """
    if op.verdict is None:
        return
    end: dict[str, Any] = {"outcome": "ok" if failure is None else "failed", "duration_s": seconds}
    if failure is not None:
        end["error_type"] = failure
    for recorder in op.recorders:
        if recorder.wants_end(failure is not None):
            receipt = _write(rt, recorder, op, op.verdict, end)
            if receipt is not None and may_wait:
                yield Run(receipt.wait, blocking=True)


@fails_open
def _write(
    rt: Runtime, recorder: Recorder, op: Op, verdict: Verdict, end: dict[str, Any]
) -> Receipt | None:
    record = {**rt.audit_record(op, verdict), **end}
    if op.turn is not None:
        record["turn"] = op.turn.number
    return recorder.write(record, op.context)
