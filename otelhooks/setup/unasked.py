"""Rules that no call was ever judged by: counted in a gauge, and told of when the process exits.

A process that exits without a single guarded operation, although it has rules, ran what it ran
without them. One that had turns or model calls and no tool call is nothing unusual.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from otelhooks.setup.catalogue import ADAPTERS
from otelhooks.setup.ungoverned import ungoverned
from otelhooks.telemetry import semconv

if TYPE_CHECKING:
    from otelhooks.pipeline.runtime import Runtime
    from otelhooks.policy.evaluate import PolicySet

__all__ = ["counted", "is_about_agents", "is_one_of_several", "unasked"]


def counted(rules: PolicySet) -> list[tuple[float, dict[str, bool]]]:
    """Return how many rules have been asked about some call, and how many never, as a gauge has it.

    Args:
        rules: The set in force; those that guard policy files do not count.
    """
    own, met = [rule for rule in rules.rules if not rule.is_built_in], rules.asked
    if not own:
        return []
    asked = sum(rule in met for rule in own)
    pairs = ((asked, True), (len(own) - asked, False))
    return [(number, {semconv.POLICY_RULE_ASKED: is_asked}) for number, is_asked in pairs]


def unasked(rules: PolicySet, runtime: Runtime) -> str:
    """Return what is to be said at the end of a process in which no rule was asked; empty if any.

    Args:
        rules: The set in force; rules that guard policy files do not count.
        runtime: That of the process.
    """
    number = sum(not rule.is_built_in for rule in rules.rules)
    if not runtime.is_unused or not (number or runtime.loaded.can_deny):
        return ""
    what = f"0 of {number} rules were" if number else "no hook was"
    beside = ", ".join(f"`{name}`" for name, _ in ungoverned.told)
    return (
        f"otelhooks: {what} ever asked: no guarded agent, model or tool ran in this process"
        f"{f', and nothing guards {beside}' if beside else ''}\n"
        "hint: `otelhooks doctor` says what is guarded; tools of a loop of your own need"
        " @otelhooks.tool (see docs/hand-written-loops.md)"
    )


def is_one_of_several() -> bool:
    """Return whether there are other processes of this program, which may be asked.

    multiprocessing imports a module ``popen_...`` for the first process that it starts; gunicorn
    forks each worker from its arbiter.
    """
    if "gunicorn.arbiter" in sys.modules:
        return True
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        return True
    return any(name.startswith("multiprocessing.popen_") for name in list(sys.modules))


def is_about_agents() -> bool:
    """Return whether this process has imported anything that runs agents, as far as is known."""
    packages = (package for names in ADAPTERS.values() for package in names)
    return bool(ungoverned.told) or any(name in sys.modules for name in packages)
