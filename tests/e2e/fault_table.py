"""The table of faults, printed when all tests have run: fault, promise, sent, found.

A row is added by the test that showed it, after its assertions: what is printed was held.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import TypeAlias

import pytest

HEAD = ("fault", "promise", "sent", "found")
WIDTHS = (30, 34, 26, 36)

Row: TypeAlias = tuple[str, str, str, str]
AddRow: TypeAlias = Callable[[str, str, str, str], None]

_ROWS = pytest.StashKey[list[Row]]()


@pytest.fixture
def row(pytestconfig: pytest.Config) -> AddRow:
    """Add a row to the table: fault, promise, sent, found."""

    def row(fault: str, promise: str, sent: str, found: str) -> None:
        pytestconfig.stash.setdefault(_ROWS, []).append((fault, promise, sent, found))

    return row


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table, once even if several folders use it."""
    rows = config.stash.setdefault(_ROWS, [])
    if rows:
        terminalreporter.section("faults")
        for line in lines([HEAD, *rows]):
            terminalreporter.write_line(line)
    rows.clear()


def lines(rows: list[Row]) -> list[str]:
    """Return a table with its cells wrapped, the first row as its head."""
    printed: list[str] = []
    rule = "-+-".join("-" * width for width in WIDTHS)
    for cells in rows:
        wrapped = [textwrap.wrap(cell, width) for cell, width in zip(cells, WIDTHS, strict=True)]
        for number in range(max(map(len, wrapped))):
            line = (each[number] if number < len(each) else "" for each in wrapped)
            padded = (part.ljust(width) for part, width in zip(line, WIDTHS, strict=True))
            printed.append(" | ".join(padded).rstrip())
        printed.append(rule)
    return printed
