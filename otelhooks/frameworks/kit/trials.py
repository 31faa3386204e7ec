"""The proof of a deny with the real framework, as run by `otelhooks doctor --prove`."""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import anyio

import otelhooks
from otelhooks import policy
from otelhooks.frameworks.kit.models import ModelCall, Part
from otelhooks.frameworks.proof import Proof
from otelhooks.frameworks.trial import REASON, STEPS, NextStep, Step, Trial
from otelhooks.patching.versions import installed

__all__ = ["STEPS", "NextStep", "Step", "Trial", "parts", "prove"]

_ids = itertools.count(1)


def parts(step: Step, of: type[ModelCall]) -> list[Any]:
    """Return a scripted model's answer as parts of the framework's.

    Args:
        step: The answer.
        of: Has the table that creates them.
    """
    made = of.table.made
    if isinstance(step, str):
        return [made["text"](Part("text", text=step))]
    return [
        made["call"](Part("call", name=name, id=f"call_{next(_ids)}", args=args))
        for name, args in step
    ]


def prove(
    framework: str,
    distribution: str,
    module: str,
    paths: Mapping[str, Callable[[Trial], Any]],
    *,
    own: Mapping[str, tuple[Any, ...]] = MappingProxyType({}),
    denied: Sequence[str] = ("danger",),
    backends: Sequence[str] = ("asyncio",),
) -> Proof:
    """Run the script of a trial on each path, against rules that deny its tools.

    Args:
        framework: Adapter's name.
        distribution: Its main package.
        module: Import name.
        paths: Name to a function of a trial that returns the run's answer. A coroutine function
            runs in an event loop, any other outside one.
        own: Path to what its trials are created with, if the usual script does not fit.
        denied: Tools that the rules deny; ``*/danger`` if servers have the tools.
        backends: Backends on which each path runs, ``asyncio`` or ``trio``.
    """
    found: list[tuple[str, bool, str]] = []
    rules = [policy.deny(name, reason=REASON) for name in denied]
    quiet = contextlib.redirect_stdout(io.StringIO())  # frameworks may print what their agents do
    with otelhooks.scope(policies=rules), quiet:
        for (name, run), backend in itertools.product(paths.items(), backends):
            trial = Trial(*own.get(name, ()))
            is_async = inspect.iscoroutinefunction(run)
            answer = anyio.run(run, trial, backend=backend) if is_async else run(trial)
            path = name if len(backends) == 1 else f"{name}, {backend}"
            found.append((path, *trial.outcome(went_on=answer == "done")))
    return Proof.of(framework, installed((distribution,), module)[1], found)
