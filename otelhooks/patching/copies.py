"""Classes of a framework that may be imported in several copies (see `packages`).

``isinstance`` with a class from ``sys.modules`` only knows the copy that was imported last, and
would not recognise objects of an older copy. The name of a class is the same in all copies.
"""

from __future__ import annotations

from typing import Any, cast

__all__ = ["is_a"]


def is_a(value: Any, *names: tuple[str, str]) -> bool:
    """Return whether a value is of one of some classes, in any copy of their framework.

    Args:
        value: Anything.
        names: Pairs of the module that defines a class, and the name of the class.
    """
    kind = cast("type[Any]", type(value))
    return any((each.__module__, each.__name__) in names for each in kind.__mro__)
