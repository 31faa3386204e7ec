"""A server's questions to its client: answers of users (elicitation), model calls (sampling).

2.x sends both through `ClientSession.dispatch_input_request`, whether the server asked in a request
of its own or in answer to a tool call. In 1.x only the callbacks of a session see question and
answer.
"""
# pyright: basic

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.contents import field, plain
from otelhooks.frameworks.kit.mcp.questions import Question
from otelhooks.frameworks.kit.telemetry import semconv
from otelhooks.frameworks.mcp import wire
from otelhooks.frameworks.mcp.connections import peer_of

__all__ = ["Elicitation", "Sampling", "asked", "made_client"]

ELICITATION, SAMPLING = "elicitation/create", "sampling/createMessage"

_REJECTED = -1
"""JSON-RPC code of a sampling request that the user rejects (MCP, "Sampling")."""

_ACCEPT, _DECLINE = "accept", "decline"


# -- seats ------------------------------------------------------------------------------------


async def asked(wrapped: Any, session: Any, ctx: Any, request: Any) -> Any:
    """Listen to `ClientSession.dispatch_input_request` of 2.x."""
    given = (wrapped, session, ctx, request)
    if request.method == ELICITATION:
        return await Elicitation.through("coroutine", *given)
    if request.method != SAMPLING:
        return await wrapped(ctx, request)
    try:
        return await Sampling.through("coroutine", *given)
    except wire.error_class() as error:  # `Sampling` raises what the client answers
        return wire.error_of(error)


def made_client(
    wrapped: Any,
    session: Any,
    read_stream: Any,
    write_stream: Any,
    read_timeout_seconds: Any = None,
    sampling_callback: Any = None,
    elicitation_callback: Any = None,
    *rest: Any,
    **further: Any,
) -> Any:
    """Listen to `ClientSession.__init__` of 1.x: guard its callbacks."""
    sampling = _guarded(sampling_callback, "CreateMessageRequest")
    elicitation = _guarded(elicitation_callback, "ElicitRequest")
    given = (read_stream, write_stream, read_timeout_seconds, sampling, elicitation)
    return wrapped(*given, *rest, **further)


def _guarded(callback: Any, kind: str) -> Any:
    if callback is None:
        return None

    async def answer(context: Any, params: Any) -> Any:
        return await asked(ask, context.session, context, wire.make(kind, params=params))

    def ask(context: Any, request: Any) -> Any:
        return callback(context, request.params)

    return answer


def _context_of(session: Any, meta: Any) -> Context | None:
    """Return the context that a question belongs to; None for the current one.

    Requests of a server are answered in a task of the session, which does not know the call that
    made the server ask. If one call is open it must be that; otherwise the server's own word
    decides.
    """
    calls = peer_of(session).calls
    if len(calls) == 1:
        return calls[0]
    if trace.get_current_span().get_span_context().is_valid or meta is None:
        return None
    return wire.trace_of(meta)


# -- elicitation ------------------------------------------------------------------------------


class Elicitation(Question):
    """A form, or an address to visit; one question for each field of a form."""

    def read(self, session: Any, context: Any, request: Any) -> None:
        self.given = (context, request)
        self.runs_in(_context_of(session, context.meta))
        self.of(request.params)

    def of(self, params: Any) -> None:
        self.url = field(params, "url")
        self.form = self.form_of(params.message, field(params, "requested_schema") or {})

    def call(self, wrapped: Any) -> Any:
        return wrapped(*self.given)

    def spec(self) -> Any:
        """Return the questions; a form without fields, or an address, can be accepted or not."""
        text, options = self.form.message, [{"id": id, "text": id} for id in (_ACCEPT, _DECLINE)]
        whole = {"question": f"{text} ({self.url})" if self.url else text, "options": options}
        return self.spec_of({"questions": self.form.questions() or [whole]})

    def answered(self, answer: Any) -> Any:
        """Return an `ElicitResult` for answers to the questions, or for a filled-in form."""
        if isinstance(answer, Mapping):
            return _result(_ACCEPT, content=dict(answer))
        if field(answer, "action") is not None:
            return answer
        if not hasattr(answer, "responses"):
            raise ValueError(f"an elicitation cannot be answered with {type(answer).__name__}")
        if answer.cancelled:
            return _result("cancel")
        if self.form.fields:
            content = self.form.filled_in(answer.responses)
        else:
            chosen = answer.responses[0].selected_option_ids if answer.responses else None
            content = {} if chosen == [_ACCEPT] else None
        return self.declined() if content is None else _result(_ACCEPT, content=content)

    def declined(self) -> Any:
        return _result(_DECLINE)


def _result(action: str, **further: Any) -> Any:
    return wire.make("ElicitResult", action=action, **further)


# -- sampling ---------------------------------------------------------------------------------


def _text(text: str) -> Any:
    return wire.make("TextContent", type="text", text=text)


def _message(role: str) -> Any:
    return lambda text: wire.make("SamplingMessage", role=role, content=_text(text))


class Sampling(kit.ModelCall):
    """A model call that a server requests of its client; the server runs the tools, not we."""

    table = kit.PartTable(
        made={"text": lambda part: _text(part.text)},
        kind="type",
        messages={"assistant": _message("assistant"), "": _message("user")},
        between="\n",
    )

    def read(self, session: Any, context: Any, request: Any) -> None:
        self.given, params = (context, request), request.params
        self.runs_in(_context_of(session, context.meta))
        hints = field(field(params, "model_preferences"), "hints")
        self.model = (hints[0].name if hints else None) or ""
        self.messages, self.tools = list(params.messages), list(field(params, "tools") or ())
        settings = {name: field(params, name) for name in ("max_tokens", "temperature")}
        self.settings = {name: value for name, value in settings.items() if value is not None}
        self.attributes = {semconv.MCP_METHOD_NAME: SAMPLING}

    async def call(self, wrapped: Any) -> Any:
        """Make it; an error that the client answers fails the call."""
        context, request = self.given
        if self.is_rewritten:
            changes: dict[str, Any] = {"messages": self.natives()}
            if self.tools != list(field(request.params, "tools") or ()):
                changes["tools"] = self.tools
            request = wire.copy_request(request, **changes)
        answer = await wrapped(context, request)
        if field(answer, "code") is not None:
            raise wire.make_error(answer.message, answer.code)
        return answer

    def about(self, raw: Any) -> tuple[Any, ...]:
        return None, field(raw, "stop_reason"), None, field(raw, "model")

    def parts(self, message: Any) -> Any:
        """Read texts; anything else, such as pictures and calls of the server's tools, stays."""
        content = field(message, "content")
        for block in content if isinstance(content, list) else [content]:
            if field(block, "type") == "text":
                yield kit.Part("text", block, field(block, "text"))
            else:
                yield kit.Part("other", block, args=plain(block))

    def role(self, part: kit.Part, message: Any) -> str:
        return message.role

    def denied(self, reason: str) -> Any:
        """Return the answer that the user rejects the server's request."""
        return wire.make("ErrorData", code=_REJECTED, message=reason)

    def answered(self, response: Any) -> Any:
        """Return a text as the model's answer: the server runs tools, and asks for them."""
        return super().answered(getattr(response, "text", response))

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        if isinstance(field(of, "content"), list):  # the model was offered tools
            return of.model_copy(update={"content": parts})
        return wire.make(
            "CreateMessageResult",
            role="assistant",
            content=_text("\n".join(field(part, "text") or "" for part in parts)),
            model=self.model or semconv.SCOPE_NAME,
            stopReason="endTurn",
        )
