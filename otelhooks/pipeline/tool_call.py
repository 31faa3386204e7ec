"""A tool call as an operation: permit, decision, span, body, result.

The order is fixed. Deciders and rules run before the span opens, so that their verdict is among its
start attributes and its duration is the tool's; the audit record is on disk before the body runs;
post hooks run before the result is passed on.
"""

from __future__ import annotations

from collections.abc import Generator
from time import perf_counter, time_ns
from typing import Any

from opentelemetry import context as otel_context

from otelhooks.hooks import points
from otelhooks.hooks.calls import Call, copy_json
from otelhooks.hooks.context import current_branch
from otelhooks.hooks.drive import Raised, Run
from otelhooks.hooks.recorders import recorders_of
from otelhooks.hooks.registry import PointHooks
from otelhooks.hooks.verdict import ALLOW, Judge, Verdict
from otelhooks.pipeline.answers import Owner
from otelhooks.pipeline.call_span import put, put_failure, record
from otelhooks.pipeline.drivers import Body, Closed, Operation
from otelhooks.pipeline.execution import Execution, decide, stopped
from otelhooks.pipeline.frames import Op, Turn, around
from otelhooks.pipeline.permits import Permit
from otelhooks.pipeline.recording import record_unrun
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.sessions import Session
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.pipeline.tool_stages import in_stages
from otelhooks.records import semconv
from otelhooks.records.arguments import arguments_hash
from otelhooks.telemetry.quiet import fails_open

__all__ = ["tool"]


def tool(
    rt: Runtime,
    seat: ToolSeat,
    call: Call,
    conversation: str = "",
    given: dict[str, Any] | None = None,
) -> Operation:
    """Run one tool call through the pipeline.

    Args:
        rt: The active runtime.
        seat: How to read and write the call.
        call: The call.
        conversation: Id of the conversation, for a call outside any turn.
        given: The arguments that a model's answer may have asked for, if they are not the call's.
    """
    context = otel_context.get_current()
    outer, scope = around(context)
    turn = None
    located = ""
    if outer is None:
        rt.refresh()  # no turn has checked whether the providers are still current
    else:
        turn, located = outer.turn, outer.branch
    agent, branch = call.agent, call.branch = _agent(call, turn, located)
    hooks, judges = rt.in_force(scope, branch)
    call.holds_back = hooks.transforms_results
    if (
        type(outer) is Op
        and outer.permits
        and (permit := outer.permits.take(seat.group, call, outer.call))
    ):
        refusal = None
        news = _is_news(outer, permit, call)
        is_pinned = rt.pins is None or not rt.pins.is_against(call)
        if news or not is_pinned or seat.judges_again or permit.to.judges_again:
            if outer.stages is not None:
                hooks = hooks.in_stages()
            found = hooks.at("pre_tool_call")
            refusal = yield from _judge_again(rt, seat, outer, call, found, judges, news)
        if refusal is None:
            return (yield from _pass(rt, seat, outer, call))
        return refusal.value

    op = Op(_session(rt, turn, scope, conversation), turn, outer, call, agent, branch)
    call.op = op
    if rt.answers is not None and not seat.is_ahead:
        owner = Owner.of(rt, op, context)
        given = call.args if given is None else given
        op.resumed = rt.answers.take(owner, op.session.id, call, given)
    if turn is not None:
        turn.judged(call.id)  # at once: a question may outlast the framework's patience
    op.subagent = seat.starts_agent(call)
    if hooks.all and (params := seat.stages(call)) is not None:
        hooks = in_stages(rt, op, hooks, params)
    if hooks.has_events:
        op.recorders = tuple(r for r in recorders_of(hooks) if r.wants(call))
        for recorder in op.recorders:
            recorder.follow(op.context)
    if call.id is not None and op.resumed is None:
        op.resumed = rt.pauses.take(op)
    verdict = None
    is_simple = not hooks.all and not rt.tells_allows and rt.candidate is None
    if is_simple and op.resumed is None:
        started = perf_counter()
        verdict = points.constant(call, judges)
        if verdict is not None:
            seconds = perf_counter() - started
            rt.count_evaluations(verdict.evaluations or 1, seconds, "pre_tool_call")
    if verdict is None:
        try:
            verdict = yield from decide(rt, op, call, hooks, judges)
        except BaseException:
            Execution(rt, seat, op, call, hooks, op.verdict, context).withdrawn()
            raise
    return (yield from Execution(rt, seat, op, call, hooks, verdict, context).steps())


class _Refusal:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _session(rt: Runtime, turn: Turn | None, scope: Any, conversation: str) -> Session:
    if turn is not None:
        return turn.session
    if scope is not None and scope.session is not None:
        return scope.session
    return rt.sessions.get(conversation) if conversation else rt.outside


def _agent(call: Call, turn: Turn | None, located: str) -> tuple[str, str]:
    """Return agent and branch; what the framework says of the call comes before the turn's."""
    here = current_branch(located)
    if not here:
        return call.agent, call.branch or call.agent
    agent = call.agent or here.rpartition("/")[2]
    if call.branch:
        return agent, call.branch
    if turn is not None and agent != turn.agent and here == turn.branch:
        head, _, _ = here.rpartition("/")  # a hand-off: another agent of the same turn
        return agent, f"{head}/{agent}" if head else agent
    return agent, here


def _is_news(op: Op, permit: Permit, call: Call) -> bool:
    """Return whether a deeper seat knows more of the server than the one that approved the call.

    If only the outer seat knows the server's name, the call has it from here on.
    """
    judged = op.call
    news = permit.to.server is None and call.server is not None
    if judged is not None:  # only this seat may recognise the tool by name, as a shell for example
        known = {judged.name, *judged.canonical}
        news = news or not known.issuperset(call.canonical) or call.kind not in (None, judged.kind)
    if call.server is None and permit.to.server is not None:
        call.server, call.claimed_server = permit.to.server, False
    says = call.server_says
    if says is not None and says != call.server and judged is not None:
        news = news or says != judged.server_says
        judged.server_says = says
    return news


def _pass(rt: Runtime, seat: ToolSeat, op: Op, call: Call) -> Operation:
    """Let an approved call through a deeper seat: no operation, only its attributes."""
    further = seat.attributes(call)
    if further:
        put(op, further)
    next_seat = seat.next_seat(call)
    if next_seat is not None:
        op.permits.leave(next_seat, call.args)
    started_ns = time_ns()
    # A copy: what the outer seat approved must not change on its way to the body.
    call.args = copy_json(call.args)
    failure, op.failure = None, None
    raw = yield Body(otel_context.get_current(), call.args)
    if type(raw) is Raised:
        failure = seat.error_type(raw.error)
    elif type(raw) is not Closed and (found := seat.error(call, raw)) is not None:
        failure, op.failure = semconv.ERROR_TOOL_ERROR, found
    fails_open(seat.finished)(call, (time_ns() - started_ns) / 1e9, failure, op.span)
    again = seat.follow_up(call, raw)
    if again is not None:
        op.permits.leave(again, call.args)
    return raw


def _judge_again(
    rt: Runtime,
    seat: ToolSeat,
    op: Op,
    call: Call,
    hooks: PointHooks,
    judges: tuple[Judge, ...],
    news: bool,
) -> Generator[Run, Any, _Refusal | None]:
    """Evaluate rules and hooks again now that more of the call is known; on the same span.

    People's earlier approvals stay valid for the rules that asked for them.
    """
    call.op = op
    call.place = lambda: {
        **rt.place_of_call(op),
        "span_id": "",
    }  # no span was open when it was approved
    if op.call is not None:
        _tell(call, op.call)
    context = op.context
    context.tool_kind, context.canonical = call.kind, call.canonical
    if call.server:
        op.server = call.server
        put(op, {semconv.TOOL_SERVER: call.server})
    approval = op.verdict.approval if op.verdict is not None else None
    call.is_counted = True
    verdict = yield from points.pre_tool_call(
        hooks, context, call, rt.watch, judges, rt.loaded.monitor, approval, news=news
    )
    if rt.stopped is not None and verdict.allowed and rt.stopped not in judges:
        verdict = yield from stopped(rt, rt.stopped, context, call, verdict)
    if verdict.decision == ALLOW and not verdict.observes_more_than(op.verdict):
        return None
    op.verdict = verdict
    if op.call is not None and call.version:
        op.call.args = call.args  # an approver changed them: what is recorded must be what runs
    put(op, rt.verdicts.attributes(verdict))
    _show_arguments(rt, op, call, verdict)
    put_failure(rt, op, verdict)
    refusal = yield from record(rt, op, verdict)
    if refusal is None:
        return None
    op.refused = refusal
    if verdict.allowed:
        record_unrun(rt, op, verdict)
    return _Refusal(seat.denied(call, refusal))


@fails_open
def _show_arguments(rt: Runtime, op: Op, call: Call, verdict: Verdict) -> None:
    """Put on the span which arguments a person approved at a deeper seat."""
    if verdict.approval is not None:
        put(op, {semconv.ARGUMENTS_HASH: arguments_hash(call.args)})
    if call.version and rt.content.on_span:
        put(op, {semconv.GEN_AI_TOOL_CALL_ARGUMENTS: rt.content.span_value(call.args)})


def _tell(call: Call, judged: Call) -> None:
    """Give the call of a deeper seat what only the approving seat knows."""
    call.id = call.id or judged.id
    call.kind = call.kind or judged.kind
    call.path = call.path or judged.path
    call.raw = call.raw or judged.raw
    call.work_dir = call.work_dir or judged.work_dir
    call.canonical = (*call.canonical, *judged.canonical)
