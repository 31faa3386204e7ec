"""`when` in a YAML rule: a Starlark expression over the arguments of the call."""

from __future__ import annotations

from typing import Any

from otelhooks.policy.files.document import Node
from otelhooks.policy.files.kinds import Kind

__all__ = ["WHEN"]


def _read(node: Node, what: str) -> Any:
    from otelhooks.policy.files.script_functions import PURE
    from otelhooks.policy.starlark import compile_expression

    return compile_expression(node.text(what).rstrip(), node, functions=PURE)


def _write(expression: Any) -> str:
    return expression.text


WHEN = Kind({"type": "string", "minLength": 1}, _read, _write)
"""An expression that may use `args`, the call's arguments, and pure functions."""
