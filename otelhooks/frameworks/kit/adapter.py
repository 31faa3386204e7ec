"""How an adapter names the functions of its framework, and lists what it guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from otelhooks.errors import ConfigError
from otelhooks.frameworks.kit.objects.classes import each
from otelhooks.frameworks.kit.passages import Guarded, Listening, Passage
from otelhooks.patching import adapters
from otelhooks.patching.adapters import NotCovered, Table
from otelhooks.patching.fields import Function, in_field, items, methods
from otelhooks.patching.seats import Seat
from otelhooks.pipeline.leads import Lead, register

__all__ = ["Adapter", "NotCovered", "Package", "listen", "seat"]

_Part = TypeVar("_Part", adapters.Package, NotCovered)


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
    """Return a seat that creates an object of a class for each call.

    Args:
        target: ``module:function`` or ``module:Class.method``, where callers look it up. ``(a|b)``
            in it means either: a seat for each.
        passage: The adapter's class.
        *others: Classes for calls that the first one skips, tried in order.
        kind: What the function must return, one of `functions.KINDS`; detected if the function
            shows it.
        required: Whether the framework counts as unknown if the function is missing.
        since: First version that has it, inclusive.
        until: First version that no longer has it, exclusive.
        entry: Whether user code enters the framework here.
        overrides: Whether to guard subclasses that override the method as well.
        copies: Whether to guard the name in modules that already hold the function as well.
        field: Whether the target is a field of instances that holds the function; or names of
            methods, if it holds an object. Such a seat must have a kind.
        item: Name of the class under which the function is found, if the target is a field that
            holds a table of functions by class.

    Raises:
        ConfigError: Target or class is invalid.
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
    """Return a seat that observes, or changes what a function returns: nothing is decided there.

    For a refused package it raises.

    Args:
        target: As for `seat`.
        function: Runs instead, with the framework's bound function, the object or class whose
            method it is, and the arguments; None if the seat only exists to refuse.
        required: As for `seat`.
        since: As for `seat`.
        until: As for `seat`.
        entry: As for `seat`.
        copies: As for `seat`.
        overrides: As for `seat`.
    """
    guard = Listening(function, watches=entry) if function is not None else None
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
        supported: Versions that the adapter supports, such as ``>=3.0,<4``.
        module: Import name.
        seats: Its seats, if the adapter has several packages.
    """
    names = (distributions,) if isinstance(distributions, str) else distributions
    return adapters.Package(names, supported, module, seats)


def Adapter(
    framework: str,
    *packages: adapters.Package,
    seats: Sequence[Seat] = (),
    not_covered: Mapping[str, str] = MappingProxyType({}),
    gaps: Sequence[NotCovered] = (),
    in_part: Mapping[str, str] = MappingProxyType({}),
    built_in: Mapping[str, Any] = MappingProxyType({}),
    options: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    offline: Mapping[str, str] = MappingProxyType({}),
    leads: Mapping[str, tuple[str, Callable[[Any, str], Any]]] = MappingProxyType({}),
) -> adapters.Adapter:
    """Return what is known of one framework.

    Args:
        framework: Its name in ``frameworks=`` and in reports.
        packages: Its distributions, innermost first.
        seats: Seats of the first package.
        not_covered: What no seat guards, with the reason.
        gaps: More of it: in other packages, or with functions to refuse if ``strict`` is on.
        in_part: Events and rules that do less here than elsewhere, with how far they go.
        built_in: Tools that the framework includes.
        options: What can be set for it, and the possible values.
        offline: Environment variables that keep its import from the network, for `doctor`.
        leads: Tool objects of agent frameworks that lead here: ``module:Class``, or the module of
            functions -> the group of the seat, and a function that returns the steps of such a
            tool.
    """
    for place, lead in leads.items():
        module, _, name = place.partition(":")
        register(module, name, Lead(*lead))
    if seats:
        packages = (packages[0]._replace(seats=tuple(seats)), *packages[1:])
    others = (*(NotCovered(*one) for one in not_covered.items()), *map(_spelled_out, gaps))
    guarded, parts = tuple(map(_spelled_out, packages)), tuple(in_part.items())
    return adapters.Adapter(framework, guarded, others, built_in, parts, options, offline)


def _spelled_out(part: _Part) -> _Part:
    """Return a package, or what is not covered, with a seat for each function that one means."""
    table: Any = part.seats
    seats = (
        seat._replace(module=module, target=target)
        for seat in table
        for module, target in map(_parts, each(f"{seat.module}:{seat.target}"))
    )
    return part._replace(seats=tuple(seats))
