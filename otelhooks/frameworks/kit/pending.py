"""A run whose function returns a handle at once, and that the framework continues in its tasks.

It begins in the first of its steps, which may wait for people, and ends in the step that has its
result; steps are functions that the adapter listens to. What ends it outside any step, such as a
cancellation, is what the handle tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, cast

from opentelemetry.context import get_current

from otelhooks.frameworks.kit import runs
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import Body, Closed, Operation, Split
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.sessions import Session

__all__ = ["Run"]

_sessions: weakref.WeakKeyDictionary[Runtime, dict[int, Session]] = weakref.WeakKeyDictionary()
_scheduled: ContextVar[Any] = ContextVar("otelhooks_scheduled", default=None)


class Run(runs.Run):
    """One such run. `call` returns the handle; results are what steps return.

    Attributes:
        owner: The object whose steps belong to it.
    """

    must = (*runs.Run.must, "denied", "is_end")
    words = "owner is_end"
    owner: Any = None

    _shared: tuple[Any, ...] = ()
    _lock: asyncio.Lock | None = None
    _ending: asyncio.Task[None] | None = None

    # -- what an adapter writes ---------------------------------------------------------------

    def is_end(self, result: Any) -> bool:
        """Return whether what a step returned is the run's result."""
        raise NotImplementedError

    # -- what an adapter uses -----------------------------------------------------------------

    @staticmethod
    def of(owner: Any) -> Any:
        """Return the run that this code belongs to, if it is an object's; None if not."""
        run = _scheduled.get()
        return run if run is not None and run.owner is owner else None

    @staticmethod
    def here() -> Any:
        """Return the innermost run that this code belongs to; None outside any."""
        return _scheduled.get()

    @property
    def is_open(self) -> bool:
        """Whether it has begun but not ended."""
        return self._split is not None and self._split.proceeds

    def shares(self, *things: Any) -> None:
        """Add objects that tell the conversation: runs that share one belong to the same."""
        self._shared += tuple(thing for thing in things if thing is not None)
        known = _sessions.get(cast("Runtime", runtime.active()), {})
        self.session = next((known[id(one)] for one in self._shared if id(one) in known), None)

    async def step(self, body: Callable[[], Awaitable[Any]]) -> Any:
        """Run a step inside this run, which begins with its first one.

        Returns:
            What the step returned; or what hooks made of the run's result, also instead of a step.
        """
        if self._split is None:
            await self._begin()
        split = self._split
        if split is None:
            return await body()
        if not split.proceeds:
            return split.finish(None)
        try:
            with runs.inside(split):
                result = await body()
        except BaseException as error:
            if self.is_control_flow(error):
                raise  # the same step comes again
            return await split.afail(error)
        if not (split.proceeds and self.is_end(result)):
            return result
        self.note_unasked(result)
        result, last = await split.afinish(result), result
        if not split.proceeds:
            return result
        with runs.inside(split):
            return await self.again(last, split.value)

    async def _begin(self) -> None:
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:  # the first steps of a resumed run may run side by side
            if self._split is None and (rt := runtime.active()) is not None:
                self._split = await Split(super().steps(rt)).abegin()
                self._remember(rt)

    # -- what the kit makes of it -------------------------------------------------------------

    def steps(self, rt: Runtime) -> Operation:
        return (yield Body(get_current(), self))

    def run(self, wrapped: Callable[..., Any], approved: Any) -> Any:
        token = _scheduled.set(self)
        try:
            handle = self.call(wrapped)
        finally:
            _scheduled.reset(token)
        getattr(handle, "_result_task", handle).add_done_callback(self._is_done)
        return handle

    def _is_done(self, task: asyncio.Future[Any]) -> None:
        """End the run if no step has; a reader that was cancelled leaves it running."""
        if self.is_open and not task.cancelled():
            self._ending = task.get_loop().create_task(self._end_outside(task.exception()))

    async def _end_outside(self, error: BaseException | None) -> None:
        split = cast("Split", self._split)
        with contextlib.suppress(BaseException):
            await (split.afinish(Closed(None)) if error is None else split.afail(error))

    def _remember(self, rt: Runtime) -> None:
        known = _sessions.setdefault(rt, {})
        for thing in self._shared:
            if id(thing) not in known:
                weakref.finalize(thing, known.pop, id(thing), None)
            known[id(thing)] = cast("Session", self.session)
