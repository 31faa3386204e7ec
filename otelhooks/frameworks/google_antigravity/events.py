"""What the harness reports besides calls: states of agents, tokens, steps, questions to the user.

Telemetry, turns that begin without a message, and the shortening of a conversation's history.
Failures of what only listens are logged: it runs in the reader of the connection, which it must not
end.
"""
# pyright: basic

from __future__ import annotations

from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.google_antigravity.harness import Harness, tokens_of
from otelhooks.frameworks.google_antigravity.turns import Turn
from otelhooks.frameworks.kit.compaction import Compaction
from otelhooks.frameworks.kit.mcp.questions import Question
from otelhooks.frameworks.kit.remote import loops
from otelhooks.frameworks.kit.telemetry import replaces_spans

__all__ = ["Asked", "Compacted", "see_event", "see_first_step", "see_last_step", "skip_native"]

_HOOKS = "google.antigravity.hooks.hooks"

_EVENT, _STEP = "an event of the harness", "a step of the harness"

_DENIED = "denied by pre-tool hook"
"""In the text of a step whose call a hook or a native policy refused."""


async def see_event(wrapped: Any, processor: Any, event: Any) -> Any:
    """Listen to ``LocalHarnessEventProcessor.process_event``."""
    harness = Harness.of(processor)
    if harness is not None:
        with loops.understood(_EVENT):
            if event.HasField("trajectory_state_update"):
                await _see_agent(harness, event.trajectory_state_update)
            elif event.HasField("usage_update") and event.usage_update.HasField("total"):
                await harness.count(tokens_of(event.usage_update.total))
    return await wrapped(event)


async def _see_agent(harness: Any, update: Any) -> None:
    """Follow an agent's state: turns that begin without a message, and sub-agents."""
    word = type(update).State.Name(update.state).removeprefix("STATE_")
    is_main = not update.parent_trajectory_id or update.trajectory_id == harness.conversation
    if word == "RUNNING" and is_main:
        if harness.turn is None or not harness.turn.is_open:
            turn = Turn.on("", "trigger")
            with loops.inside(harness.outside):  # not in the one that was current when it connected
                goes_on = await harness.begin(turn)
            if not goes_on:
                await harness.stop(str(turn.result))
    elif word == "RUNNING":
        await harness.meet(update.trajectory_id, update.parent_trajectory_id)
    elif word in ("FULLY_IDLE", "CANCELLED") and not is_main:
        await harness.left(update.trajectory_id)


async def see_first_step(wrapped: Any, runner: Any, turn_context: Any, step: Any) -> None:
    """Listen to ``HookRunner.dispatch_pre_step``: agents' instructions, and what they ask for."""
    harness = Harness.of(runner)
    if harness is not None:
        with loops.understood(_STEP):
            if step.parent_trajectory_id:
                await harness.meet(step.trajectory_id, step.parent_trajectory_id, step.content)
            _note_asked(harness, step)
    await wrapped(turn_context, step)


def _note_asked(harness: Any, step: Any) -> None:
    """Note the calls of a step that no seat has judged."""
    for call in step.tool_calls:
        harness.is_answering = False
        if call.name in harness.facts.python_tools and not call.server_name:
            if call.id not in harness.judged:
                harness.asks_for(step.trajectory_id, {call.id: call.name})
        elif harness.unshown.get(step.trajectory_id, 0) > 0:
            harness.unshown[step.trajectory_id] -= 1
        else:
            harness.asks_for(step.trajectory_id, {call.id: call.name})


async def see_last_step(wrapped: Any, runner: Any, turn_context: Any, step: Any) -> None:
    """Listen to ``HookRunner.dispatch_post_step``: what agents said, and what did not run."""
    harness = Harness.of(runner)
    if harness is not None:
        with loops.understood(_STEP):
            run = harness.agents.get(step.trajectory_id)
            if run is not None and step.is_complete_response:
                run.text = step.content
            if run is None and harness.turn is not None:
                harness.turn.hear(step)
                harness.is_answering = step.is_complete_response or step.type.value == "FINISH"
            if step.status.value == "ERROR" and _DENIED in (step.error or step.content):
                await _close_unrun(harness, step)
    await wrapped(turn_context, step)


async def _close_unrun(harness: Any, step: Any) -> None:
    """Close the call that the application's own policy refused after we had allowed it."""
    trajectory = step.trajectory_id
    if harness.undone.get(trajectory, 0) > 0:
        harness.undone[trajectory] -= 1  # refused by a hook; its operation is closed
        return
    waiting = [call for call in harness.calls.values() if call.key == trajectory]
    if len(waiting) == 1:  # otherwise the end of the turn closes it
        harness.unshown[trajectory] = max(0, harness.unshown.get(trajectory, 0) - 1)
        await harness.not_run(waiting[0].id, step.error or step.content)


async def skip_native(wrapped: Any, hook: Any, context: Any, data: Any) -> Any:
    """Listen to the SDK's own OpenTelemetry hooks, whose spans would double ours."""
    if not replaces_spans(Harness.framework):
        return await wrapped(context, data)
    if kit.is_a(hook, f"{_HOOKS}:PreTurnHook", f"{_HOOKS}:PreToolCallDecideHook"):
        return kit.native(f"{_HOOKS}:HookResult")(allow=True)
    return None


# -- questions to the user, and a shortened history -------------------------------------------


def _context_of(runner: Any) -> Any:
    """Return the context of the turn of a runner of hooks; None if there is none."""
    harness = Harness.of(runner)
    return harness.context_of() if harness is not None else None


class Asked(Question):
    """A question of the agent to the user."""

    def read(self, runner: Any, turn_context: Any, interaction_spec: Any) -> None:
        """Read ``HookRunner.dispatch_interaction``."""
        self.runs_in(_context_of(runner))
        self.within, self.given = turn_context, interaction_spec

    def call(self, wrapped: Any) -> Any:
        return wrapped(self.within, self.given)

    def spec(self) -> Any:
        return self.spec_of(self.given.model_dump())

    def answered(self, answer: Any) -> Any:
        given = answer.model_dump() if hasattr(answer, "model_dump") else answer
        found = kit.native("google.antigravity.types:QuestionHookResult").model_validate(given)
        operation = kit.native(f"{_HOOKS}:OperationContext")(self.within)
        return kit.native(f"{_HOOKS}:HookResult")(allow=True), found, operation

    def declined(self) -> Any:
        """Return None: the application may still answer."""
        return None


class Compacted(Compaction):
    """The shortened history."""

    def read(self, runner: Any, turn_context: Any, data: Any) -> None:
        """Read ``HookRunner.dispatch_compaction``."""
        super().read(runner, turn_context, data)
        self.runs_in(_context_of(runner))
        self.step = data

    def summary(self, raw: Any) -> str:
        return self.step.content
