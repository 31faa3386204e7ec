"""Cost of one decision: `PolicySet.evaluate`, driven by `yield from` as a point does it.

Run: ``python tests/bench/policy.py``. Times are the best of several rounds, in microseconds a
decision, warm; the second column is the ratio to an empty Python call in the same run, since
machines differ and change. Budgets: design section 14.
"""

from __future__ import annotations

import gc
import random
import time
from typing import TYPE_CHECKING, Any

from otelhooks import policy, types
from otelhooks.hooks.calls import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

DECISIONS = 20_000
ROUNDS = 25


def best(run: Callable[[], Generator[Any, Any, None]]) -> float:
    """Measure a generator of `DECISIONS` decisions: microseconds each, best round."""
    found = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in run():
            pass
        found = min(found, time.perf_counter() - started)
    return found / DECISIONS * 1e6


def empty() -> Generator[Any, Any, None]:
    """Call a function that does nothing."""

    def nothing() -> None: ...

    for _ in range(DECISIONS):
        nothing()
    return
    yield


def decide(
    rules: policy.PolicySet, calls: Sequence[Call]
) -> Callable[[], Generator[Any, Any, None]]:
    """Return a run over the calls, again and again."""

    def run() -> Generator[Any, Any, None]:
        for _ in range(DECISIONS // len(calls)):
            for call in calls:
                yield from rules.evaluate(call)

    for _ in run():  # first sight of each tool
        pass
    return run


def table(count: int) -> policy.PolicySet:
    """Return rules for as many tools: every third denies, asks or allows, and one is for all."""
    build = (policy.deny, policy.ask_user, policy.allow)
    rules = [build[number % 3](f"tool{number}") for number in range(count - 1)]
    return policy.PolicySet([*rules, policy.allow("*")], channel=True)


def main() -> None:
    """Measure and print the table."""
    gc.disable()
    ten_tools = [Call(f"tool{number}", {"path": "/a"}) for number in range(10)]
    shuffled = random.Random(1).sample(range(9_999), 5_000)
    random_tools = [Call(f"tool{number}", {"path": "/a"}) for number in shuffled]
    started = time.perf_counter()
    large = table(10_000)
    loaded_s = time.perf_counter() - started

    def when(args: dict[str, Any]) -> bool:
        return "rm -rf" in args["CommandLine"]

    def when_call(call: types.ToolCall) -> bool:
        return "rm -rf" in call.args["CommandLine"]

    command = [Call("run_command", {"CommandLine": "ls -la"})]
    nested = [Call("run_command", {"CommandLine": "ls", "env": {"A": "1", "B": [1, 2, 3]}})]
    floor = best(empty)
    ten = best(decide(table(10), ten_tools))
    many = best(decide(large, ten_tools))
    scattered = best(decide(large, random_tools))
    one = policy.PolicySet([policy.deny("run_command", when=when)])
    rows = [
        ("empty call", floor, ""),
        ("10 rules", ten, "<= 1 us"),
        ("10,000 rules, the same tools", many, f"{many / ten:.2f} of 10 rules, <= 1.2"),
        ("10,000 rules, random tools", scattered, f"{scattered - ten:+.2f} us, <= +0.5"),
        ("a predicate on the arguments", best(decide(one, command)), "<= 1.5 us"),
        ("the same, nested arguments", best(decide(one, nested)), ""),
        (
            "a predicate on the call",
            best(decide(policy.PolicySet([policy.deny("run_command", when=when_call)]), command)),
            "",
        ),
        (
            "a predicate, five rules",
            best(decide(policy.PolicySet([policy.deny("run_command", when=when)] * 5), command)),
            "",
        ),
    ]
    print(f"{'decision':32} {'us':>7} {'calls':>6}  budget")
    for name, microseconds, budget in rows:
        print(f"{name:32} {microseconds:7.3f} {microseconds / floor:6.1f}  {budget}")
    print(f"loading 10,000 rules: {loaded_s:.2f} s")


if __name__ == "__main__":
    main()
