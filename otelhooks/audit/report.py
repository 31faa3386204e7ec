"""The result of a check of the trail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """Something that is not, or may not be, as the writer left it."""

    file: Path
    line: int
    """Line in the file, starting at 1; 0 means the file as a whole."""
    kind: str
    """`edited`, `replaced`, `gap`, `cut`, `emptied`,
    `missing`, `reorder`, `duplicate`, `foreign`, `extra`,
    `renamed`, `schema`, `count`, `expect`; as warnings `not closed`, `torn`, `moved`, `missing`,
    `spooled`, `lost`, `empty`."""
    message: str
    severity: Severity = "error"
    """`error`: a writer never leaves this behind. `warning`: a crash does, and tampering may."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return f"{where}: {self.severity}: {self.kind}: {self.message}"


@dataclass(frozen=True)
class Head:
    """The last record of a chain; kept elsewhere, it anchors all records before it."""

    chain: str
    file: Path
    line: int
    seq: int
    """Number of the record in its chain, from 0."""
    hash: str
    time: str
    """RFC 3339, UTC."""


@dataclass
class Report:
    """What a check found."""

    findings: list[Finding] = field(default_factory=list[Finding])
    heads: list[Head] = field(default_factory=list[Head])
    records: int = 0
    """Intact lines, including the trail's own."""
    files: int = 0

    def add(
        self, file: Path, line: int, kind: str, message: str, severity: Severity = "error"
    ) -> None:
        """Add one finding."""
        self.findings.append(Finding(file, line, kind, message, severity))
