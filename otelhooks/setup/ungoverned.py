"""What runs beside the rules: agent frameworks and model clients that no adapter guards.

As soon as anything can deny, each of them is logged once a process, on the logger ``otelhooks``:

- a framework when it is imported, even before `otelhooks.instrument`;
- a model client whose request functions are known, at the first request for a model's answer that
  is made outside a guarded model call. What a guarded framework sends, or a function under
  ``@otelhooks.model_call``, is inside one, no matter which module imported or created the client;
- any other model client when it is imported, unless a guarded framework brings it along.

If the application sets ``strict=True``, an import is refused with an `ImportError`, and such a
request with a `SeatError`. The ``strict`` that is on by default only logs: it is about frameworks
that otelhooks claims to guard, and a first rule must not break a program.

A package that ``frameworks=`` turns off is known to the application, and is not logged.
"""

from __future__ import annotations

import importlib.metadata
import logging
import re
import sys
from typing import TYPE_CHECKING, Any

from otelhooks.errors import SeatError
from otelhooks.patching import versions
from otelhooks.patching.handles import Handle
from otelhooks.patching.imports import imports, lock
from otelhooks.patching.seats import GUARD, PASS, Seat, Switch, find
from otelhooks.pipeline import runtime as runtimes
from otelhooks.pipeline.frames import Op, current_frame
from otelhooks.records.failures import outline
from otelhooks.setup.known import AMBIGUOUS, KNOWN, Known
from otelhooks.telemetry.quiet import report

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import ModuleType

    from otelhooks.setup.known import Requests

__all__ = ["Ungoverned", "comes_along", "installed", "ungoverned"]

_log = logging.getLogger("otelhooks")

_NAME = re.compile(r"[A-Za-z0-9._-]+")


class Ungoverned:
    """What is known of unguarded packages in this process.

    Attributes:
        is_scoped: Whether the rules of a block can deny.
    """

    def __init__(self) -> None:
        self.is_scoped: bool = False
        self._watched: dict[str, Known] = {}  # by module
        self._expected: frozenset[str] = frozenset()  # modules that were not imported yet
        self._requests: dict[str, Known] = {}  # by the module that sends them
        self._refuses = False
        self._told: set[str] = set()
        self._switch = Switch(_no_error)
        self._handles: list[Handle] = []

    # -- begin and end ------------------------------------------------------------------------

    def begin(self, off: Collection[str], *, refuses: bool) -> None:
        """Check what is imported, and watch for the rest.

        Args:
            off: Names of the packages that the application knows about.
            refuses: Whether the application said ``strict=True``.

        Raises:
            SeatError: Such a framework is imported already, under ``strict=True``.
        """
        wanted = [known for known in KNOWN if known.name not in off]
        with lock:
            self._refuses = refuses
            self._watched = {m: k for k in wanted if k.requests is None for m in k.modules}
            self._requests = {k.requests.module: k for k in wanted if k.requests is not None}
            self._switch.mode = GUARD
            self._expected = frozenset(self._watched)
            imports.expect(self._expected, self.arrive)
            imports.watch(self._requests, self._ran)
            for name in self._requests:
                module = sys.modules.get(name)
                if module is not None:
                    self._wrap(name, module)
        for known in self.imported():
            if refuses and self._can_deny():
                raise self._error(known, "it is imported, and no adapter guards it")
        self.look()

    def end(self) -> None:
        """Put everything back; what was logged is not logged again."""
        with lock:
            self._switch.mode = PASS
            self.is_scoped = False
            self._watched, self._requests, self._expected = {}, {}, frozenset()
            imports.expect((), self.arrive)
            imports.unwatch(self._ran)
            handles, self._handles = self._handles, []
            for handle in reversed(handles):
                handle.undo()

    def _can_deny(self) -> bool:
        runtime = runtimes.active()
        return runtime is not None and (runtime.loaded.can_deny or self.is_scoped)

    # -- frameworks, by their import ----------------------------------------------------------

    def imported(self) -> list[Known]:
        """Return the imported ones that are reported at import."""
        found = [k for m, k in self._watched.items() if sys.modules.get(m) is not None]
        return [known for known in dict.fromkeys(found) if _is_meant(known)]

    def look(self) -> None:
        """Report the imported ones, if anything can deny by now."""
        if self._can_deny():
            for known in self.imported():
                self._tell(known, _IMPORTED)

    def arrive(self, module: str) -> None:
        """Report one that is about to be imported, or refuse it.

        Args:
            module: As `begin` expects it.

        Raises:
            ImportError: The application said ``strict=True``.
        """
        known = self._watched.get(module)
        if known is not None and self._can_deny() and _is_meant(known):
            if self._refuses:
                raise ImportError(str(self._error(known, "no adapter guards it")), name=module)
            self._tell(known, _IMPORTED)
        with lock:
            self._expected -= {module}
            imports.expect(self._expected, self.arrive)

    # -- clients, by their requests -----------------------------------------------------------

    def _ran(self, name: str, module: ModuleType, *, ended: bool) -> None:
        try:
            self._wrap(name, module)
        except Exception as error:
            report(f"requests of `{name}`", error)

    def _wrap(self, name: str, module: ModuleType) -> None:
        known = self._requests[name]
        assert known.requests is not None
        for method in known.requests.methods:
            seat = Seat(name, method, self._watch(known, known.requests))
            place = find(seat, module)
            if place is not None:
                self._handles.append(Handle(seat, place, self._switch))
            else:
                self._watched[known.modules[0]] = known  # only its import can be seen
        self.look()

    def _watch(self, known: Known, requests: Requests) -> Callable[..., Any]:
        def request(wrapped: Callable[..., Any], _: Any, args: Any, kwargs: Any) -> Any:
            if self._is_outside() and _asks(requests, args, kwargs):
                if self._refuses:
                    raise self._error(known, "a model is called outside any guarded agent")
                self._tell(known, _CALLED)
            return wrapped(*args, **kwargs)

        return request

    def _is_outside(self) -> bool:
        frame = current_frame()
        is_model_call = type(frame) is Op and frame.call is None
        return not is_model_call and self._can_deny()

    # -- telling ------------------------------------------------------------------------------

    @property
    def told(self) -> list[tuple[str, str]]:
        """Name and version of those that were reported, here or in the process that forked it."""
        found = [known for known in KNOWN if known.name in self._told]
        return [
            (each.name, versions.installed(each.distributions, each.modules[0])[1] or "unknown")
            for each in found
        ]

    def _tell(self, known: Known, what: str) -> None:
        if known.name in self._told:
            return
        with lock:
            is_told = known.name in self._told
            self._told.add(known.name)
        if not is_told:
            _log.warning(what, known.modules[0], known.name)

    def _error(self, known: Known, problem: str) -> SeatError:
        distribution, version = versions.installed(known.distributions, known.modules[0])
        return SeatError(known.name, distribution, version, "none", problem)


_IMPORTED = (
    "`%s` is imported, and nothing guards it: no rule is asked about its tools\n"
    "hint: decorate its tools with @otelhooks.tool (see help(otelhooks.tool));"
    ' frameworks={"%s": "off"} says that you know'
)
_CALLED = (
    "`%s` calls a model outside any guarded agent: no rule is asked about this call,"
    " and tools without @otelhooks.tool are not asked about\n"
    "hint: decorate the loop with @otelhooks.model_call and @otelhooks.tool"
    ' (see help(otelhooks.tool)); frameworks={"%s": "off"} says that you know'
)


def _asks(requests: Requests, args: Any, kwargs: Any) -> bool:
    """Return whether a request asks for a model's answer; an unreadable one may."""
    try:
        return requests.asks(args, kwargs)
    except Exception as error:
        _log.debug("a request could not be read: %s", outline(error))
        return True


def _no_error() -> SeatError:
    raise AssertionError("these seats only watch")


def _is_meant(known: Known) -> bool:
    """Return whether an imported module is really the package that is known by its name."""
    if known.name in AMBIGUOUS and not versions.installed(known.distributions, "")[1]:
        return False
    return not (known.is_client and comes_along(known))


# -- what is installed ------------------------------------------------------------------------


def installed(off: Collection[str] = ()) -> list[tuple[Known, str, str]]:
    """Return the installed ones, with distribution and version; nothing is imported.

    Model clients that an agent framework depends on, guarded or not, do not count.

    Args:
        off: Names of the packages that the application knows about.
    """
    found: list[tuple[Known, str, str]] = []
    for known in KNOWN:
        if known.name in off:
            continue
        distribution, version = versions.installed(known.distributions, known.modules[0])
        if version and not (known.is_client and comes_along(known)):
            found.append((known, distribution, version))
    return found


def comes_along(client: Known) -> bool:
    """Return whether an installed agent framework, or a part of langchain, can use a client."""
    names = {_normal(name) for name in client.distributions}
    return any(not names.isdisjoint(_requirements(each)) for each in _users())


def _users() -> list[importlib.metadata.Distribution]:
    from otelhooks.setup.catalogue import distributions

    agents = {name for known in KNOWN if not known.is_client for name in known.distributions}
    names = {_normal(name) for name in (*distributions(), *agents)}
    return [
        each
        for each in importlib.metadata.distributions()
        if (name := _normal(each.metadata["Name"] or "")) in names or name.startswith("langchain-")
    ]


def _requirements(distribution: importlib.metadata.Distribution) -> set[str]:
    """Return what a distribution requires, including its extras."""
    matches = (_NAME.match(text) for text in distribution.requires or ())
    return {_normal(match[0]) for match in matches if match is not None}


def _normal(name: str) -> str:
    """Return a distribution's normalized name. Source: PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


ungoverned: Ungoverned = Ungoverned()
"""The unguarded packages of this process."""
