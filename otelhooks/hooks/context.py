"""The three layers of hook state, and the branch of agents that the code runs in.

A `SessionContext` lasts for a conversation, a `TurnContext` for one user message, an
`OperationContext` for one tool or model call. Reads look outwards, writes stay local.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Generator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from otelhooks import state
from otelhooks.hooks.calls import Call
from otelhooks.hooks.labels import Keeper, Labels, Lasting
from otelhooks.hooks.origins import Origins, Parts
from otelhooks.hooks.said import Message, Said, Speaker
from otelhooks.hooks.stages import StageParams
from otelhooks.plain_text import encodable

if TYPE_CHECKING:
    from otelhooks.records.users import User

__all__ = [
    "HookContext",
    "OperationContext",
    "SessionContext",
    "SpanNotes",
    "Step",
    "TurnContext",
    "agent_scope",
    "current_branch",
]

_EXPORTABLE = (str, bool, int, float)
_numbers = itertools.count(1)
_PROCESS = os.urandom(6).hex()
_branch: ContextVar[str] = ContextVar("otelhooks_branch", default="")


class SpanNotes:
    """What hooks wrote on a span that is not open yet; copied to it when it opens."""

    __slots__ = ("attributes", "events")

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}
        self.events: list[tuple[str, Mapping[str, Any]]] = []

    def set_attribute(self, name: str, value: Any) -> None:
        """Keep an attribute; a later value of the same name wins."""
        self.attributes[name] = value

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Keep an event, in order."""
        self.events.append((name, attributes or {}))


class Step:
    """A finished operation of a turn.

    Attributes:
        name: Tool or model name.
        verdict: ``allow``, ``deny``, ``ask`` or ``modify``.
        status: ``ok``, ``error``, ``denied``, ``recovered``, ``withheld`` or ``paused``.

    Args:
        span_id: Id of its span, also as an int; empty without a span.
    """

    __slots__ = ("_span_id", "name", "status", "verdict")

    def __init__(self, name: str, verdict: str, status: str, span_id: str | int = "") -> None:
        self.name: str = name
        self.verdict: str = verdict
        self.status: str = status
        self._span_id: str | int = span_id

    @property
    def span_id(self) -> str:
        """16 hexadecimal digits, empty without a span."""
        return self._span_id if isinstance(self._span_id, str) else f"{self._span_id:016x}"

    def __repr__(self) -> str:
        return f"Step({self.name!r}, {self.verdict!r}, {self.status!r}, {self.span_id!r})"


class HookContext(state.StateStore):
    """State that hooks share at one layer, and access to that layer's span.

    Prefilled keys, read with `get`: ``session_id``, ``turn_number``, ``tool_name``, ``agent_name``,
    ``branch``, ``source``. A local `set` shadows them; spans keep the true value.

    Attributes:
        said: What the users said before, at the session's layer; None if nothing is kept.

    Args:
        parent: The outer layer.
    """

    said: Said | None = None
    _own: tuple[Message, ...] = ()
    _user: User | None = None

    def __init__(self, parent: HookContext | None = None) -> None:
        super().__init__(parent)
        self.parent: HookContext | None = parent
        self.span: Any = SpanNotes()
        self._facts: dict[str, Any] = {}
        self._exports: dict[str, str | bool | int | float] | None = None
        self._labels: Labels = Labels() if parent is None else parent._labels
        self._number = next(_numbers) if parent is None else 0
        self._trace_id: str | Callable[[], str] = ""

    def set(self, key: str, value: Any, export: bool = False) -> None:
        """Keep a value at this layer.

        Args:
            key: Name of the value.
            value: Not copied.
            export: Also write it as ``otelhooks.context.<key>`` on every span that starts at this
                layer or below.

        Raises:
            TypeError: `export` with a value that is not a str, bool, int or float.
        """
        if export:
            if not isinstance(value, _EXPORTABLE):
                kind = type(value).__name__
                msg = f"cannot export `{key}`: {kind} is not a str, bool, int or float"
                raise TypeError(msg)
            with self._lock:
                self._exports = {**(self._exports or {}), key: value}
        super().set(key, value)

    def exports(self) -> dict[str, str | bool | int | float]:
        """Return what this layer and its outer layers export; inner values win."""
        outer = self.parent.exports() if self.parent is not None else {}
        return {**outer, **self._exports} if self._exports else outer

    @property
    def labels(self) -> frozenset[str]:
        """What the turn and its conversation have touched, such as ``untrusted``.

        The same in every layer, and for sub-agents; see `otelhooks.policy.label`. A label is never
        removed.
        """
        return self._labels.all()

    def add_label(self, label: str, per: Lasting = "session") -> None:
        """Add a label, which is never removed.

        Args:
            label: Its name.
            per: ``session``: it lasts for the conversation; ``turn``: for this turn.
        """
        self._labels.add(label, per).doubt()

    def is_from(self, label: str, parts: Parts) -> bool:
        """Return whether parts of a value came from results with a label in force; for rules."""
        return any(origins.have(parts, self) for origins in self._labels.origins_of(label))

    @property
    def user(self) -> User | None:
        """The user that the code runs for; None if the application has named none."""
        context: HookContext | None = self
        while context is not None:
            if context._user is not None:
                return context._user
            context = context.parent
        return whose()

    @property
    def prompt(self) -> str | None:
        """What the user said in this turn, in the same words for sub-agents; None if unknown."""
        own = self._heard()
        return own[-1].text if own else None

    @property
    def prompts(self) -> tuple[str, ...]:
        """What this user said in the conversation: the newest messages, this turn's as the last."""
        return tuple(message.text for message in self.messages())

    def messages(self) -> tuple[Message, ...]:
        """Return `prompts` in the form that rules compare with; for the engine."""
        own = self._heard()
        said = self._session().said
        remembered = () if said is None else said.all()
        if not remembered:
            return own
        speaker = own[-1].speaker if own else self.speaker()
        before = [one for one in remembered if one.speaker == speaker and one not in own]
        return (*before, *own)

    def hear(self, *messages: Message) -> None:
        """Take what the user said, here and for all inner layers; for the pipeline."""
        self._own = messages

    def speaker(self) -> Speaker:
        """Return who the user is, as messages are attributed; for the pipeline."""
        user = self.user
        return Speaker() if user is None else Speaker(user.id, user.tenant)

    def serve(self, user: User | None) -> None:
        """Set the user, here and for all inner layers; for dry runs."""
        self._user = user

    def _heard(self) -> tuple[Message, ...]:
        context: HookContext | None = self
        while context is not None:
            if context._own:
                return context._own
            context = context.parent
        return ()

    def _session(self) -> HookContext:
        session: HookContext = self
        while session.parent is not None:
            session = session.parent
        return session

    def session_key(self) -> str:
        """Return the key under which something is counted for the conversation.

        Its id; without an id, a name that is unique across processes.
        """
        session = self._session()
        id = session.known("session_id")
        return f"session {id}" if id else session._unique_name()

    def turn_key(self) -> str:
        """Return the key of the turn and its sub-agents; outside a turn, the conversation's.

        It is unique across processes.
        """
        turn: TurnContext | None = None
        context: HookContext | None = self
        while context is not None:
            if isinstance(context, TurnContext):
                turn = context
            context = context.parent
        return self.session_key() if turn is None else turn._unique_name()

    def _unique_name(self) -> str:
        return f"{_PROCESS} {os.getpid()} {self._number}"

    def child(self) -> HookContext:
        """Return a context inside this one."""
        return HookContext(self)

    @property
    def steps(self) -> list[Step]:
        """Finished operations of the turn, in the order in which they ended."""
        return self.parent.steps if self.parent is not None else []

    @property
    def trace_id(self) -> str:
        """Trace of the layer's span: 32 hexadecimal digits, empty without a trace.

        Valid before the span opens.
        """
        if callable(self._trace_id):
            self._trace_id = self._trace_id()
        if not self._trace_id and self.parent is not None:
            return self.parent.trace_id
        return self._trace_id

    def set_attribute(self, name: str, value: Any) -> None:
        """Put an attribute on the span of this layer.

        Args:
            name: Attribute name; use a prefix of your own.
            value: str, bool, int, float, or a sequence of one of them.
        """
        self.span.set_attribute(encodable(name), encodable(value))

    def event(self, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Add an event to the span of this layer.

        Args:
            name: Event name.
            attributes: Its attributes.
        """
        self.span.add_event(encodable(name), encodable(dict(attributes or {})))

    def know(self, **facts: Any) -> None:
        """Fill in what the layer knows by itself; for the pipeline."""
        self._facts.update(facts)

    def known(self, key: str) -> str:
        """Return what is known of the layer, whatever hooks have set; empty if nothing is known."""
        context: HookContext | None = self
        while context is not None:
            if key in context._facts:
                return context._facts[key]
            context = context.parent
        return ""

    def know_trace(self, trace_id: str | Callable[[], str]) -> None:
        """Set the trace of the layer, or how to find it; for the pipeline."""
        self._trace_id = trace_id

    def _prefilled(self, key: str) -> Any:
        return self._facts.get(key, state.MISSING)


class SessionContext(HookContext):
    """State of a conversation.

    Attributes:
        is_met: Whether it was checked for a history.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self.is_met: bool = False

    def keep_labels(self, keeper: Keeper) -> None:
        """Set where labels outlive the session; for the pipeline."""
        self._labels.keeper = keeper

    def meet(self, has_history: Callable[[], bool], *, looks: bool = False) -> None:
        """Note, once, whether a conversation comes with a history.

        If this process does not know the history, readers of labels find ``unknown`` among them.

        Args:
            has_history: Returns whether it does.
            looks: Whether rules read labels: if so, the conversation is known here from now on.
        """
        if not self.is_met:
            self.is_met = True
            if has_history():
                self._labels.come_with_history()
            if looks:
                self._labels.all()


class TurnContext(HookContext):
    """State of one user message, up to the answer.

    Args:
        session_context: The conversation, or for a sub-agent the operation that started it.
    """

    def __init__(self, session_context: HookContext) -> None:
        super().__init__(session_context)
        self._number = next(_numbers)
        self._steps: list[Step] = []
        if self._labels.session is self._labels:  # else a sub-agent's: its labels are its turn's
            self._labels = Labels(self._labels)

    @property
    def steps(self) -> list[Step]:
        """Finished operations of this turn, in the order in which they ended."""
        return self._steps


class OperationContext(HookContext):
    """State of one tool or model call, the same for its decide, error and post hooks.

    Attributes:
        is_recheck: True while a decider runs again because the arguments changed after it.
        starts_agent: Name of the agent that the tool call starts; empty if it starts none.
        tool_kind: ``shell``, ``file_read``, ``file_write`` or ``net``; None if unknown.
        canonical: Canonical and other names that the tool has besides its own.
        stages: Values of the tool's steps so far, if hooks look at them one by one.
        call: The tool call as the pipeline carries it, for the pipeline; None for a model call.
        origins: What is remembered of results with the labels that the tool call has added.
    """

    call: Call | None = None
    stages: StageParams | None = None
    origins: tuple[Origins, ...] = ()

    def __init__(self, turn_context: HookContext) -> None:
        super().__init__(turn_context)
        self.is_recheck: bool = False
        self.starts_agent: str = ""
        self.tool_kind: str | None = None
        self.canonical: tuple[str, ...] = ()
        self._noted: frozenset[str] | None = None

    @property
    def judged_under(self) -> frozenset[str]:
        """The labels in force at the decision, as far as rules have read them."""
        return self._labels.so_far() if self._noted is None else self._noted

    def add_label(self, label: str, per: Lasting = "session") -> None:
        """Add a label, which is never removed; a tool call's result then carries it.

        Args:
            label: Its name.
            per: ``session``: it lasts for the conversation; ``turn``: for this turn.
        """
        if self.call is None:
            super().add_label(label, per)
            return
        origins = self._labels.add(label, per)
        origins.expect(self)
        self.origins = (*self.origins, origins)

    def take_over(self, ahead: OperationContext) -> None:
        """Expect the result of a call that was judged ahead of its tool; for the pipeline."""
        self.origins = ahead.origins
        for origins in self.origins:
            origins.expect(self)
            origins.leave(ahead)

    def come(self, parts: Parts | None) -> None:
        """Remember the result of a tool call for its labels; for the pipeline.

        Args:
            parts: What it consists of; None if it cannot be read.
        """
        for origins in self.origins:
            origins.come(self, parts)

    def note_labels(self) -> None:
        """Remember which labels are in force before the operation adds one; for the pipeline."""
        self._noted = self._labels.so_far()


locate: Callable[[], str] = _branch.get
"""Returns the branch that the pipeline knows; the pipeline replaces it when it is imported."""


whose: Callable[[], User | None] = ContextVar[Any]("otelhooks_user", default=None).get
"""Returns the user that the code runs for; the pipeline replaces it when it is imported.

An import would not do: the user is that of a scope, which the pipeline keeps, and hooks must work
without it and without OpenTelemetry. The variable is never set: its `get` is a function without a
frame that returns None.
"""


def current_branch(located: str | None = None) -> str:
    """Return the path of agents that this code runs in, such as ``orchestrator/researcher``.

    Args:
        located: The branch that the pipeline knows; None to ask it.
    """
    scoped = _branch.get()
    if located is None:
        located = locate()
    # Scopes and runs nest in one another: the inner one has the longer path.
    return scoped if len(scoped) >= len(located) else located


@contextlib.contextmanager
def agent_scope(name: str) -> Generator[str, None, None]:
    """Run a block as an agent of that name, below the agents that it already runs in.

    Args:
        name: The agent's name.

    Yields:
        The branch inside the block.
    """
    outer = current_branch()
    branch = f"{outer}/{name}" if outer else name
    token = _branch.set(branch)
    try:
        yield branch
    finally:
        _branch.reset(token)
