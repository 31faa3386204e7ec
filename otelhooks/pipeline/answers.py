"""Tool calls that a model's answer asks for, judged before a loop of the user's own sees them.

The answer seat judges each call, and books it here. An allowed call has one permit: the tool seat
that runs it, if any does, takes it by id, name and arguments, and the operation goes on under the
same verdict. When the next request brings a result, it is known whether the call was allowed: a
result of a denied call that no tool seat judged means that its tool ran all the same.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, cast

from opentelemetry import context as otel_context

from otelhooks.hooks.calls import Call, copy_json, same_json
from otelhooks.hooks.context import current_branch
from otelhooks.pipeline.drivers import Body, Operation
from otelhooks.pipeline.execution import Execution
from otelhooks.pipeline.frames import Op, around
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.process import forks

if TYPE_CHECKING:
    from otelhooks.hooks.verdict import Verdict
    from otelhooks.pipeline.runtime import Runtime

__all__ = ["AnswerSeat", "Answers", "Asked", "returned"]

_MOST = 10_000


class Asked:
    """A call that an answer asked for.

    Args:
        id: The model's id of it.
        name: Name of the tool.
        args: What was approved; for a denied call, what the model asked for.

    Attributes:
        verdict: What was decided; None if nothing decides.
        reason: Why it was denied; None if it was not.
        is_open: Whether its permit has not been taken yet.
        is_judged: Whether a tool seat has judged it since, or its result has been seen.
        told: What the model reads instead of its result, in every request that repeats it.
        beside: Denied calls of the same answer, in the form of the API, with id and reason.
    """

    __slots__ = (
        *("args", "beside", "id", "is_judged", "is_open", "name", "reason", "told", "verdict"),
    )

    def __init__(self, id: str, name: str, args: dict[str, Any]) -> None:
        self.id: str = id
        self.name: str = name
        self.args: dict[str, Any] = copy_json(args)
        self.verdict: Verdict | None = None
        self.reason: str | None = None
        self.is_open: bool = False
        self.is_judged: bool = False
        self.beside: tuple[Any, ...] = ()
        self.told: str | None = None


class Answers:
    """The calls that answers asked for in this process, the newest 10,000.

    The child of a fork has none: a permit is for one process.
    """

    def __init__(self) -> None:
        self._forget()
        forks.in_child(self._forget, forks.Step.THREADS)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._calls: OrderedDict[str, Asked] = OrderedDict()
        self._open: OrderedDict[int, Asked] = OrderedDict()  # permits, the oldest first

    def book(self, asked: Asked) -> None:
        """Note a judged call; one of the same id before it is forgotten."""
        asked.is_open = asked.reason is None
        with self._lock:
            if asked.id:
                before = self._calls.pop(asked.id, None)
                if before is not None:
                    self._open.pop(id(before), None)
                self._calls[asked.id] = asked
                if len(self._calls) > _MOST:
                    self._calls.popitem(last=False)
            if asked.is_open:
                self._open[id(asked)] = asked
                if len(self._open) > _MOST:
                    self._open.popitem(last=False)

    def find(self, id: str) -> Asked | None:
        """Return the call with an id, None if no answer asked for it here."""
        return self._calls.get(id)

    def take(self, call: Call, given: dict[str, Any]) -> Verdict | None:
        """Take the permit for a call at a tool seat, which judges the call whether or not it fits.

        Args:
            call: A call without an id gets that of the permit.
            given: Its arguments, as the model could have written them.
        """
        with self._lock:
            asked = self._calls.get(call.id) if call.id else self._like(call.name, given)
            if asked is None:
                return None
            asked.is_judged = True
            fits = (
                asked.is_open
                and asked.name == call.name
                and same_json(_whole(asked.args), _whole(given))
            )
            if not fits:
                return None
            asked.is_open, asked.args = False, {}  # which may be long, and are of no more use
            self._open.pop(id(asked), None)
            call.id = call.id or asked.id or None
            return asked.verdict

    def _like(self, name: str, given: dict[str, Any]) -> Asked | None:
        for asked in self._open.values():
            if asked.name == name and same_json(_whole(asked.args), _whole(given)):
                return asked
        return None

    def close(self, asked: Asked) -> None:
        """Take back a permit, because the call's result is known."""
        with self._lock:
            asked.is_open, asked.is_judged = False, True
            self._open.pop(id(asked), None)


def _whole(value: Any) -> Any:
    """Return arguments with 1 for 1.0: clients convert them before they run a tool."""
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_whole(each) for each in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class AnswerSeat(ToolSeat):
    """Judges a call that the model asks for and other code may run; its answers are `Asked`."""

    is_ahead = True

    def __init__(self, framework: str) -> None:
        self.framework = framework

    def denied(self, call: Call, reason: str) -> Asked:
        """Return the call as denied."""
        asked = self.ahead(call)
        asked.reason = reason
        return asked

    def ahead(self, call: Call) -> Asked:
        """Return the call as allowed."""
        asked = Asked(call.id or "", call.name, call.args)
        asked.verdict = call.op.verdict if call.op is not None else None
        return asked


def returned(rt: Runtime, framework: str, asked: Asked, result: Any) -> Operation:
    """Run the operation of an allowed call that no tool seat saw, now that its result is known.

    Nothing is decided again. Post hooks see the result, and may still change or withhold what the
    model reads of it; the operation returns that, or a `Raised`.
    """
    context = otel_context.get_current()
    outer, scope = around(context)
    turn = outer.turn if outer is not None else None
    session = turn.session if turn is not None else rt.outside
    if turn is None and scope is not None and scope.session is not None:
        session = scope.session
    branch = current_branch(outer.branch if outer is not None else "")
    hooks, _ = rt.in_force(scope, branch)
    call = Call(asked.name, asked.args, asked.id or None)
    op = Op(session, turn, outer, call, branch.rpartition("/")[2], branch)
    call.op, op.resumed = op, asked.verdict
    seat = ToolSeat()
    seat.framework = framework
    steps = Execution(rt, seat, op, call, hooks, asked.verdict, context).steps()
    value: Any = None
    send: Any = steps.send
    while True:
        try:
            effect = send(value)
        except StopIteration as stop:
            return stop.value
        send, value = steps.send, result
        if type(effect) is not Body:
            try:
                value = yield effect
            except BaseException as error:
                send, value = steps.throw, error
