"""`otelhooks audit`: check a trail, read it, and sum it up."""

from __future__ import annotations

import dataclasses
import heapq
import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from otelhooks.plain_text import counted, one_line, sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OK, _FOUND, _BAD_INPUT = 0, 1, 2

_path = click.argument("path", required=False, envvar="OTELHOOKS_AUDIT", type=click.Path())
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")


@click.group()
def audit() -> None:
    """Check and read the audit trail.

    PATH is a folder, a file stem or one segment; default: $OTELHOOKS_AUDIT, then the folder
    `audit` in the user's data folder.
    """


@audit.command("verify")
@_path
@_json
@click.option("--head", is_flag=True, help="Print the hash of each chain's last record.")
@click.option(
    "--expect",
    metavar="HASH",
    multiple=True,
    help="The hash of an earlier --head, which the trail must still contain; may be repeated.",
)
@click.option(
    "--allow-unclosed",
    is_flag=True,
    help="Exit with 0 if there are only warnings, such as those of a killed process.",
)
def verify_command(
    path: str | None, as_json: bool, head: bool, expect: tuple[str, ...], allow_unclosed: bool
) -> None:
    """Find edits, gaps, cuts, reordered, repeated and foreign lines.

    PATH is as in `otelhooks audit --help`, or a file of a Hedera topic's messages, saved from a
    mirror node. With --head the heads alone are on standard output, for a file or another host;
    findings are on standard error.

    Exit code 0: no findings; 1: findings; 2: nothing to read at PATH.
    """
    from otelhooks.audit import check
    from otelhooks.errors import ConfigError

    try:
        report = check(path, expect=expect)
    except ConfigError as error:
        click.echo(f"error: {sanitize(error)}", err=True)
        sys.exit(_BAD_INPUT)
    for finding in report.findings:
        if as_json:
            click.echo(_as_json(finding, "finding"))
        else:
            click.echo(one_line(str(finding)), err=head)
    if head:
        for top in report.heads:
            if as_json:
                click.echo(_as_json(top, "head"))
            else:
                click.echo(one_line(f"{top.hash} {top.file}:{top.line} {top.time}"))
    errors = sum(finding.severity == "error" for finding in report.findings)
    click.echo(
        f"{counted(report.records, 'intact record')} in {counted(report.files, 'file')}: "
        f"{counted(errors, 'error')}, {counted(len(report.findings) - errors, 'warning')}",
        err=True,
    )
    is_bad = errors if allow_unclosed else report.findings
    sys.exit(_FOUND if is_bad else _OK)


@audit.command("show")
@_path
@_json
@click.option("--denied", is_flag=True, help="Only calls that did not run.")
def show_command(path: str | None, as_json: bool, denied: bool) -> None:
    """Print the records of all processes, oldest first.

    PATH is as in `otelhooks audit --help`. Lines that are not intact audit records are left out and
    counted. Exit code 0: printed; 1: some lines were left out; 2: nothing to read at PATH.
    """
    from otelhooks.audit.checking import files_of
    from otelhooks.audit.period import was_stopped
    from otelhooks.errors import ConfigError

    left_out, width = [0], _width()
    try:
        chains = [_records(files, left_out) for files in files_of(path)]
        for _, _, fields in heapq.merge(*chains, key=lambda record: record[:2]):
            if "audit" in fields or (denied and not was_stopped(fields)):
                continue
            if as_json:
                click.echo(json.dumps(fields))
            else:
                click.echo(_row(fields) if width is None else _columns(fields, width))
    except ConfigError as error:
        click.echo(f"error: {sanitize(error)}", err=True)
        sys.exit(_BAD_INPUT)
    except BrokenPipeError:
        raise
    except OSError as error:
        click.echo(f"error: audit trail cannot be read: {one_line(error)}", err=True)
        sys.exit(_BAD_INPUT)
    if left_out[0]:
        click.echo(
            f"otelhooks: warning: {left_out[0]} lines left out, which are not intact records\n"
            "hint: run `otelhooks audit verify`",
            err=True,
        )
        sys.exit(_FOUND)


@audit.command("report")
@_path
@_json
@click.option("--from", "start", metavar="TIME", help="Only records from then on: 30d, 2026-11-01.")
@click.option("--to", "end", metavar="TIME", help="Only records before then; default: all.")
def report_command(path: str | None, as_json: bool, start: str | None, end: str | None) -> None:
    """Sum up a period: uses, verdicts, rules and their versions, failures, who approved.

    PATH is as in `otelhooks audit --help`. The whole trail is checked too, as `otelhooks audit
    verify` does. Exit code 0: printed; 1: the check found something; 2: nothing to read at PATH, or
    a time that is not understood.
    """
    from otelhooks.audit import check
    from otelhooks.audit.checking import files_of
    from otelhooks.audit.period import may_lack, overruled, summary
    from otelhooks.errors import ConfigError

    try:
        after, before = _bound(start, ""), _bound(end, "~")  # a later text than any time
        if after >= before:
            raise ConfigError(f"`--from {start}` is not before `--to {end}`", hint="swap them")
        checked = check(path)
        files = files_of(path)
        refused = overruled(fields for chain in files for _, _, fields in _records(chain, [0]))
        merged = heapq.merge(
            *(_records(chain, [0]) for chain in files), key=lambda record: record[:2]
        )
        found = summary((fields for time, _, fields in merged if after <= time < before), refused)
    except ConfigError as error:
        click.echo(f"error: {sanitize(error)}", err=True)
        sys.exit(_BAD_INPUT)
    except OSError as error:
        click.echo(f"error: audit trail cannot be read: {one_line(error)}", err=True)
        sys.exit(_BAD_INPUT)
    errors = sum(finding.severity == "error" for finding in checked.findings)
    trail = {"errors": errors, "warnings": len(checked.findings) - errors}
    found = {"from": after or None, "to": before.rstrip("~") or None, "trail": trail, **found}
    found["may_lack"] = may_lack(checked)
    if as_json:
        click.echo(json.dumps(found))
    else:
        for line in _report(found):
            click.echo(one_line(line))
    sys.exit(_FOUND if checked.findings else _OK)


_NOT_HERE = (
    "Not in a trail: users, results, when a call or a use ended, and what no rule was asked about."
)


def _bound(text: str | None, default: str) -> str:
    """Return a time as records write it, so that both can be compared as texts."""
    from datetime import datetime, timezone

    from otelhooks.cli.since import since_ns

    if text is None:
        return default
    seconds, rest = divmod(since_ns(text), 10**9)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def _report(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a report."""
    processes, trail = found["processes"], found["trail"]
    yield f"Period     {found['from'] or 'the beginning'} to {found['to'] or 'now'}"
    yield f"Records    {found['records']}, from {found['first'] or '-'} to {found['last'] or '-'}"
    yield f"Trail      {trail['errors']} errors, {trail['warnings']} warnings, in all of it"
    yield (
        f"Processes  {processes['began']} began, {processes['ended']} ended, "
        f"{processes['lost']} records lost" + (", maybe more" if found["may_lack"] else "")
    )
    if found["may_lack"]:
        yield f"           {found['may_lack']}"
    for title, name in (("Verdicts", "verdicts"), ("Failures", "failures")):
        counts = "; ".join(f"{what} {number}" for what, number in found[name].items())
        yield f"{title:<11}{counts or 'none'}"
    for title, group in (
        ("Rules that denied, asked or changed something", "rules"),
        ("Policies that decided", "policies"),
        ("People and services that answered", "people"),
        ("Uses, from the first to the last verdict", "uses"),
    ):
        yield title
        for row in found[group]:
            cells = (
                f"{name} {', '.join(value) if name == 'agents' else value}"
                for name, value in row.items()
                if value not in ("", [])
            )
            yield "  " + "; ".join(cells)
        if not found[group]:
            yield "  none"
    yield _NOT_HERE


def _records(files: list[Path], left_out: list[int]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Read the intact records of one chain, with their sort keys."""
    from otelhooks.audit.chain import parse

    stored = -1  # a spool that was not deleted repeats records of the segment
    for path in files:
        with path.open("rb") as lines:
            for raw in lines:
                record = parse(raw.rstrip(b"\n"))
                if record is None or not record.is_intact:
                    left_out[0] += raw.endswith(b"\n")  # else it is still being written
                elif path.suffix != ".spool" or record.seq > stored:
                    stored = max(stored, record.seq)
                    fields = {**record.fields, "hash": record.hash}
                    yield str(fields.get("time")), record.hash, fields


def _shown(fields: dict[str, Any]) -> list[str]:
    """Return verdict, tool, rule and reason; for what is about no tool, its point in brackets."""
    point = fields.get("point")
    about = fields.get("tool_name") or (f"({point})" if point else "")
    texts = (fields.get("decision"), about, fields.get("rule_id"), fields.get("reason"))
    return [one_line(text or "") for text in texts]


def _row(fields: dict[str, Any]) -> str:
    """Return a record as one line: time, verdict, tool, rule, reason."""
    verdict, tool, rule, reason = (text or "-" for text in _shown(fields))
    verdict += _outcome(fields)
    return f"{one_line(fields.get('time'))}  {verdict:<13}  {tool:<24}  {rule:<24}  {reason}"


def _outcome(fields: dict[str, Any]) -> str:
    """Return the outcome of a call, to follow its verdict; empty if that says it."""
    outcome = fields.get("approval_status") or fields.get("enforcement")
    if fields.get("withheld"):
        outcome = "withheld"
    return f" {one_line(outcome)}" if outcome not in (None, "", "allowed", "blocked") else ""


def _columns(fields: dict[str, Any], width: int) -> str:
    """Return the same for a terminal: in columns, the reason below them if it does not fit."""
    from rich.cells import cell_len, set_cell_size

    def cut(text: str, size: int) -> str:
        return text if cell_len(text) <= size else f"{set_cell_size(text, size - 3)}..."

    verdict, tool, rule, reason = _shown(fields)
    cells = zip((verdict + _outcome(fields), tool, rule), (13, 20, 20), strict=True)
    parts = (set_cell_size(cut(text, size), size) for text, size in cells)
    row = "  ".join((f"{one_line(fields.get('time')):.19}Z", *parts, reason)).rstrip()
    if not reason or cell_len(row) <= width:
        return cut(row, width)
    return f"{cut(row.removesuffix(reason).rstrip(), width)}\n{' ' * 22}{cut(reason, width - 22)}"


def _width() -> int | None:
    """Return the columns of the terminal, None where the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _as_json(value: Any, kind: str) -> str:
    return json.dumps({"type": kind, **dataclasses.asdict(value)}, default=str)
