"""One seat: its record, and how it is found; `handles` wraps and restores it.

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

import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import wrapt

from otelhooks.patching.functions import is_function

if TYPE_CHECKING:
    from collections.abc import Mapping
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
        try:
            for names, name, value in self.held:
                if names[name] is not value:
                    break
            else:
                return
        except KeyError:
            pass  # the name is gone
        self.mend()


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
        owner = names_in(owner).get(name)
    if inspect.isclass(owner):
        return _find_in_class(seat, owner, attribute)
    value = names_in(owner).get(attribute)
    return Place(owner, attribute) if callable(value) and seat.install is None else None


def names_in(owner: Any) -> dict[str, Any]:
    return getattr(owner, "__dict__", {})


def _find_in_class(seat: Seat, named: type, attribute: str) -> Place | None:
    if seat.install is not None:
        return Place(named, attribute) if _declares(named, attribute) else None
    for cls in named.__mro__:
        if attribute in vars(cls):
            value = vars(cls)[attribute]
            if not is_function(value):
                return None
            ours = cls.__module__.partition(".")[0] == seat.module.partition(".")[0]
            return Place(cls if ours else named, attribute)
    return None


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
    found = current(place)
    return found is not None and any(
        is_live(entry) and entry._self_switch is not mine for entry in wrapt.wrapper_chain(found)
    )


def is_live(entry: Any) -> bool:
    kind = cast(
        "type[Any]", type(entry)
    )  # by name: a second copy of otelhooks has a class of its own
    is_seat = kind.__name__ == SeatWrapper.__name__ and kind.__module__ == __name__
    return is_seat and entry._self_switch.mode != PASS


def problem(seat: Seat, place: Place) -> str:
    """Return why calls of what was found cannot be guarded; empty if they can."""
    if seat.guard is None or seat.install is not None:
        return ""
    return seat.guard.problem(current(place))


def current(place: Place) -> Any:
    return inspect.getattr_static(place.owner, place.attribute, None)
