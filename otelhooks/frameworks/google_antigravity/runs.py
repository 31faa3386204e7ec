"""Turns: from a message, or a trigger, until the harness asks whether the agent may stop.

A refused turn, and a ready answer, are a step like the harness's own, which whoever reads the steps
gets instead of a run. What hooks may still change is held back from readers until the turn is over.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from otelhooks.errors import SeatError
from otelhooks.frameworks.google_antigravity.budget import spent, tokens_of
from otelhooks.frameworks.google_antigravity.state import (
    AGENT,
    FRAMEWORK,
    Connected,
    handshake,
    inside,
    known,
    register,
    state_of,
)
from otelhooks.frameworks.google_antigravity.subagents import end_agents
from otelhooks.hooks import drive
from otelhooks.pipeline import runtime
from otelhooks.pipeline.agent_run import RunRequest, RunSeat, agent_run
from otelhooks.pipeline.drivers import Closed, Split, Unrun
from otelhooks.pipeline.frames import current_scope
from otelhooks.pipeline.runtime import Runtime

__all__ = [
    "after_turn",
    "before_stop",
    "begin_turn",
    "connect",
    "disconnect",
    "note_conversation",
    "read_steps",
    "send",
    "send_trigger",
]

_LATE = (
    "the agent was started before otelhooks.instrument(), so its harness asks nobody;"
    " start it afterwards"
)


class Answer:
    """What a turn comes to.

    Attributes:
        value: Its text, or the value of an agent whose answers have a schema.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class TurnRequest(RunRequest):
    """A turn with what its seat needs to write it.

    Attributes:
        given: The message as the application gave it.
        reason: Why the agent is sent on; empty until a hook wants it.
    """

    __slots__ = ("given", "reason")

    def __init__(self, state: Connected, given: Any, source: str) -> None:
        super().__init__(state.agent, _shown(given), conversation=state.conversation, source=source)
        self.given = given
        self.reason = ""

    def written(self) -> Any:
        """Return the message, as hooks wrote it or as it was given."""
        return self.prompt if self.is_rewritten else self.given


def _shown(given: Any) -> Any:
    """Return a message as hooks see it: the text of what is text only, else the parts."""
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        parts = list(given)
        return "\n".join(parts) if all(isinstance(part, str) for part in parts) else parts
    return "" if given is None else given


class _TurnSeat(RunSeat):
    """A turn; its result is an `Answer`."""

    framework = FRAMEWORK

    def refused(self, request: RunRequest, reason: str) -> Any:
        return Answer(reason)

    def answered(self, request: RunRequest, response: Any) -> Any:
        return Answer(response)

    def response(self, request: RunRequest, raw: Any) -> Any:
        return raw.value

    def with_response(self, request: RunRequest, raw: Any, response: Any) -> Any:
        return Answer(response)

    def continued(self, request: Any, raw: Any, reason: str) -> RunRequest | None:
        request.reason = reason
        return request


_SEAT = _TurnSeat()


class OpenTurn:
    """A turn from its begin to its end.

    Attributes:
        split: Its run.
        request: What it was begun with.
        text: The last text that the agent said to the user.
        value: What an agent with a schema gave as its answer, or None.
        answer: What hooks made of its answer; None while it is open, or after a failure.
        is_changed: Whether that is not what the agent said.
    """

    def __init__(self, split: Split, request: TurnRequest) -> None:
        self.split = split
        self.request = request
        self.text = ""
        self.value: Any = None
        self.answer: Any = None
        self.is_changed = False

    @property
    def is_open(self) -> bool:
        """Whether it goes on."""
        return self.split.proceeds

    def _said(self, text: str = "") -> Any:
        return self.value if self.value is not None else text or self.text

    async def may_stop(self, text: str) -> str | None:
        """End it, unless a hook sends it on; return the reason to go on with then."""
        said = self._said(text)
        with inside(self.split.context):
            result = await self.split.afinish(Answer(said))
        if self.is_open:
            return self.request.reason
        self._take(result, said)
        return None

    async def end(self, answer: Any = None) -> None:
        """End it with what was said so far, or with an answer of our own."""
        if not self.is_open:
            return
        said = answer if answer is not None else self._said()
        with inside(self.split.context):
            result = await self.split.afinish(Closed(Answer(said)))
        self._take(result, said)

    async def fail(self, error: BaseException) -> None:
        """End it with a failure, which the caller raises."""
        if self.is_open:
            with inside(self.split.context), contextlib.suppress(type(error)):
                await self.split.afail(error)

    def _take(self, result: Any, said: Any) -> None:
        self.answer = getattr(result, "value", result)
        self.is_changed = self.answer is not said and self.answer != said

    def holds(self, step: Any) -> bool:
        """Say whether a step waits for what hooks make of the answer."""
        if not self.request.holds_back:
            return False
        says = step.content_delta or step.content or step.thinking_delta or step.thinking
        return bool(says) and step.source.value == "MODEL" and step.target.value == "TARGET_USER"

    def hear(self, step: Any) -> None:
        """Note what a finished step of the agent says."""
        if step.type.value == "FINISH":
            self.value = step.structured_output
        elif step.is_complete_response:
            self.text = step.content


# -- connections ------------------------------------------------------------------------------


def note_conversation(wrapped: Callable[..., Any], _: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``parse_initialize_response``: the harness tells the conversation's id only here."""
    response = kwargs["init_resp"] if "init_resp" in kwargs else args[0]
    handshake.set(response.cascade_id)
    return wrapped(*args, **kwargs)


def connect(wrapped: Callable[..., Any], connection: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``LocalConnection.__init__``: a state of its own for each start of a harness."""
    wrapped(*args, **kwargs)
    conversation = handshake.get()
    handshake.set("")
    runner = connection._hook_runner
    facts = known.get(runner) if runner is not None else None
    if facts is None:
        return  # configured before us: nobody will be asked
    state = Connected(connection, conversation, facts)
    state.has_history = bool(connection._initial_history)
    state.used = tokens_of(connection.cumulative_usage)
    register(state, connection, runner, connection._tool_runner, connection._processor)


async def disconnect(wrapped: Callable[..., Any], connection: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``LocalConnection.disconnect``: the conversation ends, as far as we see it."""
    try:
        return await wrapped(*args, **kwargs)
    finally:
        state, rt = state_of(connection), runtime.active()
        if state is not None:
            await end_turn(state)
            if rt is not None and state.conversation:
                session = rt.sessions.end(state.conversation)
                if session is not None:
                    await drive.adrive(rt.finish_session(session))


# -- turns ------------------------------------------------------------------------------------


async def begin_turn(rt: Runtime, state: Connected, given: Any, source: str = "user") -> Any:
    """Begin a turn.

    Returns:
        The message to send, or an `Answer` in the place of a run.

    Raises:
        Denied: It is refused, with ``raise_on_deny=True``.
    """
    await end_turn(state)
    request = TurnRequest(state, given, source)
    _, judges = rt.in_force(current_scope(), state.agent)
    split = Split(agent_run(rt, _SEAT, request))
    if state.conversation:
        looks = any(judge.needs_context for judge in judges)
        rt.sessions.get(state.conversation).context.meet(lambda: state.has_history, looks=looks)
    await split.abegin()
    if not split.proceeds:
        return await split.afinish(None)
    turn = OpenTurn(split, request)
    state.begin(turn)
    with inside(split.context):
        reason = state.closed or await spent(rt, state)
    if reason:
        await end_turn(state, reason)
        return Answer(reason)
    return request.written()


async def end_turn(state: Connected, answer: Any = None) -> None:
    """End a turn with all that is open in it: sub-agents, and calls whose end nobody will see."""
    turn = state.turn
    if turn is None:
        return
    state.turn = None
    await end_agents(state)
    left, state.calls = list(state.calls.values()), {}
    for pending in left:
        with inside(pending.split.context):
            await pending.split.afinish(Unrun(_UNSEEN, is_refused=False))
    await turn.end(answer)


_UNSEEN = "the harness told of no end"


async def send(wrapped: Callable[..., Any], connection: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``LocalConnection.send``."""
    rt, state = runtime.active(), state_of(connection)
    if rt is None:
        return await wrapped(*args, **kwargs)
    if state is None:
        _refuse_late(rt)
        return await wrapped(*args, **kwargs)
    given, others = (args[0], kwargs) if args else _split(kwargs, "prompt")
    state.refused = None
    written = await begin_turn(rt, state, given)
    if isinstance(written, Answer):
        state.refused = _text(written.value)
        return None
    return await _send(state, wrapped, written, others)


async def send_trigger(wrapped: Callable[..., Any], connection: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``LocalConnection.send_trigger_notification``; a running turn just gets it."""
    rt, state = runtime.active(), state_of(connection)
    if rt is None:
        return await wrapped(*args, **kwargs)
    if state is None:
        _refuse_late(rt)
        return await wrapped(*args, **kwargs)
    if state.turn is not None and state.turn.is_open:
        return await wrapped(*args, **kwargs)
    given, others = (args[0], kwargs) if args else _split(kwargs, "content")
    written = await begin_turn(rt, state, given, "trigger")
    if isinstance(written, Answer):
        return None
    return await _send(state, wrapped, written, others)


async def _send(state: Connected, wrapped: Callable[..., Any], message: Any, others: Any) -> Any:
    turn = state.turn
    with inside(turn.split.context):
        try:
            return await wrapped(message, **others)
        except BaseException as error:
            await turn.fail(error)
            raise


def _split(kwargs: dict[str, Any], name: str) -> tuple[Any, dict[str, Any]]:
    return kwargs[name], {key: value for key, value in kwargs.items() if key != name}


def _refuse_late(rt: Runtime) -> None:
    """Refuse a turn of a harness that was started without us, where anything could be denied.

    Raises:
        SeatError: It could.
    """
    hooks, judges = rt.in_force(current_scope(), AGENT)
    if hooks.can_deny or any(getattr(judge, "can_deny", True) for judge in judges):
        from otelhooks.patching.versions import installed

        name, version = installed(("google-antigravity",), "google.antigravity")
        raise SeatError(FRAMEWORK, name, version, "any", _LATE)


async def before_stop(wrapped: Callable[..., Any], runner: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``HookRunner.dispatch_stop``: after the application's own hooks."""
    result = await wrapped(*args, **kwargs)
    rt, state = runtime.active(), state_of(runner)
    if rt is None or state is None or result.decision.value == "CONTINUE":
        return result
    asked = kwargs["args"] if "args" in kwargs else args[1]
    turn = state.turn
    if turn is None or state.is_cancelled or asked.trajectory_id not in ("", state.conversation):
        return result
    reason = await turn.may_stop(asked.response_text)
    if reason is None:
        await end_turn(state)
        return result
    changes = {"decision": type(result.decision).CONTINUE, "reason": reason}
    return result.model_copy(update=changes)


async def after_turn(wrapped: Callable[..., Any], runner: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``HookRunner.dispatch_post_turn``: the end where nobody asked about a stop."""
    await wrapped(*args, **kwargs)
    state = state_of(runner)
    if state is None or runtime.active() is None:
        return
    if not state.is_cancelled:
        await end_turn(state)  # else whoever reads the steps is told of it


# -- steps ------------------------------------------------------------------------------------


def read_steps(wrapped: Callable[..., Any], connection: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``LocalConnection.receive_steps``."""
    state = state_of(connection)
    if runtime.active() is None or state is None or state.is_read:
        return wrapped(*args, **kwargs)
    return _steps(state, wrapped(*args, **kwargs))


async def _steps(state: Connected, inner: Any) -> AsyncIterator[Any]:
    if state.refused is not None:
        text, state.refused = state.refused, None
        yield _step(state, text)
        return
    state.is_read = True
    turn, held = state.turn, []
    try:
        async with contextlib.aclosing(inner):
            async for step in inner:
                turn = state.turn or turn
                if turn is not None and turn.holds(step):
                    held.append(step)
                else:
                    yield step
    except GeneratorExit:
        raise  # whoever reads has had enough; the turn goes on
    except BaseException as error:
        if not state.halted:
            if turn is not None:
                await turn.fail(error)
            raise
    finally:
        state.is_read = False
    if state.halted:
        reason, state.halted = state.halted, ""
        await end_turn(state, reason)
        yield _step(state, reason)
        return
    if turn is not None and turn is state.turn:
        await end_turn(state)
    if turn is not None and turn.is_changed:
        yield _step(state, turn.answer)
        return
    for step in held:
        yield step


def _step(state: Connected, answer: Any) -> Any:
    """Return a step in which the agent says an answer."""
    step_type = sys.modules[
        "google.antigravity.connections.local.event_processor"
    ].LocalConnectionStep
    text = _text(answer)
    told: dict[str, Any] = {
        "trajectory_id": state.conversation,
        "state": "STATE_DONE",
        "source": "SOURCE_MODEL",
        "target": "TARGET_USER",
        "text": text,
        "text_delta": text,
    }
    if not isinstance(answer, str):
        told["finish"] = {"output_string": text}
    return step_type.from_dict(told)


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, default=str)
