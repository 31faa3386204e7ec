"""Says what of a file works here that was written for google-antigravity's or Hedera's hooks.

    python -m otelhooks.hooks.compat.check FILE...

Line by line, ``file:line:column``: what works once its import is changed, with the new import; what
stays; what works differently, and why; what is missing, and what to use instead. The file is read,
never imported or run.
"""

from __future__ import annotations

import ast
import collections
import difflib
import json
from typing import TYPE_CHECKING, Any

import click

from otelhooks_migrate import google_antigravity, hedera_agent_kit
from otelhooks_migrate.findings import Findings, find
from otelhooks_migrate.imports import Unclean, rewrite
from otelhooks_migrate.source import Source, Unreadable, read
from otelhooks_migrate.upstream import Upstream, Verdict

if TYPE_CHECKING:
    from otelhooks_migrate.findings import Finding

__all__ = ["UPSTREAMS", "check"]

UPSTREAMS: tuple[Upstream, ...] = (
    Upstream(google_antigravity.JUDGEMENT),
    Upstream(hedera_agent_kit.JUDGEMENT),
)
"""Packages that a file may come from."""

_ALL_WORKS, _NOT_ALL, _CANNOT_READ = 0, 1, 2


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print a list of records.")
@click.option("--diff", "show", is_flag=True, help="Print the changed imports as a diff as well.")
@click.option("--write", "change", is_flag=True, help="Change the imports in the files.")
@click.pass_context
def check(
    context: click.Context, files: tuple[str, ...], as_json: bool, show: bool, change: bool
) -> None:
    """Say what of FILE works here that was written for other hooks.

    Knows the hooks and policies of google-antigravity and of the Hedera Agent Kit. Each line says
    what works once its import is changed, what stays, what differs and what is missing. Imports are
    changed only in a file where nothing is left for a human to do.

    Exit code: 0, all works; 1, something differs or is missing; 2, a file cannot be read or parsed,
    or its imports not be changed.
    """
    if as_json and show:
        raise click.UsageError("a diff is no JSON: give `--json` or `--diff`")
    records: list[dict[str, Any]] = []
    counts: collections.Counter[str] = collections.Counter()
    codes = {_ALL_WORKS}
    for path in files:
        try:
            source = read(path)
            findings = find(source.tree, UPSTREAMS)
        except Unreadable as error:
            codes.add(_tell(str(error)))
            continue
        except RecursionError:
            codes.add(_tell(f"{path}:1:1: nested too deeply"))
            continue
        counts.update(each.verdict.value for each in findings.found)
        if as_json:
            records += [as_record(source, each) for each in findings.found]
        else:
            for each in findings.found:
                click.echo(as_line(source, each))
        if any(each.verdict in {Verdict.DIFFERS, Verdict.MISSING} for each in findings.found):
            codes.add(_NOT_ALL)
        if show or change:
            codes.add(_change(source, findings, show=show, change=change))
    if as_json:
        click.echo(json.dumps(records, indent=2))
    said = ", ".join(f"{counts[each.value]} {each.value}" for each in Verdict if counts[each.value])
    click.echo(said or "no hooks or policies of another package", err=True)
    context.exit(max(codes))


def _tell(error: str) -> int:
    click.echo(f"error: {error}", err=True)
    return _CANNOT_READ


def _change(source: Source, findings: Findings, *, show: bool, change: bool) -> int:
    """Show or write a file with new imports; return the exit code."""
    try:
        text = rewritten(source, findings)
    except Unclean as error:
        click.echo(f"{source.path}:{error.line}: imports not changed: {error}", err=True)
        return _NOT_ALL
    if show:
        before, after = (each.splitlines(keepends=True) for each in (source.text, text))
        diff = difflib.unified_diff(before, after, source.path, source.path)
        click.echo("".join(diff), nl=False)
    if change and text != source.text:
        try:
            source.replace(text)
        except OSError as error:
            return _tell(f"{source.path}: cannot be written: {error.strerror}")
        click.echo(f"{source.path}: imports changed", err=True)
    return _ALL_WORKS


def rewritten(source: Source, findings: Findings) -> str:
    """Return a file's text with its imports changed.

    Args:
        source: The file.
        findings: What was found in it.

    Raises:
        Unclean: That would leave names that mean nothing.
    """
    text = rewrite(source, findings, UPSTREAMS)
    try:
        after = find(ast.parse(text), UPSTREAMS)
    except SyntaxError as error:  # such a text is never written
        raise Unclean(error.lineno or 1, "the imports are written in an unusual way") from error
    for each in after.found:
        if each.write or each.verdict is Verdict.MISSING:
            line = getattr(each.node, "lineno", 1)
            raise Unclean(line, f"`{each.name}` is imported in an unusual way")
    return text


def as_line(source: Source, finding: Finding) -> str:
    """Return a finding as a line for the terminal."""
    line, column = source.place(finding.node)
    said = [f"`{finding.name}`"]
    if finding.write:
        said.append(f"write `{finding.write}`")
    if finding.reason:
        said.append(finding.reason)
    return f"{source.path}:{line}:{column}: {finding.verdict.value}: {'; '.join(said)}"


def as_record(source: Source, finding: Finding) -> dict[str, Any]:
    """Return a finding as a record for JSON."""
    line, column = source.place(finding.node)
    return {
        "file": source.path,
        "line": line,
        "column": column,
        "verdict": finding.verdict.value,
        "name": finding.name,
        "write": finding.write,
        "reason": finding.reason,
    }
