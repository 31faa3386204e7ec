"""Frameworks that are not imported yet, and their adapters, which are not loaded before them.

An adapter is installed (see `imports`) before any code of its framework's first module runs; its
units (see `packages`) take over from there. Only the first part of a module's name counts, so that
a framework whose import had already begun is noticed at its next module.

If two threads import at once, the second waits for the lock until the adapter is installed. Loading
an adapter imports nothing of its framework.

Fails closed: an adapter that cannot be loaded has no table of seats that could refuse. Under
``strict`` the framework then cannot be imported.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from otelhooks.patching import patches
from otelhooks.patching.imports import imports, lock, wait_for_imports
from otelhooks.setup.catalogue import adapter
from otelhooks.telemetry.quiet import fails_open

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_logger = logging.getLogger("otelhooks.instrumentation")


class Waiting:
    """Frameworks that are not imported yet, in the order in which to install their adapters.

    Attributes:
        on_arrival: Called each time a framework is about to be imported, once its adapter is
            installed.
    """

    def __init__(self) -> None:
        self._packages: Mapping[str, str] = {}  # package -> framework
        self._failed: set[str] = set()
        self._strict = False
        self._off: frozenset[str] = frozenset()
        self.on_arrival: Callable[[], object] | None = None

    def begin(
        self, packages: Mapping[str, Iterable[str]], *, strict: bool, off: frozenset[str]
    ) -> None:
        """Install the adapters of the imported frameworks, and watch for the rest.

        Args:
            packages: Framework -> the packages that it consists of.
            strict: As in `_patch.install`.
            off: As in `_patch.install`.

        Raises:
            Exception: An adapter cannot be loaded or installed.
        """
        with lock:
            self._strict, self._off = strict, off
            self._failed.clear()
            self._packages = {name: each for each, names in packages.items() for name in names}
            imports.expect(self._packages, self.arrive)
        wait_for_imports(name for names in packages.values() for name in names)
        for framework, names in packages.items():
            if any(sys.modules.get(name) is not None for name in names):
                self._install(framework, wait=True)

    def arrive(self, package: str) -> None:
        """Install the adapter of a framework that is about to be imported.

        Args:
            package: As given to `begin`.

        Raises:
            ImportError: The adapter cannot be installed, under ``strict``.
        """
        with lock:
            framework = self._packages.get(package)
            if framework is None:
                return
            try:
                self._install(framework, wait=False)
            except Exception as error:
                if framework not in self._failed:
                    self._failed.add(framework)
                    _logger.exception("adapter failed: %s", framework)
                if self._strict:
                    message = f"otelhooks cannot guard `{framework}`, its adapter failed: {error!r}"
                    raise ImportError(message) from error
        if self.on_arrival is not None:
            fails_open(self.on_arrival)()

    def arrive_all(self) -> None:
        """Install all adapters that still wait, for a full report; imports no framework."""
        with lock:
            for framework in dict.fromkeys(self._packages.values()):
                self._install(framework, wait=False)

    def set_strict(self, strict: bool) -> None:
        """Switch the refusal of packages that cannot be guarded, now and for later imports."""
        with lock:
            self._strict = strict
            patches.set_strict(strict)

    def end(self) -> None:
        """Put everything back; a later import patches nothing."""
        with lock:
            self._packages, self.on_arrival = {}, None
            imports.expect((), self.arrive)
            patches.uninstall()

    def _install(self, framework: str, *, wait: bool) -> None:
        patches.install(adapter(framework), strict=self._strict, off=self._off, wait=wait)
        with lock:
            waiting = self._packages.items()
            self._packages = {name: each for name, each in waiting if each != framework}
            imports.expect(self._packages, self.arrive)


waiting: Waiting = Waiting()
"""The waiting frameworks of this process."""
