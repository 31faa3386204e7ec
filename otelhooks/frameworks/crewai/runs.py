# pyright: basic
"""Runs of CrewAI: of agents by their executors, of lite agents, of crews, and of flows."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.mcp.questions import Question

__all__ = [
    "CrewRun",
    "Feedback",
    "FlowResume",
    "FlowRun",
    "LiteRun",
    "Replay",
    "Review",
    "Run",
    "note_request",
]


def _is_in_loop() -> bool:
    try:
        return asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


_asked: contextvars.ContextVar[Any] = contextvars.ContextVar("otelhooks.crewai.asked", default=None)
"""What the user said to the agent that is about to run."""


def note_request(wrapped: Any, _: Any, messages: Any, *further: Any, **given: Any) -> Any:
    """Note what the user said to an agent that runs alone: CrewAI adds memories to it."""
    _asked.set(_request_in(messages))
    return wrapped(messages, *further, **given)


def _request_in(messages: Any) -> Any:
    """Return the content of the last message of the user's; None if there is none."""
    if isinstance(messages, str):
        return messages
    asked = [one for one in messages if one.get("role") == "user"]
    return asked[-1].get("content") if asked else None


class Run(kit.Run):
    """A run of an agent, by its executor."""

    def read(self, executor: Any, /, inputs: Any) -> Any:
        if self.function.__name__ == "invoke" and hasattr(executor, "invoke_async"):
            if _is_in_loop():
                return kit.SKIP  # it returns a coroutine of `invoke_async`
        self.agent, self.inputs = str(executor.agent.role).strip(), inputs
        self.prompt = str(inputs.get("input") or "")
        task = getattr(executor, "task", None)
        self.user_said = _asked.get() if task is None else None  # its text has results of others
        _asked.set(None)
        typed = [getattr(task, name, None) for name in ("output_pydantic", "output_json")]
        self.is_typed = any([*typed, getattr(executor, "response_model", None)])
        return None

    def call(self, wrapped: Any) -> Any:
        inputs = {**self.inputs, "input": self.prompt} if self.is_rewritten else self.inputs
        return wrapped(inputs)

    def denied(self, reason: str) -> Any:
        return {"output": reason}

    def continued(self, raw: Any, reason: str) -> Any:
        further = Run()
        said = "\n\n".join((str(self.prompt), str(raw["output"]), reason))
        further.agent, further.prompt, further.inputs = self.agent, said, {**self.inputs}
        further.inputs["input"] = said  # an executor begins each run with an empty history
        further.session, further.is_typed = self.session, self.is_typed
        return further

    def answer_of(self, raw: Any) -> Any:
        return raw["output"]

    def with_answer(self, raw: Any, answer: Any) -> Any:
        return {**raw, "output": answer}


class LiteRun(kit.Run):
    """A run of a lite agent, on a text or on messages."""

    def read(self, agent: Any, /, messages: Any, *further: Any, **given: Any) -> None:
        self.messages, self.further, self.given = messages, further, given
        self.agent = str(agent.role).strip()
        form = next(iter(further), None) or given.get("response_format")
        self.is_typed = (form or agent.response_format) is not None
        self.user_said = _request_in(messages)
        self.prompt = str(self.user_said or "")

    def call(self, wrapped: Any) -> Any:
        messages = self.messages
        if self.is_rewritten and isinstance(messages, str):
            messages = self.prompt
        elif self.is_rewritten:
            new = {"role": "user", "content": self.prompt}
            at = [i for i, one in enumerate(messages) if one.get("role") == "user"]
            kept = at[-1] if at else len(messages)
            messages = [*messages[:kept], new, *messages[kept + 1 :]]
        return wrapped(messages, *self.further, **self.given)

    def denied(self, reason: str) -> Any:
        output = kit.native("crewai.lite_agent_output:LiteAgentOutput")
        return output(raw=reason, agent_role=self.agent)

    def answer_of(self, raw: Any) -> Any:
        return raw.raw

    def with_answer(self, raw: Any, answer: Any) -> Any:
        return raw.model_copy(update={"raw": str(answer)})


class CrewRun(kit.Run):
    """A run of a crew; those of its agents are inside it."""

    def read(self, crew: Any, /, inputs: Any = None, *further: Any, **given: Any) -> Any:
        if crew.stream:
            return kit.SKIP  # it calls itself in a thread
        self.of(crew.name or "crew", inputs, further, given)
        return None

    def of(self, name: str, inputs: Any, further: Any, given: Any) -> None:
        """Read the name and the inputs; a single text is the prompt, else JSON of all of them."""
        self.operation, self.agent = "invoke_workflow", name
        self.inputs, self.further, self.given = inputs, further, given
        self._text = ""
        if inputs and len(inputs) == 1 and isinstance(next(iter(inputs.values())), str):
            [(self._text, self.prompt)] = inputs.items()
        else:
            self.prompt = json.dumps(inputs, default=str) if inputs else ""
            self.user_said = None  # any of them may be a document

    def call(self, wrapped: Any) -> Any:
        inputs = self.inputs
        if self.is_rewritten:
            inputs = {self._text: self.prompt} if self._text else json.loads(str(self.prompt))
        return wrapped(inputs, *self.further, **self.given)

    def denied(self, reason: str) -> Any:
        return kit.native("crewai.crews.crew_output:CrewOutput")(raw=reason)

    def answer_of(self, raw: Any) -> Any:
        return raw.raw

    def with_answer(self, raw: Any, answer: Any) -> Any:
        return raw.model_copy(update={"raw": str(answer)})


class Replay(CrewRun):
    """A run of a crew from a task on, after what it stored of the tasks before."""

    def read(self, crew: Any, /, task_id: Any, inputs: Any = None) -> None:
        self.of(crew.name or "crew", inputs, (), {})
        self.first = task_id

    def call(self, wrapped: Any) -> Any:
        return super().call(functools.partial(wrapped, self.first))


class FlowRun(CrewRun):
    """A run of a flow, which holds the runs of its crews and agents.

    Its result can be anything, so that a refusal raises.
    """

    pauses = ("crewai.flow.async_feedback.types:HumanFeedbackPending",)

    def read(self, flow: Any, /, inputs: Any = None, *further: Any, **given: Any) -> Any:
        if flow.stream or _is_internal(flow):
            return kit.SKIP  # it calls itself in a thread, or is a part of an agent
        self.of(flow.name or type(flow).__name__, inputs, further, given)
        self.belongs_to(str((inputs or {}).get("id") or ""))
        return None

    def denied(self, reason: str) -> Any:
        raise self.exception(reason)

    def answered(self, answer: Any) -> Any:
        return answer

    def is_paused(self, raw: Any) -> bool:
        return self.is_control_flow(raw)

    def answer_of(self, raw: Any) -> Any:
        return getattr(raw, "raw", raw)

    def with_answer(self, raw: Any, answer: Any) -> Any:
        return super().with_answer(raw, answer) if hasattr(raw, "raw") else answer


class FlowResume(FlowRun):
    """What a flow does after a pause for a person's feedback."""

    def read(self, flow: Any, /, feedback: Any = "") -> None:
        self.of(flow.name or type(flow).__name__, {"feedback": feedback}, (), {})
        self.is_resumed, self.feedback = True, feedback
        self.belongs_to(flow.flow_id)

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.feedback)


class Feedback(Question):
    """What a person says of a task's result under ``human_input=True``; nothing accepts it."""

    text = "How is the result? Say nothing if it is good, or what to improve."

    def read(self, *given: Any) -> None:
        self.crew = given[-1]

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.crew)

    def spec(self) -> Any:
        return self.spec_of({"questions": [{"question": self.text, "options": []}]})

    def answered(self, answer: Any) -> Any:
        if isinstance(answer, str):
            return answer
        if answer.cancelled or len(answer.responses) != 1 or answer.responses[0].skipped:
            return self.declined()
        return answer.responses[0].freeform_response

    def declined(self) -> Any:
        raise self.exception("The question for feedback was declined.")


class Review(Feedback):
    """What a person says of a step of a flow (``@human_feedback``), in the console."""

    def read(self, flow: Any, /, message: Any, output: Any, *further: Any, **given: Any) -> None:
        self.reviewed, self.given = (message, output, *further), given
        self.text = f"{message}\n\n{output}"

    def call(self, wrapped: Any) -> Any:
        return wrapped(*self.reviewed, **self.given)


def _is_internal(flow: Any) -> bool:
    """Return whether it is a flow that CrewAI is made of, such as an agent's executor."""
    module = type(flow).__module__
    return module.startswith("crewai.") and not module.startswith("crewai.flow.")
