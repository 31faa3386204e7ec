"""The table of examples and frameworks, out of the JUnit reports of their tests.

::

    python -m tests.examples.matrix FOLDER

The folder has a report a framework, ``NAME.xml``. Exits with 1 if a test failed, or none ran.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from tests.examples.catalogue import CATALOGUE
from tests.examples.documents import EXAMPLES

__all__ = ["Cell", "main", "read", "table"]

OK, OTHERWISE, SKIPPED, FAILED = "ok", "ok *", "-", "FAILED"
STYLES = "one hook in five styles"


class Cell(NamedTuple):
    """The result of one example in one framework.

    Attributes:
        word: One of the four above.
        why: Reasons why it is skipped, or otherwise than elsewhere.
        without: Layers of the story and of the trace that the framework has no seats for.
    """

    word: str
    why: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()


Columns = dict[str, dict[str, Cell]]
"""Framework to example to its result."""


def read(folder: Path) -> Columns:
    """Read the reports of a folder; a file with several hosts makes a column of each."""
    columns: Columns = {}
    for file in sorted(folder.glob("*.xml")):
        for case in ET.parse(file).iter("testcase"):
            host = case.get("classname", "").rpartition(".")[2].removeprefix("Test")
            host = host.removesuffix("Examples").lower()
            name = case.get("name", "").partition("[")[2].removesuffix("]")
            if "style" in case.get("name", ""):
                name = STYLES
            if name:
                columns.setdefault(f"{file.stem} {host}".strip(), {})[name] = _cell(case)
    return columns


def _cell(case: ET.Element) -> Cell:
    if case.find("failure") is not None or case.find("error") is not None:
        return Cell(FAILED)
    skipped = case.find("skipped")
    if skipped is not None:
        return Cell(SKIPPED, (skipped.get("message", ""),))
    said: dict[str, set[str]] = defaultdict(set)
    for each in case.iter("property"):
        said[each.get("name", "")].add(each.get("value", ""))
    why = tuple(sorted(said["otherwise"]))
    return Cell(OTHERWISE if why else OK, why, frozenset(said["without"]))


def table(columns: Columns) -> str:
    """Return the table, a section a document, and below it what is skipped or otherwise."""
    sections = {
        document: dict.fromkeys(t for e in entries for t in e.tests if t in EXAMPLES)
        for document, entries in CATALOGUE.items()
    }
    sections["All of them"] = {STYLES: None}
    wide = max(len(name) for names in sections.values() for name in names) + 2
    lines: list[str] = []
    for document, names in sections.items():
        header = "".join(column.ljust(max(len(column), 6) + 2) for column in columns)
        lines += ["", document]
        lines.append((" " * wide + header).rstrip())
        for name in names:
            cells = [
                (found[name].word if name in found else "").ljust(max(len(column), 6) + 2)
                for column, found in columns.items()
            ]
            lines.append((name.ljust(wide) + "".join(cells)).rstrip())
    return "\n".join([*lines, *_reasons(columns)])


def _reasons(columns: Columns) -> list[str]:
    lines = ["", "Not looked for, as there is no seat"]
    for column, found in columns.items():
        if without := sorted(set().union(*(cell.without for cell in found.values()))):
            lines.append(f"  {column}: {', '.join(without)}")
    for word, title in ((SKIPPED, "Not there (-)"), (OTHERWISE, "Otherwise than elsewhere (*)")):
        lines += ["", title]
        for column, found in columns.items():
            names: dict[str, list[str]] = defaultdict(list)
            for name, cell in found.items():
                for why in cell.why if cell.word == word else ():
                    names[why].append(name)
            lines += [f"  {column}: {why}: {', '.join(each)}" for why, each in names.items()]
    return lines


def main(folder: str) -> int:
    """Print the table of a folder's reports."""
    columns = read(Path(folder))
    print(table(columns))
    words = [cell.word for found in columns.values() for cell in found.values()]
    ran = len(words) - words.count(SKIPPED)
    print(f"\n{ran} played, {words.count(SKIPPED)} skipped, {words.count(FAILED)} failed")
    return int(FAILED in words or not ran)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
