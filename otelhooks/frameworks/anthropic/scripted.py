# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""A scripted model behind the client, without a network, and the proof of a deny with it."""

from __future__ import annotations

import json
from typing import Any

import anthropic
from anthropic import _base_client

from otelhooks.frameworks.anthropic.messages import MessagesRequest
from otelhooks.frameworks.kit import trials

__all__ = ["prove", "scripted_client"]

_http: Any = getattr(_base_client, "httpx2", None) or _base_client.httpx
_BEGIN = {"model": "scripted", "max_tokens": 100}


def scripted_client(next_step: trials.NextStep) -> anthropic.AsyncAnthropic:
    """Return a client for messages."""

    def answer(request: Any) -> Any:
        step = next_step(json.dumps(json.loads(request.content)["messages"]))
        content = trials.parts(step, MessagesRequest)
        made = {"id": "scripted", "type": "message", "role": "assistant", "model": "scripted"}
        made["stop_reason"] = "end_turn" if isinstance(step, str) else "tool_use"
        usage = {"input_tokens": 0, "output_tokens": 0}
        return _http.Response(200, json={**made, "content": content, "usage": usage})

    client = _http.AsyncClient(transport=_http.MockTransport(answer))
    return anthropic.AsyncAnthropic(api_key="none", http_client=client)


async def _loop(trial: trials.Trial) -> str:
    defined = [{"name": name, "input_schema": {"type": "object"}} for name in ("danger", "safe")]
    messages: list[Any] = [{"role": "user", "content": "begin"}]
    async with scripted_client(trial.next_step) as client:
        while True:
            said = await client.messages.create(messages=messages, tools=defined, **_BEGIN)
            messages.append({"role": "assistant", "content": said.content})
            calls = [block for block in said.content if block.type == "tool_use"]
            if not calls:
                return said.content[0].text
            results = [
                {"type": "tool_result", "tool_use_id": call.id}
                | {"content": getattr(trial, call.name)(**call.input)}
                for call in calls
            ]
            messages.append({"role": "user", "content": results})


async def _run(trial: trials.Trial) -> str:
    @anthropic.beta_async_tool
    async def danger(path: str = "") -> str:
        return trial.danger(path)

    @anthropic.beta_async_tool
    async def safe(x: int = 0) -> str:
        return trial.safe(x)

    begin = [{"role": "user", "content": "begin"}]
    async with scripted_client(trial.next_step) as client:
        run = client.beta.messages.tool_runner(messages=begin, tools=[danger, safe], **_BEGIN)
        return (await run.until_done()).content[0].text


prove = trials.Proving("anthropic", {"create": _loop, "tool_runner": _run})
