"""Which frameworks a project uses, which tools it defines, and where its program begins."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from otelhooks.cli.project import tools
from otelhooks.cli.project.files import MAX_BYTES, Module, read
from otelhooks.patching import versions
from otelhooks.setup import catalogue
from otelhooks.setup.known import KNOWN

__all__ = ["Entry", "Framework", "Started", "Survey", "survey"]

_USUAL_ENTRIES = ("main", "app", "__main__", "agent", "bot", "cli", "run", "server")
_MCP = {"mcp", "fastmcp"}
_CLIENTS = {"mcp.Client", "mcp.ClientSession", "mcp.client", "fastmcp.Client", "fastmcp.client"}
_TEST = re.compile(r"(^|/)(tests?|test_[^/]*|conftest\.py)(/|$)")
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


class Framework(NamedTuple):
    """An agent framework or model client that the project uses.

    Args:
        name: As in ``frameworks=``.
        distribution: The package that it is installed with.
        version: Installed version; empty if it is not installed here.
        supported: Range of versions that is guarded; empty if no adapter guards it.
        where: The first file that imports it, or the file that declares it.
        is_imported: Whether a file imports it.
    """

    name: str
    distribution: str
    version: str
    supported: str
    where: str
    is_imported: bool

    @property
    def is_guarded(self) -> bool:
        """Whether this version is guarded; True where it is not installed yet."""
        if not self.version:
            return bool(self.supported)
        return bool(self.supported) and versions.supports(self.version, self.supported)


class Entry(NamedTuple):
    """The file with which the program begins, as far as its files show.

    Args:
        path: Relative to the folder.
        line: Line below which otelhooks can be switched on: that of the last import at the top.
        imports: Whether it imports otelhooks.
        others: Other files that can be started as well.
    """

    path: str
    line: int
    imports: bool
    others: tuple[str, ...]


class Started(NamedTuple):
    """A call of ``instrument()`` that the project has already.

    Args:
        path: Relative to the folder.
        call: The call.
        module: What the file calls otelhooks; empty if it imports parts of it only.
        is_imported: Whether a file may import this one.
    """

    path: str
    call: ast.Call
    module: str
    is_imported: bool


class Survey(NamedTuple):
    """What was found.

    Args:
        files: How many files were parsed.
        frameworks: Those imported first, then those that are only declared.
        tools: Tools that rules can name.
        unnamed: Tools whose names a rule would take for something else.
        entry: Where the program begins; None if the files do not show it.
        started: Where it calls ``instrument()`` already; None if it does not.
        unread: Path and reason of each file that could not be read.
        is_cut: Whether there may be more files.
    """

    files: int
    frameworks: tuple[Framework, ...]
    tools: tuple[tools.Tool, ...]
    unnamed: tuple[tools.Tool, ...]
    entry: Entry | None
    started: Started | None
    unread: tuple[tuple[str, str], ...]
    is_cut: bool


class _Package(NamedTuple):
    name: str
    module: str
    distributions: tuple[str, ...]
    supported: str


def survey(folder: Path) -> Survey:
    """Read a project.

    Args:
        folder: An existing folder.
    """
    sources = read(folder)
    packages = list(_packages())
    local = {module.path.partition("/")[0].removesuffix(".py") for module in sources.modules}
    imported = {module.path: _imported(module.tree) - local for module in sources.modules}
    found: dict[tuple[str, ...], Framework] = {}
    with_agents: list[Module] = []
    servers: set[str] = set()
    for module in sources.modules:
        names = imported[module.path]
        used = [package for package in packages if package.module in names]
        if used or "otelhooks" in names:
            with_agents.append(module)
        if used and {package.name for package in used} <= _MCP and names.isdisjoint(_CLIENTS):
            servers.add(module.path)
        for package in used:
            framework = _framework(package, module.path, is_imported=True)
            found.setdefault(package.distributions, framework)
    unread = list(sources.unread)
    for where, distribution in _declared(folder, unread):
        for package in packages:
            if distribution in package.distributions and package.distributions not in found:
                found[package.distributions] = _framework(package, where, is_imported=False)
    every = tools.find(with_agents, sources.modules)
    ranked = sorted((m for m in with_agents if not _TEST.search(m.path)), key=_rank)
    return Survey(
        files=len(sources.modules),
        frameworks=tuple(found.values()),
        tools=tuple(tool for tool in every if tools.is_plain(tool.name)),
        unnamed=tuple(tool for tool in every if not tools.is_plain(tool.name)),
        entry=_entry([module for module in ranked if module.path not in servers] or ranked),
        started=next(filter(None, (_started(m, sources.modules) for m in ranked)), None),
        unread=tuple(unread),
        is_cut=sources.is_cut,
    )


# -- frameworks -----------------------------------------------------------------------------------


def _packages() -> Iterator[_Package]:
    """Yield every package that is known, guarded or not, by the module that is imported."""
    for name, modules in catalogue.ADAPTERS.items():
        packages = catalogue.adapter(name).packages
        for module in modules:
            inside = (f"{module}.", module)
            owner = next((p for p in packages if f"{p.module}.".startswith(inside)), packages[0])
            yield _Package(name, module, owner.distributions, owner.supported)
    for known in KNOWN:
        for module in known.modules:
            yield _Package(known.name, module, known.distributions, "")


def _framework(package: _Package, where: str, *, is_imported: bool) -> Framework:
    distribution, version = versions.installed(package.distributions, package.module)
    return Framework(package.name, distribution, version, package.supported, where, is_imported)


def _imported(tree: ast.Module) -> set[str]:
    """Return every module that a file imports, with the packages around it."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update((node.module, *(f"{node.module}.{each.name}" for each in node.names)))
    return {
        ".".join(parts[: n + 1])
        for parts in (name.split(".") for name in names)
        for n in range(len(parts))
    }


def _declared(folder: Path, unread: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield file and distribution of every requirement; what cannot be read goes to `unread`."""
    files = [*sorted(folder.glob("requirements*.txt")), folder / "pyproject.toml"]
    for path in files:
        if path.is_symlink() or not path.is_file():
            continue
        try:
            with path.open(encoding="utf-8") as file:
                text = file.read(MAX_BYTES)
            lines = _of_project(text) if path.suffix == ".toml" else text.splitlines()
        except (OSError, ValueError, RecursionError) as error:
            unread.append((path.name, f"it cannot be read: {type(error).__name__}"))
            continue
        for match in map(_NAME.match, lines):
            if match is not None:
                yield path.name, re.sub(r"[-_.]+", "-", match[1]).lower()


def _of_project(text: str) -> list[str]:
    """Return the requirements of a ``pyproject.toml``; none before Python 3.11, which has no TOML.

    Raises:
        ValueError: It is not TOML.
    """
    try:
        tomllib: Any = importlib.import_module("tomllib")
    except ModuleNotFoundError:
        return []
    found: dict[str, Any] = tomllib.loads(text)
    project, poetry = _table(found, "project"), _table(_table(found, "tool"), "poetry")
    groups = [
        project.get("dependencies"),
        *_table(project, "optional-dependencies").values(),
        *_table(found, "dependency-groups").values(),
        list(_table(poetry, "dependencies")),
    ]
    return [
        each
        for group in groups
        if isinstance(group, list)
        for each in cast("list[Any]", group)
        if isinstance(each, str)
    ]


def _table(of: dict[str, Any], key: str) -> dict[str, Any]:
    found = of.get(key)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


# -- where the program begins ---------------------------------------------------------------------


def _entry(ranked: list[Module]) -> Entry | None:
    """Return the likeliest entry: a main guard, then a usual name, then the only one there is."""
    if not ranked or (_rank(ranked[0])[:2] == (True, len(_USUAL_ENTRIES)) and len(ranked) > 1):
        return None
    module = ranked[0]
    last = 0
    for node in module.tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text and not isinstance(node, (ast.Import, ast.ImportFrom)):
            break
        last = node.end_lineno or last
    imports = any(
        isinstance(node, ast.Import) and any(alias.name == "otelhooks" for alias in node.names)
        for node in module.tree.body
    )
    others = tuple(each.path for each in ranked[1:] if _has_guard(each.tree))
    return Entry(module.path, last, imports, others)


def _started(module: Module, every: Iterable[Module]) -> Started | None:
    """Return the first call of ``instrument()`` in a file, by what its imports name so."""
    names: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found = (each for each in node.names if each.name == "otelhooks")
            names |= {each.asname or each.name: "otelhooks" for each in found}
        elif isinstance(node, ast.ImportFrom) and node.module == "otelhooks":
            names |= {each.asname or each.name: f"otelhooks.{each.name}" for each in node.names}
    calls: list[ast.Call] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            first, dot, rest = tools.dotted(node.func).partition(".")
            if f"{names.get(first)}{dot}{rest}" == "otelhooks.instrument":
                calls.append(node)
    if not calls:
        return None
    known_as = next((name for name, what in names.items() if what == "otelhooks"), "")
    name = module.path.removesuffix("/__init__.py").rpartition("/")[2].removesuffix(".py")
    is_imported = any(name in _parts(other.tree) for other in every)
    return Started(module.path, min(calls, key=lambda c: c.lineno), known_as, is_imported)


def _parts(tree: ast.Module) -> set[str]:
    """Return the parts of all names that a file imports."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names += (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return {part for name in names for part in name.split(".")}


def _rank(module: Module) -> tuple[bool, int, int, str]:
    stem = module.path.rpartition("/")[2].removesuffix(".py")
    usual = _USUAL_ENTRIES.index(stem) if stem in _USUAL_ENTRIES else len(_USUAL_ENTRIES)
    return not _has_guard(module.tree), usual, module.path.count("/"), module.path


def _has_guard(tree: ast.Module) -> bool:
    """Return whether a file has ``if __name__ == "__main__"``."""
    return any(
        isinstance(each, ast.Name) and each.id == "__name__"
        for node in tree.body
        if isinstance(node, ast.If)
        for each in ast.walk(node.test)
    )
