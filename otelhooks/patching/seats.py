"""One seat: its record, how it is found, wrapped and restored.

A seat is one function of a framework that an adapter wraps. Adapters write tables of them::

    Seat(module, target, wrapper, required=True, since=None, until=None,
         entry=False, refuse=None, install=None, overrides=False, copies=False)

    Seat("agents.run", "AgentRunner.run", run_agent, entry=True)
    Seat("agents.run_internal.tool_execution", "format_error", recover, required=False)
    Seat("agents.tool", "FunctionTool.on_invoke_tool", tool_call, install=install_invoker)

- ``wrapper(wrapped, instance, args, kwargs)`` is wrapt's signature; it runs only while the package
  is guarded.
- ``refuse(error, wrapped, instance, args, kwargs)`` answers a call of a refused package; without
  it the call raises ``error`` (a new `errors.SeatError`). Tool seats return the framework's own
  form of a tool error here; entry seats leave it out and raise. An async seat may raise at once.
- ``install(owner, name, call) -> undo`` is for class attributes that need a data descriptor. It
  puts the descriptor on ``owner`` (the class), makes it invoke ``call(wrapped, instance, args,
  kwargs)`` for each call, and returns a function that removes exactly that. ``call`` reads the
  switch, so the descriptor need not know whether otelhooks is on, off or refusing.
- ``overrides=True`` also wraps every subclass that overrides the method, existing or made later.
  An override that calls ``super()`` then passes the seat twice (see `permits`).

- ``guard`` creates the wrapper for the function that is found, and may reject the function.
  It reads the switch itself, so that a guarded call passes one frame less.
- ``copies=True``, for a function of a module, also puts the wrapper where already imported modules
  hold the function under its own name (``from x import y``).

Every wrapper reads its package's `Switch` first: one attribute switches all seats of a package from
guarding to refusing or to passing through, at once, even where a wrapper could not be removed.

A method is wrapped on the class that defines it, so that no second wrapper appears below; if that
class belongs to another top-level package (``object``, pydantic's ``BaseModel``), only the class
that the seat names gets the wrapper. Names are looked up in ``__dict__``, never by ``getattr``: a
lazy module attribute would start an import under our lock.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import logging
import sys
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import wrapt

from otelhooks.patching.subclasses import Subclasses, subclasses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from otelhooks.errors import SeatError

_logger = logging.getLogger("otelhooks.instrumentation")

Arguments = tuple[Any, ...]
Keywords = dict[str, Any]
Wrapper = Callable[[Callable[..., Any], Any, Arguments, Keywords], Any]
Refuse = Callable[["SeatError", Callable[..., Any], Any, Arguments, Keywords], Any]
Undo = Callable[[], None]
Install = Callable[[type, str, Wrapper], Undo]

Held = tuple["Mapping[str, Any]", str, Any]

PASS, GUARD, REFUSE = 0, 1, 2

_FAR = 100  # objects to look at below a foreign wrapper


class Guard(Protocol):
    """Creates the wrapper of a seat for each function that the seat is found at."""

    def problem(self, function: Any) -> str:
        """Return why calls of a function cannot be guarded; empty if they can."""
        ...

    def bind(self, function: Any, switch: Switch) -> Wrapper:
        """Return the wrapper of a function; it must read the switch first.

        Args:
            function: As found in its class or module; None behind a data descriptor.
            switch: What the seats of the package do now.
        """
        ...


def pass_through(
    wrapped: Callable[..., Any], instance: Any, args: Arguments, kwargs: Keywords
) -> Any:
    """Call the framework's function unchanged; the wrapper of a seat that can only refuse."""
    return wrapped(*args, **kwargs)


class Seat(NamedTuple):
    """One function of a framework that an adapter wraps.

    Args:
        module: Module that holds the name, as in ``import``. A name that callers copied by ``from x
            import y`` needs one seat for each module that holds a copy.
        target: ``function``, ``Class.method`` or ``Outer.Inner.method``.
        wrapper: What runs instead, in wrapt's signature.
        required: Whether the framework counts as unknown if this seat is missing.
        since: First version that has the seat, inclusive; None = all.
        until: First version that no longer has it, exclusive; None = all.
        entry: Whether this is where user code enters the framework. Kept in the coverage report.
        refuse: Answer of a refused package at this seat; None raises `errors.SeatError`.
        install: Puts a data descriptor on a class instead of a wrapper; see the module's text.
        overrides: Whether to wrap subclasses that override the method as well.
        copies: Whether to wrap the names by which other modules already hold the function as well.
        guard: Creates the wrapper; `wrapper` and `refuse` are not used then.
    """

    module: str
    target: str
    wrapper: Wrapper = pass_through
    required: bool = True
    since: str | None = None
    until: str | None = None
    entry: bool = False
    refuse: Refuse | None = None
    install: Install | None = None
    overrides: bool = False
    copies: bool = False
    guard: Guard | None = None

    @property
    def name(self) -> str:
        """Module and target, as the coverage report and errors show them."""
        return f"{self.module}.{self.target}"


class Switch:
    """What the seats of one package do now; read first by each of them.

    Attributes:
        mode: `PASS`, `GUARD` or `REFUSE`.
        error: Creates the error of a refused call; a new one each time, because an exception that
            is raised again and again would collect tracebacks.
        mend: Guards again what is no longer guarded.
        held: Namespace, name and value of each seat, as they were when all were guarded.
    """

    __slots__ = ("error", "held", "mend", "mode")

    def __init__(self, error: Callable[[], SeatError], mend: Callable[[], object] = dict) -> None:
        self.mode = PASS
        self.error = error
        self.mend = mend
        self.held: list[Held] = []

    def check(self) -> None:
        """Guard what other code has put in a seat meanwhile; next to free if there is nothing."""
        for names, name, value in self.held:
            if names.get(name) is not value:
                self.mend()
                return


class SeatWrapper(wrapt.FunctionWrapper[..., Any]):
    """The wrapper on one seat. Its type is how a second installation recognises it."""

    # wrapt asks subclasses for it at each call of a method; without it, it raises and drops an
    # AttributeError there, which costs more than the wrapper.
    __bound_function_wrapper__ = wrapt.BoundFunctionWrapper

    def __init__(self, wrapped: Any, call: Wrapper, switch: Switch) -> None:
        super().__init__(wrapped, call)  # pyright: ignore[reportUnknownMemberType]
        self._self_switch = switch


class Place(NamedTuple):
    """Where a seat was found: the module or class to write to, and the name there."""

    owner: Any
    attribute: str


def find(seat: Seat, module: ModuleType) -> Place | None:
    """Find a seat in an imported module, without running any of its code.

    Returns:
        The place, or None if the name is missing or cannot be called.
    """
    owner: Any = module
    *path, attribute = seat.target.split(".")
    for name in path:
        owner = _names(owner).get(name)
    if inspect.isclass(owner):
        return _find_in_class(seat, owner, attribute)
    value = _names(owner).get(attribute)
    return Place(owner, attribute) if callable(value) and seat.install is None else None


def _names(owner: Any) -> dict[str, Any]:
    return getattr(owner, "__dict__", {})


def _find_in_class(seat: Seat, named: type, attribute: str) -> Place | None:
    if seat.install is not None:
        return Place(named, attribute) if _declares(named, attribute) else None
    for cls in named.__mro__:
        if attribute in vars(cls):
            value = vars(cls)[attribute]
            if not _is_function(value):
                return None
            ours = cls.__module__.partition(".")[0] == seat.module.partition(".")[0]
            return Place(cls if ours else named, attribute)
    return None


def _is_function(value: Any) -> bool:
    return callable(value) or isinstance(value, (classmethod, staticmethod))


def _declares(cls: type, attribute: str) -> bool:
    """Return whether instances have the attribute; a field without default is not on the class."""
    return (
        attribute in getattr(cls, "__dataclass_fields__", ())
        or attribute in getattr(cls, "__pydantic_fields__", ())
        or any(
            attribute in vars(base)
            or attribute in vars(base).get("__annotations__", ())
            or attribute in _named_in_init(base)
            for base in cls.__mro__
        )
    )


def _named_in_init(cls: type) -> tuple[str, ...]:
    """Return the names that a class's own constructor uses, where instances get attributes."""
    # Instances may not exist yet, so the code is all that shows what the constructor assigns.
    code = getattr(vars(cls).get("__init__"), "__code__", None)
    return code.co_names if code is not None else ()


def is_taken(place: Place, mine: Switch) -> bool:
    """Return whether a live otelhooks wrapper of another package is already there.

    It may be another adapter's, or that of a second copy of otelhooks in the process.
    """
    current = _current(place)
    return current is not None and any(
        _is_live(entry) and entry._self_switch is not mine for entry in wrapt.wrapper_chain(current)
    )


def _is_live(entry: Any) -> bool:
    kind = cast(
        "type[Any]", type(entry)
    )  # by name: a second copy of otelhooks has a class of its own
    is_seat = kind.__name__ == SeatWrapper.__name__ and kind.__module__ == __name__
    return is_seat and entry._self_switch.mode != PASS


def problem(seat: Seat, place: Place) -> str:
    """Return why calls of what was found cannot be guarded; empty if they can."""
    if seat.guard is None or seat.install is not None:
        return ""
    return seat.guard.problem(_current(place))


def _current(place: Place) -> Any:
    return inspect.getattr_static(place.owner, place.attribute, None)


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
        self._original = _innermost(_current(place))
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
            self._wrappers = [_names(owner).get(name)]
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
            if _leads_to(value, lambda one: one is self._original)
            if not _leads_to(value, self._is_ours)
        ]

    def _wrap_shadows(self) -> None:
        self._shadows += [(cls, self._wrapped(cls)) for cls in self._shadowed()]

    @property
    def in_place(self) -> bool:
        """Whether calls still reach a wrapper; False once other code replaced the name."""
        return _leads_to(_current(self._place), self._is_ours)

    def _is_ours(self, value: Any) -> bool:
        ours = (*self._wrappers, *(wrapper for _, wrapper in self._shadows))
        return any(value is wrapper for wrapper in ours)

    @property
    def held(self) -> Held:
        """Where its name is, the name, and what is there now."""
        names = _names(self._place.owner)
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


def _leads_to(value: Any, is_ours: Callable[[Any], bool]) -> bool:
    """Return whether a call of a value may reach a wrapper of ours.

    What other libraries put on top of it may be plain functions, which hold what they call in a
    closure, or as a global of their module.
    """
    code = getattr(value, "__code__", None)
    names = code.co_names if type(value) is types.FunctionType and code is not None else ()
    left: list[Any] = [value, *(value.__globals__.get(name) for name in names)]
    seen: set[int] = set()
    for one in left:
        if is_ours(one):
            return True
        if id(one) not in seen and len(seen) < _FAR:
            seen.add(id(one))
            left += _below(one)
    return False


def _innermost(value: Any) -> Any:
    """Return what is below all wrappers of a kind that tells what it wraps."""
    while type(value) is not types.FunctionType and hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return getattr(value, "__func__", value)


def _below(value: Any) -> list[Any]:
    """Return what a wrapper or function may call: what it says that it wraps, and its closure."""
    # A plain function need not call what it only looks like, by `functools.wraps`.
    names = ("__wrapped__", "__func__", "_self_parent")
    names = names if type(value) is not types.FunctionType else ()
    found = [getattr(value, name, None) for name in names]
    if isinstance(value, functools.partial):
        found.append(cast("Any", value).func)
    for cell in getattr(value, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # it has no value yet
            found.append(cell.cell_contents)
    return [one for one in found if _is_function(one)]


def _drop_copied_wrapper(place: Place, switch: Switch) -> None:
    """Restore the framework's function where ``from x import y`` copied our wrapper of it.

    This happens if the copying module is imported after the defining one; the name then gets a
    wrapper of its own, and undoing that leaves the function itself.
    """
    current: Any = _names(place.owner).get(place.attribute)
    if _is_live(current) and current._self_switch is switch:
        setattr(place.owner, place.attribute, current.__wrapped__)


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
        names = _names(module)
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
    modules = [_names(module) for module in list(sys.modules.values())] if originals else []
    if everywhere:
        # A module that left `sys.modules` can still be in use, and only the collector knows its
        # namespace.
        holders = gc.get_referrers(*[wrapper for wrapper, _ in pairs])
        modules += [found for found in holders if _is_namespace(found)]
    for names in modules:
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
            if not _is_function(value) and not isinstance(value, functools.partialmethod):
                _logger.error("override not guarded: %s.%s is no function", cls.__qualname__, name)
                return
            arguments = (self._make(value), self._switch)
            wrapt.wrap_object(cls, name, SeatWrapper, arguments)
            self._classes.add(cls)
        except Exception:
            _logger.exception("override not guarded: %s.%s", cls.__qualname__, name)

    def lost(self) -> list[type]:
        """Return the classes in which other code has replaced the wrapper."""
        name, is_mine = self._attribute, self._is_mine
        return [cls for cls in self._classes if not _leads_to(vars(cls).get(name), is_mine)]

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
