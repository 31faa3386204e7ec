"""New imports in the place of old ones, as text."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otelhooks_migrate.scopes import from_module
from otelhooks_migrate.upstream import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otelhooks_migrate.findings import Findings
    from otelhooks_migrate.source import Source
    from otelhooks_migrate.upstream import Upstream

__all__ = ["Unclean", "rewrite"]

_WIDTH = 100


class Unclean(Exception):
    """The imports cannot be changed without a human.

    Attributes:
        line: Line that prevents it, from 1.
    """

    def __init__(self, line: int, why: str) -> None:
        """Keep the line, and why."""
        super().__init__(why)
        self.line = line


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: str


def rewrite(source: Source, findings: Findings, upstreams: Sequence[Upstream]) -> str:
    """Return a file's text with its imports changed, and what has to change with them.

    Args:
        source: The file.
        findings: What was found in it.
        upstreams: Packages that it may come from.

    Raises:
        Unclean: Something is missing here, or has to be changed by hand.
    """
    for found in findings.found:
        if found.verdict is Verdict.MISSING or found.is_by_hand:
            why = f"`{found.name}` has to be changed by hand"
            raise Unclean(getattr(found.node, "lineno", 1), why)
    edits: list[_Edit] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            edits += _from_import(source, node, upstreams)
        elif isinstance(node, ast.Import):
            edits += _import(source, node, findings, upstreams)
    edits += [_Edit(*source.span(node), here) for node, here in findings.uses if here]
    text = source.text
    for edit in sorted(edits, key=lambda each: each.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _from_import(
    source: Source, node: ast.ImportFrom, upstreams: Sequence[Upstream]
) -> list[_Edit]:
    """Return the edits of a ``from module import ...``."""
    module = node.module or ""
    if node.level or not any(_may_import(each, module) for each in upstreams):
        return []
    homes: dict[str, list[str]] = {}
    same = True
    for alias in node.names:
        found = from_module(module, alias.name, upstreams)
        here = ""
        if found is not None and found.kind == "module":
            here = found.upstream.judgement.modules.get(found.name, "")
        elif found is not None:
            here = found.upstream.here(module, alias.name)
        at, _, name = here.rpartition(".") if here else (module, "", alias.name)
        same = same and name == alias.name
        bound = alias.asname or alias.name
        homes.setdefault(at, []).append(name if name == bound else f"{name} as {bound}")
    if set(homes) == {module}:
        return []
    start, end = source.span(node)
    if len(homes) == 1 and same:
        (at,) = homes
        return [_name_of_module(source, node, module, at)]
    statement = source.text[start:end]
    first = source.line_start(node.lineno)
    indent = source.text[first:start]
    rest = source.text[end : source.text.find("\n", end) if "\n" in source.text[end:] else None]
    if indent.strip() or rest.strip(" \t\r") or "#" in statement:
        raise Unclean(node.lineno, "the import would be split, and shares its lines")
    newline = "\r\n" if "\r\n" in source.text else "\n"
    lines = [_spelled(at, names, indent, newline) for at, names in homes.items()]
    return [_Edit(start, end, f"{newline}{indent}".join(lines))]


def _may_import(upstream: Upstream, module: str) -> bool:
    """Return whether a module is of the package, or the one that the package lies in."""
    return upstream.has_module(module) or upstream.judgement.root.rpartition(".")[0] == module


def _name_of_module(source: Source, node: ast.ImportFrom, module: str, at: str) -> _Edit:
    """Return the edit that changes nothing of an import but its module."""
    start, _ = source.span(node)
    found = re.compile(rf"from(\s+){re.escape(module)}(?=\s)").match(source.text, start)
    if found is None:
        raise Unclean(node.lineno, "the import is written in an unusual way")
    return _Edit(found.end(1), found.end(), at)


def _spelled(module: str, names: list[str], indent: str, newline: str) -> str:
    """Return an import on one line, or on one a name where it would be long."""
    line = f"from {module} import {', '.join(names)}"
    if len(indent) + len(line) <= _WIDTH:
        return line
    listed = "".join(f"{indent}    {name},{newline}" for name in names)
    return f"from {module} import ({newline}{listed}{indent})"


def _import(
    source: Source, node: ast.Import, findings: Findings, upstreams: Sequence[Upstream]
) -> list[_Edit]:
    """Return the edits of an ``import module``."""
    edits: list[_Edit] = []
    for alias in node.names:
        upstream = next((each for each in upstreams if each.has_module(alias.name)), None)
        here = upstream and upstream.judgement.modules.get(alias.name)
        if upstream is None:
            continue
        start = source.offset(alias.lineno, alias.col_offset)
        if alias.asname:
            if here:
                edits.append(_Edit(start, start + len(alias.name), here))
            continue
        mine = [(use, to) for use, to in findings.uses if _spells(source, use, upstream)]
        if any(not to for _, to in mine):
            raise Unclean(node.lineno, "some names of the package stay and some move")
        if mine and (here or alias.name == upstream.judgement.root):
            wanted = sorted({to.rpartition(".")[0] for _, to in mine})
            edits.append(_Edit(start, start + len(alias.name), ", ".join(wanted)))
        elif here:
            edits.append(_Edit(start, start + len(alias.name), here))
    return edits


def _spells(source: Source, use: ast.Attribute, upstream: Upstream) -> bool:
    """Return whether a use spells a name of this package."""
    start, end = source.span(use)
    return re.sub(r"\s", "", source.text[start:end]).startswith(f"{upstream.judgement.root}.")
