# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""A model for CrewAI that says what a function says, and the proof of a deny with it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio.to_thread
from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

from otelhooks.frameworks.crewai.models import ModelCall
from otelhooks.frameworks.kit import trials

__all__ = ["prove", "scripted_model"]


def scripted_model(next_step: trials.NextStep, *, is_native: bool = True) -> BaseLLM:
    """Return a model.

    Args:
        next_step: Returns its answers.
        is_native: Whether it asks for tools natively; otherwise in the text format, one at a time.
    """

    class Scripted(BaseLLM):
        def call(self, messages: Any, *args: Any, **given: Any) -> Any:
            """Answer."""
            said = messages if isinstance(messages, list) else [{"content": messages}]
            step = next_step("\n".join(str(one.get("content") or "") for one in said))
            if isinstance(step, str):
                return step if is_native else f"Thought: done\nFinal Answer: {step}"
            if not is_native:
                [(name, args_)] = step
                return f"Thought: go\nAction: {name}\nAction Input: {json.dumps(args_)}"
            return trials.parts(step, ModelCall)

        async def acall(self, messages: Any, *args: Any, **given: Any) -> Any:
            """Answer."""
            await asyncio.sleep(0)
            return Scripted.call.__wrapped__(self, messages, *args, **given)

        def supports_function_calling(self) -> bool:
            """Return whether tools are asked for natively."""
            return is_native

        def supports_stop_words(self) -> bool:
            """Return that it knows none."""
            return False

        def get_context_window_size(self) -> int:
            """Return its size, in tokens."""
            return 100_000

    return Scripted(model="scripted")


def agent_of(model: BaseLLM, tools: list[Any], **settings: Any) -> Agent:
    """Return an agent named ``worker``."""
    about = {"role": "worker", "goal": "to help", "backstory": "It helps.", **settings}
    return Agent(llm=model, tools=tools, verbose=False, **about)


def _of(trial: trials.Trial, *, is_native: bool = True) -> Agent:
    model = scripted_model(trial.next_step, is_native=is_native)
    return agent_of(model, [tool(one) for one in (trial.danger, trial.safe)])


async def _kickoff(trial: trials.Trial) -> str:
    return (await anyio.to_thread.run_sync(_of(trial).kickoff, "begin")).raw


async def _akickoff(trial: trials.Trial) -> str:
    return (await _of(trial).kickoff_async("begin")).raw


async def _text(trial: trials.Trial) -> str:
    return (await anyio.to_thread.run_sync(_of(trial, is_native=False).kickoff, "begin")).raw


async def _crew(trial: trials.Trial) -> str:
    agent = _of(trial)
    task = Task(description="begin", expected_output="an answer", agent=agent)
    crew = Crew(agents=[agent], tasks=[task], verbose=False, tracing=False)
    return (await anyio.to_thread.run_sync(crew.kickoff)).raw


_PATHS = {"Agent.kickoff": _kickoff, "kickoff_async": _akickoff}
prove = trials.Proving("crewai", {**_PATHS, "text format": _text, "Crew.kickoff": _crew})
