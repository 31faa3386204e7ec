# pyright: basic
"""Tool calls of a loop in another process: it asks before each call, and reports its end.

If this process runs the tool, two seats see the call, in two tasks: `AskedCall` judges it, and
leaves a permit for exactly these arguments; `OwnCall` takes the permit and ends the operation,
since only there can a result or an error still be changed. A `RemoteCall` runs in the other
process: it ends when that process reports its end, too late to change anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otelhooks.frameworks.kit.remote.loops import RemoteRun, Request, inside
from otelhooks.frameworks.kit.tools import ToolCall
from otelhooks.hooks.calls import same_json
from otelhooks.hooks.registry import HookSet
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import Operation, Split, Unrun
from otelhooks.pipeline.frames import Op, current_frame, current_scope, with_scope
from otelhooks.pipeline.sessions import Scope

__all__ = ["AskedCall", "OwnCall", "RemoteCall"]


class AskedCall(ToolCall):
    """A call of a tool that this process runs, when the loop asks about it.

    Attributes:
        loop: The loop that asks; None if unknown.
        key: The loop's name for the agent that makes the call.
        approved: The arguments, once it may run.
        split: Its operation.
        served_by: The call at the tool's body, once it runs: results have the form of that seat.
        is_remote: Whether it runs in the other process.
        is_taken_back: Whether hooks changed or withheld a result that the loop already has.
        error_text: A hook's text for a failure, which remains one there; None for its own text.
    """

    must = ()
    words = "loop key objection starts"
    loop: Any = None
    key = ""
    approved: Any = None
    split: Split
    served_by: ToolCall | None = None
    is_remote = False
    is_taken_back = False
    error_text: str | None = None

    # -- what an adapter writes ---------------------------------------------------------------

    def objection(self) -> Any:
        """Return rules of the adapter's own that must allow the call as well, or None."""
        return None

    def starts(self) -> list[RemoteRun]:
        """Return the runs of the agents that an approved call starts."""
        return []

    # -- what an adapter uses -----------------------------------------------------------------

    async def ask(self) -> str | None:
        """Judge it; return why it may not run, or None."""
        rt, loop = runtime.active(), self.loop
        if rt is None:
            return None
        with inside(loop.context_of(self.key) if loop is not None else None):
            scope = current_scope()
            if loop is not None:
                frame = current_frame()
                self.branch = frame.branch if frame is not None else ""
                self.conversation = loop.conversation
                if (rules := self.objection()) is not None:
                    scope = Scope(scope, HookSet(), (rules,))
            with inside(with_scope(scope)):
                self.split = split = await Split(self.steps(rt)).abegin()
        reason = None if split.proceeds else str(split.finish(None))
        self.approved = split.value
        if loop is not None:
            agent = loop.agent_of(self.key)
            if reason is None and agent is not None:
                reason = agent.refusal
            if reason is None:
                reason = await loop.start(self.starts(), split.context)
        if reason is not None:
            await split.afinish(Unrun(reason))
            if loop is not None:
                loop.denied(self.id, self.key)
        elif loop is None or self.id is None:
            await split.afinish(None)  # a loop that asks like this will not report the end
        else:
            loop.allowed(self)
        return reason

    async def has_ended(self, raw: Any) -> Any:
        """Set what it returned; return what hooks leave of it."""
        with inside(self.split.context):
            return await self.split.afinish(raw)

    async def has_failed(self, error: BaseException) -> Any:
        """Set its failure; return what a hook recovered.

        Raises:
            BaseException: The failure, or another one, if none did.
        """
        with inside(self.split.context):
            return await self.split.afail(error)

    async def has_not_run(self, reason: str, *, is_refused: bool) -> None:
        """Note that it has not run although it may; `is_refused` if it was refused since."""
        with inside(self.split.context):
            await self.split.afinish(Unrun(reason, is_refused=is_refused))

    # -- what the kit makes of it -------------------------------------------------------------

    def denied(self, reason: str) -> Any:
        """Return the reason, which `ask` returns."""
        return reason

    def value(self, raw: Any) -> Any:
        return (self.served_by or super()).value(raw)

    def with_value(self, raw: Any, value: Any) -> Any:
        return (self.served_by or super()).with_value(raw, value)

    def error(self, raw: Any) -> Exception | str | None:
        return (self.served_by or super()).error(raw)

    def failed(self, error: BaseException, message: str) -> Any:
        return (self.served_by or super()).failed(error, message)

    def recovered(self, value: Any) -> Any:
        return (self.served_by or super()).recovered(value)

    def starts_agent(self) -> bool:
        return False


class RemoteCall(AskedCall):
    """A call of a tool that runs in the other process."""

    recovers = False
    is_remote = True

    def with_value(self, raw: Any, value: Any) -> Any:
        """Note that the loop must not continue with the result."""
        self.is_taken_back = True
        return value

    def failed(self, error: BaseException, message: str) -> Any:
        """Keep the text."""
        self.error_text = message
        return self.raised(error)

    def starts_agent(self) -> bool:
        return ToolCall.starts_agent(self)


class OwnCall(ToolCall):
    """A call of a tool that this process runs, for a loop or for any other caller."""

    must = ("read", "call")
    _asked: AskedCall | None = None
    _is_denied = False

    def take_for(self, loop: Any, given: Any, id: str = "") -> None:
        """Take the arguments, in `read`, and find the call that they belong to.

        Args:
            loop: Loop of the object whose method runs it; None for none.
            given: The arguments.
            id: Id of the call; empty for that of the request that the task serves.
        """
        request = Request(loop, id, "") if id else Request.taken()
        if request is not None:
            loop, self.id = request.loop, request.id
        if loop is not None:
            self.conversation = loop.conversation
            asked = loop.calls.get(self.id or "")
            if asked is not None and not asked.is_remote and asked.name == self.name:
                self._asked, self.context = loop.ended(self.id), asked.split.context
                asked.served_by = self
                given = _reconciled(asked.approved, given)
            elif request is not None:
                loop.judged.add(request.id)
                self.context = loop.context_of(request.key)
            elif loop.turn is not None and not isinstance(current_frame(), Op):
                self.context = loop.context_of()
        self.take(given)

    def denied(self, reason: str) -> Any:
        """Raise."""
        self._is_denied = True
        raise self.exception(reason)

    async def inside(
        self, run: Callable[..., Any], operation: Operation, body: Callable[[Any], Any]
    ) -> Any:
        """Run it in its context; end the operation that began when the loop asked."""
        asked = self._asked
        if asked is None:
            return await super().inside(run, operation, body)
        try:
            raw = await super().inside(run, operation, body)
        except BaseException as error:
            if not self._is_denied:
                return await asked.has_failed(error)
            await asked.has_not_run(str(error), is_refused=True)  # not the approved arguments
            raise
        return await asked.has_ended(raw)


def _reconciled(approved: Any, given: Any) -> Any:
    """Return the approved arguments if the wire only turned their integers into floats."""
    return approved if same_json(_floats(approved), _floats(given)) else given


def _floats(value: Any) -> Any:
    if type(value) is int and float(value) == value:
        return float(value)
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_floats(item) for item in value]
    return value
