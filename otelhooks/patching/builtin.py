"""What the tools are that a framework brings along, told by the class or function behind them.

A name proves nothing: every tool can be given another one, and a tool of the user's own may carry
that of a built-in one. So an adapter's table names what defines each tool, and each test session
compares it with what the installed release has (`tests/frameworks/builtin_tools.py`).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = ["BuiltIn", "Part", "Table", "find", "key_of", "look_up", "of_class", "parts_of"]


class BuiltIn(NamedTuple):
    """One tool that a framework brings along.

    Args:
        name: What the framework calls it, for readers of ``otelhooks doctor``.
        canonical: Names that rules may use for it as well. Allow rules match by one only where it
            has no other: a tool that both creates and edits files is not allowed by ``edit_file``.
        kind: ``shell``, ``file_read``, ``file_write`` or ``net``; None for anything else.
        is_hosted: Whether it runs at the model's provider, where no seat can judge a call.
        path: Parameter that takes its file or folder, if its adapter resolves that.
    """

    name: str
    canonical: tuple[str, ...] = ()
    kind: str | None = None
    is_hosted: bool = False
    path: str = ""


class Part(NamedTuple):
    """One of the things that a tool is made of.

    Attributes:
        cls: Class of the object that it is or belongs to.
        key: What a table calls it.
        holder: That object: a method's, or what a partial gives a method of its class.
    """

    cls: type[Any]
    key: str
    holder: Any


Table = Mapping[str, BuiltIn]
"""``module:qualname`` of the class or function that defines a tool -> what it is.

A tool that moved between releases has a line for each place.
"""


def find(table: Table, *things: Any) -> BuiltIn | None:
    """Return what is known of a tool by the classes and functions that it is made of.

    Args:
        table: The adapter's.
        things: The tool, and the functions that it runs; the first that is known counts.
    """
    parts = (part for thing in things for part in parts_of(thing))
    return next(filter(None, (look_up(table, part.cls, part.key) for part in parts)), None)


def parts_of(thing: Any) -> Iterator[Part]:
    """Yield each thing that a tool or function is made of, outermost first.

    A bound method is of its object's class, a partial of that of whatever it gives a method of it;
    below them, as below functions that say what they wrap (``__wrapped__``), is the function.
    """
    seen: set[int] = set()
    given: list[Any] = []
    while thing is not None and id(thing) not in seen:
        seen.add(id(thing))
        owner: object = getattr(thing, "__self__", thing)
        yield Part(owner.__class__, key_of(thing), owner)
        for one in given:
            if getattr(one.__class__, getattr(thing, "__name__", ""), None) is thing:
                yield Part(one.__class__, "", one)
        if issubclass(type(thing), functools.partial):
            given += (*thing.args, *thing.keywords.values())
            thing = thing.func
        else:
            thing = getattr(thing, "__func__", None) or getattr(thing, "__wrapped__", None)


def look_up(table: Table, cls: type[Any], key: str) -> BuiltIn | None:
    """Return what is known of a part that `parts_of` yields; a subclass is what its base is."""
    found = table.get(key) or of_class(table, cls)
    if found is None and cls is types.FunctionType:  # taken from its class, not from an object
        found = table.get(key.rpartition(".")[0])
    return found


def of_class(table: Table, cls: type[Any]) -> BuiltIn | None:
    """Return what tools of a class are, by the nearest of its bases that is known."""
    return next((table[key] for key in map(key_of, cls.__mro__) if key in table), None)


def key_of(thing: Any) -> str:
    """Return what a table calls a class or function."""
    return f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"
