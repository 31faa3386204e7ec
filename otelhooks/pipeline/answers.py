"""Tool calls that a model's answer asks for, judged before a loop of the user's own sees them.

The answer seat judges each call, and books it here. An allowed call has one permit, which belongs
to the turn or session and the agent that asked: the tool seat that runs it there, if any does,
takes it by id, name and arguments, and the operation keeps the same verdict. When the next
request brings a result, it is known whether the call was allowed: a result of a denied call that no
tool seat judged means that its tool ran all the same.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from opentelemetry import context as otel_context
from opentelemetry import trace

from otelhooks.hooks.calls import Call, copy_json
from otelhooks.hooks.context import OperationContext, current_branch
from otelhooks.hooks.recorders import recorders_of
from otelhooks.hooks.said import Message
from otelhooks.hooks.verdict import Verdict
from otelhooks.pipeline.drivers import Body, Operation
from otelhooks.pipeline.execution import Execution, stopped
from otelhooks.pipeline.frames import Op, around
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.process import forks
from otelhooks.records.arguments import arguments_hash

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from otelhooks.pipeline.frames import Turn
    from otelhooks.pipeline.runtime import Runtime
    from otelhooks.pipeline.sessions import Session

__all__ = [
    "AnswerSeat",
    "Answers",
    "Asked",
    "Owner",
    "digest_of",
    "frame_of",
    "returned",
    "stopped_since",
]

_MOST = 10_000


class Owner(NamedTuple):
    """What a permit belongs to, and ends with.

    Attributes:
        run: The turn, or outside any the session.
        branch: The agent, with those that it works for.
        trace_id: Of the caller's trace outside any session, where a server runs loops of several
            users side by side; otherwise 0.
    """

    run: weakref.ref[Turn | Session]
    branch: str
    trace_id: int

    @classmethod
    def of(cls, rt: Runtime, op: Op, context: Context) -> Owner:
        """Return the owner of a call's permit, given its frame."""
        run, trace_id = op.turn or op.session, 0
        if run is rt.outside:
            trace_id = trace.get_current_span(context).get_span_context().trace_id
        located = op.outer.branch if op.outer is not None else ""
        return cls(weakref.ref(run), current_branch(located), trace_id)


class Asked:
    """A call that an answer asked for.

    Args:
        id: The model's id of it.
        name: Name of the tool.
        args: What was approved; for a denied call, what the model asked for.

    Attributes:
        session: Id of the conversation; empty if it has none.
        owner: What its permit belongs to.
        digest: Of name and `args`, which are dropped when they are of no more use.
        given: Of name and the arguments that the model asked for.
        verdict: What was decided; None if nothing decides.
        reason: Why it was denied; None if it was not.
        is_open: Whether its permit has not been taken yet.
        is_judged: Whether a tool seat has judged it since, or its gap has been logged.
        heard: Hash of the result that post hooks have seen, and what the model reads instead of it
            in every request that repeats it; None for the same.
        beside: Denied calls of the same answer, in the form of the API, with id and reason.
        said: What the user said in the request.
        context: In which it was decided about, if rules or hooks have looked at it.
    """

    __slots__ = (
        *("args", "beside", "context", "digest", "given", "heard", "id", "is_judged", "is_open"),
        *("name", "owner", "reason", "said", "session", "verdict"),
    )

    def __init__(self, id: str, name: str, args: dict[str, Any]) -> None:
        self.id: str = id
        self.name: str = name
        self.args: dict[str, Any] = copy_json(args)
        self.digest: tuple[str, str] = digest_of(name, args)
        self.given: tuple[str, str] = self.digest
        self.session: str = ""
        self.owner: Owner | None = None
        self.verdict: Verdict | None = None
        self.reason: str | None = None
        self.is_open: bool = False
        self.is_judged: bool = False
        self.heard: tuple[int, str | None] | None = None
        self.beside: tuple[Any, ...] = ()
        self.said: tuple[Message, ...] = ()
        self.context: OperationContext | None = None


class Answers:
    """The calls that answers asked for in this process, the newest 10,000.

    The child of a fork has none: a permit is for one process.
    """

    def __init__(self) -> None:
        self._forget()
        forks.in_child(self._forget, forks.Step.THREADS)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        # By session, id and digest: servers may count the ids of every answer from the beginning.
        self._calls: OrderedDict[tuple[str, ...], Asked] = OrderedDict()
        self._newest: OrderedDict[tuple[str | None, str], Asked] = OrderedDict()  # None: of any
        self._open: OrderedDict[int, Asked] = OrderedDict()  # permits, the oldest first

    def book(self, *answer: Asked) -> None:
        """Note the judged calls of an answer; permits of the same ids before it end."""
        denied = [asked for asked in answer if asked.reason is not None]
        allowed = [asked for asked in answer if asked.reason is None]
        with self._lock:
            for asked in answer:
                if (asked.session, asked.id) in self._newest:
                    self._end(asked.session, asked.id)
            for asked in (*denied, *allowed):  # of equal calls, one that may run is the newest
                if asked.id:
                    for session in (asked.session, None):
                        _put(self._newest, (session, asked.id), asked, 2 * _MOST)
                _put(self._calls, (asked.session, asked.id, *asked.digest), asked)
            for asked in allowed:
                asked.is_open = True
                _put(self._open, id(asked), asked)

    def _end(self, session: str, id_: str) -> None:
        for one in [*self._open.values()]:
            if (one.session, one.id) == (session, id_):
                del self._open[id(one)]

    def find(self, session: str, id: str, told: tuple[str, str] | None = None) -> Asked | None:
        """Return the call with an id; None if no answer asked for it here.

        Args:
            session: Id of the conversation.
            id: Of the call; empty if it has none.
            told: Digest of the call as a request repeats it. One that is repeated otherwise is the
                newest of its id and name. None if the provider keeps the conversation, which may be
                another one for us.
        """
        if told is None:
            return self._newest.get((session, id)) or self._newest.get((None, id))
        found = self._calls.get((session, id, *told))
        newest = self._newest.get((session, id)) if found is None else None
        return newest if newest is not None and newest.name == told[0] else found

    def take(self, owner: Owner, session: str, call: Call, given: dict[str, Any]) -> Verdict | None:
        """Take the permit for a call at a tool seat, which judges the call whether or not it fits.

        Args:
            owner: What the permit must belong to.
            session: Id of the conversation.
            call: A call without an id gets that of the permit.
            given: Its arguments, as the model could have written them.
        """
        digest = digest_of(call.name, given)
        with self._lock:
            fitting = (one for one in self._open.values() if _fits(one, owner, digest))
            if call.id:
                asked = self._calls.get((session, call.id, *digest))
                asked = asked or self._newest.get((session, call.id))
                if asked is not None and not asked.is_open:  # an equal call may still be open
                    asked = next((one for one in fitting if one.id == call.id), asked)
            else:
                asked = next(fitting, None)
            if asked is None:
                return None
            asked.is_judged = True
            if not (asked.is_open and _fits(asked, owner, digest)):
                return None
            asked.is_open, asked.args = False, {}
            self._open.pop(id(asked), None)
            call.id = call.id or asked.id or None
            call.said, call.ahead = asked.said, asked.context
            if asked.verdict is not None and (approval := asked.verdict.approval) is not None:
                # People approved what the model may choose; only now the rest is known.
                approval.args = {**call.args, **approval.args}
            return asked.verdict

    def close(self, asked: Asked) -> None:
        """Take back a permit, because the call's result is known."""
        with self._lock:
            asked.is_open, asked.args = False, {}
            self._open.pop(id(asked), None)


def _put(calls: OrderedDict[Any, Asked], key: Any, asked: Asked, most: int | None = None) -> None:
    calls.pop(key, None)
    calls[key] = asked
    if len(calls) > (most or _MOST):
        calls.popitem(last=False)


def _fits(asked: Asked, owner: Owner, digest: tuple[str, str]) -> bool:
    return asked.digest == digest and asked.owner == owner


def digest_of(name: str, args: Any) -> tuple[str, str]:
    """Return what is the same for calls with equal JSON, and with 1 for 1.0."""
    return name, arguments_hash(_whole(args))


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
        if call.op is not None:
            asked.verdict, asked.context = call.op.verdict, call.op.known
        return asked


def frame_of(rt: Runtime, context: Context, call: Call | None = None) -> Op:
    """Return the frame of a call that is made in a context."""
    outer, scope = around(context)
    turn = outer.turn if outer is not None else None
    session = turn.session if turn is not None else rt.outside
    if turn is None and scope is not None and scope.session is not None:
        session = scope.session
    branch = current_branch(outer.branch if outer is not None else "")
    return Op(session, turn, outer, call, branch.rpartition("/")[2], branch)


def stopped_since(rt: Runtime, seat: AnswerSeat, call: Call, asked: Asked) -> Operation:
    """Deny an allowed call if `otelhooks stop` came after it was judged; return it as it is now.

    Decision code: fails closed.
    """
    if rt.stopped is None or asked.reason is not None:
        return asked
    context = otel_context.get_current()
    call.op = op = frame_of(rt, context, call)
    earlier = asked.verdict or Verdict("pre_tool_call")
    verdict = yield from stopped(rt, rt.stopped, asked.context, call, earlier)
    if verdict.allowed:
        call.op = None
        return asked
    hooks, _ = rt.in_force(around(context)[1], op.branch)
    op.recorders = tuple(r for r in recorders_of(hooks) if r.wants(call))
    return (yield from Execution(rt, seat, op, call, hooks, verdict, context).steps())


def returned(rt: Runtime, framework: str, asked: Asked, result: Any) -> Operation:
    """Run the operation of an allowed call that no tool seat saw, now that its result is known.

    Nothing is decided again. Post hooks see the result, and may still change or withhold what the
    model reads of it; the operation returns that, or a `Raised`.
    """
    context = otel_context.get_current()
    call = Call(asked.name, asked.args, asked.id or None)
    op = frame_of(rt, context, call)
    hooks, _ = rt.in_force(around(context)[1], op.branch)
    call.op, op.resumed = op, asked.verdict
    if asked.context is not None:
        op.context.take_over(asked.context)
    seat = ToolSeat()
    seat.framework, seat.is_behind = framework, True
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
