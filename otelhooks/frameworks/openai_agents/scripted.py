"""A scripted model for the OpenAI Agents SDK, and the proof of a deny with it."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import agents

from otelhooks.frameworks.kit import trials
from otelhooks.frameworks.openai_agents.models import ModelCall, events_of

__all__ = ["ScriptedModel", "prove"]


class ScriptedModel(agents.Model):
    """A model that answers with what a function returns."""

    model = "scripted"

    def __init__(self, next_step: trials.NextStep):
        self._next_step = next_step

    def answer(self, shown: Any) -> agents.ModelResponse:
        """Return the next step as an answer."""
        output = trials.parts(self._next_step(str(shown)), ModelCall)
        usage = agents.Usage(requests=1, input_tokens=7, output_tokens=3, total_tokens=10)
        return agents.ModelResponse(output=output, usage=usage, response_id=None)

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> agents.ModelResponse:
        """Answer at once."""
        return self.answer(input)

    async def stream_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Answer with the events of a stream."""
        for event in events_of(self.answer(input)):
            yield event


def _agent(trial: trials.Trial) -> Any:
    return agents.Agent(
        name="prover",
        model=ScriptedModel(trial.next_step),
        tools=[agents.function_tool(trial.danger), agents.function_tool(trial.safe)],
    )


async def _run(trial: trials.Trial) -> Any:
    return (await agents.Runner.run(_agent(trial), "begin", run_config=_config())).final_output


async def _stream(trial: trials.Trial) -> Any:
    result = agents.Runner.run_streamed(_agent(trial), "begin", run_config=_config())
    async for _ in result.stream_events():
        pass
    return result.final_output


async def _agent_as_tool(trial: trials.Trial) -> Any:
    steps: list[Any] = [(("prover", {"input": "begin"}),), "done"]
    inner = _agent(trial).as_tool("prover", "Prove it.")
    outer = agents.Agent(
        name="outer", model=ScriptedModel(lambda shown: steps.pop(0)), tools=[inner]
    )
    return (await agents.Runner.run(outer, "begin", run_config=_config())).final_output


def _config() -> agents.RunConfig:
    return agents.RunConfig(tracing_disabled=True)


_PATHS = {"run": _run, "stream": _stream, "agent as tool": _agent_as_tool}
prove = trials.Proving("openai_agents", _PATHS)
