"""Patch the frameworks of this process: seats, versions, deferred import, refusal, coverage.

What adapters write (a `Seat` is described in `seats`)::

    Package(distributions, supported, module, seats)     one distribution, range and table
    NotCovered(what, why, distribution="", module="", seats=())
    Adapter(framework, packages, not_covered=(), built_in={})

    ADAPTER = Adapter(
        framework="mcp",
        packages=(Package(("mcp",), ">=1.22,<3", "mcp", seats),),
        not_covered=(NotCovered("plain functions", "`@server.tool()` gives them back unchanged"),),
        built_in={"mcp.tools:Bash": BuiltIn("bash", ("run_command",), "shell")},
    )

``seats`` is a table or a function ``seats(version) -> table``; it is also called with a version out
of range, and with an empty text for an unreadable one, and then returns its nearest table (those
seats are where calls are refused). ``since`` and ``until`` of a seat are applied afterwards.
`NotCovered` with ``seats`` refuses at them whenever ``strict`` is on.

What the rest of otelhooks calls::

    install(adapter, *, strict, off=frozenset(), wait=True) -> AdapterState
    uninstall(framework=None)            coverage() -> tuple[Coverage, ...]
    set_strict(strict)                   Coverage.to_dict()
    modules() -> tuple[str, ...]

**The rule.** The unit is a package: one distribution, one version range, one table of seats. It is
guarded in full, refused in full, or left alone; all its seats read one switch, so it changes at
once and is never a mix.

1. Its version is read from the metadata of the distribution that owns the module, when
   `install` runs and again at the first import of one of its modules. Nothing of it is imported.
2. Out of range, unreadable, a required seat whose module does not exist, or a failing table: the
   package has a *problem* before any of its code ran.
3. Otherwise each module's seats are judged as that module is imported: all found, then all
   patched. A module that is not imported has no code that could run, so its seats may wait.
4. A required seat that is missing, taken by another otelhooks, or cannot be set is a problem of
   the whole package, whenever it shows.
5. A package with a problem is refused under ``strict``: seats already patched refuse from then
   on, and every seat found in a module, now or imported later, is wrapped to refuse. Without
   ``strict`` all its seats are restored. Either way one ERROR line, once it is in use.

6. A module that is imported again, after it was removed from ``sys.modules``, or reloaded, is
   judged again, by the version that is installed then. All copies of a package are one unit: what
   was found in any of them is guarded, refused and restored with the rest. A problem stays, even
   where a later copy has none. Copies are kept alive until `uninstall`.

7. Other code may put a function back that it found before us, or wrap ours once more. A function
   that no longer leads to our wrapper is wrapped again, with an ERROR line: at the next call of the
   package that passes a seat, and whenever an OpenTelemetry instrumentation is switched off. So is
   a subclass that holds the very function of a seat, as an instrumentation leaves it there.

What runs on reports of `imports` runs inside the user's ``import``: it catches everything (and then
fails the package, closed). After `uninstall` nothing is reported any more. `install` waits for a
module that other threads import; one that the calling thread itself has half imported is judged as
it is. What cannot be reached: bound methods and copies of functions taken before `install`, what
another thread calls of a module while it is being reloaded, and files that bypass the import
system, such as those that are run under another name by ``importlib.util.spec_from_file_location``.
"""

from __future__ import annotations

import logging
from typing import Any

from otelhooks.errors import ConfigError
from otelhooks.patching import versions
from otelhooks.patching.adapters import (
    Adapter,
    Coverage,
    NotCovered,
    Package,
    SeatCoverage,
)
from otelhooks.patching.imports import lock, wait_for_imports
from otelhooks.patching.packages import Unit, stop
from otelhooks.patching.seats import Seat, pass_through

__all__ = [
    "Adapter",
    "AdapterState",
    "Coverage",
    "NotCovered",
    "Package",
    "Seat",
    "SeatCoverage",
    "adapters",
    "coverage",
    "install",
    "mend",
    "modules",
    "pass_through",
    "set_strict",
    "uninstall",
]

_logger = logging.getLogger("otelhooks.instrumentation")


class AdapterState:
    """One installed adapter.

    Attributes:
        adapter: What was installed.
        units: Its packages.
    """

    def __init__(self, adapter: Adapter, units: tuple[Unit, ...]) -> None:
        self.adapter = adapter
        self.units = units

    @property
    def is_there(self) -> bool:
        """Whether any package of it is installed and not turned off."""
        return any(unit.version and not unit.off for unit in self.units)

    def coverage(self) -> tuple[Coverage, ...]:
        """Return one row per package; parts without seats are in the row of their distribution."""
        with lock:
            rows: list[Coverage] = []
            for index, unit in enumerate(self.units):
                names = unit.package.distributions
                items = [
                    item
                    for item in self.adapter.not_covered
                    if item.distribution in names or (index == 0 and not self._has_row(item))
                ]
                rows.append(unit.report(items))
            return tuple(rows)

    def modules(self) -> tuple[str, ...]:
        """Return the modules with seats of those of its packages that are installed."""
        units = [unit for unit in self.units if unit.version and not unit.off]
        return tuple(name for unit in units for name in unit.modules if versions.exists(name))

    def watch(self) -> None:
        """Watch the modules of every package; called under the lock."""
        for unit in self.units:
            if not unit.off:
                unit.watch()

    def start(self, *, as_they_are: bool) -> None:
        """Patch what is imported of every package (see `Unit.start`); called under the lock."""
        for unit in self.units:
            if not unit.off:
                unit.start(as_they_are=as_they_are)

    def mend(self) -> None:
        """Guard again what other code has taken its wrapper from."""
        for unit in self.units:
            unit.mend()

    def set_strict(self, strict: bool) -> None:
        """Switch refusal for every package of it; called under the lock."""
        for unit in self.units:
            unit.set_strict(strict)

    def _has_row(self, item: NotCovered) -> bool:
        return any(item.distribution in unit.package.distributions for unit in self.units)


_states: dict[str, AdapterState] = {}


def _uninstrument(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Switch another instrumentation off: it may put functions back that it knew before us."""
    try:
        return wrapped(*args, **kwargs)
    finally:
        mend()


_BASE = "opentelemetry.instrumentation"
_OTHERS = Adapter(
    "opentelemetry_instrumentation",
    (
        Package(
            ("opentelemetry-instrumentation",),
            ">=0",
            _BASE,
            (Seat(f"{_BASE}.instrumentor", "BaseInstrumentor.uninstrument", _uninstrument),),
        ),
    ),
)
_others: list[Unit] = []  # one, as long as any adapter is installed


def install(
    adapter: Adapter, *, strict: bool, off: frozenset[str] = frozenset(), wait: bool = True
) -> AdapterState:
    """Patch a framework, now or as it is imported. The same adapter again changes nothing.

    Its modules are watched first and looked at last, so that whatever another thread imports
    meanwhile is met once: reported, waited for, or found.

    Args:
        adapter: The framework.
        strict: Whether a package that cannot be guarded in full is refused.
        off: Names that are left alone: frameworks, or single distributions of one.
        wait: Whether to wait for unreported imports of it that run in other threads; not under the
            lock. Without it they are left to a call that waits.

    Returns:
        The installed adapter, for its coverage.

    Raises:
        ConfigError: Another adapter of this framework is installed.
    """
    units = _units(adapter, strict=strict, off=off)
    for unit in units:
        unit.plan()
    with lock:
        state = _states.get(adapter.framework)
        if not _others:
            _others[:] = _units(_OTHERS, strict=False, off=frozenset())
            _others[0].plan()
            _others[0].watch()
            _others[0].start(as_they_are=False)
        if state is None:
            state = _states[adapter.framework] = AdapterState(adapter, units)
            state.watch()
        elif state.adapter is not adapter:
            problem = f"framework `{adapter.framework}` is already patched by another adapter"
            raise ConfigError(problem, hint="call `otelhooks.uninstrument()` first")
    if wait:
        # An import that began before the watch is not reported, and may not be in `sys.modules`
        # yet.
        wait_for_imports(name for unit in units if not unit.off for name in unit.modules)
    with lock:
        if _states.get(adapter.framework) is state:
            state.start(as_they_are=wait)
        return state


def uninstall(framework: str | None = None) -> None:
    """Restore every patched name; a later import patches nothing.

    Args:
        framework: Name of one adapter; None = all, the last one installed first.
    """
    with lock:
        names = reversed(tuple(_states)) if framework is None else (framework,)
        states = [_states.pop(name) for name in names if name in _states]
        units = [unit for state in states for unit in reversed(state.units)]
        if not _states:
            units += _others
            _others.clear()
        stop(units)


def mend() -> None:
    """Guard again what other code has taken our wrappers from."""
    with lock:
        for state in _states.values():
            state.mend()


def set_strict(strict: bool) -> None:
    """Switch the refusal of packages that cannot be guarded, for every installed adapter at once.

    Called when the first rule that can deny is registered at run time, or the last one is removed.
    """
    with lock:
        for state in _states.values():
            state.set_strict(strict)


def adapters() -> tuple[Adapter, ...]:
    """Return the installed adapters of frameworks that are installed and not turned off."""
    with lock:
        return tuple(state.adapter for state in _states.values() if state.is_there)


def coverage() -> tuple[Coverage, ...]:
    """Return one row for each package of each installed adapter, in order of installation."""
    with lock:
        return tuple(row for state in _states.values() for row in state.coverage())


def modules() -> tuple[str, ...]:
    """Return the modules with seats of every package that is installed and not turned off."""
    with lock:
        names = (name for state in _states.values() for name in state.modules())
        return tuple(dict.fromkeys(names))


def _units(adapter: Adapter, *, strict: bool, off: frozenset[str]) -> tuple[Unit, ...]:
    packages = [(package, "") for package in adapter.packages]
    for item in adapter.not_covered:
        if item.seats:
            names = (item.distribution,) if item.distribution else packages[0][0].distributions
            why = f"{item.what} is not covered: {item.why}"
            packages.append((Package(names, "none", item.module, item.seats), why))
    return tuple(
        Unit(
            adapter,
            package,
            why,
            strict=strict,
            off=adapter.framework in off or not off.isdisjoint(package.distributions),
        )
        for package, why in packages
    )
