"""An agent run as an operation: a turn of a conversation, or a sub-agent's work inside one.

Order of a turn: session_start, run_start, pre_turn, pre_agent, the body, stop, post_agent,
post_turn, run_end. A run entered inside an open run or call is a sub-agent: it only has pre_agent
and post_agent, with subagent_start and subagent_stop around them if a tool started it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Generator, Mapping
from typing import Any

from otelhooks import types
from otelhooks.hooks import points, results
from otelhooks.hooks.calls import Call, same_json
from otelhooks.hooks.context import current_branch
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.registry import HookSet
from otelhooks.hooks.said import Message, user_text
from otelhooks.hooks.verdict import Judge, Verdict, refusal
from otelhooks.pipeline import session_points
from otelhooks.pipeline.call_span import record
from otelhooks.pipeline.drivers import Body, Closed, Operation
from otelhooks.pipeline.frames import Op, Turn, current_frame, current_scope
from otelhooks.pipeline.run_seat import PROMPT, RunRequest, RunSeat
from otelhooks.pipeline.run_tracing import RunTracing
from otelhooks.pipeline.runtime import Runtime, log
from otelhooks.pipeline.sessions import Session
from otelhooks.records import semconv
from otelhooks.records.failures import outline
from otelhooks.telemetry.spans import error_type, fail, now_ns

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
        "owns_session",
        "request",
        "rt",
        "scope",
        "seat",
        "status",
        "tracing",
        "turn",
    )

    def __init__(self, rt: Runtime, seat: RunSeat, request: RunRequest) -> None:
        rt.refresh()
        rt.has_run = True
        self.rt = rt
        self.seat = seat
        self.request = request
        self.outer = current_frame()
        self.owns_session = False
        self.scope = scope = current_scope()
        session = self._session(scope.session if scope is not None else None)
        request.session = session
        here = current_branch()
        branch = f"{here}/{request.agent}" if here else request.agent
        self.hooks: HookSet
        self.judges: tuple[Judge, ...]
        self.hooks, self.judges = rt.in_force(scope, branch)
        turn = Turn(session, request.agent, seat.framework, self.outer, branch)
        turn.resumed, turn.source = request.is_resumed, request.source
        turn.task_id = request.task_id or turn.task_id
        turn.context.know(
            agent_name=turn.agent, branch=branch, source=turn.source, session_id=session.id
        )
        if turn.task_id:
            turn.context.know(task_id=turn.task_id)
        self.turn = turn
        self.info: types.RunInfo | None = None  # None unless hooks or listeners look at runs
        self.tracing = RunTracing(rt, request, turn, self._is_turn)
        self.status = "ok"

    def _session(self, given: Session | None) -> Session:
        turn = self.outer.turn if self.outer is not None else None
        if turn is not None:
            return turn.session
        if given is not None:
            return given
        id = self.request.conversation
        if id:
            return self.rt.sessions.get(id)
        self.owns_session = True
        return self.request.session or Session()

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
        # Inside a tool call without a turn, a model may have written the prompt.
        if self.outer is None and self.rt.listens(self.scope):
            self._hear()
        started = yield from session_points.begin(self.rt, session, self.scope)
        if self.request.is_resumed:
            looks = any(judge.needs_context for judge in self.judges)
            session.context.meet(lambda: True, looks=looks)
        self.tracing.open(links)
        if started:
            session_points.emit(
                self.rt, session, semconv.EVENT_SESSION_START, "session_start", turn.otel
            )
        try:
            result = yield from self._turn()
        except GeneratorExit:  # abandoned: a closing generator may not yield, so hooks cannot run
            self.tracing.close(self.status)
            if self.owns_session:
                session_points.end(self.rt, session)
            raise
        except BaseException as error:  # raised again by the driver
            result = Raised(error)
        yield from self._end(result)
        return result

    def _hear(self) -> None:
        """Keep what the user says: before hooks, which may add what others wrote."""
        request, context = self.request, self.turn.context
        memory = self.rt.said_in(self.turn.session)
        if request.is_resumed or request.source != "user":
            return
        said = request.prompt if request.user_said is PROMPT else request.user_said
        text = user_text(said)
        if text is not None:
            message = Message(text, context.speaker())
            context.hear(message)
            memory.add(message)

    def _turn(self) -> Operation:
        if self.hooks.all:
            prompt, framework = self.request.prompt, self.seat.framework
            self.info = types.RunInfo(framework=framework, input=prompt, **self._place())
            yield from self._inspect("run_start", self.info, input=prompt)
        refusal = None
        if not self.request.is_resumed:
            refusal = yield from self._pre_turn()
        if refusal is not None:
            return (yield from self._refuse(refusal))
        result = yield from self._agent()
        if self.hooks.all and self.status in _ANSWERED and type(result) is not Raised:
            text = _Text(self._answer(result), self.turn.usage)
            yield from self._inspect("post_turn", text, output=text)
        return result

    def _inner(self) -> Operation:
        """Run an agent inside an open run or a tool call."""
        outer = self.outer
        self.tracing.open([])
        try:
            if not isinstance(outer, Op) or outer.call is None:
                return (yield from self._agent())
            refusal = yield from self._judge_subagent(outer)
            if refusal is not None:
                return (yield from self._refuse(refusal))
            return (yield from self._subagent(outer))
        finally:
            self.tracing.close(self.status)

    def _place(self) -> dict[str, Any]:
        """Return what records say about where the agent runs."""
        return self.rt.place(self.tracing.as_op(), self.turn.context)

    def _subagent(self, outer: Op) -> Operation:
        """Run an agent that a tool call started."""
        place = self._place()
        info = types.SubagentInfo(parent=outer.agent, task=self.request.prompt, **place)
        self.tracing.event(semconv.EVENT_SUBAGENT_START, "subagent_start")
        yield from self._inspect("subagent_start", info, input=info.task)
        try:
            result = yield from self._agent()
        except GeneratorExit:
            raise
        except BaseException as error:  # raised again by the driver
            result = Raised(error)
        info.duration = (now_ns() - self.tracing.started_ns) / 1e9
        if type(result) is Raised:
            info.error = result.error
        else:
            info.response = self._answer(result)
        self.tracing.event(semconv.EVENT_SUBAGENT_STOP, "subagent_stop")
        yield from self._inspect(
            "subagent_stop",
            info,
            output=info.response,
            duration=info.duration,
            is_error=info.error is not None,
        )
        return result

    # -- deciding -----------------------------------------------------------------------------

    def _pre_turn(self) -> Generator[Run, Any, str | None]:
        """Decide about the user's message; return the reason of a deny."""
        rt, turn, request = self.rt, self.turn, self.request
        self.tracing.event(semconv.EVENT_USER_MESSAGE, "pre_turn")
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
        return (yield from self._record(verdict, bool(pre), input=prompt))

    def _judge_subagent(self, op: Op) -> Generator[Run, Any, str | None]:
        """Check an agent that a tool starts against the rules for ``invoke_subagent``.

        The tool call is the start: one call, one span. If its seat already knew that the tool is an
        agent, these rules have been evaluated.
        """
        if op.subagent or op.call is None:
            return None
        op.subagent = True
        op.context.starts_agent = self.turn.agent
        rt = self.rt
        call = Call(
            SUBAGENT,
            {"agent": self.turn.agent, "task": self.request.prompt},
            id=op.call.id,
            agent=op.agent,
            branch=op.branch,
        )
        call.op = op
        call.is_counted = True  # the tool call was counted
        deciders = self.hooks.at("pre_tool_call")
        if not deciders.deciders and not deciders.gates and not self.judges:
            return None
        call.place = functools.partial(rt.place_of_call, op)
        verdict = yield from points.pre_tool_call(
            deciders, op.context, call, rt.watch, self.judges, rt.loaded.monitor
        )
        if verdict.is_plain():
            return None
        if op.span is not None:
            op.span.set_attributes(rt.verdicts.attributes(verdict))
            if not verdict.allowed and rt.denied_status == "error":
                fail(op.span, *rt.verdicts.failure(verdict))
        outer_call, op.call = op.call, call
        try:
            op.verdict = verdict
            refusal = yield from record(rt, op, verdict)
        finally:
            op.call = outer_call
        if refusal is not None:
            self.request.verdict = op.verdict
            return refusal
        task = call.args.get("task")
        if not same_json(task, self.request.prompt):
            self.request.prompt, self.request.is_rewritten = task, True
        return None

    def _agent(self) -> Operation:
        """Decide about the agent, run it, and pass its answer through the post hooks."""
        rt, turn, request = self.rt, self.turn, self.request
        pre = self.hooks.at("pre_agent")
        changes = self.hooks.at("post_agent").transformers
        request.holds_back = rt.stream == "buffer" and bool(changes)
        if pre or self.hooks.has_events:
            record = types.AgentCall(input=request.prompt, **self._place())
            started = time.perf_counter()
            verdict = yield from points.pre_agent(
                pre, turn.context, record, rt.watch, rt.loaded.monitor
            )
            if pre:
                seconds = time.perf_counter() - started
                rt.count_evaluations(verdict.evaluations, seconds, "pre_agent")
            refusal = yield from self._record(verdict, bool(pre), input=request.prompt)
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

    def _record(
        self, verdict: Verdict, was_decided: bool, **event: Any
    ) -> Generator[Run, Any, str | None]:
        """Record a verdict about the run; return the message of a refusal."""
        rt, turn = self.rt, self.turn
        op = self.tracing.as_op()
        refusal = None
        if was_decided:
            self.tracing.verdict(verdict)
            op.verdict = verdict
            refusal = yield from record(rt, op, verdict)
            if refusal is not None:
                self.request.verdict = op.verdict
        if self.hooks.has_events:
            yield from rt.tell(
                self.hooks,
                verdict.point,
                turn.context,
                decision=verdict.decision,
                rule_id=verdict.rule_id or None,
                reason=verdict.reason or None,
                **event,
            )
        return refusal

    def _refuse(self, reason: str) -> Operation:
        """Answer with the reason of a deny, in the framework's own form."""
        self.status = "denied"
        self.tracing.answer(reason)
        if self.rt.raise_on_deny:
            return Raised(refusal(reason, self.request.verdict))
        if not self.seat.refuses_in_body:
            return self.seat.refused(self.request, reason)
        self.request.refusal = reason
        assert self.turn.otel is not None
        return (yield Body(self.turn.otel, self.request))

    def _ready(self, answer: Any) -> Operation:
        """Return a ready answer in the framework's own form."""
        if not self.seat.refuses_in_body:
            return self.seat.answered(self.request, answer)
        self.request.answer = answer
        assert self.turn.otel is not None
        return (yield Body(self.turn.otel, self.request))

    # -- body ---------------------------------------------------------------------------------

    def _body(self) -> Operation:
        """Run the framework's own run again for each time that a stop hook continues it."""
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
        """Ask whether the run may end; return the request that continues it if it may not."""
        found, turn, rt = self.hooks.at("stop"), self.turn, self.rt
        result: types.StopHookResult | None = None
        if found:
            args = types.StopArgs(
                response_text=str(self._answer(raw) or ""),
                continuation_count=turn.continuations,
                **self._place(),
            )
            try:
                result = yield from results.stop(found, turn.context, args, rt.watch)
            except BaseException as error:
                if escapes(error):
                    raise
                log.error("a stop hook failed; the run stops: %s", outline(error))
        self.tracing.event(semconv.EVENT_STOP, "stop")
        if self.hooks.has_events:
            reason = None if result is None else result.reason or None
            yield from rt.tell(self.hooks, "stop", turn.context, reason=reason)
        if (
            result is None
            or result.decision is not types.StopDecision.CONTINUE
            or turn.continuations >= rt.max_continuations
        ):
            return None
        turn.continuations += 1
        further = self.seat.continued(self.request, raw, result.reason)
        if further is None:
            rt.warn_once(
                f"continue {self.seat.framework}",
                "a stop hook wants to continue; %s cannot be continued from outside",
                self.seat.framework,
            )
        return further

    def _failed(self, error: BaseException) -> None:
        if self.seat.is_control_flow(error):
            self.status = "paused"
            return
        if escapes(error) and self.turn.is_left:
            return
        self.status = error_type(error)
        self.tracing.fail(error)

    def _answer(self, raw: Any) -> Any:
        return None if raw is None else self.seat.response(self.request, raw)

    def _post(self, raw: Any) -> Operation:
        """Pass the answer through the post hooks."""
        rt, turn = self.rt, self.turn
        post = self.hooks.at("post_agent")
        is_read = post or self.hooks.has_events or self.tracing.shows
        answer = self._answer(raw) if is_read else None
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
                self.tracing.verdict(verdict)
                name = semconv.EVENT_WITHHELD if verdict.withheld else semconv.EVENT_REWRITTEN
                self.tracing.event(name, "post_agent")
                yield from record(rt, self.tracing.as_op(), verdict)
                if new is not answer:
                    answer, raw = new, self.seat.with_response(self.request, raw, new)
        self.tracing.answer(answer)
        if self.hooks.has_events:
            yield from rt.tell(
                self.hooks,
                "post_agent",
                turn.context,
                output=answer,
                decision=verdict.decision if verdict is not None else None,
            )
        return raw

    # -- end ----------------------------------------------------------------------------------

    def _end(self, result: Any) -> Generator[Run, Any, None]:
        """End a turn: run_end in any case, then the span."""
        try:
            if self.info is not None:
                yield from self._run_end(self.info, result)
        finally:
            self.tracing.close(self.status)
        if self.owns_session and self.status != "paused":
            yield from session_points.finish(self.rt, self.turn.session)

    def _run_end(self, info: types.RunInfo, result: Any) -> Generator[Run, Any, None]:
        info.duration = (now_ns() - self.tracing.started_ns) / 1e9
        if type(result) is Raised:
            info.error = result.error
        elif result is not None:
            info.response = self._answer(result)
        yield from self._inspect(
            "run_end",
            info,
            output=info.response,
            duration=info.duration,
            is_error=info.error is not None,
        )

    # -- telling ------------------------------------------------------------------------------

    def _inspect(self, point: str, data: Any, **event: Any) -> Generator[Run, Any, None]:
        context = self.turn.context
        found = self.hooks.at(point)
        if found:
            yield from results.inspect_point(found, context, data, self.rt.watch)
        if self.hooks.has_events:
            yield from self.rt.tell(self.hooks, point, context, **event)


_ANSWERED = frozenset(("ok", "answered"))


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
