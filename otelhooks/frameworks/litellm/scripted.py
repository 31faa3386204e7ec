# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""A scripted provider for LiteLLM, without a network, and the proof of a deny with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import litellm

from otelhooks.frameworks.kit import trials
from otelhooks.frameworks.kit.clients.chat_form import ChatForm

__all__ = ["prove", "scripted_provider"]


def scripted_provider(next_step: trials.NextStep) -> Any:
    """Return a provider, for ``litellm.custom_provider_map``."""

    class Provider(litellm.CustomLLM):
        def completion(self, *args: Any, messages: Any, **given: Any) -> Any:
            step = next_step(json.dumps(messages))
            message: dict[str, Any] = {"role": "assistant", "content": None}
            if isinstance(step, str):
                message["content"] = step
            else:
                message["tool_calls"] = trials.parts(step, ChatForm)
            return litellm.ModelResponse(choices=[{"message": message}])

        async def acompletion(self, *args: Any, **given: Any) -> Any:
            return self.completion(*args, **given)

    return Provider()


async def _loop(trial: trials.Trial, ask: Callable[..., Any]) -> str:
    before = litellm.custom_provider_map
    provider = {"provider": "scripted", "custom_handler": scripted_provider(trial.next_step)}
    litellm.custom_provider_map = [provider]
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("danger", "safe")
    ]
    messages: list[Any] = [{"role": "user", "content": "begin"}]
    try:
        while True:
            answer = await ask(model="scripted/small", messages=messages, tools=tools)
            said = answer.choices[0].message
            messages.append(said.to_dict())
            if not said.tool_calls:
                return said.content
            for call in said.tool_calls:
                result = getattr(trial, call.function.name)(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    finally:
        litellm.custom_provider_map = before


async def _completed(**given: Any) -> Any:
    return litellm.completion(**given)


async def _sync(trial: trials.Trial) -> str:
    return await _loop(trial, _completed)


async def _async(trial: trials.Trial) -> str:
    return await _loop(trial, litellm.acompletion)


prove = trials.Proving("litellm", {"completion": _sync, "acompletion": _async})
