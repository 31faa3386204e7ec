# pyright: basic
"""Runs of CrewAI: of agents by their executors, of lite agents, and of crews."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from otelhooks.frameworks import kit

__all__ = ["CrewRun", "LiteRun", "Run"]


def _is_in_loop() -> bool:
    try:
        return asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


class Run(kit.Run):
    """A run of an agent, by its executor."""

    def read(self, executor: Any, /, inputs: Any) -> Any:
        if self.function.__name__ == "invoke" and hasattr(executor, "invoke_async"):
            if _is_in_loop():
                return kit.SKIP  # it returns a coroutine of `invoke_async`
        self.agent, self.inputs = str(executor.agent.role).strip(), inputs
        self.prompt = str(inputs.get("input") or "")
        task = getattr(executor, "task", None)
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
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        asked = [one for one in said if one.get("role") == "user"]
        self.prompt = str(asked[-1].get("content") or "") if asked else ""

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
        self.operation, self.agent = "invoke_workflow", crew.name or "crew"
        self.inputs, self.further, self.given = inputs, further, given
        self._text = ""
        if inputs and len(inputs) == 1 and isinstance(next(iter(inputs.values())), str):
            [(self._text, self.prompt)] = inputs.items()
        else:
            self.prompt = json.dumps(inputs, default=str) if inputs else ""
        return None

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
