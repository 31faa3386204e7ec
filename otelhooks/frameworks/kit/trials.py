"""The proof of a deny with the real framework, as run by `otelhooks doctor --prove`."""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

import otelhooks
from otelhooks import policy
from otelhooks.frameworks.kit.models import ModelCall, Part
from otelhooks.frameworks.proof import Proof
from otelhooks.frameworks.trial import REASON, STEPS, NextStep, Step, Trial
from otelhooks.patching.versions import installed
from otelhooks.setup import catalogue

__all__ = ["STEPS", "NextStep", "Proving", "Step", "Trial", "parts"]

_ids = itertools.count(1)


def parts(step: Step, of: type[ModelCall]) -> list[Any]:
    """Return a scripted model's answer as parts of the framework's.

    Args:
        step: The answer.
        of: Has the table that creates them.
    """
    if isinstance(step, str):
        return [of.table.make(Part("text", text=step))]
    calls = (Part("call", name=name, id=f"call_{next(_ids)}", args=args) for name, args in step)
    return list(map(of.table.make, calls))


@dataclass(frozen=True)
class Proving:
    """Runs the script of a trial on each path, against rules that deny its tools.

    Args:
        framework: Adapter's name.
        paths: Name to a function of a trial that returns the run's answer. A coroutine function
            runs in an event loop, any other outside one.
        own: Path to what its trials are created with, if the usual script does not fit.
        denied: Tools that the rules deny; ``*/danger`` if servers have the tools.
        backends: Backends on which each path runs, ``asyncio`` or ``trio``.
    """

    framework: str
    paths: Mapping[str, Callable[[Trial], Any]]
    own: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, "tuple[Any, ...]"])
    denied: Sequence[str] = ("danger",)
    backends: Sequence[str] = ("asyncio",)

    def __call__(self) -> Proof:
        """Return the result."""
        found: list[tuple[str, bool, str]] = []
        rules = [policy.deny(name, reason=REASON) for name in self.denied]
        quiet = contextlib.redirect_stdout(io.StringIO())  # frameworks print what agents do
        with otelhooks.scope(policies=rules), quiet:
            for (name, run), backend in itertools.product(self.paths.items(), self.backends):
                trial = Trial(*self.own.get(name, ()))
                is_async = inspect.iscoroutinefunction(run)
                answer = anyio.run(run, trial, backend=backend) if is_async else run(trial)
                path = name if len(self.backends) == 1 else f"{name}, {backend}"
                found.append((path, *trial.outcome(went_on=answer == "done")))
        package = catalogue.adapter(self.framework).packages[0]
        version = installed(package.distributions, package.module)[1]
        return Proof.of(self.framework, version, found)
