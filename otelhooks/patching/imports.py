"""Modules as they are imported, imported again, and reloaded.

One finder in ``sys.meta_path`` gives watched modules a loader that reports them: before any of
their code runs, and each time that it ran. A module that was removed from ``sys.modules`` and
imported again is another object under the same name; a reloaded one is the same object with other
functions and classes. Both are reported. What bypasses the import system is not: a file that is run
under another name, or by a loader of its own.

The finder asks the other finders with the search path that it was given, so that no parent is
imported: a thread that imports a package, while another imports one of its modules, would get a
deadlock error. The finder takes no lock, because it runs under that of the import system; what it
reads is replaced as a whole and never changed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from otelhooks.process.forks import held_over_forks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["imports", "lock", "wait_for_imports"]

lock = held_over_forks()
"""Held while patching, and while changing what is watched; never while a module runs."""

# `importlib` has no public function for this; the import statement itself calls it, by this name.
_pass_lock_of: Callable[[str], None] = vars(importlib)["_bootstrap"]._lock_unlock_module

Arrive = Callable[[str], None]
Ran = Callable[..., None]


class _Watched:
    """The loader of a watched module: reports it, and leaves the work to the real loader."""

    def __init__(self, watch: Imports, loader: Loader, name: str) -> None:
        self._watch = watch
        self._loader = loader
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Report that a module arrives, and create it."""
        self._watch.arrive(self._name)
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run a module, which gets its own loader back, and report that it ran."""
        self._watch.arrive(self._name)  # the first report, if the module was created by other means
        spec = getattr(module, "__spec__", None)
        if getattr(spec, "loader", None) is self:
            cast("ModuleSpec", spec).loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        ended = False
        self._watch.runs(module)
        try:
            self._loader.exec_module(module)
            ended = True
        finally:
            self._watch.ran(self._name, module, ended=ended)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class Imports:
    """What is watched in this process."""

    def __init__(self) -> None:
        self._arrivals: Mapping[str, Arrive] = {}  # by package
        self._namespaces: frozenset[str] = frozenset()  # namespaces of expected packages
        self._watchers: Mapping[str, tuple[Ran, ...]] = {}  # by module
        self._running: set[int] = set()  # ids of modules whose end will be reported

    def expect(self, packages: Iterable[str], arrive: Arrive) -> None:
        """Report modules of some packages before their code runs, replacing the earlier packages.

        Args:
            packages: Top-level packages, or those of a namespace, such as ``google.antigravity``.
            arrive: Owner of the packages; those of other functions stay. Called with such a
                package, maybe several times and in several threads, before each module of it; what
                it raises is raised by the user's import.
        """
        with lock:
            others = {name: each for name, each in self._arrivals.items() if each != arrive}
            self._arrivals = {**dict.fromkeys(packages, arrive), **others}
            self._namespaces = frozenset(n.partition(".")[0] for n in self._arrivals if "." in n)
            self._start()

    def watch(self, names: Iterable[str], ran: Ran) -> None:
        """Report modules each time that their code ran.

        Args:
            names: Modules.
            ran: Called with ``(name, module, ended=...)`` under `lock`, within the user's import;
                ``ended`` is False where the module's code raised. It must not raise.
        """
        with lock:
            watchers = dict(self._watchers)
            for name in names:
                known = watchers.get(name, ())
                watchers[name] = known if ran in known else (*known, ran)
            self._watchers = watchers
            self._start()

    def unwatch(self, ran: Ran) -> None:
        """Stop reporting to a function."""
        with lock:
            left = {
                name: tuple(each for each in known if each != ran)
                for name, known in self._watchers.items()
            }
            self._watchers = {name: known for name, known in left.items() if known}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that is watched, or whose package is expected."""
        # In this order: `arrive` starts to watch a package before it stops expecting it.
        is_expected = self._package(name) in self._arrivals
        if not is_expected and name not in self._watchers:
            return None
        spec = self._find_elsewhere(name, path, target)
        # A namespace has no code. A finder that asks all others, such as wrapt's, has already asked
        # us.
        if spec is not None and spec.loader is not None and not isinstance(spec.loader, _Watched):
            spec.loader = cast("Loader", _Watched(self, spec.loader, name))
        return spec

    def arrive(self, name: str) -> None:
        """Report that a module is about to run."""
        package = self._package(name)
        arrive = self._arrivals.get(package)
        if arrive is not None:
            arrive(package)

    def runs(self, module: ModuleType) -> None:
        """Note that a module runs from now on."""
        self._running.add(id(module))

    def ran(self, name: str, module: ModuleType, *, ended: bool) -> None:
        """Report that a module ran."""
        with lock:
            self._running.discard(id(module))
            for ran in self._watchers.get(name, ()):
                ran(name, module, ended=ended)

    def tells_of(self, module: ModuleType) -> bool:
        """Return whether a module is running whose end will be reported to its watchers."""
        return id(module) in self._running

    def _package(self, name: str) -> str:
        """Return the package of a module; in a namespace, the one below it."""
        first, _, rest = name.partition(".")
        return f"{first}.{rest.partition('.')[0]}" if first in self._namespaces else first

    def _find_elsewhere(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in tuple(sys.meta_path):
            find_spec = getattr(finder, "find_spec", None)
            if finder is not self and find_spec is not None:
                spec: ModuleSpec | None = find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def _start(self) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)  # for good: the list may be in use by other threads


imports = Imports()
"""The watched modules of this process."""


def wait_for_imports(names: Iterable[str]) -> None:
    """Wait for the imports that other threads have begun; must not be called under `lock`.

    An import that looked for its module before the module was watched is not reported, and before
    the module runs ``sys.modules`` does not have it. Only the lock that the import system holds
    meanwhile shows it. In the thread that imports a module this returns at once, and also where two
    threads would wait for each other.

    Args:
        names: Modules.
    """
    for name in names:
        _pass_lock_of(name)
