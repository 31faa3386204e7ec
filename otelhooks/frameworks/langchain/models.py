# pyright: basic, reportMissingImports=false
"""Chat model calls of langchain: how one is read, written, refused and held back."""

from __future__ import annotations

import functools
import operator
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from otelhooks.frameworks import kit
from otelhooks.frameworks.langchain.builtin import hosted
from otelhooks.frameworks.langchain.fields import field
from otelhooks.frameworks.langchain.listeners import is_streaming, without_tokens

__all__ = ["ChatCall", "EventsCall", "StreamedCall", "events_of", "know_tools"]

_MESSAGE = "langchain_core.messages.base:BaseMessage"
_message_of = operator.attrgetter("message")
_FREE_CHOICES = (None, "auto", "none", "any", "required", True, False)

_MAX_TOOLS = 10_000
_local_tools: dict[str, None] = {}


def know_tools(names: Iterable[str]) -> None:
    """Note the tools that nodes of a graph run: a call of one of them passes the tool seat.

    Any other name may be a schema for structured output, or a tool of the provider, which does not
    run here.
    """
    if len(_local_tools) < _MAX_TOOLS:
        _local_tools.update(dict.fromkeys(names))


def events_of(message: Any, id: str) -> Iterable[Any]:
    """Return the events by which ``stream_events(version="v3")`` streams a message."""
    tell = kit.native("langchain_core.language_models._compat_bridge:message_to_events")
    return tell(message, message_id=id)


class ChatCall(kit.ModelCall):
    """A call of a chat model that answers in one piece, a ``ChatResult``.

    Attributes:
        given: What hooks see as messages, in its original form.
        manager: Callback manager of the call.
        further: Keyword arguments, among them ``tools`` in the provider's form.
    """

    table = kit.PartTable(made={"call": lambda part: next(_tool_calls([part], ()))})
    tokens: ClassVar = {
        "cache_read_input_tokens": "input_token_details.cache_read",
        "cache_write_input_tokens": "input_token_details.cache_creation",
        "reasoning_output_tokens": "output_token_details.reasoning",
    }
    hosted = staticmethod(hosted)

    def read(
        self,
        model: Any,
        /,
        messages: Any,
        stop: Any = None,
        run_manager: Any = None,
        **further: Any,
    ) -> Any:
        self.manager, about = run_manager, getattr(run_manager, "metadata", None)
        self.stream = (
            bool(further.get("stream"))
            or field(model, "streaming") is True
            or any(map(is_streaming, getattr(run_manager, "handlers", None) or ()))
        )
        self.takes(model, messages, about, {**further, "stop": stop})

    def takes(self, model: Any, messages: Any, about: Any, further: dict[str, Any]) -> None:
        """Take what all seats of models get.

        Args:
            model: The model.
            messages: Messages of one prompt.
            about: What langchain tells tracers about the model.
            further: All other arguments of the function, by name.
        """
        told: Mapping[str, Any] = about or {}
        name = told.get("ls_model_name")
        name = name or field(model, "model_name") or field(model, "model")
        settings = {
            "temperature": told.get("ls_temperature"),
            "max_tokens": told.get("ls_max_tokens"),
            "stop": further.get("stop") or told.get("ls_stop"),
            "tool_choice": further.get("tool_choice"),
            "response_format": further.get("response_format"),
        }
        self.model = name if isinstance(name, str) else ""
        self.provider = str(told.get("ls_provider") or "").lower()
        self.messages, self.tools = messages, further.get("tools") or []
        self.given = messages
        self.settings = {key: one for key, one in settings.items() if one is not None}
        self.further = further

    def call(self, wrapped: Any) -> Any:
        """Call the model with what hooks wrote, and with a quiet manager if necessary."""
        manager = without_tokens(self.manager) if self.holds_back else self.manager
        return wrapped(self.converted(), run_manager=manager, **self.written())

    def converted(self) -> Any:
        """Return messages as models take them: hooks may use roles and texts, like users."""
        if not self.is_rewritten:
            return self.given
        return kit.native("langchain_core.messages:convert_to_messages")(self.messages)

    def written(self) -> dict[str, Any]:
        """Return the other arguments, with the tools that hooks left."""
        if not self.is_rewritten:
            return self.further
        further = {name: value for name, value in self.further.items() if name != "tools"}
        if self.tools:
            further["tools"] = self.tools
        elif self.further.get("tools"):  # a choice among no tools is an error of the provider
            further.pop("tool_choice", None)
        return further

    @property
    def is_typed(self) -> bool:  # type: ignore[override]
        """Whether an answer in a given form is required: a schema, or the call of one tool."""
        settings = self.settings or {}
        choice = settings.get("tool_choice")
        return settings.get("response_format") is not None or choice not in _FREE_CHOICES

    # -- answers ------------------------------------------------------------------------------

    def candidates(self, raw: Any) -> list[Any]:
        """Return the messages in an answer; agents continue with the first."""
        return list(map(_message_of, getattr(raw, "generations", None) or ()))

    def about(self, raw: Any) -> tuple[Any, ...]:
        found = self.candidates(raw)
        if not found:
            return ()
        message = found[0]
        about: Mapping[str, Any] = getattr(message, "response_metadata", None) or {}
        reason = about.get("finish_reason") or about.get("stop_reason")
        name = about.get("model_name") or about.get("model")
        id = str(about.get("id") or message.id or "")
        if id.startswith(("run-", "lc_run-")):  # without one from the provider, from its run
            id = ""
        reason = reason if isinstance(reason, str) else None
        name = name if isinstance(name, str) else None
        return getattr(message, "usage_metadata", None), reason, id, name

    def asks(self, raw: Any) -> dict[str, str]:
        """Return the calls of the first candidate that a graph here will run."""
        found = self.candidates(raw)
        calls = getattr(found[0], "tool_calls", None) if found else None
        return {
            call["id"]: call["name"]
            for call in calls or ()
            if call["id"] and call["name"] in _local_tools
        }

    def parts(self, message: Any) -> Iterable[kit.Part]:
        """Read all candidates; only calls that a graph here will run get ids."""
        for number, found in enumerate(self.candidates(message)):
            text = found.content
            yield kit.Part("text", text=text if isinstance(text, str) else str(found.text))
            for call in getattr(found, "tool_calls", None) or ():
                id = call["id"] or "" if number == 0 and call["name"] in _local_tools else ""
                yield kit.Part("call", name=call["name"], id=id, args=call["args"])

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        """Return an answer of one message; further candidates are dropped."""
        outputs = "langchain_core.outputs"
        generation = kit.native(f"{outputs}:ChatGeneration")(message=parts[0])
        told = getattr(of, "llm_output", None)
        return kit.native(f"{outputs}:ChatResult")(generations=[generation], llm_output=told)

    def answered(self, response: Any) -> Any:
        """Return an answer with a text, a `ModelResponse`, or langchain's own message."""
        return self.changed(None, response)

    def changed(self, raw: Any, response: Any) -> Any:
        if not kit.is_a(response, _MESSAGE):
            found = self.candidates(raw) or [kit.native("langchain_core.messages:AIMessage")("")]
            has_calls = hasattr(response, "tool_calls")
            said = (response.text, response.tool_calls) if has_calls else (str(response), ())
            response = _changed(found[0], *said)
        return self.answer([response], raw)


class StreamedCall(ChatCall):
    """A call of a chat model that user code streams; its chunks add up to one message."""

    def read(  # type: ignore[override]
        self, model: Any, /, input: Any, config: Any = None, *, stop: Any = None, **further: Any
    ) -> Any:
        """Read ``BaseChatModel.stream``, unless it leads to ``invoke`` anyway."""
        if not model._should_stream(async_api=self.is_async, **{**further, "stream": True}):
            return kit.SKIP
        if self.must_wait():  # like langchain for a model that cannot stream
            one_piece = _ain_one_piece if self.is_async else _in_one_piece
            self.function = functools.partial(one_piece, model)
            return kit.SKIP
        try:
            messages = model._convert_input(input).to_messages()
        except Exception:
            messages = [input]  # langchain raises the same when it is called
        about = model._get_ls_params(stop=stop, **further)
        self.takes(model, messages, about, {**further, "stop": stop})
        self.given, self.config = input, config
        return None

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.converted(), self.config, **self.written())

    def whole(self, seen: Any) -> Any:
        return functools.reduce(operator.add, seen) if seen else None

    def told(self, result: Any) -> Any:
        """Return an answer's chunks, like langchain if a model cannot stream."""
        return [result]

    def candidates(self, raw: Any) -> list[Any]:
        return [raw] if raw is not None else []

    def answer(self, parts: list[Any], of: Any = None) -> Any:
        return parts[0]


def _in_one_piece(model: Any, *args: Any, **kwargs: Any) -> Any:
    yield model.invoke(*args, **kwargs)  # which the other seat guards


async def _ain_one_piece(model: Any, *args: Any, **kwargs: Any) -> Any:
    yield await model.ainvoke(*args, **kwargs)


class _Own(NamedTuple):
    """One of our events that was not dispatched yet."""

    event: Any


class EventsCall(StreamedCall):
    """A call whose events user code pulls; those of an agent are below another seat.

    What is streamed here reaches its consumer by `stream.dispatch` and the callback manager, not by
    the generator's items; what is held back, and a hook's replacement, is dispatched once decided.
    """

    def read(  # type: ignore[override]
        self, model: Any, /, messages: Any, *, run_manager: Any, stream: Any, **further: Any
    ) -> Any:
        if self.is_inner():
            return kit.SKIP
        self.manager, self.target, self.filled = run_manager, stream, stream
        about = getattr(run_manager, "metadata", None)
        return self.takes(model, messages, about, further)

    def call(self, wrapped: Any) -> Any:
        """Pull the events, into an unread stream if they are held back."""
        manager = self.manager
        if self.holds_back:
            manager = without_tokens(manager)
            self.filled = type(self.target)(message_id=self.target.message_id)
        return wrapped(self.converted(), run_manager=manager, stream=self.filled, **self.written())

    def note_first_chunk(self) -> None:
        """Do nothing: the first event is not a chunk, but the start of a message."""

    def whole(self, seen: Any) -> Any:
        return self.filled.output_message

    def told(self, result: Any) -> Any:
        return map(_Own, events_of(result, self.target.message_id))

    def deliver(self, item: Any) -> Any:
        """Dispatch what was held back, or is ours; end the call before a message's last event."""
        event = item.event if type(item) is _Own else item
        if self.holds_back or type(item) is _Own:
            self.target.dispatch(event)
            yield self.manager.on_stream_event(event)
        self.is_over = event.get("event") == "message-finish"
        return [event]


# -- reading and writing ----------------------------------------------------------------------


def _changed(message: Any, text: str, asked: Sequence[Any]) -> Any:
    """Return a copy of a message with another text; its origin and usage stay."""
    old = list(getattr(message, "tool_calls", None) or ())
    calls = list(_tool_calls(asked, old))
    update: dict[str, Any] = {"invalid_tool_calls": []}
    if [(c["name"], c["args"]) for c in old] != [(c["name"], c["args"]) for c in calls]:
        further = getattr(message, "additional_kwargs", None) or {}
        kept = {k: v for k, v in further.items() if k not in ("tool_calls", "function_call")}
        update |= {"tool_calls": calls, "tool_call_chunks": [], "additional_kwargs": kept}
    elif text == str(message.text):
        return message
    there = {name: value for name, value in update.items() if hasattr(message, name)}
    return message.model_copy(update={"content": text, **there})


def _tool_calls(asked: Iterable[Any], old: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield calls in langchain's form; the ids that an answer gave are used in their order."""
    ids: dict[str, list[Any]] = {}
    for known in old:
        ids.setdefault(known["name"], []).append(known["id"])
    for call in asked:
        given = ids.get(str(call.name)) or [None]
        id = call.id or given[0] or f"call_{uuid.uuid4().hex}"
        del given[0]
        yield {"name": str(call.name), "args": call.args, "id": id, "type": "tool_call"}
