"""Which of a file's names mean something of another package: imports, aliases, scopes.

Follows Python's scoping without running anything: what a name is bound to in the innermost scope
that binds it. A name that an import binds and something else as well, as with ``try: import``,
counts as imported.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otelhooks_migrate.upstream import Upstream

__all__ = ["Reference", "Scope", "from_module", "parts", "resolve"]

_Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_MOST_STEPS = 20  # of an alias to an alias: a circle ends


@dataclass(frozen=True)
class Reference:
    """What an expression means in the other package.

    Attributes:
        kind: ``member`` is a class's attribute; ``instance`` an object of a class; ``unknown`` a
            name that the recorded package does not have.
        name: Dotted name; of an instance that of its class.
        module: Module that it was taken from.
        upstream: The package.
        is_spelled: Whether the file spells the dotted name from the package's root on.
        through: Module that was reached as an attribute of an imported one; ``*`` for a name of a
            star import; else "".
    """

    kind: Literal["module", "name", "member", "instance", "unknown"]
    name: str
    module: str
    upstream: Upstream
    is_spelled: bool = False
    through: str = ""

    @property
    def shown(self) -> str:
        """The name as the file takes it: of the module it is imported from."""
        plain = self.name.rpartition(".")[2]
        return f"{self.module}.{plain}" if self.kind in {"name", "unknown"} else self.name


class Scope:
    """The names that one module, class, function or comprehension binds."""

    def __init__(self, parent: Scope | None = None, *, is_class: bool = False) -> None:
        """Start empty."""
        self.parent = parent
        self.is_class = is_class
        self.modules: dict[str, str] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        self.aliases: dict[str, ast.expr] = {}
        self.annotated: dict[str, ast.expr] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.bound: set[str] = set()
        self.outer: set[str] = set()

    def binds(self, name: str) -> bool:
        """Return whether the scope gives the name a meaning."""
        return name in self.bound and name not in self.outer

    def inner(self, node: ast.AST) -> Scope:
        """Return the scope that a function, class or comprehension opens."""
        scope = Scope(self, is_class=isinstance(node, ast.ClassDef))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            scope.take_parameters(node)
            body = node.body if isinstance(node.body, list) else [node.body]
            scope.take(body)
        elif isinstance(node, ast.ClassDef):
            scope.take(node.body)
        elif isinstance(node, _COMPREHENSIONS):
            scope.take([each.target for each in node.generators])
        return scope

    def take_parameters(self, function: _Function) -> None:
        """Bind a function's parameters."""
        every = function.args
        extra = [each for each in (every.vararg, every.kwarg) if each is not None]
        for each in (*every.posonlyargs, *every.args, *every.kwonlyargs):
            self.bound.add(each.arg)
            if each.annotation is not None:
                self.annotated[each.arg] = each.annotation
        self.bound.update(each.arg for each in extra)

    def take(self, nodes: Sequence[ast.AST]) -> None:
        """Bind what statements bind, without those of functions and classes inside them."""
        left = list(nodes)
        while left:
            node = left.pop()
            self._take_one(node)
            if parts(node) is None:
                left += ast.iter_child_nodes(node)

    def _take_one(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                self.bound.add(name)
                self.modules[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.bound.add(alias.asname or alias.name)
                if not node.level and node.module:
                    self.imported[alias.asname or alias.name] = (node.module, alias.name)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.bound.add(node.name)
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.outer.update(node.names)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.aliases[target.id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self.annotated[node.target.id] = node.annotation
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self.bound.add(node.name)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            self.bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            self.bound.add(node.rest)

    def scope_of(self, name: str) -> Scope | None:
        """Return the scope that binds a name as it is seen here; a class's is seen only inside."""
        scope: Scope | None = self
        while scope is not None:
            if scope.binds(name) and (scope is self or not scope.is_class):
                return scope
            scope = scope.parent
        return None


def resolve(
    node: ast.expr, scope: Scope, upstreams: Sequence[Upstream], steps: int = _MOST_STEPS
) -> Reference | None:
    """Return what an expression means in one of the packages, None for nothing of theirs."""
    if not steps:
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _quoted(node.value, scope, upstreams, steps)
    if isinstance(node, ast.Name):
        return _name(node.id, scope, upstreams, steps)
    if isinstance(node, ast.Attribute):
        base = resolve(node.value, scope, upstreams, steps - 1)
        return base and _attribute(base, node.attr, upstreams)
    if isinstance(node, ast.Call):
        called = resolve(node.func, scope, upstreams, steps - 1)
        return called and _instance(called)
    return None


def _quoted(text: str, scope: Scope, upstreams: Sequence[Upstream], steps: int) -> Reference | None:
    """Resolve an annotation that is written as text."""
    try:
        parsed = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    is_dotted = isinstance(parsed, (ast.Name, ast.Attribute))
    return resolve(parsed, scope, upstreams, steps - 1) if is_dotted else None


def _name(name: str, scope: Scope, upstreams: Sequence[Upstream], steps: int) -> Reference | None:
    binding = scope.scope_of(name)
    if binding is None:
        return _starred(name, scope, upstreams)
    if name in binding.imported:
        module, original = binding.imported[name]
        return from_module(module, original, upstreams)
    if name in binding.modules:
        module = binding.modules[name]
        return _module(module, upstreams, is_spelled=module == name)
    if name in binding.aliases:
        return resolve(binding.aliases[name], binding, upstreams, steps - 1)
    if name in binding.annotated:
        annotation = resolve(binding.annotated[name], binding, upstreams, steps - 1)
        return annotation and _instance(annotation)
    return None


def _starred(name: str, scope: Scope, upstreams: Sequence[Upstream]) -> Reference | None:
    """Look for a name that nothing binds in what ``from module import *`` brought."""
    outermost = scope
    while outermost.parent is not None:
        outermost = outermost.parent
    for module, original in outermost.imported.values():
        if original == "*":
            found = from_module(module, name, upstreams)
            if found is not None and found.kind != "unknown":
                return replace(found, through="*")
    return None


def _module(
    name: str, upstreams: Sequence[Upstream], *, is_spelled: bool = False
) -> Reference | None:
    """Return a module, or one of the packages that it lies around, such as ``google``."""
    for upstream in upstreams:
        if upstream.has_module(name) or upstream.judgement.root.startswith(f"{name}."):
            return Reference("module", name, name, upstream, is_spelled=is_spelled)
    return None


def from_module(module: str, name: str, upstreams: Sequence[Upstream]) -> Reference | None:
    """Return what ``from module import name`` brings, None if it is of another package."""
    dotted = f"{module}.{name}"
    for upstream in upstreams:
        if dotted == upstream.judgement.root:
            return Reference("module", dotted, dotted, upstream)
        if upstream.has_module(module):
            home = upstream.home(module, name)
            if upstream.is_recorded(dotted):
                # `policy` in one package is the module of that name in another one's place.
                return Reference("module", home or dotted, module, upstream)
            kind = "unknown" if home is None else "name"
            return Reference(kind, home or dotted, module, upstream)
    return None


def _attribute(base: Reference, name: str, upstreams: Sequence[Upstream]) -> Reference | None:
    upstream, is_spelled, through = base.upstream, base.is_spelled, base.through
    if base.kind == "module":
        if not upstream.has_module(base.name):  # `google` of `google.antigravity`
            return _module(f"{base.name}.{name}", upstreams, is_spelled=is_spelled)
        found = from_module(base.name, name, upstreams)
        if found is not None and found.kind == "module" and not is_spelled:
            through = found.name
        return found and replace(found, is_spelled=is_spelled, through=through)
    if base.kind == "name" and not upstream.fact(base.name):  # perhaps a module: nobody recorded it
        return replace(base, name=f"{base.name}.{name}", module=base.name)
    if base.kind in {"name", "instance"} and name in upstream.fact(base.name).get("members", {}):
        return replace(base, kind="member", name=f"{base.name}.{name}")
    return None


def _instance(called: Reference) -> Reference | None:
    if called.kind == "name" and called.upstream.fact(called.name).get("kind") != "function":
        return replace(called, kind="instance")
    return None


def parts(node: ast.AST) -> tuple[list[ast.AST], list[ast.AST]] | None:
    """Return the parts of a node that opens a scope: those outside of it, those inside.

    None for a node that opens none.
    """
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords], [*node.body]
    if isinstance(node, _COMPREHENSIONS):
        return [], list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Lambda):
        return [*_of_parameters(node)], [node.body]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        returns = [node.returns] if node.returns else []
        return [*node.decorator_list, *_of_parameters(node), *returns], [*node.body]
    return None


def _of_parameters(function: _Function) -> Iterator[ast.AST]:
    """Yield defaults and annotations."""
    every = function.args
    yield from every.defaults
    yield from (each for each in every.kw_defaults if each is not None)
    named = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
    yield from (each.annotation for each in named if each and each.annotation)
