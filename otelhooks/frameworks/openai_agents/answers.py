"""The SDK's forms of a model's answer, read and made: items, responses, events of a stream, usage.

They are records of the ``openai`` package or mappings with the same names, whichever provider
answers. Neither package is imported here: the SDK has done so by the time an answer is there.
"""
# pyright: basic

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from otelhooks import types
from otelhooks.frameworks.openai_agents.calls import read_arguments

__all__ = [
    "arguments_of",
    "events_of",
    "field",
    "function_call",
    "id_of",
    "last_response",
    "message",
    "response_of",
    "text_of",
    "usage_of",
]


def field(item: Any, name: str) -> Any:
    """Return what an item holds under a name, None if it holds nothing there."""
    value = getattr(item, name, None)
    return item.get(name) if value is None and isinstance(item, Mapping) else value


def text_of(output: Sequence[Any]) -> str:
    """Return the text of the messages in an answer."""
    parts = (
        field(part, "text") or ""
        for item in output
        if field(item, "type") == "message"
        for part in field(item, "content") or ()
    )
    return "".join(parts)


def id_of(item: Any) -> str:
    """Return the id of the call that an item asks for, empty if it has none."""
    return field(item, "call_id") or ""


def arguments_of(item: Any) -> dict[str, Any]:
    """Return the arguments of the call that an item asks for."""
    return read_arguments(field(item, "arguments") or field(item, "input"))


def usage_of(usage: Any) -> dict[str, int]:
    """Return the tokens that the SDK counted, by our names; nothing where it counted none."""
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
        if field(item, "type") == "message":
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
