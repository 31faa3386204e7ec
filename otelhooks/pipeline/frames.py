"""What the current code runs in: session, turn, operation; carried by the OpenTelemetry context.

Each operation has one `Context` with its span and its frame, so that one attach makes both current.
The frame also keeps the span itself, because frameworks move work between tasks and the trace must
stay whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry import trace

from otelhooks.hooks import context as hook_context
from otelhooks.hooks.context import HookContext, OperationContext, TurnContext
from otelhooks.pipeline.permits import Permits
from otelhooks.pipeline.sessions import Spent
from otelhooks.telemetry.spans import trace_id_of

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otelhooks.hooks.calls import Call
    from otelhooks.hooks.recorders import Recorder
    from otelhooks.hooks.verdict import Verdict
    from otelhooks.pipeline.sessions import Scope, Session

__all__ = ["Op", "Turn", "current_frame", "current_scope"]

_FRAME = otel_context.create_key("otelhooks-frame")
_SCOPE = otel_context.create_key("otelhooks-scope")
(SPAN,) = trace.set_span_in_context(trace.INVALID_SPAN, otel_context.Context())
"""The key that OpenTelemetry keeps a context's span under."""

MAX_STEPS = 10_000
MAX_ASKED = 10_000


class Turn:
    """One run of an agent: a user message up to its answer, or a sub-agent's work.

    Attributes:
        session: Conversation that it belongs to.
        number: Its number in the conversation, from 1; a sub-agent has its turn's number.
        agent: Agent that is at work; a hand-off changes it.
        branch: Path of agents.
        framework: Adapter that opened it.
        outer: Frame that it was entered in; None for a turn of its own.
        context: State of its hooks.
        span: Its span, None if spans are off.
        otel: Context that its body runs in.
        asked: Tool calls that a model asked for and that no seat has judged: id to name.
        inference_calls: How many model calls it made.
        tool_calls: How many tools it ran.
        usage: Tokens of its model calls.
        spent: Cost of these, and of those of its sub-agents.
        task_id: The framework's id of the task that it works on, if there is one.
        resumed: Whether it continues after a pause; then no user message started it.
        source: ``user`` or ``trigger``.
        left: Whether the consumer of its stream has left.
        run: Weak reference to the adapter's run, which has the turn as well; None in your own loop.
    """

    __slots__ = (
        "__weakref__",
        "agent",
        "asked",
        "branch",
        "context",
        "continuations",
        "framework",
        "inference_calls",
        "left",
        "number",
        "otel",
        "outer",
        "resumed",
        "run",
        "session",
        "source",
        "span",
        "spent",
        "task_id",
        "tool_calls",
        "usage",
    )

    def __init__(
        self, session: Session, agent: str, framework: str, outer: Turn | Op | None, branch: str
    ) -> None:
        self.session: Session = session
        self.agent: str = agent
        self.framework: str = framework
        self.outer: Turn | Op | None = outer
        self.branch: str = branch
        self.number: int = outer.turn.number if outer is not None and outer.turn is not None else 0
        parent: HookContext = session.context
        if isinstance(outer, Op):
            parent = outer.context
        elif outer is not None:
            parent = outer.context
        self.context: TurnContext = TurnContext(parent)
        self.span: Span | None = None
        self.otel: Context | None = None
        self.asked: dict[str, str] = {}
        self.usage: dict[str, int] = {}
        self.inference_calls: int = 0
        self.tool_calls: int = 0
        self.spent: Spent = Spent()
        self.resumed: bool = False
        self.source: str = "user"
        self.task_id: str = (
            outer.turn.task_id if outer is not None and outer.turn is not None else ""
        )
        self.continuations: int = 0
        self.left: bool = False
        self.run: Any = None

    @property
    def turn(self) -> Turn:
        """The frame's turn, which is itself."""
        return self

    def judged(self, call_id: str | None) -> None:
        """Note that a seat has judged a call that a model asked for."""
        if call_id is None:
            return
        frame: Turn | None = self
        while frame is not None:
            frame.asked.pop(call_id, None)
            frame = frame.outer.turn if frame.outer is not None else None

    @property
    def is_left(self) -> bool:
        """Whether the consumer has left, here or further out: what is cancelled has not failed."""
        return self.left or (self.outer is not None and self.outer.is_left)

    def ask_for(self, calls: Mapping[str, str]) -> None:
        """Note the tool calls that a model asks for: id to name."""
        if len(self.asked) < MAX_ASKED:
            self.asked.update(calls)


class Op:
    """One tool or model call.

    Attributes:
        turn: Run that it belongs to; None for a call outside any run.
        session: Conversation that it belongs to.
        outer: Frame that it was entered in.
        call: The tool call; None for a model call.
        verdict: What was decided before it.
        span: Its span, None if spans are off.
        adopted: Whether the span belongs to another library.
        annotation: What is put on another library's span; that library also records ``gen_ai.*``
            metrics then. None if otelhooks opens the spans, or no span can be annotated.
        permits: What it leaves for deeper seats.
        subagent: Whether its tool is known to start an agent.
        resumed: The verdict before a pause, if exactly this call continues after one.
        wait: Span of the latest question about it; None if none has one.
        trace_id: The id that its trace will have, if its span will be the first one; otherwise 0.
        failure: The failure that a seat saw in a result; the framework may turn it into another.
        refused: The message with which a deeper seat refused the call; None if none did.
        server: The server's name, if only a deeper seat knows it.
        flip: Attributes that say what a candidate set would have done, if it differs.
        known: Its context, created on first use.
        recorders: Recorders of its verdicts.
        stages: The steps that its tool takes, if hooks may look at them.
    """

    __slots__ = (
        "adopted",
        "agent",
        "annotation",
        "branch",
        "call",
        "failure",
        "flip",
        "known",
        "outer",
        "permits",
        "recorders",
        "refused",
        "resumed",
        "server",
        "session",
        "span",
        "stages",
        "subagent",
        "trace_id",
        "turn",
        "verdict",
        "wait",
    )

    def __init__(
        self,
        session: Session,
        turn: Turn | None,
        outer: Turn | Op | None,
        call: Call | None,
        agent: str,
        branch: str,
    ) -> None:
        self.session: Session = session
        self.turn: Turn | None = turn
        self.outer: Turn | Op | None = outer
        self.call: Call | None = call
        self.agent: str = agent
        self.branch: str = branch
        self.verdict: Verdict | None = None
        self.span: Span | None = None
        self.adopted: bool = False
        self.annotation: Any = None  # an `Annotation` or None
        self.permits: Permits = Permits()
        self.subagent: bool = False
        self.resumed: Verdict | None = None
        self.wait: Span | None = None
        self.trace_id: int = 0
        self.failure: Exception | str | None = None
        self.refused: str | None = None
        self.server: str | None = None
        self.flip: dict[str, str] | None = None
        self.known: OperationContext | None = None
        self.recorders: tuple[Recorder, ...] = ()
        self.stages: Any = None  # `Stages` or None

    @property
    def is_left(self) -> bool:
        """Whether the consumer of a run has left that this call is part of."""
        return self.outer is not None and self.outer.is_left

    @property
    def recorded_in(self) -> Span | None:
        """The span that records of its verdicts name: before it has one, that of its question."""
        return self.span if self.span is not None else self.wait

    def judged_under(self) -> list[str]:
        """Return the labels in force when it was decided, in order."""
        return [] if self.known is None else sorted(self.known.judged_under)

    @property
    def context(self) -> OperationContext:
        """State of its hooks, created on first use."""
        if self.known is None:
            outer = self.outer
            parent = outer.context if outer is not None else self.session.context
            self.known = OperationContext(parent)
            self.known.know(agent_name=self.agent, branch=self.branch)
            if self.call is not None:
                self.known.call = self.call
                self.known.know(tool_name=self.call.name)
                self.known.tool_kind = self.call.kind
                self.known.canonical = self.call.canonical
                self.known.starts_agent = self.call.name if self.subagent else ""
                self.known.hear(*self.call.said)
                if self.call.ahead is not None:
                    self.known.take_over(self.call.ahead)
            if self.span is not None:
                self.known.span = self.span
                self.known.know_trace(trace_id_of(self.span))
        return self.known


def current_frame(context: Context | None = None) -> Turn | Op | None:
    """Return the innermost frame of a context, by default of the current one."""
    frame: Any = (otel_context.get_current() if context is None else context).get(_FRAME)
    return frame


def around(context: Context) -> tuple[Turn | Op | None, Scope | None]:
    """Return the innermost frame and scope of a context."""
    values: Any = context
    return values.get(_FRAME), values.get(_SCOPE)


def _located() -> str:
    frame = current_frame()
    return frame.branch if frame is not None else ""


# `hooks` must not import the pipeline or OpenTelemetry, so this hands it the look-up instead.
hook_context.locate = _located


def current_scope(context: Context | None = None) -> Scope | None:
    """Return the innermost scope of a context, by default of the current one."""
    scope: Any = (otel_context.get_current() if context is None else context).get(_SCOPE)
    return scope


def with_frame(frame: Turn | Op, span: Span | None, base: Context | None = None) -> Context:
    """Return a context in which a frame, and its span, are current."""
    if base is None:
        base = otel_context.get_current()
    if span is None:
        return otel_context.Context({**base, _FRAME: frame})
    return otel_context.Context({**base, _FRAME: frame, SPAN: span})


def with_scope(scope: Scope | None) -> Context:
    """Return a context in which a scope is current, or no scope for None."""
    return otel_context.set_value(_SCOPE, scope)
