# pyright: basic, reportMissingImports=false
"""A chat generator for Haystack that says what a function says, and the proof of a deny with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio.to_thread
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function

from otelhooks.frameworks.haystack import Model
from otelhooks.frameworks.kit import trials

__all__ = ["prove", "scripted_model"]


def scripted_model(next_step: trials.NextStep) -> MockChatGenerator:
    """Return a model."""

    def answer(messages: Any) -> Any:
        results = [result.result for one in messages for result in one.tool_call_results]
        step = next_step("\n".join(map(str, [*(one.text or "" for one in messages), *results])))
        if isinstance(step, str):
            return step
        return ChatMessage.from_assistant(tool_calls=trials.parts(step, Model))

    return MockChatGenerator(response_fn=answer, model="scripted")


def _way(is_async: bool = True, **settings: Any) -> Callable[[trials.Trial], Any]:
    async def run(trial: trials.Trial) -> str:
        tools: Any = [create_tool_from_function(one) for one in (trial.danger, trial.safe)]
        agent = Agent(chat_generator=scripted_model(trial.next_step), tools=tools, **settings)
        begin = [ChatMessage.from_user("begin")]
        ran = agent.run_async(begin) if is_async else anyio.to_thread.run_sync(agent.run, begin)
        return (await ran)["last_message"].text

    return run


_PATHS = {"run": _way(is_async=False), "run_async": _way()}
_PATHS["stream"] = _way(is_async=False, streaming_callback=lambda chunk: None)
_PATHS["errors end the run"] = _way(raise_on_tool_invocation_failure=True)
prove = trials.Proving("haystack", _PATHS)
