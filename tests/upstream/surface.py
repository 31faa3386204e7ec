"""What a package offers, as data: names, what each takes, members of classes.

`python tests/upstream/surface.py DISTRIBUTION` prints it for the installed one, which is how the
tables of `docs/coming-from/checker` were recorded:

    {"distribution": ..., "version": ...,
     "modules": {module: {name: where it is defined}},
     "names": {where it is defined: {"kind": ..., "takes": ..., "members": {name: takes}}}}

`takes` is a signature without annotations and default values, `tool, mcp_tools=, *, when=`, behind
`await ` where a call is awaited, or null for what is not called.
"""

from __future__ import annotations

import enum
import importlib
import importlib.metadata
import inspect
import json
import pkgutil
import sys
import types
from typing import TYPE_CHECKING, Any, TypeVar, get_args

if TYPE_CHECKING:
    from collections.abc import Container

MODULES = {
    "google-antigravity": (
        "google.antigravity",
        "google.antigravity.hooks",
        "google.antigravity.hooks.hook_runner",
        "google.antigravity.hooks.hooks",
        "google.antigravity.hooks.policy",
        "google.antigravity.policy",
        "google.antigravity.types",
        "google.antigravity.utils.interactive",
        "google.antigravity.utils.otel",
        "google.antigravity.utils.state",
    ),
    "hedera-agent-kit": (
        "hedera_agent_kit",
        "hedera_agent_kit.hooks",
        "hedera_agent_kit.hooks.hcs_audit_trail_hook",
        "hedera_agent_kit.hooks.hol_audit_trail_hook",
        "hedera_agent_kit.policies",
        "hedera_agent_kit.policies.max_recipients_policy",
        "hedera_agent_kit.policies.reject_tool_policy",
        "hedera_agent_kit.shared",
        "hedera_agent_kit.shared.configuration",
        "hedera_agent_kit.shared.hook",
        "hedera_agent_kit.shared.policy",
    ),
}


def surface(distribution: str) -> dict[str, Any]:
    """Return what the modules of an installed distribution offer.

    Names that come from modules which are not listed are named, not described.
    """
    modules = {name: importlib.import_module(name) for name in MODULES[distribution]}
    offered = {
        name: {each: home(modules, name, each) for each in sorted(vars(module))}
        for name, module in modules.items()
    }
    offered = {
        name: {each: where for each, where in found.items() if where}
        for name, found in offered.items()
    }
    for name, module in modules.items():
        for each in pkgutil.iter_modules(getattr(module, "__path__", ())):
            if not each.name.endswith("_test"):
                offered[name].setdefault(each.name, f"{name}.{each.name}")
    names = {
        where: describe(vars(modules[name])[each], modules)
        for name, found in offered.items()
        for each, where in found.items()
        if home(modules, name, each) and (where in modules or where.rpartition(".")[0] in modules)
    }
    return {
        "distribution": distribution,
        "version": importlib.metadata.version(distribution),
        "modules": {name: dict(sorted(found.items())) for name, found in offered.items()},
        "names": dict(sorted(names.items())),
    }


def home(modules: dict[str, types.ModuleType], module: str, name: str) -> str:
    """Return the dotted name under which something is defined, "" if the module does not offer it.

    Not offered are private names, other packages' names, and modules that a module uses itself.
    """
    value = vars(modules[module]).get(name)
    if name.startswith("_") or isinstance(value, TypeVar) or name == "TYPE_CHECKING":
        return ""
    if isinstance(value, types.ModuleType):
        where = value.__name__
        return where if where in modules and where == f"{module}.{name}" else ""
    if isinstance(value, (type, types.FunctionType)):
        where = value.__module__
        if where.partition(".")[0] != module.partition(".")[0]:
            return ""
        local = "<locals>" in value.__qualname__  # made by a factory, known by its name only
        return f"{where}.{name if local else value.__qualname__}"
    # A constant or a name for other types: the innermost module that has the same object.
    has = [each for each, found in modules.items() if vars(found).get(name) is value]
    exported: list[str] = getattr(modules[module], "__all__", [])
    is_own = name in exported or name.isupper() or bool(get_args(value))
    return f"{max(has, key=lambda each: each.count('.'))}.{name}" if is_own else ""


def describe(value: Any, modules: Container[str]) -> dict[str, Any]:
    """Return kind, signature and members of a value."""
    if isinstance(value, types.ModuleType):
        return {"kind": "module"}
    if isinstance(value, type):
        kind = "record" if hasattr(value, "model_fields") else "class"
        if issubclass(value, enum.Enum):
            return {"kind": "enum", "members": members(value, modules)}
        return {"kind": kind, "takes": takes(value), "members": members(value, modules)}  # pyright: ignore[reportUnknownArgumentType]
    if callable(value) and hasattr(value, "__name__") and not get_args(value):
        return {"kind": "function", "takes": takes(value)}
    return {"kind": "value"}


def members(cls: type, modules: Container[str]) -> dict[str, str | None]:
    """Return the public members that a class and its bases of the same package define."""
    found: dict[str, str | None] = {}
    for base in reversed(cls.__mro__):
        if base.__module__ not in modules:
            continue
        fields: dict[str, Any] = vars(base).get("__annotations__", {})
        found |= {name: None for name in fields if not name.startswith("_")}
        for name, value in vars(base).items():
            if name.startswith("_") or name == "model_config":
                continue
            if isinstance(value, (classmethod, staticmethod)):
                found[name] = takes(getattr(cls, name))
            else:
                found[name] = takes(value, method=True) if inspect.isfunction(value) else None
    return dict(sorted(found.items()))


def takes(value: Any, *, method: bool = False) -> str:
    """Return a signature without annotations and values of defaults."""
    try:
        parameters = list(inspect.signature(value).parameters.values())[method:]
    except ValueError:
        return "*args, **kwargs"
    bare = [
        each.replace(
            annotation=each.empty, default=each.empty if each.default is each.empty else Mark()
        )
        for each in parameters
    ]
    awaited = "await " if inspect.iscoroutinefunction(value) else ""
    return awaited + str(inspect.Signature(bare))[1:-1]


def not_taken(theirs: str, ours: str) -> set[str]:
    """Return what `ours` does not take of what `theirs` does, both as `takes` writes them.

    Names of keywords, indexes of positions, with a plus what only `ours` cannot do without, and
    `await` where only one of them is awaited.
    """
    if theirs.startswith("await ") != ours.startswith("await "):
        return {"await"}
    there, here = parameters(theirs), parameters(ours)
    takes_any = any(each.startswith("**") for each in here)
    positions = [name for name, (kind, _) in here.items() if kind == "position"]
    found: set[str] = set()
    for index, name in enumerate(n for n, (kind, _) in there.items() if kind == "position"):
        if index >= len(positions):
            found.add(str(index))
        elif positions[index] != name and name in here:
            found.add(str(index))
    for name, (kind, has_default) in there.items():
        if kind == "rest" or (name not in here and takes_any):
            continue
        if name not in here or (has_default and not here[name][1]):
            found.add(name)
    needed = {name for name, (kind, default) in here.items() if kind != "rest" and not default}
    if len(there) < len(needed):
        found |= {f"+{name}" for name in needed - set(there)}
    return found


def parameters(written: str) -> dict[str, tuple[str, bool]]:
    """Return kind (position, keyword, rest) of each parameter, and whether it has a default."""
    found: dict[str, tuple[str, bool]] = {}
    kind = "position"
    for part in filter(None, written.removeprefix("await ").split(", ")):
        if part.startswith("*"):
            kind = "keyword"
            if part != "*":
                found[part] = ("rest", True)
        elif part != "/":
            found[part.rstrip("=")] = (kind, part.endswith("="))
    return found


class Mark:
    """Replaces a default value."""

    def __repr__(self) -> str:
        return ""


if __name__ == "__main__":
    json.dump(surface(sys.argv[1]), sys.stdout, indent=1)
    sys.stdout.write("\n")
