"""One verdict: what else is set up, and how a call gets to the rules, changes nothing about it.

Rules over every selector and every field that the docs name meet calls in each of the ways below.
The class of the faults that this finds: a short cut that sees less of a call than the long way.
`FUZZ_EXAMPLES` says how many examples are drawn.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pydantic
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from opentelemetry import context as otel_context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otelhooks
from otelhooks import hooks, policy, types
from otelhooks.audit import Audit
from otelhooks.errors import Denied
from otelhooks.hooks.calls import Call
from otelhooks.hooks.recorders import Recorder
from otelhooks.hooks.registry import HookSet, registrations
from otelhooks.hooks.runner import HookRunner
from otelhooks.hooks.verdict import ALLOW, DENY, Verdict
from otelhooks.pipeline import drivers
from otelhooks.pipeline.frames import Turn, with_frame
from otelhooks.pipeline.permits import NextSeat
from otelhooks.pipeline.runtime import SUPPRESSED, Loaded, Runtime
from otelhooks.pipeline.runtime_watch import RuntimeWatch
from otelhooks.pipeline.sessions import Session
from otelhooks.pipeline.tool_call import tool
from otelhooks.pipeline.tool_seat import ToolSeat
from otelhooks.policy.candidate import Candidate
from otelhooks.policy.evaluate import PolicySet
from otelhooks.policy.hook import PolicyHook
from otelhooks.telemetry.content import Content
from otelhooks.telemetry.events import EventLog
from otelhooks.telemetry.metrics import Instruments
from otelhooks.telemetry.spans import Spans
from otelhooks.telemetry.verdicts import Verdicts

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "600"))

# -- rules ----------------------------------------------------------------------------------------

PLACE = {
    "agent": "researcher",
    "branch": "team/researcher",
    "task_id": "task-1",
    "session_id": "s-1",
    "turn": 3,
    "source": "trigger",
}
FIELDS = {
    **PLACE,
    "trace_id": None,  # another one for each call, and never empty
    "span_id": "",  # no span is open yet
    "step_id": None,
    "id": "call-1",
    "name": "run_command",
    "server_name": "github",
    "canonical_path": "/w/a.txt",
    "raw": "{}",
    "work_dir": "/w",
}
SELECTORS = (
    *("run_command", "sh", "delete_file", "start_subagent", "invoke_subagent"),
    *("delete_*", "[rs]*", "*_command", "*"),
    *("github/run_command", "github/sh", "github/*", "*/sh", "*/delete_*", "evil/*", "evil/sh"),
    *("kind:shell", "kind:file_read", "kind:file_write", "kind:net"),
)


class Command(pydantic.BaseModel):
    """Arguments, parsed."""

    command: str
    count: int = 0


def asynchronous(function: Callable[[Any], Any], annotation: Any) -> Callable[[Any], Any]:
    async def when(subject: Any) -> Any:
        return function(subject)

    when.__annotations__ = {"subject": annotation}
    return when


def synchronous(function: Callable[[Any], Any], annotation: Any) -> Callable[[Any], Any]:
    def when(subject: Any) -> Any:
        return function(subject)

    when.__annotations__ = {"subject": annotation}
    return when


def reads(field: str) -> Callable[[Any], bool]:
    wanted = FIELDS[field]
    if field == "trace_id":
        return lambda call: len(call.trace_id) == 32
    return lambda call: getattr(call, field) == wanted


PREDICATES: tuple[Any, ...] = (
    *(make(reads(f), types.ToolCall) for f in FIELDS for make in (synchronous, asynchronous)),
    *(
        make(test, annotation)
        for make in (synchronous, asynchronous)
        for test, annotation in (
            (lambda call: call.args["command"] == "ls", types.ToolCall),
            (lambda args: args["command"] == "ls", dict),
            (lambda args: args.get("count"), dict),  # truthy, no bool
            (lambda args: args.clear() or True, dict),
            (lambda parsed: parsed.count > 1, Command),
        )
    ),
    lambda: True,
    lambda: 1 / 0,
)
"""One of each for every field, and for each thing that a predicate may take."""


def answers(field: str) -> Callable[[types.ToolCall], bool]:
    return reads(field)


HANDLERS = (lambda call: True, lambda call: False, answers("session_id"), answers("turn"))


def one_of_each(*choices: Sequence[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Draw one of each of the choices with a single number: many draws cost more than the test."""

    def read(number: int) -> tuple[Any, ...]:
        found: list[Any] = []
        for choice in choices:
            number, which = divmod(number, len(choice))
            found.append(choice[which])
        return tuple(found)

    return st.integers(0, math.prod(map(len, choices)) - 1).map(read)


RULES = one_of_each(
    ("allow", "allow", "deny", "deny", "ask", "ask", "veto", "hide"),
    SELECTORS,
    (None, *PREDICATES, *PREDICATES),
    (None, None, None, "team/*", "researcher", "*/researcher"),
    (None, None, None, ("untrusted",), ("secret", "untrusted"), ("secret",)),
    (None, None, None, "monitor", "enforce"),
    HANDLERS,
)


def rule(number: int, drawn: tuple[Any, ...]) -> policy.Policy:
    decision, selector, when, agent, labels, mode, handler = drawn
    more: dict[str, Any] = {"id": f"r{number}", "agent": agent}
    if decision != "veto":
        more["mode"] = mode
    if decision == "ask":
        return policy.ask_user(selector, handler, when=when, when_labels=labels, **more)
    if decision == "hide":
        return policy.hide(selector, **more)
    return getattr(policy, decision)(selector, when=when, when_labels=labels, **more)


# -- calls ----------------------------------------------------------------------------------------

KNOWN_OF_CALLS = "name args id server claimed_server server_says canonical kind path raw work_dir"
CALLS = one_of_each(
    ("run_command", "sh", "delete_file", "start_subagent"),
    ({"command": "ls"}, {"command": "rm", "count": 2}, {"paths": ["a", {"b": 1}]}, {}),
    ("call-1", "call-2"),
    (None, None, "github", "evil"),
    (False, True),
    (None, None, "evil"),
    ((), (), ("run_command",)),
    (None, "shell", "file_write"),
    (None, "/w/a.txt"),
    (None, "{}"),
    (None, "/w"),
).map(
    lambda drawn: dict(
        zip(
            KNOWN_OF_CALLS.split(),
            drawn,
            strict=True,
        )
    )
)

# -- ways to put a call to rules ------------------------------------------------------------------


class Seen(NamedTuple):
    """What came out, as far as two ways must agree about it."""

    decision: str
    allowed: bool
    policy_id: str
    rule_id: str
    message: str
    observed: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, verdict: Verdict) -> Seen:
        observed = tuple((seen.decision, seen.rule_id) for seen in verdict.observed)
        message = "" if verdict.allowed else verdict.message
        return cls(
            verdict.decision, verdict.allowed, verdict.policy_id, verdict.rule_id, message, observed
        )


class Seat(ToolSeat):
    """Keeps the operation of the last call."""

    op: Any = None
    pauses = False

    def starts_agent(self, call: Call) -> bool:
        self.op = call.op
        return super().starts_agent(call)

    def is_paused(self, call: Call, raw: Any) -> bool:
        return self.pauses

    def denied(self, call: Call, reason: str) -> Any:
        return Denied(reason)


class Outer(Seat):
    """Hands its call on."""

    def next_seat(self, call: Call) -> NextSeat:
        return NextSeat("inner", call.name, call.server)


class Inner(Seat):
    """Has rules asked again about what they allowed."""

    group = "inner"
    judges_again = True


class NoOpDecider(hooks.PreToolCallDecideHook):
    async def run(self, context: Any, data: Any) -> hooks.HookResult:
        return hooks.HookResult()


class Looker(hooks.PostToolCallHook):
    async def run(self, context: Any, data: Any) -> None:
        return None


class Listener(hooks.OnEventHook):
    async def run(self, context: Any, data: Any) -> None:
        return None


class Forgetful(Recorder):
    """Keeps nothing, at once."""

    async def run(self, context: Any, data: Any) -> None:
        return None

    def wants(self, call: Any) -> bool:
        return True

    def write(self, record: Any, context: Any) -> Any:
        return self

    def wait(self) -> bool:
        return True


UNSAMPLED = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)


def runtime(provider: TracerProvider | None = None, **settings: Any) -> Runtime:
    """Return a runtime of its own, over providers that keep nothing."""
    instruments = Instruments(MeterProvider(shutdown_on_exit=False), "0")
    events = EventLog(LoggerProvider(shutdown_on_exit=False), "0")
    record_allows = settings.pop("record_allows", False)
    return Runtime(
        Loaded(HookSet()),
        spans=Spans(provider or UNSAMPLED, "0"),
        instruments=instruments,
        events=events,
        verdicts=Verdicts(instruments, events, record_allows=record_allows),
        content=Content(),
        watch=RuntimeWatch,
        **settings,
    )


def turn(*labels: str) -> Turn:
    """Return a turn that every way runs its calls in."""
    found = Turn(Session("s-1"), "researcher", "otelhooks", None, "team/researcher")
    found.number, found.task_id, found.source = 3, "task-1", "trigger"
    for label in labels:
        found.context.add_label(label)
    return found


TURNS = (turn(), turn("untrusted"))


class Way:
    """One way to put a call to rules.

    Args:
        rt: Set up in its own manner.
        given: Hooks beside the rules.
    """

    def __init__(self, rt: Runtime | None = None, given: tuple[Any, ...] = ()) -> None:
        self.rt = rt or runtime()
        self.hooks = HookSet(r for hook in given for r in registrations(hook))
        self.seat = Seat()

    def __call__(self, rules: PolicySet, call: Call, where: Turn) -> Seen:
        self.rt.loaded = Loaded(self.hooks, (rules,), rules.mode == "monitor")
        token = otel_context.attach(self.within(where))
        try:
            self.run(call)
        finally:
            otel_context.detach(token)
        return Seen.of(self.seat.op.verdict)

    def within(self, where: Turn) -> otel_context.Context:
        return with_frame(where, None, otel_context.Context())

    def run(self, call: Call) -> None:
        drivers.drive(tool(self.rt, self.seat, call), lambda args: "done")


class Suppressed(Way):
    def within(self, where: Turn) -> otel_context.Context:
        return otel_context.set_value(SUPPRESSED, True, super().within(where))


class Async(Way):
    """From a coroutine."""

    def run(self, call: Call) -> None:
        async def body(args: Any) -> str:
            return "done"

        LOOP.run_until_complete(drivers.adrive(tool(self.rt, self.seat, call), body))


class Resumed(Way):
    """Once more, after the framework paused it."""

    def run(self, call: Call) -> None:
        again = copy_of(call)
        self.seat.pauses = True
        super().run(call)
        self.seat.pauses = False
        super().run(again)


class BehindAPermit(Way):
    """At a deeper seat that knows less of the call, where rules are asked again."""

    def run(self, call: Call) -> None:
        inner, seat = Call(call.name, dict(call.args), server=call.server), Inner()
        inner.claimed_server, inner.server_says = call.claimed_server, call.server_says

        def body(args: Any) -> Any:
            return drivers.drive(tool(self.rt, seat, inner), lambda args: "done")

        self.seat = Outer()
        drivers.drive(tool(self.rt, self.seat, call), body)


class ByHook(Way):
    """By the hook that `enforce` makes, called by hand."""

    def __call__(self, rules: PolicySet, call: Call, where: Turn) -> Seen:
        record = types.ToolCall(
            name=call.name,
            args=call.args,
            id=call.id,
            server_name=call.server,
            canonical_path=call.path,
            raw=call.raw,
            work_dir=call.work_dir,
            trace_id="0" * 31 + "1",
            **PLACE,
        )
        result = LOOP.run_until_complete(self.dispatch(PolicyHook(rules), record, where))
        return Seen(
            ALLOW if result.allow else DENY,
            result.allow,
            "",
            result.rule_id or "",
            result.message,
            (),
        )

    async def dispatch(self, hook: PolicyHook, record: types.ToolCall, where: Turn) -> Any:
        return await hook.run(where.context, record)


class ByRunner(ByHook):
    """By the same hook in a `HookRunner`, behind one that does nothing."""

    async def dispatch(self, hook: PolicyHook, record: types.ToolCall, where: Turn) -> Any:
        runner = HookRunner([NoOpDecider(), hook])
        result, _, _ = await runner.dispatch_pre_tool_call(where.context, record)
        return result


SERVERS = (types.McpStdioServer(name="github", command="x", disabled_tools=["delete_file"]),)
PLAIN = Way()
BY_HAND = (ByHook(), ByRunner())
NOT_IN_RECORDS = ("claimed_server", "server_says", "canonical", "kind")
LOOP = asyncio.new_event_loop()


def copy_of(call: Call) -> Call:
    known = {name: getattr(call, name) for name in KNOWN_OF_CALLS.split()}
    return Call(**{**known, "args": dict(call.args)})


@pytest.fixture(scope="module")
def ways() -> dict[str, Way]:
    """Ways to put a call to rules, by name."""
    settled = Candidate(PolicySet([policy.deny("*", id="other")]))
    return {
        "no-op hook": Way(given=(NoOpDecider(),)),
        "recorder": Way(given=(Forgetful(),)),
        "record_allows": Way(runtime(record_allows=True)),
        "candidate": Way(runtime(candidate=settled)),
        "sampled": Way(runtime(TracerProvider(shutdown_on_exit=False))),
        "async seat": Async(),
        "resumed": Resumed(),
        "behind a permit": BehindAPermit(),
    }


@pytest.fixture(scope="module")
def slow_ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Way]]:
    """Ways that wait for disks and threads, and some that are much like others."""
    reading = policy.deny("*", when=synchronous(reads("turn"), types.ToolCall), id="other")
    labelled = policy.deny("sh", when_labels="untrusted", id="labelled")
    with Audit(tmp_path_factory.mktemp("audit")) as audit:
        yield {
            "audit": Way(runtime(audit=audit)),
            "candidate with conditions": Way(
                runtime(candidate=Candidate(PolicySet([reading, labelled])))
            ),
            "hook of another point": Way(given=(Looker(),)),
            "listener": Way(given=(Listener(),)),
            "spans off": Way(runtime(span_mode="off")),
            "telemetry suppressed": Suppressed(),
        }


def rule_sets(drawn: list[tuple[Any, ...]], default: Any) -> tuple[PolicySet, PolicySet]:
    """Return drawn rules as they are enforced, and as they only watch."""
    rules = [rule(number, each) for number, each in enumerate(drawn)]
    return (
        PolicySet(rules, default=default, mcp_servers=SERVERS),
        PolicySet(rules, default=default, mcp_servers=SERVERS, mode="monitor"),
    )


DRAWN = {
    "drawn": st.lists(RULES, min_size=1, max_size=5),
    "default": st.sampled_from(("allow", "allow", "deny")),
    "called": CALLS,
    "where": st.sampled_from(TURNS),
}
SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.mark.timeout(900)  # many examples, and slow under coverage
@settings(max_examples=EXAMPLES, **SETTINGS)
@given(**DRAWN)
def test_every_way_to_put_a_call_to_rules_comes_to_the_same_verdict(
    ways: dict[str, Way], drawn: Any, default: Any, called: dict[str, Any], where: Turn
) -> None:
    rules, watching = rule_sets(drawn, default)
    note(f"rules: {[each.policy for each in rules.rules]}")
    expected, seen = PLAIN(rules, Call(**called), where), PLAIN(watching, Call(**called), where)
    for name, way in ways.items():
        assert (name, way(rules, Call(**called), where)) == (name, expected)
    for name in ("no-op hook", "behind a permit"):
        assert (name, ways[name](watching, Call(**called), where)) == (name, seen)
    assert_would_decide(seen, expected)
    if not any(called[name] for name in NOT_IN_RECORDS) and called["name"] != "start_subagent":
        for way in BY_HAND:
            found = way(rules, Call(**called), where)
            assert found.allowed is expected.allowed
            assert found.allowed or (found.rule_id, found.message) == (
                expected.rule_id,
                expected.message,
            )


@pytest.mark.timeout(900)
@settings(max_examples=EXAMPLES // 8, **SETTINGS)
@given(**DRAWN)
def test_what_waits_for_disks_and_threads_comes_to_the_same_verdict(
    slow_ways: dict[str, Way], drawn: Any, default: Any, called: dict[str, Any], where: Turn
) -> None:
    rules, watching = rule_sets(drawn, default)
    for each in (rules, watching):
        expected = PLAIN(each, Call(**called), where)
        for name, way in slow_ways.items():
            assert (name, way(each, Call(**called), where)) == (name, expected)


def assert_would_decide(seen: Seen, expected: Seen) -> None:
    """Compare what monitor mode saw with what enforcing comes to."""
    before = expected.observed
    if expected.decision == ALLOW:
        assert (seen.decision, seen.rule_id) == (ALLOW, expected.rule_id)
        assert seen.observed == before
    elif (expected.decision, expected.rule_id) == (seen.decision, seen.rule_id):
        assert seen.observed == before  # a veto, or a rule that is enforced in any mode
    else:
        asked = (expected.decision, expected.rule_id)
        assert seen.observed[: len(before) + 1] == (*before, asked)


class TestWhereACallIsMade:
    """What a rule, a handler or a hook reads of it does not depend on what else is registered."""

    def test_a_rule_knows_session_turn_and_trace_without_any_hook(self, governed: Any) -> None:
        seen: list[Any] = []

        def when(call: types.ToolCall) -> bool:
            seen.append(
                (call.session_id, call.turn, call.agent, call.branch, call.task_id, call.trace_id)
            )
            return True

        governed(policies=[policy.deny("t", when=when)])
        with otelhooks.session("s-9"), otelhooks.turn("hello", agent="ops", task_id="t-7"):
            with pytest.raises(Denied):
                otelhooks.tool(lambda: None, name="t")()
        [(session, number, agent, branch, task, trace)] = seen
        assert (session, number, agent, branch, task) == ("s-9", 1, "ops", "ops", "t-7")
        assert int(trace, 16) == governed.span("execute_tool t").context.trace_id

    def test_a_handler_knows_them_too(self, governed: Any) -> None:
        ask = policy.ask_user("t", lambda call: (call.session_id, call.turn) == ("s-9", 1))
        governed(policies=[ask])
        with otelhooks.session("s-9"), otelhooks.turn("hello"):
            assert otelhooks.tool(lambda: "done", name="t")() == "done"

    def test_so_does_a_rule_about_the_start_of_a_subagent(self, governed: Any) -> None:
        wanted = policy.deny("invoke_subagent", when=in_session)
        governed(policies=[wanted, policy.allow("*")])

        @otelhooks.agent("helper")
        def helper(task: str) -> str:
            return "helped"

        with otelhooks.session("s-9"), otelhooks.turn("hello"), pytest.raises(Denied):
            otelhooks.tool(lambda: helper("x"), name="t")()


def in_session(call: types.ToolCall) -> bool:
    return call.session_id == "s-9"
