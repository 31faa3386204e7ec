"""Imports of the library go one way: not late, and not for types, do they come back."""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

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


FLOORS: tuple[set[str], ...] = (
    {"errors", "plain_text", "secret_forms", "state", "version"},
    {"records"},
    {"process"},
    {"patching", "store", "types"},
    {"hooks"},
    {"policy"},
    {"config"},
    {"telemetry"},
    {"approvals", "audit"},
    {"pipeline", "utils"},
    {"setup"},
    {"loops", "policy_tools"},
    {"otelhooks"},
    {"frameworks", "ui"},
    {"demo"},
    {"cli"},
    {"__main__"},
)
"""Packages and modules at the top of the library, each above what it imports."""

ALIAS = "otelhooks.hooks.policy"
"""google-antigravity has its policies there."""


@functools.cache
def imports() -> dict[str, set[str]]:
    """Return what each module imports from the library."""
    found = {
        module: set(imported(module, ast.parse(path.read_text("utf-8"))))
        for module, path in MODULES.items()
    }
    return {module: names & MODULES.keys() - {module} for module, names in found.items()}


def test_no_modules_import_each_other_in_a_circle() -> None:
    order = list(graphlib.TopologicalSorter(imports()).static_order())  # CycleError names a circle

    assert order.index("otelhooks.errors") < order.index("otelhooks.pipeline.runtime")


def top(module: str) -> str:
    """Return the package or module at the top of the library that a module belongs to."""
    return module.split(".")[1] if "." in module else module


def test_packages_import_only_packages_below_them() -> None:
    floor_of = {name: floor for floor, names in enumerate(FLOORS) for name in names}

    assert {top(module) for module in MODULES} == floor_of.keys()
    assert [
        f"{module} imports {name}"
        for module, names in imports().items()
        for name in names
        if module != ALIAS and top(name) != top(module)
        if floor_of[top(name)] >= floor_of[top(module)]
    ] == []


@pytest.mark.parametrize(
    ("package", "users"),
    [("policy_tools", {"cli", "ui"}), ("ui", {"cli"}), ("cli", {"__main__"})],
)
def test_what_works_on_policies_and_what_people_use_lies_above_what_decides(
    package: str, users: set[str]
) -> None:
    """The console stands beside the commands, so it imports none of them."""
    found = {
        top(module) for module, names in imports().items() if package in {top(n) for n in names}
    }

    assert found - {package} == users
