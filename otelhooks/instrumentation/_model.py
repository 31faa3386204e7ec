"""A model call as an operation: decision, span, body, response."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, cast

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from otelhooks import types
from otelhooks.hooks import points, results
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import SpanNotes, Step, current_branch
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.registry import HookSet
from otelhooks.hooks.verdict import ALLOW, MODIFY, Verdict, refusal
from otelhooks.instrumentation._drive import Body, Closed, Operation
from otelhooks.instrumentation._frames import (
    MAX_STEPS,
    Op,
    current_frame,
    current_scope,
    current_span,
    with_frame,
)
from otelhooks.instrumentation._model_seat import ModelReply, ModelRequest, ModelSeat
from otelhooks.instrumentation._runtime import Runtime
from otelhooks.instrumentation._tool import UNRECORDED, settle
from otelhooks.telemetry import semconv
from otelhooks.telemetry.quiet import fails_open
from otelhooks.telemetry.spans import error_type, exemplar, fail, native_span, now_ns, put_notes
from otelhooks.telemetry.verdicts import error_type_of

__all__ = ["ModelReply", "ModelRequest", "ModelSeat", "model"]

PROVIDER_OTHER = semconv.ERROR_OTHER
"""Provider of a model call that does not say it; the conventions demand one."""


_TOKEN_ATTRIBUTES = (
    (
        "input_tokens",
        semconv.GEN_AI_USAGE_INPUT_TOKENS,
        semconv.METRIC_GEN_AI_USAGE_INPUT_TOKENS,
    ),
    (
        "output_tokens",
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
        semconv.METRIC_GEN_AI_USAGE_OUTPUT_TOKENS,
    ),
    (
        "cache_read_input_tokens",
        semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
        semconv.METRIC_GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
    ),
    (
        "cache_write_input_tokens",
        semconv.GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS,
        semconv.METRIC_GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS,
    ),
    (
        "reasoning_output_tokens",
        semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
        semconv.METRIC_GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
    ),
)


_TOKEN_TYPES = {
    "input_tokens": semconv.TOKEN_INPUT,
    "output_tokens": semconv.TOKEN_OUTPUT,
}
_DEBUG = 5


def model(rt: Runtime, seat: ModelSeat, request: ModelRequest) -> Operation:
    """Run one model call through the pipeline; its body gets the request, rewritten or not."""
    return (yield from _ModelCall(rt, seat, request).steps())


class _ModelCall:
    """One model call, from decision to response."""

    __slots__ = (
        "ended_ns",
        "hooks",
        "judges",
        "op",
        "provider",
        "request",
        "rt",
        "seat",
        "started_ns",
        "status",
        "told",
        "verdict",
    )

    def __init__(self, rt: Runtime, seat: ModelSeat, request: ModelRequest) -> None:
        outer = current_frame()
        if outer is None:
            rt.refresh()  # no turn has looked whether the providers still hold
        scope = current_scope()
        turn = outer.turn if outer is not None else None
        session = rt.outside
        if turn is not None:
            session = turn.session
        elif scope is not None and scope.session is not None:
            session = scope.session
        here = current_branch()
        agent = request.agent or here.rpartition("/")[2]
        self.rt = rt
        self.seat = seat
        self.request = request
        self.provider = request.provider or PROVIDER_OTHER
        self.hooks: HookSet
        self.hooks, self.judges = rt.in_force(scope, here or agent)
        self.op = request.op = Op(session, turn, outer, None, agent, here or agent)
        self.verdict: Verdict | None = None
        self.started_ns = 0
        self.ended_ns = 0
        self.status = "ok"
        self.told: dict[str, Any] = {}

    def steps(self) -> Operation:
        """Run the operation."""
        rt, request, hooks = self.rt, self.request, self.hooks
        self._hide_tools()
        pre = hooks.at("pre_model_call")
        if pre:
            yield from self._decide(pre)
        post = hooks.at("post_model_call")
        if request.stream and post.transformers:
            request.holds_back = rt.stream == "buffer"
        self._open()
        try:
            verdict = self.verdict
            allowed, told = True, ""
            if verdict is not None:
                recorded = yield from settle(rt, self.op, verdict)
                allowed = verdict.allowed and recorded
                told = verdict.told if recorded else UNRECORDED
            if hooks.has_events:
                yield from self._tell(
                    "pre_model_call",
                    input=request.messages,
                    decision=verdict.decision if verdict is not None else ALLOW,
                    rule_id=verdict.rule_id or None if verdict is not None else None,
                    reason=verdict.reason or None if verdict is not None else None,
                )
            if not allowed:
                self.status = "denied"
                return self._refuse(told)
            if verdict is not None and verdict.answered:
                self.status = "answered"
                return (yield from self._post(self.seat.answered(request, verdict.answer)))
            return (yield from self._run())
        finally:
            self._close()

    def _hide_tools(self) -> None:
        """Take definitions out that a rule hides; calls of them are denied anyway."""
        request, op = self.request, self.op
        hiding: list[Any] = [judge for judge in self.judges if getattr(judge, "can_hide", False)]
        if not hiding or not request.tools:
            return
        shown: list[Any] = []
        for definition in request.tools:
            name = self.seat.tool_name(definition)
            call = Call(name, {}, agent=op.agent, branch=op.branch) if name else None
            if call is None or not any(judge.hides(call) for judge in hiding):
                shown.append(definition)
        if len(shown) != len(request.tools):
            request.tools, request.is_rewritten = shown, True

    def _refuse(self, told: str) -> Any:
        if self.rt.raise_on_deny:
            return Raised(refusal(told, self.verdict))
        return self.seat.refused(self.request, told)

    def _decide(self, pre: Any) -> Generator[Run, Any, None]:
        rt, op, request = self.rt, self.op, self.request
        op.context.know_trace(lambda: rt.trace_id_of(op))
        record = types.ModelCall(
            model=request.model,
            provider=request.provider,
            messages=list(request.messages),
            tools=list(request.tools),
            settings=dict(request.settings or {}),
            **rt.place(op),
        )
        started = time.perf_counter()
        verdict, new = yield from points.pre_model_call(
            pre, op.context, record, rt.watch, rt.loaded.monitor
        )
        rt.count_evaluations(verdict.evaluations, time.perf_counter() - started, "pre_model_call")
        yield from results.inspect_point(pre, op.context, new, rt.watch)
        self.verdict = op.verdict = verdict
        if new is not record:
            request.messages, request.tools = new.messages, new.tools
            request.is_rewritten = True

    # -- span ---------------------------------------------------------------------------------

    @fails_open
    def _open(self) -> None:
        rt, op, request, verdict = self.rt, self.op, self.request, self.verdict
        self.started_ns = now_ns()
        mode = rt.spans_of(self.seat.framework)
        if mode == "off":
            return
        attributes: dict[str, Any] = {semconv.GEN_AI_OPERATION_NAME: request.operation}
        optional = (
            (semconv.GEN_AI_PROVIDER_NAME, self.provider),
            (semconv.GEN_AI_REQUEST_MODEL, request.model),
            (semconv.GEN_AI_AGENT_NAME, op.agent),
        )
        attributes.update((name, value) for name, value in optional if value)
        if op.branch:
            attributes[semconv.AGENT_BRANCH] = op.branch
        if op.turn is not None and op.turn.task_id:
            attributes[semconv.TASK_ID] = op.turn.task_id
        if op.session.id or op.session.user:
            attributes.update(rt.session_attributes(op.session))
        if request.stream:
            attributes[semconv.GEN_AI_REQUEST_STREAM] = True
            if rt.stream == "pass" and self.hooks.at("post_model_call").transformers:
                attributes[semconv.STREAM] = semconv.STREAM_PASS
        if request.attributes:
            attributes.update(request.attributes)
        failure = None
        if verdict is not None:
            attributes.update(rt.verdicts.attributes(verdict))
            failure = error_type_of(verdict)
            if failure is not None and rt.denied_status == "error":
                attributes[semconv.ERROR_TYPE] = failure
        if op.has_context:
            exports = op.context.exports()
            attributes.update((semconv.CONTEXT_PREFIX + k, v) for k, v in exports.items())
        if rt.content.on_span:
            attributes[semconv.GEN_AI_INPUT_MESSAGES] = rt.content.span_messages(
                self.seat.messages(request)
            )
        self.told.update(attributes)
        outer = op.outer.span if op.outer is not None else None
        current = current_span(otel_context.get_current())
        native = None
        if mode == "auto" and current is not outer and current is not None:
            native = native_span(
                current, request.operation, semconv.GEN_AI_REQUEST_MODEL, request.model
            )
        if native is not None:
            op.adopted, span = True, native
            for name, value in attributes.items():
                if name.startswith(semconv.OWN_PREFIX):
                    span.set_attribute(name, value)
        else:
            name = f"{request.operation} {request.model}".rstrip()
            span = rt.spans.start(
                name,
                attributes,
                None,
                kind=SpanKind.CLIENT,
                start_ns=self.started_ns,
                trace_id=op.trace_id,
            )
        op.span = span
        if failure is not None and rt.denied_status == "error" and verdict is not None:
            fail(span, failure, verdict.reason)
        if op.has_context:
            notes, op.context.span = op.context.span, span
            if isinstance(notes, SpanNotes):
                put_notes(span, notes)

    @fails_open
    def _close(self) -> None:
        rt, op, request = self.rt, self.op, self.request
        span = op.span
        if self.ended_ns:
            failure = self.status if self.status not in _SUCCESSES else None
            rt.instruments.record(
                semconv.METRIC_GEN_AI_CLIENT_OPERATION_DURATION,
                (self.ended_ns - self.started_ns) / 1e9,
                rt.model_metric(request.operation, self.provider, request.model, failure),
                exemplar(span),
            )
        turn = op.turn
        if turn is not None and len(turn.context.steps) < MAX_STEPS:
            span_id = ""
            if span is not None:
                span_id = trace.format_span_id(span.get_span_context().span_id)
            decision = self.verdict.decision if self.verdict is not None else "allow"
            turn.context.steps.append(Step(request.model, decision, self.status, span_id))
        self._details()
        if span is not None and not op.adopted:
            span.end(self.ended_ns or now_ns())

    # -- body ---------------------------------------------------------------------------------

    def _run(self) -> Operation:
        op, request = self.op, self.request
        raw = yield Body(with_frame(op, op.span), request)
        self.ended_ns = now_ns()
        if type(raw) is Closed:
            self._read(self.seat.reply(request, raw.value))
            return raw.value
        if type(raw) is not Raised:
            return (yield from self._post(raw))
        error = raw.error
        kind = error_type(error)
        self.status = kind
        if escapes(error):
            self._fail(kind, error)
            return raw
        found = self.hooks.at("on_model_error")
        result, value = types.HookResult(allow=False), None
        if found:
            result, value = yield from results.on_error(found, op.context, error, self.rt.watch)
        if self.hooks.has_events:
            yield from self._tell("on_model_error", is_error=True, error=str(error), output=value)
        if result.allow and value is not None:
            if op.span is not None:
                op.span.set_attribute(semconv.RECOVERED, True)
                op.span.set_attribute(semconv.ERROR_TYPE, kind)
            self._event(semconv.EVENT_RECOVERED)
            return (yield from self._post(self.seat.answered(request, value)))
        self._fail(kind, error)
        return raw

    @fails_open
    def _fail(self, kind: str, error: BaseException) -> None:
        if self.op.span is not None and not self.op.adopted:
            fail(self.op.span, kind, str(error))

    def _post(self, raw: Any) -> Operation:
        rt, op, request = self.rt, self.op, self.request
        reply = self.seat.reply(request, raw)
        self._read(reply)
        post = self.hooks.at("post_model_call")
        verdict: Verdict | None = None
        if post:
            record = types.ModelResponse(
                text=reply.text,
                tool_calls=[
                    types.ToolCall(name=name, args=_arguments(args), id=id)
                    for id, name, args in reply.tool_calls
                ],
                usage=types.Usage(**reply.usage) if reply.usage else None,
                finish_reason=reply.finish_reasons[0] if reply.finish_reasons else "",
                **rt.place(op),
            )
            data, verdict = yield from results.post_point(
                "post_model_call",
                post,
                op.context,
                record,
                rt.watch,
                results.place_response,
                rt.loaded.monitor,
            )
            if verdict is not None:
                yield from self._post_verdict(verdict)
                if data is not record:
                    raw = self.seat.with_response(request, raw, data)
                    reply = self.seat.reply(request, raw)
            yield from results.inspect_point(post, op.context, data, rt.watch)
        self._show(reply)
        if op.turn is not None and reply.tool_calls:
            op.turn.ask_for({id: name for id, name, _ in reply.tool_calls if id})
        if self.hooks.has_events:
            usage = types.Usage(**reply.usage) if reply.usage else None
            yield from self._tell(
                "post_model_call",
                output=reply.text,
                usage=usage,
                decision=verdict.decision if verdict is not None else ALLOW,
                rule_id=verdict.rule_id or None if verdict is not None else None,
                reason=verdict.reason or None if verdict is not None else None,
            )
        return raw

    @fails_open
    def _read(self, reply: ModelReply) -> None:
        """Put what the answer tells of itself on the span, and count its tokens."""
        op, request, rt = self.op, self.request, self.rt
        attributes: dict[str, Any] = {}
        if reply.finish_reasons:
            attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] = list(reply.finish_reasons)
        if reply.response_id:
            attributes[semconv.GEN_AI_RESPONSE_ID] = reply.response_id
        if reply.model:
            attributes[semconv.GEN_AI_RESPONSE_MODEL] = reply.model
        usage = reply.usage
        if usage:
            span_context = exemplar(op.span)
            for name, attribute, metric in _TOKEN_ATTRIBUTES:
                tokens = usage.get(name)
                if tokens is None or (not tokens and name not in _TOKEN_TYPES):
                    continue  # of a cache, or of reasoning, there were none
                attributes[attribute] = tokens
                if rt.instruments.token_histogram and name in _TOKEN_TYPES:
                    rt.instruments.record(
                        semconv.METRIC_GEN_AI_CLIENT_TOKEN_USAGE,
                        tokens,
                        {
                            **rt.model_metric(
                                request.operation, self.provider, request.model, None
                            ),
                            semconv.GEN_AI_TOKEN_TYPE: _TOKEN_TYPES[name],
                        },
                        span_context,
                    )
                rt.token_cell(metric, request.operation, self.provider, request.model).add(
                    tokens, span_context
                )
                turn = op.turn
                if turn is not None:
                    turn.usage[name] = turn.usage.get(name, 0) + tokens
        self.told.update(attributes)
        if attributes and op.span is not None and not op.adopted:
            op.span.set_attributes(attributes)

    def _post_verdict(self, verdict: Verdict) -> Generator[Run, Any, None]:
        op = self.op
        if op.span is not None and (self.verdict is None or verdict.is_stricter_than(self.verdict)):
            op.span.set_attributes(self.rt.verdicts.attributes(verdict))
        if verdict.withheld:
            self.status = "withheld"
            self._event(semconv.EVENT_WITHHELD)
        elif verdict.decision == MODIFY:
            self._event(semconv.EVENT_REWRITTEN)
        yield from settle(self.rt, op, verdict)

    @fails_open
    def _event(self, name: str) -> None:
        op = self.op
        context = trace.set_span_in_context(op.span) if op.span is not None else None
        attributes = {**self.rt.about(op), semconv.HOOK_POINT: semconv.POINT_POST_MODEL_CALL}
        self.rt.events.emit(name, 9, attributes, context=context)

    @fails_open
    def _show(self, reply: ModelReply) -> None:
        """Put the answer that goes on where content is captured: on the span, in the event."""
        op, content = self.op, self.rt.content
        message = _output_message(reply)
        if content.on_span and op.span is not None and not op.adopted:
            op.span.set_attribute(semconv.GEN_AI_OUTPUT_MESSAGES, content.span_messages([message]))
        if content.on_event:
            self.told[semconv.GEN_AI_OUTPUT_MESSAGES] = content.event_messages([message])
            self.told[semconv.GEN_AI_INPUT_MESSAGES] = content.event_messages(
                self.seat.messages(self.request)
            )

    def _details(self) -> None:
        """Emit the event that tells of the whole call, where it is asked for."""
        rt, span = self.rt, self.op.span
        if not rt.emit_details and not rt.content.on_event:
            return
        context = trace.set_span_in_context(span) if span is not None else None
        name = semconv.EVENT_GEN_AI_OPERATION_DETAILS
        rt.events.emit(name, _DEBUG, self.told, context=context)

    def _tell(self, point: str, **fields: Any) -> Generator[Run, Any, None]:
        yield from self.rt.tell(self.hooks, point, self.op.context, **fields)


_SUCCESSES = frozenset(("ok", "denied", "answered", "withheld"))


def _arguments(args: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", args) if isinstance(args, dict) else {}


def _output_message(reply: ModelReply) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if reply.text:
        parts.append({"type": "text", "content": reply.text})
    parts.extend(
        {"type": "tool_call", "id": id, "name": name, "arguments": args}
        for id, name, args in reply.tool_calls
    )
    return {"role": "assistant", "parts": parts}
