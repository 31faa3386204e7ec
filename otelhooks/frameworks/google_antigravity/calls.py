"""Read, judge and write tool calls: what the harness asks before and after each, and Python tools.

Two seats see a Python tool's call, in two tasks: the harness asks whether it may run, and then has
this process run it. They are joined by the call's id. The first judges, and leaves a permit for
exactly these arguments; the second takes it, runs the body, and ends the operation, since only
there a result or an error can still be changed. Built-in tools and those of servers run in the
harness: their operation ends when it tells of their end, and then nothing can be changed any more.
"""
# pyright: basic

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

from otelhooks.frameworks.google_antigravity.agents import INVOKE, KINDS, guarded_scope
from otelhooks.frameworks.google_antigravity.state import (
    FRAMEWORK,
    Connected,
    Pending,
    Wire,
    current_wire,
    inside,
    state_of,
    wire,
)
from otelhooks.frameworks.google_antigravity.subagents import begin_agents
from otelhooks.hooks.calls import Call, same_json
from otelhooks.pipeline import runtime
from otelhooks.pipeline.drivers import Split, Unrun, adrive
from otelhooks.pipeline.frames import Op, current_frame, with_scope
from otelhooks.pipeline.permits import Handoff
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.types import normalize_builtin_tool_name

__all__ = ["after_call", "after_error", "before_call", "execute", "run_python_tool"]

_PYTHON = "google_antigravity.python"


class _Refused:
    """A refusal, on its way to the harness."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class _ErrorText:
    """A failure whose text a hook replaced; to the model it stays a failure."""

    def __init__(self, text: str) -> None:
        self.text = text


class _AskedSeat(ToolSeat):
    """A call that the harness asks about, of a Python tool."""

    framework = FRAMEWORK

    def denied(self, call: Call, reason: str) -> Any:
        return _Refused(reason)

    def handoff(self, call: Call) -> Handoff | None:
        return Handoff(_PYTHON, call.name)

    def starts_agent(self, call: Call) -> bool:
        return False


class _HarnessSeat(ToolSeat):
    """A call of a built-in tool, or of a server's: it runs in the harness."""

    framework = FRAMEWORK
    recovers = False

    def denied(self, call: Call, reason: str) -> Any:
        return _Refused(reason)

    def starts_agent(self, call: Call) -> bool:
        return call.name == INVOKE and call.server is None

    def with_result(self, call: Call, raw: Any, value: Any) -> Any:
        return _Refused("")  # the harness has the result, and cannot be given another one

    def failed(self, call: Call, error: BaseException, message: str) -> Any:
        return _ErrorText(message)


class _PythonSeat(ToolSeat):
    """A Python tool's body.

    Attributes:
        refused: Whether the call was judged here, and refused.
    """

    framework = FRAMEWORK
    group = _PYTHON

    def __init__(self) -> None:
        self.refused = False

    def denied(self, call: Call, reason: str) -> Any:
        self.refused = True
        return super().denied(call, reason)


_ASKED, _HARNESS = _AskedSeat(), _HarnessSeat()


# -- reading ----------------------------------------------------------------------------------


class _Asked(Call):
    """A call as the harness asks about it.

    Args:
        name: As rules see it.
        envelope: The arguments of a call of ``call_mcp_tool``, which has those of this call inside;
            None where they are the call's own.
        is_text: Whether they lie there as a text, which nobody may read in another way than we do.
    """

    __slots__ = ("envelope", "is_text")

    def __init__(
        self,
        name: str,
        args: dict[str, Any],
        envelope: dict[str, Any] | None,
        is_text: bool,
        **known: Any,
    ) -> None:
        super().__init__(name, args, **known)
        self.envelope = envelope
        self.is_text = is_text

    def written(self, approved: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments that the harness is to take instead of its own, or None."""
        if not self.version and not self.is_text:
            return None
        return {**self.envelope, _INSIDE: approved} if self.envelope else dict(approved)


_INSIDE, _NAMED = "Arguments", {"ServerName": "server_name", "ToolName": "name"}


def _arguments(given: Any) -> tuple[dict[str, Any], dict[str, Any] | None, bool]:
    """Return the arguments of a call, those of ``call_mcp_tool`` around them, whether as text.

    The model calls tools of servers by that one unless it was offered each by itself; the harness
    tells server and tool of it, and hands on what is inside.
    """
    args = dict(given.args)
    inside = args.get(_INSIDE)
    is_other = any(args.get(key) != getattr(given, name) for key, name in _NAMED.items())
    if not given.server_name or is_other or args.keys() != {_INSIDE, *_NAMED}:
        return args, None, False
    is_text = isinstance(inside, str)
    if is_text:
        with contextlib.suppress(ValueError):
            inside = json.loads(inside)
    return (inside, args, is_text) if isinstance(inside, dict) else (args, None, False)


def read_call(given: Any, state: Connected | None) -> _Asked:
    """Read a call as the harness asks about it; its name is today's."""
    name, is_python = given.name, state is not None and given.name in state.python_tools
    is_built_in = not given.server_name and not is_python
    if is_built_in:
        name = str(normalize_builtin_tool_name(name))
    return _Asked(
        name,
        *_arguments(given),
        id=given.id,
        server=given.server_name or None,
        kind=KINDS.get(name) if is_built_in else None,
        path=given.canonical_path,
        tool_type="extension" if is_built_in else "function",
    )


def trajectory_of(step_id: str | None) -> str:
    """Return the trajectory in the id of a step, ``trajectory:index``."""
    return (step_id or "").rpartition(":")[0]


def reconciled(approved: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the approved arguments where the wire has only made floats of their integers."""
    return approved if same_json(_floats(approved), _floats(given)) else given


def _floats(value: Any) -> Any:
    if type(value) is int and float(value) == value:
        return float(value)
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_floats(item) for item in value]
    return value


# -- the harness asks -------------------------------------------------------------------------


async def before_call(wrapped: Callable[..., Any], runner: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``HookRunner.dispatch_pre_tool_call``: after the application's own hooks."""
    rt = runtime.active()
    found = await wrapped(*args, **kwargs)
    result, given, _ = found
    state = state_of(runner)
    if rt is None or not result.allow:
        if state is not None:
            state.note_denied(given.id, trajectory_of(given.step_id))
        return found
    changes = await _judge(rt, state, read_call(given, state), trajectory_of(given.step_id))
    return (result.model_copy(update=changes), *found[1:]) if changes else found


async def _judge(
    rt: Runtime, state: Connected | None, call: _Asked, trajectory: str
) -> dict[str, Any]:
    """Judge a call; return what is different in the hook's result."""
    context = None if state is None else state.context_of(trajectory)
    is_python = state is not None and call.name in state.python_tools and call.server is None
    with inside(context):
        if state is not None:
            call.branch = _branch()
            with inside(with_scope(guarded_scope(rt, state, call))):
                seat = _ASKED if is_python else _HARNESS
                split = Split(tool(rt, seat, call, state.conversation))
                await split.abegin()
        else:  # a runner of the application's own
            split = await Split(tool(rt, _HARNESS, call)).abegin()
    reason = _told(split)
    agent = None if state is None else state.agent_of(trajectory)
    if reason is None and agent is not None and agent.refusal:
        reason = agent.refusal
    if reason is None and state is not None and _HARNESS.starts_agent(call):
        reason = await begin_agents(rt, state, split, split.value, trajectory)
    if reason is not None:
        await split.afinish(Unrun(reason))
        if state is not None:
            state.note_denied(call.id, trajectory)
        return {"allow": False, "message": reason, "modified_args": None}
    if state is None or call.id is None:
        await split.afinish(None)  # whoever asks so will not tell of the end
    else:
        state.note_allowed(Pending(split, call, trajectory, is_python))
    written = call.written(split.value)
    return {} if written is None else {"modified_args": written}


def _branch() -> str:
    frame = current_frame()
    return frame.branch if frame is not None else ""


def _told(split: Split) -> str | None:
    """Return the reason of a refusal; None of a call that may run."""
    return None if split.proceeds else split.result.reason


async def after_call(wrapped: Callable[..., Any], runner: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``HookRunner.dispatch_post_tool_call``."""
    await wrapped(*args, **kwargs)
    result = kwargs["result"] if "result" in kwargs else args[1]
    state, pending = _ended(runner, getattr(result, "id", None))
    if state is None or pending is None:
        return
    with inside(pending.split.context):
        found = await pending.split.afinish(result.result)
    if isinstance(found, _Refused):
        await state.halt(_TAKEN_BACK, close=True, wait=True)


_TAKEN_BACK = "The turn was stopped, since a tool's result was taken back."


async def after_error(wrapped: Callable[..., Any], runner: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``HookRunner.dispatch_on_tool_error``: another text, but always an error."""
    given = await wrapped(*args, **kwargs)
    error = kwargs["error"] if "error" in kwargs else args[1]
    _, pending = _ended(runner, getattr(error, "call_id", None))
    if pending is None:
        return given
    try:
        with inside(pending.split.context):
            found = await pending.split.afail(error)
    except Exception as raised:
        if raised is not error:
            raise
        return given
    if isinstance(found, _ErrorText):
        return given[0].model_copy(update={"allow": True}), found.text
    return given


def _ended(runner: Any, id: str | None) -> tuple[Connected | None, Pending | None]:
    """Return the call that has ended, once; a Python tool's ends where its body runs."""
    state = state_of(runner)
    return state, None if state is None or id is None else state.calls.pop(id, None)


# -- this process runs a Python tool ----------------------------------------------------------


async def run_python_tool(
    wrapped: Callable[..., Any], processor: Any, args: Any, kwargs: Any
) -> Any:
    """Seat of ``LocalHarnessEventProcessor.handle_tool_call``: remember whose call it is."""
    state = state_of(processor)
    asked = kwargs["tool_call"] if "tool_call" in kwargs else args[0]
    if state is not None:
        wire.set(Wire(state, asked.id, asked.trajectory_id))  # the task's own
    return await wrapped(*args, **kwargs)


async def execute(wrapped: Callable[..., Any], runner: Any, args: Any, kwargs: Any) -> Any:
    """Seat of ``ToolRunner.execute``, through which every Python tool runs."""
    rt = runtime.active()
    if rt is None:
        return await wrapped(*args, **kwargs)
    name, given = (args[0], kwargs) if args else (kwargs["tool_name"], _others(kwargs))
    asked = current_wire()
    state = asked.state if asked is not None else state_of(runner)
    id = asked.take() if asked is not None else None
    pending = state.calls.pop(id, None) if state is not None and id is not None else None

    async def body(approved: dict[str, Any]) -> Any:
        return await wrapped(name, **approved)

    if pending is not None and pending.is_python and pending.call.name == name:
        call = Call(name, reconciled(pending.split.value, given), id=id)
        return await _go_on(rt, pending.split, call, body)
    call = Call(name, dict(given), id=id, is_known=name in runner.tool_names)
    if state is not None and id is not None:
        state.judged.add(id)
    conversation = state.conversation if state is not None else ""
    with inside(_context(state, asked)):
        return await adrive(tool(rt, _PythonSeat(), call, conversation), body)


def _others(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name != "tool_name"}


def _context(state: Connected | None, asked: Wire | None) -> Any:
    """Return where a call lies that no hook was asked about; None for where it is made."""
    if state is None:
        return None
    if asked is not None:
        return state.context_of(asked.trajectory)
    is_elsewhere = state.turn is None or isinstance(current_frame(), Op)
    return None if is_elsewhere else state.context_of("")


async def _go_on(rt: Runtime, split: Split, call: Call, body: Callable[..., Any]) -> Any:
    """Run the body of a call that was allowed, and end its operation."""
    seat = _PythonSeat()
    with inside(split.context):
        try:
            raw = await adrive(tool(rt, seat, call), body)
        except BaseException as error:
            if not seat.refused:
                return await split.afail(error)
            await split.afinish(Unrun(str(error)))  # its arguments were not those approved
            raise
        return await split.afinish(raw)
