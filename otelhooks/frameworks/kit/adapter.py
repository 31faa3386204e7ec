"""How an adapter names the functions of its framework, and sums up what it guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from otelhooks.errors import ConfigError
from otelhooks.frameworks.kit.passages import Guarded, Listening, Passage
from otelhooks.patching import adapters
from otelhooks.patching.adapters import NotCovered, Table
from otelhooks.patching.fields import Function, in_field, items, methods
from otelhooks.patching.seats import Seat
from otelhooks.pipeline.leads import Lead, register

__all__ = ["Adapter", "NotCovered", "Package", "listen", "seat"]


def seat(
    target: str,
    passage: type[Passage],
    *others: type[Passage],
    kind: str = "",
    required: bool = True,
    since: str | None = None,
    until: str | None = None,
    entry: bool = False,
    overrides: bool = False,
    copies: bool = False,
    field: bool | tuple[str, ...] = False,
    item: str = "",
) -> Seat:
    """Return a seat at which an object of a class is made for each call.

    Args:
        target: ``module:function`` or ``module:Class.method``, where callers look it up.
        passage: The adapter's class.
        *others: Classes that read a call which that one skips, one after the other.
        kind: What the function must give, of those in `functions.KINDS`; found out by itself where
            the function says it.
        required: Whether the framework counts as unknown when the function is not there.
        since: First version that has it, inclusive.
        until: First version that no longer has it, exclusive.
        entry: Whether user code enters the framework here.
        overrides: Also guard subclasses that override the method.
        copies: Also guard the name in modules that hold the function already.
        field: Whether the target is a field of instances that holds the function; or names of
            methods, where it holds an object. Such a seat must say its kind.
        item: Name of the class under which the function is found, where the target is a field that
            holds a table of functions by classes.

    Raises:
        ConfigError: Target or class cannot be right.
    """
    held = methods(*field) if isinstance(field, tuple) else items(item) if item else Function
    return Seat(
        *_parts(target),
        required=required,
        since=since,
        until=until,
        entry=entry,
        install=in_field(held) if field or item else None,
        overrides=overrides,
        copies=copies,
        guard=Guarded(passage, target, kind, in_field=bool(field or item), others=others),
    )


def listen(
    target: str,
    function: Callable[..., Any] | None = None,
    *,
    required: bool = True,
    since: str | None = None,
    until: str | None = None,
    entry: bool = False,
    copies: bool = False,
    overrides: bool = False,
) -> Seat:
    """Return a seat that looks on, or changes what a function gives: nothing is decided there.

    A refused package raises there.

    Args:
        target: As for `seat`.
        function: Runs instead, with the framework's function, bound, the object or class whose
            method it is, and the arguments; None where the seat is there only to refuse.
        required: As for `seat`.
        since: Likewise.
        until: Likewise.
        entry: Likewise.
        copies: Likewise.
        overrides: Likewise.
    """
    guard = Listening(function) if function is not None else None
    return Seat(
        *_parts(target),
        required=required,
        since=since,
        until=until,
        entry=entry,
        copies=copies,
        overrides=overrides,
        guard=guard,
    )


def _parts(target: str) -> tuple[str, str]:
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        problem = f"the seat `{target}` does not name a function"
        raise ConfigError(problem, hint="write `module:function` or `module:Class.method`")
    return module, name


def Package(  # it makes one
    distributions: str | tuple[str, ...], supported: str, *, module: str, seats: Table = ()
) -> adapters.Package:
    """Return one distribution of a framework, which is guarded, refused or left alone as a whole.

    Args:
        distributions: Names it is published under, most usual first.
        supported: Versions that the adapter knows, such as ``>=3.0,<4``.
        module: Import name.
        seats: Its seats, where the adapter has several packages.
    """
    names = (distributions,) if isinstance(distributions, str) else distributions
    return adapters.Package(names, supported, module, seats)


def Adapter(
    framework: str,
    *packages: adapters.Package,
    seats: Sequence[Seat] = (),
    not_covered: Sequence[NotCovered] = (),
    in_part: Sequence[tuple[str, str]] = (),
    built_in: Mapping[str, Any] = MappingProxyType({}),
    options: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    leads: Mapping[str, tuple[str, Callable[[Any, str], Any]]] = MappingProxyType({}),
) -> adapters.Adapter:
    """Return what is known of one framework.

    Args:
        framework: Its name in ``frameworks=`` and in reports.
        packages: Its distributions, innermost first.
        seats: Those of the first package.
        not_covered: What no seat guards, and why.
        in_part: Events and rules that do less here than elsewhere, and how far they go.
        built_in: Tools that the framework brings along.
        options: What can be set for it, and the words for that.
        leads: Tool objects of agent frameworks that lead here: ``module:Class``, or the module of
            functions -> the group of the seat, and what gives the steps of such a tool.
    """
    for place, lead in leads.items():
        module, _, name = place.partition(":")
        register(module, name, Lead(*lead))
    if seats:
        packages = (packages[0]._replace(seats=tuple(seats)), *packages[1:])
    return adapters.Adapter(
        framework, packages, tuple(not_covered), built_in, tuple(in_part), options
    )
