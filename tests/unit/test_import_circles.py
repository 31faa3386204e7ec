"""No modules of the library import each other in a circle: not late, and not for types either."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import otelhooks

PACKAGE = Path(otelhooks.__file__).parent
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def imported(module: str, node: ast.AST) -> Iterator[str]:
    """List what a module imports, but not the names that a package only hands on late."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            yield name if name in MODULES else str(node.module)
    elif not (isinstance(node, ast.If) and MODULES[module].name == "__init__.py"):
        for child in ast.iter_child_nodes(node):
            yield from imported(module, child)


def test_no_modules_import_each_other_in_a_circle() -> None:
    imports = {
        module: set(imported(module, ast.parse(path.read_text("utf-8"))))
        for module, path in MODULES.items()
    }
    known = {module: names & MODULES.keys() - {module} for module, names in imports.items()}

    order = list(graphlib.TopologicalSorter(known).static_order())  # CycleError names a circle

    assert order.index("otelhooks.errors") < order.index("otelhooks.pipeline.runtime")
