"""The conditions of a rule as their author wrote them."""

from __future__ import annotations

import ast
import inspect
import linecache
import types
from pathlib import Path
from typing import Any

from otelhooks.policy.rules import Rule
from otelhooks.policy_tools.diff import describe_when, selected_by

__all__ = ["as_written", "selectors"]

_MOST = 160


def as_written(rule: Rule) -> str:
    """Return a rule's condition as one line of text; empty if it has none.

    An expression, the text of a lambda, or the sentence of a ready-made condition; for any other
    function its name and place.
    """
    when: Any = rule.policy.when
    if when is None or isinstance(getattr(when, "text", None), str):
        return describe_when(rule)
    if isinstance(when, types.FunctionType):
        return _function(when)
    if type(when).__str__ is not object.__str__:
        return _line(str(when))
    return describe_when(rule)


def selectors(rule: Rule) -> str:
    """Return what a rule selects calls by besides tool and `when`, as YAML; empty for nothing."""
    return _line(", ".join(f"{name}: {text}" for name, text in sorted(selected_by(rule).items())))


def _function(when: types.FunctionType) -> str:
    when = inspect.unwrap(when)
    code = when.__code__
    path, line = code.co_filename, code.co_firstlineno
    if code.co_name == "<lambda>":
        text = "".join(linecache.getlines(path))
        found = [one for one in _lambdas(text) if one.lineno == line]
        source = ast.get_source_segment(text, found[0]) if len(found) == 1 else None
        if source is not None:
            return _line(source)
    return f"{when.__qualname__} ({Path(path).name}:{line})"


def _lambdas(text: str) -> list[ast.Lambda]:
    try:
        return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Lambda)]
    except (SyntaxError, ValueError, RecursionError):
        return []


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"
