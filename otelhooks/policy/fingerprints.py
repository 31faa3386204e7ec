"""Ids and versions of rules that are code: the same rule has the same id in every process.

An id leaves out what may change with the version of Python (byte code) and what alerts should
survive (wording, severity, mode). A version includes everything.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import pathlib
import re
import types as python_types
from typing import Any, cast

from otelhooks.policy.predicates import AllOf

__all__ = ["describe", "digest"]

_PLAIN = (str, bytes, int, float, complex, bool, re.Pattern, pathlib.PurePath)


def digest(*parts: str, length: int) -> str:
    """Return a hash of texts as `length` hexadecimal digits."""
    joined = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(joined).hexdigest()[:length]


def describe(value: Any, *, code: bool, _seen: frozenset[int] = frozenset()) -> str:
    """Describe a predicate, and what it has captured, as text without memory addresses.

    Args:
        value: The predicate, or a value in it.
        code: Whether byte code counts.
    """
    if value is None:
        return "None"
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, _PLAIN):
        return repr(cast("object", value))
    if id(value) in _seen:
        return "..."
    inside = functools.partial(describe, code=code, _seen=_seen | {id(value)})
    if isinstance(value, python_types.FunctionType):
        return _function(value, inside, code)
    if isinstance(value, python_types.CodeType):
        return _code(value, inside, code)
    if isinstance(value, python_types.MethodType):
        return f"{inside(value.__func__)} of {inside(value.__self__)}"
    if isinstance(value, functools.partial):
        return f"partial {inside(value.func)} {inside(value.args)} {inside(value.keywords)}"
    if isinstance(value, AllOf):
        return f"all {inside(value.predicates)}"
    if isinstance(value, (tuple, list)):
        items = cast("list[Any]", value)
        return f"[{', '.join(map(inside, items))}]"
    if isinstance(value, (set, frozenset)):
        members = cast("set[Any]", value)
        return f"{{{', '.join(sorted(map(inside, members)))}}}"
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return f"{{{', '.join(sorted(f'{inside(key)}: {inside(item)}' for key, item in pairs))}}}"
    named = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
    name = f"{getattr(named, '__module__', '')}.{named.__qualname__}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (
            f"{name} {inside({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})}"
        )
    return name


def _function(function: python_types.FunctionType, inside: Any, code: bool) -> str:
    captured: list[str] = []
    for cell in function.__closure__ or ():
        try:
            captured.append(inside(cell.cell_contents))
        except ValueError:  # a name that its function has not assigned yet
            captured.append("?")
    return " ".join(
        (
            f"{function.__module__}.{function.__qualname__}",
            _code(function.__code__, inside, code),
            inside(function.__defaults__),
            inside(function.__kwdefaults__),
            *captured,
        )
    )


def _code(body: python_types.CodeType, inside: Any, code: bool) -> str:
    text = f"{inside(body.co_names)} {inside(body.co_consts)}"
    return f"{text} {body.co_code.hex()}" if code else text
