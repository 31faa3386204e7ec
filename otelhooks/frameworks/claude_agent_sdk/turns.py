"""Turns, and what the CLI asks this process: hooks that are put in at each connection.

A turn begins when a message is written to the CLI, and ends when the CLI asks whether the agent may
stop. A refused message is replaced before the CLI gets it, and blocked there; the reader of the
messages gets the reason as the answer. Messages that hooks may change are held back from the
reader.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import functools
import inspect
import json
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

from otelhooks.errors import Denied
from otelhooks.frameworks import kit
from otelhooks.frameworks.claude_agent_sdk import calls, chained
from otelhooks.frameworks.claude_agent_sdk.sessions import Claude, Turn, check_settings
from otelhooks.frameworks.kit import contents, telemetry
from otelhooks.frameworks.kit.remote import loops

__all__ = ["ask_client", "initialize", "read_frames", "write"]


_LATE = (
    "the connection was made before otelhooks.instrument(), so the CLI does not ask;"
    " connect afterwards"
)
_REFUSED = "(This message was refused.)"
_UNDECIDED = "The call could not be judged."
_TOO_LATE = "This message cannot be rewritten any more, since it was sent while the agent worked."
_ERRORS = "claude_agent_sdk._errors"
_NOTICE = "<task-notification>"

_PATIENCE_S = 86_400
"""How long the CLI waits for an answer, which a person may have to give: a day."""

_writing: ContextVar[bool] = ContextVar("otelhooks-claude-writing", default=False)
"""Whether a transport's method was called by another one."""


async def initialize(wrapped: Any, query: Any) -> Any:
    """Listen to ``Query.initialize``: put our hooks in, whatever hooks the application has."""
    session = Claude(query, getattr(query.transport, "_options", None))
    session.found_by(query, query.transport)
    hooks = {event: list(given) for event, given in query.hooks.items()}
    theirs = hooks.pop("PreToolUse", ())
    for matcher in hooks.get("PermissionRequest", ()):
        given = matcher.get("hooks", ())
        matcher["hooks"] = [functools.partial(calls.requested, session, hook) for hook in given]
    for event, answer in _ANSWERS.items():
        ask = functools.partial(_answered, answer, event, session, theirs)
        matcher = {"matcher": None, "hooks": [ask], "timeout": _PATIENCE_S}
        if event == "PreToolUse" and _can_block(query):
            matcher["on_failure"] = "block"
        hooks.setdefault(event, []).append(matcher)
    query.hooks = hooks
    if query.can_use_tool is not None:
        query.can_use_tool = functools.partial(calls.permission, session, query.can_use_tool)
    found = await wrapped()
    await check_settings(query)
    return found


def _can_block(query: Any) -> bool:
    """Return whether the CLI is the SDK's own, and knows what to do when a hook fails."""
    matcher = inspect.signature(kit.native("claude_agent_sdk:HookMatcher")).parameters
    options = getattr(query.transport, "_options", None)
    return "on_failure" in matcher and options is not None and options.cli_path is None


async def _answered(
    answer: Any, event: str, session: Any, theirs: Any, given: Any, id: Any, context: Any
) -> dict[str, Any]:
    """Answer the CLI. Decision code: the CLI would let a call run whose hook failed."""
    try:
        if event == "PreToolUse":
            return await answer(session, given, await chained.ask(theirs, given, id, context))
        return await answer(session, given)
    except Denied as refusal:
        reason = refusal.reason
    except Exception as error:
        telemetry.failed(f"a question of the CLI's was not understood: {event}", error)
        reason = _UNDECIDED
    if event == "PreToolUse":
        return chained.denied(reason)
    if event == "PostToolUse":
        return {"continue": False, "stopReason": reason}
    return {"decision": "block", "reason": reason} if event == "UserPromptSubmit" else {}


# -- what the CLI asks ------------------------------------------------------------------------


async def _prompted(session: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Answer ``UserPromptSubmit``: a message is about to reach the model.

    It was judged when it was sent, unless the agent still worked then, or the CLI made it itself.
    """
    turn, session.sent = session.sent, None
    if turn is None and given["prompt"] == _REFUSED:
        return {"decision": "block", "reason": _REFUSED}
    if turn is None:
        is_notice = given["prompt"].startswith(_NOTICE)
        if is_notice and session.turn is not None and session.turn.is_open:
            return {}
        turn = Turn.on(given["prompt"], "trigger" if is_notice else "user")
        turn.user_said = None  # the CLI may have made it; what the user sent is remembered
        with loops.inside(session.outside):
            if await session.begin(turn) and turn.is_rewritten:
                await session.end(_TOO_LATE)
                turn.result, turn.is_refused = _TOO_LATE, True
    if turn.is_refused:
        return {"decision": "block", "reason": contents.as_text(turn.result)}
    return {}


async def _stops(session: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Answer ``Stop``: not the last one while agents work in the background."""
    turn = session.turn
    tasks = given.get("background_tasks") or ()
    if turn is None or session.halted or any(one.get("type") == "subagent" for one in tasks):
        return {}
    reason = await turn.may_stop(given.get("last_assistant_message") or "")
    if reason is None:
        await session.end()
        return {}
    return {"decision": "block", "reason": reason}


async def _agent_starts(session: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Answer ``SubagentStart``: the agent of a call that was approved has a name now."""
    kind = given.get("agent_type")
    waiting = [run for run in session.starting if run.agent == kind]
    await session.meet(given["agent_id"], "", waiting[0].prompt if waiting else "")
    return {}


async def _agent_stops(session: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Answer ``SubagentStop``."""
    run = session.agents.get(given["agent_id"])
    if run is None:
        return {}
    run.text = given.get("last_assistant_message") or run.text
    reason = await run.may_stop()
    return {} if reason is None else {"decision": "block", "reason": reason}


_ANSWERS = {
    "PreToolUse": calls.before_call,
    "PostToolUse": calls.after_call,
    "PostToolUseFailure": calls.after_error,
    "UserPromptSubmit": _prompted,
    "Stop": _stops,
    "SubagentStart": _agent_starts,
    "SubagentStop": _agent_stops,
}


# -- what the application writes --------------------------------------------------------------


async def write(wrapped: Any, transport: Any, data: str) -> None:
    """Listen to ``Transport.write``, by which each message of the user's reaches the CLI."""
    if _writing.get() or '"user"' not in data:
        await wrapped(data)
        return
    session = Claude.of(transport)
    if session is not None:
        data = "".join([await _line(session, line) for line in data.splitlines(keepends=True)])
    token = _writing.set(True)
    try:
        await wrapped(data)
    finally:
        _writing.reset(token)


async def ask_client(wrapped: Any, client: Any, *args: Any, **kwargs: Any) -> None:
    """Listen to ``ClaudeSDKClient.query``.

    Raises:
        SeatError: The client connected before us, and something could be denied.
    """
    if client._query is not None and Claude.of(client._query) is None:
        Claude.unguarded(_LATE)
    await wrapped(*args, **kwargs)


async def _line(session: Any, line: str) -> str:
    """Return a line as it may be written: a message of the user's begins a turn."""
    frame = json.loads(line) if line.strip() else None
    if not isinstance(frame, dict) or frame.get("type") != "user":
        return line
    message = frame.get("message") or {}
    turn = Turn.on(message.get("content"), "user")
    if session.sent is not None or (session.turn is not None and session.turn.is_open):
        goes_on = await _judged_meanwhile(session, turn)
    else:
        session.sent = turn
        try:
            goes_on = await session.begin(turn)
        except BaseException:
            session.sent = None
            raise
    if goes_on and not turn.is_rewritten:
        return line
    content = turn.prompt if goes_on else _REFUSED
    return json.dumps({**frame, "message": {**message, "content": content}}) + "\n"


async def _judged_meanwhile(session: Any, turn: Any) -> bool:
    """Return whether a message may be sent while the agent works; older CLIs do not ask again."""
    turn.agent, turn.conversation = session.agent, session.conversation
    with loops.inside(session.outside):
        goes_on = await turn.begin()
    await turn.end("")
    return goes_on


# -- what the application reads ---------------------------------------------------------------


def read_frames(wrapped: Any, query: Any) -> Any:
    """Listen to ``Query.receive_messages``."""
    session = Claude.of(query)
    return wrapped() if session is None else _frames(session, wrapped())


async def _frames(session: Any, inner: Any) -> AsyncIterator[dict[str, Any]]:
    try:
        async with contextlib.aclosing(inner):
            async for frame in inner:
                if session.sent is not None and frame.get("subtype") == "init":
                    await session.check_asked()
                with loops.understood("a message of the CLI's"):
                    await _see(session, frame)
                for one in await _shown(session, frame):
                    yield one
    except GeneratorExit:
        raise  # the reader has had enough; the turn continues
    except BaseException as error:
        if session.turn is not None:
            await session.turn.fail(error)
        if not (session.is_stopped and kit.is_a(error, f"{_ERRORS}:ProcessError")):
            raise  # of an interrupted turn the CLI says that it failed
    await session.end()


async def _see(session: Any, frame: dict[str, Any]) -> None:
    """Note what a model call used, what it asks for, and calls that did not run."""
    kind, message = frame.get("type"), frame.get("message") or {}
    content = message.get("content")
    blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    if kind == "assistant":
        session.model = message.get("model") or session.model
        await session.spent(message)
    elif kind == "user":
        for one in blocks:
            if one.get("type") == "tool_result":
                await _returned(session, one)
    elif kind == "result":
        await session.spent_in_all(frame.get("usage") or {})


async def _returned(session: Any, block: dict[str, Any]) -> None:
    """Close a call whose result has come without its end; note one that was never judged."""
    id, text = block["tool_use_id"], str(block.get("content"))
    if await session.not_run(id, text) or id in session.judged or block.get("is_error"):
        return
    session.asks_for("", {id: "a tool of the CLI's"})  # it ran, and no hook was asked


async def _shown(session: Any, frame: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the reader gets for a frame, now."""
    if not session.turns:
        return [frame]
    turn = session.turns[0]
    if frame.get("type") == "result":
        return await _result(session, turn, frame)
    if turn.is_refused and frame.get("subtype") == "informational":
        return []
    if (turn.holds_back or turn.is_changed) and _says(frame):
        turn.shown.append(frame)
        return []
    return [frame]


def _says(frame: dict[str, Any]) -> bool:
    """Return whether a frame shows words of the agent itself."""
    if frame.get("parent_tool_use_id") or frame.get("type") not in ("assistant", "stream_event"):
        return False
    content = (frame.get("message") or {}).get("content") or ()
    return not any(one.get("type") == "tool_use" for one in content)


async def _result(session: Any, turn: Any, frame: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the end of a turn, as hooks leave it."""
    if session.halted:
        await session.end(session.halted)
        turn.result, turn.is_changed, session.halted = session.halted, True, ""
        session.is_stopped = True
    elif turn.is_open and turn is session.turn:
        if session.agents or session.starting:
            return [frame]  # the CLI continues when they are done
        turn.text = frame.get("result") or ""
        if frame.get("is_error"):
            await turn.fail(RuntimeError(turn.text or str(frame.get("subtype"))))
        await session.end()
    while session.turns and not session.turns[0].is_open:
        turn = session.turns.popleft()
    session.sent = None
    if not (turn.is_changed or turn.is_refused):
        return [*turn.shown, frame]
    text = contents.as_text(turn.result)
    content = [{"type": "text", "text": text}]
    message = {"role": "assistant", "model": session.model, "content": content}
    said = {"type": "assistant", "message": message, "parent_tool_use_id": None}
    said["session_id"] = frame.get("session_id")
    changes: dict[str, Any] = {"result": text, "is_error": False, "subtype": "success"}
    if not isinstance(turn.result, str):
        changes["structured_output"] = turn.result
    return [said, {**frame, **changes}]
