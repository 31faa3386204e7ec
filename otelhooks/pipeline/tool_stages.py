"""A tool that takes its call in steps: hooks between them, on the span of the call.

Some tools normalize their arguments, act, and commit in separate steps. A seat that knows this
returns them from `ToolSeat.stages`; the hooks between the steps then run there instead of at
pre_tool_call and post_tool_call. The adapter's seats on the steps call::

    await adrive(stages.begin())
    value = await adrive(stages.normalized(value))  # between validation and work
    value = await adrive(stages.acted(value, commits))  # between work and effect

A block raises `Stopped`, which a tool's ``except Exception`` does not catch; even if the tool
handles it, no further step runs and the call is denied. Decision code: fails closed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from otelhooks.hooks import points, results
from otelhooks.hooks.base import PostCoreActionHook, PostParamsNormalizationHook
from otelhooks.hooks.calls import copy_json
from otelhooks.hooks.drive import Run
from otelhooks.hooks.registry import HookSet
from otelhooks.hooks.stages import StageParams
from otelhooks.hooks.verdict import ALLOW, DENY, MODIFY, Verdict
from otelhooks.pipeline.call_span import put, put_failure, record
from otelhooks.pipeline.frames import Op, current_scope
from otelhooks.pipeline.runtime import Runtime

__all__ = ["ACTED", "NORMALIZED", "Stages", "Stopped", "in_stages", "overlooks"]

NORMALIZED, ACTED = PostParamsNormalizationHook.POINT, PostCoreActionHook.POINT
"""The points between the steps."""

OUT_OF_ORDER = "The call was refused because its steps came in an unexpected order."


class Stopped(BaseException):
    """A call must not go on to its next step.

    Attributes:
        message: What the model reads.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def in_stages(rt: Runtime, op: Op, hooks: HookSet, params: StageParams) -> HookSet:
    """Prepare an operation whose hooks may look at its steps.

    Args:
        rt: The active runtime.
        op: The operation.
        hooks: The hooks in force for it.
        params: What hooks of its steps are shown.

    Returns:
        The hooks of its points, without those of the steps if the tool has steps.
    """
    op.context.stages = params
    if not params.is_staged:
        return hooks
    hooks = hooks.in_stages()
    op.stages = Stages(rt, op, hooks, params)
    return hooks


def overlooks(rt: Runtime, op: Op, stages: Callable[[], StageParams | None]) -> bool:
    """Return whether hooks look at a tool's steps that the operation does not know about.

    Args:
        rt: The active runtime.
        op: The operation; it may be the client of a server in this process.
        stages: Returns what hooks are shown of the steps.
    """
    if op.stages is not None:
        return False
    hooks, _ = rt.in_force(current_scope(), op.branch)
    if not hooks.all:
        return False
    hooks, params = hooks.in_stages(), stages()
    looks = hooks.at(NORMALIZED) or hooks.at(ACTED)
    return bool(looks) and params is not None and params.is_staged


class Stages:
    """The steps of one call.

    Args:
        rt: The active runtime.
        op: The operation.
        hooks: The hooks in force for it, with those of its steps.
        params: What hooks are shown.

    Attributes:
        params: What hooks are shown.
        verdict: The block that ended the call; None as long as it continues.
    """

    __slots__ = (
        "_done",
        "_hooks",
        "_is_handed_over",
        "_is_over",
        "_op",
        "_rt",
        "params",
        "verdict",
    )

    def __init__(self, rt: Runtime, op: Op, hooks: HookSet, params: StageParams) -> None:
        self._rt = rt
        self._op = op
        self._hooks = hooks
        self._done: set[str] = set()
        self._is_handed_over = False
        self._is_over = False
        self.params: StageParams = params
        self.verdict: Verdict | None = None

    def begin(self, *behind: str) -> Generator[Run, Any, None]:
        """Let a step begin.

        Args:
            behind: Points that must have run before.

        Raises:
            Stopped: A hook has blocked, or one that could block was not asked.
        """
        if self.verdict is not None:
            raise Stopped(self.verdict.message)
        for point in behind:
            if self._hooks.at(point) and point not in self._done:
                verdict = Verdict(point, DENY, allowed=False, reason=OUT_OF_ORDER)
                verdict.policy_id, verdict.rule_id = results.HOOK, "steps out of order"
                yield from self._tell(verdict, len(self.params.rewritten_by))

    def normalized(self, value: Any) -> Generator[Run, Any, Any]:
        """Put validated arguments to the hooks; return those that the tool is to act on.

        Raises:
            Stopped: A hook blocked.
        """
        params = self.params
        params.normalized_params = value
        self._done.add(NORMALIZED)
        found, call = self._hooks.at(NORMALIZED), self._op.call
        if found and call is not None:
            before, rt = len(params.rewritten_by), self._rt
            verdict = yield from points.pre_tool_call(
                found, self._op.context, call, rt.watch, (), rt.loaded.monitor
            )
            verdict.point = NORMALIZED
            yield from self._tell(verdict, before)
        return params.normalized_params

    def acted(
        self, value: Any, commits: Callable[[], Any] | None = None
    ) -> Generator[Run, Any, Any]:
        """Put what a tool has done or prepared to the hooks; return what is passed on.

        Args:
            value: The outcome of its action.
            commits: Returns, or can be awaited for, whether a further step takes effect; None, and
                any value except True, means that the effect has happened.

        Raises:
            Stopped: A hook blocked.
        """
        params = self.params
        params.core_action_result = value
        self._done.add(ACTED)
        found = self._hooks.at(ACTED)
        if found:
            before, rt = len(params.rewritten_by), self._rt
            monitor = rt.loaded.monitor
            _, verdict = yield from results.post_point(
                ACTED, found, self._op.context, value, rt.watch, results.place_value, monitor
            )
            verdict = verdict or Verdict(ACTED)
            if verdict.withheld and commits is not None and (yield Run(commits)) is True:
                verdict.withheld = verdict.allowed = False
            yield from self._tell(verdict, before)
        return params.core_action_result

    def hand_over(self) -> None:
        """Leave the steps to another call of the same tool, which is judged by itself."""
        self._is_handed_over = True

    def end(self, result: Any) -> Generator[Run, Any, None]:
        """Check the steps that a tool did not take, too late to prevent anything.

        Args:
            result: Result of the whole call.

        Raises:
            Stopped: A hook blocked.
        """
        if self._is_handed_over:
            return
        self._is_over = True
        if NORMALIZED not in self._done and self._op.call is not None:
            yield from self.normalized(copy_json(self._op.call.args))
        if ACTED not in self._done:
            yield from self.acted(result)

    def _tell(self, verdict: Verdict, before: int) -> Generator[Run, Any, None]:
        """Record a verdict, on the span too if it is the strictest so far; stop if it blocks.

        Args:
            verdict: Verdict of a point.
            before: How many rewrites there were before it.
        """
        rt, op = self._rt, self._op
        rewritten_by = self.params.rewritten_by[before:]
        if rewritten_by and verdict.decision == ALLOW:
            verdict.decision, verdict.policy_id = MODIFY, results.HOOK
            verdict.rule_id = rewritten_by[-1]
        if self._is_over and not verdict.allowed:
            verdict.allowed = verdict.withheld = True
        refusal = None
        if not verdict.is_plain():
            if op.verdict is None or verdict.is_stricter_than(op.verdict):
                op.verdict = verdict
                put(op, rt.verdicts.attributes(verdict))
            put_failure(rt, op, verdict)
            refusal = yield from record(rt, op, verdict)
        if self._hooks.has_events and op.call is not None:
            yield from rt.tell(
                self._hooks,
                verdict.point,
                op.context,
                tool_name=op.call.name,
                tool_call_id=op.call.id,
                decision=verdict.decision,
                rule_id=verdict.rule_id or None,
                reason=verdict.reason or None,
            )
        if verdict.allowed and refusal is not None:
            verdict.message = refusal
        elif verdict.allowed and not verdict.withheld:
            return
        self.verdict = verdict
        raise Stopped(verdict.message)
