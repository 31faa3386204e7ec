"""What the harness tells beside its questions: states of agents, tokens, and steps.

Telemetry, and turns that nobody has sent a message for. What fails here is logged: it runs in the
reader of the connection, which it must not end.
"""
# pyright: basic

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from otelhooks.frameworks.google_antigravity.budget import count_tokens
from otelhooks.frameworks.google_antigravity.runs import Answer, begin_turn
from otelhooks.frameworks.google_antigravity.state import (
    FRAMEWORK,
    Connected,
    inside,
    state_of,
)
from otelhooks.frameworks.google_antigravity.subagents import end_agent, meet_agent
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import Unrun
from otelhooks.pipeline.frames import current_frame
from otelhooks.pipeline.runtime import Runtime
from otelhooks.records.failures import outline

__all__ = ["see_event", "see_first_step", "see_last_step", "skip_native"]

_log = logging.getLogger("otelhooks.instrumentation")

_DENIED = "denied by pre-tool hook"
"""In the text of a step whose call a hook or a native policy refused."""


async def see_event(wrapped: Callable[..., Any], processor: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``LocalHarnessEventProcessor.process_event``."""
    rt, state = runtime.active(), state_of(processor)
    if rt is not None and state is not None:
        event = kwargs["event"] if "event" in kwargs else args[0]
        try:
            if event.HasField("trajectory_state_update"):
                await _see_agent(rt, state, event.trajectory_state_update)
            elif event.HasField("usage_update") and event.usage_update.HasField("total"):
                await count_tokens(rt, state, event.usage_update.total)
        except Exception as error:
            _log.error("an event of the harness was not understood: %s", outline(error))
    return await wrapped(*args, **kwargs)


async def _see_agent(rt: Runtime, state: Connected, update: Any) -> None:
    """Follow an agent's state: turns that nobody sent a message for, and sub-agents."""
    word = type(update).State.Name(update.state).removeprefix("STATE_")
    is_main = not update.parent_trajectory_id or update.trajectory_id == state.conversation
    if word == "RUNNING" and is_main:
        if state.turn is None or not state.turn.is_open:
            with inside(state.outside):  # not in that of whoever connected
                begun = await begin_turn(rt, state, "", "trigger")
            if isinstance(begun, Answer):
                await state.halt(str(begun.value))
    elif word == "RUNNING":
        await meet_agent(rt, state, update.trajectory_id, update.parent_trajectory_id)
    elif word in ("FULLY_IDLE", "CANCELLED") and not is_main:
        await end_agent(state, update.trajectory_id)


async def see_first_step(wrapped: Callable[..., Any], runner: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``HookRunner.dispatch_pre_step``: what agents are told, and what they ask for."""
    rt, state = runtime.active(), state_of(runner)
    if rt is not None and state is not None:
        step = kwargs["step"] if "step" in kwargs else args[1]
        try:
            await meet_agent(rt, state, step.trajectory_id, step.parent_trajectory_id, step.content)
            _note_asked(state, step)
        except Exception as error:
            _log.error("a step of the harness was not understood: %s", outline(error))
    return await wrapped(*args, **kwargs)


def _note_asked(state: Connected, step: Any) -> None:
    """Note the calls that a step shows and nobody has judged."""
    with inside(state.context_of(step.trajectory_id)):
        frame = current_frame()
    if frame is None or frame.turn is None:
        return
    for call in step.tool_calls:
        state.is_answering = False
        if call.name in state.python_tools and not call.server_name:
            if call.id not in state.judged:
                frame.turn.ask_for({call.id: call.name})
        elif state.allowed.get(step.trajectory_id, 0) > 0:
            state.allowed[step.trajectory_id] -= 1
        else:
            frame.turn.ask_for({call.id: call.name})


async def see_last_step(wrapped: Callable[..., Any], runner: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``HookRunner.dispatch_post_step``: what agents said, and what did not run."""
    rt, state = runtime.active(), state_of(runner)
    if rt is not None and state is not None:
        step = kwargs["step"] if "step" in kwargs else args[1]
        try:
            await _hear(state, step)
        except Exception as error:
            _log.error("a step of the harness was not understood: %s", outline(error))
    return await wrapped(*args, **kwargs)


async def _hear(state: Connected, step: Any) -> None:
    run = state.agents.get(step.trajectory_id)
    if run is not None and step.is_complete_response:
        run.text = step.content
    if run is None and state.turn is not None:
        state.turn.hear(step)
        state.is_answering = step.is_complete_response or step.type.value == "FINISH"
    if step.status.value == "ERROR" and _DENIED in (step.error or step.content):
        await _close_unrun(state, step)


async def _close_unrun(state: Connected, step: Any) -> None:
    """Close the call that the application's own policy refused after we had allowed it."""
    trajectory = step.trajectory_id
    if state.denied.get(trajectory, 0) > 0:
        state.denied[trajectory] -= 1  # refused by a hook; its operation is closed
        return
    waiting = [p for p in state.calls.values() if p.trajectory == trajectory]
    if len(waiting) == 1:  # else the end of the turn closes it
        pending = state.calls.pop(waiting[0].call.id)
        state.allowed[trajectory] = max(0, state.allowed.get(trajectory, 0) - 1)
        with inside(pending.split.context):
            await pending.split.afinish(Unrun(step.error or step.content, is_refused=False))


async def skip_native(wrapped: Callable[..., Any], hook: Any, args: Any, kwargs: Any) -> Any:
    """Seat of the SDK's own OpenTelemetry hooks, whose spans would double ours."""
    rt = runtime.active()
    if rt is None or rt.spans_of(FRAMEWORK) != "auto":
        return await wrapped(*args, **kwargs)
    native = sys.modules["google.antigravity.hooks.hooks"]
    decides = isinstance(hook, (native.PreTurnHook, native.PreToolCallDecideHook))
    return native.HookResult(allow=True) if decides else None
