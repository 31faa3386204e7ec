"""Everything that one `otelhooks.instrument()` set up, and the one that is active.

`Loaded` is what can change while the process runs: hooks, rules, mode. It is immutable and replaced
in one step; an operation uses the one it started with.
"""

from __future__ import annotations

import collections
import functools
import logging
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry import trace

from otelhooks import types
from otelhooks.hooks import background, results
from otelhooks.hooks import context as hook_context
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import HookContext
from otelhooks.hooks.drive import Run
from otelhooks.hooks.recorders import recorders_of
from otelhooks.hooks.registry import HookSet
from otelhooks.hooks.runner import EVENT_TYPES
from otelhooks.hooks.said import Said
from otelhooks.hooks.verdict import Judge, Ruling, Verdict
from otelhooks.hooks.watch import Watch
from otelhooks.pipeline import session_points, sessions
from otelhooks.pipeline.frames import Op, current_scope
from otelhooks.pipeline.pauses import Pauses
from otelhooks.pipeline.sessions import Scope, Session, Sessions
from otelhooks.records import semconv
from otelhooks.records.arguments import arguments_hash
from otelhooks.records.failures import error_type
from otelhooks.telemetry.quiet import fails_open, report
from otelhooks.telemetry.shapes import Shapes
from otelhooks.telemetry.spans import Spans, exemplar, span_id_of, trace_id_of
from otelhooks.telemetry.verdicts import Verdicts

if TYPE_CHECKING:
    from otelhooks.audit import Audit
    from otelhooks.audit.ticket import Ticket
    from otelhooks.policy.candidate import Candidate
    from otelhooks.policy.mcp.pins import Pins
    from otelhooks.policy.prices import Prices
    from otelhooks.store.labels import LabelBook
    from otelhooks.telemetry.content import Content
    from otelhooks.telemetry.counters import Cell
    from otelhooks.telemetry.events import EventLog
    from otelhooks.telemetry.metrics import Instruments

__all__ = ["SUPPRESSED", "Loaded", "Runtime", "active", "set_active"]

log = logging.getLogger("otelhooks")

SUPPRESSED = "suppress_instrumentation"
"""The key of a context in which telemetry is switched off."""

SLOW_S = 0.0001
"""Decisions that took at least this long are timed one by one."""

SeeTools = Callable[[Callable[[Any], Call | None], Sequence[Any]], None]


class Loaded:
    """Hooks and rules in force.

    Attributes:
        hooks: In the order of registration.
        judges: Sets of rules; each must allow.
        monitor: Whether denies and asks are only recorded.
        can_deny: Whether any hook or rule can stop anything.
        listens: Whether any hook or rule may look at what the user said.
        traces: Whether any rule looks at where values came from.
    """

    __slots__ = ("can_deny", "hooks", "judges", "listens", "monitor", "traces")

    def __init__(
        self, hooks: HookSet, judges: tuple[Judge, ...] = (), monitor: bool = False
    ) -> None:
        self.hooks: HookSet = hooks
        self.judges: tuple[Judge, ...] = judges
        self.monitor: bool = monitor
        self.can_deny: bool = hooks.can_deny or any(getattr(j, "can_deny", True) for j in judges)
        self.listens: bool = any(r.gate is None for r in hooks.all) or any(
            getattr(judge, "listens", False) for judge in judges
        )
        self.traces: bool = hooks.traces or any(getattr(j, "traces", False) for j in judges)


class _Held:
    """Blocks the calls of a process that is about to end: goes before all rules, never decides."""

    needs_context = False

    def evaluate(self, call: Call, context: Any = None) -> Generator[Run, Any, Ruling]:
        threading.Event().wait()
        raise AssertionError("a call that is held back continues")

    def constant(self, call: Call) -> Ruling | None:
        return None


_HELD = _Held()


class Runtime:
    """What operations need: hooks and rules, spans, counts, events, records, sessions.

    Args:
        loaded: Hooks and rules to start with.
        spans: Opens spans.
        instruments: Counts and durations.
        events: Log records.
        verdicts: Reports each verdict to spans, counts and events.
        content: Whether and how content is captured.
        watch: Creates the watch that is notified of hooks, questions and listeners.
        audit: Where every verdict is written before its call continues; None for nowhere.
        channel: Asks people for rules that have no handler.
        span_mode: ``auto`` (adopt native spans), ``own``, ``annotate`` or ``off``.
        denied_status: ``error`` or ``unset``.
        user_attribute: Name of the attribute that holds a session's user.
        raise_on_deny: Whether refused turns and model calls raise.
        stream: ``buffer`` or ``pass``.
        max_continuations: How often stop hooks may continue a turn.
        emit_details: Whether each model call is also an event of its own.
        approval_timeout_s: Seconds after which a question counts as refused.
        servers: Configurations of MCP servers that rules may name.
        labels: Where labels of conversations are kept; None for nowhere.
        candidate: A second set of rules, evaluated but never enforced.
        prices: What tokens cost; None: no cost is recorded.
        refuses: Whether the application itself said ``strict=True``: what passes no seat is refused
            where it can be.

    Attributes:
        pauses: Verdicts of calls that their frameworks paused.
        answers: Tool calls that answers asked for outside any framework; None before the first.
        stopped: What `otelhooks stop` denies, which is among the rules as well; None for nothing.
        pins: Approved definitions of MCP tools, which are among the rules as well; None for any.
        reads_lists: Whether what MCP servers say of their tools matters.
        tells_allows: Whether a plain allow leaves a record of its own.
        user: Returns the user of code outside every `session` block that names one; None if the
            application names none.
    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        spans: Spans,
        instruments: Instruments,
        events: EventLog,
        verdicts: Verdicts,
        content: Content,
        watch: Callable[[Runtime], Watch],
        audit: Audit | None = None,
        channel: Callable[..., Any] | None = None,
        span_mode: str = "auto",
        framework_spans: Mapping[str, str] | None = None,
        framework_options: Mapping[str, Mapping[str, str]] | None = None,
        denied_status: str = "error",
        user_attribute: str = semconv.ENDUSER_PSEUDO_ID,
        raise_on_deny: bool = False,
        stream: str = "buffer",
        max_continuations: int = 2,
        emit_details: bool = False,
        approval_timeout_s: float = 300.0,
        servers: Sequence[types.BaseMcpServerConfig] = (),
        labels: LabelBook | None = None,
        candidate: Candidate | None = None,
        prices: Prices | None = None,
        refuses: bool = False,
    ) -> None:
        self.loaded: Loaded = loaded
        self.spans = spans
        self.instruments = instruments
        self.events = events
        self.verdicts = verdicts
        self.content = content
        self.audit = audit
        self.tells_allows: bool = audit is not None or verdicts.record_allows
        self.channel = channel
        self.span_mode = span_mode
        self.framework_spans: dict[str, str] = dict(framework_spans or {})
        self._framework_options: dict[str, Mapping[str, str]] = dict(framework_options or {})
        self.denied_status = denied_status
        self.user_attribute = user_attribute
        self.raise_on_deny = raise_on_deny
        self.stream = stream
        self.max_continuations = max_continuations
        self.emit_details = emit_details
        self.approval_timeout_s = approval_timeout_s
        self.servers: tuple[types.BaseMcpServerConfig, ...] = tuple(servers)
        self.labels = labels
        self.candidate = candidate
        self.prices = prices
        self.refuses = refuses
        self.stopped: Judge | None = None
        self.pins: Pins | None = None
        self.reads_lists: bool = False
        self.told_tools: set[tuple[str, ...]] = set()
        self.user: Callable[[], types.User | None] = _nothing
        self.answers: Any = None  # the `Answers` of this runtime, or None
        self.sessions: Sessions = Sessions(
            functools.partial(session_points.end, self), self._keep_labels
        )
        self.outside: Session = Session()
        self.pauses: Pauses = Pauses()
        self.withdraws: set[Callable[..., object]] = set()  # of questions that wait
        self.pending: int | None = None  # None until a question; then back to 0, or 1 would persist
        self.watch: Watch = watch(self)
        self.refresh: Callable[[], object] = _nothing
        self.tighten: Callable[[], None] = _nothing
        self.meet: Callable[[str], None] = _meet_nothing
        self.met: set[str] = set()
        # Compares the tools that models are offered with rules, until nothing is left to compare.
        self.see_tools: SeeTools | None = None
        self.has_run: bool = False  # whether there was a turn, a model call or a question
        self._lock = threading.Lock()
        self._warned: set[str] = set()
        self._said = collections.OrderedDict[str, Said]()
        self.shapes: Shapes = Shapes(instruments, verdicts)
        self._evaluations: Cell = instruments.evaluations.cell({})
        self._evaluation_time: Cell = instruments.evaluation_time.cell({})
        instruments.set_gauge(
            semconv.METRIC_APPROVAL_PENDING,
            lambda: [] if self.pending is None else [(self.pending, {})],
        )

    # -- telemetry ----------------------------------------------------------------------------

    def is_suppressed(self) -> bool:
        """Return whether telemetry is switched off here; rules and audit still work."""
        return bool(otel_context.get_current().get(SUPPRESSED))

    def spans_of(self, framework: str) -> str:
        """Return how spans of a framework are made here, as in `Config.spans`."""
        if self.is_suppressed():
            return "off"
        return self.framework_spans.get(framework, self.span_mode)

    def opens_spans(self, framework: str) -> bool:
        """Return whether spans are opened here at all, if only beside those of others."""
        return self.spans_of(framework) in {"auto", "own"}

    @property
    def annotates(self) -> bool:
        """Whether any framework's spans are left to other libraries."""
        return "annotate" in {self.span_mode, *self.framework_spans.values()}

    def option(self, framework: str, name: str) -> str:
        """Return the value of a framework's option; empty if the application gave none."""
        return self._framework_options.get(framework, {}).get(name, "")

    @property
    def is_unused(self) -> bool:
        """Whether nothing has been judged or recorded so far."""
        return not (self.has_run or self._evaluations.value) and self.shapes.is_empty

    def count_evaluations(self, number: int, seconds: float, point: str) -> None:
        """Count the rules and hooks that ran for one decision."""
        with self._evaluations.lock:  # the two are always counted together
            self._evaluations.value += number
            self._evaluation_time.value += seconds
        if seconds >= SLOW_S:
            self.instruments.record(
                semconv.METRIC_POLICY_EVALUATION_DURATION,
                seconds,
                {semconv.HOOK_POINT: point},
                None,
            )

    # -- what is in force ---------------------------------------------------------------------

    def in_force(self, scope: Scope | None, branch: str) -> tuple[HookSet, tuple[Judge, ...]]:
        """Return the hooks and rules that apply to an operation on a branch of agents."""
        loaded = self.loaded
        if scope is None or not scope.widens:
            return loaded.hooks, loaded.judges
        return scope.add_to(loaded.hooks, loaded.judges, branch)

    def hold_calls(self) -> None:
        """Start no undecided tool call any more: a signal is about to end the process.

        A call that began while everything is being closed would run, or be denied, without a
        record.
        """
        loaded = self.loaded
        self.loaded = Loaded(loaded.hooks, (_HELD, *loaded.judges), loaded.monitor)
        if self.audit is not None:
            self.audit.hold()

    def warn_once(self, key: str, message: str, *args: Any) -> None:
        """Log a warning the first time its key is seen."""
        if key not in self._warned:
            self._warned.add(key)
            log.warning(message, *args)

    def pin_trace(self, op: Op) -> int:
        """Return the id of the trace that an operation's span starts; 0 if it starts none."""
        outer = op.outer.span if op.outer is not None else trace.get_current_span()
        if outer is not None and outer.get_span_context().is_valid:
            return 0
        if not op.trace_id:
            op.trace_id = self.spans.new_trace_id()
        return op.trace_id

    def trace_id_of(self, op: Op) -> str:
        """Return the trace that an operation's span belongs to, or will: 32 hexadecimal digits."""
        return self._trace_id_of(op) or ""

    @fails_open
    def _trace_id_of(self, op: Op) -> str:
        if op.span is not None:
            return trace_id_of(op.span)
        pinned = self.pin_trace(op)
        if pinned:
            return trace.format_trace_id(pinned)
        outer = op.outer.span if op.outer is not None else None
        context = (outer or trace.get_current_span()).get_span_context()
        return trace.format_trace_id(context.trace_id) if context.is_valid else ""

    def place(self, op: Op, context: HookContext | None = None) -> dict[str, Any]:
        """Return what records say about where an operation runs.

        Args:
            op: The operation.
            context: Context whose trace counts, if it is not the operation's own.
        """
        turn, span = op.turn, op.span
        return {
            "agent": op.agent,
            "branch": op.branch,
            "task_id": turn.task_id if turn is not None else "",
            "session_id": op.session.id,
            "turn": turn.number if turn is not None else 0,
            "trace_id": self.trace_id_of(op) if context is None else context.trace_id,
            "span_id": span_id_of(span),
            "source": turn.source if turn is not None else "",
        }

    def place_of_call(self, op: Op) -> dict[str, Any]:
        """Return the same for the record of a tool call, and who asked for what."""
        context = op.context
        said = {"prompt": context.prompt, "prompts": context.prompts, "user": context.user}
        return {**self.place(op), **said}

    def listens(self, scope: Scope | None) -> bool:
        """Return whether any hook or rule may look at what the user said."""
        return (
            self.loaded.listens
            or (scope is not None and scope.widens)
            or (self.candidate is not None and self.candidate.rules.listens)
        )

    def traces(self, scope: Scope | None) -> bool:
        """Return whether any rule looks at where values came from."""
        return (
            self.loaded.traces
            or (scope is not None and scope.widens)
            or (self.candidate is not None and self.candidate.rules.traces)
        )

    def about(self, op: Op) -> dict[str, Any]:
        """Return what events and audit records say about an operation besides its verdict."""
        about: dict[str, Any] = {}
        call = op.call
        if call is not None:
            about[semconv.GEN_AI_TOOL_NAME] = call.name
            if call.id:
                about[semconv.GEN_AI_TOOL_CALL_ID] = call.id
        optional = (
            (semconv.GEN_AI_AGENT_NAME, op.agent),
            (semconv.AGENT_BRANCH, op.branch),
            (semconv.TASK_ID, op.turn.task_id if op.turn is not None else ""),
            (semconv.GEN_AI_CONVERSATION_ID, op.session.id),
            (semconv.LABELS, op.judged_under()),
        )
        about.update((name, value) for name, value in optional if value)
        return about

    def audit_record(
        self, op: Op, verdict: Verdict, *, with_arguments: bool = True
    ) -> dict[str, Any]:
        """Return the audit record of an operation's verdict, with masked arguments and a hash."""
        record = self.verdicts.record(verdict, self.about(op))
        if op.call is not None and with_arguments:
            record["arguments"] = self.content.redactor.mask(op.call.args)
            record["arguments_hash"] = arguments_hash(op.call.args)
        if op.call is not None and op.call.canonical:
            record["canonical"] = list(op.call.canonical)
        if op.call is not None and (server := op.call.server or op.server):
            record["server"] = server
        if (span := op.recorded_in) is not None:
            record["trace_id"] = trace_id_of(span)
            record["span_id"] = span_id_of(span)
        return record

    def write_verdict(
        self, op: Op, verdict: Verdict, *, with_arguments: bool = True
    ) -> Ticket | None:
        """Give a verdict to the audit file; without a record of it, the file says that one is lost.

        Telemetry: fails open.
        """
        if self.audit is None:
            return None
        try:
            record = self.audit_record(op, verdict, with_arguments=with_arguments)
        except Exception as error:
            report("Runtime.write_verdict", error)
            self.audit.drop(f"it cannot be made: {error_type(error)}")
            return None
        return self.audit.write(record)

    @fails_open
    def tell_verdict(self, op: Op, verdict: Verdict) -> None:
        """Count a verdict, and emit its event."""
        if self.is_suppressed():
            return
        call = op.call
        name = "" if call is None else call.name if call.is_known else semconv.TOOL_NAME_OTHER
        span = op.recorded_in
        self.verdicts.count(verdict, name, op.agent, exemplar(span))
        if not verdict.is_plain() or self.verdicts.record_allows:
            context = trace.set_span_in_context(span) if span is not None else None
            self.verdicts.event(verdict, self.about(op), context)

    def record_unawaited(self, op: Op, verdict: Verdict) -> None:
        """Record a verdict that no call waits for, such as that of a question that is over."""
        self.tell_verdict(op, verdict)
        self.write_verdict(op, verdict)

    def spooled_records(self) -> list[tuple[float, dict[str, str]]]:
        """Return how many audit records have not reached their destination, as gauge values."""
        waiting = self.audit.spooled if self.audit is not None else 0
        waiting += sum(recorder.spooled for recorder in recorders_of(self.loaded.hooks))
        return [(waiting, {})] if waiting else []

    # -- events of points ---------------------------------------------------------------------

    def tell(
        self, hooks: HookSet, point: str, context: HookContext, **fields: Any
    ) -> Generator[Run, Any, None]:
        """Notify the listeners to all points of what happened at one."""
        event = self.watch.event(EVENT_TYPES.get(point, point), context, **fields)
        yield from results.inspect_point(hooks.at("event"), context, event, self.watch)

    # -- sessions -----------------------------------------------------------------------------

    def said_in(self, session: Session) -> Said:
        """Return what is remembered of a conversation; one with an id may have ended before."""
        said = session.context.said
        if said is None:
            with self._lock:
                said = (self._said.pop(session.id, None) if session.id else None) or Said()
                if session.id:
                    self._said[session.id] = said
                    if len(self._said) > sessions.MAX_SESSIONS:
                        self._said.popitem(last=False)
            session.context.said = said
        return said

    def _keep_labels(self, session: Session) -> None:
        if self.labels is not None:
            session.context.keep_labels(self.labels.of(session.id))

    # -- people -------------------------------------------------------------------------------

    def wait_for(self, number: int) -> None:
        """Count calls that wait for a person: 1 for one more, -1 for one less."""
        with self._lock:
            self.pending = (self.pending or 0) + number

    def ends_question(self, withdraw: Callable[..., object]) -> bool:
        """End a question that waits; False if it has ended already, so that one side records it."""
        try:
            self.withdraws.remove(withdraw)
        except KeyError:
            return False
        return True

    # -- end ----------------------------------------------------------------------------------

    def close(self, *, ends_process: bool = False, ends_spans: bool = True) -> None:
        """End what is open: questions, sessions, background inspectors, but no providers.

        Conversations are not forgotten: later calls still count towards their limits.

        Args:
            ends_process: Whether open questions are over and recorded as withdrawn. Otherwise the
                answer counts.
            ends_spans: Whether the spans of open questions end at least, since their provider does.
        """
        for withdraw in tuple(self.withdraws):
            if not ends_process:
                if ends_spans:
                    withdraw(is_over=False)
            elif self.ends_question(withdraw):
                withdraw()
        for session in self.sessions.all():
            session_points.end(self, session)
        background.flush()

    def after_fork(self) -> None:
        """Start afresh in a child process: the parent's threads and questions are not its own."""
        self._lock = threading.Lock()
        self.sessions.after_fork()
        self.pauses = Pauses()  # the parent's call continues there, once
        self.withdraws = set()
        self.pending = None


def _nothing() -> None:
    """Do nothing; `refresh`, `tighten` and `user` are this until there is something to do."""


def _meet_nothing(framework: str) -> None:
    """Do nothing; `meet` is this unless there is something to log at a framework's first turn."""


_active: Runtime | None = None


def active() -> Runtime | None:
    """Return the runtime that seats use; None if nothing is instrumented."""
    return _active


def set_active(runtime: Runtime | None) -> None:
    """Make a runtime the one that seats use."""
    global _active
    _active = runtime


def _user() -> types.User | None:
    """Return the user of the block around the code, else of the application."""
    scope = current_scope()
    named = scope.user if scope is not None else None
    if named is None:
        return _active.user() if _active is not None else None
    if isinstance(named, str):
        assert scope is not None
        named = scope.user = types.User(id=named)
    return named


# `hooks` must not import the pipeline or OpenTelemetry, so this hands it the look-up instead.
hook_context.whose = _user
