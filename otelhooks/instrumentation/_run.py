"""An agent run as an operation: a turn of a conversation, or a sub-agent's work inside one.

Order of a turn: session_start, run_start, pre_turn, pre_agent, the body, stop, post_agent,
post_turn, run_end. A run entered inside an open run or call is an agent of that one: only pre_agent
and post_agent, and if a tool started it, subagent_start and subagent_stop around them.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any

from opentelemetry import trace

from otelhooks import types
from otelhooks.errors import Denied
from otelhooks.hooks import points, results
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import SpanNotes, current_branch
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.registry import HookSet
from otelhooks.hooks.verdict import Judge, Verdict
from otelhooks.instrumentation._drive import Body, Closed, Operation
from otelhooks.instrumentation._frames import (
    Op,
    Session,
    Turn,
    current_frame,
    current_scope,
    with_frame,
)
from otelhooks.instrumentation._run_seat import RunRequest, RunSeat
from otelhooks.instrumentation._runtime import Runtime, log
from otelhooks.instrumentation._tool import UNRECORDED, settle
from otelhooks.telemetry import semconv
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import error_type, exemplar, fail, now_ns, put_notes
from otelhooks.telemetry.verdicts import error_type_of

__all__ = ["RunRequest", "RunSeat", "agent_run"]

SUBAGENT = "invoke_subagent"


def agent_run(rt: Runtime, seat: RunSeat, request: RunRequest) -> Operation:
    """Run one agent through the pipeline; its body gets the request, rewritten or not."""
    return (yield from _AgentRun(rt, seat, request).steps())


class _AgentRun:
    """One run, from session_start to run_end."""

    __slots__ = (
        "hooks",
        "info",
        "judges",
        "outer",
        "request",
        "rt",
        "seat",
        "started_ns",
        "status",
        "turn",
    )

    def __init__(self, rt: Runtime, seat: RunSeat, request: RunRequest) -> None:
        rt.refresh()
        self.rt = rt
        self.seat = seat
        self.request = request
        self.outer = current_frame()
        scope = current_scope()
        session = self._session(scope.session if scope is not None else None)
        here = current_branch()
        branch = f"{here}/{request.agent}" if here else request.agent
        self.hooks: HookSet
        self.judges: tuple[Judge, ...]
        self.hooks, self.judges = rt.in_force(scope, branch)
        turn = Turn(session, request.agent, seat.framework, self.outer, branch)
        turn.resumed, turn.source = request.is_resumed, request.source
        turn.context.know(
            agent_name=turn.agent, branch=branch, source=turn.source, session_id=session.id
        )
        self.turn = turn
        self.info = types.RunInfo(framework=seat.framework, input=request.prompt)
        self.started_ns = 0
        self.status = "ok"

    def _session(self, given: Session | None) -> Session:
        turn = self.outer.turn if self.outer is not None else None
        if turn is not None:
            return turn.session
        if given is not None:
            return given
        id = self.request.conversation
        return self.rt.sessions.get(id) if id else Session()

    @property
    def _is_turn(self) -> bool:
        return self.outer is None or self.outer.turn is None

    def steps(self) -> Operation:
        """Run the operation."""
        if not self._is_turn:
            return (yield from self._inner())
        session, turn = self.turn.session, self.turn
        turn.number, links = session.next_turn()
        turn.context.know(turn_number=turn.number)
        yield from self._start_session(session)
        self._open(links)
        result: Any = None
        try:
            result = yield from self._turn()
        except GeneratorExit:
            self._close()  # abandoned: nobody is there to run hooks any more
            raise
        except BaseException as error:
            yield from self._end(Raised(error))
            raise
        yield from self._end(result)
        return result

    def _turn(self) -> Operation:
        yield from self._inspect("run_start", self.info, input=self.request.prompt)
        refusal = None
        if not self.request.is_resumed:
            refusal = yield from self._pre_turn()
        if refusal is not None:
            return (yield from self._refuse(refusal))
        result = yield from self._agent()
        if self.status in _ANSWERED and type(result) is not Raised:
            text = _Text(self._answer(result), self.turn.usage)
            yield from self._inspect("post_turn", text, output=text)
        return result

    def _inner(self) -> Operation:
        """Run an agent of a run that is open, or of a tool call."""
        outer = self.outer
        self._open([])
        try:
            if not isinstance(outer, Op) or outer.call is None:
                return (yield from self._agent())
            refusal = yield from self._judge_subagent(outer)
            if refusal is not None:
                return (yield from self._refuse(refusal))
            return (yield from self._subagent(outer))
        finally:
            self._close()

    def _subagent(self, outer: Op) -> Operation:
        """Run an agent that a tool call started."""
        info = types.SubagentInfo(
            agent=self.turn.agent, parent=outer.agent, task=self.request.prompt
        )
        self._event(semconv.EVENT_SUBAGENT_START, "subagent_start")
        yield from self._inspect("subagent_start", info, input=info.task)
        result = yield from self._agent()
        info.duration = (now_ns() - self.started_ns) / 1e9
        if type(result) is Raised:
            info.error = result.error
        else:
            info.response = self._answer(result)
        self._event(semconv.EVENT_SUBAGENT_STOP, "subagent_stop")
        yield from self._inspect("subagent_stop", info, output=info.response)
        return result

    # -- deciding -----------------------------------------------------------------------------

    def _pre_turn(self) -> Generator[Run, Any, str | None]:
        """Decide about the user's message; return the reason of a deny."""
        rt, turn, request = self.rt, self.turn, self.request
        self._event(semconv.EVENT_USER_MESSAGE, "pre_turn")
        pre = self.hooks.at("pre_turn")
        if not pre and not self.hooks.has_events:
            return None
        started = time.perf_counter()
        verdict, prompt = yield from points.pre_turn(
            pre, turn.context, request.prompt, rt.watch, rt.loaded.monitor
        )
        if pre:
            rt.count_evaluations(verdict.evaluations, time.perf_counter() - started, "pre_turn")
            if prompt is not request.prompt:
                request.prompt, request.is_rewritten = prompt, True
        return (yield from self._settle(verdict, bool(pre), input=prompt))

    def _judge_subagent(self, op: Op) -> Generator[Run, Any, str | None]:
        """Put the start of an agent by a tool to the rules for ``invoke_subagent``.

        The tool call is the start: one call, one span. Where its seat knew that the tool is an
        agent, the rules have spoken already.
        """
        if op.subagent or op.call is None:
            return None
        op.subagent = True
        rt = self.rt
        call = Call(
            SUBAGENT,
            {"agent": self.turn.agent, "task": self.request.prompt},
            id=op.call.id,
            agent=op.agent,
            branch=op.branch,
        )
        call.op = op
        deciders = self.hooks.at("pre_tool_call")
        if not deciders.deciders and not self.judges:
            return None
        if deciders:
            call.place = rt.place(op)
        verdict = yield from points.pre_tool_call(
            deciders, op.context, call, rt.watch, self.judges, rt.loaded.monitor
        )
        if verdict.is_plain():
            return None
        if op.span is not None:
            op.span.set_attributes(rt.verdicts.attributes(verdict))
            if not verdict.allowed and rt.denied_status == "error":
                fail(op.span, error_type_of(verdict) or "", verdict.reason)
        outer_call, op.call = op.call, call
        try:
            recorded = yield from settle(rt, op, verdict)
        finally:
            op.call = outer_call
        if verdict.allowed and recorded:
            return None
        return verdict.told if recorded else UNRECORDED

    def _agent(self) -> Operation:
        """Decide about the agent, run it, and pass its answer through the post hooks."""
        rt, turn, request = self.rt, self.turn, self.request
        pre = self.hooks.at("pre_agent")
        if pre or self.hooks.has_events:
            record = types.AgentCall(
                input=request.prompt,
                agent=turn.agent,
                branch=turn.branch,
                session_id=turn.session.id,
                turn=turn.number,
                trace_id=turn.context.trace_id,
                source=turn.source,
            )
            verdict = yield from points.pre_agent(
                pre, turn.context, record, rt.watch, rt.loaded.monitor
            )
            refusal = yield from self._settle(verdict, bool(pre), input=request.prompt)
            if refusal is not None:
                return (yield from self._refuse(refusal))
            if verdict.answered:
                self.status = "answered"
                ready = yield from self._ready(verdict.answer)
                return ready if type(ready) is Raised else (yield from self._post(ready))
        raw = yield from self._body()
        if type(raw) is Raised or self.status == "paused":
            return raw
        return (yield from self._post(raw))

    def _settle(
        self, verdict: Verdict, was_decided: bool, **event: Any
    ) -> Generator[Run, Any, str | None]:
        """Tell a verdict about the run; return the reason of a deny."""
        rt, turn = self.rt, self.turn
        op = self._as_op()
        told = None
        if was_decided:
            if turn.span is not None:
                turn.span.set_attributes(rt.verdicts.attributes(verdict))
                if not verdict.allowed and rt.denied_status == "error":
                    fail(turn.span, error_type_of(verdict) or "", verdict.reason)
            recorded = yield from settle(rt, op, verdict)
            if not verdict.allowed or not recorded:
                told = verdict.told if recorded else UNRECORDED
        if self.hooks.has_events:
            yield from rt.tell(
                self.hooks,
                verdict.point,
                turn.context,
                decision=verdict.decision if was_decided else None,
                rule_id=verdict.rule_id or None,
                reason=verdict.reason or None,
                **event,
            )
        return told

    def _as_op(self) -> Op:
        turn = self.turn
        op = Op(turn.session, turn, turn.outer, None, turn.agent, turn.branch)
        op.span = turn.span
        return op

    def _refuse(self, reason: str) -> Operation:
        """Answer with the reason of a deny, in the framework's own form."""
        self.status = "denied"
        if self.rt.raise_on_deny:
            return Raised(Denied(reason))
        if not self.seat.refuses_in_body:
            return self.seat.refused(self.request, reason)
        self.request.refusal = reason
        assert self.turn.otel is not None
        return (yield Body(self.turn.otel, self.request))

    def _ready(self, answer: Any) -> Operation:
        """Give a ready answer, in the framework's own form."""
        if not self.seat.refuses_in_body:
            return self.seat.answered(self.request, answer)
        self.request.answer = answer
        assert self.turn.otel is not None
        return (yield Body(self.turn.otel, self.request))

    # -- body ---------------------------------------------------------------------------------

    def _body(self) -> Operation:
        """Run the framework's own run, as often as stop hooks send it on."""
        request, turn, seat = self.request, self.turn, self.seat
        while True:
            assert turn.otel is not None
            raw = yield Body(turn.otel, request)
            if type(raw) is Closed:
                return raw.value
            if type(raw) is Raised:
                self._failed(raw.error)
                return raw
            if seat.is_paused(request, raw):
                self.status = "paused"
                return raw
            further = yield from self._stop(raw)
            if further is None:
                return raw
            request = further

    def _stop(self, raw: Any) -> Generator[Run, Any, RunRequest | None]:
        """Ask whether the run may end; return the request that sends it on."""
        found, turn, rt = self.hooks.at("stop"), self.turn, self.rt
        if not found:
            return None
        args = types.StopArgs(
            response_text=str(self._answer(raw) or ""), continuation_count=turn.continuations
        )
        try:
            result = yield from results.stop(found, turn.context, args, rt.watch)
        except Exception:
            log.exception("a stop hook failed; the run stops")
            return None
        self._event(semconv.EVENT_STOP, "stop")
        if self.hooks.has_events:
            yield from rt.tell(self.hooks, "stop", turn.context, reason=result.reason or None)
        if (
            result.decision is not types.StopDecision.CONTINUE
            or turn.continuations >= rt.max_continuations
        ):
            return None
        turn.continuations += 1
        further = self.seat.continued(self.request, raw, result.reason)
        if further is None:
            rt.warn_once(
                f"continue {self.seat.framework}",
                "a stop hook wants to go on; %s cannot be sent on from outside",
                self.seat.framework,
            )
        return further

    @fails_open
    def _failed(self, error: BaseException) -> None:
        if self.seat.is_control_flow(error):
            self.status = "paused"
            return
        self.status = kind = error_type(error)
        if self.turn.span is not None:
            fail(self.turn.span, kind, "" if escapes(error) else str(error))

    def _answer(self, raw: Any) -> Any:
        return None if raw is None else self.seat.response(self.request, raw)

    def _post(self, raw: Any) -> Operation:
        """Pass the answer through the post hooks."""
        rt, turn = self.rt, self.turn
        post = self.hooks.at("post_agent")
        answer = self._answer(raw) if post or self.hooks.has_events else None
        verdict = None
        if post:
            new, verdict = yield from results.post_point(
                "post_agent",
                post,
                turn.context,
                answer,
                rt.watch,
                results.place_value,
                rt.loaded.monitor,
            )
            if verdict is not None:
                if turn.span is not None:
                    turn.span.set_attributes(rt.verdicts.attributes(verdict))
                name = semconv.EVENT_WITHHELD if verdict.withheld else semconv.EVENT_REWRITTEN
                self._event(name, "post_agent")
                yield from settle(rt, self._as_op(), verdict)
                if new is not answer:
                    answer, raw = new, self.seat.with_response(self.request, raw, new)
        if self.hooks.has_events:
            yield from rt.tell(
                self.hooks,
                "post_agent",
                turn.context,
                output=answer,
                decision=verdict.decision if verdict is not None else None,
            )
        return raw

    # -- session, span, end -------------------------------------------------------------------

    def _start_session(self, session: Session) -> Generator[Run, Any, None]:
        with session.lock:
            first, session.started = not session.started, True
        if not first:
            return
        rt = self.rt
        rt.events.emit(semconv.EVENT_SESSION_START, 9, rt.session_attributes(session), context=None)
        found = self.hooks.at("session_start")
        yield from results.inspect_point(found, session.context, None, rt.watch)
        if self.hooks.has_events:
            yield from rt.tell(self.hooks, "session_start", session.context)

    def _open(self, links: list[trace.Link]) -> None:
        turn = self.turn
        self.started_ns = now_ns()
        if self.rt.spans_of(self.seat.framework) != "off":
            self._open_span(links)
        turn.otel = with_frame(turn, turn.span)

    @fails_open
    def _open_span(self, links: list[trace.Link]) -> None:
        rt, turn, request = self.rt, self.turn, self.request
        attributes: dict[str, Any] = {semconv.GEN_AI_OPERATION_NAME: request.operation}
        is_workflow = request.operation == semconv.OP_INVOKE_WORKFLOW
        name_key = semconv.GEN_AI_WORKFLOW_NAME if is_workflow else semconv.GEN_AI_AGENT_NAME
        if turn.agent:
            attributes[name_key] = turn.agent
        if turn.branch:
            attributes[semconv.AGENT_BRANCH] = turn.branch
        attributes.update(rt.session_attributes(turn.session))
        exports = turn.context.exports()
        attributes.update((semconv.CONTEXT_PREFIX + k, v) for k, v in exports.items())
        if request.attributes:
            attributes.update(request.attributes)
        parent = None
        if self._is_turn and turn.session.span is not None:
            parent = trace.set_span_in_context(turn.session.span)
        span = rt.spans.start(
            f"{request.operation} {turn.agent}".rstrip(),
            attributes,
            parent,
            links=links,
            start_ns=self.started_ns,
        )
        turn.span = span
        context = span.get_span_context()
        turn.context.know_trace(trace.format_trace_id(context.trace_id))
        notes, turn.context.span = turn.context.span, span
        if isinstance(notes, SpanNotes):
            put_notes(span, notes)
        if self._is_turn:
            turn.session.last_turn = context

    def _end(self, result: Any) -> Generator[Run, Any, None]:
        """End a turn: run_end in any case, then the span."""
        info, turn, rt = self.info, self.turn, self.rt
        info.duration = (now_ns() - self.started_ns) / 1e9
        if type(result) is Raised:
            info.error = result.error
        elif result is not None:
            info.response = self._answer(result)
        try:
            yield from self._inspect(
                "run_end",
                info,
                output=info.response,
                duration=info.duration,
                is_error=info.error is not None,
            )
        finally:
            self._close()
            if not turn.session.id and turn.session is not rt.outside:
                if turn.session.span is None:
                    rt.end_session(turn.session)

    @fails_open
    def _close(self) -> None:
        rt, turn, request = self.rt, self.turn, self.request
        ended = now_ns()
        if self.status != "paused":
            self._report_gaps()
        failure = self.status if self.status not in _SUCCESSES else None
        is_workflow = request.operation == semconv.OP_INVOKE_WORKFLOW
        rt.instruments.record(
            semconv.METRIC_GEN_AI_INVOKE_WORKFLOW_DURATION
            if is_workflow
            else semconv.METRIC_GEN_AI_INVOKE_AGENT_DURATION,
            (ended - self.started_ns) / 1e9,
            rt.run_metric(request.operation, turn.agent, failure),
            exemplar(turn.span),
        )
        if turn.span is None:
            return
        if turn.usage:
            attributes = {
                _USAGE[name]: tokens for name, tokens in turn.usage.items() if name in _USAGE
            }
            turn.span.set_attributes(attributes)
        turn.span.end(ended)

    def _report_gaps(self) -> None:
        """Say which tool calls a model asked for and no seat has judged."""
        turn, rt = self.turn, self.rt
        if not turn.asked or not rt.loaded.can_deny or self.status not in _ANSWERED:
            return
        for name in turn.asked.values():
            rt.instruments.coverage_gaps.cell({semconv.ADAPTER_FRAMEWORK: self.seat.framework}).add(
                1, exemplar(turn.span)
            )
            log.error(
                "coverage gap: tool `%s` of agent `%s` (%s) was asked for and no seat judged it",
                name,
                turn.agent,
                self.seat.framework,
            )

    # -- telling ------------------------------------------------------------------------------

    def _inspect(self, point: str, data: Any, **event: Any) -> Generator[Run, Any, None]:
        context = self.turn.context
        found = self.hooks.at(point)
        if found:
            yield from results.inspect_point(found, context, data, self.rt.watch)
        if self.hooks.has_events:
            yield from self.rt.tell(self.hooks, point, context, **event)

    @fails_open
    def _event(self, name: str, point: str) -> None:
        turn = self.turn
        context = trace.set_span_in_context(turn.span) if turn.span is not None else None
        attributes = {**self.rt.about(self._as_op()), semconv.HOOK_POINT: point}
        self.rt.events.emit(name, 9, attributes, context=context)


_ANSWERED = frozenset(("ok", "answered"))
_SUCCESSES = frozenset(("ok", "answered", "denied", "paused"))
_USAGE = {
    "input_tokens": semconv.GEN_AI_USAGE_INPUT_TOKENS,
    "output_tokens": semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
    "cache_read_input_tokens": semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
    "cache_write_input_tokens": semconv.GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS,
    "reasoning_output_tokens": semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
}


class _Text(str):
    """An answer's text, which also has the names ``text`` and ``usage``."""

    usage: types.Usage | None

    def __new__(cls, answer: Any, usage: Mapping[str, int]) -> _Text:
        text = super().__new__(cls, "" if answer is None else str(answer))
        text.usage = types.Usage(**usage) if usage else None
        return text

    @property
    def text(self) -> str:
        """The text itself."""
        return str(self)
