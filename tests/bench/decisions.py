"""One decision: the engine alone, driven by `yield from` as in a point, and the whole point."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from otelhooks import policy, types
from otelhooks.hooks import points
from otelhooks.hooks.calls import Call
from otelhooks.hooks.context import OperationContext, SessionContext, TurnContext
from otelhooks.hooks.registry import HookSet
from otelhooks.hooks.said import Message, Said, Speaker
from otelhooks.hooks.watch import Watch
from otelhooks.policy.files.rules import read_rules
from otelhooks.policy.files.source import Source
from otelhooks.policy.values.origins import outcome
from tests.bench.measure import Row, scaled

DECISIONS = 5_000

Decisions = Generator[Any, Any, None]


def best(runs: dict[str, Callable[[], Decisions]], rounds: int) -> dict[str, float]:
    """Return the seconds of one decision, the best of alternating rounds."""
    found = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            started = time.perf_counter()
            for _ in run():
                pass
            found[name] = min(found[name], time.perf_counter() - started)
    return {name: seconds / DECISIONS for name, seconds in found.items()}


def engine(
    rules: policy.PolicySet, calls: Sequence[Call], context: Any = None
) -> Callable[[], Decisions]:
    """Return a run of the rules alone over the calls, again and again."""

    def run() -> Decisions:
        for _ in range(DECISIONS // len(calls)):
            for call in calls:
                yield from rules.evaluate(call, context)

    for _ in run():  # first sight of each tool
        pass
    return run


def whole_point(rules: policy.PolicySet, calls: Sequence[Call]) -> Callable[[], Decisions]:
    """Return a run of pre_tool_call over the calls: arguments copied, rules asked, a verdict."""
    hooks, watch, judges = HookSet().at("pre_tool_call"), Watch(), (rules,)

    def run() -> Decisions:
        for _ in range(DECISIONS // len(calls)):
            for call in calls:
                yield from points.pre_tool_call(hooks, None, call, watch, judges)

    return run


def empty_calls() -> Decisions:
    """Call a function that does nothing as often."""

    def nothing() -> None: ...

    for _ in range(DECISIONS):
        nothing()
    return
    yield


def table(count: int) -> policy.PolicySet:
    """Return rules for as many tools: every third denies, asks or allows, and one is for all."""
    build = (policy.deny, policy.ask_user, policy.allow)
    rules = [build[number % 3](f"tool{number}") for number in range(count - 1)]
    return policy.PolicySet([*rules, policy.allow("*")], channel=True)


def about_users(count: int) -> policy.PolicySet:
    """Return as many rules for as many tools, each about the user and what the user said."""
    return policy.PolicySet(
        [
            policy.deny(f"tool{number}", unless_user_said=["to"], when_user={"role": "clerk"})
            for number in range(count)
        ]
    )


def heard() -> OperationContext:
    """Return the context of a call in a conversation of twenty messages."""
    session = SessionContext()
    session.said = Said()
    texts = [f"And a note about task {number} of the project." for number in range(19)]
    for text in (*texts, "Send the report to bob@example.com, please."):
        session.said.add(Message(text, Speaker("u-1")))
    turn = TurnContext(session)
    turn.serve(types.User(id="u-1", roles=("clerk",)))
    turn.hear(session.said.all()[-1])
    return OperationContext(turn)


def about_values(count: int) -> policy.PolicySet:
    """Return as many rules for as many tools, each about where a value came from."""
    return policy.PolicySet(
        [
            policy.deny(f"tool{number}", when_argument_from={"to": "untrusted"})
            for number in range(count)
        ]
    )


def read() -> OperationContext:
    """Return the context of a call in a conversation that has read some twenty pages."""
    turn = TurnContext(SessionContext())
    for page in range(20):
        source = OperationContext(turn)
        source.call = Call("fetch", {})
        source.add_label("untrusted")
        source.come(outcome(" ".join(f"word{page}x{number}" for number in range(500))))
    return OperationContext(turn)


def from_yaml(*entries: str) -> policy.PolicySet:
    """Return the rules of a YAML file with these entries."""
    text = "\n- ".join(("policies:", *entries))
    (file,) = read_rules([Source("bench.yaml", text, "bench", "0")])
    return policy.PolicySet(file.rules, channel=True)


def file_of(count: int) -> policy.PolicySet:
    """Return the rules of `table` from a YAML file."""
    words = ("deny", "ask", "allow")
    entries = (f"{words[number % 3]}: tool{number}" for number in range(count - 1))
    return from_yaml(*entries, 'allow: "*"')


def is_destructive(args: dict[str, Any]) -> bool:
    """Be the predicate that is measured."""
    return "rm -rf" in args["CommandLine"]


def enforced(module: Any, records: Any) -> Callable[[], Decisions]:
    """Return a run of the hook that `enforce` of a package makes of ten rules.

    Args:
        module: Has `enforce` and the builders.
        records: Has `ToolCall`.
    """
    rules = [*(module.deny(f"tool{number}") for number in range(9)), module.allow("*")]
    hook, call = module.enforce(rules), records.ToolCall(name="search", args={"query": "a"})

    def run() -> Decisions:
        for _ in range(DECISIONS):
            with contextlib.suppress(StopIteration):
                hook.run(None, call).send(None)
        return
        yield

    return run


def beside_antigravity(rounds: int) -> list[Row]:
    """Return the row of `enforce` beside google-antigravity's; none where that is missing."""
    try:
        from google.antigravity import types as their_types
        from google.antigravity.hooks import policy as theirs
    except ImportError:
        return []
    runs = {"ours": enforced(policy, types), "theirs": enforced(theirs, their_types)}
    seconds = best(runs, 2 * rounds)
    ratio = seconds["ours"] / seconds["theirs"]
    note = f"measured {seconds['ours'] * 1e6:.2f} and {seconds['theirs'] * 1e6:.2f} us"
    return [Row("`enforce`, 10 rules, google-antigravity's", ratio, 0.55, "of peer", note)]


def measure(rounds: int) -> list[Row]:
    """Return the rows of this file."""
    ten, many = table(10), table(10_000)
    started = time.perf_counter()
    of_file = file_of(10_000)
    load_s = time.perf_counter() - started
    tools = [Call(f"tool{number}", {"path": "/a", "line": 1}) for number in range(10)]
    allowed = [call for number, call in enumerate(tools) if number % 3 == 2]
    shuffled = random.Random(1).sample(range(9_999), DECISIONS)
    anything = [Call(f"tool{number}", {"path": "/a", "line": 1}) for number in shuffled]
    command = [Call("run_command", {"CommandLine": "ls -la"})]
    guarded = policy.PolicySet([policy.deny("run_command", when=is_destructive)])
    to_bob = [Call(f"tool{number}", {"to": "bob@example.com"}) for number in range(10)]
    ten_users, many_users, context = about_users(10), about_users(10_000), heard()
    ten_values, many_values, pages = about_values(10), about_values(10_000), read()
    scripted = from_yaml("""{deny: run_command, when: '"rm -rf" in args["CommandLine"]'}""")
    seconds = best(
        {
            "ten": engine(ten, tools),
            "many": engine(many, tools),
            "anything": engine(many, anything),
            "predicate": engine(guarded, command),
            "of_file": engine(of_file, tools),
            "starlark": engine(scripted, command),
            "users": engine(ten_users, to_bob, context),
            "many_users": engine(many_users, to_bob, context),
            "values": engine(ten_values, to_bob, pages),
            "many_values": engine(many_values, to_bob, pages),
            "point": whole_point(ten, allowed),
            "empty": empty_calls,
        },
        2 * rounds,
    )
    empty = seconds["empty"]

    def row(what: str, budget: float | None, name: str) -> Row:
        us = seconds[name] * 1e6
        note = f"measured {us:.2f} us, {seconds[name] / empty:.0f} empty calls"
        return Row(what, scaled(seconds[name], empty) * 1e6, budget, "us*", note)

    more = scaled(seconds["anything"] - seconds["ten"], empty) * 1e6
    return [
        row("decision, 10 rules, engine", 1.0, "ten"),
        row("decision, 10 rules, whole point", 4.0, "point"),
        Row(
            "decision, 10,000 rules, the same tools",
            seconds["many"] / seconds["ten"],
            1.05,
            "of 10",
        ),
        Row("decision, 10,000 rules, random tools, more", more, 0.5, "us*"),
        row("predicate on arguments, engine", 1.5, "predicate"),
        Row(
            "decision, 10,000 rules of a YAML file",
            seconds["of_file"] / seconds["ten"],
            1.2,
            "of 10",
        ),
        row("`when` in Starlark, engine", 35.0, "starlark"),
        row("user and what the user said, engine", 20.0, "users"),
        Row(
            "user and what the user said, 10,000 rules",
            seconds["many_users"] / seconds["users"],
            1.05,
            "of 10",
        ),
        row("where values came from, engine", 40.0, "values"),
        Row(
            "where values came from, 10,000 rules",
            seconds["many_values"] / seconds["values"],
            1.05,
            "of 10",
        ),
        Row("load 10,000 rules of a YAML file", load_s, None, "s"),
        *beside_antigravity(rounds),
    ]
