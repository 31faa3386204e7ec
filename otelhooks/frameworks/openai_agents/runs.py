"""Read and write the runs of the OpenAI Agents SDK.

A refused run and a ready answer are given by the SDK's real runner with a canned model, so that
result, session and stream events are its own. A streamed run is guarded where its background task
starts: hooks may then wait, and its result is handed to them when the task ends.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from otelhooks.errors import Denied
from otelhooks.frameworks.openai_agents.stand_ins import canned
from otelhooks.patching.copies import is_a
from otelhooks.pipeline import runtime
from otelhooks.pipeline.agent_run import RunRequest, RunSeat, agent_run
from otelhooks.pipeline.drivers import adrive

__all__ = ["run_agent", "stream_agent"]


_PAUSED = "_otelhooks_session"


class AgentsRun(RunRequest):
    """A run with what its seat needs to write it.

    Attributes:
        start: The agent that starts.
        given: Input as the user gave it: a text, items, or a paused run's state.
        has_session: Whether the SDK keeps the conversation itself.
    """

    __slots__ = ("given", "has_session", "start")

    def __init__(
        self, start: Any, given: Any, options: Mapping[str, Any], resumed: Any = None
    ) -> None:
        super().__init__(
            start.name,
            "" if resumed is not None else prompt_of(given),
            conversation=conversation_of(options),
            is_resumed=resumed is not None,
        )
        self.start = start
        self.given = given
        self.has_session = options.get("session") is not None
        if resumed is not None:
            self.session = getattr(resumed._context, _PAUSED, None)

    def written(self) -> Any:
        """Return the input, with the prompt that hooks wrote."""
        return with_prompt(self.given, self.prompt) if self.is_rewritten else self.given

    def kept(self, result: Any) -> Any:
        """Return a run's result; one that waits for approvals leads back to its conversation."""
        if getattr(result, "interruptions", None):
            setattr(result.context_wrapper, _PAUSED, self.session)
        return result


def prompt_of(given: Any) -> Any:
    """Return the user's message in an input: its text, else the input itself."""
    last = _last_message(given)
    return given if last is None else last["content"]


def with_prompt(given: Any, prompt: Any) -> Any:
    """Return an input with another message of the user."""
    last = _last_message(given)
    return prompt if last is None else [*given[:-1], {**last, "content": prompt}]


def _last_message(given: Any) -> dict[str, Any] | None:
    last: Any = given[-1] if isinstance(given, list) and given else None
    is_message = isinstance(last, dict) and last.get("role") == "user"
    return last if is_message and isinstance(last.get("content"), str) else None


def conversation_of(options: Mapping[str, Any]) -> str:
    """Return the id of the conversation: the session's, the server's, or the group's."""
    config = options.get("run_config")
    group = config.get("group_id") if isinstance(config, dict) else None
    found = (
        getattr(options.get("session"), "session_id", None),
        options.get("conversation_id"),
        group or getattr(config, "group_id", None),
    )
    return next((id for id in found if isinstance(id, str) and id), "")


class _RunSeat(RunSeat):
    framework = "openai_agents"
    refuses_in_body = True

    def response(self, request: RunRequest, raw: Any) -> Any:
        return raw.final_output

    def with_response(self, request: RunRequest, raw: Any, response: Any) -> Any:
        raw.final_output = response
        return raw

    def is_paused(self, request: RunRequest, raw: Any) -> bool:
        return bool(getattr(raw, "interruptions", None))

    def continued(self, request: AgentsRun, raw: Any, reason: str) -> RunRequest | None:  # type: ignore[override]
        message = {"role": "user", "content": reason}
        further = AgentsRun(raw.last_agent, None, {})
        further.session = request.session
        further.given = [message] if request.has_session else [*raw.to_input_list(), message]
        further.has_session = request.has_session
        return further


class _StreamSeat(_RunSeat):
    def continued(self, request: RunRequest, raw: Any, reason: str) -> RunRequest | None:  # type: ignore[override]
        return None  # its consumer has the end of it already


_RUN = _RunSeat()
_STREAM = _StreamSeat()


def _answering(request: AgentsRun) -> contextlib.AbstractContextManager[None]:
    """Return a block in which a run answers as hooks want; in the common case, as it will.

    Raises:
        Denied: A refusal is no answer of the type that the user asked for.
    """
    if request.refusal is not None:
        if getattr(request.start, "output_type", None) not in (None, str):
            raise Denied(request.refusal)
        return canned(request.refusal)
    answer = request.answer
    if answer is None:
        return contextlib.nullcontext()
    if hasattr(answer, "model_dump_json"):
        answer = answer.model_dump_json()
    return canned(answer if isinstance(answer, str) else json.dumps(answer))


def run_agent(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `AgentRunner.run`."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    start, given = _start(*args, **kwargs)
    options = {k: v for k, v in kwargs.items() if k not in ("starting_agent", "input")}
    request = AgentsRun(start, given, options, given if _is_state(given) else None)

    async def body(approved: AgentsRun) -> Any:
        with _answering(approved):
            return approved.kept(await wrapped(approved.start, approved.written(), **options))

    return adrive(agent_run(rt, _RUN, request), body)


def _start(starting_agent: Any, input: Any, **options: Any) -> tuple[Any, Any]:
    return starting_agent, input


def _is_state(given: Any) -> bool:
    return is_a(given, ("agents.run_state", "RunState"))


def stream_agent(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `start_streaming`, the coroutine in which a streamed run goes on."""
    rt = runtime.active()
    if rt is None or args:
        return wrapped(*args, **kwargs)
    result = kwargs["streamed_result"]
    resumed = kwargs.get("run_state") if kwargs.get("is_resumed_state") else None
    request = AgentsRun(kwargs["starting_agent"], kwargs["starting_input"], kwargs, resumed)

    async def body(approved: AgentsRun) -> Any:
        given = approved.written()
        if approved.is_rewritten:
            result.input = given
        with _answering(approved):
            await wrapped(**{**kwargs, "starting_input": given})
        return approved.kept(result)

    return adrive(agent_run(rt, _STREAM, request), body)
