"""The tools that a framework includes, recognised by the class or function behind them.

A name proves nothing: any tool can be given another one, and a user's own tool may have the name of
a built-in one. So an adapter's table names what defines each tool, and each test session compares
it with the installed release (`tests/frameworks/builtin_tools.py`).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = ["BuiltIn", "Part", "Table", "find", "key_of", "look_up", "of_class", "parts_of"]


class BuiltIn(NamedTuple):
    """One tool that a framework includes.

    Args:
        name: The framework's name for it, for readers of ``otelhooks doctor``.
        canonical: Names that rules may use for it as well. An allow rule matches by one only if the
            tool has no other: a tool that both creates and edits files is not allowed by
            ``edit_file``.
        kind: ``shell``, ``file_read``, ``file_write`` or ``net``; None for anything else.
        is_hosted: Whether it runs at the model's provider, where no seat can judge a call.
        path: Parameter with its file or folder, if its adapter resolves it.
    """

    name: str
    canonical: tuple[str, ...] = ()
    kind: str | None = None
    is_hosted: bool = False
    path: str = ""


class Part(NamedTuple):
    """One of the objects that make up a tool.

    Attributes:
        cls: Class of the object that it is or belongs to.
        key: Its key in a table.
        holder: The object itself: a method's object, or the one whose method a partial calls.
    """

    cls: type[Any]
    key: str
    holder: Any


Table = Mapping[str, BuiltIn]
"""``module:qualname`` of the class or function that defines a tool -> what it is.

A tool that moved between releases has one line for each location.
"""


def find(table: Table, *things: Any) -> BuiltIn | None:
    """Return what is known of a tool by the classes and functions that make it up.

    Args:
        table: The adapter's table.
        things: The tool, and the functions that it runs; the first known one counts.
    """
    parts = (part for thing in things for part in parts_of(thing))
    return next(filter(None, (look_up(table, part.cls, part.key) for part in parts)), None)


def parts_of(thing: Any) -> Iterator[Part]:
    """Yield each object that makes up a tool or function, outermost first.

    A bound method counts for its object's class, a partial for the class whose method it calls;
    below them, as below functions that name what they wrap (``__wrapped__``), is the function.
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
    """Return what is known of a part that `parts_of` yields; a subclass counts as its base."""
    found = table.get(key) or of_class(table, cls)
    if found is None and cls is types.FunctionType:  # taken from its class, not from an object
        found = table.get(key.rpartition(".")[0])
    return found


def of_class(table: Table, cls: type[Any]) -> BuiltIn | None:
    """Return what tools of a class are, by its nearest known base."""
    return next((table[key] for key in map(key_of, cls.__mro__) if key in table), None)


def key_of(thing: Any) -> str:
    """Return the key of a class or function in a table."""
    return f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"
