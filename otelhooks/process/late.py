"""Public names of a package that are imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from otelhooks.process.forks import held_over_forks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["late_names"]

_importing = held_over_forks()


def late_names(
    namespace: dict[str, Any], homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module.

    The module that calls this hides the names from type checkers, which would otherwise treat every
    name as existing, and imports them under ``if TYPE_CHECKING``.

    Args:
        namespace: The module's ``globals()``; a name stays there once it was found.
        homes: Module that defines them -> names, separated by blanks. A module below this one may
            be a name itself.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        with _importing:
            module = importlib.import_module(home)
            is_module = home == f"{namespace['__name__']}.{name}"
            found = namespace[name] = module if is_module else getattr(module, name)
        return found

    return find, lambda: sorted({*namespace, *home_of})
