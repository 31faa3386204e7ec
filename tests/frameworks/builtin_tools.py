"""Compare an adapter's table of built-in tools with what the installed release brings along."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from otelhooks.patching.builtin import Table, key_of


def import_all(package: Any) -> None:
    """Import every module of a package but those that need something that is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            try:
                importlib.import_module(module.name)
            except ImportError:
                pass


def below(cls: type, package: str) -> Iterator[type]:
    """Yield a class and its subclasses that a package defines."""
    if f"{cls.__module__}.".startswith(f"{package}."):
        yield cls
    for subclass in type.__subclasses__(cls):
        yield from below(subclass, package)


def callers(package: Any, *names: str) -> Iterator[str]:
    """Yield the functions and classes at the top of a package's modules that call one by name."""
    for name, module in sorted(sys.modules.items()):
        path = getattr(module, "__file__", None) or ""
        if f"{name}.".startswith(f"{package.__name__}.") and path.endswith(".py"):
            for top in ast.parse(Path(path).read_bytes()).body:
                calls = (node.func for node in ast.walk(top) if isinstance(node, ast.Call))
                if any(isinstance(one, ast.Name) and one.id in names for one in calls):
                    yield f"{name}:{getattr(top, 'name', '')}"


def check(table: Table, found: Iterable[Any], *, is_newest: bool, gone: Iterable[str] = ()) -> None:
    """Fail where the installed release has another list of built-in tools than the table.

    Args:
        table: The adapter's.
        found: Classes and functions that define tools in the installed release, or their keys.
        is_newest: Whether that is the newest release, which has every tool but those that are gone.
        gone: Keys of tools that only older releases have.
    """
    keys = {one if isinstance(one, str) else key_of(one) for one in found}
    assert not keys - table.keys(), "new built-in tools: give each a line in the adapter's table"
    if is_newest:
        assert not table.keys() - keys - set(gone), "built-in tools that no release has any more"
