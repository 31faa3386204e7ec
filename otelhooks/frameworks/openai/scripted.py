# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""A scripted model behind the client, without a network, and the proof of a deny with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import openai
from openai import _base_client

from otelhooks.frameworks.kit import trials
from otelhooks.frameworks.kit.clients.chat_form import ChatForm

__all__ = ["prove", "scripted_client"]

_http: Any = getattr(_base_client, "httpx2", None) or _base_client.httpx


def scripted_client(next_step: trials.NextStep) -> openai.AsyncOpenAI:
    """Return a client for chat completions."""

    def answer(request: Any) -> Any:
        asked = json.loads(request.content)
        step = next_step(json.dumps(asked["messages"]))
        message: dict[str, Any] = {"role": "assistant"}
        if isinstance(step, str):
            message["content"] = step
        else:
            calls = enumerate(trials.parts(step, ChatForm))
            message["tool_calls"] = [{"index": index, **call} for index, call in calls]
        head = {"id": "scripted", "created": 0, "model": "scripted"}
        choice = {"index": 0, "finish_reason": "stop"}
        if not asked.get("stream"):
            choices = [{**choice, "message": message}]
            return _http.Response(200, json={**head, "choices": choices})
        text = json.dumps({**head, "choices": [{**choice, "delta": message}]})
        kind = {"content-type": "text/event-stream"}
        return _http.Response(200, text=f"data: {text}\n\ndata: [DONE]\n\n", headers=kind)

    client = _http.AsyncClient(transport=_http.MockTransport(answer))
    return openai.AsyncOpenAI(api_key="none", http_client=client)


async def _loop(trial: trials.Trial, ask: Callable[..., Any]) -> str:
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("danger", "safe")
    ]
    messages: list[Any] = [{"role": "user", "content": "begin"}]
    async with scripted_client(trial.next_step) as client:
        while True:
            said = await ask(client, model="scripted", messages=messages, tools=tools)
            if not said.tool_calls:
                return said.content
            calls = [
                {"id": call.id, "type": "function"}
                | {"function": {"name": call.function.name, "arguments": call.function.arguments}}
                for call in said.tool_calls
            ]
            messages.append({"role": "assistant", "tool_calls": calls})
            for call in said.tool_calls:
                result = getattr(trial, call.function.name)(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


async def _create(client: Any, **given: Any) -> Any:
    return (await client.chat.completions.create(**given)).choices[0].message


async def _stream(client: Any, **given: Any) -> Any:
    stream = await client.chat.completions.create(**given, stream=True)
    said = [chunk.choices[0].delta async for chunk in stream if chunk.choices]
    return next(delta for delta in said if delta.tool_calls or delta.content)


async def _created(trial: trials.Trial) -> str:
    return await _loop(trial, _create)


async def _streamed(trial: trials.Trial) -> str:
    return await _loop(trial, _stream)


prove = trials.Proving("openai", {"create": _created, "stream": _streamed})
