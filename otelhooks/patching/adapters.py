"""What an adapter says about its framework, and what the coverage report says about it.

`patches` exports these; its text explains how they are used. They are named tuples because those
are created in a fraction of a dataclass's time, at each start of a program.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from otelhooks.patching.builtin import Table as BuiltInTable
from otelhooks.patching.seats import Seat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Table = tuple[Seat, ...]


class Package(NamedTuple):
    """One distribution of a framework, patched as a whole.

    Args:
        distributions: Names it is published under, most usual first.
        supported: Version range that the adapter supports, such as ``>=1.22,<3``.
        module: Import name; importing it means that the package is in use.
        seats: Its table, or a function from version to table.
    """

    distributions: tuple[str, ...]
    supported: str
    module: str
    seats: Table | Callable[[str], Table]


class NotCovered(NamedTuple):
    """A part of a framework that no seat guards.

    Args:
        what: What is not guarded, for a reader of ``otelhooks doctor``.
        why: The reason, one sentence without a period.
        distribution: Distribution that contains it; empty = that of the first package.
        module: Import name; needed with `seats`.
        seats: Where it is refused under ``strict``; their wrappers are not used.
    """

    what: str
    why: str
    distribution: str = ""
    module: str = ""
    seats: Table = ()


class Adapter(NamedTuple):
    """What `patches` knows of one framework; created once, at the end of an adapter's module.

    Args:
        framework: Name in ``frameworks=`` and in reports.
        packages: Distributions with seats, innermost first.
        not_covered: What no seat guards.
        built_in: Tools that the framework includes, by the class or function behind them.
        in_part: Events and rules that do less here than elsewhere, and how far they go, one
            sentence without a period.
        options: What can be set for the framework besides ``spans``, and the values that each
            option may have; the first is its default.
        offline: Environment variables that keep its import from the network.
    """

    framework: str
    packages: tuple[Package, ...]
    not_covered: tuple[NotCovered, ...] = ()
    built_in: BuiltInTable = MappingProxyType({})
    in_part: tuple[tuple[str, str], ...] = ()
    options: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    offline: Mapping[str, str] = MappingProxyType({})


class SeatCoverage(NamedTuple):
    """One seat in the coverage report.

    Args:
        name: ``module.Class.method``.
        state: ``patched``, ``refused``, ``displaced`` (other code replaced the name), ``missing``,
            ``not imported`` or ``unpatched``.
        required: Whether the package needs it.
        entry: Whether user code enters the framework here.
    """

    name: str
    state: str
    required: bool
    entry: bool


ABSENT = ("not installed", "off")
"""States of packages that need no guard."""


class Coverage(NamedTuple):
    """One package in the coverage report.

    Args:
        framework: Name of the adapter.
        distribution: Distribution that owns the package.
        version: Installed version, empty if there is none or it cannot be read.
        supported: Supported range; ``none`` for a part that is not covered at all.
        state: ``patched``, ``partial`` (guarded so far, modules with seats are not imported yet),
            ``refused``, ``unpatched`` (runs unguarded), ``off``, ``not imported`` or
            ``not installed``.
        seats: Its seats.
        not_covered: Pairs of what no seat guards, and why.
        error: Why it is not guarded; empty if it is.
    """

    framework: str
    distribution: str
    version: str
    supported: str
    state: str
    seats: tuple[SeatCoverage, ...]
    not_covered: tuple[tuple[str, str], ...]
    error: str

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain lists and dicts, for JSON."""
        report = self._asdict()
        report["seats"] = [seat._asdict() for seat in self.seats]
        report["not_covered"] = [{"what": what, "why": why} for what, why in self.not_covered]
        return report
