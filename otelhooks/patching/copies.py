"""Classes of a framework of which several copies may be imported (see `packages`).

``isinstance`` with a class out of ``sys.modules`` knows the copy that was imported last; what an
older copy makes would be taken for something else. The name of a class is the same in all copies.
"""

from __future__ import annotations

from typing import Any, cast

__all__ = ["is_a"]


def is_a(value: Any, *names: tuple[str, str]) -> bool:
    """Say whether a value is of one of some classes, in any copy of their framework.

    Args:
        value: Anything.
        names: Pairs of the module that defines a class, and the name of the class.
    """
    kind = cast("type[Any]", type(value))
    return any((each.__module__, each.__name__) in names for each in kind.__mro__)
