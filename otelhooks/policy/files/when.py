"""`when` in a YAML rule: a Starlark expression over the call, and over who asked for what."""

from __future__ import annotations

import ast
from typing import Any

from otelhooks.policy.files.document import Node
from otelhooks.policy.files.kinds import Kind

__all__ = ["WHEN"]


def _read(node: Node, what: str) -> Any:
    from otelhooks.policy.files.script_functions import PURE
    from otelhooks.policy.scripting.starlark import CallExpression, compile_expression
    from otelhooks.policy.scripting.starlark_source import parse_expression

    text = node.text(what).rstrip()
    names = {each.id for each in parse_expression(text, node) if isinstance(each, ast.Name)}
    if names.isdisjoint(CallExpression.NAMES):
        return compile_expression(text, node, functions=PURE)
    parameters = (*CallExpression.NAMES, "args")
    found = compile_expression(text, node, parameters=parameters, functions=PURE)
    return CallExpression(found, frozenset(names))


def _write(expression: Any) -> str:
    return expression.text


WHEN = Kind({"type": "string", "minLength": 1}, _read, _write)
"""An expression that may use `args`, the call's arguments, `prompt`, `prompts`, `user`, `agent`,
`branch`, and pure functions."""
