# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""A scripted model for Pydantic AI, and the proof of a deny with it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from otelhooks.frameworks.kit import trials

__all__ = ["prove", "scripted_model"]


def scripted_model(next_step: Callable[[str], Any], name: str = "scripted") -> FunctionModel:
    """Return a model.

    Args:
        next_step: Takes everything that the model is shown, as one text; returns a final text, or
            the tool calls to ask for: pairs of name and arguments.
        name: Name of the model.
    """

    def shown(messages: Any) -> str:
        return ModelMessagesTypeAdapter.dump_json(messages).decode()

    def answer(messages: Any, info: Any) -> ModelResponse:
        step = next_step(shown(messages))
        if isinstance(step, str):
            return ModelResponse(parts=[TextPart(step)])
        return ModelResponse(parts=[ToolCallPart(name, args) for name, args in step])

    async def stream(messages: Any, info: Any) -> AsyncIterator[Any]:
        step = next_step(shown(messages))
        if isinstance(step, str):
            for start in range(0, len(step), 4):
                yield step[start : start + 4]
            return
        for index, (name, args) in enumerate(step):
            yield {index: DeltaToolCall(name=name, json_args=json.dumps(args))}

    return FunctionModel(answer, stream_function=stream, model_name=name)


def _agent(trial: trials.Trial) -> Agent[None, str]:
    agent = Agent(scripted_model(trial.next_step), name="prover")
    agent.tool_plain(trial.danger)
    agent.tool_plain(trial.safe)
    return agent


async def _run(trial: trials.Trial) -> str:
    return (await _agent(trial).run("begin")).output


async def _stream(trial: trials.Trial) -> str:
    async with _agent(trial).run_stream("begin") as result:
        return await result.get_output()


async def _iter(trial: trials.Trial) -> str:
    async with _agent(trial).iter("begin") as run:
        async for _ in run:
            pass
    return run.result.output if run.result is not None else ""


def prove() -> Any:
    """Run a scripted agent against a deny on the main paths of the framework."""
    paths = {"run": _run, "stream": _stream, "iter": _iter}
    return trials.prove("pydantic_ai", "pydantic-ai-slim", "pydantic_ai", paths)
