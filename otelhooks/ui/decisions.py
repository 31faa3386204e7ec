"""What rules decided: by rule, tool and agent, over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from otelhooks.plain_text import one_line
from otelhooks.store import terminal
from otelhooks.store.reader import Decided
from otelhooks.ui.site import Site

__all__ = ["decisions"]

_PARTS = 48
_HEIGHT = 24
_NAME = 60
_ROWS = 20
_MOODS = ("good", "changed", "waiting", "observed", "bad")


@dataclass(slots=True)
class _Row:
    key: str
    name: str
    total: int = 0
    refused: int = 0
    withheld: int = 0
    withdrawn: int = 0
    counts: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])

    def add(self, one: Decided) -> None:
        key = (one.part, "observed" if one.verdict.is_withdrawn else one.verdict.mood)
        self.counts[key] = self.counts.get(key, 0) + one.count
        self.total += one.count
        if one.verdict.is_withdrawn:
            self.withdrawn += one.count
        elif one.verdict.is_withheld:
            self.withheld += one.count
        elif one.verdict.mood == "bad":
            self.refused += one.count


def decisions(site: Site, request: Request) -> Response:
    """Show how often each rule decided, and about what."""
    found = site.store.decided(_PARTS)
    tables = [
        ("rule", _rows(found.counts, lambda one: (one.policy, one.rule))),
        ("tool", _rows(found.counts, lambda one: ("", one.tool))),
        ("agent", _rows(found.counts, lambda one: ("", one.agent))),
    ]
    return site.page(
        "decisions.html",
        "decisions",
        tables=tables,
        spans=found.spans,
        first=terminal.clock(found.first_at) if found.counts else "",
        last=terminal.clock(found.last_at) if found.counts else "",
    )


def _rows(
    counts: Iterable[Decided], about: Callable[[Decided], tuple[str, str]]
) -> list[tuple[_Row, dict[str, str]]]:
    rows: dict[tuple[str, str], _Row] = {}
    for one in counts:
        group, key = about(one)
        if key:
            name = one_line(f"{group}/{key}" if group else key, _NAME)
            rows.setdefault((group, key), _Row(key, name)).add(one)
    found = sorted(rows.values(), key=lambda row: (-row.refused, -row.total, row.name))[:_ROWS]
    return [(row, _chart(row)) for row in found]


def _chart(row: _Row) -> dict[str, str]:
    """Return the bars of each mood as an SVG path: a column for each part, the refused on top."""
    heights: dict[int, int] = {}
    for (part, _), count in row.counts.items():
        heights[part] = heights.get(part, 0) + count
    scale = _HEIGHT / max(heights.values())
    paths = dict.fromkeys(_MOODS, "")
    for part in heights:
        top = float(_HEIGHT)
        for mood in _MOODS:
            if count := row.counts.get((part, mood), 0):
                top -= count * scale
                paths[mood] += f"M{part} {top:.2f}h.9v{count * scale:.2f}h-.9z"
    return {mood: path for mood, path in paths.items() if path}
