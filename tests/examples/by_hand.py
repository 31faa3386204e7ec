"""The host without a framework: a loop of one's own, under the decorators."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import otelhooks
from otelhooks import types
from otelhooks.errors import Denied
from tests.examples.stage import Actor, Difference, Host, Run

__all__ = ["STARTS_UNSEEN", "ByHand"]


STARTS_UNSEEN = (
    Difference(
        '^( *)(execute_tool researcher: deny alone "Work alone.")$',
        r"\1\2\n\1  invoke_agent researcher",
        "nothing tells that a function starts an agent before it does",
    ),
    Difference(
        "^tool: decides about researcher for ops$",
        r"\g<0>\ntool: decides about invoke_subagent for ops",
        "rules and hooks hear of the start as such when it is seen, which is after the call",
    ),
)
"""Where agents are started by the body of a plain tool."""


class ByHand(Host):
    """A loop over a model and its tools."""

    differences = STARTS_UNSEEN

    @contextlib.asynccontextmanager
    async def open(self, actor: Actor) -> AsyncIterator[Run]:
        yield agent_of(actor)


def agent_of(actor: Actor) -> Run:
    tools: dict[str, Any] = {
        body.__name__: otelhooks.tool(server=actor.server or None)(body) for body in actor.tools
    }
    for delegate in actor.delegates:
        tools[delegate.name] = started_by_a_tool(delegate)

    @otelhooks.model_call(model="scripted", provider="scripted")
    def ask(messages: list[dict[str, Any]], tools: list[dict[str, str]]) -> types.ModelResponse:
        step = actor.script.next("\n".join(message["content"] for message in messages))
        if isinstance(step, str):
            return types.ModelResponse(text=step)
        return types.ModelResponse(
            tool_calls=[types.ToolCall(name=name, args=args) for name, args in step]
        )

    @otelhooks.agent(actor.name)
    async def loop(message: str) -> str:
        messages = [{"role": "user", "content": message}]
        offered = [{"name": name} for name in tools]
        while (
            isinstance(answer := ask(messages, offered), types.ModelResponse) and answer.tool_calls
        ):
            for call in answer.tool_calls:
                result = await called(tools[call.name], call.args)
                messages.append({"role": "tool", "content": str(result)})
        return str(getattr(answer, "text", answer))  # a hook's answer is what the hook made of it

    async def run(prompt: str) -> str:
        try:
            return await loop(prompt)
        except Denied as denied:
            return denied.reason

    return run


async def called(tool: Any, args: dict[str, Any]) -> Any:
    """Return what a tool does, or the message to the model instead."""
    try:
        result = tool(**args)
        return await result if hasattr(result, "__await__") else result
    except Denied as denied:
        return denied.reason
    except Exception as error:
        return f"the tool failed: {error}"


def started_by_a_tool(actor: Actor) -> Any:
    run = agent_of(actor)

    async def delegate(task: str) -> str:
        """Hand a task on."""
        return await run(task)

    return otelhooks.tool(name=actor.name)(delegate)
