# pyright: basic, reportMissingImports=false
"""Chat model calls of langchain: how one is read, written, refused and held back."""

from __future__ import annotations

import copy
import functools
import operator
import sys
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from otelhooks import types
from otelhooks.frameworks.langchain.fields import field
from otelhooks.frameworks.langchain.hosted import hosted
from otelhooks.hooks.context import current_branch
from otelhooks.pipeline.frames import Op, current_frame, current_scope
from otelhooks.pipeline.model_seat import ModelReply, ModelRequest, ModelSeat
from otelhooks.pipeline.runtime import Runtime
from otelhooks.telemetry import semconv

__all__ = [
    "ChatSeat",
    "StreamSeat",
    "call",
    "has_transform",
    "is_inside_model_call",
    "is_listened_to",
    "is_streaming",
    "know_tools",
    "quiet",
    "read",
]

_PROVIDERS = {
    "amazon_bedrock": semconv.PROVIDER_AWS_BEDROCK,
    "anthropic": semconv.PROVIDER_ANTHROPIC,
    "azure": semconv.PROVIDER_AZURE_AI_OPENAI,
    "azure_openai": semconv.PROVIDER_AZURE_AI_OPENAI,
    "bedrock": semconv.PROVIDER_AWS_BEDROCK,
    "cohere": semconv.PROVIDER_COHERE,
    "google_genai": semconv.PROVIDER_GCP_GEMINI,
    "google_vertexai": semconv.PROVIDER_GCP_VERTEX_AI,
    "ibm": semconv.PROVIDER_IBM_WATSONX_AI,
    "mistral": semconv.PROVIDER_MISTRAL_AI,
    "mistralai": semconv.PROVIDER_MISTRAL_AI,
    "xai": semconv.PROVIDER_X_AI,
}
"""``ls_provider`` of langchain -> ``gen_ai.provider.name``; any other goes as it is."""

_MAX_TOOLS = 10_000
_local_tools: dict[str, None] = {}


def know_tools(names: Iterable[str]) -> None:
    """Note the tools that nodes of a graph run: a call of one of them passes the tool seat.

    A name that is not among them may be a schema for structured output, or a tool of the provider,
    which nothing here runs.
    """
    if len(_local_tools) < _MAX_TOOLS:
        _local_tools.update(dict.fromkeys(names))


def has_transform(rt: Runtime) -> bool:
    """Say whether answers of models have to wait for a hook."""
    hooks, _ = rt.in_force(current_scope(), current_branch())
    return rt.stream == "buffer" and bool(hooks.at("post_model_call").transformers)


def is_inside_model_call() -> bool:
    """Say whether the code runs below another seat of the very same model call."""
    frame = current_frame()
    return isinstance(frame, Op) and frame.call is None


# -- reading and writing ----------------------------------------------------------------------


def read(
    chat_model: Any, messages: Any, kwargs: Mapping[str, Any], metadata: Any, *, stream: bool
) -> ModelRequest:
    """Read a model call.

    Args:
        chat_model: The model.
        messages: Of one prompt.
        kwargs: Keyword arguments, among them ``tools`` in the provider's form.
        metadata: What langchain tells tracers of the model.
        stream: Whether somebody listens to the tokens.
    """
    told: Mapping[str, Any] = metadata or {}
    name = told.get("ls_model_name")
    name = name or field(chat_model, "model_name") or field(chat_model, "model")
    provider = str(told.get("ls_provider") or "").lower()
    temperature, max_tokens = told.get("ls_temperature"), told.get("ls_max_tokens")
    attributes: dict[str, Any] = {}
    if isinstance(temperature, (int, float)):
        attributes[semconv.GEN_AI_REQUEST_TEMPERATURE] = temperature
    if isinstance(max_tokens, (int, float)):
        attributes[semconv.GEN_AI_REQUEST_MAX_TOKENS] = max_tokens
    return ModelRequest(
        name if isinstance(name, str) else "",
        messages,
        provider=_PROVIDERS.get(provider, provider),
        tools=kwargs.get("tools") or (),
        settings=_given(
            temperature=temperature,
            max_tokens=max_tokens,
            stop=kwargs.get("stop") or told.get("ls_stop"),
            tool_choice=kwargs.get("tool_choice"),
            response_format=kwargs.get("response_format"),
        ),
        stream=stream,
        attributes=attributes,
    )


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def call(wrapped: Any, request: ModelRequest, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Make the call that was approved: its messages, its tools, and a manager that is quiet."""
    if not request.is_rewritten and not request.holds_back:
        return wrapped(*args, **kwargs)
    further = dict(kwargs)
    if request.is_rewritten:
        messages = _as_messages(request.messages)
        if args:
            args = (messages, *args[1:])
        else:
            further["messages"] = messages
        if request.tools:
            further["tools"] = request.tools
        elif further.pop("tools", None):  # a choice among nothing is an error of the provider
            further.pop("tool_choice", None)
    if request.holds_back:
        if len(args) > 2:
            args = (*args[:2], quiet(args[2]), *args[3:])
        elif further.get("run_manager") is not None:
            further["run_manager"] = quiet(further["run_manager"])
    return wrapped(*args, **further)


def _as_messages(messages: Any) -> Any:
    """Return messages as models take them: a hook may give roles and texts, as users may."""
    from langchain_core.messages import convert_to_messages

    return convert_to_messages(messages)


def is_listened_to(chat_model: Any, run_manager: Any, kwargs: Mapping[str, Any]) -> bool:
    """Say whether tokens go to somebody while the model speaks."""
    if kwargs.get("stream") or field(chat_model, "streaming") is True:
        return True
    handlers = getattr(run_manager, "handlers", None)
    return bool(handlers) and any(is_streaming(handler) for handler in handlers)


def is_streaming(handler: Any) -> bool:
    """Say whether a callback handler passes on what it hears while it is said."""
    kinds = sys.modules.get("langchain_core.tracers._streaming")
    if kinds is None:
        return False
    newer = getattr(kinds, "_V2StreamingCallbackHandler", None)
    return isinstance(handler, kinds._StreamingCallbackHandler) or (
        newer is not None and isinstance(handler, newer)
    )


def quiet(run_manager: Any) -> Any:
    """Return a copy of a callback manager that tells nobody of tokens.

    Listeners get the message as a whole, from the manager itself, once it is decided about.
    """
    if run_manager is None:
        return None
    silent = copy.copy(run_manager)
    silent.handlers = [h for h in run_manager.handlers if not is_streaming(h)]
    is_async = type(run_manager).__name__.startswith("Async")
    for name in ("on_llm_new_token", "on_stream_event"):
        setattr(silent, name, _no_answer if is_async else _nothing)
    return silent


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Do nothing."""


async def _no_answer(*_args: Any, **_kwargs: Any) -> None:
    """Do nothing."""


# -- answers ----------------------------------------------------------------------------------


class ChatSeat(ModelSeat):
    """A call of a chat model that answers in one piece, a ``ChatResult``."""

    framework = "langchain"
    hosted = staticmethod(hosted)

    def reply(self, request: ModelRequest, raw: Any) -> ModelReply:
        """Read the first answer; ids stand only at calls that a graph here will run."""
        message = self._message(raw)
        if message is None:
            return ModelReply()
        about: Mapping[str, Any] = getattr(message, "response_metadata", None) or {}
        reason = about.get("finish_reason") or about.get("stop_reason")
        name = about.get("model_name") or about.get("model")
        return ModelReply(
            _text(message),
            [
                (c["id"] or "" if c["name"] in _local_tools else "", c["name"], c["args"])
                for c in getattr(message, "tool_calls", None) or ()
            ],
            _usage(getattr(message, "usage_metadata", None)),
            [reason] if isinstance(reason, str) else [],
            _response_id(about.get("id") or message.id),
            name if isinstance(name, str) else "",
        )

    def refused(self, request: ModelRequest, reason: str) -> Any:
        """Return an answer that says the reason.

        Raises:
            Denied: An answer of a given form was asked for, which a reason has not.
        """
        if _is_typed(request.settings or {}):
            return super().refused(request, reason)
        return self.answered(request, reason)

    def answered(self, request: ModelRequest, response: Any) -> Any:
        """Return an answer with a text, a `ModelResponse`, or langchain's own message."""
        return self._wrap(_as_message(response))

    def with_response(self, request: ModelRequest, raw: Any, response: Any) -> Any:
        """Return the answer with other text and calls; further candidates go."""
        message = self._message(raw)
        if message is None:
            return self.answered(request, response)
        return self._wrap(_changed(message, response), raw)

    def _message(self, raw: Any) -> Any:
        generations = getattr(raw, "generations", None)
        return generations[0].message if generations else None

    def _wrap(self, message: Any, like: Any = None) -> Any:
        from langchain_core.outputs import ChatGeneration, ChatResult

        told = getattr(like, "llm_output", None)
        return ChatResult(generations=[ChatGeneration(message=message)], llm_output=told)


class StreamSeat(ChatSeat):
    """A call of a chat model that user code streams; the raw answer is the list of its chunks."""

    def _message(self, raw: Any) -> Any:
        if isinstance(raw, list):
            return functools.reduce(operator.add, raw) if raw else None
        return raw

    def _wrap(self, message: Any, like: Any = None) -> Any:
        return message

    @staticmethod
    def chunks(result: Any) -> list[Any]:
        """Return the chunks that tell an answer, as langchain does where a model cannot stream."""
        return result if isinstance(result, list) else [result]


def _as_message(response: Any) -> Any:
    from langchain_core.messages import AIMessage, BaseMessage

    if isinstance(response, BaseMessage):
        return response
    if isinstance(response, types.ModelResponse):
        calls = [_tool_call(call, {}) for call in response.tool_calls]
        return AIMessage(response.text, tool_calls=calls)
    return AIMessage(str(response))


def _changed(message: Any, response: Any) -> Any:
    """Return a copy of a message that says something else; whose it is and what it cost stay."""
    from langchain_core.messages import BaseMessage

    if isinstance(response, BaseMessage):
        return response
    if not isinstance(response, types.ModelResponse):
        response = types.ModelResponse(text=str(response))
    old = list(getattr(message, "tool_calls", None) or ())
    ids: dict[str, list[Any]] = {}
    for known in old:
        ids.setdefault(known["name"], []).append(known["id"])
    calls = [_tool_call(call, ids) for call in response.tool_calls]
    if [(c["name"], c["args"]) for c in old] == [(c["name"], c["args"]) for c in calls]:
        calls = old
        if response.text == str(message.text):
            return message
    update: dict[str, Any] = {"content": response.text, "tool_calls": calls}
    kept = {"tool_calls", "function_call"} if calls is not old else set[str]()
    further = getattr(message, "additional_kwargs", None) or {}
    update["additional_kwargs"] = {k: v for k, v in further.items() if k not in kept}
    if hasattr(message, "invalid_tool_calls"):
        update["invalid_tool_calls"] = []
    if hasattr(message, "tool_call_chunks"):
        update["tool_call_chunks"] = [] if calls is not old else message.tool_call_chunks
    return message.model_copy(update=update)


def _tool_call(call: types.ToolCall, ids: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return a call in langchain's form; the ids that an answer gave are used in their order."""
    name = str(call.name)
    known = ids.get(name)
    given = known.pop(0) if known else None
    id = call.id or given or f"call_{uuid.uuid4().hex}"
    return {"name": name, "args": call.args, "id": id, "type": "tool_call"}


def _is_typed(settings: Mapping[str, Any]) -> bool:
    """Say whether an answer of a given form is asked for: a schema, or the call of one tool."""
    if settings.get("response_format") is not None:
        return True
    choice = settings.get("tool_choice")
    return choice is not None and choice not in ("auto", "none", "any", "required", True, False)


def _response_id(value: Any) -> str:
    """Return the provider's id; langchain makes one of its run where there is none."""
    if not isinstance(value, str) or value.startswith(("run-", "lc_run-")):
        return ""
    return value


def _text(message: Any) -> str:
    content = message.content
    return content if isinstance(content, str) else str(message.text)


def _usage(told: Any) -> dict[str, int]:
    if not told:
        return {}
    found = {
        "input_tokens": told.get("input_tokens"),
        "output_tokens": told.get("output_tokens"),
    }
    if inputs := told.get("input_token_details"):
        found["cache_read_input_tokens"] = inputs.get("cache_read")
        found["cache_write_input_tokens"] = inputs.get("cache_creation")
    if outputs := told.get("output_token_details"):
        found["reasoning_output_tokens"] = outputs.get("reasoning")
    return {name: value for name, value in found.items() if isinstance(value, int)}
