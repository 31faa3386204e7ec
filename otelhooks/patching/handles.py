"""One wrapped seat: put on, looked after, restored.

Other code wraps and restores the same functions. What leads to our wrapper is left alone; what no
longer does can be wrapped again, in subclasses too, and every name gets back what it held.
"""

from __future__ import annotations

import functools
import gc
import inspect
import logging
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import wrapt

from otelhooks.patching.functions import innermost, is_function, leads_to
from otelhooks.patching.seats import (
    GUARD,
    PASS,
    Arguments,
    Held,
    Keywords,
    Place,
    Seat,
    SeatWrapper,
    Switch,
    Undo,
    Wrapper,
    current,
    is_live,
    names_in,
)
from otelhooks.patching.subclasses import Subclasses, subclasses

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otelhooks.errors import SeatError

__all__ = ["Handle", "restore_copies", "wrap_copies"]

_logger = logging.getLogger("otelhooks.instrumentation")


class Handle:
    """One wrapped seat: knows whether it is still in place, and restores the name."""

    def __init__(self, seat: Seat, place: Place, switch: Switch) -> None:
        """Wrap the seat.

        Raises:
            Exception: What the class or module raises when its attribute is set; nothing is left
                behind then.
        """
        self.seat = seat
        self._place = place
        self._switch = switch
        self._undo: Undo | None = None
        self._wrappers: list[Any] = []  # newest first: some that were replaced may come back
        self._shadows: list[tuple[type, Any]] = []
        self._original = innermost(current(place))
        self._overrides: _Overrides | None = None
        make = functools.partial(_guarded, seat, switch)
        self._make: Callable[[Any], Wrapper] = make
        self._put()
        if seat.overrides and seat.install is None and inspect.isclass(place.owner):
            try:
                self._overrides = _Overrides(place.owner, place.attribute, make, switch)
            except BaseException:
                self.undo()
                raise

    def _put(self) -> None:
        owner, name = self._place
        if self.seat.install is not None:
            self._undo = self.seat.install(owner, name, self._make(None))
            self._wrappers = [names_in(owner).get(name)]
            return
        _drop_copied_wrapper(self._place, self._switch)
        self._wrappers.insert(0, self._wrapped(owner))
        self._wrap_shadows()

    def _wrapped(self, owner: Any) -> Any:
        name = self._place.attribute
        given = (self._make(inspect.getattr_static(owner, name)), self._switch)
        return wrapt.wrap_object(owner, name, SeatWrapper, given)

    def _shadowed(self) -> list[type]:
        """Return the subclasses that hold the function itself: our wrapper is not below it there.

        Other instrumentations leave it so, where they wrap it or put it back in a subclass.
        """
        owner, name = self._place
        if self._undo is not None or self.seat.overrides or not inspect.isclass(owner):
            return []
        own = [(cls, vars(cls)[name]) for cls in subclasses(owner) if name in vars(cls)]
        return [
            cls
            for cls, value in own
            if leads_to(value, lambda one: one is self._original)
            if not leads_to(value, self._is_ours)
        ]

    def _wrap_shadows(self) -> None:
        self._shadows += [(cls, self._wrapped(cls)) for cls in self._shadowed()]

    @property
    def in_place(self) -> bool:
        """Whether calls still reach a wrapper; False once other code replaced the name."""
        return leads_to(current(self._place), self._is_ours)

    def _is_ours(self, value: Any) -> bool:
        ours = (*self._wrappers, *(wrapper for _, wrapper in self._shadows))
        return any(value is wrapper for wrapper in ours)

    @property
    def held(self) -> Held:
        """The namespace that has its name, the name, and the present value."""
        names = names_in(self._place.owner)
        return names, self._place.attribute, names.get(self._place.attribute)

    @property
    def is_whole(self) -> bool:
        """Whether all is wrapped that should be: the name, in subclasses too, and overrides."""
        is_lost = self._overrides is not None and self._overrides.lost()
        return self.in_place and not is_lost and not self._shadowed()

    def mend(self) -> None:
        """Wrap what other code has put under the name, or in place of an override."""
        if not self.in_place:
            if self._undo is not None:
                self._undo()
            self._put()
        self._wrap_shadows()
        if self._overrides is not None:
            self._overrides.mend()

    @property
    def attribute(self) -> str:
        """The name that is wrapped, in its module or class."""
        return self._place.attribute

    @property
    def copied(self) -> list[tuple[Any, Any]]:
        """Our wrappers of a module's function, and what each wraps; none for any other kind."""
        if self._undo is not None or inspect.isclass(self._place.owner):
            return []
        return [(wrapper, wrapper.__wrapped__) for wrapper in self._wrappers]

    def undo(self) -> None:
        """Restore the name to the identical object.

        A foreign wrapper on top stays, and ours below it passes through: the switch is off.
        """
        if self._overrides is not None:
            self._overrides.undo()
        if self._undo is not None:
            self._undo()
            return
        owner, name = self._place
        for cls, wrapper in (*self._shadows, *((owner, each) for each in self._wrappers)):
            _unwrap(cls, name, wrapper)


def _drop_copied_wrapper(place: Place, switch: Switch) -> None:
    """Restore the framework's function where ``from x import y`` copied our wrapper of it.

    This happens if the copying module is imported after the defining one; the name then gets a
    wrapper of its own, and undoing that leaves the function itself.
    """
    found: Any = names_in(place.owner).get(place.attribute)
    if is_live(found) and found._self_switch is switch:
        setattr(place.owner, place.attribute, found.__wrapped__)


def wrap_copies(handles: Iterable[Handle]) -> None:
    """Put wrappers where modules hold the functions themselves; `restore_copies` undoes it.

    Args:
        handles: Handles; those whose seats do not ask for it are skipped.
    """
    wrappers: dict[str, list[tuple[Any, Any]]] = {}
    for handle in handles:
        if handle.seat.copies:
            wrappers.setdefault(handle.attribute, []).extend(handle.copied)
    for module in list(sys.modules.values()) if wrappers else ():
        names = names_in(module)
        for name in wrappers.keys() & names.keys():
            for wrapper, original in wrappers[name]:
                if names[name] is original:
                    names[name] = wrapper


def restore_copies(handles: Iterable[Handle], *, everywhere: bool) -> None:
    """Restore functions where modules that were imported after us copied our wrappers of them.

    Args:
        handles: Handles whose own names are restored.
        everywhere: Whether also in modules that are no longer in ``sys.modules``; takes as long as
            a garbage collection.
    """
    pairs = [pair for handle in handles for pair in handle.copied]
    originals = {id(wrapper): (wrapper, original) for wrapper, original in pairs}
    modules = [names_in(module) for module in list(sys.modules.values())] if originals else []
    if everywhere:
        # A module that left `sys.modules` can still be in use, and only the collector knows its
        # namespace.
        holders = gc.get_referrers(*[wrapper for wrapper, _ in pairs])
        modules += [found for found in holders if _is_namespace(found)]
    for names in modules:
        if originals.keys().isdisjoint(map(id, list(names.values()))):
            continue  # nearly all: their names are not gone through one by one
        for name, value in list(names.items()):
            wrapper, original = originals.get(id(value), (None, None))
            if wrapper is not None and value is wrapper:
                names[name] = original


def _is_namespace(found: Any) -> bool:
    """Return whether an object is the namespace of a module, which may itself be gone."""
    return type(found) is dict and "__builtins__" in found and "__spec__" in found


def _unwrap(owner: Any, attribute: str, wrapper: Any) -> None:
    try:
        wrapt.unwrap_object(owner, attribute, wrapper, missing_ok=True)
    except (wrapt.WrapperNotOutermostError, wrapt.WrapperChainTooDeepError) as error:
        _logger.info("wrapper left in place, passing through: %s", error)


def _guarded(seat: Seat, switch: Switch, function: Any) -> Wrapper:
    if seat.guard is not None:
        return seat.guard.bind(function, switch)
    wrapper = seat.wrapper
    refuse = seat.refuse or _raise

    def call(wrapped: Callable[..., Any], instance: Any, args: Arguments, kwargs: Keywords) -> Any:
        mode = switch.mode
        if mode == GUARD:
            return wrapper(wrapped, instance, args, kwargs)
        if mode == PASS:
            return wrapped(*args, **kwargs)
        return refuse(switch.error(), wrapped, instance, args, kwargs)

    return call


def _raise(
    error: SeatError,
    wrapped: Callable[..., Any],
    instance: Any,
    args: Arguments,
    kwargs: Keywords,
) -> Any:
    raise error


class _Overrides:
    """Wrappers on the subclasses of a class that override one of its methods.

    Classes are held weakly: a program that creates classes as it runs must not leak them.
    """

    def __init__(
        self, owner: type, attribute: str, make: Callable[[Any], Wrapper], switch: Switch
    ) -> None:
        self._attribute = attribute
        self._make = make
        self._switch = switch
        self._owner = owner
        self._classes: weakref.WeakSet[type] = weakref.WeakSet()
        self._subclasses = Subclasses(owner, self._wrap)

    def _wrap(self, cls: type) -> None:
        """Wrap one class; runs inside the user's class statement, so it never raises."""
        name = self._attribute
        where = next((base for base in cls.__mro__ if name in vars(base)), self._owner)
        # A class that inherits the method from a mixin gets a wrapper of its own: the mixin may
        # serve classes that have nothing to do with the framework.
        is_other = where is not cls and issubclass(where, self._owner)
        if self._switch.mode == PASS or is_other or cls in self._classes:
            return
        try:
            value = vars(where)[name]
            if not is_function(value) and not isinstance(value, functools.partialmethod):
                _logger.error(
                    "override not guarded: %s.%s is not a function", cls.__qualname__, name
                )
                return
            arguments = (self._make(value), self._switch)
            wrapt.wrap_object(cls, name, SeatWrapper, arguments)
            self._classes.add(cls)
        except Exception:
            _logger.exception("override not guarded: %s.%s", cls.__qualname__, name)

    def lost(self) -> list[type]:
        """Return the classes in which other code has replaced the wrapper."""
        name, is_mine = self._attribute, self._is_mine
        return [cls for cls in self._classes if not leads_to(vars(cls).get(name), is_mine)]

    def mend(self) -> None:
        """Wrap the overrides of those classes again."""
        for cls in self.lost():
            self._classes.discard(cls)
            self._wrap(cls)

    def undo(self) -> None:
        self._subclasses.undo()
        for cls in list(self._classes):
            value = vars(cls).get(self._attribute)
            wrapper = wrapt.find_wrapper(value, predicate=self._is_mine)
            if wrapper is not None:
                _unwrap(cls, self._attribute, wrapper)
            if self._attribute in vars(cls) and _is_inherited(cls, self._attribute):
                delattr(cls, self._attribute)

    def _is_mine(self, entry: Any) -> bool:
        # isinstance() would ask the wrapped object
        return issubclass(type(entry), SeatWrapper) and entry._self_switch is self._switch


def _is_inherited(cls: type, attribute: str) -> bool:
    """Return whether a class's own attribute is just what it would inherit without it."""
    inherited = (vars(base)[attribute] for base in cls.__mro__[1:] if attribute in vars(base))
    return next(inherited, None) is vars(cls)[attribute]
