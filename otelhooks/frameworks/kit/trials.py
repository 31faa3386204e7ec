"""The proof of a deny with the real framework, which `otelhooks doctor --prove` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio

import otelhooks
from otelhooks import policy
from otelhooks.frameworks.proof import Proof
from otelhooks.frameworks.trial import REASON, Trial
from otelhooks.patching.versions import installed

__all__ = ["Trial", "prove"]


def prove(
    framework: str, distribution: str, module: str, paths: Mapping[str, Callable[[Trial], Any]]
) -> Proof:
    """Run the script of a trial on each path, against a rule that denies one of its tools.

    Args:
        framework: Adapter's name.
        distribution: Its main package.
        module: Import name.
        paths: Name to a coroutine function of a trial that returns the run's answer.
    """
    found: list[tuple[str, bool, str]] = []
    with otelhooks.scope(policies=[policy.deny("danger", reason=REASON)]):
        for name, run in paths.items():
            trial = Trial()
            went_on = anyio.run(run, trial) == "done"
            found.append((name, *trial.outcome(went_on=went_on)))
    return Proof.of(framework, installed((distribution,), module)[1], found)
