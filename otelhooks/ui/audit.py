"""The audit trail: whether it is whole, and what was decided on each day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

from otelhooks.audit import check
from otelhooks.audit.chain import parse
from otelhooks.audit.checking import files_of
from otelhooks.ui.site import Site

__all__ = ["audit"]

_DECISIONS = ("allow", "modify", "ask", "deny", "withheld")


def audit(site: Site, request: Request) -> Response:
    """Check the trail, and count its decisions by day."""
    path = site.settings.audit
    report = check(path)
    counts = Counter(_days(path))
    days = sorted({day for day, _ in counts}, reverse=True)
    return site.page(
        "audit.html",
        "audit",
        report=report,
        decisions=_DECISIONS,
        days=[(day, [counts[day, decision] for decision in _DECISIONS]) for day in days],
    )


def _days(path: str | None) -> Iterator[tuple[str, str]]:
    """Yield day and decision of each intact record."""
    seen: set[str] = set()  # a spool may repeat records of its segment
    for files in files_of(path):
        for file in files:
            with file.open("rb") as lines:
                for line in lines:
                    record = parse(line.rstrip(b"\n"))
                    if record is None or not record.is_intact or "audit" in record.fields:
                        continue
                    if record.hash not in seen:
                        seen.add(record.hash)
                        fields = record.fields
                        decision = "withheld" if fields.get("withheld") else fields.get("decision")
                        yield str(fields.get("time"))[:10], str(decision)
