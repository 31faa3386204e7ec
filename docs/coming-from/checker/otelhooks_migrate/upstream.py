"""What another package's names are here: facts recorded from it, and our judgement of them.

The facts are a JSON file beside this module, `tests/upstream/surface.py` writes it from the
installed package. The judgement is a Python module with one `Judgement`. What it does not remark on
works, which tests hold it to: the name is here, and takes what it takes there.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Judgement", "Remark", "Upstream", "Verdict"]


class Verdict(str, Enum):
    """What becomes of a name when a file moves to otelhooks."""

    WORKS = "works"
    """It is here, and does the same."""
    STAYS = "stays"
    """It is none of hooks and policies: the file goes on importing it from where it does."""
    DIFFERS = "differs"
    """It can be used, and does something else."""
    MISSING = "missing"
    """It cannot be used; the reason says what to use instead."""


@dataclass(frozen=True)
class Remark:
    """A verdict other than that all is the same.

    Attributes:
        verdict: Any but `works`.
        reason: One line for the reader: why, and what to do.
    """

    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Judgement:
    """What we say about a package.

    Attributes:
        distribution: Name on the package index.
        root: Its outermost import name.
        modules: Module there -> module here that has its names.
        moved: Dotted name there -> dotted name here, where modules do not correspond.
        remarks: Dotted name there -> remark. The name is that of a module (for all that lies
            below), of something in one, of a class's member (``Class.member``), of a keyword, a
            position or every call (``function(keyword)``, ``function(2)``, ``function()``).
        overrides: ``Class.member`` -> remark for a subclass that defines that member.
        deciders: Classes and decorators of hooks that decide about calls.
        lacks: Class -> members of which a subclass must define one, and the remark otherwise.
    """

    distribution: str
    root: str
    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    moved: Mapping[str, str] = field(default_factory=dict[str, str])
    remarks: Mapping[str, Remark] = field(default_factory=dict[str, Remark])
    overrides: Mapping[str, Remark] = field(default_factory=dict[str, Remark])
    deciders: frozenset[str] = frozenset()
    lacks: Mapping[str, tuple[frozenset[str], Remark]] = field(
        default_factory=dict[str, "tuple[frozenset[str], Remark]"]
    )


class Upstream:
    """A package that a file may come from: its recorded names and our judgement."""

    def __init__(self, judgement: Judgement) -> None:
        """Take the judgement; the recorded facts are read when they are needed."""
        self.judgement = judgement

    @functools.cached_property
    def recorded(self) -> dict[str, Any]:
        """The facts; `tests/upstream/surface.py` says in which form."""
        name = self.judgement.distribution.replace("-", "_")
        text = Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        return found

    @property
    def label(self) -> str:
        """Distribution and recorded version."""
        return f"{self.judgement.distribution} {self.recorded['version']}"

    def has_module(self, name: str) -> bool:
        """Return whether a dotted name is the package, or lies below it."""
        root = self.judgement.root
        return name == root or name.startswith(f"{root}.")

    def is_recorded(self, module: str) -> bool:
        """Return whether the names of a module are known."""
        return module in self.recorded["modules"]

    def home(self, module: str, name: str) -> str | None:
        """Return the dotted name under which a module's name is defined.

        None: the module's names are recorded, and this is not among them.
        """
        names: dict[str, str] | None = self.recorded["modules"].get(module)
        dotted = f"{module}.{name}"
        if names is None or dotted in self.judgement.remarks:
            return dotted
        return names.get(name)

    def fact(self, name: str) -> dict[str, Any]:
        """Return what is recorded of a defined name, empty for one of another module."""
        found: dict[str, Any] = self.recorded["names"].get(name, {})
        return found

    def remark(self, name: str) -> Remark | None:
        """Return what we say of a defined name, or of the innermost module around it."""
        remarks = self.judgement.remarks
        while name not in remarks:
            name, dot, _ = name.rpartition(".")
            if not dot:
                return None
        return remarks[name]

    def here(self, module: str, name: str) -> str:
        """Return the dotted name that takes the place of a module's name, "" where none does."""
        defined = self.home(module, name) or ""
        remark = self.remark(defined)
        if remark is not None and remark.verdict is not Verdict.DIFFERS:
            return ""
        moved = self.judgement.moved.get(f"{module}.{name}") or self.judgement.moved.get(defined)
        if moved:
            return moved
        for at in (module, defined.rpartition(".")[0]):
            if at in self.judgement.modules:
                return f"{self.judgement.modules[at]}.{name}"
        return self.judgement.modules.get(defined, "")

    def keywords(self, name: str) -> frozenset[str] | None:
        """Return the names that a callable takes, None where more are accepted or none recorded."""
        fact = self.fact(name)
        takes = fact.get("takes")
        if takes is None or "**" in takes or fact["kind"] == "record":
            return None
        return frozenset(part.rstrip("=") for part in takes.removeprefix("await ").split(", "))
