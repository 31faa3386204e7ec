"""The model calls of the OpenAI Agents SDK, for any provider.

The SDK asks one function for the model of each turn; it gets a stand-in whose two call methods are
the seat, so that models created before `instrument()`, subclasses and retries are covered. The
history of a call grows with the run: nothing of it or of the answer is read before it is needed.

Items, responses, events of a stream and usage are records of the ``openai`` package, or mappings
with the same names, for any provider.
"""
# pyright: basic

from __future__ import annotations

import functools
import json
import operator
import weakref
from collections.abc import AsyncIterator, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.contents import field
from otelhooks.frameworks.kit.objects import outer
from otelhooks.frameworks.openai_agents.builtin import TABLE, hosted
from otelhooks.frameworks.openai_agents.tools import FunctionCall, locate

__all__ = ["ModelCall", "canned", "choose_model", "events_of", "guarded"]

_NAMES = (
    "system_instructions",
    "input",
    "model_settings",
    "tools",
    "output_schema",
    "handoffs",
    "tracing",
)
_responses = kit.module("openai.types.responses")
_HANDOFF = "agents.handoffs:Handoff"
_SETTINGS = ("temperature", "top_p", "max_tokens", "tool_choice", "parallel_tool_calls")
_UNSET = (None,) * len(_SETTINGS)
_settings_of = operator.attrgetter(*_SETTINGS)
_CALLS = {  # kinds of calls, and the name of those without one
    "function_call": "",
    "custom_tool_call": "",
    "shell_call": "shell",
    "local_shell_call": "local_shell",
}


# -- forms of an answer -----------------------------------------------------------------------


def text_of(item: Any) -> str:
    """Return the text of a message."""
    return "".join(field(part, "text") or "" for part in field(item, "content") or ())


def message(text: str) -> Any:
    """Return a message of the assistant."""
    part = _responses.ResponseOutputText(type="output_text", text=text, annotations=[])
    return _responses.ResponseOutputMessage(
        id="msg_otelhooks",
        type="message",
        role="assistant",
        status="completed",
        content=[part],
    )


def function_call(part: kit.Part) -> Any:
    """Return a call of a function tool, as a model asks for it."""
    return _responses.ResponseFunctionToolCall(
        type="function_call",
        call_id=part.id or "call_otelhooks",
        name=part.name,
        arguments=json.dumps(part.args),
    )


def response_of(output: Sequence[Any], usage: Any = None, response_id: str | None = None) -> Any:
    """Return an answer of a model.

    Args:
        output: Its items.
        usage: Tokens, in the SDK's form; zero if not given.
        response_id: The provider's id.
    """
    usage = kit.native("agents.usage:Usage")() if usage is None else usage
    response = kit.native("agents.items:ModelResponse")
    return response(output=list(output), usage=usage, response_id=response_id)


def last_response(events: Sequence[Any]) -> Any:
    """Return the answer in a stream's events, without content if the stream did not end."""
    for event in reversed(events):
        found = getattr(event, "response", None)
        if found is not None and getattr(event, "type", "") == "response.completed":
            usage = kit.native("agents.usage:Usage")
            counted = None if found.usage is None else usage(requests=1, **_tokens(found.usage))
            return response_of(found.output, counted, found.id)
    return response_of(())


def events_of(answer: Any) -> list[Any]:
    """Return the events of a stream that contains an answer."""
    output = list(answer.output)
    told = [(index, one) for index, one in enumerate(output) if field(one, "type") == "message"]
    events = [
        _responses.ResponseTextDeltaEvent(
            type="response.output_text.delta",
            content_index=0,
            output_index=index,
            item_id=item.id,
            delta=text_of(item),
            logprobs=[],
            sequence_number=number,
        )
        for number, (index, item) in enumerate(told)
    ]
    usage = _responses.ResponseUsage
    response = _responses.Response(
        id=answer.response_id or "resp_otelhooks",
        created_at=0,
        model="",
        object="response",
        output=output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        usage=usage.model_construct(**_tokens(answer.usage)),
    )
    last = {"response": response, "sequence_number": len(events)}
    return [*events, _responses.ResponseCompletedEvent(type="response.completed", **last)]


def _tokens(usage: Any) -> dict[str, Any]:
    names = ("input_tokens", "output_tokens", "total_tokens")
    details = ("input_tokens_details", "output_tokens_details")
    return {name: getattr(usage, name) for name in (*names, *details)}


# -- calls ------------------------------------------------------------------------------------


class ModelCall(kit.ModelCall):
    """A call of ``Model.get_response``."""

    table = kit.PartTable(made={"text": lambda part: message(part.text), "call": function_call})
    tokens: ClassVar = {
        "cache_read_input_tokens": "input_tokens_details.cached_tokens",
        "reasoning_output_tokens": "output_tokens_details.reasoning_tokens",
    }
    hosted = staticmethod(hosted)

    def read(self, owner: Any, *args: Any, **kwargs: Any) -> None:
        """Read a call, which the SDK makes by name or by position."""
        chosen = owner.__wrapped__
        self.positional = _NAMES[: len(args)]
        self.arguments = {**dict(zip(_NAMES, args, strict=False)), **kwargs} if args else kwargs
        named = self.arguments.get
        model, given = getattr(chosen, "model", None), named("input")
        self.model, self.agent = model if isinstance(model, str) else "", owner._self_of
        self.provider = provider_in(type(chosen).__module__)
        is_text = isinstance(given, str)
        self.messages = [{"role": "user", "content": given}] if is_text else list(given or ())
        self.tools = [*(named("tools") or ()), *(named("handoffs") or ())]
        settings = named("model_settings")
        try:
            values = _settings_of(settings)
        except AttributeError:  # None, or of another class
            values = tuple(getattr(settings, name, None) for name in _SETTINGS)
        self.settings = {}
        if values != _UNSET:
            pairs = zip(_SETTINGS, values, strict=True)
            self.settings = {name: value for name, value in pairs if value is not None}
        if instructions := named("system_instructions"):
            self.settings["instructions"] = instructions

    def call(self, wrapped: Any) -> Any:
        """Call the model as the SDK did, by position or by name: a user's may use other names."""
        given = {**self.arguments}
        if self.is_rewritten:
            given["input"] = self.messages
            given["handoffs"] = [one for one in self.tools if kit.is_a(one, _HANDOFF)]
            given["tools"] = [one for one in self.tools if not kit.is_a(one, _HANDOFF)]
        first = [*map(given.pop, self.positional)]
        return wrapped(*first, **given)

    @property
    def is_typed(self) -> bool:  # type: ignore[override]
        """Whether the answer must be JSON of the user's own type."""
        schema = self.arguments.get("output_schema")
        return schema is not None and not schema.is_plain_text()

    def offered(self, definition: Any) -> Any:
        """Return a call of a defined tool, as its seat will read it."""
        name = getattr(definition, "tool_name", None) or getattr(definition, "name", None)
        if not isinstance(name, str) or not name:
            return None
        call = FunctionCall()
        call.name = name
        if kit.is_a(definition, "agents.tool:FunctionTool"):
            locate(call, definition.on_invoke_tool, definition)
        elif (built_in := TABLE.of(definition)) is not None:
            call.kind = built_in.kind
            if built_in.kind != "file_write":  # what a patch does is unknown before the call
                call.canonical = built_in.canonical
        return call

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        kept = () if of is None else (of.usage, of.response_id)
        return response_of(parts, *kept)

    def about(self, raw: Any) -> tuple[Any, ...]:
        return raw.usage, None, raw.response_id

    def asks(self, raw: Any) -> dict[str, str]:
        """Return the names of the tools that the SDK will run here, by ids of the calls."""
        return {
            id: name
            for item in raw.output
            if (name := self.runs(item)) and (id := field(item, "call_id"))
        }

    def parts(self, message: Any) -> Iterable[kit.Part]:
        """Read the items of an answer; calls that the provider runs are not ours."""
        for item in message.output:
            if field(item, "type") == "message":
                yield kit.Part("text", item, text_of(item))
            elif name := self.runs(item):
                text = field(item, "arguments") or field(item, "input")
                args = FunctionCall.arguments_in(text, FunctionCall.text_name)
                yield kit.Part("call", item, "", name, field(item, "call_id") or "", args)
            else:
                yield kit.Part("other", item)

    def runs(self, item: Any) -> str:
        """Return the name in a call that the SDK will run here; empty for other items."""
        kind = field(item, "type")
        if kind not in _CALLS:
            return ""
        name = field(item, "name") or _CALLS[kind]
        for one in self.tools:
            if getattr(one, "name", None) == name or getattr(one, "tool_name", None) == name:
                if kind != "shell_call" or getattr(one, "executor", None) is not None:
                    return name
        return ""  # the provider runs it


class StreamedCall(ModelCall):
    """A call of ``Model.stream_response``."""

    def whole(self, seen: Any) -> Any:
        return last_response(seen)

    def told(self, result: Any) -> Any:
        return events_of(result)


@functools.lru_cache(maxsize=64)
def provider_in(module: str) -> str:
    """Return the provider: ``openai`` for the SDK's own models, else the package of the class.

    Args:
        module: Name of the module that defines the model's class.
    """
    if module.startswith("agents.extensions.models."):
        return module.rpartition(".")[2].removesuffix("_model")
    head = module.partition(".")[0]
    return "openai" if head == "agents" else head


# -- stand-ins --------------------------------------------------------------------------------

_canned: ContextVar[str | None] = ContextVar("otelhooks_openai_agents_answer", default=None)
canned = functools.partial(outer.known, _canned)
"""Makes the runs in a block answer with a text: no model is called, the rest is the SDK's."""

_stand_in = ModelCall.stand_in(
    get_response=(ModelCall, "coroutine"), stream_response=(StreamedCall, "async generator")
)
_stand_ins: weakref.WeakValueDictionary[tuple[int, str], Any] = weakref.WeakValueDictionary()


def guarded(chosen: Any, agent: str) -> Any:
    """Return the stand-in for a model; the same one as long as it is in use.

    The SDK keeps the models of a run by identity, to notify each of them once when the run has
    ended.
    """
    key = (id(chosen), agent)
    found = _stand_ins.get(key)
    if found is None or found.__wrapped__ is not chosen:
        found = _stand_ins[key] = _stand_in(chosen, agent)
    return found


@kit.subclass("agents.models.interface:Model")
def _canned_model(base: Any) -> Any:
    class CannedModel(base):
        """Answers every call with one text."""

        model = ""

        def __init__(self, text: str) -> None:
            self._answer = response_of([message(text)])

        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            return self._answer

        async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            for event in events_of(self._answer):
                yield event

    return CannedModel


def choose_model(wrapped: Any, owner: Any, agent: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the stand-in for the model of a turn, or a model that answers with a text."""
    text = _canned.get()
    if text is not None:
        return _canned_model(text)
    return guarded(wrapped(agent, *args, **kwargs), agent.name)
