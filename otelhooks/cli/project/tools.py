"""Tools that a project defines, in the ways that frameworks have for it.

Found are functions under a decorator such as ``@tool`` or ``@function_tool``, functions in
``tools=[...]``, what ``FunctionTool(...)`` and the like wrap, classes of tools with a ``name``, and
definitions of tools as dicts. A name that is computed when the program runs is not found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from otelhooks.cli.project.files import Module
from otelhooks.policy.selectors import Selector
from otelhooks.policy_tools import learn

__all__ = ["Tool", "dotted", "find", "is_plain"]

MAX_NAME = 100

_DECORATORS = frozenset(
    ("tool", "tool_plain", "function_tool", "beta_tool", "beta_async_tool", "async_tool")
)
_MAKERS = frozenset(
    (
        *("FunctionTool", "LongRunningFunctionTool", "StructuredTool", "Tool"),
        *("from_defaults", "from_function", "function_tool", "tool"),
        *("add_function", "add_tool", "create_tool_from_function"),
    )
)
_NAMES = ("name", "name_override")
_FUNCTIONS = ("func", "fn", "function", "coroutine", "async_fn")
_SCHEMAS = ("parameters", "input_schema", "parameters_json_schema")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Tool(NamedTuple):
    """A tool that a file defines.

    Args:
        name: As models call it; a text of the file, which may be anything.
        path: File.
        line: Line, from 1.
    """

    name: str
    path: str
    line: int


def is_plain(name: str) -> bool:
    """Return whether a rule with this name is about one tool of the program, and no other."""
    return len(name) <= MAX_NAME and learn.is_plain(name) and Selector(name).server is None


def dotted(node: ast.expr) -> str:
    """Return a name with its dots, such as ``agents.function_tool``; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return parts[0] if parts else ""
    return ".".join((node.id, *reversed(parts)))


def find(modules: Iterable[Module], all_modules: Iterable[Module]) -> list[Tool]:
    """Return the tools of a project, each name once, in the order in which they are found.

    Args:
        modules: Those that have to do with agents.
        all_modules: Where functions in ``tools=[...]`` may be defined. One under a decorator has
            the name that the decorator gives it.
    """
    functions = {
        node.name: Tool(node.name, module.path, node.lineno)
        for module in all_modules
        for node in ast.walk(module.tree)
        if isinstance(node, _Function) and not any(_named(node))
    }
    found: dict[str, Tool] = {}
    for module in modules:
        variables = _variables(module.tree) - functions.keys()
        for node in ast.walk(module.tree):
            for name in _named(node):
                if isinstance(node, ast.Call) and name in variables:
                    continue  # `tool(f)` for each `f`: its name is not in this file
                tool = Tool(name, module.path, getattr(node, "lineno", 1))
                found.setdefault(name, tool)
            for name in _listed(node):
                if name in functions:
                    found.setdefault(name, functions[name])
    return sorted(found.values(), key=lambda tool: (tool.path, tool.line))


def _variables(tree: ast.Module) -> set[str]:
    """Return the names of parameters, and of what loops and comprehensions go through."""
    nodes = list(ast.walk(tree))
    targets = [n.target for n in nodes if isinstance(n, (ast.For, ast.AsyncFor, ast.comprehension))]
    of_loops = {n.id for each in targets for n in ast.walk(each) if isinstance(n, ast.Name)}
    return of_loops | {node.arg for node in nodes if isinstance(node, ast.arg)}


def _named(node: ast.AST) -> Iterator[str]:
    """Yield the name of the tool that a node defines."""
    if isinstance(node, _Function):
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            if _last(decorator if call is None else call.func) in _DECORATORS:
                yield from _given(call, node.name)
    elif isinstance(node, ast.Call) and _last(node.func) in _MAKERS:
        given = [k.value for k in node.keywords if k.arg in _FUNCTIONS] or node.args[:1]
        if given and isinstance(given[0], (ast.Name, ast.Attribute)):
            yield from _given(node, _last(given[0]), is_maker=True)
    elif isinstance(node, ast.Call) and _last(node.func) == "from_tool":  # it has that tool's name
        yield from (n for k in node.keywords if k.arg == "name" for n in _text(k.value))
    elif isinstance(node, ast.ClassDef):
        if any(_last(base).endswith("Tool") for base in node.bases):
            yield from _attribute(node)
    elif isinstance(node, ast.Dict):
        keys = {
            key.value: value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        }
        if "name" in keys and any(schema in keys for schema in _SCHEMAS):
            yield from _text(keys["name"])


def _given(call: ast.Call | None, usual: str, *, is_maker: bool = False) -> Iterator[str]:
    """Yield the name that a decorator or maker is given, or else the function's."""
    if call is None:
        yield usual
        return
    names = [keyword.value for keyword in call.keywords if keyword.arg in _NAMES]
    if not names and not is_maker:
        names = [arg for arg in call.args[:1] if isinstance(arg, (ast.Constant, ast.JoinedStr))]
    if names:
        yield from _text(names[0])
    else:
        yield usual


def _listed(node: ast.AST) -> Iterator[str]:
    """Yield the names of what is in ``tools=[...]``, and in ``FunctionToolset([...])``."""
    if isinstance(node, ast.Call):
        given = [keyword.value for keyword in node.keywords if keyword.arg == "tools"]
        given += node.args[:1] if _last(node.func) == "FunctionToolset" else []
        for tools in given:
            if isinstance(tools, (ast.List, ast.Tuple)):
                yield from map(_last, tools.elts)


def _attribute(node: ast.ClassDef) -> Iterator[str]:
    """Yield what a class says as its ``name``."""
    for each in node.body:
        if isinstance(each, ast.Assign):
            target, value = each.targets[0], each.value
        elif isinstance(each, ast.AnnAssign) and each.value is not None:
            target, value = each.target, each.value
        else:
            continue
        if isinstance(target, ast.Name) and target.id == "name":
            yield from _text(value)


def _text(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _last(node: ast.expr) -> str:
    return dotted(node).rpartition(".")[2]
