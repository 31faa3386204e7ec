"""Read and write the model calls of the OpenAI Agents SDK, whichever provider makes them.

The SDK asks one function for the model of each turn; what it gets is a stand-in whose two ways to
call are the seat, so that models made before `instrument()`, subclasses and retries are covered.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import contextvars
import json
import sys
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from typing import Any

import wrapt

from otelhooks import types
from otelhooks.errors import Denied
from otelhooks.instrumentation import _runtime
from otelhooks.instrumentation._drive import adrive
from otelhooks.instrumentation._model import ModelReply, ModelRequest, ModelSeat, model
from otelhooks.instrumentation._openai_agents_calls import read_arguments
from otelhooks.instrumentation._streams import astream

__all__ = ["canned", "choose_model"]

_NAMES = (
    "system_instructions",
    "input",
    "model_settings",
    "tools",
    "output_schema",
    "handoffs",
    "tracing",
)
_SETTINGS = ("temperature", "top_p", "max_tokens", "tool_choice", "parallel_tool_calls")
_CALLS = frozenset(("function_call", "custom_tool_call", "shell_call", "local_shell_call"))
_canned: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "otelhooks_openai_agents_answer", default=None
)


@contextlib.contextmanager
def canned(text: str) -> Generator[None, None, None]:
    """Have the runs in a block answer with a text: no model is called, all else is the SDK's."""
    token = _canned.set(text)
    try:
        yield
    finally:
        _canned.reset(token)


class AgentsRequest(ModelRequest):
    """A model call with what its seat needs to write it.

    Attributes:
        arguments: All arguments by name.
        positional: How many of them were given by position.
    """

    __slots__ = ("arguments", "positional")

    def __init__(self, arguments: dict[str, Any], positional: int, model: str, **more: Any) -> None:
        given = arguments.get("input")
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
        super().__init__(model, messages, **more)
        self.arguments = arguments
        self.positional = positional

    def call(self, function: Callable[..., Any]) -> Any:
        """Call a model's function as the SDK did, with what hooks wrote."""
        written = self.written()
        names = _NAMES[: self.positional]
        rest = {name: value for name, value in written.items() if name not in names}
        return function(*(written[name] for name in names), **rest)

    @property
    def answer_is_typed(self) -> bool:
        """Whether the answer must be JSON of the user's own type."""
        schema = self.arguments.get("output_schema")
        return schema is not None and not schema.is_plain_text()

    def written(self) -> dict[str, Any]:
        """Return the arguments, with what hooks wrote."""
        if not self.is_rewritten:
            return self.arguments
        is_handoff = sys.modules["agents.handoffs"].Handoff
        return {
            **self.arguments,
            "input": self.messages,
            "tools": [one for one in self.tools if not isinstance(one, is_handoff)],
            "handoffs": [one for one in self.tools if isinstance(one, is_handoff)],
        }


def read_model_call(
    chosen: Any, agent: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], stream: bool
) -> AgentsRequest:
    """Read a call of `Model.get_response` or `Model.stream_response`."""
    arguments = {**dict(zip(_NAMES, args, strict=False)), **kwargs}
    settings = arguments.get("model_settings")
    found = {name: getattr(settings, name, None) for name in _SETTINGS}
    if arguments.get("system_instructions"):
        found["instructions"] = arguments["system_instructions"]
    name = getattr(chosen, "model", None)
    return AgentsRequest(
        arguments,
        len(args),
        name if isinstance(name, str) else "",
        provider=provider_of(chosen),
        tools=[*(arguments.get("tools") or ()), *(arguments.get("handoffs") or ())],
        settings={name: value for name, value in found.items() if value is not None},
        agent=agent,
        stream=stream,
    )


def provider_of(chosen: Any) -> str:
    """Return who answers: ``openai`` for the SDK's own models, else the package of the class."""
    module = type(chosen).__module__
    if module.startswith("agents.extensions.models."):
        return module.rpartition(".")[2].removesuffix("_model")
    head = module.partition(".")[0]
    return "openai" if head == "agents" else head


def _get(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


class _ModelSeat(ModelSeat):
    framework = "openai_agents"

    def reply(self, request: ModelRequest, raw: Any) -> ModelReply:
        calls = [call for item in raw.output if (call := _read_call(request, item)) is not None]
        return ModelReply(
            text_of(raw.output),
            calls,
            _usage(raw.usage),
            ["tool_call" if calls else "stop"] if raw.output else (),
            raw.response_id or "",
        )

    def tool_name(self, definition: Any) -> str:
        return getattr(definition, "tool_name", None) or super().tool_name(definition)

    def refused(self, request: AgentsRequest, reason: str) -> Any:  # type: ignore[override]
        if request.answer_is_typed:
            raise Denied(reason)  # a reason is no JSON of the user's type
        return response_of([message(reason)])

    def answered(self, request: ModelRequest, response: Any) -> Any:
        if not isinstance(response, types.ModelResponse):
            return response_of([message(str(response))])
        output = [message(response.text)] if response.text else []
        output += [function_call(call) for call in response.tool_calls]
        return response_of(output)

    def with_response(self, request: ModelRequest, raw: Any, response: Any) -> Any:
        """Put a text in the place of the message, and leave out calls that a hook left out."""
        text = response.text if isinstance(response, types.ModelResponse) else str(response)
        kept: dict[str, Any] | None = None
        if isinstance(response, types.ModelResponse):
            kept = {call.id or "": call for call in response.tool_calls}
        output: list[Any] = []
        for item in raw.output:
            call = _read_call(request, item)
            if _get(item, "type") == "message":
                output += [message(text)] if text else []
                text = ""
            elif call is None or kept is None:
                output.append(item)
            elif call[0] in kept:
                asked = kept[call[0]]
                output.append(item if asked.args == call[2] else function_call(asked))
        if text:
            output.append(message(text))
        changed = response_of(output)
        changed.usage, changed.response_id = raw.usage, raw.response_id
        return changed


_SEAT = _ModelSeat()


def text_of(output: Sequence[Any]) -> str:
    """Return the text of the messages in an answer."""
    parts = (
        _get(part, "text") or ""
        for item in output
        if _get(item, "type") == "message"
        for part in _get(item, "content") or ()
    )
    return "".join(parts)


def _read_call(request: ModelRequest, item: Any) -> tuple[str, str, dict[str, Any]] | None:
    """Return id, name and arguments of a call that the SDK will run here, else None."""
    kind = _get(item, "type")
    if kind not in _CALLS:
        return None
    name = _get(item, "name") or {"shell_call": "shell", "local_shell_call": "local_shell"}.get(
        kind, ""
    )
    if not any(_SEAT.tool_name(one) == name for one in request.tools):
        return None
    if kind == "shell_call" and not any(
        getattr(one, "executor", None) is not None and one.name == name for one in request.tools
    ):
        return None  # a hosted shell
    args = read_arguments(_get(item, "arguments") or _get(item, "input"))
    return _get(item, "call_id") or "", name, args


def _usage(usage: Any) -> dict[str, int] | None:
    if not getattr(usage, "total_tokens", 0):
        return None
    found = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": getattr(usage.input_tokens_details, "cached_tokens", None),
        "reasoning_output_tokens": getattr(usage.output_tokens_details, "reasoning_tokens", None),
    }
    return {name: tokens for name, tokens in found.items() if tokens is not None}


def _responses() -> Any:
    """Return the types of the Responses API, which the SDK has imported."""
    return sys.modules["openai.types.responses"]


def message(text: str) -> Any:
    """Return a message of the assistant."""
    part = _responses().ResponseOutputText(type="output_text", text=text, annotations=[])
    return _responses().ResponseOutputMessage(
        id="msg_otelhooks", type="message", role="assistant", status="completed", content=[part]
    )


def function_call(call: types.ToolCall) -> Any:
    """Return a call of a function tool, as a model asks for it."""
    return _responses().ResponseFunctionToolCall(
        type="function_call",
        call_id=call.id or "call_otelhooks",
        name=str(call.name),
        arguments=json.dumps(call.args),
    )


def response_of(output: Sequence[Any]) -> Any:
    """Return an answer of a model."""
    items, usage = sys.modules["agents.items"], sys.modules["agents.usage"]
    return items.ModelResponse(output=list(output), usage=usage.Usage(), response_id=None)


def last_response(events: Sequence[Any]) -> Any:
    """Return the answer that a stream has told, without content where it did not end."""
    for event in reversed(events):
        found = getattr(event, "response", None)
        if found is not None and getattr(event, "type", "") == "response.completed":
            answer = response_of(found.output)
            answer.response_id = found.id
            if found.usage is not None:
                answer.usage = _sdk_usage(found.usage)
            return answer
    return response_of(())


def _sdk_usage(usage: Any) -> Any:
    return sys.modules["agents.usage"].Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=usage.input_tokens_details,
        output_tokens_details=usage.output_tokens_details,
    )


def events_of(answer: Any) -> list[Any]:
    """Return the events of a stream that tells an answer."""
    events: list[Any] = []
    for index, item in enumerate(answer.output):
        if _get(item, "type") == "message":
            event = _responses().ResponseTextDeltaEvent(
                type="response.output_text.delta",
                content_index=0,
                output_index=index,
                item_id=item.id,
                delta=text_of([item]),
                logprobs=[],
                sequence_number=len(events),
            )
            events.append(event)
    response = _responses().Response(
        id=answer.response_id or "resp_otelhooks",
        created_at=0,
        model="",
        object="response",
        output=list(answer.output),
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        usage=_response_usage(answer.usage),
    )
    events.append(
        _responses().ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=len(events)
        )
    )
    return events


def _response_usage(usage: Any) -> Any:
    return _responses().ResponseUsage.model_construct(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=usage.input_tokens_details,
        output_tokens_details=usage.output_tokens_details,
    )


class GuardedModel(wrapt.ObjectProxy):
    """Stands in for a model during one turn of an agent.

    Args:
        chosen: The model.
        agent: Name of the agent that calls it.
    """

    def __init__(self, chosen: Any, agent: str) -> None:
        super().__init__(chosen)
        self._self_agent = agent

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model through the pipeline."""
        rt, chosen = _runtime.active(), self.__wrapped__
        if rt is None:
            return await chosen.get_response(*args, **kwargs)
        request = read_model_call(chosen, self._self_agent, args, kwargs, stream=False)
        operation = model(rt, _SEAT, request)
        return await adrive(operation, lambda approved: approved.call(chosen.get_response))

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Call the model through the pipeline, for its events."""
        rt, chosen = _runtime.active(), self.__wrapped__
        if rt is None:
            return chosen.stream_response(*args, **kwargs)
        request = read_model_call(chosen, self._self_agent, args, kwargs, stream=True)
        return astream(
            model(rt, _SEAT, request),
            lambda approved: approved.call(chosen.stream_response),
            final=last_response,
            chunks=events_of,
            holds_back=lambda: request.holds_back,
        )


class CannedModel:
    """Answers every call with one text."""

    model = ""

    def __init__(self, text: str) -> None:
        self._answer = response_of([message(text)])

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        """Return the answer."""
        return self._answer

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Tell the answer."""
        for event in events_of(self._answer):
            yield event

    def get_retry_advice(self, request: Any) -> None:
        """Have nothing to say about trying again."""

    async def close(self) -> None:
        """Have nothing to close."""


def choose_model(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of the function that gives the model of a turn."""
    if _runtime.active() is None:
        return wrapped(*args, **kwargs)
    text = _canned.get()
    if text is not None:
        return CannedModel(text)
    agent = args[0] if args else kwargs["agent"]
    return GuardedModel(wrapped(*args, **kwargs), agent.name)
