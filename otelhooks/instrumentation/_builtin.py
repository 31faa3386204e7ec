"""What the tools are that a framework brings along, told by the class or function behind them.

A name proves nothing: every tool can be given another one, and a tool of the user's own may carry
that of a built-in one. So an adapter's table names what defines each tool, and each test session
compares it with what the installed release has (`tests/frameworks/builtin_tools.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["BuiltIn", "Table", "find", "key_of", "of_class"]


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


Table = Mapping[str, BuiltIn]
"""``module:qualname`` of the class or function that defines a tool -> what it is.

A tool that moved between releases has a line for each place.
"""


def find(table: Table, *things: Any) -> BuiltIn | None:
    """Return what is known of a tool by the classes and functions that it is made of.

    Subclasses are what their base is; so are bound methods, partials and functions that say what
    they wrap (``__wrapped__``).

    Args:
        table: The adapter's.
        things: The tool, and the functions that it runs; the first that is known counts.
    """
    for thing in things:
        seen: set[int] = set()
        while thing is not None and id(thing) not in seen:
            seen.add(id(thing))
            owner: object = getattr(thing, "__self__", thing)
            key = key_of(thing)
            found = (
                table.get(key)
                or of_class(table, owner.__class__)
                or table.get(key.rpartition(".")[0] if inspect.isfunction(thing) else "")
                or of_class(table, _class_of_first(thing))
            )
            if found is not None:
                return found
            is_partial = isinstance(thing, functools.partial)
            thing = getattr(thing, "func" if is_partial else "__wrapped__", None)
    return None


def _class_of_first(thing: Any) -> type[Any]:
    """Return the class of a partial's first argument if it is a method of that class."""
    given: tuple[Any, ...] = getattr(thing, "args", ())
    if not isinstance(thing, functools.partial) or not given:
        return object
    cls: type[Any] = given[0].__class__
    return cls if getattr(cls, getattr(thing.func, "__name__", ""), None) is thing.func else object


def of_class(table: Table, cls: type[Any]) -> BuiltIn | None:
    """Return what tools of a class are, by the nearest of its bases that is known."""
    return next((table[key] for key in map(key_of, cls.__mro__) if key in table), None)


def key_of(thing: Any) -> str:
    """Return what a table calls a class or function."""
    return f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"
