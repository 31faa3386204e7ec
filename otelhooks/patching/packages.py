"""One package of a framework: planned, judged, patched, refused or restored as a whole.

The text of `patches` states the rule that it follows. A package may exist in several copies, since
a module can be imported again and reloaded; they are one unit, with one switch. Functions that were
found in any of them are kept until the unit is stopped, because holders of an older copy still call
them.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from otelhooks.errors import SeatError
from otelhooks.patching import versions
from otelhooks.patching.adapters import (
    Adapter,
    Coverage,
    NotCovered,
    Package,
    SeatCoverage,
    Table,
)
from otelhooks.patching.handles import Handle, restore_copies, wrap_copies
from otelhooks.patching.imports import imports, lock
from otelhooks.patching.seats import (
    GUARD,
    PASS,
    REFUSE,
    Place,
    Seat,
    Switch,
    find,
    is_taken,
    problem,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

_logger = logging.getLogger("otelhooks.instrumentation")

_LOST = (
    "%s: other code took the guard from %s, as an instrumentation does that is switched off: it is "
    "put back; calls until now were not judged"
)


class Unit:
    """One package of an installed adapter. After `plan`, methods are called under the lock."""

    def __init__(self, adapter: Adapter, package: Package, why: str, *, strict: bool, off: bool):
        self.adapter = adapter
        self.package = package
        self.strict = strict
        self.off = off
        self.problem = ""
        self._why = why  # set for parts that no version of the adapter covers
        self.distribution, self.version = package.distributions[0], ""
        self.seats: Table = ()
        self._switch = Switch(self._error, self.mend)
        self._found: dict[tuple[Seat, Place], Handle | None] = {}  # None = not wrapped now
        self._replaced: list[Handle] = []  # of functions that a reload has replaced
        self._judged: set[str] = set()
        self.has_copies = False
        self._logged = ""  # the effect that was logged last

    def plan(self) -> None:
        """Read the version and its table; imports and patches nothing."""
        package = self.package
        self.distribution, self.version = versions.installed(package.distributions, package.module)
        self.problem = ""
        try:
            self.seats = seats_in(package, self.version)
            self.problem = self._why or self._unsupported() or self._missing_module()
        except Exception as error:
            _logger.exception("table of seats failed: %s", self.distribution)
            self.problem = f"table of seats failed: {error!r}"

    def _unsupported(self) -> str:
        if not self.version or versions.supports(self.version, self.package.supported):
            return ""
        return "this version is not supported"

    def _missing_module(self) -> str:
        if not self.version:
            return ""
        for seat in self.seats:
            if seat.required and not versions.exists(seat.module):
                return f"seat `{seat.name}` is missing: no module `{seat.module}`"
        return ""

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules to watch, each once."""
        return tuple(dict.fromkeys([*(seat.module for seat in self.seats), self.package.module]))

    @property
    def is_in_use(self) -> bool:
        return any(sys.modules.get(name) is not None for name in self.modules)

    def watch(self) -> None:
        """Watch its modules that begin to run from now on; judge each when it has run."""
        imports.watch(self.modules, self._ran)

    def start(self, *, as_they_are: bool) -> None:
        """Patch the imported modules that were not judged yet; the others are reported later.

        Args:
            as_they_are: Whether to judge also a module that began to run before `watch` and still
                runs. Only after waiting for other threads' imports: then this very thread runs it,
                and cannot wait for itself.
        """
        modules = self._loaded()
        if as_they_are:
            modules |= self._half_imported()
        if modules:
            self._judge(modules)

    def mend(self) -> None:
        """Guard again where other code put a function back, or replaced it; never raises.

        If that cannot be guarded, the package has a problem like any other.
        """
        try:
            with lock:
                lost = self._lost() if self._switch.mode != PASS else []
                if lost:
                    _logger.error(_LOST, self.distribution, ", ".join(lost))
                    self._apply()
        except Exception:
            _logger.exception("seats not checked: %s", self.distribution)

    def _lost(self) -> list[str]:
        """Wrap what is no longer guarded; return the names of those seats."""
        found = ((key, handle) for key, handle in self._found.items() if handle is not None)
        lost = [(key, handle) for key, handle in found if not handle.is_whole]
        for (seat, place), handle in lost:
            self.problem = self.problem or problem(seat, place)
            try:
                handle.mend()
            except Exception as error:
                self.problem = self.problem or f"seat `{seat.name}` cannot be patched: {error!r}"
        self._switch.held = [handle.held for handle in self._handles]
        return [seat.name for (seat, _), _ in lost]

    def stop(self) -> list[Handle]:
        """Switch it off for good; return what is restored, except copies in other modules."""
        imports.unwatch(self._ran)
        return self._undo()

    def _ran(self, name: str, module: ModuleType, *, ended: bool) -> None:
        """Handle a module that just ran; never raises into the user's import.

        Args:
            name: Name it was found by.
            module: The module, which need not be in ``sys.modules``.
            ended: Whether all of it ran. If not, what it defined so far is wrapped, because other
                code may already hold it, and the module counts as not imported yet.
        """
        try:
            self.has_copies |= name in self._judged
            if self.has_copies or not self._judged:
                self._plan_again()
            if ended:
                self._judge({**self._loaded(), name: module})
            elif self.version or self._why:
                self._find(name, module)
                self._apply()
        except Exception as error:
            _logger.exception("import hook failed: %s", self.distribution)
            self._fail_closed(name, module, f"import hook failed: {error!r}")

    def _plan_again(self) -> None:
        """Read the version that is installed now; a problem of an earlier copy stays."""
        names = self.package.distributions
        now = versions.installed(names, self.package.module)
        if not self._judged or now != (self.distribution, self.version):
            problem = self.problem if self._judged else ""
            self.plan()
            self.problem = problem or self.problem
            imports.watch(self.modules, self._ran)

    def _fail_closed(self, name: str, module: ModuleType, problem: str) -> None:
        try:
            self.problem = self.problem or problem
            self._judged.add(name)
            self._find(name, module)
            self._apply_problem()
        except Exception:
            _logger.exception("refusal failed: %s", self.distribution)

    def _loaded(self) -> dict[str, ModuleType]:
        """Return the modules that are imported and were not judged yet."""
        unjudged = self._unjudged()
        return {name: module for name, module in unjudged.items() if not _is_importing(module)}

    def _half_imported(self) -> dict[str, ModuleType]:
        """Return the modules that still run, and whose end will not be reported."""
        return {
            name: module
            for name, module in self._unjudged().items()
            if _is_importing(module) and not imports.tells_of(module)
        }

    def _unjudged(self) -> dict[str, ModuleType]:
        modules = {name: sys.modules.get(name) for name in self.modules}
        return {
            name: module
            for name, module in modules.items()
            if module is not None and name not in self._judged
        }

    def _judge(self, modules: Mapping[str, ModuleType]) -> None:
        """Judge modules that ran, for the first time or again."""
        if not self.version and not self._why:
            if not any(
                find(seat, modules[seat.module]) for seat in self.seats if seat.module in modules
            ):
                return  # a user's own module that only has the same name
            self.problem = self.problem or "its version cannot be read"
        self._judged.update(modules)
        for name, module in modules.items():
            found = self._find(name, module)
            self.problem = self.problem or self._wrong(found)
        self._apply()

    def _apply(self) -> None:
        """Guard what was found, or apply what is wrong with it."""
        if not self.problem:
            self._switch.mode = GUARD
            self.problem = self._wrap()
        if self.problem:
            self._apply_problem()

    def _find(self, name: str, module: ModuleType) -> list[tuple[Seat, Place | None]]:
        """Find the seats of a module that has just run, and note where they are now."""
        found = [(seat, find(seat, module)) for seat in self.seats if seat.module == name]
        for seat, place in found:
            if place is None:
                continue
            handle = self._found.pop((seat, place), None)  # put back as the newest
            if handle is not None and not handle.in_place:
                self._replaced.append(handle)
                handle = None
            self._found[seat, place] = handle
        return found

    def _wrong(self, found: Iterable[tuple[Seat, Place | None]]) -> str:
        """Return why the seats of a module cannot be guarded; empty if they can."""
        for seat, place in found:
            if place is None and seat.required:
                return f"seat `{seat.name}` is missing"
            if place is not None and is_taken(place, self._switch):
                return f"seat `{seat.name}` is already patched by another otelhooks"
            if place is not None and (wrong := problem(seat, place)):
                return f"seat `{seat.name}`: {wrong}"
        return ""

    def _wrap(self) -> str:
        """Wrap what was found and is not wrapped; return the problem, if any."""
        problem = ""
        new: list[Handle] = []
        for (seat, place), handle in self._found.items():
            if handle is None:
                try:
                    self._found[seat, place] = wrapped = Handle(seat, place, self._switch)
                except Exception as error:
                    problem = problem or f"seat `{seat.name}` cannot be patched: {error!r}"
                else:
                    new.append(wrapped)
        wrap_copies(new)
        self._switch.held = [handle.held for handle in self._handles]
        return problem

    def _apply_problem(self) -> None:
        if self.strict:
            self._switch.mode = REFUSE
            failure = self._wrap()
            if failure:
                _logger.error("it cannot be made to refuse everywhere: %s", failure)
        else:
            restore_copies(self._undo(), everywhere=self.has_copies)
        effect = "it refuses to run" if self._handles else "it runs unguarded"
        if self.is_in_use and not self._may_refuse_later and effect != self._logged:
            self._logged = effect
            if self._why:  # a known part of a framework that is guarded elsewhere: no alarm
                _logger.warning("%s %s: %s; %s", self.distribution, self.version, self._why, effect)
            else:
                _logger.error("%s\n%s", self._error(), effect)

    @property
    def _may_refuse_later(self) -> bool:
        """Return whether nothing refuses yet, but a module with seats is still to be imported."""
        return (
            self.strict
            and not self._handles
            and any(name not in self._judged and versions.exists(name) for name in self.modules)
        )

    def set_strict(self, strict: bool) -> None:
        """Switch between refusing and leaving alone, if the package has a problem."""
        self.strict = strict
        if self.problem and not self.off:
            self._apply_problem()

    @property
    def _handles(self) -> list[Handle]:
        return [handle for handle in self._found.values() if handle is not None]

    def _undo(self) -> list[Handle]:
        """Switch every wrapper to passing through, then restore the names, last one first.

        Returns:
            What was undone, except its copies in other modules.
        """
        self._switch.mode, self._switch.held = PASS, []
        handles = [*self._replaced, *self._handles]
        self._replaced = []
        self._found = dict.fromkeys(self._found)
        for handle in reversed(handles):
            try:
                handle.undo()
            except Exception:
                _logger.exception("seat not put back, passing through: %s", handle.seat.name)
        return handles

    def _error(self) -> SeatError:
        supported = "none" if self._why else self.package.supported
        return SeatError(
            self.adapter.framework, self.distribution, self.version, supported, self.problem
        )

    def report(self, not_covered: Iterable[NotCovered]) -> Coverage:
        """Return this package's row of the coverage report."""
        return Coverage(
            framework=self.adapter.framework,
            distribution=self.distribution,
            version=self.version,
            supported="none" if self._why else self.package.supported,
            state=self._state(),
            seats=tuple(
                SeatCoverage(seat.name, self._seat_state(seat), seat.required, seat.entry)
                for seat in self.seats
            ),
            not_covered=tuple((item.what, item.why) for item in not_covered),
            error="" if self.off else self.problem,
        )

    def _state(self) -> str:
        if self.off:
            return "off"
        if not self.version and not self._judged:
            return "not installed"
        if not self.is_in_use:
            return "not imported"
        if self.problem:
            return "refused" if self._handles or self._may_refuse_later else "unpatched"
        waiting = any(seat.required and seat.module not in self._judged for seat in self.seats)
        return "partial" if waiting else "patched"

    def _seat_state(self, seat: Seat) -> str:
        handles = [handle for (one, _), handle in self._found.items() if one.name == seat.name]
        handle = handles[-1] if handles else None  # that of the newest copy
        if handle is None:
            if seat.module not in self._judged:
                return "unpatched" if self.off else "not imported"
            module = sys.modules.get(seat.module)
            return "unpatched" if module is not None and find(seat, module) else "missing"
        if not handle.in_place:
            return "displaced"
        return "refused" if self._switch.mode == REFUSE else "patched"


def stop(units: Sequence[Unit]) -> None:
    """Restore every copy of these packages for good, in this order; called under the lock."""
    handles = [handle for unit in units for handle in unit.stop()]
    # Once for all of them: it looks at every name of every module.
    restore_copies(handles, everywhere=any(unit.has_copies for unit in units))


def seats_in(package: Package, version: str) -> Table:
    """Return the seats that a version has; an unreadable one may have any, all of them refused."""
    table = package.seats(version) if callable(package.seats) else package.seats
    return tuple(seat for seat in table if _applies(seat, version))


def _applies(seat: Seat, version: str) -> bool:
    if versions.parse(version) is None:
        return True
    return (seat.since is None or versions.at_least(version, seat.since)) and not (
        seat.until is not None and versions.at_least(version, seat.until)
    )


def _is_importing(module: ModuleType) -> bool:
    """Return whether a module in ``sys.modules`` is still being executed."""
    return getattr(getattr(module, "__spec__", None), "_initializing", False)
