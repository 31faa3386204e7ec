"""The SDK's forms of a model's answer: items, responses, events of a stream, usage.

They are records of the ``openai`` package or mappings with the same names, for any provider.
"""
# pyright: basic

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.contents import field

__all__ = [
    "events_of",
    "function_call",
    "last_response",
    "message",
    "response_of",
    "text_of",
]


def text_of(item: Any) -> str:
    """Return the text of a message."""
    return "".join(field(part, "text") or "" for part in field(item, "content") or ())


def _made(kind: str, /, **fields: Any) -> Any:
    return kit.native(f"openai.types.responses:{kind}")(**fields)


def message(text: str) -> Any:
    """Return a message of the assistant."""
    part = _made("ResponseOutputText", type="output_text", text=text, annotations=[])
    return _made(
        "ResponseOutputMessage",
        id="msg_otelhooks",
        type="message",
        role="assistant",
        status="completed",
        content=[part],
    )


def function_call(part: kit.Part) -> Any:
    """Return a call of a function tool, as a model asks for it."""
    return _made(
        "ResponseFunctionToolCall",
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
        _made(
            "ResponseTextDeltaEvent",
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
    usage = kit.native("openai.types.responses:ResponseUsage")
    response = _made(
        "Response",
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
    return [*events, _made("ResponseCompletedEvent", type="response.completed", **last)]


def _tokens(usage: Any) -> dict[str, Any]:
    names = ("input_tokens", "output_tokens", "total_tokens")
    details = ("input_tokens_details", "output_tokens_details")
    return {name: getattr(usage, name) for name in (*names, *details)}
