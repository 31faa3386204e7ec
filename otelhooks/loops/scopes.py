"""Conversations, turns and scopes of hand-written loops, over the pipeline that adapters use."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from opentelemetry import context as otel_context
from typing_extensions import Self

from otelhooks.errors import ConfigError
from otelhooks.hooks import points
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import HookContext, SessionContext
from otelhooks.hooks.drive import drive
from otelhooks.hooks.registry import EMPTY, HookSet, registrations
from otelhooks.hooks.run_cache import run_state
from otelhooks.hooks.script_host import set_active
from otelhooks.hooks.verdict import ALLOW, MODIFY, Judge, Verdict
from otelhooks.loops.blocks import block
from otelhooks.pipeline import runtime, session_points
from otelhooks.pipeline.agent_run import RunRequest, RunSeat, agent_run
from otelhooks.pipeline.call_span import record
from otelhooks.pipeline.drivers import Split
from otelhooks.pipeline.frames import (
    Op,
    current_frame,
    current_scope,
    with_scope,
)
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.script_services import ScriptHost
from otelhooks.pipeline.sessions import Scope, Session
from otelhooks.policy.evaluate import PolicySet
from otelhooks.records import semconv

if TYPE_CHECKING:
    from otelhooks.records.users import User

__all__ = ["cache", "current_context", "emit", "scope", "session", "turn"]


def current_context() -> HookContext | None:
    """Return the innermost hook context that the code runs in, None outside all."""
    frame = current_frame()
    if frame is not None:
        return frame.context
    scope = current_scope()
    return scope.session.context if scope is not None and scope.session is not None else None


def _added(hooks: Sequence[Any], policies: Sequence[Any]) -> tuple[HookSet, tuple[Judge, ...]]:
    if not (hooks or policies):
        return EMPTY, ()
    from otelhooks.setup.handle import split
    from otelhooks.setup.policies import refuse_unanswered

    rules, policy_hooks = split(policies)
    found = HookSet(r for hook in (*policy_hooks, *hooks) for r in registrations(hook))
    rt = runtime.active()
    monitored = rt is not None and rt.loaded.monitor
    if rt is None or rt.channel is None:
        refuse_unanswered(found.all, monitor=monitored)
    judges: tuple[PolicySet, ...] = ()
    if rules:
        table = PolicySet(
            rules,
            mcp_servers=rt.servers if rt is not None else (),
            mode="monitor" if monitored else "enforce",
            channel=rt is not None and rt.channel is not None,
        )
        judges = (table,)
        if rt is not None and table.reads_annotations:
            rt.reads_lists = True
    if rt is not None and (found.can_deny or any(judge.can_deny for judge in judges)):
        rt.tighten()  # what cannot be guarded in full is refused from now on
    return found, judges


@contextlib.contextmanager
def _in_scope(scope: Scope) -> Generator[None, None, None]:
    inside = with_scope(scope)
    token = otel_context.attach(inside)
    try:
        yield
    finally:
        found = current_scope()
        if otel_context.get_current() is inside:
            otel_context.detach(token)
        elif found is not None and found.contains(scope):
            # A generator left its block after its caller had entered another: that one stays.
            otel_context.attach(with_scope(found.without(scope)))


@block
def scope(
    *, agent: str = "", hooks: Sequence[Any] = (), policies: Sequence[Any] = ()
) -> Generator[None, None, None]:
    """Add hooks and rules to a block, or to a function that it decorates; outer ones still apply.

    Args:
        agent: Only for this agent and its sub-agents.
        hooks: Hook objects.
        policies: Rules, which must allow as well as outer ones.

    Raises:
        ConfigError: A rule cannot be understood.

    Example:
        >>> import otelhooks
        >>> from otelhooks import policy
        >>> with otelhooks.scope(policies=[policy.deny("send_email")]):
        ...     pass
    """
    found, judges = _added(hooks, policies)
    with _in_scope(Scope(current_scope(), found, judges, agent=agent)):
        yield


@block
def session(
    id: str = "",
    *,
    user: str | User | None = None,
    hooks: Sequence[Any] = (),
    policies: Sequence[Any] = (),
    trace: Literal["turn", "single"] = "turn",
) -> Generator[SessionContext, None, None]:
    """Run a block, or a function, as one conversation; its turns and calls carry the id.

    Args:
        id: The conversation's id, ``gen_ai.conversation.id``.
        user: Pseudonym of the user, ``enduser.pseudo.id``; or a `types.User` with roles and tenant,
            which rules can look at. It holds for what the block runs; other blocks of the
            conversation may have other users. None or empty: that of the block around it, if any.
        hooks: Hook objects for this conversation.
        policies: Rules for this conversation.
        trace: ``single`` makes one trace of all its turns; otherwise each turn is a trace, linked
            to the one before.

    Yields:
        The state of the conversation's hooks.

    Raises:
        ConfigError: A rule cannot be understood, or ``user`` is something else.
    """
    found, judges = _added(hooks, policies)
    rt = runtime.active()
    pseudonym = _pseudonym(user)
    opened = rt.sessions.get(id) if rt is not None and id else Session(id, pseudonym)
    with opened.lock:
        opened.entered += 1
        is_outermost = opened.entered == 1
        if pseudonym:
            opened.user, opened.attributes = pseudonym, None
    inner = Scope(current_scope(), found, judges, opened, user=user)
    if rt is not None and is_outermost and trace == "single" and rt.opens_spans(""):
        opened.span = rt.spans.start("session", opened.wire_attributes(rt.user_attribute), None)
    try:
        with _in_scope(inner):
            if rt is not None and drive(session_points.begin(rt, opened, inner)):
                session_points.emit(rt, opened, semconv.EVENT_SESSION_START, "session_start", None)
            yield opened.context
    finally:
        with opened.lock:
            opened.entered -= 1
            is_over = opened.entered == 0
        if is_over:
            _end(rt, opened)


def _pseudonym(user: Any) -> str:
    if user is None or isinstance(user, str):
        return user or ""
    from otelhooks.records.users import User  # loads pydantic

    if not isinstance(user, User):
        given = type(user).__qualname__
        raise ConfigError(f"`user` is of type {given}", hint="give an id or a `types.User`")
    return user.id


def _end(rt: Runtime | None, session: Session) -> None:
    """End a conversation once no block runs it any more."""
    if rt is not None:
        rt.sessions.end(session.id)
        session_points.end(rt, session)
    if session.span is not None:
        session.span.end()
        session.span = None


class _HandWritten(RunSeat):
    framework = "otelhooks"

    def answered(self, request: RunRequest, response: Any) -> Any:
        return response


class turn:
    """Run a block as one turn: a user's message, up to its answer.

    Works with ``with`` and ``async with``. Pass the answer to `answer`, so that hooks see it.

    Args:
        prompt: The user's message.
        agent: Name of the agent that answers.
        task_id: Your own id of the task that it works on, for spans, events and records.

    Attributes:
        prompt: The message as hooks left it.
        result: The answer as hooks left it; after the block.
        is_answered: Whether a hook had a ready answer; then there is nothing left to do.

    Raises:
        Denied: Policy refuses the message; the block does not run.

    Example:
        >>> import otelhooks
        >>> with otelhooks.turn("hello", agent="echo") as t:
        ...     t.answer(t.prompt.upper())
        >>> t.result
        'HELLO'
    """

    def __init__(self, prompt: Any, *, agent: str = "", task_id: str = "") -> None:
        self.prompt: Any = prompt
        self.result: Any = None
        self.is_answered: bool = False
        self._agent = agent
        self._task_id = task_id
        self._split: Split | None = None
        self._token: Any = None

    def answer(self, text: Any) -> None:
        """Set the answer; a hook's ready answer stays."""
        if not self.is_answered:
            self.result = text

    def _open(self) -> Split | None:
        rt = runtime.active()
        if rt is None:
            return None
        request = RunRequest(self._agent, self.prompt, task_id=self._task_id)
        return Split(agent_run(rt, _HandWritten(), request))

    def _enter(self, split: Split) -> None:
        if not split.proceeds:  # a hook had a ready answer, or denied
            self.result = split.finish(None)
            self.is_answered = True
            return
        self.prompt = split.value.prompt
        self._token = otel_context.attach(split.context)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        self._split = self._open()
        if self._split is not None:
            self._enter(self._split.begin())
        return self

    async def __aenter__(self) -> Self:
        self._split = self._open()
        if self._split is not None:
            self._enter(await self._split.abegin())
        return self

    def _leave(self) -> bool:
        if self._token is not None:
            found = current_scope()
            otel_context.detach(self._token)
            self._token = None
            if current_scope() is not found:  # a block that is left later than the turn
                otel_context.attach(with_scope(found))
        return self._split is not None and self._split.proceeds

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if not self._leave():
            return
        assert self._split is not None
        if error is not None:
            with contextlib.suppress(BaseException):  # this very error is already propagating
                self._split.fail(error)
        else:
            self.result = self._split.finish(self.result)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if not self._leave():
            return
        assert self._split is not None
        if error is not None:
            with contextlib.suppress(BaseException):  # this very error is already propagating
                await self._split.afail(error)
        else:
            self.result = await self._split.afinish(self.result)


def emit(name: str, payload: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any], str]:
    """Fire an event of the application's own, such as ``custom.deploy``.

    Args:
        name: Starts with ``custom.``.
        payload: What listeners get.

    Returns:
        Action (``allow`` by default, ``modify`` or ``block``), the payload as hook files left it,
        and the reason of a block.

    Raises:
        ValueError: The name does not start with ``custom.``.
    """
    if not name.startswith("custom."):
        msg = f"unknown event `{name}`: the name of your own event starts with `custom.`"
        raise ValueError(msg)
    given = dict(payload or {})
    rt = runtime.active()
    if rt is None:
        return ALLOW, given, ""
    frame = current_frame()
    branch = frame.branch if frame is not None else ""
    agent = frame.agent if frame is not None else ""
    session = frame.session if frame is not None else rt.outside
    op = Op(session, frame.turn if frame is not None else None, frame, None, agent, branch)
    hooks, _ = rt.in_force(current_scope(), branch)
    rt.events.emit(name, 9, {}, context=None)
    call, verdict = Call(name, given), Verdict(semconv.POINT_CUSTOM)
    found = hooks.at(semconv.POINT_CUSTOM)
    refusal = None
    if found.deciders:
        verdict = drive(
            points.pre_tool_call(found, op.context, call, rt.watch, (), rt.loaded.monitor)
        )
        verdict.point = semconv.POINT_CUSTOM
        refusal = drive(record(rt, op, verdict))
    if hooks.has_events:
        said = {"decision": verdict.decision, "rule_id": verdict.rule_id or None}
        drive(rt.tell(hooks, name, op.context, input=call.args, **said))
    if refusal is not None:
        return "block", call.args, refusal
    return MODIFY if call.version else ALLOW, call.args, ""


class _RunCache:
    """A key-value store for each run, which tools share with the scripts of hook files.

    A run is a turn with its sub-agents; code outside any turn shares one store.
    """

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value of the run, or `default`.

        Args:
            key: Name of the value.
            default: Returned if nothing was kept.
        """
        return run_state(_run_context()).get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Keep a value for the run.

        Args:
            key: Name of the value.
            value: Not copied; scripts get it as JSON.

        Raises:
            ValueError: The run already keeps too many.
        """
        run_state(_run_context()).set(key, value)


def _run_context() -> HookContext:
    rt = runtime.active()
    return current_context() or (rt.outside.context if rt is not None else _OUTSIDE)


_OUTSIDE = SessionContext()
set_active(ScriptHost())
cache: _RunCache = _RunCache()
"""What tools keep for the run that they belong to; scripts see the same as `cache`."""
