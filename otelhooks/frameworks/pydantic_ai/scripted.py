# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""A scripted model for Pydantic AI, and the proof of a deny with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from otelhooks.frameworks.kit import trials
from otelhooks.frameworks.pydantic_ai import ModelCall

__all__ = ["prove", "scripted_model"]


def scripted_model(next_step: trials.NextStep, name: str = "scripted") -> FunctionModel:
    """Return a model that answers with what a function returns."""

    def answer(messages: Any, info: Any) -> ModelResponse:
        shown = ModelMessagesTypeAdapter.dump_json(messages).decode()
        return ModelResponse(parts=trials.parts(next_step(shown), ModelCall))

    async def stream(messages: Any, info: Any) -> AsyncIterator[Any]:
        for index, part in enumerate(answer(messages, info).parts):
            if isinstance(part, TextPart):
                for start in range(0, len(part.content), 4):
                    yield part.content[start : start + 4]
            else:
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str())}

    return FunctionModel(answer, stream_function=stream, model_name=name)


def _agent(trial: trials.Trial) -> Agent[None, str]:
    return Agent(scripted_model(trial.next_step), name="prover", tools=[trial.danger, trial.safe])


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


prove = trials.Proving("pydantic_ai", {"run": _run, "stream": _stream, "iter": _iter})
