"""What of a file works here, line by line."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otelhooks_migrate.in_place import changes, data_parameter
from otelhooks_migrate.scopes import (
    Reference,
    Scope,
    from_module,
    parts,
    resolve,
)
from otelhooks_migrate.upstream import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otelhooks_migrate.upstream import Remark, Upstream

__all__ = ["Finding", "Findings", "find"]

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")
_STAR = "a star import brings other names here: name those that the file uses"
_IN_PLACE = "arguments changed in place deny: return `HookResult(modified_args={...})`"
_TEXT = "text is not changed: do it by hand"
_BY_NAME = "import it by its name: `from {} import {}`"


@dataclass(frozen=True)
class Finding:
    """What is to be said about one place.

    Attributes:
        node: The place.
        verdict: What becomes of the name.
        name: Dotted name there.
        write: What to import in its place, "" where nothing is.
        reason: Why, and what to do; "" where all is the same.
        is_by_hand: Whether only a human can change it.
    """

    node: ast.AST
    verdict: Verdict
    name: str
    write: str = ""
    reason: str = ""
    is_by_hand: bool = False


@dataclass
class Findings:
    """All of a file.

    Attributes:
        found: In the order of the file.
        uses: Each use that spells its dotted name, ``google.antigravity.types.ToolCall``, with what
            takes its place: where the import changes, the use has to change as well.
    """

    found: list[Finding] = field(default_factory=list[Finding])
    uses: list[tuple[ast.Attribute, str]] = field(default_factory=list["tuple[ast.Attribute, str]"])


def find(tree: ast.Module, upstreams: Sequence[Upstream]) -> Findings:
    """Return what is to be said about a file.

    Args:
        tree: The parsed file.
        upstreams: Packages that it may come from.
    """
    scope = Scope()
    scope.take(tree.body)
    reader = _Reader(upstreams)
    reader.read(tree.body, scope)
    reader.findings.found.sort(key=lambda each: _position(each.node))
    return reader.findings


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


class _Reader:
    """Walks a file once, with the scope of each expression."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self.upstreams = upstreams
        self.findings = Findings()
        self.said: set[str] = set()

    def say(self, finding: Finding) -> None:
        self.findings.found.append(finding)

    def remark(self, node: ast.AST, name: str, remark: Remark, write: str = "") -> None:
        self.say(Finding(node, remark.verdict, name, write, remark.reason))

    def read(self, nodes: Sequence[ast.AST], scope: Scope) -> None:
        """Read statements or expressions of one scope, and the scopes in it.

        A sum of a thousand terms is nested as deep, so only scopes are read by recursion.
        """
        left = [*reversed(nodes)]
        while left:
            left += reversed([*self.read_one(left.pop(), scope)])

    def read_one(self, node: ast.AST, scope: Scope) -> Iterable[ast.AST]:
        """Read a node; return those of its parts that remain to be read in the same scope."""
        if isinstance(node, ast.Import):
            self.read_import(node)
        elif isinstance(node, ast.ImportFrom):
            self.read_from_import(node)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            return self.read_use(node, scope)
        elif isinstance(node, ast.Constant):
            self.read_text(node)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            return self.read_parts(node, scope)
        return ()  # of the last kind are docstrings

    def read_parts(self, node: ast.AST, scope: Scope) -> Iterable[ast.AST]:
        """Read what has parts; return those of the same scope."""
        if isinstance(node, ast.Call):
            self.read_arguments(node, scope)
        elif isinstance(node, ast.ClassDef):
            self.read_class(node, scope)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for each in node.decorator_list:
                found = resolve(each, scope, self.upstreams)
                if found is not None and found.name in found.upstream.judgement.deciders:
                    self.read_decider(node, found, is_method=False)
        split = parts(node)
        if split is None:
            return ast.iter_child_nodes(node)
        around, inside = split
        self.read(inside, scope.inner(node))
        return around

    # -- imports ----------------------------------------------------------------------------------

    def read_import(self, node: ast.Import) -> None:
        """``import module`` and ``import module as name``."""
        for alias in node.names:
            for upstream in self.upstreams:
                if upstream.has_module(alias.name):
                    self.read_module(alias, upstream, alias.name, "")

    def read_module(self, node: ast.alias, upstream: Upstream, name: str, before: str) -> None:
        """An import of a whole module."""
        remark = upstream.remark(name)
        here = upstream.judgement.modules.get(name, "")
        if remark is not None:
            self.remark(node, name, remark)
        elif here:
            self.say(Finding(node, Verdict.WORKS, name, _import(here, node.asname, before)))
        elif name == upstream.judgement.root:
            is_whole = node.asname or before
            reason = "the package stays for its agents; import what hooks and policies need by name"
            self.say(Finding(node, Verdict.STAYS, name, "", reason, is_by_hand=bool(is_whole)))
        else:
            reason = "no module of hooks and policies"
            self.say(Finding(node, Verdict.STAYS, name, "", reason))

    def read_from_import(self, node: ast.ImportFrom) -> None:
        """``from module import name``."""
        if node.level or not node.module:
            return
        for alias in node.names:
            if alias.name == "*":
                self.read_star(node, alias)
                continue
            found = from_module(node.module, alias.name, self.upstreams)
            if found is None:
                continue
            if found.kind == "module":
                self.read_module(alias, found.upstream, found.name, "from")
            else:
                here = found.upstream.here(node.module, alias.name)
                self.read_name(alias, found, here, here and _from_import(here, alias))

    def read_star(self, node: ast.ImportFrom, alias: ast.alias) -> None:
        for upstream in self.upstreams:
            module = node.module or ""
            if upstream.has_module(module):
                here = upstream.judgement.modules.get(module, "")
                write = here and f"from {here} import ..."
                name = f"{module}.*"
                self.say(Finding(alias, Verdict.DIFFERS, name, write, _STAR, is_by_hand=True))

    # -- uses -------------------------------------------------------------------------------------

    def read_use(self, node: ast.Name | ast.Attribute, scope: Scope) -> Iterable[ast.AST]:
        """A name, or an attribute of one; the longest part that means something counts.

        Returns:
            What the attribute is of, where the attribute itself means nothing.
        """
        found = resolve(node, scope, self.upstreams)
        if found is not None and found.kind == "member":
            remark = found.upstream.judgement.remarks.get(found.name)
            if remark is not None:
                self.remark(node, found.name, remark)
        elif found is not None and found.kind in {"name", "unknown"}:
            if isinstance(node, ast.Attribute):
                self.read_attribute(node, found)
            elif found.through == "*":
                self.read_name(node, found, found.upstream.here(found.module, node.id))
            return ()
        return (node.value,) if isinstance(node, ast.Attribute) else ()

    def read_attribute(self, node: ast.Attribute, found: Reference) -> None:
        """Something in a module, written as the module's attribute."""
        upstream, module = found.upstream, found.module
        here = upstream.here(module, node.attr)
        known = upstream.judgement.modules.get(module, "")
        remark = upstream.remark(found.name)
        is_gone = found.kind == "unknown" or (remark and remark.verdict is Verdict.MISSING)
        if node.attr.startswith("__"):
            pass  # every module has such
        elif found.is_spelled:
            self.findings.uses.append((node, here))
            self.read_name(node, found, here, here)
        elif is_gone or (here == f"{known}.{node.attr}" and not found.through):
            self.read_name(node, found, here)
        elif not known and not here:
            pass  # a module that stays, and its name with it
        else:
            # The import of the module will change, and then this is not there any more.
            reason = _BY_NAME.format(here.rpartition(".")[0] or module, node.attr)
            verdict = remark.verdict if remark else Verdict.DIFFERS
            reason = f"{reason}; {remark.reason}" if remark else reason
            self.say(Finding(node, verdict, found.shown, "", reason, is_by_hand=True))

    def read_name(self, node: ast.AST, found: Reference, here: str, write: str = "") -> None:
        """Say what becomes of a name; where it works, only at its import and its first use.

        Args:
            node: Import or use.
            found: What it means.
            here: Dotted name that takes its place, "" where none does.
            write: What to write instead of the node, "" where its import is what changes.
        """
        upstream = found.upstream
        remark = upstream.remark(found.name)
        if found.kind == "unknown":
            is_private = found.name.rpartition(".")[2].startswith("_")
            reason = "it is private there" if is_private else f"{upstream.label} has no such name"
            self.say(Finding(node, Verdict.MISSING, found.shown, "", reason))
        elif remark is not None:
            self.remark(node, found.shown, remark, write)
        elif not here:
            reason = "no part of hooks and policies"
            self.say(Finding(node, Verdict.STAYS, found.shown, "", reason))
        elif isinstance(node, ast.alias) or found.name not in self.said:
            self.say(Finding(node, Verdict.WORKS, found.shown, write))
        self.said.add(found.name)

    def read_text(self, node: ast.Constant) -> None:
        """Text that names a module or something in it, for `import_module` or a patch."""
        if not isinstance(node.value, str) or not _DOTTED.match(node.value):
            return
        for upstream in self.upstreams:
            if upstream.has_module(node.value):
                here = _named(upstream, node.value)
                remark = upstream.remark(node.value)
                if here:
                    say = Finding(node, Verdict.DIFFERS, node.value, here, _TEXT, is_by_hand=True)
                    self.say(say)
                elif remark is not None and remark.verdict is Verdict.MISSING:
                    self.remark(node, node.value, remark)

    def read_arguments(self, node: ast.Call, scope: Scope) -> None:
        """Arguments of a call that are taken otherwise, or not at all."""
        called = resolve(node.func, scope, self.upstreams)
        if called is None or called.kind not in {"name", "member"}:
            return
        upstream, remarks = called.upstream, called.upstream.judgement.remarks
        for key in ("", *map(str, range(len(node.args)))):
            name = f"{called.name}({key})"
            if name in remarks:
                self.remark(node, f"{called.shown}({key})", remarks[name])
        known = upstream.keywords(called.name)
        for keyword in node.keywords:
            if keyword.arg is None:
                continue
            name = f"{called.name}({keyword.arg})"
            shown = f"{called.shown}({keyword.arg})"
            if name in remarks:
                self.remark(keyword, shown, remarks[name])
            elif known is not None and keyword.arg not in known:
                reason = f"{upstream.label} takes no such keyword"
                self.say(Finding(keyword, Verdict.MISSING, shown, "", reason))

    # -- classes ----------------------------------------------------------------------------------

    def read_class(self, node: ast.ClassDef, scope: Scope) -> None:
        """What a class stems from, and which of its members it replaces."""
        bases = list(self.bases(node, scope))
        defined = set(_defined(node))
        inherited = defined | {name for _, local in bases for name in local}
        for base, _ in bases:
            judgement, cls = base.upstream.judgement, base.name
            for member in ast.iter_child_nodes(node):
                for name in _names(member):
                    if f"{cls}.{name}" in judgement.overrides:
                        key = f"{cls}.{name}"
                        self.remark(member, key, judgement.overrides[key])
            if cls in judgement.deciders:
                for member in node.body:
                    if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        if member.name == "run":
                            self.read_decider(member, base, is_method=True)
            if cls in judgement.lacks:
                wanted, remark = judgement.lacks[cls]
                if not wanted & inherited:
                    self.remark(node, cls, remark)

    def read_decider(
        self,
        function: ast.FunctionDef | ast.AsyncFunctionDef,
        found: Reference,
        *,
        is_method: bool,
    ) -> None:
        """What a hook does that decides about calls."""
        data = data_parameter(function, is_method=is_method)
        for node in changes(function, data):
            self.say(Finding(node, Verdict.DIFFERS, found.shown, "", _IN_PLACE))

    def bases(
        self, node: ast.ClassDef, scope: Scope, steps: int = 20
    ) -> Iterator[tuple[Reference, frozenset[str]]]:
        """Yield each class of the other package that a class stems from.

        With it the members that classes of the file between the two define.
        """
        for each in node.bases:
            written = each.value if isinstance(each, ast.Subscript) else each
            found = resolve(written, scope, self.upstreams)
            if found is not None and found.kind == "name":
                yield found, frozenset()
            elif isinstance(written, ast.Name) and steps:
                binding = scope.scope_of(written.id)
                local = binding and binding.classes.get(written.id)
                if binding and local and local is not node:
                    between = frozenset(_defined(local))
                    for base, more in self.bases(local, binding, steps - 1):
                        yield base, between | more


def _names(member: ast.AST) -> list[str]:
    """Return the names that a statement of a class's body defines."""
    if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [member.name]
    if isinstance(member, ast.Assign):
        return [target.id for target in member.targets if isinstance(target, ast.Name)]
    if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
        return [member.target.id]
    return []


def _defined(node: ast.ClassDef) -> Iterator[str]:
    """Yield what a class defines: its members, and attributes that methods give to `self`."""
    for member in node.body:
        yield from _names(member)
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            yield each.attr


def _import(here: str, asname: str | None, before: str) -> str:
    """Return the statement that imports a module."""
    parent, _, name = here.rpartition(".")
    if before and parent:
        return f"from {parent} import {name}" + (f" as {asname}" if asname else "")
    return f"import {here}" + (f" as {asname}" if asname else "")


def _from_import(here: str, alias: ast.alias) -> str:
    """Return the statement that imports a name, under the name that the file uses."""
    module, _, name = here.rpartition(".")
    bound = alias.asname or alias.name
    return f"from {module} import {name}" + (f" as {bound}" if bound != name else "")


def _named(upstream: Upstream, text: str) -> str:
    """Return what takes the place of a dotted name in a text, "" if nothing does."""
    if text in upstream.judgement.modules:
        return upstream.judgement.modules[text]
    module, _, name = text.rpartition(".")
    return upstream.here(module, name) if upstream.is_recorded(module) else ""
