# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""A scripted model for Strands, and the proof of a deny with it."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, tool
from strands.models import Model

from otelhooks.frameworks.kit import trials

__all__ = ["prove", "scripted_model"]

_ids = itertools.count(1)


class _Scripted(Model):
    def __init__(self, next_step: trials.NextStep, name: str) -> None:
        self.config = {"model_id": name}
        self._next_step = next_step

    def update_config(self, **model_config: Any) -> None:
        self.config.update(model_config)

    def get_config(self) -> Any:
        return self.config

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **further: Any
    ) -> AsyncIterator[Any]:
        step = self._next_step(json.dumps(messages, default=str))
        is_text = isinstance(step, str)
        yield {"messageStart": {"role": "assistant"}}
        for block in [step] if is_text else step:
            if is_text:
                yield {"contentBlockStart": {"start": {}}}
                deltas = [{"text": block[at : at + 4]} for at in range(0, len(block), 4)]
            else:
                name, args = block
                asked = {"toolUseId": f"tooluse_{next(_ids)}", "name": name}
                yield {"contentBlockStart": {"start": {"toolUse": asked}}}
                deltas = [{"toolUse": {"input": json.dumps(args)}}]
            for delta in deltas:
                yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if is_text else "tool_use"}}
        usage = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}}

    async def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a scripted model has no structured output")
        yield


def scripted_model(next_step: trials.NextStep, name: str = "scripted") -> Any:
    """Return a model."""
    return _Scripted(next_step, name)


def _agent(trial: trials.Trial) -> Agent:
    tools = [tool(trial.danger), tool(trial.safe)]
    model = scripted_model(trial.next_step)
    return Agent(model, tools=tools, name="prover", callback_handler=None)


async def _run(trial: trials.Trial) -> str:
    return str(await _agent(trial).invoke_async("begin")).strip()


async def _stream(trial: trials.Trial) -> str:
    answer = ""
    async for event in _agent(trial).stream_async("begin"):
        answer += event.get("data", "")
    return answer


async def _call(trial: trials.Trial) -> str:
    return str(_agent(trial)("begin")).strip()


prove = trials.Proving("strands", {"run": _run, "stream": _stream, "call": _call})
