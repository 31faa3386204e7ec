"""What `import otelhooks` costs and shows: modules it must not load, `__all__` in each module."""

from __future__ import annotations

import ast
import contextlib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import otelhooks

if TYPE_CHECKING:
    from types import ModuleType

PACKAGE = Path(otelhooks.__file__).parent

# Heavy or optional, imported where they are used. The agent frameworks among them are installed
# where this file runs beside an adapter's tests.
NOT_AT_IMPORT = {
    *(
        "agents",
        "claude_agent_sdk",
        "crewai",
        "google.adk",
        "google.antigravity",
        "google.genai",
        "haystack",
        "hedera_agent_kit",
        "langchain",
        "langchain_core",
        "langgraph",
        "llama_index",
    ),
    *("anthropic", "fastmcp", "litellm", "mcp", "openai", "pydantic_ai", "strands"),
    *("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.instrumentation"),
    *("click", "packaging", "rich", "ruamel", "sqlite3", "starlark", "yaml"),
    *("jinja2", "redis", "starlette", "uvicorn"),
}

# They do something when imported.
NOT_TO_IMPORT = {"otelhooks.__main__", "otelhooks.cli.autostart.sitecustomize"}


def modules() -> list[str]:
    """Names of all modules of the package."""
    files = (path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.py"))
    dotted = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files}
    return sorted(dotted - NOT_TO_IMPORT)


def packages() -> list[str]:
    """Names of the packages that re-export: those with an `__all__`."""
    found = (name for name in modules() if PACKAGE.parent.joinpath(*name.split(".")).is_dir())
    return [name for name in found if "__all__" in ast.unparse(syntax_tree(name))]


def load(name: str) -> ModuleType:
    """Import a module, or skip the test if it is for a package that is not installed here."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").startswith(tuple(NOT_AT_IMPORT)):
            pytest.skip(f"`{name}` is for `{error.name}`, which is not installed")
        if "support is not installed" in str(error):  # fastmcp-slim, without its server
            pytest.skip(f"`{name}`: {error}")
        raise


def syntax_tree(name: str) -> ast.Module:
    path = PACKAGE.parent.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def written_all(tree: ast.Module) -> list[str]:
    """The names of an `__all__` that is a plain list, empty for a computed one and for none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            with contextlib.suppress(ValueError):
                return list(ast.literal_eval(node.value))
    return []


def order_in_all(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: the order that ruff's RUF022 writes."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("name", modules())
def test_all_is_sorted_and_each_name_exists(name: str) -> None:
    """Sorted by hand, so that a reader finds a name; an alias may compute its own from another."""
    module = load(name)
    exported = list(getattr(module, "__all__", []))
    written = written_all(syntax_tree(name))

    assert written == sorted(written, key=order_in_all)
    assert len(exported) == len(set(exported))
    assert [e for e in exported if not hasattr(module, e)] == []


@pytest.mark.parametrize("name", packages())
def test_a_package_exports_what_it_reexports(name: str) -> None:
    """A package's `__all__` names each public name that it imports from us and does not use."""
    module = load(name)
    tree = syntax_tree(name)
    reexported = {
        alias.asname or alias.name
        for node in tree.body  # not what is under TYPE_CHECKING or in a function
        if isinstance(node, ast.ImportFrom)
        and (node.level or (node.module or "")[:9] == "otelhooks")
        for alias in node.names
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}

    public = {name for name in reexported - used if not name.startswith("_")}
    assert public - set(module.__all__) == set()


@pytest.mark.parametrize("package", ["hooks", "policy"])
def test_hooks_and_policy_import_no_opentelemetry(package: str) -> None:
    """Decisions are made without telemetry."""
    found = [
        f"{path.name}: {name}"
        for path in (PACKAGE / package).rglob("*.py")
        for name in imports_of(path)
        if name.startswith("opentelemetry")
    ]

    assert found == []


def imports_of(path: Path) -> list[str]:
    """Names that the import statements of a file name, relative ones left out."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found
