"""Read and write the model calls of the OpenAI Agents SDK, whichever provider makes them.

The SDK asks one function for the model of each turn; what it gets is a stand-in whose two ways to
call are the seat, so that models made before `instrument()`, subclasses and retries are covered.
The history that a call is given grows with the run: nothing of it, of the settings or of the answer
is read before somebody looks.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import contextvars
import functools
import json
import sys
import weakref
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

import wrapt

from otelhooks import types
from otelhooks.errors import Denied
from otelhooks.hooks.calls import Call
from otelhooks.instrumentation import _runtime
from otelhooks.instrumentation._copies import is_a
from otelhooks.instrumentation._drive import adrive
from otelhooks.instrumentation._model import ModelReply, ModelRequest, ModelSeat, model
from otelhooks.instrumentation._openai_agents_builtin import SHELL
from otelhooks.instrumentation._openai_agents_calls import read_arguments
from otelhooks.instrumentation._openai_agents_tools import locate
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
_HANDOFF = ("agents.handoffs", "Handoff")
_FUNCTION = ("agents.tool", "FunctionTool")
_SHELLS = (("agents.tool", "ShellTool"), ("agents.tool", "LocalShellTool"))
_SETTINGS = ("temperature", "top_p", "max_tokens", "tool_choice", "parallel_tool_calls")
_CALLS = {  # kinds of calls, and the name of those that say none
    "function_call": "",
    "custom_tool_call": "",
    "shell_call": "shell",
    "local_shell_call": "local_shell",
}
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


class Settings(Mapping[str, Any]):
    """What a model is called with besides messages and tools, read when somebody looks.

    Args:
        arguments: The call's, by name.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments

    @functools.cached_property
    def _found(self) -> dict[str, Any]:
        settings = self._arguments.get("model_settings")
        found = {name: getattr(settings, name, None) for name in _SETTINGS}
        found["instructions"] = self._arguments.get("system_instructions") or None
        return {name: value for name, value in found.items() if value is not None}

    def __getitem__(self, name: str) -> Any:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class AgentsRequest(ModelRequest):
    """A model call with what its seat needs to write it.

    Attributes:
        arguments: All arguments by name.
        positional: How many of them were given by position.
    """

    __slots__ = ("arguments", "positional")

    def __init__(
        self,
        chosen: Any,
        agent: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        stream: bool,
    ) -> None:
        """Read a call of `Model.get_response` or `Model.stream_response`."""
        self.arguments = kwargs if not args else {**dict(zip(_NAMES, args, strict=False)), **kwargs}
        self.positional = len(args)
        named = self.arguments.get
        model, given = getattr(chosen, "model", None), named("input")
        super().__init__(
            model if isinstance(model, str) else "",
            [{"role": "user", "content": given}] if isinstance(given, str) else given or (),
            provider=provider_in(type(chosen).__module__),
            tools=[*(named("tools") or ()), *(named("handoffs") or ())],
            settings=Settings(self.arguments),
            agent=agent,
            stream=stream,
        )

    def call(self, function: Callable[..., Any]) -> Any:
        """Call a model's function as the SDK did, with what hooks wrote."""
        written = self.written()
        if not self.positional:
            return function(**written)
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
        return {
            **self.arguments,
            "input": self.messages,
            "tools": [one for one in self.tools if not is_a(one, _HANDOFF)],
            "handoffs": [one for one in self.tools if is_a(one, _HANDOFF)],
        }


@functools.lru_cache(maxsize=64)
def provider_in(module: str) -> str:
    """Return who answers: ``openai`` for the SDK's own models, else the package of the class.

    Args:
        module: Name of the module that the model's class is from.
    """
    if module.startswith("agents.extensions.models."):
        return module.rpartition(".")[2].removesuffix("_model")
    head = module.partition(".")[0]
    return "openai" if head == "agents" else head


def _get(item: Any, name: str) -> Any:
    value = getattr(item, name, None)
    return item.get(name) if value is None and isinstance(item, Mapping) else value


class AgentsReply(ModelReply):
    """An answer whose text, and whose calls' arguments, are read when somebody looks.

    Args:
        output: The answer's items.
        asked: Those that ask for calls that the SDK will run here, with the names of the tools.
        usage: Tokens by name.
        response_id: The provider's id.
    """

    def __init__(
        self,
        output: Sequence[Any],
        asked: Sequence[tuple[Any, str]],
        usage: Mapping[str, int],
        response_id: str,
    ) -> None:
        self._output = output
        self._asked = asked
        self.usage = usage
        self.finish_reasons = ["tool_call" if asked else "stop"] if output else ()
        self.response_id = response_id
        self.model = ""

    @property
    def asked(self) -> dict[str, str]:
        """Names of the tools that it asks for, by the ids of the calls."""
        return {id: name for item, name in self._asked if (id := _id_of(item))}

    @functools.cached_property
    def text(self) -> str:  # type: ignore[override]
        """Text of the answer."""
        return text_of(self._output)

    @functools.cached_property
    def tool_calls(self) -> list[tuple[str, str, dict[str, Any]]]:  # type: ignore[override]
        """Calls that it asks for: id, name, arguments."""
        return [(_id_of(item), name, _arguments_of(item)) for item, name in self._asked]


class _ModelSeat(ModelSeat):
    framework = "openai_agents"

    def reply(self, request: ModelRequest, raw: Any) -> ModelReply:
        output = raw.output
        asked = [(item, name) for item in output if (name := _asked_name(request, item))]
        return AgentsReply(output, asked, _usage(raw.usage), raw.response_id or "")

    def tool(self, definition: Any) -> Call | None:
        name = getattr(definition, "tool_name", None) or getattr(definition, "name", None)
        if not isinstance(name, str) or not name:
            return None
        if is_a(definition, *_SHELLS):
            return Call(name, {}, **SHELL)
        call = Call(name, {})
        if is_a(definition, _FUNCTION):
            locate(call, definition.on_invoke_tool, definition)
        return call

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
            if _get(item, "type") == "message":
                output += [message(text)] if text else []
                text = ""
            elif kept is None or not _asked_name(request, item):
                output.append(item)
            elif _id_of(item) in kept:
                asked = kept[_id_of(item)]
                is_same = asked.args == _arguments_of(item)
                output.append(item if is_same else function_call(asked))
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


def _asked_name(request: ModelRequest, item: Any) -> str:
    """Return the name in a call that the SDK will run here; empty if an item is no such call."""
    kind = _get(item, "type")
    if kind not in _CALLS:
        return ""
    name = _get(item, "name") or _CALLS[kind]
    for one in request.tools:
        if getattr(one, "name", None) == name or getattr(one, "tool_name", None) == name:
            if kind != "shell_call" or getattr(one, "executor", None) is not None:
                return name
    return ""  # the provider runs it


def _id_of(item: Any) -> str:
    return _get(item, "call_id") or ""


def _arguments_of(item: Any) -> dict[str, Any]:
    return read_arguments(_get(item, "arguments") or _get(item, "input"))


def _usage(usage: Any) -> dict[str, int]:
    if not getattr(usage, "total_tokens", 0):
        return {}
    found = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    cached = getattr(usage.input_tokens_details, "cached_tokens", None)
    reasoning = getattr(usage.output_tokens_details, "reasoning_tokens", None)
    if cached is not None:
        found["cache_read_input_tokens"] = cached
    if reasoning is not None:
        found["reasoning_output_tokens"] = reasoning
    return found


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

    def get_response(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Call the model through the pipeline."""
        rt, chosen = _runtime.active(), self.__wrapped__
        if rt is None:
            return chosen.get_response(*args, **kwargs)
        request = AgentsRequest(chosen, self._self_agent, args, kwargs, stream=False)
        operation = model(rt, _SEAT, request)
        return adrive(operation, lambda approved: approved.call(chosen.get_response))

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Call the model through the pipeline, for its events."""
        rt, chosen = _runtime.active(), self.__wrapped__
        if rt is None:
            return chosen.stream_response(*args, **kwargs)
        request = AgentsRequest(chosen, self._self_agent, args, kwargs, stream=True)
        return astream(
            model(rt, _SEAT, request),
            lambda approved: approved.call(chosen.stream_response),
            final=last_response,
            chunks=events_of,
            holds_back=lambda: request.holds_back,
            on_first=request.note_first_chunk,
        )


_stand_ins: weakref.WeakValueDictionary[tuple[int, str], GuardedModel]
_stand_ins = weakref.WeakValueDictionary()


def guarded(chosen: Any, agent: str) -> GuardedModel:
    """Return the stand-in for a model; the same one while anybody holds it.

    The SDK keeps the models of a run by identity, to tell each of them once when the run has ended.
    """
    key = (id(chosen), agent)
    found = _stand_ins.get(key)
    if found is None or found.__wrapped__ is not chosen:
        found = _stand_ins[key] = GuardedModel(chosen, agent)
    return found


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

    async def _cleanup_on_run_end(self, owner: object) -> None:
        """Have nothing to clean up."""


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
    return guarded(wrapped(*args, **kwargs), agent.name)
