"""A tool that takes its call in steps, each with its own seat, and the hooks between them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar

from opentelemetry.context import get_current

from otelhooks.frameworks.kit.passages import SKIP, Passage
from otelhooks.frameworks.kit.tools import ToolCall
from otelhooks.hooks.drive import Raised
from otelhooks.hooks.stages import StageParams
from otelhooks.pipeline.drivers import Body, Operation
from otelhooks.pipeline.frames import Op, current_frame
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.tool_stages import ACTED, NORMALIZED, Stages, Stopped

__all__ = ["StageParams", "StagedCall", "Step"]

_running: ContextVar[StagedCall | None] = ContextVar("otelhooks-staged-call", default=None)


class StagedCall(ToolCall):
    """A call whose body runs the steps of its ``owner``; `stages` says what hooks are shown.

    Attributes:
        step: The step that runs; None between them.
        taken: The steps, if hooks may look at them.
    """

    step: type[Step] | None = None
    taken: Stages | None = None

    @staticmethod
    def running(owner: Any) -> StagedCall | None:
        """Return the innermost running call of its kind, if this is its owner."""
        call = _running.get()
        return call if call is not None and call.owner is owner else None

    async def run(self, wrapped: Callable[..., Any], approved: Any) -> Any:
        frame, outer = current_frame(), _running.get()
        self.taken = frame.stages if type(frame) is Op else None
        if outer is not None and outer.owner is self.owner and outer.taken is not None:
            if outer.taken is not self.taken:
                outer.taken.hand_over()
        _running.set(self)
        try:
            return await super().run(wrapped, approved)
        except Stopped as stopped:  # the call is denied, whatever the tool makes of this
            return self.denied(stopped.message)
        finally:
            _running.set(outer)


class Step(Passage):
    """One step of a tool, a coroutine function: the hooks after it see what it returns.

    Attributes:
        point: Point that gets its result; empty for a step that takes effect.
        behind: Points that must have run before.
    """

    must = ()
    words = "point behind commits"
    NORMALIZED, ACTED = NORMALIZED, ACTED
    point: ClassVar[str] = ""
    behind: ClassVar[tuple[str, ...]] = ()

    def read(self, owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        self._call: Any = StagedCall.running(owner)
        if self._call is None or self._call.taken is None or self._call.step is type(self):
            return SKIP  # no call, or `super` continues within the step
        self.owner, self._given = owner, (args, kwargs)
        return None

    def commits(self, value: Any, context: Any) -> Any:
        """Return, or await, whether a further step takes effect."""
        return False

    def steps(self, rt: Runtime) -> Operation:
        call = self._call
        stages: Stages = call.taken
        outer, call.step = call.step, type(self)
        try:
            yield from stages.begin(*self.behind)
            value = yield Body(get_current(), None)
            if type(value) is Raised or not self.point:
                return value
            if self.point == self.NORMALIZED:
                return (yield from stages.normalized(value))
            commits = functools.partial(self.commits, value, stages.params.context)
            return (yield from stages.acted(value, commits))
        finally:
            call.step = outer

    def run(self, wrapped: Callable[..., Any], approved: Any) -> Any:
        args, kwargs = self._given
        return wrapped(*args, **kwargs)
