"""One package of a framework: planned, judged, patched, refused or put back as a whole.

The rule it follows is in the text of `_patch`.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING

import wrapt

from otelhooks.errors import SeatError
from otelhooks.instrumentation import _versions
from otelhooks.instrumentation._adapter import (
    Adapter,
    Coverage,
    NotCovered,
    Package,
    SeatCoverage,
    Table,
)
from otelhooks.instrumentation._seat import (
    GUARD,
    PASS,
    REFUSE,
    Handle,
    Place,
    Seat,
    Switch,
    find,
    is_taken,
    restore_copies,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

_logger = logging.getLogger("otelhooks.instrumentation")

lock = threading.RLock()
live_generations: set[int] = set()


class Unit:
    """One package of an installed adapter. After `plan`, methods are called under `lock`."""

    def __init__(self, adapter: Adapter, package: Package, why: str, *, strict: bool, off: bool):
        self.adapter = adapter
        self.package = package
        self.strict = strict
        self.off = off
        self.problem = ""
        self._why = why  # set for what no version of the adapter covers
        self.distribution, self.version = package.distributions[0], ""
        self.seats: Table = ()
        self._switch = Switch(self._error)
        self._handles: dict[Seat, Handle] = {}
        self._judged: set[str] = set()
        self._armed: set[str] = set()
        self.generation = 0
        self._is_arming = False
        self._logged = ""  # the effect that was logged last

    def plan(self) -> None:
        """Read the version and its table; nothing is imported and nothing patched."""
        package = self.package
        self.distribution, self.version = _versions.installed(package.distributions, package.module)
        self.problem = ""
        try:
            table = package.seats(self.version) if callable(package.seats) else package.seats
            self.seats = tuple(seat for seat in table if _applies(seat, self.version))
            self.problem = self._why or self._unsupported() or self._missing_module()
        except Exception as error:
            _logger.exception("table of seats failed: %s", self.distribution)
            self.problem = f"table of seats failed: {error!r}"

    def _unsupported(self) -> str:
        if not self.version or _versions.supports(self.version, self.package.supported):
            return ""
        return "this version is not supported"

    def _missing_module(self) -> str:
        if not self.version:
            return ""
        for seat in self.seats:
            if seat.required and not _versions.exists(seat.module):
                return f"seat `{seat.name}` is missing: no module `{seat.module}`"
        return ""

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules to watch, each once."""
        return tuple(dict.fromkeys([*(seat.module for seat in self.seats), self.package.module]))

    @property
    def is_in_use(self) -> bool:
        return any(sys.modules.get(name) is not None for name in self.modules)

    def start(self) -> None:
        """Patch what is imported, and wait for the rest.

        A module that is still being imported now is imported by this very thread, which cannot
        wait for itself: it is judged as it is.
        """
        self._arm()
        self.advance(frozenset(self.modules))

    def _arm(self) -> None:
        self._is_arming = True  # hooks of modules that are imported already fire at once
        for name in self.modules:
            if name not in self._armed:
                self._armed.add(name)
                wrapt.register_post_import_hook(self._on_import, name)
        self._is_arming = False

    def _on_import(self, module: ModuleType) -> None:
        """Go on with a module that was just imported; never raises into the user's import."""
        try:
            with lock:
                if self.generation not in live_generations or self._is_arming:
                    return
                if not self._judged:
                    self.plan()
                    self._arm()
                self.advance(frozenset((module.__name__,)))
        except Exception as error:
            _logger.exception("import hook failed: %s", self.distribution)
            self._fail_closed(f"import hook failed: {error!r}")

    def _fail_closed(self, problem: str) -> None:
        try:
            with lock:
                self.problem = self.problem or problem
                self._apply_problem()
        except Exception:
            _logger.exception("refusal failed: %s", self.distribution)

    def advance(self, fresh: frozenset[str]) -> None:
        """Judge every module that is imported and was not judged yet.

        Args:
            fresh: Modules that count as imported although the import system is not done with
                them, such as the one whose hook is running.
        """
        names = [name for name in self.modules if name not in self._judged]
        loaded = {name: sys.modules[name] for name in names if _is_loaded(name, fresh)}
        if not self.version and not self._why:
            if not any(find(s, loaded[s.module]) for s in self.seats if s.module in loaded):
                return  # a module of the user's own that only shares the name
            self.problem = self.problem or "its version cannot be read"
        self._judged.update(loaded)
        if not self.problem:
            self.problem = self._patch(loaded)
        if self.problem:
            self._apply_problem()

    def _patch(self, modules: Mapping[str, ModuleType]) -> str:
        """Patch all seats of these modules or none; returns what is wrong."""
        places: dict[Seat, Place] = {}
        for seat in self.seats:
            if seat.module not in modules or seat in self._handles:
                continue
            place = find(seat, modules[seat.module])
            if place is not None:
                if is_taken(place, self._switch):
                    return f"seat `{seat.name}` is already patched by another otelhooks"
                places[seat] = place
            elif seat.required:
                return f"seat `{seat.name}` is missing"
        self._switch.mode = GUARD
        for seat, place in places.items():
            try:
                self._handles[seat] = Handle(seat, place, self._switch)
            except Exception as error:
                return f"seat `{seat.name}` cannot be patched: {error!r}"
        return ""

    def _apply_problem(self) -> None:
        if self.strict:
            self._switch.mode = REFUSE
            self._wrap_found()
        else:
            self.clear()
        effect = "it refuses to run" if self._handles else "it runs unguarded"
        if self.is_in_use and not self._may_refuse_later and effect != self._logged:
            self._logged = effect
            if self._why:  # a known part of a framework that is guarded otherwise: no alarm
                _logger.warning("%s %s: %s; %s", self.distribution, self.version, self._why, effect)
            else:
                _logger.error("%s\n%s", self._error(), effect)

    @property
    def _may_refuse_later(self) -> bool:
        """Whether nothing refuses yet, but a module with seats is still to be imported."""
        return (
            self.strict
            and not self._handles
            and any(name not in self._judged and _versions.exists(name) for name in self.modules)
        )

    def _wrap_found(self) -> None:
        for seat in self.seats:
            module = sys.modules.get(seat.module)
            if seat in self._handles or seat.module not in self._judged or module is None:
                continue
            place = find(seat, module)
            if place is None:
                continue
            try:
                self._handles[seat] = Handle(seat, place, self._switch)
            except Exception:
                _logger.exception("seat cannot be made to refuse: %s", seat.name)

    def set_strict(self, strict: bool) -> None:
        """Switch between refusing and leaving alone, if the package has a problem."""
        self.strict = strict
        if self.problem and not self.off:
            self._apply_problem()

    def clear(self) -> None:
        """Turn every wrapper to passing through, then put the names back, last one first."""
        self._switch.mode = PASS
        handles = tuple(self._handles.values())
        while self._handles:
            seat, handle = self._handles.popitem()
            try:
                handle.undo()
            except Exception:
                _logger.exception("seat not put back, passing through: %s", seat.name)
        restore_copies(handles)

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
        handle = self._handles.get(seat)
        if handle is None:
            if seat.module not in self._judged:
                return "unpatched" if self.off else "not imported"
            module = sys.modules.get(seat.module)
            return "unpatched" if module is not None and find(seat, module) else "missing"
        if not handle.in_place:
            return "displaced"
        return "refused" if self._switch.mode == REFUSE else "patched"


def _applies(seat: Seat, version: str) -> bool:
    return (seat.since is None or _versions.at_least(version, seat.since)) and not (
        seat.until is not None and _versions.at_least(version, seat.until)
    )


def _is_loaded(name: str, fresh: frozenset[str]) -> bool:
    module = sys.modules.get(name)
    return module is not None and (name in fresh or not is_importing(module))


def is_importing(module: ModuleType | None) -> bool:
    """Tell whether a module in ``sys.modules`` is still being executed."""
    return getattr(getattr(module, "__spec__", None), "_initializing", False)
