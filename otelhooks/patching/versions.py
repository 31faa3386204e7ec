"""Versions of installed frameworks: read, compare, and find modules, without importing anything.

Supports what adapters write (``>=1.22,<3``, ``!=2.1.0``, ``==1.4``). A full parser of PEP 440 is
not loaded, because this runs at every start.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# Compiled on first use: most versions are a release alone.
_VERSION = (
    r"\s*v?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<pre_n>\d*))?"
    r"(?P<post>[-_.]?(?:post|rev|r)[-_.]?\d*|-\d+)?"
    r"(?P<dev>[-_.]?dev[-_.]?\d*)?"
    r"(?:\+[a-z0-9.\-_]*)?\s*$"
)
_PRE_ORDER = {"a": 1, "alpha": 1, "b": 2, "beta": 2}
_DEV, _RC, _FINAL, _POST = 0, 3, 4, 5
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|<|>)\s*(\S+)\s*$")
_WATCHING = frozenset(("otelhooks", "wrapt"))  # their finders find nothing of their own
_COMPARE = {">=": ge, "<=": le, "==": eq, "!=": ne, "<": lt, ">": gt}

Key = tuple[tuple[int, ...], int, int]


def parse(version: str) -> Key | None:
    """Turn a version into a tuple that sorts as PEP 440 does.

    The local part is ignored; trailing zeros do not count, so 1.0 equals 1.

    Returns:
        The tuple, or None if the text is not a version.
    """
    parts = version.split(".")
    if all(map(str.isdecimal, parts)):
        return _release(parts), _FINAL, 0
    match = re.match(_VERSION, version, re.IGNORECASE)
    if match is None:
        return None
    release = _release(match["release"].split("."))
    if match["pre"]:
        stage = _PRE_ORDER.get(match["pre"].lower(), _RC)
        return release, stage, int(match["pre_n"] or 0)
    if match["post"]:
        return release, _POST, int(re.sub(r"\D", "", match["post"]) or 0)
    return release, _DEV if match["dev"] else _FINAL, 0


def _release(parts: list[str]) -> tuple[int, ...]:
    release = [int(part) for part in parts]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    return tuple(release)


def supports(version: str, supported: str) -> bool:
    """Return whether a version is in a range such as ``>=1.22,<3``.

    A pre-release of an upper bound is outside: ``3.0rc1`` is not in ``<3``. An unreadable version
    is in no range.

    Raises:
        ValueError: The range cannot be read; adapters write it, so this is a mistake in one.
    """
    key = parse(version)
    for clause in supported.split(","):
        match = _CLAUSE.match(clause)
        bound = parse(match[2]) if match else None
        if match is None or bound is None:
            message = f"version range cannot be read: `{supported}`"
            raise ValueError(message)
        if key is None or not _COMPARE[match[1]](key, bound):
            return False
        if match[1] == "<" and key[0] == bound[0]:
            return False
    return True


def at_least(version: str, bound: str) -> bool:
    """Return whether a version is `bound` or newer; an unreadable version counts as the newest."""
    key, limit = parse(version), parse(bound)
    if limit is None:
        message = f"version cannot be read: `{bound}`"
        raise ValueError(message)
    return key is None or key >= limit


def installed(distributions: tuple[str, ...], module: str) -> tuple[str, str]:
    """Find the installed distribution that owns a module.

    Args:
        distributions: Names under which the module is published, most usual first.
        module: Import name of the package.

    Returns:
        Name and version; the first name and an empty version if none is installed.
    """
    found: list[importlib.metadata.Distribution] = []
    names: list[str] = []
    for name in distributions:
        try:
            found.append(importlib.metadata.distribution(name))
        except importlib.metadata.PackageNotFoundError:
            continue
        names.append(name)
    if not found:
        return distributions[0], ""
    index = 0
    if len(found) > 1:
        init = f"{module.replace('.', '/')}/__init__.py"
        owners = [i for i, one in enumerate(found) if _has_file(one, init)]
        index = owners[0] if owners else 0
    return names[index], _version(found[index])


def _version(distribution: importlib.metadata.Distribution) -> str:
    """Read the version alone: the standard library would parse a project's whole description."""
    head, _, _ = (distribution.read_text("METADATA") or "").partition("\n\n")
    for line in head.splitlines():
        name, _, value = line.partition(":")
        if name.lower() == "version":
            return value.strip()
    return distribution.version


def _has_file(distribution: importlib.metadata.Distribution, path: str) -> bool:
    return any(file.as_posix() == path for file in distribution.files or ())


def exists(module: str) -> bool:
    """Return whether a module can be imported, without importing it or any of its parents.

    `importlib.util.find_spec` imports the parents, and wrapt's finder calls it; so the finders of
    the import system are called one by one, except those that only watch.
    """
    if module in sys.modules:
        return _loaded(module) is not None
    path: Sequence[str] | None = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        if name in sys.modules:
            path = getattr(_loaded(name), "__path__", None)
            found = _loaded(name) is not None
        else:
            found, path = _look_up(name, part, path)
        if not found or (path is None and name != module):
            return False
    return True


def _loaded(name: str) -> ModuleType | None:
    """Return an imported module; None if there is none, or a None entry blocks its import."""
    return sys.modules.get(name)


def _look_up(name: str, part: str, path: Sequence[str] | None) -> tuple[bool, Sequence[str] | None]:
    """Find one module below `path`: whether it exists, and where its own submodules are."""
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        if find_spec is None or type(finder).__module__.partition(".")[0] in _WATCHING:
            continue
        try:
            spec: ModuleSpec | None = find_spec(name, path)
        except (KeyError, ModuleNotFoundError):  # the latter since Python 3.15
            # A namespace package inside one that is not imported: its search path needs the parent.
            folders = [os.path.join(entry, part) for entry in path or ()]
            return True, [folder for folder in folders if os.path.isdir(folder)]
        if spec is not None:
            return True, spec.submodule_search_locations
    return False, None
