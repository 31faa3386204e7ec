"""Values in the form that scripts accept: JSON and decimal numbers, at any depth up to a bound.

Decision code: a value without such a form is an error, so that a decision is never about something
else than the real value.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import os
import uuid
from collections.abc import Iterable, Mapping, Set
from typing import Any, cast

import pydantic

__all__ = ["MAX_DEPTH", "MAX_VALUES", "plain"]

MAX_DEPTH = 200
"""Deepest nesting that is passed to a script."""

MAX_VALUES = 200_000
"""Most values that are passed to a script in one call."""

_SCALARS = frozenset((str, int, bool, type(None), decimal.Decimal))


def plain(value: Any) -> Any:
    r"""Return a value as a script sees it; containers are copied.

    Bytes become text (bytes that are not UTF-8 as ``\xff``), dates and times ISO 8601, sets lists,
    paths and UUIDs text, enumeration members their values, models and dataclasses mappings. A
    number that JSON cannot express becomes text: comparing it with a number then fails.

    Args:
        value: Anything.

    Raises:
        TypeError: It has no such form.
        ValueError: It is too large, nested too deep, contains itself, or two keys become one.
    """
    return _Copy().of(value, MAX_DEPTH)


class _Copy:
    """One value being copied, and how many parts it has so far."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values = 0

    def of(self, value: Any, depth: int) -> Any:
        """Return one part; `depth` is how much deeper it may go."""
        kind = cast("type[object]", type(value))
        if kind is str:
            return value if value.isascii() else _valid(value)
        if kind in _SCALARS:
            return value
        if kind is float:
            return value if math.isfinite(value) else str(value)
        if depth == 0:
            msg = f"nested deeper than {MAX_DEPTH} levels"
            raise ValueError(msg)
        if kind is dict or isinstance(value, Mapping):
            return self._mapping(cast("Mapping[Any, Any]", value), depth - 1)
        if kind is list or kind is tuple:
            return self._items(value, depth - 1)
        return self._other(value, depth - 1)

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        self._count(len(value))
        copied: dict[str, Any] = {}
        for key, item in value.items():
            name = key if type(key) is str else _key(key)
            name = name if name.isascii() else _valid(name)
            if name in copied:
                msg = f"two keys are `{name}`"
                raise ValueError(msg)
            copied[name] = self.of(item, depth)
        return copied

    def _items(self, value: Iterable[Any], depth: int) -> list[Any]:
        items = list(value)
        self._count(len(items))
        return [self.of(item, depth) for item in items]

    def _count(self, values: int) -> None:
        self.values += values
        if self.values > MAX_VALUES:
            msg = f"more than {MAX_VALUES} values"
            raise ValueError(msg)

    def _other(self, value: Any, depth: int) -> Any:
        if isinstance(value, enum.Enum):
            return self.of(value.value, depth)
        if isinstance(value, (str, int)):  # of a subclass
            return _valid(str.__str__(value)) if isinstance(value, str) else int(value)
        if isinstance(value, float):
            return self.of(float(value), depth)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(cast("bytes", value)).decode("utf-8", "backslashreplace")
        if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, datetime.timedelta):
            return value.total_seconds()
        if isinstance(value, (os.PathLike, uuid.UUID)):
            return _valid(str(cast("object", value)))
        if isinstance(value, pydantic.BaseModel):
            computed = {name: getattr(value, name) for name in type(value).model_computed_fields}
            return self._mapping({**dict(value), **computed}, depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.fields(value)
            return self._mapping(
                {field.name: getattr(value, field.name) for field in fields}, depth
            )
        if isinstance(value, Set):
            items = self._items(cast("Set[Any]", value), depth)
            return sorted(items, key=repr)
        if isinstance(value, (list, tuple)):  # of a subclass
            return self._items(cast("list[Any]", value), depth)
        msg = f"a script cannot be given a {type(value).__name__}"
        raise TypeError(msg)


def _key(key: Any) -> str:
    """Return a key as in JSON."""
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, (int, float)):
        return str(key)
    msg = f"a script cannot be given a mapping with a {type(key).__name__} as a key"
    raise TypeError(msg)


def _valid(text: str) -> str:
    """Return a text without lone surrogates, which no script can hold."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
