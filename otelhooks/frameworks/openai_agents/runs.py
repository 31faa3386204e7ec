"""The runs of the OpenAI Agents SDK.

The SDK's real runner gives the answer of a refused run and ready answers, with a canned model, so
that result, session and stream events are its own. A streamed run is guarded where its background
task starts: hooks may then wait, and they get its result when the task ends.
"""
# pyright: basic

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.openai_agents.models import canned

__all__ = ["AgentRun", "StreamedRun"]

_PAUSED = "_otelhooks_session"


class AgentRun(kit.Run):
    """A run whose caller awaits its result.

    Attributes:
        start: The agent that starts.
        given: The user's input: a text, items, or a paused run's state.
        options: All other arguments of the run.
    """

    def read(self, runner: Any, /, starting_agent: Any, input: Any, **options: Any) -> None:
        """Read ``AgentRunner.run``."""
        is_state = kit.is_a(input, "agents.run_state:RunState")
        self.begins(starting_agent, input, options, input if is_state else None)

    def begins(self, start: Any, given: Any, options: Mapping[str, Any], paused: Any) -> None:
        """Set what a run begins with.

        Args:
            start: The agent.
            given: Its input.
            options: All other arguments.
            paused: State of the run that continues, None for a new one.
        """
        self.start, self.given, self.options = start, given, options
        self.agent, self.is_resumed = start.name, paused is not None
        self.is_typed = getattr(start, "output_type", None) not in (None, str)
        self.conversation = _conversation_of(options)
        if paused is not None:
            self.session = getattr(paused._context, _PAUSED, None)
        else:
            last = _last_message(given)
            self.prompt = given if last is None else last["content"]

    async def call(self, wrapped: Any) -> Any:
        with self.answering():
            return self.kept(await wrapped(self.start, self.written(), **self.options))

    def answering(self) -> Any:
        """Return a block in which the run answers as hooks decided; usually with its own answer."""
        if self.is_typed and self.refusal is not None:
            raise self.exception(self.refusal)
        text = self.canned
        return contextlib.nullcontext() if text is None else canned(text)

    def kept(self, result: Any) -> Any:
        """Return a result; one that waits for approvals is linked to its conversation."""
        if getattr(result, "interruptions", None):
            setattr(result.context_wrapper, _PAUSED, self.session)
        return result

    def written(self) -> Any:
        """Return the input, with the prompt that hooks wrote."""
        if not self.is_rewritten:
            return self.given
        last = _last_message(self.given)
        return self.prompt if last is None else [*self.given[:-1], {**last, "content": self.prompt}]

    def answer_of(self, raw: Any) -> Any:
        return raw.final_output

    def with_answer(self, raw: Any, answer: Any) -> Any:
        raw.final_output = answer
        return raw

    def is_paused(self, raw: Any) -> bool:
        return bool(getattr(raw, "interruptions", None))

    def continued(self, raw: Any, reason: str) -> Any:
        """Return the run that continues with a stop hook's message."""
        message = {"role": "user", "content": reason}
        has_session = self.options.get("session") is not None
        further = AgentRun()
        past = [] if has_session else raw.to_input_list()
        further.begins(raw.last_agent, [*past, message], self.options, None)
        further.session = self.session
        return further


class StreamedRun(AgentRun):
    """A run whose consumer reads events while it runs."""

    def read(self, owner: Any, *args: Any, **given: Any) -> Any:  # type: ignore[override]
        """Read ``start_streaming``, the coroutine that runs it."""
        if args:
            return kit.SKIP
        paused = given.get("run_state") if given.get("is_resumed_state") else None
        return self.begins(given["starting_agent"], given["starting_input"], given, paused)

    async def call(self, wrapped: Any) -> Any:
        result, given = self.options["streamed_result"], self.written()
        if self.is_rewritten:
            result.input = given
        with self.answering():
            await wrapped(**{**self.options, "starting_input": given})
        return self.kept(result)

    def continued(self, raw: Any, reason: str) -> Any:
        """Return None: its consumer has already seen its end."""
        return None


def _last_message(given: Any) -> dict[str, Any] | None:
    last: Any = given[-1] if isinstance(given, list) and given else None
    is_message = isinstance(last, dict) and last.get("role") == "user"
    return last if is_message and isinstance(last.get("content"), str) else None


def _conversation_of(options: Mapping[str, Any]) -> str:
    """Return the id of the conversation: the session's, the server's, or the group's."""
    config = options.get("run_config")
    group = config.get("group_id") if isinstance(config, dict) else None
    found = (
        getattr(options.get("session"), "session_id", None),
        options.get("conversation_id"),
        group or getattr(config, "group_id", None),
    )
    return next((id for id in found if isinstance(id, str) and id), "")
