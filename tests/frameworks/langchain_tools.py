"""What langchain's packages make tools of, read from the source of the installed releases."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

_MADE = re.compile(r"(?:StructuredTool|\bTool)(?:\.from_function)?$")
_BASE = re.compile(r"^(?:\w+\.)*(?:BaseTool|StructuredTool|Tool)$")


class _Tools(ast.NodeVisitor):
    """Finds classes of tools, and functions that ``@tool`` or `StructuredTool` is given."""

    def __init__(self, module: str) -> None:
        self.found: set[str] = set()
        self._module = module
        self._inside: list[str] = []
        self._functions = [set[str]()]
        """Names of functions, for each function that is open; what is outside first."""

    def _key(self, name: str) -> str:
        return f"{self._module}:{'.'.join([*self._inside, name])}"

    def visit_Module(self, node: ast.Module) -> None:
        self._functions[0] = _names(node.body)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any(_BASE.match(ast.unparse(base)) for base in node.bases):
            self.found.add(self._key(node.name))
        self._inside.append(node.name)
        self.generic_visit(node)
        self._inside.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            used = decorator.func if isinstance(decorator, ast.Call) else decorator
            if ast.unparse(used) == "tool":
                self.found.add(self._key(node.name))
        self._inside += [node.name, "<locals>"]
        self._functions.append(_names(node.body))
        self.generic_visit(node)
        self._functions.pop()
        del self._inside[-2:]

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Call(self, node: ast.Call) -> None:
        if _MADE.search(ast.unparse(node.func)):
            given = [k.value for k in node.keywords if k.arg in ("func", "coroutine")]
            for value in (*given, *node.args[1:2], *node.args[:1]):
                if isinstance(value, ast.Name) and (found := self._function(value.id)):
                    self.found.add(found)
        self.generic_visit(node)

    def _function(self, name: str) -> str:
        """Return the key of the function with a name here; empty if there is none."""
        for depth in range(len(self._functions) - 1, -1, -1):
            if name in self._functions[depth]:
                steps = [i for i, part in enumerate(self._inside) if part == "<locals>"]
                outside = self._inside[: steps[depth - 1] + 1] if depth else []
                return f"{self._module}:{'.'.join([*outside, name])}"
        return ""


def _names(body: list[ast.stmt]) -> set[str]:
    return {
        node.name
        for statement in body
        for node in _flat(statement)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def _flat(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what lies in a statement but in no function or class of its own."""
    yield node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        for child in ast.iter_child_nodes(node):
            yield from _flat(child)


def tools_in(package: str) -> set[str]:
    """Return what an installed package makes tools of, as ``module:qualname``."""
    found: set[str] = set()
    for module, tree in _modules(package):
        visitor = _Tools(module)
        visitor.visit(tree)
        found |= visitor.found
    return found


def definers_in(package: str, method: str) -> set[str]:
    """Return the classes of an installed package that define a method, as ``module:name``."""
    return {
        f"{module}:{node.name}"
        for module, tree in _modules(package)
        for node in tree.body
        if isinstance(node, ast.ClassDef) and method in _names(node.body)
    }


def _modules(package: str) -> Iterator[tuple[str, ast.Module]]:
    spec = importlib.util.find_spec(package)
    roots = spec.submodule_search_locations if spec is not None else None
    for root in map(Path, roots or ()):
        for file in sorted(root.rglob("*.py")):
            parts = [package, *file.relative_to(root).with_suffix("").parts]
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield name, ast.parse(file.read_text(encoding="utf-8"))
