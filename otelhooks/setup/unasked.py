"""Rules that no call was ever judged by: counted in a gauge, and logged when the process exits.

A process that has rules but exits without a single guarded operation ran without them. A process
that had turns or model calls but no tool call is not unusual.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from otelhooks.records import semconv
from otelhooks.setup.catalogue import ADAPTERS
from otelhooks.setup.ungoverned import ungoverned

if TYPE_CHECKING:
    from otelhooks.pipeline.runtime import Runtime
    from otelhooks.policy.evaluate import PolicySet

__all__ = ["counted", "is_about_agents", "is_one_of_several", "unasked"]


def counted(rules: PolicySet) -> list[tuple[float, dict[str, bool]]]:
    """Return how many rules were evaluated for some call, and how many never, as gauge values.

    Args:
        rules: The set in force; those that guard policy files do not count.
    """
    own, met = rules.given, rules.asked
    if not own:
        return []
    asked = sum(rule in met for rule in own)
    pairs = ((asked, True), (len(own) - asked, False))
    return [(number, {semconv.POLICY_RULE_ASKED: is_asked}) for number, is_asked in pairs]


def unasked(rules: PolicySet, runtime: Runtime) -> str:
    """Return the line to log at exit if no rule was evaluated; empty if any was.

    Args:
        rules: The set in force; rules that guard policy files do not count.
        runtime: The process's runtime.
    """
    number = len(rules.given)
    if not runtime.is_unused or not (number or runtime.loaded.can_deny):
        return ""
    what = f"0 of {number} rules were" if number else "no hook was"
    beside = ", ".join(f"`{name}`" for name, _ in ungoverned.told)
    return (
        f"{what} ever asked: no guarded agent, model or tool ran in this process"
        f"{f', and nothing guards {beside}' if beside else ''}\n"
        "hint: `otelhooks doctor` says what is guarded; tools of a loop of your own need"
        " @otelhooks.tool (see help(otelhooks.tool))"
    )


def is_one_of_several() -> bool:
    """Return whether this program has other processes, which may have evaluated rules.

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
    """Return whether this process has imported anything that runs agents, as far as known."""
    packages = (package for names in ADAPTERS.values() for package in names)
    return bool(ungoverned.told) or any(name in sys.modules for name in packages)
