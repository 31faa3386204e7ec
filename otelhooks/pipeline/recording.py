"""Hand verdicts of tool calls, and how the calls ended, to recorders."""

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

    Decision: fails closed if a recorder is required.

    Returns:
        Whether the recorders let the call continue.
    """
    may_go_on = True
    for recorder in op.recorders:
        if recorder.wants_verdicts():
            receipt = _write(rt, recorder, op, verdict, {})
            is_kept = receipt is not None and (yield Run(receipt.wait, blocking=True))
            may_go_on = may_go_on and (is_kept is True or not recorder.required)
    return may_go_on


def record_unawaited(rt: Runtime, op: Op, verdict: Verdict) -> None:
    """Hand a verdict to the recorders that no call waits for; telemetry: fails open."""
    for recorder in op.recorders:
        if recorder.wants_verdicts():
            _write(rt, recorder, op, verdict, {})


def record_unrun(rt: Runtime, op: Op, verdict: Verdict) -> None:
    """Tell recorders that an allowed call did not run, because its record failed; fails open."""
    for recorder in op.recorders:
        if recorder.wants_verdicts():
            _write(rt, recorder, op, verdict, {"outcome": "not_run"})


def record_end(
    rt: Runtime, op: Op, failure: str | None, seconds: float, *, may_wait: bool
) -> Generator[Run, Any, None]:
    """Tell the recorders of an operation how its call ended. Telemetry: fails open.

    Args:
        rt: The active runtime.
        op: A call whose body ran.
        failure: ``error.type``; None if it ended well.
        seconds: How long the body took.
        may_wait: Whether there is time to wait for the record; False in a cancelled task.
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
