"""Turns: from a message, or a trigger, until the harness asks whether the agent may stop.

The reader of the steps gets a refusal, or a ready answer, as a step like the harness's own. Steps
that hooks may still change are held back until the turn is over.
"""
# pyright: basic

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from otelhooks.frameworks import kit
from otelhooks.frameworks.google_antigravity.harness import AGENT, Harness
from otelhooks.frameworks.kit import contents
from otelhooks.frameworks.kit.remote import loops

__all__ = ["Turn", "after_turn", "before_stop", "read_steps", "send", "send_trigger"]

_LATE = (
    "the agent was started before otelhooks.instrument(), so its harness does not ask otelhooks;"
    " start it afterwards"
)


class Turn(loops.RemoteRun):
    """A turn from beginning to end; an agent with a schema answers with a value."""

    can_go_on = True
    given: Any = None

    @classmethod
    def on(cls, given: Any, source: str) -> Turn:
        """Return a turn on a message, as the application gave it."""
        turn = cls.of(AGENT, _shown(given))
        turn.given, turn.source = given, source
        return turn

    def holds(self, step: Any) -> bool:
        """Return whether a step waits for what hooks make of the answer."""
        if not self.holds_back:
            return False
        says = step.content_delta or step.content or step.thinking_delta or step.thinking
        return bool(says) and step.source.value == "MODEL" and step.target.value == "TARGET_USER"

    def hear(self, step: Any) -> None:
        """Note the text of a finished step of the agent."""
        if step.type.value == "FINISH":
            self.value = step.structured_output
        elif step.is_complete_response:
            self.text = step.content


def _shown(given: Any) -> Any:
    """Return a message as hooks see it: its text if it is only text, else the parts."""
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        parts = list(given)
        return "\n".join(parts) if all(isinstance(part, str) for part in parts) else parts
    return "" if given is None else given


async def send(wrapped: Any, connection: Any, /, prompt: Any, **options: Any) -> None:
    """Listen to ``LocalConnection.send``."""
    harness = _guarded(connection)
    if harness is None:
        await wrapped(prompt, **options)
        return
    harness.refused = None
    turn = Turn.on(prompt, "user")
    if await harness.begin(turn):
        await _send(turn, wrapped, options)
    else:
        harness.refused = contents.as_text(turn.result)


async def send_trigger(wrapped: Any, connection: Any, content: Any) -> None:
    """Listen to ``LocalConnection.send_trigger_notification``; a running turn just gets it."""
    harness = _guarded(connection)
    if harness is None or (harness.turn is not None and harness.turn.is_open):
        await wrapped(content)
        return
    turn = Turn.on(content, "trigger")
    if await harness.begin(turn):
        await _send(turn, wrapped, {})


def _guarded(connection: Any) -> Any:
    """Return the harness of a connection; None for one that was started without us.

    Raises:
        SeatError: It was, and something could be denied.
    """
    harness = Harness.of(connection)
    if harness is None:
        Harness.unguarded(_LATE)
    return harness


async def _send(turn: Turn, wrapped: Any, options: dict[str, Any]) -> None:
    with loops.inside(turn.context):
        try:
            await wrapped(turn.prompt if turn.is_rewritten else turn.given, **options)
        except BaseException as error:
            await turn.fail(error)
            raise


async def before_stop(wrapped: Any, runner: Any, turn_context: Any, args: Any) -> Any:
    """Listen to ``HookRunner.dispatch_stop``: after the application's own hooks."""
    result = await wrapped(turn_context, args)
    harness = Harness.of(runner)
    if harness is None or harness.turn is None or result.decision.value == "CONTINUE":
        return result
    if harness.is_cancelled or args.trajectory_id not in ("", harness.conversation):
        return result
    reason = await harness.turn.may_stop(args.response_text)
    if reason is None:
        await harness.end()
        return result
    return result.model_copy(update={"decision": type(result.decision).CONTINUE, "reason": reason})


async def after_turn(wrapped: Any, runner: Any, turn_context: Any, response: Any) -> None:
    """Listen to ``HookRunner.dispatch_post_turn``: the end if no stop was asked about."""
    await wrapped(turn_context, response)
    harness = Harness.of(runner)
    if harness is not None and not harness.is_cancelled:
        await harness.end()  # otherwise the reader gets the error


def read_steps(wrapped: Any, connection: Any) -> Any:
    """Listen to ``LocalConnection.receive_steps``."""
    harness = Harness.of(connection)
    if harness is None or harness.is_read:
        return wrapped()
    return _steps(harness, wrapped())


async def _steps(harness: Any, inner: Any) -> AsyncIterator[Any]:
    if harness.refused is not None:
        text, harness.refused = harness.refused, None
        yield _step(harness, text)
        return
    harness.is_read = True
    turn, held = harness.turn, []
    try:
        async with contextlib.aclosing(inner):
            async for step in inner:
                turn = harness.turn or turn
                if turn is not None and turn.holds(step):
                    held.append(step)
                else:
                    yield step
    except GeneratorExit:
        raise  # the reader has had enough; the turn continues
    except BaseException as error:
        if not harness.halted:
            if turn is not None:
                await turn.fail(error)
            raise
    finally:
        harness.is_read = False
    if harness.halted:
        reason, harness.halted = harness.halted, ""
        await harness.end(reason)
        yield _step(harness, reason)
        return
    if turn is not None and turn is harness.turn:
        await harness.end()
    if turn is not None and turn.is_changed:
        held = [_step(harness, turn.result)]
    for step in held:
        yield step


def _step(harness: Any, answer: Any) -> Any:
    """Return a step with the agent's answer."""
    text = contents.as_text(answer)
    told: dict[str, Any] = {
        "trajectory_id": harness.conversation,
        "state": "STATE_DONE",
        "source": "SOURCE_MODEL",
        "target": "TARGET_USER",
        "text": text,
        "text_delta": text,
    }
    if not isinstance(answer, str):
        told["finish"] = {"output_string": text}
    place = "google.antigravity.connections.local.event_processor:LocalConnectionStep"
    return kit.native(place).from_dict(told)
