"""Read and write hand-offs: the run goes on with another agent, or with the same if refused."""
# pyright: basic

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from typing import Any

from otelhooks.frameworks.openai_agents.calls import (
    FRAMEWORK,
    AgentsCall,
    agent_name,
    awaiting,
    conversation,
    in_order,
    mark_judged,
    read_arguments,
    write_arguments,
)
from otelhooks.hooks.calls import Call
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import adrive
from otelhooks.pipeline.permits import Handoff
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat

__all__ = ["hand_off", "invoke_handoff"]

_INVOKE = "openai_agents.handoff"


class _HandoffSeat(ToolSeat):
    """A hand-off: the run goes on with another agent, or with the same one if it is refused."""

    framework = FRAMEWORK

    def denied(self, call: AgentsCall, reason: str) -> Any:  # type: ignore[override]
        return not_handed_off(call.given, reason)

    def handoff(self, call: Call) -> Handoff | None:
        return Handoff(_INVOKE, call.name)

    def result(self, call: Call, raw: Any) -> Any:
        return getattr(getattr(raw.next_step, "new_agent", None), "name", None)

    def with_result(self, call: AgentsCall, raw: Any, value: Any) -> Any:  # type: ignore[override]
        return raw  # which agent goes on is no text that could be replaced

    def recovered(self, call: AgentsCall, value: Any) -> Any:  # type: ignore[override]
        return not_handed_off(call.given, str(value))


_HANDOFF = _HandoffSeat()


def not_handed_off(given: Mapping[str, Any], text: str) -> Any:
    """Return the step that tells the model a text in the place of each hand-off it asked for."""
    items = sys.modules["agents.items"]
    steps = sys.modules["agents.run_internal.run_steps"]
    agent = given.get("public_agent") or given["agent"]
    told = [
        items.ToolCallOutputItem(
            output=text,
            raw_item=items.ItemHelpers.tool_call_output_item(run.tool_call, text),
            agent=agent,
        )
        for run in given["run_handoffs"]
    ]
    return steps.SingleStepResult(
        original_input=given["original_input"],
        model_response=given["new_response"],
        pre_step_items=given["pre_step_items"],
        new_step_items=[*given["new_step_items"], *told],
        next_step=steps.NextStepRunAgain(),
        tool_input_guardrail_results=given.get("tool_input_guardrail_results") or [],
        tool_output_guardrail_results=given.get("tool_output_guardrail_results") or [],
    )


def hand_off(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of the hand-off: the first one that the model asked for; the SDK ignores others."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    first, *others = kwargs["run_handoffs"]
    for other in others:
        mark_judged(other.tool_call.call_id)
    text = first.tool_call.arguments
    call = AgentsCall(
        first.handoff.tool_name,
        read_arguments(text),
        kwargs,
        first.handoff,
        id=first.tool_call.call_id,
        raw=text,
        agent=(kwargs.get("public_agent") or kwargs["agent"]).name,
        description=first.handoff.tool_description,
    )

    async def body(approved: dict[str, Any]) -> Any:
        if call.version:
            asked = first.tool_call.model_copy(
                update={"arguments": write_arguments(call, text, approved)}
            )
            changed = dataclasses.replace(first, tool_call=asked)
            return await wrapped(**{**kwargs, "run_handoffs": [changed, *others]})
        return await wrapped(*args, **kwargs)

    return adrive(tool(rt, _HANDOFF, call), body)


class _InvokeSeat(ToolSeat):
    """The function of a hand-off: under `execute_handoffs`, or alone in a realtime session.

    Alone, a refusal raises: what the function returns is an agent.
    """

    framework = FRAMEWORK
    group = _INVOKE

    def result(self, call: Call, raw: Any) -> Any:
        return getattr(raw, "name", None)

    def with_result(self, call: Call, raw: Any, value: Any) -> Any:
        return raw


_INVOKED = _InvokeSeat()


def invoke_handoff(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Seat of `Handoff.on_invoke_handoff`."""
    rt = runtime.active()
    if rt is None:
        return wrapped(*args, **kwargs)
    context, text = in_order(wrapped, args, kwargs, 2)
    call = AgentsCall(
        instance.tool_name,
        read_arguments(text),
        context,
        instance,
        id=getattr(context, "tool_call_id", None),
        raw=text,
        agent=agent_name(context),
        description=instance.tool_description,
    )

    def body(approved: dict[str, Any]) -> Any:
        return wrapped(context, write_arguments(call, text, approved))

    return adrive(tool(rt, _INVOKED, call, conversation(context)), awaiting(body))
