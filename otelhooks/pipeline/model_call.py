"""A model call as an operation: decision, span, body, response."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Generator, Mapping
from time import perf_counter, time_ns
from typing import Any, cast

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from otelhooks import types
from otelhooks.hooks import points, results
from otelhooks.hooks.context import current_branch
from otelhooks.hooks.drive import Raised, Run, escapes
from otelhooks.hooks.verdict import ALLOW, Judge, Verdict, refusal, text_of
from otelhooks.pipeline.call_span import Traced, record
from otelhooks.pipeline.drivers import Body, Closed, Operation
from otelhooks.pipeline.frames import Op, around, with_frame
from otelhooks.pipeline.hosted_tools import is_withheld
from otelhooks.pipeline.model_seat import ModelReply, ModelRequest, ModelSeat
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.spending import spend
from otelhooks.plain_text import encodable
from otelhooks.records import semconv
from otelhooks.telemetry.content import output_message, system_instructions, tool_definitions
from otelhooks.telemetry.inference import SHARED_BY, noted, published
from otelhooks.telemetry.quiet import fails_open, report
from otelhooks.telemetry.request_settings import instructions_in, request_attributes
from otelhooks.telemetry.shapes import ModelShape
from otelhooks.telemetry.spans import error_type, put_on

__all__ = ["ModelReply", "ModelRequest", "ModelSeat", "model"]

PROVIDER_OTHER = semconv.ERROR_OTHER
"""Provider of a model call that does not name one; the conventions require it."""


_TOKENS = {
    "input_tokens": (
        semconv.GEN_AI_USAGE_INPUT_TOKENS,
        semconv.METRIC_GEN_AI_USAGE_INPUT_TOKENS,
    ),
    "output_tokens": (
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS,
        semconv.METRIC_GEN_AI_USAGE_OUTPUT_TOKENS,
    ),
    "cache_read_input_tokens": (
        semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
        semconv.METRIC_GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
    ),
    "cache_write_input_tokens": (
        semconv.GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS,
        semconv.METRIC_GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS,
    ),
    "reasoning_output_tokens": (
        semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
        semconv.METRIC_GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
    ),
}
"""The span attribute and the counter of each kind of token that a reply reports."""


_TOKEN_TYPES = {
    "input_tokens": (
        semconv.TOKEN_INPUT,
        semconv.METRIC_GEN_AI_CLIENT_INFERENCE_INPUT_TOKENS,
    ),
    "output_tokens": (
        semconv.TOKEN_OUTPUT,
        semconv.METRIC_GEN_AI_CLIENT_INFERENCE_OUTPUT_TOKENS,
    ),
}
_INPUT = semconv.GEN_AI_INPUT_MESSAGES
_DEBUG = 5


class _ModelCall(Traced):
    """One model call, from decision to response."""

    POINT_AFTER = semconv.POINT_POST_MODEL_CALL

    __slots__ = ("is_detailed", "judges", "provider", "request", "seat", "shape", "shown")

    def __init__(self, rt: Runtime, seat: ModelSeat, request: ModelRequest) -> None:
        context = otel_context.get_current()
        outer, scope = around(context)
        if outer is None:
            rt.refresh()  # no turn has checked whether the providers are still current
        turn = outer.turn if outer is not None else None
        session = rt.outside
        if turn is not None:
            session = turn.session
        elif scope is not None and scope.session is not None:
            session = scope.session
        here = current_branch(outer.branch if outer is not None else "")
        agent = request.agent or here.rpartition("/")[2]
        hooks, judges = rt.in_force(scope, here or agent)
        op = Op(session, turn, outer, None, agent, here or agent)
        self.rt = rt
        self.op = op
        self.hooks = hooks
        self.verdict = None
        self.context = context
        self.started_ns = self.ended_ns = 0
        self.status = "ok"
        self.exemplar = None
        request.op = op
        request.chunk_times = [] if rt.instruments.chunk_histogram else None
        self.seat: ModelSeat = seat
        self.request: ModelRequest = request
        self.judges: tuple[Judge, ...] = judges
        self.provider: str = request.provider or PROVIDER_OTHER
        self.shape: ModelShape = rt.shapes.model(
            request.operation, self.provider, request.model, agent, op.branch
        )
        self.is_detailed: bool = rt.emit_details or rt.content.on_event
        self.shown: dict[str, Any] = {}

    @classmethod
    def run(cls, rt: Runtime, seat: ModelSeat, request: ModelRequest) -> Operation:
        """Run one model call through the pipeline; its body gets the request, rewritten or not."""
        self = cls(rt, seat, request)
        hooks = self.hooks
        rt.has_run = True
        if rt.see_tools is not None and request.tools:
            rt.see_tools(seat.tool, request.tools)
        self._hide_tools()
        if not self.op.session.context.is_met:
            self._meet()
        if hooks.all:
            if pre := hooks.at("pre_model_call"):
                yield from self._decide(pre)
            if request.stream and hooks.at("post_model_call").transformers:
                request.holds_back = rt.stream == "buffer"
        named_by = (request.operation, semconv.GEN_AI_REQUEST_MODEL, request.model)
        self.open_span(seat.framework, self.shape.name, named_by, SpanKind.CLIENT)
        try:
            verdict = self.verdict
            refused = None
            if verdict is not None:
                refused = yield from record(rt, self.op, verdict)
                self.verdict = self.op.verdict
            if hooks.has_events:
                yield from self._tell(
                    "pre_model_call",
                    input=request.messages,
                    decision=verdict.decision if verdict is not None else ALLOW,
                    rule_id=verdict.rule_id or None if verdict is not None else None,
                    reason=verdict.reason or None if verdict is not None else None,
                )
            if refused is not None:
                self.status = "denied"
                return self._refuse(refused)
            if verdict is not None and verdict.answered:
                self.status = "answered"
                return (yield from self._post(seat.answered(request, verdict.answer)))
            return (yield from self._run())
        finally:
            self._close()

    def _meet(self) -> None:
        """Check whether the conversation arrives with a history, at its first model call here."""
        looks = any(judge.needs_context for judge in self.judges)
        self.op.session.context.meet(self._has_history, looks=looks)

    def _has_history(self) -> bool:
        try:
            return any(map(_is_past, self.seat.messages(self.request)))
        except Exception:  # unreadable messages may contain anything
            return True

    def _hide_tools(self) -> None:
        """Remove tools that a rule hides, and denied ones whose calls do not pass a seat."""
        request, op = self.request, self.op
        if not (self.judges and request.tools):
            return
        hiding: list[Any] = [judge for judge in self.judges if getattr(judge, "can_hide", False)]
        hosted = self.seat.hosted
        if not (hiding or hosted):
            return
        shown: list[Any] = []
        for definition in request.tools:
            call = self.seat.tool(definition) if hiding else None
            if call is not None:
                call.agent, call.branch = op.agent, op.branch
                if any(judge.hides(call) for judge in hiding):
                    continue
            away = hosted(definition) if hosted is not None else None
            if away is not None and is_withheld(self.rt, self.judges, away, op.branch):
                continue
            shown.append(definition)
        if len(shown) != len(request.tools):
            request.tools, request.is_rewritten = shown, True

    def _refuse(self, message: str) -> Any:
        if self.rt.raise_on_deny:
            return Raised(refusal(message, self.verdict))
        return self.seat.refused(self.request, message)

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
        started = perf_counter()
        verdict, new = yield from points.pre_model_call(
            pre, op.context, record, rt.watch, rt.loaded.monitor
        )
        rt.count_evaluations(verdict.evaluations, perf_counter() - started, "pre_model_call")
        yield from results.inspect_point(pre, op.context, new, rt.watch)
        self.verdict = op.verdict = verdict
        if new is not record:
            request.messages, request.tools = new.messages, new.tools
            request.is_rewritten = True

    # -- span ---------------------------------------------------------------------------------

    def attributes(self) -> dict[str, Any]:
        """Return what the span starts with."""
        rt, op, request = self.rt, self.op, self.request
        attributes = {**self.shape.attributes, **op.session.wire_attributes(rt.user_attribute)}
        if op.turn is not None and op.turn.task_id:
            attributes[semconv.TASK_ID] = op.turn.task_id
        if request.stream:
            attributes[semconv.GEN_AI_REQUEST_STREAM] = True
            if rt.stream == "pass" and self.hooks.at("post_model_call").transformers:
                attributes[semconv.STREAM] = semconv.STREAM_PASS
        if request.settings:
            attributes.update(request_attributes(request.settings))
        if request.attributes:
            attributes.update(request.attributes)
        if self.verdict is not None or op.known is not None:
            self.complete(attributes)
        if self.is_detailed:
            self.shown.update(attributes)
        if rt.content.on_span:
            said = self._said()
            attributes[semconv.GEN_AI_INPUT_MESSAGES] = rt.content.span_messages(said.pop(_INPUT))
            attributes.update((name, rt.content.span_value(one)) for name, one in said.items())
        return attributes

    def _said(self) -> dict[str, list[dict[str, Any]]]:
        """Return what the model is given: messages, and instructions and tools if there are any."""
        request = self.request
        said: dict[str, list[dict[str, Any]]] = {_INPUT: self.seat.messages(request)}
        if request.settings and (apart := instructions_in(request.settings)):
            said[semconv.GEN_AI_SYSTEM_INSTRUCTIONS] = system_instructions(apart)
        if request.tools:
            said[semconv.GEN_AI_TOOL_DEFINITIONS] = tool_definitions(request.tools)
        return said

    def _close(self) -> None:
        try:
            self._record()
            if self.is_detailed:
                self._details()
            self.end_span(self.request.model)
        except Exception as error:
            report("_ModelCall._close", error)

    def _record(self) -> None:
        if not self.ended_ns or self.op.annotation is not None:
            return
        seconds = (self.ended_ns - self.started_ns) / 1e9
        if self.status in _SUCCESSES:
            self.shape.duration.record(seconds, self.exemplar)
        else:
            name = semconv.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION
            self.rt.instruments.record(name, seconds, self._counted(self.status), self.exemplar)
        if self.request.first_chunk_ns:
            name = semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK
            counted = self._counted(None)
            self.rt.instruments.record(name, self._first_chunk_s, counted, self.exemplar)
        if times := self.request.chunk_times:
            name = semconv.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK
            cell = self.rt.instruments.histogram(name).cell(self._counted(None))
            for before, time in itertools.pairwise(times):
                cell.record((time - before) / 1e9, self.exemplar)

    def _counted(self, failure: str | None) -> dict[str, str]:
        """Return the attributes of metrics that few calls have."""
        request = self.request
        shapes = self.rt.shapes
        return shapes.model_duration(request.operation, self.provider, request.model, failure)

    @property
    def _first_chunk_s(self) -> float:
        return (self.request.first_chunk_ns - self.started_ns) / 1e9

    # -- body ---------------------------------------------------------------------------------

    def _run(self) -> Operation:
        op, request = self.op, self.request
        span = None if op.adopted else op.span
        context, data = with_frame(op, span, self.context), None
        if SHARED_BY in sys.modules and span is not None and span.is_recording():
            context, data = published(context) or (context, None)
        if op.turn is not None:
            op.turn.inference_calls += 1
        raw = yield Body(context, request)
        self.ended_ns = time_ns()
        if data is not None:
            put_on(op.span, noted(data))
        if self.hooks.all and type(raw) is not Raised:
            yield from self._charge(raw.value if type(raw) is Closed else raw)
        if type(raw) is Closed:
            self._read(self.seat.reply(request, raw.value))
            return raw.value
        if type(raw) is not Raised:
            return (yield from self._post(raw))
        error = raw.error
        kind = error_type(error)
        if escapes(error):
            if not op.is_left:
                self.mark_error(kind, error)
            return raw
        found = self.hooks.at("on_model_error")
        result, value = types.HookResult(allow=False), None
        if found:
            result, value = yield from results.on_error(found, op.context, error, self.rt.watch)
        if self.hooks.has_events:
            yield from self._tell(
                "on_model_error",
                is_error=True,
                error=text_of(error, str),
                failure=kind,
                output=value,
            )
        if result.allow and value is not None:
            self.status = kind
            self.recovered(kind)
            return (yield from self._post(self.seat.answered(request, value)))
        self.mark_error(kind, error)
        return raw

    def _charge(self, raw: Any) -> Generator[Run, Any, None]:
        """Report the call's usage to the gates, whatever hooks make of its answer."""
        gates = self.hooks.at("pre_model_call").gates
        if not gates:
            return
        reply = self.seat.reply(self.request, raw)
        usage = types.Usage(**reply.usage) if reply.usage else None
        for registration in gates:
            assert registration.gate is not None
            names = (self.request.model, reply.model)
            yield from registration.gate.used(self.op.context, names, usage)

    def _post(self, raw: Any) -> Operation:
        rt, op, request = self.rt, self.op, self.request
        reply = self.seat.reply(request, raw)
        self._read(reply)
        verdict: Verdict | None = None
        if self.hooks.all and (post := self.hooks.at("post_model_call")):
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
                yield from self.post_verdict(verdict)
                if data is not record:
                    raw = self.seat.with_response(request, raw, data)
                    reply = self.seat.reply(request, raw)
            yield from results.inspect_point(post, op.context, data, rt.watch)
        if rt.content.on_span or rt.content.on_event:
            self._show(reply)
        if op.turn is not None and (asked := reply.asked):
            op.turn.ask_for(asked)
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
        """Put what the answer says about itself on the span, and count its tokens."""
        op = self.op
        attributes: dict[str, Any] = {}
        if self.request.first_chunk_ns:
            attributes[semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] = self._first_chunk_s
        if reply.finish_reasons:
            attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] = list(reply.finish_reasons)
        if reply.response_id:
            attributes[semconv.GEN_AI_RESPONSE_ID] = reply.response_id
        if reply.model:
            attributes[semconv.GEN_AI_RESPONSE_MODEL] = reply.model
        if reply.usage:
            self._count_tokens(reply.usage, attributes)
        if self.status == "ok" and (prices := self.rt.prices) is not None:
            models = (self.request.model, reply.model)
            cost = prices.cost(models, reply.usage) if reply.usage else None
            attributes |= self._spend(cost)
        if not attributes:
            return
        for text in (reply.model, reply.response_id, *reply.finish_reasons):
            if text and not text.isascii():
                attributes = encodable(attributes)
                break
        if self.is_detailed:
            self.shown.update(attributes)
        if op.span is not None and not op.adopted:
            op.span.set_attributes(attributes)

    def _spend(self, cost: float | None) -> dict[str, Any]:
        """Count what the call has cost, None if that is not known; return it as attributes."""
        attributes = spend(self.op, cost, self.shape.counts, self.exemplar)
        if self.op.adopted and self.op.annotation is None:
            put_on(self.op.span, attributes)  # the other library has the rest
        return attributes

    def _count_tokens(self, usage: Mapping[str, int], attributes: dict[str, Any]) -> None:
        op, cells = self.op, self.shape.counts
        summed = op.turn.usage if op.turn is not None else None
        for name, tokens in usage.items():
            if name not in _TOKENS or not (tokens or (tokens == 0 and name in _TOKEN_TYPES)):
                continue  # none from a cache, or for reasoning
            attribute, metric = _TOKENS[name]
            attributes[attribute] = tokens
            if op.annotation is None:
                cells[metric].add(tokens, self.exemplar)
            if summed is not None:
                summed[name] = summed.get(name, 0) + tokens
        if self.rt.instruments.token_histogram and self.op.annotation is None:
            self._record_tokens(usage)

    def _record_tokens(self, usage: Mapping[str, int]) -> None:
        """Record tokens in histograms too."""
        instruments, counted = self.rt.instruments, self._counted(None)
        for name, (kind, metric) in _TOKEN_TYPES.items():
            if (tokens := usage.get(name)) is None:
                continue
            instruments.record(metric, tokens, counted, self.exemplar)
            if instruments.old_model_metrics:
                old = semconv.METRIC_GEN_AI_CLIENT_TOKEN_USAGE
                attributes = {**counted, semconv.GEN_AI_TOKEN_TYPE: kind}
                instruments.record(old, tokens, attributes, self.exemplar)

    @fails_open
    def _show(self, reply: ModelReply) -> None:
        """Record the answer that is passed on, if content is captured: on span and event."""
        op, content = self.op, self.rt.content
        message = output_message(reply.text, reply.tool_calls, reply.finish_reasons)
        if content.on_span and op.span is not None and not op.adopted:
            op.span.set_attribute(semconv.GEN_AI_OUTPUT_MESSAGES, content.span_messages([message]))
        if content.on_event:
            self.shown[semconv.GEN_AI_OUTPUT_MESSAGES] = content.event_messages([message])

    def _details(self) -> None:
        """Emit the optional event that describes the whole call."""
        rt, span, content = self.rt, self.op.span, self.rt.content
        if content.on_event:
            said = self._said()
            self.shown[_INPUT] = content.event_messages(said.pop(_INPUT))
            self.shown.update((name, content.event_value(one)) for name, one in said.items())
        context = trace.set_span_in_context(span) if span is not None else None
        name = semconv.EVENT_GEN_AI_OPERATION_DETAILS
        rt.events.emit(name, _DEBUG, self.shown, context=context)

    def _tell(self, point: str, **fields: Any) -> Generator[Run, Any, None]:
        yield from self.rt.tell(self.hooks, point, self.op.context, **fields)


model = _ModelCall.run


_GIVEN_ROLES = frozenset(("system", "developer", "user"))
_GIVEN_PARTS = frozenset(("text", "blob", "file", "uri"))


def _is_past(message: Mapping[str, Any]) -> bool:
    """Return whether a message shows a past: an answer or a tool call, not a user's message."""
    parts: Any = message.get("parts") or ()
    return message.get("role") not in _GIVEN_ROLES or any(
        part.get("type") not in _GIVEN_PARTS for part in parts
    )


_SUCCESSES = frozenset(("ok", "denied", "answered", "withheld"))


def _arguments(args: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", args) if isinstance(args, dict) else {}
