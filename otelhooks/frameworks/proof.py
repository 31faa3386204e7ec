"""`otelhooks doctor --prove`: a scripted agent of each installed framework against a deny.

Nothing is assumed: each proof runs the real framework, with a scripted model that asks for a tool
that policy denies, and checks whether the tool's body ran.
"""

from __future__ import annotations

import importlib
import pathlib
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import otelhooks
from otelhooks.pipeline import runtime
from otelhooks.setup import catalogue, guarded

__all__ = ["Proof", "prove_all"]

PROVABLE = {"patched", "partial", "not imported"}


@dataclass(frozen=True)
class Proof:
    """The result of running one framework against a deny.

    Attributes:
        framework: Adapter's name.
        version: Installed version of its main package.
        proved: Whether the denied body did not run, and the run continued, on every path tried.
        detail: One line about the outcome.
        paths: Path, whether the deny held, and what was seen.
    """

    framework: str
    version: str
    proved: bool
    detail: str
    paths: tuple[tuple[str, bool, str], ...] = ()

    @classmethod
    def of(cls, framework: str, version: str, paths: Iterable[tuple[str, bool, str]]) -> Proof:
        """Sum up the paths of one framework."""
        tried = tuple(paths)
        failed = [path for path, held, _ in tried if not held]
        detail = f"denied on {len(tried)} paths" if tried else "no path was tried"
        if failed:
            detail = f"not proved on: {', '.join(failed)}"
        return cls(framework, version, bool(tried) and not failed, detail, tried)

    def to_dict(self) -> dict[str, Any]:
        """Return the proof as plain data."""
        return asdict(self)


def prove_all() -> list[Proof]:
    """Run the proof of every installed framework.

    Uses the present instrumentation, or one of its own until the end. A framework that is refused
    counts as not proved: it does not run at all.
    """
    with tempfile.TemporaryDirectory(prefix="otelhooks-prove-") as folder:
        is_ours = runtime.active() is None
        if is_ours:
            otelhooks.instrument(strict=True, store=pathlib.Path(folder) / "store.db")
        try:
            return [proof for name in catalogue.ADAPTERS if (proof := _prove(name))]
        finally:
            if is_ours:
                otelhooks.uninstrument()


def _prove(name: str) -> Proof | None:
    """Run one framework's proof; return None if it is missing or switched off."""
    entries = [
        entry
        for entry in guarded.coverage()
        if entry.framework == name
        and entry.supported != "none"
        and entry.state not in {"not installed", "off"}
    ]
    if not entries:
        return None
    version = entries[0].version
    unfit = [entry for entry in entries if entry.state not in PROVABLE]
    if unfit:
        reasons = "; ".join(f"{e.distribution} {e.version} {e.state}: {e.error}" for e in unfit)
        return Proof(name, version, False, reasons)
    try:
        return importlib.import_module(f"otelhooks.frameworks.{name}.scripted").prove()
    except Exception as error:
        return Proof(name, version, False, f"the scripted agent failed: {error!r}")
