"""``otelhooks doctor``: which frameworks are guarded here, and how far."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
from typing import TYPE_CHECKING, Any, Protocol

import click

from otelhooks import __version__, instrumentation
from otelhooks.cli import ExitCode
from otelhooks.instrumentation import _patch

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from otelhooks.instrumentation._patch import Coverage

_ABSENT = ("not installed", "off")


class Proof(Protocol):
    """What ``prove_all`` says of one framework: whether a denied body stayed unrun."""

    framework: str
    version: str
    proved: bool
    detail: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option(
    "--prove", is_flag=True, help="Run a scripted agent of each framework against a deny."
)
def doctor(as_json: bool, prove: bool) -> None:
    """Show which frameworks are guarded.

    Imports every supported framework that is installed here, patches it as `instrument()` with a
    deny rule would, and shows version, supported range, state and seats; then the tools that
    have a canonical name, and what no seat covers.

    Exit code 1: an installed framework is not guarded in full, or one could not be proved.
    """
    rows, failures = examine()
    proofs: Sequence[Proof] = ()
    if prove:
        proofs = importlib.import_module("otelhooks.instrumentation.prove").prove_all()
    tools = {
        name: dict(instrumentation.adapter(name).canonical_tools)
        for name in instrumentation.ADAPTERS
    }
    if as_json:
        report = _report(rows, failures, tools)
        if prove:
            report["proofs"] = [
                {key: getattr(proof, key) for key in Proof.__annotations__} for proof in proofs
            ]
        click.echo(json.dumps(report, indent=2))
    else:
        for line in [*_coverage(rows, failures), *_tools(tools), *_not_covered(rows)]:
            click.echo(line)
        if prove:
            for line in _proofs(proofs):
                click.echo(line)
    is_guarded = all(_is_fine(row) for row in rows) and all(proof.proved for proof in proofs)
    if not is_guarded:
        raise SystemExit(ExitCode.NO)


def examine() -> tuple[tuple[Coverage, ...], dict[str, str]]:
    """Patch and import every installed framework, look, and put everything back.

    Returns:
        The coverage, and for each module that could not be imported the error.
    """
    failures: dict[str, str] = {}
    with _quiet():
        try:
            instrumentation.install(strict=True)
            for name in _patch.modules():
                try:
                    importlib.import_module(name)
                except Exception as error:
                    failures[name] = repr(error)
            return instrumentation.coverage(), failures
        finally:
            instrumentation.uninstall()


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Keep log lines back whose content stands in the report."""
    logger = logging.getLogger("otelhooks.instrumentation")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _is_fine(row: Coverage) -> bool:
    """Whether a package is guarded, absent, or known as not covered (it refuses then)."""
    if row.state in _ABSENT or row.supported == "none":
        return True
    return row.state == "patched" and not any(seat.state == "displaced" for seat in row.seats)


def _report(
    rows: tuple[Coverage, ...], failures: dict[str, str], tools: dict[str, dict[str, str]]
) -> dict[str, Any]:
    return {
        "version": __version__,
        "frameworks": [row.to_dict() for row in rows],
        "failed_imports": failures,
        "canonical_tools": tools,
    }


def _coverage(rows: tuple[Coverage, ...], failures: dict[str, str]) -> Iterator[str]:
    head = ("FRAMEWORK", "DISTRIBUTION", "VERSION", "SUPPORTED", "STATE", "SEATS")
    table: list[tuple[str, ...]] = [head]
    for row in rows:
        patched = sum(seat.state in ("patched", "refused") for seat in row.seats)
        seats = "-" if row.state in _ABSENT else f"{patched}/{len(row.seats)}"
        cells = (row.framework, row.distribution, row.version or "-", row.supported, row.state)
        table.append((*cells, seats))
    yield from _columns(table)
    for row in rows:
        if row.error:
            yield f"{row.distribution}: {row.error}"
        for seat in row.seats:
            if seat.state in ("missing", "displaced"):
                kind = "required" if seat.required else "optional"
                yield f"{row.distribution}: {kind} seat {seat.state}: {seat.name}"
    for name, error in failures.items():
        yield f"{name}: cannot be imported: {error}"


def _tools(tools: dict[str, dict[str, str]]) -> Iterator[str]:
    yield "\nCanonical tools (a rule that names the right one matches the left one)"
    table = [
        (f"  {framework}", tool, canonical)
        for framework, names in tools.items()
        for tool, canonical in sorted(names.items())
    ]
    yield from _columns(table) if table else ["  none"]


def _not_covered(rows: tuple[Coverage, ...]) -> Iterator[str]:
    yield "\nNot covered"
    table = [(f"  {row.framework}", what, why) for row in rows for what, why in row.not_covered]
    yield from _columns(table) if table else ["  nothing known"]


def _proofs(proofs: Sequence[Proof]) -> Iterator[str]:
    yield "\nProofs (a scripted agent calls a denied tool; its body must not run)"
    table = [
        (f"  {proof.framework}", proof.version, "proved" if proof.proved else "NOT PROVED")
        for proof in proofs
    ]
    for line, proof in zip(_columns(table), proofs, strict=True):
        yield f"{line}  {proof.detail}".rstrip()
    if not proofs:
        yield "  no supported framework is installed"


def _columns(table: Sequence[tuple[str, ...]]) -> list[str]:
    if not table:
        return []
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
