"""Where a deciding hook changes a call's arguments in place, which denies."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["changes", "data_parameter"]

_CHANGING = frozenset(
    "add append clear discard extend insert pop popitem remove reverse setdefault sort"
    " update".split()
)


def data_parameter(function: ast.FunctionDef | ast.AsyncFunctionDef, *, is_method: bool) -> str:
    """Return the name of the parameter that gets the call, "" if there is none."""
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    if is_method:
        return named[2].arg if len(named) > 2 else ""
    for each in named:
        annotation = ast.unparse(each.annotation).strip("'\"") if each.annotation else ""
        if each.arg != "context" and annotation.rpartition(".")[2] != "HookContext":
            return each.arg
    return ""


def changes(function: ast.FunctionDef | ast.AsyncFunctionDef, data: str) -> Iterator[ast.expr]:
    """Yield each place in a function that changes what lies in ``data.args``, or assigns it.

    Args:
        function: A hook.
        data: Its parameter that is the call.
    """
    names: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _is_args(node.value, data, names):
            names.update(each.id for each in node.targets if isinstance(each, ast.Name))
    for node in ast.walk(function):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            is_itself = isinstance(node, ast.Attribute) and _is_args(node, data, names)
            if is_itself or _lies_in_args(node.value, data, names):
                yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changing = node.func.attr in _CHANGING
            if changing and _lies_in_args(node.func.value, data, names):
                yield node.func


def _is_args(node: ast.expr, data: str, names: set[str]) -> bool:
    """Return whether an expression is ``data.args``, or a name for it."""
    if isinstance(node, ast.Name):
        return node.id in names
    if not isinstance(node, ast.Attribute) or node.attr != "args":
        return False
    return isinstance(node.value, ast.Name) and node.value.id == data


def _lies_in_args(node: ast.expr, data: str, names: set[str]) -> bool:
    """Return whether an expression is ``data.args`` or something in it."""
    while not _is_args(node, data, names):
        if not isinstance(node, (ast.Subscript, ast.Attribute)):
            return False
        node = node.value
    return True
