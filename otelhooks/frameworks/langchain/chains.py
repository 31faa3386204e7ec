# pyright: basic, reportMissingImports=false
"""Runs of langchain-classic's chains, such as `AgentExecutor`: read, refused, answered, streamed.

An executor always is an agent. Any other chain is a workflow, and only if it runs by itself: chains
consist of chains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit.telemetry import semconv
from otelhooks.frameworks.langchain.listeners import HeardRun
from otelhooks.frameworks.langchain.state import thread_of

__all__ = ["ChainRun"]


class ChainRun(HeardRun):
    """One run of one chain, even where an executor streams its steps.

    Attributes:
        key: The input with the user's message; None if there is no single one.
        answers_in: The output with the answer.
        has_begun: Whether the chain itself runs, and notifies its listeners.
    """

    has_begun = False

    def read(self, chain: Any, /, input: Any, config: Any = None, **further: Any) -> Any:
        """Read ``Chain.invoke``, or an executor's ``stream``."""
        is_agent = kit.is_a(chain, "langchain_classic.agents.agent:AgentExecutor")
        if not is_agent and not self.is_outermost():
            return kit.SKIP
        self.given, self.config, self.further = input, config, further
        self.agent = self.title = str(chain.get_name())
        names = chain.output_keys  # an executor of runnables has no names
        self.answers_in = names[0] if names and "output" not in names else "output"
        keys = list(input) if isinstance(input, Mapping) else []
        self.key = "input" if "input" in keys else keys[0] if len(keys) == 1 else None
        self.prompt = input if self.key is None else input[self.key]
        self.conversation = thread_of(config)
        self.operation = semconv.OP_INVOKE_AGENT if is_agent else semconv.OP_INVOKE_WORKFLOW
        return None

    def call(self, wrapped: Any) -> Any:
        self.has_begun, given = True, self.given
        if self.is_rewritten:
            given = self.prompt if self.key is None else {**given, self.key: self.prompt}
        return self.runs(wrapped, given)

    def denied(self, reason: str) -> Any:
        """Return the reason as the chain's output."""
        given = self.given if isinstance(self.given, Mapping) else {}
        return {**given, self.answers_in: reason}

    def answer_of(self, raw: Any) -> Any:
        """Return the chain's output, also from the items of a stream."""
        for item in reversed(raw if isinstance(raw, list) else [raw]):
            if isinstance(item, Mapping) and self.answers_in in item:
                return item[self.answers_in]
        return raw

    def with_answer(self, raw: Any, answer: Any) -> Any:
        if isinstance(raw, list):
            return [self.with_answer(item, answer) for item in raw]
        if not isinstance(raw, Mapping) or self.answers_in not in raw:
            return raw
        new = {**raw, self.answers_in: answer}
        if "messages" in raw:
            new["messages"] = [kit.native("langchain_core.messages:AIMessage")(str(answer))]
        return type(raw)(new)  # type: ignore[call-arg]

    def is_paused(self, raw: Any) -> bool:
        """Return that it is not; a run that has ended has no gaps."""
        self.whole(raw)
        return False

    def whole(self, seen: Any) -> Any:
        """Return the items; forget calls that models asked for: executors give tools no ids."""
        if self.turn is not None:
            self.turn.asked.clear()
        return seen

    def deliver(self, item: Any) -> Any:
        """Notify listeners that were left out, from the first item on."""
        if not self.has_begun:
            self.leaves_out()
        yield from self.hear([item])
        return [item]

    def output(self, items: list[Any]) -> Any:
        return {self.answers_in: self.answer_of(items)}
