# pyright: basic
"""Runs of Strands: of one agent, and of several in a graph or a swarm."""

from __future__ import annotations

import copy
import dataclasses
import uuid
import weakref
from collections.abc import Iterable
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.kit import telemetry
from otelhooks.frameworks.strands.models import blocks

__all__ = ["AgentRun", "Workflow", "native_span"]

_MULTI = "strands.multiagent"
_AGENT_RESULT = "strands.agent.agent_result:AgentResult"
_ends: weakref.WeakKeyDictionary[Any, tuple[Any, str]] = weakref.WeakKeyDictionary()
"""Last message of each agent's last run, and the id by which its conversation is known."""


def _text(message: Any) -> str:
    return "\n".join(block["text"] for block in blocks(message) if "text" in block)


def _result_in(items: Any) -> Any:
    return next((item["result"] for item in reversed(items or ()) if "result" in item), None)


class _Run(kit.Run):
    """What runs of agents and of several agents share: the last item of the stream has a result."""

    can_go_on = True
    given: Any
    further: tuple[Any, ...] = ()
    options: Any

    def call(self, wrapped: Any) -> Any:
        given = self.rewritten() if self.is_rewritten else self.given
        return wrapped(given, *self.further, **self.options)

    def rewritten(self) -> Any:
        """Return what the run is given with the hooks' message in it."""
        return self.prompt

    def continued(self, raw: Any, reason: str) -> Any:
        self.given = self.prompt = reason
        return self

    def is_result(self, item: Any) -> bool:
        return "result" in item

    def is_paused(self, raw: Any) -> bool:
        return bool(getattr(_result_in(raw), "interrupts", None))


class AgentRun(_Run):
    """One run of an agent."""

    last: Any = None

    def read(self, agent: Any, /, prompt: Any = None, **options: Any) -> None:
        self.owner, self.given, self.options = agent, prompt, options
        self.agent = agent.name
        self.prompt = prompt
        if prompt is None:
            self.user_said = None
            self.last = agent.messages[-1] if agent.messages else None
            if self.last is not None and self.last["role"] == "user":
                self.prompt, self.user_said = _text(self.last) or None, self.last["content"]
        elif isinstance(prompt, list):
            self.is_resumed = any("interruptResponse" in one for one in prompt)
            *_, last = prompt or ({},)
            self.prompt = _text(last if "role" in last else {"content": prompt})
            self.user_said = prompt
        self.is_resumed = self.is_resumed or self.prompt is None
        typed = options.get("structured_output_model") or agent._default_structured_output_model
        self.is_typed = typed is not None
        end, id = _ends.get(agent, (None, ""))
        past = agent.messages if self.last is None else agent.messages[:-1]
        known = [id] if any(one is end for one in past) else []
        self.belongs_to(getattr(agent._session_manager, "session_id", None), known)
        outer = kit.ToolCall.current()
        self.can_pause = outer is None or getattr(outer, "leads_on", False)

    def rewritten(self) -> Any:
        text = {"text": self.prompt}
        if self.given is None:
            self.owner.messages[-1] = {**self.last, "content": [text]}
            return None
        if not isinstance(self.given, list):
            return self.prompt
        *past, last = self.given
        if "role" in last:
            return [*past, {**last, "content": [text, *_no_texts(blocks(last))]}]
        return [text, *_no_texts(self.given)]

    def whole(self, seen: Any) -> Any:
        id, messages = uuid.uuid4().hex, self.owner.messages
        if messages:
            _ends[self.owner] = (messages[-1], id)
            self.is_known_as(id)
        self.note_unasked(seen)
        return seen

    def denied(self, reason: str) -> Any:
        return [{"result": _said(reason, self.owner.event_loop_metrics)}]

    def answer_of(self, raw: Any) -> Any:
        result = _result_in(raw)
        if result is None:
            return None
        typed = result.structured_output
        return _text(result.message) if typed is None else typed

    def with_answer(self, raw: Any, answer: Any) -> Any:
        return [{"result": _answering(_result_in(raw), answer)}]

    def answered_itself(self, raw: Any) -> Iterable[str]:
        for message in self.owner.messages:
            for block in message["content"]:
                result = block.get("toolResult", {})
                if result.get("status") == "error":
                    yield result["toolUseId"]


def _said(text: str, metrics: Any) -> Any:
    """Return an agent's result that says a text."""
    message = {"role": "assistant", "content": [{"text": text}]}
    return kit.native(_AGENT_RESULT)("end_turn", message, metrics, {})


def _no_texts(blocks: Any) -> list[Any]:
    return [block for block in blocks if "text" not in block]


def _answering(result: Any, answer: Any) -> Any:
    if result.structured_output is not None and not isinstance(answer, str):
        return dataclasses.replace(result, structured_output=answer)
    message = {**result.message, "content": [{"text": str(answer)}]}
    return dataclasses.replace(result, message=message, structured_output=None)


class Workflow(_Run):
    """One run of a graph, a swarm, or another orchestration; its nodes' runs are inside it."""

    def read(self, workflow: Any, /, task: Any, *further: Any, **options: Any) -> None:
        self.operation, self.agent = telemetry.semconv.OP_INVOKE_WORKFLOW, workflow.id
        self.owner = workflow
        self.given, self.further, self.options = task, further, options
        self.prompt = task if isinstance(task, str) else _text({"content": task})
        self.user_said = task
        self.is_resumed = isinstance(task, list) and any("interruptResponse" in one for one in task)

    def denied(self, reason: str) -> Any:
        return self.ended("FAILED", reason)

    def answered(self, answer: Any) -> Any:
        return self.ended("COMPLETED", str(answer))

    def ended(self, status: str, text: str) -> Any:
        """Return a result whose one node has the workflow's own name, and says a text."""
        kind = "graph:Graph" if kit.is_a(self.owner, f"{_MULTI}.graph:Graph") else "swarm:Swarm"
        state = kit.native(f"{_MULTI}.base:Status")[status]
        metrics = kit.native("strands.telemetry.metrics:EventLoopMetrics")()
        node = kit.native(f"{_MULTI}.base:NodeResult")(_said(text, metrics), status=state)
        return [{"result": kit.native(f"{_MULTI}.{kind}Result")(state, results={self.agent: node})}]

    def answer_of(self, raw: Any) -> Any:
        node = self.last_node(_result_in(raw))
        return None if node is None else _text(node.result.message)

    def with_answer(self, raw: Any, answer: Any) -> Any:
        result = copy.copy(_result_in(raw))
        node = self.last_node(result)
        name = next(name for name, one in result.results.items() if one is node)
        changed = dataclasses.replace(node, result=_answering(node.result, answer))
        result.results = {**result.results, name: changed}
        return [{"result": result}]

    def last_node(self, result: Any) -> Any:
        """Return the result of the last node that was an agent."""
        nodes = [*getattr(result, "results", {}).values()]
        return next((one for one in reversed(nodes) if kit.is_a(one.result, _AGENT_RESULT)), None)


def native_span(wrapped: Any, tracer: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Return a replacement for the framework's span of a run, which ours would double."""
    return telemetry.in_place_of_own("strands") or wrapped(*args, **kwargs)
