"""`otelhooks audit`: check a trail, and read it."""

from __future__ import annotations

import dataclasses
import heapq
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from otelhooks.plain_text import one_line, sanitize

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
    """Find and locate every edit, gap, cut, reorder, duplicate and foreign line.

    PATH may also be a file of a Hedera topic's messages, saved from a mirror node.

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
        click.echo(_as_json(finding, "finding") if as_json else one_line(str(finding)))
    if head:
        for top in report.heads:
            if as_json:
                click.echo(_as_json(top, "head"))
            else:
                click.echo(one_line(f"{top.hash} {top.file}:{top.line} {top.time}"))
    errors = sum(finding.severity == "error" for finding in report.findings)
    click.echo(
        f"{report.records} intact records in {report.files} files: {errors} errors, "
        f"{len(report.findings) - errors} warnings",
        err=True,
    )
    is_bad = errors if allow_unclosed else report.findings
    sys.exit(_FOUND if is_bad else _OK)


@audit.command("show")
@_path
@_json
@click.option("--denied", is_flag=True, help="Only denied calls.")
def show_command(path: str | None, as_json: bool, denied: bool) -> None:
    """Print the records of all processes, oldest first.

    Lines that are not intact audit records are left out and counted. Exit code 0: printed; 1: some
    lines were left out; 2: nothing to read at PATH.
    """
    from otelhooks.audit.checking import files_of
    from otelhooks.errors import ConfigError

    left_out = [0]
    try:
        chains = [_records(files, left_out) for files in files_of(path)]
        for _, _, fields in heapq.merge(*chains, key=lambda record: record[:2]):
            if "audit" in fields or (denied and fields.get("decision") != "deny"):
                continue
            click.echo(json.dumps(fields) if as_json else one_line(_row(fields)))
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


def _row(fields: dict[str, Any]) -> str:
    """Return a record as one line: time, verdict, tool, rule, reason."""
    names = ("decision", "tool_name", "rule_id", "reason")
    decision, tool, rule, reason = (str(fields.get(name) or "-") for name in names)
    return f"{fields.get('time')}  {decision:<6}  {tool:<24}  {rule:<24}  {reason}"


def _as_json(value: Any, kind: str) -> str:
    return json.dumps({"type": kind, **dataclasses.asdict(value)}, default=str)
