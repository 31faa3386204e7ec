"""What `otelhooks doctor` shows of frameworks: those that are here, what is wrong, and gaps."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from otelhooks.patching.adapters import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otelhooks.patching.patches import Coverage

__all__ = ["columns", "coverage", "fitted", "gaps", "installed", "more", "problems"]


def fitted(lines: Iterable[str], *, show_all: bool) -> Iterator[str]:
    """Yield lines that end between words: within 80 columns, or all of them in a terminal's."""
    width = 80
    if show_all:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for line in (part for text in lines for part in text.split("\n")):
        if len(line) <= width:
            yield line
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        yield from textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )


def _seats_of(row: Coverage) -> str:
    if row.state in ABSENT:
        return "-"
    here = [seat.state for seat in row.seats if seat.required or seat.state != "not imported"]
    return f"{sum(state in ('patched', 'refused') for state in here)}/{len(here)}"


def coverage(rows: Sequence[Coverage]) -> list[str]:
    """Return the table of all supported packages."""
    head = ("FRAMEWORK", "DISTRIBUTION", "VERSION", "SUPPORTED", "STATE", "SEATS")
    table = [
        (r.framework, r.distribution, r.version or "-", r.supported, r.state, _seats_of(r))
        for r in rows
        if r.supported != "none"  # a part that is not covered: listed as such
    ]
    return columns([head, *table])


def installed(rows: Sequence[Coverage]) -> list[str]:
    """Return the table of the packages that are here, which fits into 80 columns."""
    head = ("FRAMEWORK", "DISTRIBUTION", "VERSION", "STATE", "SEATS")
    table = [
        (r.framework, r.distribution, r.version or "-", r.state, _seats_of(r))
        for r in rows
        if r.supported != "none"
    ]
    if not table:
        return [
            "no supported framework is installed here; functions under @otelhooks.tool,",
            "  @otelhooks.model_call and @otelhooks.agent are guarded without one",
        ]
    lines = columns([head, *table])
    if any("missing" in (seat.state for seat in row.seats) for row in rows):
        lines.append("SEATS: guarded/known; --all names those that a version does not have")
    return lines


def problems(
    rows: Sequence[Coverage], failures: dict[str, str], *, is_short: bool = False
) -> Iterator[str]:
    """Yield what is wrong; if short, without optional seats, which a version may not have."""
    for row in rows:
        if row.error and not (is_short and row.supported == "none"):
            yield f"{row.distribution}: {row.error}"
        for seat in row.seats:
            is_told = seat.required or seat.state == "displaced" or not is_short
            if seat.state in ("missing", "displaced") and is_told:
                kind = "required" if seat.required else "optional"
                yield f"{row.distribution}: {kind} seat {seat.state}: {seat.name}"
    for name, error in failures.items():
        yield f"{name}: cannot be imported{' (--all says why)' if is_short else f': {error}'}"


def gaps(rows: Sequence[Coverage]) -> Iterator[str]:
    """Yield what no seat of an installed framework covers, one line a framework."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        found.setdefault(row.framework, {}).update(dict.fromkeys(w for w, _ in row.not_covered))
    if any(found.values()):
        yield "\nNot covered (--all says why)"
        for name, parts in found.items():
            if parts:
                yield f"  {name}: {'; '.join(parts)}"


def more(rows: Sequence[Coverage]) -> Iterator[str]:
    """Yield how to get the rest."""
    absent = sum(row.state in ABSENT and row.supported != "none" for row in rows)
    others = f", and the supported packages that are not here: {absent}" if absent else ""
    yield f"\n`otelhooks doctor --all` shows more{others}"


def columns(table: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows with aligned cells."""
    if not table:
        return []
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
