"""What a server asks of its client: answers of the user (elicitation), and model calls (sampling).

2.x sends both through `ClientSession.dispatch_input_request`, whether the server asked in a request
of its own or in answer to a tool call. In 1.x the callbacks that a session is made with are the
only place that sees question and answer.
"""
# pyright: basic

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace

from otelhooks import types
from otelhooks.frameworks.mcp import wire
from otelhooks.frameworks.mcp.connections import peer_of
from otelhooks.frameworks.mcp.wire import field
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import adrive
from otelhooks.pipeline.interaction import InteractionSeat, interaction
from otelhooks.pipeline.model_call import ModelReply, ModelRequest, ModelSeat, model
from otelhooks.pipeline.runtime import Runtime
from otelhooks.telemetry import semconv

__all__ = ["ELICITATION", "SAMPLING", "Elicitation", "Sampling", "asked", "made_client"]

ELICITATION = "elicitation/create"
SAMPLING = "sampling/createMessage"

_REJECTED = -1
"""JSON-RPC code of a sampling request that the user rejects (MCP, "Sampling")."""

_ACCEPT, _DECLINE = "accept", "decline"
_CALLBACKS = (("sampling_callback", 3, SAMPLING), ("elicitation_callback", 4, ELICITATION))

Ask = Callable[[Any], Awaitable[Any]]


# -- seats ------------------------------------------------------------------------------------


def asked(wrapped: Any, session: Any, ctx: Any, request: Any) -> Any:
    """Listen to `ClientSession.dispatch_input_request` of 2.x."""
    rt = runtime.active()
    if rt is None or request.method not in (ELICITATION, SAMPLING):
        return wrapped(ctx, request)

    def ask(params: Any) -> Awaitable[Any]:
        return wrapped(ctx, request.model_copy(update={"params": params}))

    return _answer(rt, request.method, session, ctx.meta, request.params, ask)


def made_client(wrapped: Any, session: Any, *given: Any, **kwargs: Any) -> Any:
    """Listen to `ClientSession.__init__` of 1.x: guard the callbacks that it is given."""
    args = list(given)
    for name, place, method in _CALLBACKS:
        if len(args) > place and args[place] is not None:
            args[place] = _guarded(args[place], method)
        elif kwargs.get(name) is not None:
            kwargs = {**kwargs, name: _guarded(kwargs[name], method)}
    return wrapped(*args, **kwargs)


def _guarded(callback: Any, method: str) -> Any:
    async def guarded(context: Any, params: Any) -> Any:
        rt = runtime.active()
        if rt is None:
            return await callback(context, params)
        ask = _Callback(callback, context)
        return await _answer(rt, method, context.session, context.meta, params, ask)

    return guarded


class _Callback:
    """An application's callback, in the context that it is called with."""

    def __init__(self, callback: Any, context: Any) -> None:
        self._callback = callback
        self._context = context

    def __call__(self, params: Any) -> Any:
        return self._callback(self._context, params)


async def _answer(rt: Runtime, method: str, session: Any, meta: Any, params: Any, ask: Ask) -> Any:
    """Answer a server's question, in the context of the call that it stems from."""
    context = _context_of(session, meta)
    token = otel_context.attach(context) if context is not None else None
    try:
        if method == ELICITATION:
            return await adrive(interaction(rt, Elicitation(params)), lambda _: ask(params))
        return await _sample(rt, params, ask)
    finally:
        if token is not None:
            otel_context.detach(token)


def _context_of(session: Any, meta: Any) -> otel_context.Context | None:
    """Return the context that a question belongs to; None for the current one.

    Requests of a server are answered in a task of the session, which knows nothing of the call
    that made the server ask. Where one call is open it must be that; else the server's own word.
    """
    calls = peer_of(session).calls
    if len(calls) == 1:
        return calls[0]
    if trace.get_current_span().get_span_context().is_valid or meta is None:
        return None
    return wire.trace_of(meta if isinstance(meta, Mapping) else meta.model_dump(exclude_none=True))


# -- elicitation ------------------------------------------------------------------------------


class Elicitation(InteractionSeat):
    """A form, or an address to go to; one question for each field of a form."""

    def __init__(self, params: Any) -> None:
        schema = field(params, "requested_schema", "requestedSchema") or {}
        self._message: str = params.message
        self._url = field(params, "url")
        self._fields: dict[str, Any] = dict(schema.get("properties") or {})
        self._required = set(schema.get("required") or ())

    def spec(self) -> types.AskQuestionInteractionSpec:
        """Return the questions; a form without fields, or an address, is to be accepted or not."""
        if not self._fields:
            options = [types.AskQuestionOption(id=word, text=word) for word in (_ACCEPT, _DECLINE)]
            text = f"{self._message} ({self._url})" if self._url else self._message
            entries = [types.AskQuestionEntry(question=text, options=options)]
        else:
            entries = [self._entry(name, shape) for name, shape in self._fields.items()]
        return types.AskQuestionInteractionSpec(questions=entries)

    def _entry(self, name: str, shape: Mapping[str, Any]) -> types.AskQuestionEntry:
        text = self._message
        if len(self._fields) > 1:
            text = f"{text} {shape.get('title') or name}"
            if shape.get("description"):
                text = f"{text}: {shape['description']}"
        inner = shape.get("items") or shape
        options = [
            types.AskQuestionOption(id=str(id), text=str(label)) for id, label in _options(inner)
        ]
        is_multi = shape.get("type") == "array"
        return types.AskQuestionEntry(question=text, options=options, is_multi_select=is_multi)

    def answered(self, answer: Any) -> Any:
        """Return an `ElicitResult` for answers to the questions, or for a form filled in."""
        if field(answer, "action") is not None and not isinstance(answer, Mapping):
            return answer
        if isinstance(answer, Mapping):
            return make_accepted(dict(answer))
        if not isinstance(answer, types.QuestionHookResult):
            msg = f"an elicitation cannot be answered with {type(answer).__name__}"
            raise ValueError(msg)
        if answer.cancelled:
            return wire.make("ElicitResult", action="cancel")
        if not self._fields:
            response = answer.responses[0] if answer.responses else types.QuestionResponse()
            is_accepted = response.selected_option_ids == [_ACCEPT]
            return make_accepted({}) if is_accepted else self.declined()
        if len(answer.responses) != len(self._fields):
            msg = f"{len(answer.responses)} answers to {len(self._fields)} questions"
            raise ValueError(msg)
        content: dict[str, Any] = {}
        for (name, shape), response in zip(self._fields.items(), answer.responses, strict=True):
            if not response.skipped:
                content[name] = _typed(shape, response)
        return make_accepted(content) if self._required <= content.keys() else self.declined()

    def declined(self) -> Any:
        """Return what says that the user declines."""
        return wire.make("ElicitResult", action="decline")


def make_accepted(content: dict[str, Any]) -> Any:
    """Return what says that the user accepts, with a form's content."""
    return wire.make("ElicitResult", action="accept", content=content)


def _options(shape: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    for key in ("oneOf", "anyOf"):
        if key in shape:
            return [(one.get("const"), one.get("title", one.get("const"))) for one in shape[key]]
    if "enum" in shape:
        values = shape["enum"]
        return list(zip(values, shape.get("enumNames") or values, strict=True))
    return [("true", "yes"), ("false", "no")] if shape.get("type") == "boolean" else []


def _typed(shape: Mapping[str, Any], response: types.QuestionResponse) -> Any:
    """Return an answer as the form wants it.

    Raises:
        ValueError: It cannot be read as that.
    """
    chosen = response.selected_option_ids
    kind = shape.get("type")
    if kind == "array":
        return list(chosen or ())
    text = chosen[0] if chosen else response.freeform_response
    if kind == "boolean":
        if text.lower() not in ("true", "false"):
            msg = "neither true nor false"
            raise ValueError(msg)
        return text.lower() == "true"
    if kind == "integer":
        return int(text)
    return float(text) if kind == "number" else text


# -- sampling ---------------------------------------------------------------------------------


class Sampling(ModelSeat):
    """A model call that a server asks its client for; the server runs the tools, not we."""

    framework = "mcp"

    def reply(self, request: ModelRequest, raw: Any) -> ModelReply:
        """Return what the client's model answered."""
        content = field(raw, "content")
        blocks = content if isinstance(content, list) else [content]
        text = "\n".join(field(block, "text") or "" for block in blocks)
        stopped = field(raw, "stop_reason", "stopReason")
        return ModelReply(
            text, finish_reasons=(stopped,) if stopped else (), model=field(raw, "model") or ""
        )

    def refused(self, request: ModelRequest, reason: str) -> Any:
        """Return what tells the server that the user rejects its request."""
        return wire.make("ErrorData", code=_REJECTED, message=reason)

    def answered(self, request: ModelRequest, response: Any) -> Any:
        """Return a text as the model's answer."""
        text = response.text if isinstance(response, types.ModelResponse) else str(response)
        return wire.make(
            "CreateMessageResult",
            role="assistant",
            content={"type": "text", "text": text},
            model=request.model or semconv.SCOPE_NAME,
            stopReason="endTurn",
        )

    def messages(self, request: ModelRequest) -> list[dict[str, Any]]:
        """Return the messages in the form of the conventions."""
        return [
            {"role": message.role, "parts": _parts(message.content)} for message in request.messages
        ]


_SAMPLING = Sampling()


def _parts(content: Any) -> list[dict[str, Any]]:
    blocks = content if isinstance(content, list) else [content]
    return [
        {"type": "text", "content": block.text}
        if block.type == "text"
        else block.model_dump(mode="json", by_alias=True, exclude_none=True)
        for block in blocks
    ]


async def _sample(rt: Runtime, params: Any, ask: Ask) -> Any:
    """Run a sampling request as a model call. An error that the client answers fails the call."""
    preferences = field(params, "model_preferences", "modelPreferences")
    hints = preferences.hints if preferences is not None else None
    request = ModelRequest(
        (hints[0].name if hints else None) or "",
        params.messages,
        tools=field(params, "tools") or (),
        settings=_settings(params),
        attributes={semconv.MCP_METHOD_NAME: SAMPLING},
    )
    given = list(request.tools)

    async def call(approved: ModelRequest) -> Any:
        changed = params
        if approved.is_rewritten:
            update: dict[str, Any] = {"messages": approved.messages}
            if approved.tools != given:
                update["tools"] = approved.tools
            changed = params.model_copy(update=update)
        answer = await ask(changed)
        if field(answer, "code") is not None:
            raise wire.make_error(answer.message, answer.code)
        return answer

    try:
        return await adrive(model(rt, _SAMPLING, request), call)
    except wire.error_class() as error:
        return wire.error_of(error)


def _settings(params: Any) -> dict[str, Any]:
    found = {
        "max_tokens": field(params, "max_tokens", "maxTokens"),
        "temperature": field(params, "temperature"),
    }
    return {name: value for name, value in found.items() if value is not None}
