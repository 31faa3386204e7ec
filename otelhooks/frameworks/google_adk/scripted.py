# pyright: basic, reportMissingImports=false
"""A scripted model for Google ADK, and the proof of a deny with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

from otelhooks.frameworks.google_adk.models import ModelCall
from otelhooks.frameworks.kit import trials

__all__ = ["converse", "prove", "runner_of", "scripted_model", "text_of"]

APP, USER = "app", "user"


def scripted_model(next_step: trials.NextStep, name: str = "scripted") -> BaseLlm:
    """Return a model."""

    class Scripted(BaseLlm):
        async def generate_content_async(
            self, llm_request: Any, stream: bool = False
        ) -> AsyncIterator[LlmResponse]:
            step = next_step("\n".join(map(_shown, llm_request.contents)))
            if isinstance(step, str) and stream:
                for start in range(0, len(step), 4):
                    yield _said([types.Part(text=step[start : start + 4])], partial=True)
            yield _said(trials.parts(step, ModelCall))

    return Scripted(model=name)


def _shown(content: Any) -> str:
    return "\n".join(map(_text, content.parts or []))


def _text(part: Any) -> str:
    if part.function_response is not None:
        return "\n".join(map(str, part.function_response.response.values()))
    return part.text or str(part.function_call)


def _said(parts: Any, *, partial: bool = False) -> LlmResponse:
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=7, candidates_token_count=3
    )
    return LlmResponse(
        content=types.Content(role="model", parts=parts),
        partial=partial,
        usage_metadata=None if partial else usage,
        finish_reason=None if partial else types.FinishReason.STOP,
    )


def runner_of(agent: Any, **further: Any) -> Runner:
    """Return a runner with a session service of its own."""
    service = InMemorySessionService()
    return Runner(app_name=APP, agent=agent, session_service=service, **further)


def text_of(events: Any) -> str:
    """Return the text of the last event that has one."""
    texts = [
        "".join(part.text or "" for part in each.content.parts or [])
        for each in events
        if each.content is not None and each.author != USER
    ]
    return next((text for text in reversed(texts) if text), "")


async def converse(runner: Runner, message: Any, session: str = "", **options: Any) -> list[Any]:
    """Run an agent on a message, in a session or a new one; return the events."""
    if not session:
        made = await runner.session_service.create_session(app_name=APP, user_id=USER)
        session = made.id
    if isinstance(message, str):
        message = types.Content(role="user", parts=[types.Part(text=message)])
    run = runner.run_async(user_id=USER, session_id=session, new_message=message, **options)
    return [event async for event in run]


def _agent(trial: trials.Trial) -> LlmAgent:
    model = scripted_model(trial.next_step)
    return LlmAgent(name="prover", model=model, tools=[trial.danger, trial.safe])


async def _run(trial: trials.Trial) -> str:
    return text_of(await converse(runner_of(_agent(trial)), "begin"))


async def _stream(trial: trials.Trial) -> str:
    config = RunConfig(streaming_mode=StreamingMode.SSE)
    return text_of(await converse(runner_of(_agent(trial)), "begin", run_config=config))


prove = trials.Proving("google_adk", {"run": _run, "stream": _stream})
