# pyright: basic
"""Attributes that an object of langchain may lack, such as a model's ``streaming``.

Most of langchain's objects are pydantic models. Reading a missing attribute raises inside pydantic,
which costs more than everything else that a seat reads.
"""

from __future__ import annotations

import functools
from typing import Any

from pydantic import BaseModel

__all__ = ["closure", "field", "functions"]


def field(thing: Any, name: str) -> Any:
    """Return an attribute of a pydantic model, None if it is missing.

    Args:
        thing: Any pydantic model.
        name: Name of a field, or of another attribute of its class.
    """
    own = vars(thing)
    if name in own:
        return own[name]
    return getattr(thing, name, None) if _may_have(type(thing), name) else None


def functions(tool: Any) -> tuple[Any, Any]:
    """Return the function and the coroutine function that a tool was created from, or None."""
    return field(tool, "func"), field(tool, "coroutine")


def closure(function: Any, *names: str) -> dict[str, Any]:
    """Return what a function closes over under some names."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if name in names}


@functools.lru_cache(maxsize=1024)
def _may_have(kind: type[BaseModel], name: str) -> bool:
    """Return whether objects of a class may have an attribute that is not one of their fields."""
    return (
        hasattr(kind, name)
        or kind.model_config.get("extra") == "allow"
        or getattr(kind, "__getattr__", None) is not getattr(BaseModel, "__getattr__", None)
    )
